"""What a toolkit does: build tables, tune, translate."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from moses_integration.building.aligned_corpus import Corpus
from moses_integration.ini import MosesIni, Weights
from moses_integration.tuning.checkpoint import TuningCheckpoint
from moses_integration.tuning.tuning_config import TuningConfig
from moses_integration.tuning.tunings import Tuning
from phrasescore.text import Say, Show, silently, unseen

ToolkitName = Literal["auto", "moses", "embedded"]
Binary = Literal["compact", "probing"]
"""Binary forms of a phrase table: PhraseDictionaryCompact and ProbingPT."""
Progress = Callable[[int, int], None]
"""Takes how many sentences are done, and how many there are."""


@dataclass(frozen=True)
class NbestRequest:
    """An n-best list of distinct translations to write beside the best ones."""

    path: Path
    size: int


@dataclass(frozen=True)
class TuningRequest:
    """What weights are tuned on, and how."""

    source: Path
    """Prepared dev sentences."""
    references: Sequence[Path]
    """Their translations, a file for each set of them."""
    seeds: Sequence[int]
    """Of the random starts."""
    settings: TuningConfig
    folder: Path
    """For what may be looked at afterwards."""
    say: Say = silently
    """Told of each decoding, or of each seed."""
    show: Show = unseen
    """Shown what runs."""
    checkpoint: TuningCheckpoint | None = None
    """Where the steps of the tuning are kept, if the toolkit can resume after each."""


class Translate(Protocol):
    """Translates one text with one system, as often as wanted, each time with weights of its own."""

    def __call__(
        self,
        weights: Weights,
        output: Path | str,
        nbest: NbestRequest | None = None,
        progress: Progress | None = None,
    ) -> int:
        """Write the translations, a line each; return how many source words are unknown to the phrase table.

        Raises:
            UserError: the text or the system cannot be used, or a file cannot be written.
        """
        ...


class Toolkit(Protocol):
    """Tunes and decodes."""

    name: str

    def check(self, ini: MosesIni, folder: Path, *, tunes: bool) -> None:
        """Check, before long work, that the toolkit can translate with a system, or tune it, in a folder of this name.

        Raises:
            UserError: it cannot.
        """
        ...

    def check_text(self, ini: MosesIni, source: Path) -> None:
        """Check, before long work, that the toolkit's decoder reads prepared sentences as their words.

        Raises:
            UserError: it does not.
        """
        ...

    def tune(self, ini: MosesIni, request: TuningRequest) -> Iterator[Tuning]:
        """Tune the weights of a system with each seed when it is asked for."""
        ...

    def translator(self, ini: MosesIni, source: Path, folder: Path) -> AbstractContextManager[Translate]:
        """Return what translates prepared sentences; the first time it reads what the tables have for them.

        Args:
            ini: the system.
            source: the sentences, a line each.
            folder: for logs and filtered tables.
        """
        ...


class BuildingToolkit(Toolkit, Protocol):
    """Builds tables, too."""

    def check_folder(self, folder: Path) -> None:
        """Check that the toolkit can work in a folder of this name.

        Raises:
            UserError: it cannot.
        """
        ...

    def build_tables(self, corpus: Corpus, folder: Path, longest_phrase: int, show: Show = unseen) -> object:
        """Make phrase and reordering table of an aligned corpus in a system folder; return a report or None.

        `show` is shown how far that is, where it is known.
        """
        ...
