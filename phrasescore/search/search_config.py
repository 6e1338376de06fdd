"""How translations are searched, as data."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, fields
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from phrasescore.configuration import option
from phrasescore.errors import UsageError, UserError

LengthPenalty = Literal["none", "per-word", "wu"]

_NO_LIMIT = 1e9
"""What an infinite ratio amounts to, in words."""
_FOR_SAMPLES = ("temperature", "seed")
_FOR_SEARCHES = ("beam", "length_penalty", "coverage")
_FOR_SEVERAL = ("length_penalty", "coverage")


@dataclass(frozen=True)
class SearchConfig:
    """Which translations are looked for and which of them is the best."""

    beam: int = option(5, "translations followed at once; 1 is greedy search", minimum=1)
    n_best: int = option(
        1, "translations of each sentence, at most --beam, or samples to draw; more than one need --json", minimum=1
    )
    length_penalty: LengthPenalty = option(
        "per-word",
        "finished translations compete by ln p (none), by ln p per word and end symbol (per-word), or by ln p / "
        "((5 + symbols) / 6)^alpha (wu)",
    )
    alpha: float = option(0.6, "exponent of the length penalty wu", minimum=0, maximum=100)
    coverage: float = option(
        0.0,
        "weight of the coverage penalty: the sum over the source words of ln min(1, attention they got) is added to "
        "what translations compete by",
        minimum=0,
        maximum=1e6,
    )
    max_ratio: float = option(2.0, "a translation has at most so many words for each source word ...", minimum=0)
    max_extra: int = option(10, "... and so many more; the end symbol follows then", minimum=0)
    forbid_unknown: bool = option(False, "never say <unk>, but the most probable known word")
    replace_unknown: bool = option(False, "put the source word that attention looks at most in the place of each <unk>")
    sample: bool = option(False, "draw translations from the network instead of searching for the best")
    temperature: float = option(
        1.0, "with --sample: draw from p^(1/T), so that less than 1 prefers probable words", minimum=0.001, maximum=1e6
    )
    seed: int = option(1, "with --sample: seed; each sentence has random numbers of its own", minimum=0)

    def check(self, *, has_attention: bool) -> None:
        """Check that the options go together, and with the network.

        Raises:
            UsageError: they do not go together.
            UserError: the network has not what they need.
        """
        if self.n_best > self.beam and not self.sample:
            raise UsageError(f"--n-best {self.n_best}: is more than the beam holds; give --beam {self.n_best}")
        default = SearchConfig()
        self.check_effect(
            [item.name for item in fields(self) if getattr(self, item.name) != getattr(default, item.name)]
        )
        for name in ("coverage", "replace_unknown"):
            if getattr(self, name) and not has_attention:
                raise UserError(
                    f"{_flag(name)}: needs attention, which this network does not have; leave it out or "
                    "give a network trained with --attention"
                )

    def check_effect(self, given: Collection[str]) -> None:
        """Check that the options that were given, even if with the values they have anyway, would change something.

        Raises:
            UsageError: one would not.
        """
        if problem := self._without_effect(given):
            raise UsageError(problem)

    def _without_effect(self, given: Collection[str]) -> str | None:
        """Return the sentence about an option that would change nothing, if there is one among those given."""
        for name in given:
            if self.sample and name in _FOR_SEARCHES:
                return f"{_flag(name)}: is for searching, and --sample draws; leave one of them out"
            if not self.sample and name in _FOR_SAMPLES:
                return f"{_flag(name)}: is for drawing translations; give --sample too, or leave it out"
        if "alpha" in given and self.length_penalty != "wu":
            return "--alpha: is the exponent of another length penalty; give --length-penalty wu too, or leave it out"
        for name in _FOR_SEVERAL:
            # To say that there is no penalty is true of one translation too.
            if self.beam == 1 and name in given and getattr(self, name) not in ("none", 0.0):
                return f"{_flag(name)}: chooses among several translations, and --beam 1 finds one; leave it out"
        if self.forbid_unknown and self.replace_unknown:
            return "--replace-unknown: finds no <unk> with --forbid-unknown; leave one of them out"
        return None

    def longest(self, source_words: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return how many words translations may have, for sources of so many words."""
        by_source: NDArray[np.int64] = np.minimum(self.max_ratio * source_words, _NO_LIMIT).astype(np.int64)
        return by_source + self.max_extra


def _flag(name: str) -> str:
    """Return the option of a field."""
    return "--" + name.replace("_", "-")
