"""Parallel text for experiments.

`prepare` writes one of the data sets in `DATA_SETS` into a folder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from experiments.data import bible, gettext, multi30k
from experiments.data.folder import RECIPE, Corpus, DataFolder, Request, find_corpus, write_corpus
from experiments.data.sentences import SEED
from experiments.data.wheels import DEFAULT_CACHE
from phrasescore.errors import UserError

__all__ = ["DATA_SETS", "DataFolder", "prepare", "splits_of_tests"]


@dataclass(frozen=True)
class DataSet:
    """A registered data set."""

    corpus: Callable[[Request], Corpus]
    """Reads or downloads the text."""
    tests: Mapping[str, str] = field(default_factory=lambda: {"test": "test"})
    """The test sets, with the splits that hold them."""
    has_versions: bool = False
    seed: int | None = SEED
    """Seed of drawing dev and test sets; None if the data set has its own."""


DATA_SETS = {
    "multi30k": DataSet(multi30k.corpus, multi30k.TESTS, seed=None),
    "gettext": DataSet(gettext.corpus),
    "bible": DataSet(bible.corpus, has_versions=True),
}


def splits_of_tests(name: str, tests: Sequence[str] = ()) -> dict[str, str]:
    """Return the splits of a data set that hold these test sets, by default only its first, by the name of the set.

    Raises:
        UserError: there is no such data set or test set.
    """
    known = _data_set(name).tests
    for test in tests:
        if test not in known:
            raise UserError(f"{name}: has no test set {test}; choose among {', '.join(known)}")
    return {test: known[test] for test in tests or list(known)[:1]}


def _data_set(name: str) -> DataSet:
    if name not in DATA_SETS:
        raise UserError(f"{name}: is no data set; choose among {', '.join(DATA_SETS)}")
    return DATA_SETS[name]


def prepare(
    name: str,
    folder: Path,
    source: str,
    target: str,
    *,
    origin: Path | None = None,
    tests: Sequence[str] = (),
    versions: Sequence[str] = (),
    cache: Path = DEFAULT_CACHE,
) -> DataFolder:
    """Write a data set into a folder. Without `origin`, an existing data set with the same settings is reused.

    Args:
        name: one of `DATA_SETS`.
        folder: output folder; see `experiments.data.folder` for its files.
        source: language code, such as `en`.
        target: language code.
        origin: folder of the Multi30k files; the other data sets are downloaded.
        tests: names of test sets, see `splits_of_tests`.
        versions: names of the Bible versions to combine; by default all versions of both languages.
        cache: folder for downloads.

    Raises:
        UserError: an argument is invalid, a download fails, or the folder holds another data set.
    """
    chosen, splits = _data_set(name), list(splits_of_tests(name, tests).values())
    if source == target:
        raise UserError(f"{name}: {source}-{target} cannot be made; give two languages")
    if versions and not chosen.has_versions:
        raise UserError(f"{name}: has no versions to choose; leave them out or take the data set bible")
    settings = {
        "recipe": RECIPE,
        "name": name,
        "source": source,
        "target": target,
        "versions": list(versions),
        "seed": chosen.seed,
    }
    found = find_corpus(folder, settings, splits)
    # Files in a folder of the user may have changed.
    if found and origin is None:
        return found
    request = Request(source, target, origin, splits, versions, cache)
    return write_corpus(folder, chosen.corpus(request), settings)
