"""A loaded system that translates sentences and explains its translations.

The results are values of JSON. Probabilities of the table's columns are exp(value), as in the phrase table.

Shapes: K columns of the phrase table.
"""

from __future__ import annotations

import math
import signal
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import FrameType
from typing import Any

from moses_integration.building.preparation import SystemText
from moses_integration.decoder.declaration import load_model
from moses_integration.decoder.graph import Derivation
from moses_integration.decoder.phrases import TargetPhrase, Words, words_of
from moses_integration.decoder.search import Search
from moses_integration.decoder.settings import read_settings
from moses_integration.decoder.table_lines import AllPhrases
from moses_integration.ini import MosesIni

_OF_MOSES = (
    "source given target",
    "source given target, lexical",
    "target given source",
    "target given source, lexical",
)
"""Moses' columns of a phrase table, in their order."""
_KEPT_PHRASES = 5_000
"""Source phrases whose translations stay in memory between sentences, about 25 kB each."""

Result = dict[str, Any]
"""A translation, for JSON."""
_NOTHING: Result = {"text": "", "words": [], "score": None, "phrases": [], "features": {}}


@dataclass(frozen=True)
class Sentence:
    """A sentence to translate, and what the result includes."""

    text: str
    is_prepared: bool = False
    nbest: int = 0
    distinct: bool = True
    options: bool = False
    """Whether the result has the other options of each phrase."""


@dataclass(frozen=True)
class Failure:
    """Why there is no translation, and the status of HTTP."""

    message: str
    status: int = 400


@dataclass(frozen=True)
class Limits:
    """What a server does for one request."""

    words: int = 200
    """Of a sentence."""
    sentences: int = 100
    nbest: int = 100
    seconds: float = 30.0


class RejectedError(Exception):
    """The sentence cannot be translated; the message says why."""


class LoadedSystem:
    """A system whose tables and language models stay in memory."""

    def __init__(self, ini: MosesIni, folder: Path) -> None:
        """Load a system; the lines of its tables are kept in files of a folder."""
        self._settings = read_settings(ini)
        self._model = load_model(ini, AllPhrases(folder), self._settings)
        self._table, self._columns = ini.phrase_table(), column_names(ini)
        self._text = SystemText.of(ini)

    @cached_property
    def _prepare(self) -> Any:
        assert self._text is not None
        return self._text.source_preparation()

    def translate(self, sentences: Sequence[Sentence], limits: Limits) -> list[Result | Failure]:
        """Return the translation of each sentence; a failure of one does not affect the others."""
        results = [self._attempt(sentence, limits) for sentence in sentences]
        self._model.limit_cache(_KEPT_PHRASES)
        return results

    def _attempt(self, sentence: Sentence, limits: Limits) -> Result | Failure:
        try:
            with _time_limit(limits.seconds):
                return self._translate(sentence, self._words(sentence, limits))
        except RejectedError as error:
            return Failure(str(error))
        except TimeoutError:
            return Failure(f"a sentence took more than {limits.seconds:g} s; give a shorter one", 504)
        except Exception:
            traceback.print_exc()
            return Failure("translating failed because of a fault of the server; its log has the cause", 500)

    def _words(self, sentence: Sentence, limits: Limits) -> Words:
        """Return the prepared words of a sentence."""
        try:
            line = sentence.text.replace("\r", " ").replace("\n", " ").encode()
        except UnicodeEncodeError:
            raise RejectedError("a sentence has half of a surrogate pair, which is no character; remove it") from None
        if not sentence.is_prepared:
            if self._text is None:
                raise RejectedError(
                    "how the text of this system was prepared is not known; give tokens, and `prepared`: true"
                )
            line = self._prepare(line)
        elif b"|" in line:
            raise RejectedError("a sentence has a `|`, which separates the factors of a word; escape it as `&#124;`")
        words = words_of(line)
        if len(words) > limits.words:
            raise RejectedError(f"a sentence has {len(words):,} words; give at most {limits.words:,}")
        return words

    def _translate(self, sentence: Sentence, words: Words) -> Result:
        graph = Search(self._model, self._settings, words).run(sentence.nbest > 0)
        found = graph.n_best(max(1, sentence.nbest), sentence.distinct and sentence.nbest > 0)
        unknown = [i for i, word in enumerate(words) if self._is_unknown(word)]
        # A distortion limit may leave no derivation.
        best = self._described(found[0], sentence) if found else _NOTHING
        if sentence.options:
            for phrase in best["phrases"]:
                phrase["options"] = self._options(words[slice(*phrase["source"])])
        return {
            **best,
            "source": _texts(words),
            "unknown": unknown,
            "nbest": [self._described(one, sentence) for one in found[: sentence.nbest]],
        }

    def _is_unknown(self, word: bytes) -> bool:
        found = self._model.translations((word,))
        return found is not None and found.targets[0].scores is None

    def _described(self, derivation: Derivation, sentence: Sentence) -> Result:
        """Return a translation, its score, its phrases, and the values of the features."""
        line = b" ".join(derivation.words)
        if not sentence.is_prepared and self._text is not None:
            [line] = self._text.settings.detokenise([line])
        model, phrases, first = self._model, [], 0
        for step in derivation.steps:
            end = first + len(step.target.words)
            phrases.append(
                {
                    "source": [step.start, step.end + 1],
                    "target": [first, end],
                    "alignment": [[step.start + i, first + j] for i, j in sorted(step.target.alignment)],
                    "columns": self._probabilities(step.target),
                }
            )
            first = end
        return {
            "text": _text(line),
            "words": _texts(derivation.words),
            "score": derivation.score,
            "phrases": phrases,
            "features": {one.label: derivation.values_F[model.columns[one.label]].tolist() for one in model.features},
        }

    def _options(self, source: Words) -> list[Result]:
        """Return the options of a source phrase, best first."""
        found = self._model.translations(source)
        return [
            {"words": _texts(target.words), "columns": self._probabilities(target)}
            for target in (found.targets if found else ())
        ]

    def _probabilities(self, target: TargetPhrase) -> dict[str, float]:
        return {name: math.exp(value) for name, value in zip(self._columns, target.scores or (), strict=False)}


def column_names(ini: MosesIni) -> list[str]:
    """Name the columns of the phrase table: Moses' four, then by number, then those in context."""
    table = ini.phrase_table()
    of_moses = _OF_MOSES if table.width >= len(_OF_MOSES) else ()
    added = [f"column {number + 1}" for number in range(len(of_moses), table.width)]
    in_context = ["in context"] * (table.weight_count - table.width)
    return [*of_moses, *added, *in_context]


def _text(line: bytes) -> str:
    return line.decode("utf-8", "replace")


def _texts(words: Words) -> list[str]:
    return [_text(word) for word in words]


@contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    """Raise a TimeoutError in the body after some seconds; for the main thread of a process only."""

    def expire(number: int, frame: FrameType | None) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, expire)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
