"""From raw text to the text that Moses is trained on and translates, and back.

Prepared text has a sentence on each line, its words separated by single spaces. Training, development and test text of
a system go through the same preparation: `preparation.json` and the truecasers are files beside the tables.
`phrasescore.tokenisation` splits punctuation from words and joins it again.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Literal

from moses_integration.building.text_form import warn_about_form
from moses_integration.ini import MosesIni
from phrasescore.configuration import check_values
from phrasescore.errors import UserError, arg_name
from phrasescore.files import display_name, open_output, read_regular, write_lines
from phrasescore.files.documents import read_json
from phrasescore.text import Log, chunks, no_log, text_lines
from phrasescore.tokenisation import detokenise, has_rules, tokenise, with_single_spaces
from phrasescore.workers import map_ordered, start_workers

PREPARATION = "preparation.json"

Casing = Literal["lower", "true", "keep"]

# One process needs a second for it; starting another process takes half a second.
_LINES_A_TASK = 10_000

# escape-special-chars.perl
_NAMES = zip("&|<>'\"[]", ("amp", "#124", "lt", "gt", "apos", "quot", "#91", "#93"), strict=True)
_ESCAPES = {character: f"&{name};" for character, name in _NAMES}
_TO_ESCAPES = str.maketrans(_ESCAPES)
_FROM_ESCAPES = {escaped: character for character, escaped in _ESCAPES.items()}
_ESCAPE = re.compile("|".join(_FROM_ESCAPES))

_SENTENCE_ENDS = frozenset(".:?!")
# Tokens between the end of a sentence and the first word of the next, plain and escaped.
_OPENERS = frozenset(["(", "[", "]", '"', "'", "&#91;", "&#93;", "&quot;", "&apos;"])
# Bytes, enough for millions of words.
_LARGEST_TRUECASER = 1 << 27


@dataclass(frozen=True)
class TextSettings:
    """The languages of a system, and how its text is prepared, line by line."""

    source_language: str
    """A code such as en, which selects abbreviations and the rules for apostrophes and quotation marks."""
    target_language: str
    tokenise: bool = True
    """Normalise punctuation and split it from the words. Otherwise, spaces separate words."""
    casing: Casing = "true"
    escape: bool = True
    """Replace the characters & | < > ' " [ ], which have a meaning in Moses. Not for text that is escaped already."""

    @property
    def languages(self) -> tuple[str, str]:
        return self.source_language, self.target_language

    def tokenised(self, lines: Iterable[bytes], language: str, processes: int | None = None) -> Iterator[str]:
        """Tokenise and escape lines, many of them in parallel (`processes`: None for all cores).

        Bytes that are not UTF-8 become surrogates; the tokeniser takes them for words.
        """
        texts: Iterator[str] = map(_decode, lines)
        texts = _tokenised(texts, language, processes) if self.tokenise else map(with_single_spaces, texts)
        return map(escape, texts) if self.escape else texts

    def detokenise(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        """Undo the preparation of translations; docs/formats.md lists what is not restored."""
        texts: Iterator[str] = map(_decode, lines)
        if self.escape:
            texts = map(unescape, texts)
        if self.casing == "true":
            texts = map(capitalise, texts)
        if self.tokenise:
            texts = detokenise(texts, self.target_language)
        return map(_encode, texts)


def escape(text: str) -> str:
    """Replace the characters that have a meaning in Moses."""
    return text.translate(_TO_ESCAPES)


def unescape(text: str) -> str:
    """Undo `escape`."""
    return _ESCAPE.sub(lambda match: _FROM_ESCAPES[match[0]], text)


def _tokenised(texts: Iterator[str], language: str, processes: int | None) -> Iterator[str]:
    tasks = chunks(texts, _LINES_A_TASK)
    first = next(tasks, [])
    with start_workers("tokenising", processes=processes if len(first) == _LINES_A_TASK else 1) as workers:
        for tokenised in map_ordered(partial(tokenise, language=language), chain([first], tasks), workers):
            yield from tokenised


def _decode(line: bytes) -> str:
    return line.decode("utf-8", "surrogateescape")


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


@dataclass(frozen=True)
class SystemText:
    """How to prepare text as that of the system in a folder, which has its truecasers."""

    folder: Path
    settings: TextSettings

    @classmethod
    def of(cls, ini: MosesIni) -> SystemText | None:
        """Return the text of the system of a moses.ini; None if `build_system` did not build it."""
        folder = _folder_of(ini)
        return None if folder is None else cls(folder, _read_settings(folder / PREPARATION))

    @staticmethod
    def files_of(ini: MosesIni) -> list[Path]:
        """Return the files that say how the text of a system is prepared."""
        folder = _folder_of(ini)
        return [] if folder is None else [folder / PREPARATION, *folder.glob("truecase.*")]

    def prepare(
        self,
        side: str,
        raw: str | Path,
        prepared: Path,
        log: Log = no_log,
        processes: int | None = None,
        *,
        learns_case: bool = False,
    ) -> None:
        """Prepare a text file of the `source` or `target` side, line by line, and warn about its encoding and form.

        With `learns_case`, for training text of casing `true`, learn a truecaser from it and save it.
        """
        settings, language = self.settings, self.settings.languages[side == "target"]
        lines = warn_about_form(
            text_lines(raw, log),
            display_name(raw),
            log,
            tokenised=not settings.tokenise,
            escaped=not settings.escape,
            capitalised=settings.casing == "true",
        )
        texts: Iterable[str] = settings.tokenised(lines, language, processes)
        if learns_case and settings.casing == "true":
            texts = list(texts)
            Truecaser.learn(texts).save(self._truecaser(language))
        write_lines(prepared, map(_encode, map(self._change_of_case(language), texts)))

    def source_preparation(self) -> Callable[[bytes], bytes]:
        settings, language = self.settings, self.settings.source_language
        change = self._change_of_case(language)
        return lambda line: _encode(change(next(settings.tokenised([line], language, processes=1))))

    def _change_of_case(self, language: str) -> Callable[[str], str]:
        if self.settings.casing == "true":
            return Truecaser.load(self._truecaser(language)).apply
        return str.lower if self.settings.casing == "lower" else str

    def _truecaser(self, language: str) -> Path:
        return self.folder / f"truecase.{language}"


def _folder_of(ini: MosesIni) -> Path | None:
    # Only some files of a system may have moved, such as an annotated table and a tuned moses.ini.
    files = [ini.path_of(feature) for feature in ini.features() if "path" in feature.arguments]
    folders = (*(file.parent for file in files), ini.folder)
    return next((folder for folder in folders if (folder / PREPARATION).exists()), None)


def _read_settings(path: Path) -> TextSettings:
    remedy = "build the system again"
    values = read_json(path, remedy)
    try:
        return TextSettings(**check_values(TextSettings, values, "settings"))
    except (TypeError, UserError) as error:
        raise UserError(f"{path}: is damaged ({error}); {remedy}") from error


class Truecaser:
    """The most frequent form of each word where it does not begin a sentence.

    Rules and file format are those of train-truecaser.perl, truecase.perl and detruecase.perl, with one difference: the
    word after an opening quotation mark or bracket begins a sentence everywhere, while train-truecaser.perl applies
    this rule only at the beginning of a line.
    """

    def __init__(self, counts: Mapping[str, Mapping[str, int]]) -> None:
        self._counts = counts
        self._best = {word: max(forms, key=forms.__getitem__) for word, forms in counts.items()}
        self._known = frozenset(chain.from_iterable(counts.values()))

    @classmethod
    def learn(cls, texts: Iterable[str]) -> Truecaser:
        counts: dict[str, Counter[str]] = {}
        for text in texts:
            for word, begins in _beginnings(text):
                if not begins and word.lower() != word.upper():
                    counts.setdefault(word.lower(), Counter())[word] += 1
        return cls(counts)

    @classmethod
    def load(cls, path: Path) -> Truecaser:
        """Read a file of `save` or train-truecaser.perl."""
        counts: dict[str, dict[str, int]] = {}
        for number, line in enumerate(read_regular(path, _LARGEST_TRUECASER).splitlines(), 1):
            words = line.decode("utf-8", "surrogateescape").split(" ")
            try:
                forms = {w: int(n.strip("()").split("/")[0]) for w, n in zip(words[::2], words[1::2], strict=True)}
            except ValueError:
                raise UserError(
                    f"{path}: line {number}: is not `word (count/total) word (count) ...`; learn the truecaser again"
                ) from None
            counts[words[0].lower()] = forms
        return cls(counts)

    def save(self, path: Path) -> None:
        """Write a line for each word, its most frequent form first."""
        with open_output(path) as stream:
            for word, forms in self._counts.items():
                best = self._best[word]
                others = "".join(f" {form} ({count})" for form, count in forms.items() if form != best)
                line = f"{best} ({forms[best]}/{sum(forms.values())}){others}\n"
                stream.write(line.encode("utf-8", "surrogateescape"))

    def apply(self, text: str) -> str:
        """Replace the first word of each sentence, and words in an unknown form, by their most frequent form."""
        return " ".join(
            word if word in self._known and not begins else self._best.get(word.lower(), word)
            for word, begins in _beginnings(text)
        )


def capitalise(text: str) -> str:
    """Capitalise the first word of each sentence of a tokenised line."""
    return " ".join(_capital(word[:1]) + word[1:] if begins else word for word, begins in _beginnings(text))


def _capital(letter: str) -> str:
    # For Georgian it is the letter itself.
    title = letter.title()
    return title if len(title) == len(letter) else letter


def _beginnings(text: str) -> Iterator[tuple[str, bool]]:
    """Yield each word of a tokenised line and whether it begins a sentence."""
    begins = True
    for word in text.split(" "):
        yield word, begins
        if word in _SENTENCE_ENDS:
            begins = True
        elif word not in _OPENERS:
            begins = False


def language_of(path: Path, given: str | None, side: str, tokenised: bool, log: Log) -> str:
    """Return the given language of a text, or else the extension of its file; warn if the tokeniser has no rules."""
    option = arg_name(f"{side}_language")
    language = given or (path.with_suffix("") if path.suffix in (".gz", ".xz", ".zst", ".bz2") else path).suffix[1:]
    if not language:
        raise UserError(f"{path}: its name does not end in a language, as train.en does; give {option}")
    name = option if given else path
    # It is the suffix of files, as in train.en; train.align is the word alignment.
    if not re.fullmatch("[A-Za-z0-9_-]+" if tokenised else "[a-z]{2,3}", language) or language == "align":
        wanted = "letters and digits" if tokenised else "a code of two or three small letters"
        remedy = option if tokenised else f"{option}, or {arg_name('tokenised')} if the text is"
        raise UserError(f"{name}: `{language}` cannot be a language; give {wanted}, as in en, by {remedy}")
    if not tokenised and not has_rules(language):
        log(f"{language}: the tokeniser has no abbreviations of this language, and uses English ones")
    return language
