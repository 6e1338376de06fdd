"""Moses phrase tables as bytes: parse, stream in order, append columns, filter, check."""
