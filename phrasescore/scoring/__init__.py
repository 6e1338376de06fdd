"""Scoring phrase pairs and writing the scores into phrase tables."""
