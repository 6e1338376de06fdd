"""Parallel text to experiment on.

`prepare` writes one of the data sets in `DATA_SETS` into a folder and says which files hold what.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from experiments.data import bible, gettext, multi30k
from experiments.data.folder import RECIPE, DataFolder, find_corpus, write_corpus
from experiments.data.sentences import SEED
from experiments.data.wheels import DEFAULT_CACHE
from phrasescore.errors import UserError

__all__ = ["DATA_SETS", "DataFolder", "prepare"]

DATA_SETS = ("multi30k", "gettext", "bible")


def prepare(
    name: str,
    folder: Path,
    source: str,
    target: str,
    *,
    origin: Path | None = None,
    versions: Sequence[str] = (),
    cache: Path = DEFAULT_CACHE,
) -> DataFolder:
    """Write a data set into a folder, or find that it is there already with the same settings and no `origin` is given.

    Args:
        name: one of `DATA_SETS`.
        folder: where to; see `experiments.data.folder` for the files.
        source: language code, such as `en`.
        target: language code.
        origin: the folder that Multi30k's files are in; the other data sets are downloaded.
        versions: names of the Bible versions to cross; all of the two languages if there are none.
        cache: where downloads are kept.

    Raises:
        UserError: something is wrong with the arguments, a download, or what the folder holds.
    """
    if name not in DATA_SETS:
        raise UserError(f"{name}: is no data set; choose among {', '.join(DATA_SETS)}")
    if source == target:
        raise UserError(f"{name}: {source}-{target} cannot be made; give two languages")
    if versions and name != "bible":
        raise UserError(f"{name}: has no versions to choose; leave them out or take the data set bible")
    settings = {
        "recipe": RECIPE,
        "name": name,
        "source": source,
        "target": target,
        "versions": list(versions),
        # Multi30k comes with its own dev and test.
        "seed": None if name == "multi30k" else SEED,
    }
    found = find_corpus(folder, settings)
    # What is read from a folder of the user's may be another text now.
    if found and origin is None:
        return found
    corpora = {
        "multi30k": lambda: multi30k.corpus(source, target, origin),
        "gettext": lambda: gettext.corpus(source, target, cache),
        "bible": lambda: bible.corpus(source, target, versions, cache),
    }
    return write_corpus(folder, corpora[name](), settings)
