"""The input of Moses: folders, features and words that it accepts, and filtered tables."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable
from pathlib import Path

from moses_integration.decoder.declaration import KINDS, phrases_in
from moses_integration.decoder.phrases import words_of
from moses_integration.decoder.settings import DecoderSettings
from moses_integration.decoder.tables import filter_table
from moses_integration.ini import IGNORED, FeatureLine, MosesIni
from phrasescore.errors import UserError, arg_name
from phrasescore.text import text_lines
from phrasescore.words import quote, split_words

_TEXT_TABLES = ("PhraseDictionaryMemory", "LexicalReordering")
_PLAIN = {"inputtype": {"0"}, "input-factors": {"0"}, "search-algorithm": {"0", "1"}, "xml-input": {"pass-through"}}
"""Settings under which source phrases are sequences of the input words, so that tables can be filtered."""


def write_filtered_system(ini: MosesIni, source: Path, folder: Path) -> Path:
    """Write a system for one input text to a folder; return its moses.ini.

    Moses' filter-model-given-input.pl is not used, because it loses source phrases of more than ten words and lines
    with tabs, which Moses reads.
    """
    filtered = folder / "filtered"
    shutil.rmtree(filtered, ignore_errors=True)
    filtered.mkdir(parents=True)
    # mert-moses.pl ignores a section with a comment after its name.
    result = ini.without_comments()
    for section in IGNORED:
        result.set_values(section, [])
    wanted: set[bytes] | None = None
    for number, feature in enumerate(ini.features()):
        if feature.kind not in _TEXT_TABLES:
            continue
        table = _find_text_table(ini, feature)
        if table is not None and _is_to_be_filtered(ini, feature):
            wanted = _phrases_of_text(ini, source) if wanted is None else wanted
            whole, table = table, filtered.resolve() / f"table{number}.gz"
            filter_table(whole, wanted, table, is_for_reordering=feature.kind == "LexicalReordering")
            result.set_argument(feature.label, "path", str(table))
            # Moses fails or crashes without factors.
            for key in _factors_of(feature):
                if key not in feature.arguments:
                    result.set_argument(feature.label, key, "0")
    result.write(filtered / "moses.ini")
    return filtered / "moses.ini"


def _is_to_be_filtered(ini: MosesIni, feature: FeatureLine) -> bool:
    """Whether a table has source phrases that are sequences of the input words, and may be filtered."""
    if feature.arguments.get("filterable") == "false":
        return False
    if feature.kind == "LexicalReordering" and not {"f", "fe"} & {*feature.arguments.get("type", "").split("-")}:
        return False
    plain = all(set(ini.values(section)) <= values for section, values in _PLAIN.items())
    return plain and feature.arguments.get("input-factor", "0") == "0"


def _factors_of(table: FeatureLine) -> tuple[str, ...]:
    """Return the arguments for factors; a reordering table without target phrases has none for the output."""
    has_target = table.kind != "LexicalReordering" or "f" not in table.arguments["type"].split("-")
    return ("input-factor", "output-factor") if has_target else ("input-factor",)


def _find_text_table(ini: MosesIni, table: FeatureLine) -> Path | None:
    """Return the file of a table, None if it has a binary form only; Moses also finds `table.gz` as `table`."""
    named = ini.path_of(table)
    found = next((path for path in (named, Path(f"{named}.gz")) if path.is_file()), None)
    if found is None and not any(Path(f"{named}{suffix}").exists() for suffix in (".minlexr", ".binlexr.idx")):
        raise UserError(f"{ini.at(table.row)}: {named}: is not a file; fix the path=")
    return found


def _phrases_of_text(ini: MosesIni, text: Path) -> set[bytes]:
    """Return the phrases of a text up to the length that Moses looks up."""
    given = ini.values("max-phrase-length")
    longest = int(given[0]) if given and given[0].isdecimal() else DecoderSettings().longest_phrase
    return phrases_in(map(words_of, text_lines(text)), longest)


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
            f"decode: {arg_name('work')})"
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
                f"{place} is a {feature.kind}, which Moses does not have; use {arg_name('toolkit', 'embedded')}, or "
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
