"""Raw text into words.

sacremoses does the work; it writes what Moses' normalize-punctuation.perl and tokenizer.perl write, but for details.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from phrasescore.errors import UserError

# What some program takes for the end of a word or of a line (Unicode's Cc, Zs, Zl and Zp), the zero width space and
# the byte order mark.
_BLANKS = re.compile("[\0-\x20\x7f-\xa0\u1680\u2000-\u200b\u2028\u2029\u202f\u205f\u3000\ufeff]+")
# tokenizer.perl splits the last full stop even from an abbreviation; sacremoses does not.
_LAST_STOP = re.compile(r"(?<=[^ .])\.$")


def with_single_blanks(text: str) -> str:
    """Put one blank for each run of blanks, control characters and line ends of any kind, and none at the ends."""
    return _BLANKS.sub(" ", text).strip(" ")


def tokenise(texts: Iterable[str], language: str) -> list[str]:
    """Normalise the punctuation of each line and split it from the words.

    Args:
        texts: lines.
        language: two letters; they choose the abbreviations and the rules for apostrophes and quotation marks.

    Raises:
        UserError: the language is empty, or sacremoses is not installed.
    """
    if not language:
        raise UserError("tokenising: the language is empty; give one, as en")
    try:
        from sacremoses import MosesPunctNormalizer, MosesTokenizer
    except ImportError as error:
        raise UserError("tokenising needs sacremoses; pip install sacremoses, or give tokenised text") from error

    tokeniser = MosesTokenizer(language)
    # Compiled once: `normalize` looks its fifty expressions up again for each line, which takes nearly twice the time.
    normalisations = [(re.compile(pattern), new) for pattern, new in MosesPunctNormalizer(language).substitutions]
    tokenised = []
    for text in texts:
        # Before the no-break spaces go: some of these rules ask for them.
        for pattern, new in normalisations:
            text = pattern.sub(new, text)
        text = tokeniser.tokenize(with_single_blanks(text), return_str=True, escape=False)
        tokenised.append(_LAST_STOP.sub(" .", text))
    return tokenised


def tokenise_lines(lines: Iterable[bytes], language: str) -> list[bytes]:
    """Tokenise lines; bytes that are not UTF-8 pass through.

    Raises:
        UserError: the language is empty, or sacremoses is not installed.
    """
    texts = tokenise((line.decode("utf-8", "surrogateescape") for line in lines), language)
    return [text.encode("utf-8", "surrogateescape") for text in texts]
