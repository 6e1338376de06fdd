"""Choice cross-entropy: how well features choose among a table's own options of a source, on text it has not seen."""
