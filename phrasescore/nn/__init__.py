"""The networks, one concept a file, each equation beside its number in Cho et al. 2014 (arXiv 1406.1078v3)."""
