"""What can be set about the analysis."""

from __future__ import annotations

from dataclasses import dataclass

from phrasescore.configuration import option


@dataclass(frozen=True)
class Settings:
    """Sizes of the samples. The same seed gives the same report."""

    seed: int = option(1, "of all that is drawn", minimum=0)
    sources: int = option(8, "frequent and rare source phrases to show", minimum=1)
    samples: int = option(50, "targets to draw from the network for each of them", minimum=1)
    pairs: int = option(5000, "pairs of the scatter and of each measurement", minimum=10)
    phrases: int = option(5000, "phrases of the map and of the retrieval", minimum=40)
    words: int = option(3000, "most frequent target words to map", minimum=40)
