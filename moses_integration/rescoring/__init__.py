"""n-best rescoring: add features to n-best lists, and rerank them."""
