"""Parallel text for experiments.

`prepare` writes one of the data sets in `DATA_SETS` into a folder.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from experiments.data import bible, gettext, multi30k
from experiments.data.folder import RECIPE, Corpus, DataFolder, find_corpus, write_corpus
from experiments.data.sentences import SEED
from experiments.data.wheels import DEFAULT_CACHE
from phrasescore.errors import UserError

__all__ = ["DATA_SETS", "DataFolder", "parts_of_tests", "prepare"]

DATA_SETS: dict[str, Callable[[str, str, Path | None, Sequence[str], Sequence[str], Path], Corpus]] = {
    "multi30k": lambda source, target, origin, tests, versions, cache: multi30k.corpus(source, target, origin, tests),
    "gettext": lambda source, target, origin, tests, versions, cache: gettext.corpus(source, target, cache),
    "bible": lambda source, target, origin, tests, versions, cache: bible.corpus(source, target, versions, cache),
}
"""Functions that return the corpus, by name; for their arguments see `prepare`."""
_TESTS = {"multi30k": multi30k.TESTS}
"""Data sets with several test sets; the others have one, `test`."""


def parts_of_tests(name: str, tests: Sequence[str] = ()) -> dict[str, str]:
    """Return the parts of a data set that hold these test sets, by default only its first, by the name of the set.

    Raises:
        UserError: the data set has no such test set.
    """
    known = _TESTS.get(name, {"test": "test"})
    for test in tests:
        if test not in known:
            raise UserError(f"{name}: has no test set {test}; choose among {', '.join(known)}")
    return {test: known[test] for test in tests or list(known)[:1]}


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
        tests: names of test sets, see `parts_of_tests`.
        versions: names of the Bible versions to combine; by default all versions of both languages.
        cache: folder for downloads.

    Raises:
        UserError: an argument is invalid, a download fails, or the folder holds another data set.
    """
    if name not in DATA_SETS:
        raise UserError(f"{name}: is no data set; choose among {', '.join(DATA_SETS)}")
    if source == target:
        raise UserError(f"{name}: {source}-{target} cannot be made; give two languages")
    if versions and name != "bible":
        raise UserError(f"{name}: has no versions to choose; leave them out or take the data set bible")
    parts = list(parts_of_tests(name, tests).values())
    settings = {
        "recipe": RECIPE,
        "name": name,
        "source": source,
        "target": target,
        "versions": list(versions),
        # Multi30k has its own dev and test sets.
        "seed": None if name == "multi30k" else SEED,
    }
    found = find_corpus(folder, settings, parts)
    # Files in a folder of the user may have changed.
    if found and origin is None:
        return found
    return write_corpus(folder, DATA_SETS[name](source, target, origin, parts, versions, cache), settings)
