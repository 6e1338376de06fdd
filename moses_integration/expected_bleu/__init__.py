"""A function of phrase pairs that is trained to raise the expected BLEU of n-best lists of the training text."""
