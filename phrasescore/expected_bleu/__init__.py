"""The phrase-pair model, a log-linear model trained on n-best lists, as a column of the phrase table."""
