"""Multi30k: captions of photographs in English, French and German, lower-cased and tokenised by its authors.

Elliott, Frank, Sima'an and Specia (2016), "Multi30K: Multilingual English-German Image Descriptions"; French by
Elliott et al. (2017). The files are those of github.com/multi30k/dataset, folder `data/task1/tok`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from experiments.data.folder import Corpus, Request, Split
from phrasescore.errors import UserError
from phrasescore.files import sha256_of
from phrasescore.text import text_lines

LANGUAGES = ("en", "fr", "de")
_WHERE_FROM = "get github.com/multi30k/dataset and give its folder data/task1/tok with --from"
_STEMS = {
    "train": "train",
    "dev": "val",
    "test": "test_2016_flickr",
    "test.2017": "test_2017_flickr",
    "test.mscoco": "test_2017_mscoco",
}
TESTS = {"2016": "test", "2017": "test.2017", "mscoco": "test.mscoco"}
"""The test sets, with the splits of the data set that hold them."""


def add_origin_option(parser: argparse.ArgumentParser) -> None:
    """Add --from, as `origin`."""
    parser.add_argument(
        "--from",
        dest="origin",
        type=Path,
        metavar="FOLDER",
        help="with Multi30k's files, train.lc.norm.tok.en and so on: data/task1/tok of github.com/multi30k/dataset",
    )


def corpus(request: Request) -> Corpus:
    """Read the corpus from a folder with the files `train.lc.norm.tok.en` and so on, plain or with `.gz`.

    Raises:
        UserError: a language or file does not exist, no folder is given, or the two sides differ in length.
    """
    folder, languages = request.origin, (request.source, request.target)
    if folder is None:
        raise UserError(f"multi30k: is not downloaded; {_WHERE_FROM}")
    for language in languages:
        if language not in LANGUAGES:
            raise UserError(f"multi30k: has no language {language}; choose among {', '.join(LANGUAGES)}")
    splits, hashes = dict[str, Split](), dict[str, str]()
    for split in ("train", "dev", *request.tests):
        stem = _STEMS[split]
        paths = [_find(folder, f"{stem}.lc.norm.tok.{language}") for language in languages]
        sides = [list(text_lines(path)) for path in paths]
        hashes |= {path.name: sha256_of(path) for path in paths}
        if len(sides[0]) != len(sides[1]):
            raise UserError(
                f"{folder}: {stem} has {len(sides[0])} lines of {request.source} but {len(sides[1])} of "
                f"{request.target}; copy the files again"
            )
        try:
            decoded = [[line.decode() for line in lines] for lines in sides]
        except UnicodeDecodeError as error:
            raise UserError(f"{folder}: {stem} is not UTF-8 ({error}); copy the files again") from error
        splits[split] = Split(decoded[0], [decoded[1]])
    origin = {"what": "Multi30k, task 1, github.com/multi30k/dataset", "sha256": hashes}
    return Corpus(splits, origin, tokenised=True)


def _find(folder: Path, name: str) -> Path:
    found = next((path for path in (folder / name, folder / f"{name}.gz") if path.exists()), None)
    if found is None:
        raise UserError(f"{folder}: has neither {name} nor {name}.gz; {_WHERE_FROM}")
    return found
