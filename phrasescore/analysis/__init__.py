"""Analysis of a network: vectors, gates, samples, scores per word."""
