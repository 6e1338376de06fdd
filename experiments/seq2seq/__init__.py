"""The systems of the literature compared, as translators of sentences or as scorers of phrases."""
