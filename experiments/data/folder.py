"""The files of a data set.

train.SOURCE train.TARGET   parallel, one sentence a line, UTF-8
dev.SOURCE   dev.TARGET     likewise `test`, and `test.NAME` for further test sets; with several references,
                            dev.TARGET.ref0, dev.TARGET.ref1, ... replace dev.TARGET
data.json                   origin, dropped pairs and sizes; written last, so a folder with this file is complete
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from phrasescore.errors import UserError
from phrasescore.files import make_folder, sha256_of, write_atomically, write_json
from phrasescore.files.documents import read_json

DESCRIPTION = "data.json"
RECIPE = 1
"""Incremented when the same settings produce different data, so that old folders are not reused."""


@dataclass(frozen=True)
class Request:
    """The text that `experiments.data.prepare` wants from a data set; its arguments explain the others."""

    source: str
    target: str
    origin: Path | None
    tests: Sequence[str]
    """The splits with test sets."""
    versions: Sequence[str]
    cache: Path


@dataclass(frozen=True)
class Split:
    """Source sentences with one or more references, the lists in `targets`."""

    sources: list[str]
    targets: list[list[str]]


@dataclass(frozen=True)
class Corpus:
    """A data set in memory."""

    splits: Mapping[str, Split]
    """`train`, `dev` and test sets."""
    origin: Mapping[str, Any]
    """Origin of the text: versions, hashes, descriptions of references."""
    tokenised: bool
    """Whether the text is tokenised and escaped for Moses."""
    dropped: Mapping[str, int] = field(default_factory=dict)
    """Number of pairs that each filter removed."""


@dataclass(frozen=True)
class DataFolder:
    """A data set on disk."""

    folder: Path
    description: Mapping[str, Any]
    """The content of data.json."""

    def source_file(self, split: str) -> Path:
        """Return the source side of `train`, `dev` or a test set."""
        return self.folder / f"{split}.{self.description['settings']['source']}"

    def target_files(self, split: str) -> list[Path]:
        """Return the target side of `train`, `dev` or a test set: a file for each reference."""
        references = self.description["sizes"][split]["references"]
        return _target_files(self.source_file(split), self.description["settings"]["target"], references)

    def digests(self, *splits: str) -> dict[str, str]:
        """Return the SHA-256 of each file of some splits, by name."""
        paths = [path for split in splits for path in (self.source_file(split), *self.target_files(split))]
        return {path.name: self.description["sha256"][path.name] for path in paths}


def write_corpus(folder: Path, corpus: Corpus, settings: Mapping[str, Any]) -> DataFolder:
    """Write a data set into a folder; data.json comes last.

    Raises:
        UserError: a split is empty, or the folder cannot be written.
    """
    empty = [name for name, split in corpus.splits.items() if not split.sources]
    if empty:
        raise UserError(
            f"{settings['name']}: no sentence is left for {' and '.join(empty)} of {settings['source']}-"
            f"{settings['target']}; choose languages with more text"
        )
    make_folder(folder)
    files: dict[str, str] = {}
    for name, split in corpus.splits.items():
        source = folder / f"{name}.{settings['source']}"
        targets = _target_files(source, settings["target"], len(split.targets))
        for path, lines in zip([source, *targets], [split.sources, *split.targets], strict=True):
            content = "".join(f"{line}\n" for line in lines).encode()
            write_atomically(path, content)
            files[path.name] = hashlib.sha256(content).hexdigest()
    description = {
        "settings": dict(settings),
        "origin": dict(corpus.origin),
        "tokenised": corpus.tokenised,
        "dropped": dict(corpus.dropped),
        "sizes": {
            name: {"sentences": len(split.sources), "references": len(split.targets)}
            for name, split in corpus.splits.items()
        },
        "sha256": files,
    }
    write_json(folder / DESCRIPTION, description)
    return DataFolder(folder, description)


def find_corpus(folder: Path, settings: Mapping[str, Any], tests: Sequence[str]) -> DataFolder | None:
    """Return the data set in a folder, or None if it is missing, modified or lacks one of the test sets.

    Raises:
        UserError: the folder holds a data set with other settings.
    """
    path = folder / DESCRIPTION
    if not path.exists():
        return None
    remedy = "choose another folder or delete this one"
    description = read_json(path, remedy)
    try:
        found, files, splits = description["settings"], dict(description["sha256"]), set(description["sizes"])
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path}: does not describe a data set; {remedy}") from error
    if found != dict(settings):
        differing = [key for key in settings if found.get(key) != settings[key]]
        raise UserError(f"{folder}: holds a data set of another {' and '.join(differing)}; {remedy}")
    is_whole = splits.issuperset(tests) and all(
        (folder / name).exists() and sha256_of(folder / name) == digest for name, digest in files.items()
    )
    return DataFolder(folder, description) if is_whole else None


def _target_files(source: Path, target: str, references: int) -> list[Path]:
    path = source.with_suffix(f".{target}")
    return [path] if references == 1 else [path.with_name(f"{path.name}.ref{i}") for i in range(references)]
