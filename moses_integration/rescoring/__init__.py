"""New features for the translations of n-best lists, and choosing among them anew."""
