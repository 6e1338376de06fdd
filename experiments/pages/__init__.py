"""The figures of README.md and docs/, which come from the files of docs/results and from nowhere else."""
