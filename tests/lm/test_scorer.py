"""Normalisation with fallback, equality of batched and single scoring, and the source of each word's score."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import kenlm
import numpy as np
import pytest
import torch

from phrasescore.device import Device
from phrasescore.errors import UserError
from phrasescore.lm import lm_scorer as scorer_module
from phrasescore.lm.lm_scorer import NeuralLmScorer
from phrasescore.lm.ngram_cache import NgramCache
from phrasescore.vocabulary import END
from tests.conftest import DATA, MINI
from tests.counting import count_rows
from tests.lm.conftest import ARPA

MakeScorer = Callable[..., NeuralLmScorer]
SENTENCES = [line.split(b" ") for line in (MINI / "test.fr").read_bytes().splitlines()]


def all_words(scorer: NeuralLmScorer) -> list[int]:
    """Return the end symbol, the shortlist, the other words of the n-gram model, and one unknown word."""
    unigrams = ARPA.read_text().split("\\1-grams:\n")[1].split("\n\n")[0].splitlines()
    words = {line.split("\t")[1].encode() for line in unigrams} | set(scorer.model.vocabulary.known_words)
    words -= {b"<s>", b"</s>", b"<unk>"}
    return [END, *map(scorer.word_id, sorted(words)), scorer.word_id(b"unheard-of")]


def test_the_probabilities_of_all_words_sum_to_one(make_scorer: MakeScorer) -> None:
    """The probabilities of all words sum to one after any context.

    Contexts include sentence starts and words in and outside the shortlist and unknown to both models.
    """
    scorer = make_scorer()
    words = np.array(all_words(scorer))
    outside = words[words >= scorer.shortlist]
    assert len(outside) > 60
    rng = np.random.default_rng(3)
    contexts = [[1, 1, 1], [1, 1, 4], [1, int(outside[0]), int(outside[5])], [int(words[-1]), 5, 2]]
    contexts += rng.choice(words[1:], (20, 3)).tolist()
    for context in contexts:
        log_probs = scorer.log_probs(np.tile(context, (len(words), 1)), words)
        assert math.fsum(np.exp(log_probs).tolist()) == pytest.approx(1.0, abs=1e-6)
        known = np.exp(log_probs[words < scorer.shortlist]).sum()
        class_of_unknown = math.exp(scorer.log_probs(np.array([context]), np.array([0]))[0])
        assert known + class_of_unknown == pytest.approx(1.0, abs=1e-6)


def test_words_outside_the_shortlist_share_as_the_ngram_model_says(make_scorer: MakeScorer) -> None:
    scorer = make_scorer()
    model = kenlm.Model(str(ARPA))
    sentence = next(s for s in SENTENCES if any(scorer.word_id(word) >= scorer.shortlist for word in s[2:]))
    place = next(i for i, word in enumerate(sentence) if i > 1 and scorer.word_id(word) >= scorer.shortlist)
    texts = [word.decode() for word in sentence]

    def back_off(word: str) -> float:
        nothing, before = kenlm.State(), kenlm.State()
        model.NullContextWrite(nothing)
        model.BaseScore(nothing, texts[place - 1], before)
        return float(10.0 ** model.BaseScore(before, word, kenlm.State()))

    inside = [word.decode() for word in scorer.model.vocabulary.known_words if word.decode() in model]
    outside = 1 - sum(map(back_off, [*inside, "</s>"]))
    found = scorer.word_log_probs([sentence])[0][place]
    without = make_scorer(backoff=False)
    plain = without.word_log_probs([sentence])[0][place]
    assert found - plain == pytest.approx(math.log(back_off(texts[place]) / outside), abs=1e-4)


def test_the_first_word_of_a_sentence_shares_behind_its_start(make_scorer: MakeScorer) -> None:
    scorer, without = make_scorer(words=5), make_scorer(words=5, backoff=False)
    model, start = kenlm.Model(str(ARPA)), kenlm.State()
    model.BeginSentenceWrite(start)

    def back_off(word: str) -> float:
        return float(10.0 ** model.BaseScore(start, word, kenlm.State()))

    sentence = next(s for s in SENTENCES if scorer.word_id(s[0]) >= scorer.shortlist)
    inside = [word.decode() for word in scorer.model.vocabulary.known_words if word.decode() in model]
    share = back_off(sentence[0].decode()) / (1 - sum(map(back_off, [*inside, "</s>"])))
    found, plain = (one.word_log_probs([sentence])[0][0] for one in (scorer, without))
    assert found - plain == pytest.approx(math.log(share), abs=1e-4)


@pytest.mark.parametrize("unnormalised", [False, True])
@pytest.mark.parametrize("rows", [7, 1024])
def test_scores_do_not_depend_on_their_company(
    make_scorer: MakeScorer, monkeypatch: pytest.MonkeyPatch, rows: int, unnormalised: bool
) -> None:
    monkeypatch.setattr(scorer_module, "_ROWS", {"cpu": rows})
    scorer = make_scorer()
    log_probs = partial(scorer.sentence_log_probs, unnormalised=unnormalised)
    together = log_probs(SENTENCES)
    alone = [log_probs([sentence])[0] for sentence in SENTENCES]
    assert together == pytest.approx(alone, abs=1e-4)
    assert len(set(np.round(together, 3))) > 50
    backwards = log_probs(SENTENCES[::-1])[::-1]
    assert together == pytest.approx(backwards, abs=1e-4)


def test_equal_contexts_cost_one_row(make_scorer: MakeScorer, monkeypatch: pytest.MonkeyPatch) -> None:
    scorer = make_scorer()
    rows = count_rows(scorer.model.network, "hidden", monkeypatch)
    other, another = scorer.word_id(b"nobody"), scorer.word_id(b"nowhere")
    contexts = np.array([[1, 1, 4], [1, 1, 4], [1, other, 4], [1, another, 4], [1, 1, 4]])
    scores = scorer.log_probs(contexts, np.array([4, 5, 6, 6, 4]))
    assert rows == [2]
    assert scores[0] == scores[4]
    assert scores[2] == scores[3]


def contexts(scorer: NeuralLmScorer, sentence: list[bytes]) -> list[tuple[int, ...]]:
    """Return the context of each word and of the end as ids of the network."""
    ids = [1, 1, 1, *(number if (number := scorer.word_id(word)) < scorer.shortlist else 0 for word in sentence)]
    return [tuple(ids[first : first + 3]) for first in range(len(sentence) + 1)]


@pytest.mark.parametrize("rows", [7, 1024])
def test_contexts_that_come_back_are_not_summed_again(
    make_scorer: MakeScorer, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    """ln Z of a repeated context is not computed again, also if later requests mix old and new contexts."""
    monkeypatch.setattr(scorer_module, "_ROWS", {"cpu": rows})
    scorer, plain = make_scorer(), make_scorer()
    scorer.norms = NgramCache()
    summed = count_rows(scorer.model.network.softmax, "log_probs", monkeypatch)
    for sentences in (SENTENCES[::3], SENTENCES, SENTENCES):
        assert scorer.sentence_log_probs(sentences) == pytest.approx(plain.sentence_log_probs(sentences), abs=1e-4)
    asked = [ngram for sentence in SENTENCES for ngram in contexts(scorer, sentence)]
    assert sum(summed) == len({*asked}) < len(asked)


def test_words_and_sentences(make_scorer: MakeScorer) -> None:
    scorer = make_scorer()
    assert [scorer.word_id(word) for word in (b"<unk>", b"<eos>", b"new", b"<unk>", b"new")] == [
        scorer.shortlist + number for number in (0, 1, 2, 0, 2)
    ]
    assert scorer.word_id(scorer.model.vocabulary.words[2]) == 2
    scores = scorer.word_log_probs([SENTENCES[0], [], SENTENCES[1]])
    assert [len(part) for part in scores] == [len(SENTENCES[0]) + 1, 1, len(SENTENCES[1]) + 1]
    assert scorer.sentence_log_probs([[]])[0] == pytest.approx(scores[1].sum())
    assert scorer.sentence_log_probs([]) == []
    assert len(scorer.log_probs(np.zeros((0, 3), np.int64), np.zeros(0, np.int64))) == 0
    assert np.isfinite(scorer.sentence_log_probs([[b"\xff\xfe", b"</s>", b"<s>"]])).all()


def test_folders_and_files_that_are_wrong(tmp_path: Path, cpu: Device) -> None:
    with pytest.raises(UserError, match="is not a model folder"):
        NeuralLmScorer.load(tmp_path, cpu)
    with pytest.raises(UserError, match="a network of the kind encoder-decoder"):
        NeuralLmScorer.load(DATA / "stored-model", cpu)


@pytest.mark.parametrize("is_of_ngrams", [False, True])
@pytest.mark.parametrize("unnormalised", [False, True])
def test_a_network_that_gives_no_log_probabilities_is_rejected(
    make_scorer: MakeScorer, unnormalised: bool, is_of_ngrams: bool
) -> None:
    """A network that gives no log-probabilities is an error.

    Without normalisation a score above 0 is possible and looks like a valid number.
    """
    scorer = make_scorer()
    log_probs: Callable[[], Any] = partial(
        scorer.sentence_log_probs, [[b"un", b"chien", b"nulle-part"]], unnormalised=unnormalised
    )
    if is_of_ngrams:
        context_Qc = np.full((1, scorer.order - 1), END)
        log_probs = partial(scorer.log_probs, context_Qc, np.array([END]), unnormalised=unnormalised)
    with torch.no_grad():
        scorer.model.network.softmax.words.bias.fill_(40.0)
    assert (log_probs()[0] > 0) == unnormalised
    for number in (math.nan, math.inf, -math.inf):
        with torch.no_grad():
            scorer.model.network.softmax.words.bias.fill_(number)
        with pytest.raises(
            UserError, match=r"^random: (gives scores that are no log-prob|computes numbers that are not)"
        ):
            log_probs()
