"""The kinds of scorers of n-best lists: apart, for the command line is not to load networks to know them."""

KINDS = {
    "phrases": "sum of ln p(target | source), or the reverse by a network trained so, over the phrases of the "
    "segmentation, which the list must have",
    "phrases-per-word": "the same, each divided by the predicted words of the phrase plus one",
    "sentences": "ln p(target sentence | source sentence), or the reverse",
    "sentences-per-word": "the same, divided by the predicted words plus one",
    "unknown": "count of target words that the network, or the language model, does not know",
    "unknown-source": "count of source words that it does not know, the same for all translations of a sentence",
    "unknown-both": "both counts together",
    "lm": "ln p of the target sentence under a model of `phrasescore lm train`",
    "lm-unnormalised": "the same by one trained with --self-normalise, taken at its word",
    "numbers": "numbers from a file, a line for each entry of the list",
}
"""What a scorer can be, and what its feature is then."""
LANGUAGE_MODELS = ("lm", "lm-unnormalised")
"""The kinds that need a back-off model, for words outside the shortlist."""
