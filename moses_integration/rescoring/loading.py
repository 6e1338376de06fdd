"""Scorers of n-best lists as a user names them: loaded from the folders of networks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from moses_integration.rescoring.kinds import LANGUAGE_MODELS, ScorerChoice
from moses_integration.rescoring.scorers import (
    LanguageModelScorer,
    ListScorer,
    Numbers,
    PairScorer,
    PairScores,
    UnknownWords,
    phrase_pairs,
    sentence_pair,
)
from phrasescore.errors import UserError
from phrasescore.workers import Here, Workers

if TYPE_CHECKING:
    from phrasescore.device import Device
    from phrasescore.scoring.scores import UnknownSide

_UNKNOWN_SIDES: dict[str, UnknownSide] = {"unknown": "target", "unknown-source": "source", "unknown-both": "both"}


def load_scorers(
    choices: Sequence[ScorerChoice], device: Device, backoff: Path | None = None, workers: Workers | None = None
) -> list[ListScorer]:
    """Load scorers; those of one encoder-decoder's folder share it.

    Args:
        choices: the scorers.
        device: where and how precisely the networks compute.
        backoff: n-gram model, ARPA or KenLM binary, for the words outside a neural language model's shortlist;
            without it the scores of such a model are no distribution.
        workers: to share the work of the networks; None for nobody.

    Raises:
        UserError: a folder cannot be loaded.
    """
    from phrasescore.lm.model_folder import KIND as LANGUAGE_MODEL
    from phrasescore.model_folder import network_kind

    @cache
    def network(folder: Path) -> PairScores:
        from phrasescore.scoring.engine import Scorer

        engine = Scorer.load(folder, device=str(device.torch_device), precision=device.precision)
        return PairScores(engine, workers)

    def load(choice: ScorerChoice) -> ListScorer:
        if choice.kind == "numbers":
            return Numbers(choice.label, choice.path)
        if choice.kind in LANGUAGE_MODELS:
            return _load_language_model(choice, device, backoff, workers)
        if choice.kind in _UNKNOWN_SIDES and network_kind(choice.path) == LANGUAGE_MODEL:
            return _unknown_to_language_model(choice)
        scores = network(choice.path)
        if choice.kind in _UNKNOWN_SIDES:
            return UnknownWords.of(choice.label, scores.engine.model, _UNKNOWN_SIDES[choice.kind])
        pairs_of = phrase_pairs if choice.kind.startswith("phrases") else sentence_pair
        return PairScorer(choice.label, scores, pairs_of, per_word=choice.kind.endswith("per-word"))

    return [load(choice) for choice in choices]


def _unknown_to_language_model(choice: ScorerChoice) -> UnknownWords:
    from phrasescore.lm.model_folder import load_language_model

    if _UNKNOWN_SIDES[choice.kind] != "target":
        raise UserError(
            f"{choice.path}: holds a language model, which knows no source words; give {choice.label}=unknown:"
            f"{choice.path}, or the folder of an encoder-decoder"
        )
    model = load_language_model(choice.path)
    return UnknownWords(choice.label, model.weights_digest, source_words=None, target_words=model.vocabulary)


def _load_language_model(
    choice: ScorerChoice, device: Device, backoff: Path | None, workers: Workers | None
) -> LanguageModelScorer:
    from phrasescore.lm.scorer import NeuralLmScorer

    scorer = NeuralLmScorer.load(choice.path, device, backoff, unnormalised=choice.kind == "lm-unnormalised")
    return LanguageModelScorer(choice.label, scorer.shared(), scorer.model.weights_digest, workers or Here())
