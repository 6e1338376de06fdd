"""The continuous-space language model (CSLM): text, training, back-off, scoring. Its network is `nn/neural_lm.py`."""
