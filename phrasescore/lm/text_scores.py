"""Score a text with a neural language model, its back-off model and their interpolation."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phrasescore.device import Precision, choose_device, configure_memory
from phrasescore.errors import UsageError, UserError, arg_name
from phrasescore.files import display_name
from phrasescore.lm.lm_scorer import NeuralLmScorer
from phrasescore.lm.ngrams import AffiliatedSource, TextRow, affiliate
from phrasescore.model_files import described, versions
from phrasescore.parallel_text import ParallelText
from phrasescore.phrases import Phrases
from phrasescore.scoring.occurrences import Text, clean_texts
from phrasescore.text import Log, chunks, no_log, utf8_lines
from phrasescore.training.batches import perplexity
from phrasescore.words import join_words, split_words

Floats = NDArray[np.float64]

_SENTENCES_AT_ONCE = 10_000
_STEPS = 200
_CLOSE = 1e-6


class TextScores:
    """Word counts and perplexities of a text; as in KenLM's `query`, ends of sentences and unknown words count."""

    def __init__(self, scorer: NeuralLmScorer, weight: float | None = None) -> None:
        self.scorer, self.weight = scorer, weight
        self.sentences = self.outside_shortlist = 0
        self.words = 0
        """Includes ends of sentences."""
        self.unknown_to_backoff = None if scorer.backoff is None else 0
        """Number of words unknown to the back-off model; None without one."""
        self._log_probs: defaultdict[str, float] = defaultdict(float)

    @classmethod
    def load(
        cls,
        model: str | Path,
        backoff: str | Path | None = None,
        *,
        interpolate: float | None = None,
        weight_text: str | Path | None = None,
        device: str = "auto",
        precision: Precision = "auto",
        log: Log = no_log,
    ) -> TextScores:
        """Load the models, and determine the weight of the interpolation.

        Args:
            model: the model folder.
            backoff: n-gram model, ARPA or KenLM binary, for the words outside the shortlist. Without it each of these
                words gets the probability of all of them together, and the scores are not a distribution over words.
            interpolate: the weight of the network in a linear interpolation with `backoff`.
            weight_text: a text, not the scored one, on which to optimise that weight instead.
            device: `auto`, `cpu`, `cuda` or `cuda:N`.
            precision: of matrix products: `auto`, `fp32`, `bf16` or `int8`.
            log: called with a line about unusual lines of `weight_text`.
        """
        if (interpolate is not None or weight_text is not None) and backoff is None:
            given = arg_name("interpolate" if weight_text is None else "weight_text")
            raise UsageError(f"{given}: needs an n-gram model to interpolate with; give {arg_name('backoff')}")
        if interpolate is not None and weight_text is not None:
            first, second = arg_name("interpolate"), arg_name("weight_text")
            raise UsageError(f"{first}: is the weight that {second} determines; leave one of them out")
        if interpolate is not None and not 0 <= interpolate <= 1:
            raise UsageError(f"{arg_name('interpolate')}: is {interpolate}; give a number between 0 and 1")
        configure_memory()
        ngrams = None if backoff is None else Path(backoff)
        scorer = NeuralLmScorer.load(Path(model), choose_device(device, precision), ngrams)
        if scorer.source_window and weight_text is not None:
            raise UsageError(
                f"{arg_name('weight_text')}: is for models that read no source; give {arg_name('interpolate')}"
            )
        return cls(scorer, interpolate if weight_text is None else learn_weight(scorer, Path(weight_text), log))

    def summary(self) -> str:
        found = self.perplexity
        rows = [
            ("sentences", f"{self.sentences:,}"),
            ("words and ends of sentences", f"{self.words:,}"),
            ("words outside the shortlist", f"{self.outside_shortlist:,}"),
            ("perplexity of the neural language model", f"{found['network']:.3f}"),
        ]
        if self.unknown_to_backoff is None:
            advice = f"no distribution over words; give {arg_name('backoff')}"
            rows.append(("", f"words outside the shortlist share one probability: {advice}"))
        else:
            rows.append(("perplexity of the back-off model", f"{found['backoff']:.3f}"))
            rows.append(("words unknown to the back-off model", f"{self.unknown_to_backoff:,}"))
        if self.weight is not None:
            rows.append(("weight of the neural language model", f"{self.weight:.4f}"))
            rows.append(("perplexity of the interpolation", f"{found['interpolation']:.3f}"))
        return "".join(f"{name:41}{value}\n" for name, value in rows)

    def report(
        self, model: Path, text: str | Path | ParallelText, backoff: Path | None, weight_text: Path | None
    ) -> dict[str, Any]:
        """Return the perplexities and their provenance; digests are those of the files as stored."""
        counts = ("sentences", "words", "outside_shortlist", "unknown_to_backoff")
        device = self.scorer.device
        files: dict[str, str | Path | None]
        if isinstance(text, ParallelText):
            files = {"text": text.target, "source": text.source, "alignment": text.alignment}
        else:
            files = {"text": text}
        digests = {name: described(file) for name, file in files.items() if file is not None}
        return {
            "schema": 1,
            "model": {"folder": str(model), "weights_sha256": self.scorer.fingerprint},
            "backoff": backoff and described(backoff),
            **digests,
            "text": {**digests["text"], **{name: getattr(self, name) for name in counts}},
            "weight": self.weight,
            "weight_text": weight_text and described(weight_text),
            "perplexity": self.perplexity,
            "computing": {"device": str(device.torch_device), "precision": device.precision},
            "versions": versions(),
        }

    @property
    def perplexity(self) -> dict[str, float | None]:
        """Perplexity under `network`, `backoff` and `interpolation`; None for a model that was not given."""
        return {
            name: perplexity(-self._log_probs[name] / self.words) if name in self._log_probs else None
            for name in ("network", "backoff", "interpolation")
        }

    def score(self, rows: Iterable[TextRow], name: str) -> Iterator[float]:
        """Yield ln p of each row of a tokenised text, interpolated if there is a weight; `name` is for messages."""
        for sentences, network, backoff in _scored(self.scorer, rows, name):
            self._count(sentences)
            found = {"network": network, "backoff": backoff} if self.scorer.backoff else {"network": network}
            if self.weight is not None:
                mixed = [interpolate(*both, self.weight) for both in zip(network, backoff, strict=True)]
                found["interpolation"] = mixed
            for model, scores in found.items():
                self._log_probs[model] += float(np.concatenate(scores).sum())
            yield from (float(one.sum()) for one in found.get("interpolation", network))

    def _count(self, sentences: list[list[bytes]]) -> None:
        words = [word for sentence in sentences for word in sentence]
        self.sentences += len(sentences)
        self.words += len(words) + len(sentences)
        self.outside_shortlist += sum(self.scorer.word_id(word) >= self.scorer.shortlist for word in words)
        if self.scorer.backoff is not None and self.unknown_to_backoff is not None:
            self.unknown_to_backoff += sum(word not in self.scorer.backoff for word in words)


def lm_score(
    sentences: Iterable[Text],
    model: str | Path,
    *,
    source: Iterable[Text] | None = None,
    alignment: Iterable[Text] | None = None,
    **options: Any,
) -> tuple[Floats, TextScores]:
    """Return ln p (natural logs) of each sentence, end included, [S]; and word counts and perplexities of the text.

    A joint model needs the source sentences and the word alignment of each, such as `0-0 1-2`, source first. `options`
    are those of `TextScores.load`, such as `backoff="lm.arpa"`, `interpolate=0.5`.
    """
    if (source is None) != (alignment is None):
        raise TypeError("source, alignment: belong together; give both or neither")
    rows: Iterable[TextRow] = map(TextRow, clean_texts(sentences, "sentence"))
    if source is not None and alignment is not None:
        sides = clean_texts(sentences, "sentence"), clean_texts(source, "source"), clean_texts(alignment, "alignment")
        rows = affiliate(_abreast(*sides), Path("alignment"))
    scores = TextScores.load(model, **options)
    return np.fromiter(scores.score(rows, "sentences"), np.float64), scores


def _abreast(*sides: Iterable[bytes]) -> Iterator[tuple[bytes, ...]]:
    for number, row in enumerate(zip_longest(*sides), 1):
        if None in row:
            raise UserError(f"sentences, source, alignment: only some have item {number}; give lists of equal length")
        yield row


def _scored(
    scorer: NeuralLmScorer, rows: Iterable[TextRow], name: str
) -> Iterator[tuple[list[list[bytes]], list[Floats], list[Floats]]]:
    is_empty = True
    for some in chunks(rows, _SENTENCES_AT_ONCE):
        is_empty = False
        sentences = [split_words(row.target) for row in some]
        backoff = [] if scorer.backoff is None else scorer.backoff.word_log_probs(sentences)
        yield sentences, scorer.word_log_probs(sentences, _source_of(scorer, some)), backoff
    if is_empty:
        raise UserError(f"{name}: is empty; give a tokenised text, one sentence a line")


def _source_of(scorer: NeuralLmScorer, rows: Sequence[TextRow]) -> AffiliatedSource | None:
    vocabulary, sources = scorer.model.source_vocabulary, [row.source for row in rows if row.source is not None]
    options = f"{arg_name('source')} and {arg_name('alignment')}"
    if vocabulary is None and sources:
        raise UsageError(f"{scorer.model.folder}: is a model that reads no source; leave out {options}")
    if vocabulary is None:
        return None
    if not sources:
        raise UsageError(f"{scorer.model.folder}: is a joint model, which also reads source words; give {options}")
    affiliations = Phrases.from_lists(row.affiliations for row in rows)
    return AffiliatedSource(vocabulary.encode(list(map(join_words, sources))), affiliations)


def learn_weight(scorer: NeuralLmScorer, path: Path, log: Log = no_log) -> float:
    """Return the weight of the network that maximises the likelihood of a UTF-8 text; see `best_weight`."""
    scored = list(_scored(scorer, map(TextRow, utf8_lines(path, log)), display_name(path)))
    network = [scores for _, some, _ in scored for scores in some]
    backoff = [scores for _, _, some in scored for scores in some]
    return best_weight(np.concatenate(network), np.concatenate(backoff))


def interpolate(first: Floats, second: Floats, weight: float) -> Floats:
    """Return ln(weight * p_1 + (1 - weight) * p_2) of each word."""
    if weight in (0.0, 1.0):
        return first if weight else second
    mixed: Floats = np.logaddexp(np.log(weight) + first, np.log1p(-weight) + second)
    return mixed


def best_weight(first: Floats, second: Floats) -> float:
    """Return the weight of the first model that maximises the likelihood of a text, by expectation maximisation."""
    weight = 0.5
    for _ in range(_STEPS):
        before, weight = weight, float(np.exp(np.log(weight) + first - interpolate(first, second, weight)).mean())
        if abs(weight - before) < _CLOSE:
            break
    return weight
