"""Format translations like Moses (moses/Manager.cpp)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from moses_integration.decoder.graph import Derivation, SearchGraph, Step
from moses_integration.decoder.model import LogLinearModel
from moses_integration.decoder.phrases import Words
from moses_integration.nbest import NbestEntry, format_features, format_number


@dataclass(frozen=True)
class Translation:
    """The output for one sentence."""

    line: bytes
    """The translation, with a space after each word."""
    nbest: list[bytes]
    """Lines of the n-best list."""
    unknown: int
    """Number of words that are not in the phrase table."""


@dataclass(frozen=True)
class Translating:
    """Task: translate a sentence and format the results."""

    nbest: int = 0
    """Size of the n-best list."""
    distinct: bool = True
    segmentation: bool = True
    """Whether the n-best list has source and target ranges of phrases."""
    alignment: bool = True
    """Whether the n-best list has word alignments."""
    trace: bool = False
    """Whether the translation has the source range after each phrase."""

    @property
    def needs_arcs(self) -> bool:
        """Whether n-best lists are wanted."""
        return self.nbest > 0

    def __call__(self, number: int, sentence: Words, model: LogLinearModel, graph: SearchGraph) -> Translation:
        """Return the output for the sentence."""
        found = graph.n_best(self.nbest, self.distinct) if self.nbest else graph.n_best(1, distinct=False)
        entries = (nbest_entry(model, number, one, self.segmentation, self.alignment) for one in found[: self.nbest])
        return Translation(
            translation_line(found[0] if found else None, self.trace),
            [entry.to_line() for entry in entries],
            model.count_unknown(sentence),
        )


def translation_line(derivation: Derivation | None, trace: bool = False) -> bytes:
    """Return the words, each with a space after it; with `trace`, also the source range `|0-2| ` of each phrase."""
    parts = []
    for step in derivation.steps if derivation else ():
        parts += [word + b" " for word in step.target.words]
        if trace and step.target.words:
            parts.append(b"|%d-%d| " % (step.start, step.end))
    return b"".join(parts)


def nbest_entry(
    model: LogLinearModel, sentence: int, derivation: Derivation, segmentation: bool, alignment: bool
) -> NbestEntry:
    """Return a derivation as an entry of an n-best list, with the values of the tuneable features."""
    extras = []
    if segmentation:
        extras.append(
            b" ".join(
                _range(step.start, step.end) + b"=" + _range(first, last)
                for step, first, last in _target_ranges(derivation)
            )
        )
    if alignment:
        links = [
            b"%d-%d " % (step.start + source, first + target)
            for step, first, _ in _target_ranges(derivation)
            for source, target in sorted(step.target.alignment)
        ]
        extras.append(b"".join(links) or b" ")
    values = {f.label: derivation.values_F[model.columns[f.label]].tolist() for f in model.features if f.tuneable}
    words = b" ".join(derivation.words)
    return NbestEntry(sentence, words, format_features(values), format_number(derivation.score), tuple(extras))


def _target_ranges(derivation: Derivation) -> Iterator[tuple[Step, int, int]]:
    """Yield each step with the first and last word of its target range."""
    first = 0
    for step in derivation.steps:
        end = first + len(step.target.words)
        yield step, first, end - 1
        first = end


def _range(first: int, last: int) -> bytes:
    return b"%d-%d" % (first, last) if first < last else b"%d" % first
