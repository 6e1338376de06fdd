"""Measure the speed of scoring, `annotate`, training and decoding. See `python -m experiments.speed --help`."""
