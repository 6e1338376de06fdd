"""Ablations, and what belongs to them, as one HTML file that needs no other file and no network."""
