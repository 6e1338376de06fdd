"""Tokenisation and detokenisation of raw text.

sacremoses produces the output of Moses' normalize-punctuation.perl, tokenizer.perl and detokenizer.perl, except for
details. One difference matters: those programs put spaces around combining marks and joiners, which this module keeps
attached to their letters; see `WrittenCharacters`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache

from phrasescore.errors import UserError
from phrasescore.written_characters import WrittenCharacters, clause_ends, extending_characters, unknown_letters

# Characters that some program treats as the end of a word or line (Unicode's Cc, Zs, Zl and Zp), the zero width space
# and the byte order mark.
_BLANKS = re.compile("[\0-\x20\x7f-\xa0\u1680\u2000-\u200b\u2028\u2029\u202f\u205f\u3000\ufeff]+")
# tokenizer.perl splits the last full stop even from an abbreviation; sacremoses does not.
_LAST_STOP = re.compile(r"(?<=[^ .])\.$")
_MISSING = "tokenising needs sacremoses; pip install sacremoses, or give tokenised text"


def with_single_blanks(text: str) -> str:
    """Replace each run of whitespace, control characters and line ends by one space, and strip the ends."""
    return _BLANKS.sub(" ", text).strip(" ")


def tokenise(texts: Iterable[str], language: str) -> list[str]:
    """Normalise the punctuation of each line and split it from the words.

    Args:
        texts: lines.
        language: a code such as en, which selects abbreviations and the rules for apostrophes and quotation marks.

    Raises:
        UserError: the language is empty, or sacremoses is not installed.
    """
    if not language:
        raise UserError("tokenising: the language is empty; give one, as en")
    try:
        from sacremoses import MosesPunctNormalizer, MosesTokenizer
    except ImportError as error:
        raise UserError(_MISSING) from error

    tokeniser = MosesTokenizer(language)
    characters = _shown_to_tokeniser()

    def split(text: str) -> str:
        return _LAST_STOP.sub(" .", tokeniser.tokenize(text, return_str=True, escape=False))

    # Compile the fifty patterns once; `normalize` looks them up again for each line, which takes nearly twice the time.
    normalisations = [(re.compile(pattern), new) for pattern, new in MosesPunctNormalizer(language).substitutions]
    tokenised = []
    for text in texts:
        # Run these rules before no-break spaces are removed, because some of them match no-break spaces.
        for pattern, new in normalisations:
            text = pattern.sub(new, text)
        tokenised.append(characters.keep_whole(with_single_blanks(text), split))
    return tokenised


def has_rules(language: str) -> bool:
    """Return whether the tokeniser has abbreviations for a language; otherwise it uses those of English.

    Raises:
        UserError: sacremoses is not installed.
    """
    try:
        from sacremoses.corpus import NonbreakingPrefixes
    except ImportError as error:
        raise UserError(_MISSING) from error
    return language in NonbreakingPrefixes().available_langs.values()


def tokenise_lines(lines: Iterable[bytes], language: str) -> list[bytes]:
    """Tokenise lines; bytes that are not UTF-8 stay unchanged.

    Raises:
        UserError: the language is empty, or sacremoses is not installed.
    """
    texts = tokenise((line.decode("utf-8", "surrogateescape") for line in lines), language)
    return [text.encode("utf-8", "surrogateescape") for text in texts]


def detokenise(texts: Iterable[str], language: str) -> Iterator[str]:
    """Join the punctuation of tokenised lines to the words.

    Raises:
        UserError: sacremoses is not installed.
    """
    try:
        from sacremoses import MosesDetokenizer
    except ImportError as error:
        raise UserError("plain text needs sacremoses; pip install sacremoses") from error

    detokeniser = MosesDetokenizer(language)
    characters = _shown_to_detokeniser()
    for text in texts:
        yield characters.keep_whole(text, lambda text: detokeniser.detokenize(text.split(" "), unescape=False))


@cache
def _shown_to_tokeniser() -> WrittenCharacters:
    return WrittenCharacters(*_unknown())


@cache
def _shown_to_detokeniser() -> WrittenCharacters:
    extending, letters = _unknown()
    # It attaches a comma to the previous word in all languages, but does not support the full stops of other scripts.
    return WrittenCharacters(extending, letters | dict.fromkeys(clause_ends(), ","))


def _unknown() -> tuple[list[str], dict[str, str]]:
    """Return the characters that sacremoses does not support: parts of words, and letters with their substitutes."""
    from sacremoses import MosesTokenizer
    from sacremoses.util import is_cjk

    known = frozenset(MosesTokenizer.IsAlnum)
    # Unless the language is Chinese, it splits Chinese and similar scripts into characters, and joins them again.
    return extending_characters(known), unknown_letters(known, is_cjk)
