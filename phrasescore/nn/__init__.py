"""The networks, one concept per file. Equation numbers refer to Cho et al. 2014 (arXiv 1406.1078v3)."""
