"""The kinds of scorers of n-best lists, and a choice among them: apart, for the command line is not to load networks to
know them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from moses_integration.ini import LABEL

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


@dataclass(frozen=True)
class ScorerChoice:
    """A scorer as a user names it: `LABEL=KIND:PATH`."""

    label: str
    kind: str
    """One of `KINDS`."""
    path: Path
    """Model folder, or file of numbers."""

    @classmethod
    def parse(cls, text: str) -> ScorerChoice:
        """Parse `LABEL=KIND:PATH`.

        Raises:
            ValueError: it is none; the message says why.
        """
        label, _, rest = text.partition("=")
        kind, _, path = rest.partition(":")
        if not LABEL.fullmatch(label):
            raise ValueError(f"`{text}` does not begin with a label of letters and digits, as in RNN=phrases:rnn/")
        if kind not in KINDS or not path:
            raise ValueError(f"`{text}` is not LABEL=KIND:PATH with one of the kinds {', '.join(KINDS)}")
        return cls(label, kind, Path(path))
