"""Raw text into words, and back.

sacremoses does the work; it writes what Moses' normalize-punctuation.perl, tokenizer.perl and detokenizer.perl write,
but for details. One is no detail: those programs put blanks around combining marks and joiners, which here stay with
their letters, see `WrittenCharacters`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache

from phrasescore.errors import UserError
from phrasescore.written_characters import WrittenCharacters, clause_ends, extending_characters, unknown_letters

# What some program takes for the end of a word or of a line (Unicode's Cc, Zs, Zl and Zp), the zero width space and
# the byte order mark.
_BLANKS = re.compile("[\0-\x20\x7f-\xa0\u1680\u2000-\u200b\u2028\u2029\u202f\u205f\u3000\ufeff]+")
# tokenizer.perl splits the last full stop even from an abbreviation; sacremoses does not.
_LAST_STOP = re.compile(r"(?<=[^ .])\.$")
_MISSING = "tokenising needs sacremoses; pip install sacremoses, or give tokenised text"


def with_single_blanks(text: str) -> str:
    """Put one blank for each run of blanks, control characters and line ends of any kind, and none at the ends."""
    return _BLANKS.sub(" ", text).strip(" ")


def tokenise(texts: Iterable[str], language: str) -> list[str]:
    """Normalise the punctuation of each line and split it from the words.

    Args:
        texts: lines.
        language: its code, as en, which chooses the abbreviations and the rules for apostrophes and quotation marks.

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

    # Compiled once: `normalize` looks its fifty expressions up again for each line, which takes nearly twice the time.
    normalisations = [(re.compile(pattern), new) for pattern, new in MosesPunctNormalizer(language).substitutions]
    tokenised = []
    for text in texts:
        # Before the no-break spaces go: some of these rules ask for them.
        for pattern, new in normalisations:
            text = pattern.sub(new, text)
        tokenised.append(characters.keep_whole(with_single_blanks(text), split))
    return tokenised


def has_rules(language: str) -> bool:
    """Whether the tokeniser knows the abbreviations of a language; of another it takes those of English.

    Raises:
        UserError: sacremoses is not installed.
    """
    try:
        from sacremoses.corpus import NonbreakingPrefixes
    except ImportError as error:
        raise UserError(_MISSING) from error
    return language in NonbreakingPrefixes().available_langs.values()


def tokenise_lines(lines: Iterable[bytes], language: str) -> list[bytes]:
    """Tokenise lines; bytes that are not UTF-8 pass through.

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
    # It joins a comma to the word before in all languages; of the stops of other scripts it knows nothing.
    return WrittenCharacters(extending, letters | dict.fromkeys(clause_ends(), ","))


def _unknown() -> tuple[list[str], dict[str, str]]:
    """Return what sacremoses does not know: parts of words, and letters with others to show it."""
    from sacremoses import MosesTokenizer
    from sacremoses.util import is_cjk

    known = frozenset(MosesTokenizer.IsAlnum)
    # Unless told that the text is Chinese, it splits Chinese and the like into characters, and joins them again.
    return extending_characters(known), unknown_letters(known, is_cjk)
