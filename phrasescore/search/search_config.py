"""Options of the search."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, fields
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from phrasescore.configuration import option
from phrasescore.errors import UsageError, UserError, spelled

LengthPenalty = Literal["none", "per-word", "wu"]

_NO_LIMIT = 1e9
"""Maximum words of a translation for an infinite ratio."""
_FOR_SAMPLES = ("temperature", "seed")
_FOR_SEARCHES = ("beam", "length_penalty", "coverage")
_FOR_SEVERAL = ("length_penalty", "coverage")


@dataclass(frozen=True)
class SearchConfig:
    """Options of search, sampling and ranking."""

    beam: int = option(5, "beam width; 1 is greedy search", minimum=1)
    n_best: int = option(
        1, "translations of each sentence, at most --beam, or samples to draw; more than one requires --json", minimum=1
    )
    length_penalty: LengthPenalty = option(
        "per-word",
        "finished translations are ranked by ln p (none), by ln p per word and end symbol (per-word), or by ln p / "
        "((5 + symbols) / 6)^alpha (wu)",
    )
    alpha: float = option(0.6, "exponent of the length penalty wu", minimum=0, maximum=100)
    coverage: float = option(
        0.0,
        "weight of the coverage penalty: the sum over the source words of ln min(1, total attention) is added to the "
        "score by which translations are ranked",
        minimum=0,
        maximum=1e6,
    )
    max_ratio: float = option(2.0, "maximum words of a translation for each source word ...", minimum=0)
    max_extra: int = option(10, "... plus this number of words; then the end symbol is forced", minimum=0)
    forbid_unknown: bool = option(False, "never generate <unk>; take the most probable known word instead")
    replace_unknown: bool = option(False, "replace each <unk> by the source word with the highest attention weight")
    sample: bool = option(False, "draw translations from the network instead of searching for the best")
    temperature: float = option(
        1.0, "with --sample: draw from p^(1/T); values below 1 prefer probable words", minimum=0.001, maximum=1e6
    )
    seed: int = option(1, "with --sample: random seed; each sentence has its own generator", minimum=0)

    def check(self, *, has_attention: bool) -> None:
        """Check that the options are compatible with each other and with the network.

        Raises:
            UsageError: an option contradicts another or has no effect.
            UserError: an option needs attention, and the network has none.
        """
        if self.n_best > self.beam and not self.sample:
            raise UsageError(
                f"{spelled('n_best', self.n_best)}: is more than the beam holds; give {spelled('beam', self.n_best)}"
            )
        default = SearchConfig()
        self.check_effect(
            [item.name for item in fields(self) if getattr(self, item.name) != getattr(default, item.name)]
        )
        for name in ("coverage", "replace_unknown"):
            if getattr(self, name) and not has_attention:
                raise UserError(
                    f"{spelled(name)}: needs attention, which this network does not have; leave it out, or give a "
                    "network with attention"
                )

    def check_effect(self, given: Collection[str]) -> None:
        """Check that each option given, even with its default value, has an effect.

        Raises:
            UsageError: an option has none.
        """
        for name in given:
            if self.sample and name in _FOR_SEARCHES:
                raise UsageError(f"{spelled(name)}: is for searching, and {spelled('sample')} draws; leave one out")
            if not self.sample and name in _FOR_SAMPLES:
                raise UsageError(f"{spelled(name)}: is for drawing translations; give {spelled('sample')} too")
        if "alpha" in given and self.length_penalty != "wu":
            raise UsageError(
                f"{spelled('alpha')}: is the exponent of another length penalty; give "
                f"{spelled('length_penalty', 'wu')} too, or leave it out"
            )
        for name in _FOR_SEVERAL:
            # No penalty is a valid choice with one translation too.
            if self.beam == 1 and name in given and getattr(self, name) not in ("none", 0.0):
                raise UsageError(
                    f"{spelled(name)}: ranks several translations, and {spelled('beam', 1)} finds one; leave it out, "
                    "or widen the beam"
                )
        if self.forbid_unknown and self.replace_unknown:
            raise UsageError(
                f"{spelled('replace_unknown')}: finds no <unk> with {spelled('forbid_unknown')}; leave one of them out"
            )

    def longest(self, source_words: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the maximum number of words of the translations of sources with these numbers of words."""
        by_source: NDArray[np.int64] = np.minimum(self.max_ratio * source_words, _NO_LIMIT).astype(np.int64)
        return by_source + self.max_extra
