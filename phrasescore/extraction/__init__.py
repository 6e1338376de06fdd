"""Occurrences of phrase pairs in word-aligned text."""
