"""A linear function of phrase pairs that was trained on n-best lists, as a column of the phrase table."""
