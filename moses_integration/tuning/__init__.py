"""Minimum error rate training (MERT), embedded or by Moses' own scripts."""
