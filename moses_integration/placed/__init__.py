"""The table of a text: each phrase pair once for each place where it can be used, so its score may depend on that."""

IN_CONTEXT = "in-context"
"""Name of the comments of an ini that say where the networks lie whose column depends on the text."""
