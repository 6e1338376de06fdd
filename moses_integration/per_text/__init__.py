"""Per-text phrase tables: one copy of a phrase pair for each text position, so that its score may depend on context."""
