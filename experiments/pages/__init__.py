"""Write the figures of README.md and docs/ from the files of docs/results, their only source."""
