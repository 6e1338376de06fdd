"""The systems of the literature's tutorials as translators of sentences: one table a configuration."""
