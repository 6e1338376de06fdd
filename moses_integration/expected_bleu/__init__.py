"""The phrase-pair model of +XBLEU: n-best lists of the training text, training on them, and the estimate of a gain."""
