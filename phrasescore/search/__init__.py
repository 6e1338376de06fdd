"""Finding translations: greedy search, beam search, sampling."""
