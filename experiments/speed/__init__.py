"""How fast: scoring, `annotate`, training, decoding; and memory. `python -m experiments.speed --help`."""
