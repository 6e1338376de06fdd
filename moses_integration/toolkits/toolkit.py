"""The interface of toolkits: build tables, tune, translate."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from moses_integration.building.aligned_corpus import Corpus
from moses_integration.ini import MosesIni, Weights
from moses_integration.tuning.checkpoint import TuningCheckpoint
from moses_integration.tuning.tunings import Tuning, TuningConfig
from phrasescore.errors import UserError, arg_name
from phrasescore.text import Log, ProgressCallback, no_log, no_progress

if TYPE_CHECKING:
    from moses_integration.per_text.context_column import ContextColumn

ToolkitName = Literal["auto", "moses", "embedded"]
SentencesCallback = Callable[[int, int], None]
"""Receives the number of finished sentences, and of all sentences."""


@dataclass(frozen=True)
class NbestRequest:
    """The n-best list of distinct translations to write."""

    path: Path
    size: int


@dataclass(frozen=True)
class TuningRequest:
    """The dev set and the options of tuning."""

    source: Path
    """Prepared dev sentences."""
    references: Sequence[Path]
    """A file for each reference translation of the dev set."""
    seeds: Sequence[int]
    """Seeds of the random restarts."""
    settings: TuningConfig
    folder: Path
    """Folder for logs and intermediate files."""
    log: Log = no_log
    """Receives a message for each decoding or seed."""
    progress: ProgressCallback = no_progress
    """Receives the progress."""
    checkpoint: TuningCheckpoint | None = None
    """Checkpoint for resuming, if the toolkit supports it."""


class Translate(Protocol):
    """Translates one text with one system under given weights."""

    def __call__(
        self,
        weights: Weights,
        output: Path | str,
        nbest: NbestRequest | None = None,
        progress: SentencesCallback | None = None,
    ) -> int:
        """Write the translations, a line each; return the number of source words unknown to the phrase table."""
        ...


class Toolkit(Protocol):
    """Tunes and decodes."""

    name: str

    def check(self, ini: MosesIni, source: Path, folder: Path, *, tunes: bool) -> None:
        """Raise a UserError if the toolkit cannot translate prepared text with a system, or tune it, in this folder."""
        ...

    def tune(self, ini: MosesIni, request: TuningRequest) -> Iterator[Tuning]:
        """Yield the tuned weights of each seed, lazily."""
        ...

    def translator(self, ini: MosesIni, source: Path, folder: Path) -> AbstractContextManager[Translate]:
        """Return a function that translates the text. It prepares the tables for the text at the first call.

        Logs and filtered tables are in the folder.
        """
        ...


class BuildingToolkit(Toolkit, Protocol):
    """Also builds tables."""

    def with_context_column(self, column: ContextColumn) -> Toolkit:
        """Return a toolkit for systems with this column in context."""
        ...

    def check_folder(self, folder: Path) -> None:
        """Raise a UserError if the toolkit cannot work in a folder of this name."""
        ...

    def build_tables(
        self, corpus: Corpus, folder: Path, longest_phrase: int, progress: ProgressCallback = no_progress
    ) -> object:
        """Write the phrase table and the reordering table of a corpus to a system folder; return a report or None."""
        ...


def choose_toolkit(name: ToolkitName, processes: int | None = None, scheduler: str | None = None) -> BuildingToolkit:
    """Return a toolkit; `auto` is Moses if it is installed and there is no scheduler.

    `processes` is the number of processes of the embedded toolkit, or of threads of Moses.
    """
    from moses_integration.toolkits.embedded import EmbeddedToolkit
    from moses_integration.toolkits.installation import find_installation
    from moses_integration.toolkits.moses import MosesToolkit

    embedded = arg_name("toolkit", "embedded")
    if scheduler is not None:
        if name == "moses":
            raise UserError(f"{arg_name('scheduler')}: Moses cannot share its work among workers; use {embedded}")
        return EmbeddedToolkit(processes, scheduler)
    installation = None if name == "embedded" else find_installation()
    if installation is not None:
        return MosesToolkit(installation, processes)
    if name == "moses":
        asked = arg_name("toolkit", "moses")
        raise UserError(f"{asked}: Moses was not found; set MOSES_HOME to its folder, or use {embedded}")
    return EmbeddedToolkit(processes)
