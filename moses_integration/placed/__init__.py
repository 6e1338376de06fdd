"""The table of a text: each phrase pair once for each place where it can be used, so its score may depend on that."""

IN_CONTEXT = "in-context"
"""Name of the comments of an ini that say where the networks lie whose column depends on the text."""
IN_CONTEXT_SHA256 = "in-context-sha256"
"""Name of the comments that say which weights they had when the ini was tuned."""
OPTIONS_BY = "in-context-options-by"
"""Name of the comments that say, as lines of weights, by which weights the options of a phrase are chosen: those that
tuning began with. The weights that it finds trust the network, and may be against what else is known of a pair."""
PLACED = "placed"
"""Name of the comment that says of an ini that its tables are those of one text: the SHA-256 of that, with names."""
