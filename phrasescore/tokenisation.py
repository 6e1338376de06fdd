"""Tokenisation and detokenisation of raw text.

sacremoses produces the output of Moses' normalize-punctuation.perl, tokenizer.perl and detokenizer.perl, except for
details. One difference matters: those programs take combining marks, joiners and letters of recent scripts for
punctuation, and put spaces around them. This module replaces each character, with its marks, by a single code point
that sacremoses supports, lets it insert or remove spaces, and applies the spaces to the original text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any

from phrasescore.errors import UserError

# Characters that some program treats as the end of a word or line (Unicode's Cc, Zs, Zl and Zp), the zero width space
# and the byte order mark.
_SPACES = re.compile("[\0-\x20\x7f-\xa0\u1680\u2000-\u200b\u2028\u2029\u202f\u205f\u3000\ufeff]+")
# tokenizer.perl splits the last full stop even from an abbreviation; sacremoses does not.
_LAST_STOP = re.compile(r"(?<=[^ .])\.$")

# Code points that belong to the preceding one: marks, format characters (joiners, the soft hyphen, directional marks),
# skin tones, and punctuation inside words (Armenian question marks, Hebrew abbreviations, Arabic numbers).
_EXTENDING = r"\p{M}\p{Cf}\U0001f3fb-\U0001f3ff՚՛՜՞՟־׳״٫٬"
_FLAG_LETTERS = "\U0001f1e6-\U0001f1ff"
# Letters that form no abbreviation and belong to no script without spaces, by Unicode category.
_SUBSTITUTES = {"Ll": "a", "Nd": "0"} | dict.fromkeys(("Lu", "Lt", "Lm", "Lo"), "ℵ")
# Scripts other than Latin and Chinese.
_SCRIPTS = (range(0x37E, 0x2000), range(0xA000, 0xFE00), range(0x10000, 0x20000))


def with_single_spaces(text: str) -> str:
    """Replace each run of whitespace, control characters and line ends by one space, and strip the ends."""
    return _SPACES.sub(" ", text).strip(" ")


def tokenise(texts: Iterable[str], language: str) -> list[str]:
    """Normalise punctuation and split it from the words; the language is a code such as en, which selects rules."""
    if not language:
        raise UserError("tokenising: the language is empty; give one, as en")
    sacremoses = _import_sacremoses()
    tokeniser = sacremoses.MosesTokenizer(language)

    def split(text: str) -> str:
        return _LAST_STOP.sub(" .", tokeniser.tokenize(text, return_str=True, escape=False))

    # Compile the fifty patterns once; `normalize` looks them up again for each line, which takes nearly twice the time.
    normaliser = sacremoses.MosesPunctNormalizer(language)
    normalisations = [(re.compile(pattern), new) for pattern, new in normaliser.substitutions]
    tokenised = []
    for text in texts:
        # Run these rules before no-break spaces are removed, because some of them match no-break spaces.
        for pattern, new in normalisations:
            text = pattern.sub(new, text)
        tokenised.append(_keep_whole(with_single_spaces(text), split, _known_letter))
    return tokenised


def has_rules(language: str) -> bool:
    """Return whether the tokeniser has abbreviations for a language; otherwise it uses those of English."""
    return language in _import_sacremoses().corpus.NonbreakingPrefixes().available_langs.values()


def tokenise_lines(lines: Iterable[bytes], language: str) -> list[bytes]:
    """Tokenise lines; bytes that are not UTF-8 stay unchanged."""
    texts = tokenise((line.decode("utf-8", "surrogateescape") for line in lines), language)
    return [text.encode("utf-8", "surrogateescape") for text in texts]


def detokenise(texts: Iterable[str], language: str) -> Iterator[str]:
    """Join the punctuation of tokenised lines to the words."""
    detokeniser = _import_sacremoses().MosesDetokenizer(language)
    for text in texts:
        yield _keep_whole(
            text, lambda text: detokeniser.detokenize(text.split(" "), unescape=False), _known_letter_or_comma
        )


def _import_sacremoses() -> Any:
    try:
        import sacremoses
    except ImportError as error:
        raise UserError(
            "tokenising and plain text need sacremoses; pip install sacremoses, or give tokenised text"
        ) from error
    return sacremoses


def _keep_whole(text: str, program: Callable[[str], str], substitute: Callable[[str], str]) -> str:
    """Return the result of a program that changes spaces, without spaces inside characters of several code points.

    If the program makes other changes to the substitutes, it is applied to the original text.
    """
    character, extending, special = _patterns()
    if text.isascii() or not (special.search(text) or any(substitute(one) != one for one in set(text))):
        return program(text)
    characters = character.findall(text)
    moved = program("".join(substitute(extending.sub("", one)[:1] or one[0]) for one in characters))
    rest = [one for one in characters if one != " "]
    if len(moved) - moved.count(" ") != len(rest):
        return program(text)
    following = iter(rest)
    return "".join(" " if one == " " else next(following) for one in moved)


@cache
def _patterns() -> tuple[Any, Any, Any]:
    """Compile the patterns of a character, of its extending code points, and of text that needs them."""
    # A dependency of sacremoses.
    import regex

    known_marks = "".join(one for one in _alphanumeric() if unicodedata.category(one)[0] == "M")
    extending = f"(?![{known_marks}])[{_EXTENDING}]"
    # A space; or a code point, or two flag letters, with the extending ones around it and the symbols after joiners.
    character = rf" |(?:{extending})*(?:[{_FLAG_LETTERS}]{{2}}|[^ ])(?:{extending}|(?<=\u200d)(?![\0-\x7f])\p{{S}})*"
    return regex.compile(character), regex.compile(extending), regex.compile(f"{extending}|[{_FLAG_LETTERS}]")


@cache
def _known_letter(character: str) -> str:
    """Return a character, or a substitute for a letter or digit that sacremoses does not support."""
    from sacremoses.util import is_cjk

    # Unless the language is Chinese, it splits Chinese and similar scripts into characters, and joins them again.
    if character in _alphanumeric() or is_cjk(character):
        return character
    return _SUBSTITUTES.get(unicodedata.category(character), character)


@cache
def _known_letter_or_comma(character: str) -> str:
    """Replace also the punctuation of other scripts by a comma, which it joins to a word in all languages."""
    if unicodedata.category(character) == "Po" and any(ord(character) in places for places in _SCRIPTS):
        return ","
    return _known_letter(character)


@cache
def _alphanumeric() -> frozenset[str]:
    return frozenset(_import_sacremoses().MosesTokenizer.IsAlnum)
