"""The rows of an ablation. The name of a row lists the parts that it adds to the baseline, as in `+RNN+CSLM+WP`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

BASELINE = "baseline"
PARTS = {
    "RNN": "a column of the table: ln p(target | source) of the encoder-decoder",
    "PER-WORD": "with RNN: divided by the target words plus one",
    "REVERSE": "one more column: ln p(source | target) of a second encoder-decoder",
    "WP": "with RNN: one more column, the count of target words that are unknown to the network",
    "XBLEU": "one more column: a phrase-pair model trained for expected BLEU on n-best lists of the training text",
    "CTX": "one more column, made for each text: ln p(target phrase | source phrase in its sentence)",
    "ENSEMBLE": "with RNN or CTX: the mean of three networks",
    "CSLM": "a neural language model as a feature of the decoder",
    "NNJM": "a joint model as a feature of the decoder: a neural language model that also reads source words",
    "RESCORING": "with CSLM: not in the decoder, but added to its n-best lists",
    "S2S": "added to the n-best lists: ln p(sentence) of an encoder-decoder trained on sentences",
    "CHANNEL": "added to the n-best lists: ln p(source sentence | target sentence) of a second encoder-decoder",
}
"""Descriptions of the parts."""
RNN, REVERSE, PHRASE_PAIR_MODEL, CONTEXT, CSLM, NNJM = "rnn", "reverse", "xbleu", "ctx", "cslm", "nnjm"
S2S, CHANNEL = "s2s", "channel"
"""Names of the networks, and of the phrase-pair model that is trained for expected BLEU, in the first training."""
ENSEMBLE = 3
"""Networks of an ensemble: those of the first trainings."""
_NEEDED = {"PER-WORD": ["RNN"], "WP": ["RNN"], "ENSEMBLE": ["RNN", "CTX"], "RESCORING": ["CSLM"]}
"""Parts that modify another part, and the parts of which the row must have one."""


@dataclass(frozen=True)
class Column:
    """A column of network scores in the phrase table."""

    name: str
    networks: tuple[str, ...]
    """Names of the networks or of the phrase-pair model; scores of several networks are averaged."""
    options: tuple[str, ...] = ()
    """Options of `phrasescore annotate`."""
    scores: tuple[str, ...] = ("network",)
    """Kinds of scores, one per column of the table."""


@dataclass(frozen=True)
class Row:
    """A system of the ablation, with the networks of one training."""

    parts: frozenset[str]
    training: int = 1

    @classmethod
    def parse(cls, name: str) -> Row:
        """Parse the name of a row.

        Raises:
            ValueError: the name is invalid; the message says why.
        """
        first, *parts = name.split("+")
        if name == BASELINE:
            return cls(frozenset())
        unknown = [part for part in parts if part not in PARTS]
        if first or not parts or unknown:
            raise ValueError(f"{name} is neither {BASELINE} nor made of +{', +'.join(PARTS)}")
        twice = [part for part in PARTS if parts.count(part) > 1]
        if twice:
            raise ValueError(f"{name} has {twice[0]} twice")
        for part in parts:
            if part in _NEEDED and not set(_NEEDED[part]) & set(parts):
                raise ValueError(f"{name} has {part} without {' or '.join(_NEEDED[part])}")
        return cls(frozenset(parts))

    @property
    def name(self) -> str:
        """The parts in the order of `PARTS`, but RNN and CSLM first as in the paper."""
        order = ["RNN", "CSLM", "NNJM", *PARTS]
        return "".join(f"+{part}" for part in sorted(self.parts, key=order.index)) or BASELINE

    @property
    def label(self) -> str:
        """The name of its files and steps."""
        return self.name if self.training == 1 else f"{self.name}.training{self.training}"

    def trainings(self, number: int) -> list[Row]:
        """Return the row with the networks of each of several trainings.

        The baseline has no networks; an ensemble already has those of several trainings.
        """
        last = number if self.parts and "ENSEMBLE" not in self.parts else 1
        return [Row(self.parts, training) for training in range(1, last + 1)]

    def networks(self, name: str) -> tuple[str, ...]:
        """Return the names of its networks of one kind, several for an ensemble."""
        is_ensemble = "ENSEMBLE" in self.parts and name in (RNN, CONTEXT)
        numbers = range(1, ENSEMBLE + 1) if is_ensemble else [self.training]
        return tuple(numbered(name, number) for number in numbers)

    @property
    def listed(self) -> tuple[str, ...]:
        """The networks that rescore n-best lists instead of being used in the decoder."""
        parts = {"CSLM": "RESCORING", "S2S": "S2S", "CHANNEL": "CHANNEL"}
        return tuple(label for label, part in parts.items() if part in self.parts)

    @property
    def decoded(self) -> Row:
        """The row that produces the n-best lists; the row itself without rescoring."""
        parts = self.parts - {*self.listed, "RESCORING"}
        return Row(parts, self.training if parts else 1)

    def columns(self) -> list[Column]:
        """Return the columns that the row appends to the table, in order."""
        columns = []
        if "RNN" in self.parts:
            networks = self.networks(RNN)
            name, appended = "ensemble" if len(networks) > 1 else networks[0], ["score"]
            if "PER-WORD" in self.parts:
                name, appended = f"{name}-per-word", ["per-word"]
            scores = ["network"]
            if "WP" in self.parts:
                name, appended, scores = f"{name}-wp", [*appended, "unknown-target"], [*scores, "unknown target words"]
            columns.append(Column(name, networks, ("--columns", *appended), tuple(scores)))
        if "REVERSE" in self.parts:
            [name] = self.networks(REVERSE)
            columns.append(Column(name, (name,), scores=("network, source given target",)))
        if "XBLEU" in self.parts:
            [name] = self.networks(PHRASE_PAIR_MODEL)
            columns.append(Column(name, (name,), scores=("expected BLEU",)))
        return columns


_OF_PAPER = ("+RNN", "+CSLM", "+RNN+CSLM", "+RNN+CSLM+WP")
"""The rows of Cho et al. 2014, Table 1, and a row with CSLM alone."""
DEFAULT_ROWS = tuple(map(Row.parse, (BASELINE, *_OF_PAPER, "+XBLEU", "+CTX", "+CSLM+CTX", "+S2S")))


def numbered(name: str, training: int) -> str:
    """Return the name of a network of a training: `rnn`, `rnn-2`, ..."""
    return name if training == 1 else f"{name}-{training}"


def extended_by(row: Row, rows: Iterable[Row]) -> list[Row]:
    """Return the largest rows that `row` extends, without the baseline."""
    smaller = [other for other in rows if other.parts and other.parts < row.parts]
    return [one for one in smaller if not any(one.parts < other.parts for other in smaller)]
