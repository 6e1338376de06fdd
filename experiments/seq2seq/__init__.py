"""Compare systems of the literature, as translators of sentences or as scorers of phrases."""
