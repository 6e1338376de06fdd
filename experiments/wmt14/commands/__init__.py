"""The steps of the experiment as commands: `python -m experiments.wmt14 COMMAND`."""
