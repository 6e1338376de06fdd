"""A loaded system that translates sentences and explains its translations.

The results are values of JSON. Probabilities of the table's columns are exp(value), as in the phrase table.

Shapes: K columns of the phrase table.
"""

from __future__ import annotations

import math
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

from moses_integration.building.preparation import SystemText
from moses_integration.decoder.declaration import load_model
from moses_integration.decoder.graph import Derivation, Step
from moses_integration.decoder.phrases import Words, words_of
from moses_integration.decoder.search import Search
from moses_integration.decoder.settings import read_settings
from moses_integration.decoder.tables import MappedPhrases
from moses_integration.decoder.translation_options import Options, collect_options
from moses_integration.ini import MosesIni
from moses_integration.per_text.context_column import values_now
from moses_integration.per_text.context_sections import networks_of, require_tuned_for, without_column
from moses_integration.per_text.options_in_context import OptionsInContext, TextColumn
from moses_integration.serving.batches import Failure, Limits, Result, Sentence, column_names
from phrasescore.device import Precision, configure_memory
from phrasescore.errors import UserError
from phrasescore.scoring.occurrences import Occurrences
from phrasescore.scoring.scorer import PhraseScorer, ScoringTask, load_scorer
from phrasescore.table.entry import SURFACE

Attempted = TypeVar("Attempted")
_KEPT_PHRASES = 5_000
"""Source phrases whose translations stay in memory between sentences, about 25 kB each."""

_NOTHING: Result = {"text": "", "words": [], "score": None, "phrases": [], "features": {}}


def _attempt(limits: Limits, function: Callable[..., Attempted], *arguments: Any) -> Attempted | Failure:
    try:
        with _time_limit(limits.seconds):
            return function(*arguments)
    except RejectedError as error:
        return Failure(str(error))
    except TimeoutError:
        return Failure(f"a sentence took more than {limits.seconds:g} s; give a shorter one", 504)
    except UserError as error:
        message = str(error)
        print(message, file=sys.stderr, flush=True)
        return Failure(message, 500)
    except Exception:
        traceback.print_exc()
        return Failure("translating failed because of a fault of the server; its log has the cause", 500)


class RejectedError(Exception):
    """The sentence cannot be translated; the message says why."""


class LoadedSystem:
    """A system whose tables and language models stay in memory."""

    def __init__(self, ini: MosesIni, folder: Path, device: str = "auto", precision: Precision = "auto") -> None:
        """Load a system; the lines of its tables are kept in files of a folder."""
        self._settings = read_settings(without_column(ini))
        self._scorer: PhraseScorer | None = None
        self._in_context: OptionsInContext | None = None
        if networks := networks_of(ini):
            configure_memory()
            self._scorer = load_scorer(*networks, device=device, precision=precision)
            require_tuned_for(ini, self._scorer)
            self._in_context = OptionsInContext(ini, MappedPhrases(folder), self._settings)
            self._model = self._in_context.model
        else:
            self._model = load_model(ini, MappedPhrases(folder), self._settings)
        self._columns, self._table = column_names(ini), self._model.columns[ini.phrase_table().label]
        self._text = SystemText.of(ini)
        self._prepare = self._text.source_preparation() if self._text else None

    def translate(self, sentences: Sequence[Sentence], limits: Limits) -> list[Result | Failure]:
        """Return the translation of each sentence; a failure of one does not affect the others."""
        words = [_attempt(limits, self._words, sentence, limits) for sentence in sentences]
        valid = [one for one in words if not isinstance(one, Failure)]
        together = _attempt(limits, self._collect, valid)
        collected: Sequence[Options | Failure] = [together] if isinstance(together, Failure) else together
        if isinstance(together, Failure) and len(valid) > 1:
            # Find the sentence that caused it.
            collected = [_attempt(limits, lambda one=one: self._collect([one])[0]) for one in valid]
        options = iter(collected)
        results: list[Result | Failure] = []
        for sentence, one in zip(sentences, words, strict=True):
            found = one if isinstance(one, Failure) else next(options)
            results.append(
                found if isinstance(found, Failure) else _attempt(limits, self._translate, sentence, one, found)
            )
        (self._in_context or self._model).limit_cache(_KEPT_PHRASES)
        return results

    def _collect(self, sentences: Sequence[Words]) -> list[Options]:
        """Return the options of sentences, scored by the network together."""
        if self._in_context is None or self._scorer is None:
            return [collect_options(self._model, words, self._settings.longest_phrase) for words in sentences]
        positions = self._in_context.positions(sentences)
        column = TextColumn.of(positions, values_now(self._scorer, positions), self._scorer.context_column)
        return [self._in_context.options(words, column.of_sentence(i)) for i, words in enumerate(sentences)]

    def _words(self, sentence: Sentence, limits: Limits) -> Words:
        try:
            line = sentence.text.replace("\r", " ").replace("\n", " ").encode()
        except UnicodeEncodeError:
            raise RejectedError("a sentence has half of a surrogate pair, which is no character; remove it") from None
        if not sentence.is_prepared:
            if self._prepare is None:
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

    def _translate(self, sentence: Sentence, words: Words, options: Options) -> Result:
        graph = Search(self._model, self._settings, words, options).run(sentence.nbest > 0)
        found = graph.n_best(max(1, sentence.nbest), sentence.distinct and sentence.nbest > 0)
        # A distortion limit may leave no derivation.
        best = self._described(found[0], options, sentence) if found else _NOTHING
        if sentence.options and found:
            for phrase, step in zip(best["phrases"], found[0].steps, strict=True):
                phrase["options"] = self._described_options(words[step.start : step.end + 1], options, step)
        return {
            **best,
            "source": _texts(words),
            "unknown": options.copied_words(),
            "nbest": [self._described(one, options, sentence) for one in found[: sentence.nbest]],
        }

    def _described(self, derivation: Derivation, options: Options, sentence: Sentence) -> Result:
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
                    "columns": self._probabilities(options, step.option),
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

    def _described_options(self, source: Words, options: Options, step: Step) -> list[Result]:
        """Return the options of the span that a step covers."""
        same_span_O = (options.start_O[:-1] == step.start) & (options.end_O[:-1] == step.end)
        numbers = same_span_O.nonzero()[0].tolist()
        targets = [options.targets[number] for number in numbers]
        described: list[Result] = [
            {"words": _texts(target.words), "columns": self._probabilities(options, number)}
            for number, target in zip(numbers, targets, strict=True)
        ]
        if self._scorer is not None and targets[0].scores is not None:
            network_words = (self._scorer.factors or SURFACE).network_words
            alone = Occurrences(
                [b" ".join(source)] * len(targets), [network_words(b" ".join(target.words)) for target in targets]
            )
            scores = ScoringTask(self._scorer, (self._scorer.context_column,))(alone)
            for one, log_prob in zip(described, scores.first_N.tolist(), strict=True):
                one["without_sentence"] = math.exp(log_prob)
        return described

    def _probabilities(self, options: Options, number: int) -> dict[str, float]:
        """Return the columns of an option; a copied word has none."""
        if options.targets[number].scores is None:
            return {}
        values = options.values_OF[number, self._table].tolist()
        return {name: math.exp(value) for name, value in zip(self._columns, values, strict=True)}


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
