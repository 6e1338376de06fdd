"""Tuning of weights: minimum error rate training (MERT) with decoding, and expected BLEU of n-best lists."""
