"""The command lines `phrasescore-smt` and `phrasescore-decoder`."""
