"""The table of a text: each phrase pair once for each place where it can be used, so its score may depend on that."""

PLACED = "placed"
"""Name of the comment that says of an ini that its tables are those of one text: the SHA-256 of that, with names."""
