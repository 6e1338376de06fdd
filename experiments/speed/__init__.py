"""How fast: scoring, training, the pipeline, memory. `python -m experiments.speed --help`."""
