"""The commands of `phrasescore lm` as functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phrasescore.device import Precision, choose_device, settle_memory
from phrasescore.errors import UserError
from phrasescore.lm.lm_scorer import NeuralLmScorer
from phrasescore.lm.lm_settings import DEFAULT_PRESET, SECTIONS, LmSettings
from phrasescore.lm.lm_training import prepare
from phrasescore.lm.perplexity import TextScores, learn_weight, score_text
from phrasescore.scoring.given_pairs import Text, clean_text
from phrasescore.text import Log, no_log
from phrasescore.training.layers import Layer, by_section, check_nothing_is_held_out
from phrasescore.training.loop import Evaluation, Status, Watcher
from phrasescore.training.start import Start

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class LmScores:
    """The scores of a text under a neural language model."""

    log_probs_S: Floats
    """ln p of each sentence, end of sentence included, [S]."""
    summary: TextScores
    """Word counts, and the perplexity under each model."""


def lm_train(
    text: str | Path,
    folder: str | Path,
    *,
    validation: str | Path | None = None,
    preset: str = DEFAULT_PRESET,
    device: str = "auto",
    precision: Precision = "auto",
    restart: bool = False,
    on_update: Callable[[Status], None] = lambda status: None,
    on_evaluation: Callable[[Evaluation], None] = lambda evaluation: None,
    log: Log = no_log,
    **options: Any,
) -> None:
    """Train a neural language model, as `phrasescore lm train` does.

    An interrupted run in the folder is resumed; a finished run is not repeated.

    Args:
        text: a tokenised text, one sentence a line.
        folder: the model folder; it is created if it does not exist.
        validation: a text to measure the perplexity on; by default some sentences are held out.
        preset: the base settings: `small` or `cho2014`.
        device: `auto`, `cpu`, `cuda` or `cuda:N`.
        precision: of matrix products: `auto`, `fp32` or `bf16`.
        restart: start over even if the folder holds a run.
        on_update: called periodically with the loss and the fraction of the training that is complete.
        on_evaluation: called with each evaluation.
        log: called with a line about unusual input.
        options: settings that override the preset, by their names in TOML, such as `order=5`, `epochs=10`; `phrasescore
            lm train --help-all` lists them.

    Raises:
        TypeError: an option does not exist.
        UserError: a value or a text is invalid, or the folder holds something else or another run.
    """
    given = Layer("lm_train()", by_section("lm_train()", options, SECTIONS), {name: name for name in options})
    settings = LmSettings.of(preset, [given])
    if validation is not None:
        check_nothing_is_held_out(settings.given, "validation")
    settle_memory()
    other = None if validation is None else Path(validation)
    trainer, _ = prepare(text, Path(folder), settings, choose_device(device, precision), other, Start(restart, log=log))
    trainer.watcher = Watcher(on_update, on_evaluation)
    trainer.train()


def lm_score(
    sentences: Iterable[Text],
    model: str | Path,
    *,
    backoff: str | Path | None = None,
    unnormalised: bool = False,
    interpolate: float | None = None,
    weight_text: str | Path | None = None,
    device: str = "auto",
    precision: Precision = "auto",
    log: Log = no_log,
) -> LmScores:
    """Return ln p (natural logs) of each sentence under a neural language model, and the perplexity of the text.

    Args:
        sentences: tokenised as the training text of the model, `str` or `bytes`.
        model: the model folder.
        backoff: n-gram model, ARPA or KenLM binary, for the words outside the shortlist. Without it each of these words
            gets the probability of all of them together, and the scores are not a distribution over words.
        unnormalised: omit the sum of the softmax; for networks trained with `self_normalise`.
        interpolate: the weight of the network in a linear interpolation with `backoff`.
        weight_text: a text, not the scored one, on which to optimise that weight instead.
        device: `auto`, `cpu`, `cuda` or `cuda:N`.
        precision: of matrix products: `auto`, `fp32` or `bf16`.
        log: called with a line about unusual lines of `weight_text`.

    Raises:
        TypeError: a sentence is neither `str` nor `bytes`.
        UserError: there is no sentence, options conflict, or a model cannot be used.
    """
    if isinstance(sentences, Text):
        raise TypeError("sentences: are one text; give a list of sentences")
    if (interpolate is not None or weight_text is not None) and backoff is None:
        raise UserError("interpolate: needs an n-gram model to interpolate with; give backoff")
    if interpolate is not None and weight_text is not None:
        raise UserError("interpolate: is the weight that weight_text determines; leave one of them out")
    if interpolate is not None and not 0 <= interpolate <= 1:
        raise UserError(f"interpolate: is {interpolate}; give a number between 0 and 1")
    settle_memory()
    scorer = NeuralLmScorer.load(
        Path(model), choose_device(device, precision), None if backoff is None else Path(backoff), unnormalised
    )
    weight = interpolate if weight_text is None else learn_weight(scorer, Path(weight_text), log)
    summary = TextScores(scorer, weight)
    found = [
        [float(words.sum()) for words in summary.add(some)]
        for some in score_text(scorer, "sentences", lambda _: _clean_sentences(sentences))
    ]
    return LmScores(np.array([*chain.from_iterable(found)]), summary)


def _clean_sentences(sentences: Iterable[Text]) -> Iterator[bytes]:
    for number, sentence in enumerate(sentences, 1):
        if not isinstance(sentence, Text):
            raise TypeError(f"sentence {number}: is of type {type(sentence).__name__}; give str or bytes")
        yield clean_text(sentence, f"sentence {number}")
