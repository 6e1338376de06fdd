"""What an installed Moses would misread: names of folders, features, and words of the input."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from moses_integration.decoder.declaration import KINDS
from moses_integration.ini import MosesIni
from phrasescore.errors import UserError, spelled
from phrasescore.words import quote, split_words

# Besides shell syntax: Moses' scripts split some paths at `=`, and remove the first `.gz` of others.
_UNSAFE_IN_FOLDER = re.compile(r"[^\w./@%+:,-]|\.gz")
_RUN_COMMANDS = ("PhraseDictionaryFuzzyMatch", "PhraseDictionaryTransliteration")
"""Classes with which Moses runs shell commands from the line of the feature."""
_CHANGE_FEATURES = ("feature-add", "feature-name-overwrite", "feature-overwrite")
"""Sections that change the features of [feature]."""


def check_folder_name(folder: Path) -> None:
    """Raise a UserError for a folder that Moses' scripts would not find, or whose name has shell syntax."""
    unsafe = _UNSAFE_IN_FOLDER.search(str(folder.resolve()))
    if unsafe:
        raise UserError(
            f"{folder}: Moses' scripts cannot use a folder with `{unsafe[0]}` in its path; give another one (tune and "
            f"decode: {spelled('work')})"
        )


def check_features(ini: MosesIni) -> None:
    """Reject features that Moses does not have, or that make it run other programs."""
    for section in _CHANGE_FEATURES:
        if ini.values(section):
            raise UserError(
                f"{ini.location(section)}: [{section}] changes features of [feature]; edit [feature] instead"
            )
    for feature in ini.features():
        place = f"{ini.at(feature.row)}: {feature.label}"
        if feature.kind in KINDS and not KINDS[feature.kind].is_of_moses:
            raise UserError(
                f"{place} is a {feature.kind}, which Moses does not have; use {spelled('toolkit', 'embedded')}, or "
                "remove it and rescore with `phrasescore-smt rescore`"
            )
        if feature.kind in _RUN_COMMANDS:
            raise UserError(f"{place} makes Moses run commands of its line; remove it, or run moses yourself")


def require_moses_words(sentences: Iterable[bytes], name: object, factors: int = 1) -> None:
    """Raise a UserError, which starts with `name`, if Moses would not read every word of prepared text as a word.

    Moses stops at a word with fewer factors, and ignores additional ones silently.
    """
    for number, sentence in enumerate(sentences, 1):
        for word in split_words(sentence):
            if _is_non_terminal(word):
                raise UserError(
                    f"{name}: line {number}: has `{quote(word)}`, which Moses takes for a non-terminal of a grammar; "
                    "write its brackets as `&#91;` and `&#93;`"
                )
            if word.count(b"|") != factors - 1:
                raise UserError(
                    f"{name}: line {number}: has `{quote(word)}`, where Moses expects {factors} "
                    f"{'factor' if factors == 1 else 'factors'} a word, separated by `|`; write other `|` as "
                    "`&#124;`"
                )
        if _has_markup(sentence):
            raise UserError(
                f"{name}: line {number}: has a tag `<seg ...>` or `<dlt .../>`, which Moses does not translate; remove "
                "it, or write `<` as `&lt;`"
            )


def _is_non_terminal(word: bytes) -> bool:
    """Whether a word is in brackets (Phrase::CreateFromString, moses/Phrase.cpp)."""
    return len(word) > 1 and word.startswith(b"[") and word.endswith(b"]")


def _has_markup(sentence: bytes) -> bool:
    """Whether Moses removes tags from a line (ProcessAndStripSGML and ProcessAndStripDLT, moses/Util.cpp)."""
    line = sentence.strip(b" \t\r\n").lower()
    return (line.startswith(b"<seg") and b">" in line) or (b"<dlt" in line and b"/>" in line)
