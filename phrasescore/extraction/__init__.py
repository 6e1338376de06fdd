"""Phrase pairs where they occur in word-aligned text."""
