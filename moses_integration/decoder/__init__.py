"""The embedded phrase-based decoder: the same model and the same files as Moses."""
