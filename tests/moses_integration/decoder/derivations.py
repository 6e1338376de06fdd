"""Score given derivations, from our decoder or from Moses, without search or pruning.

Shapes: D derivations of L phrase pairs each, F components of all features, K components of one feature.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import numpy as np

from moses_integration.decoder.graph import Derivation, Step, step_values
from moses_integration.decoder.model import LogLinearModel, Translations
from moses_integration.decoder.phrases import Floats, Indices, Words
from moses_integration.decoder.translation_options import Options, assemble_options
from moses_integration.nbest import Segment, cover_once
from phrasescore.errors import UserError


def score_derivations(
    model: LogLinearModel, sentence: Words, derivations: Sequence[Sequence[Segment]]
) -> list[Derivation]:
    """Return derivations of one sentence with feature values and scores; each is given as its phrases in target order.

    Table limit and distortion limit do not apply. Of several table lines with the same words, the one with the highest
    score counts. Raises UserError if the phrases do not cover each word once, or if a phrase is not in the table.
    """
    numbers: dict[Segment, int] = {}
    for segments in derivations:
        if not cover_once(segments, len(sentence)):
            raise UserError(f"the phrases of `{_text(sentence)}` do not cover each word once; give a whole derivation")
        for segment in segments:
            numbers.setdefault(segment, len(numbers))
    pairs = [_phrase_pair(model, sentence, segment) for segment in numbers]
    # Each phrase pair is the only option of its span.
    spans = [(segment.start, segment.end) for segment in numbers]
    options = assemble_options(model, sentence, spans, [1] * len(pairs), model.joined(pairs))
    begin = [feature.begin(options) for feature in model.language_models]
    scored: dict[int, Derivation] = {}
    by_length = sorted(range(len(derivations)), key=lambda d: len(derivations[d]))
    for _, group in groupby(by_length, key=lambda d: len(derivations[d])):
        members = list(group)
        option_DL = np.array([[numbers[s] for s in derivations[d]] for d in members], np.int64)
        for d, row_L, values_F in zip(
            members, option_DL.tolist(), _values(model, options, begin, option_DL), strict=True
        ):
            steps = tuple(
                Step(s.start, s.end, int(o), options.targets[o]) for s, o in zip(derivations[d], row_L, strict=True)
            )
            scored[d] = Derivation(steps, float(values_F @ model.weights_F), values_F)
    return [scored[d] for d in range(len(derivations))]


def _values(model: LogLinearModel, options: Options, begin: Sequence[int], option_DL: Indices) -> Floats:
    """Return the feature values [D, F] of derivations given as their options."""
    count, length = option_DL.shape
    previous_DL = np.concatenate([np.full((count, 1), -1), option_DL], axis=1)[:, :-1]
    values_LF = step_values(model, options, previous_DL.ravel(), option_DL.ravel())
    values_DLF = values_LF.reshape(count, length, model.width)
    values_DF: Floats = values_DLF.sum(axis=1)
    for feature, state in zip(model.language_models, begin, strict=True):
        states_D = np.full(count, state)
        for step in range(length):
            value_DK, states_D = feature.extend(states_D, option_DL[:, step], is_end=step == length - 1)
            values_DF[:, model.columns[feature.label]] += value_DK
    return values_DF


def _phrase_pair(model: LogLinearModel, sentence: Words, segment: Segment) -> Translations:
    source = sentence[segment.start : segment.end + 1]
    every = model.all_translations(source)
    same = [i for i, target in enumerate(every.targets) if target.words == segment.words] if every else []
    if every is None or not same:
        assert model.table is not None
        raise UserError(
            f"{model.table.path}: does not translate `{_text(source)}` as `{_text(segment.words)}`; give derivations "
            "of this system"
        )
    score_T = every.values_TF @ model.weights_F
    return every.take([max(same, key=lambda i: float(score_T[i]))])


def _text(words: Words) -> str:
    return b" ".join(words).decode(errors="replace")
