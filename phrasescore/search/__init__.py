"""Translation with a network: greedy search, beam search, sampling."""
