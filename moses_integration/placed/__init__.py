"""The table of a text: each phrase pair once for each place where it can be used, so its score may depend on that."""
