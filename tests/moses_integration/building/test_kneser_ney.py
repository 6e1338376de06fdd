"""The Kneser-Ney estimator against its equations and lmplz's file, and as a probability distribution in KenLM."""

from __future__ import annotations

import gzip
import math
import random
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import kenlm
import pytest

from moses_integration.building.kneser_ney import KneserNeyModel, estimate
from tests.conftest import MINI, SHARED
from tests.moses_integration.decoder.reference import load as load_kenlm

NGram = tuple[bytes, ...]
Arpa = dict[NGram, tuple[float, float]]
"""log10 probability and back-off of each n-gram; 0 if there is no back-off."""

MULTI30K_TEXT = SHARED / "data/multi30k/train.lc.norm.tok.fr.gz"
MULTI30K_MODEL = SHARED / "golden/multi30k-en-fr/lm.fr.arpa.gz"


def read_arpa(content: bytes) -> Arpa:
    rows = [line.split(b"\t") for line in content.split(b"\n") if b"\t" in line]
    return {tuple(row[1].split(b" ")): (float(row[0]), float(row[2]) if len(row) > 2 else 0.0) for row in rows}


def write(model: KneserNeyModel, path: Path) -> Path:
    with path.open("wb") as stream:
        model.write_arpa(stream)
    return path


def fallback_orders(model: KneserNeyModel) -> list[int]:
    return [order for order, found in enumerate(model.discounts, 1) if found.tolist() == [0, 0.5, 1, 1.5]]


def largest_difference(found: Arpa, expected: Arpa) -> float:
    return max(abs(a - b) for key in expected for a, b in zip(found[key], expected[key], strict=True))


def random_text(seed: int, sentences: int) -> bytes:
    """Return sentences over a small vocabulary, some empty or duplicate, with extra spaces."""
    rng = random.Random(seed)
    words = [b"w%d" % rank for rank in range(12)]
    lines = [rng.choices(words, [1 / (n + 1) for n in range(12)], k=rng.randrange(6)) for _ in range(sentences)]
    return b"".join(b" " * rng.randrange(2) + (b" " * rng.randint(1, 2)).join(line) + b"\n" for line in lines)


def reference(text: bytes, order: int) -> tuple[Arpa, list[int]]:
    """Evaluate the equations of the module's docstring for each n-gram; return the orders with fallback discounts."""
    counts: list[Counter[NGram]] = [Counter() for _ in range(order + 1)]
    ids: dict[bytes, int] = {b"<unk>": 0, b"<s>": 1, b"</s>": 2}
    for line in text.split(b"\n")[:-1]:
        sentence = [b"<s>", *(word for word in line.split(b" ") if word), b"</s>"]
        for word in sentence:
            ids.setdefault(word, len(ids))
        for n in range(1, order + 1):
            counts[n].update(tuple(sentence[i : i + n]) for i in range(len(sentence) - n + 1))
    counts[1].update({(b"<unk>",): 0})
    counts[1][b"<s>",] = 0
    preceding: defaultdict[NGram, set[bytes]] = defaultdict(set)
    for n in range(2, order + 1):
        for gram in counts[n]:
            preceding[gram[1:]].add(gram[0])

    def adjusted(gram: NGram) -> int:
        is_raw = len(gram) == order or gram[0] == b"<s>"
        return counts[len(gram)][gram] if is_raw else len(preceding[gram])

    def suffix_order(gram: NGram) -> list[int]:
        return [ids[word] for word in reversed(gram)]

    # lmplz pads n-grams of the highest order with <s> on the left; the last such n-gram ends its statistics.
    open_ngrams = {max((g for c in counts for g in c if g[0] == b"<s>" or len(g) == order), key=suffix_order)}
    open_ngrams |= {gram[i:] for gram in open_ngrams for i in range(len(gram))}

    probability: dict[NGram, float] = {(): 1 / (len(ids) - 1)}
    backoff: dict[NGram, float] = {}
    fallback = []
    for n in range(1, order + 1):
        t = Counter(counts[n][gram] if gram in open_ngrams else adjusted(gram) for gram in counts[n])
        y = t[1] / (t[1] + 2 * t[2]) if t[1] else 0.0
        discounts = [0.0, *(k - (k + 1) * y * t[k + 1] / t[k] if t[k] else -1.0 for k in (1, 2, 3))]
        if any(not 0 <= discount <= k for k, discount in enumerate(discounts)):
            discounts = [0.0, 0.5, 1.0, 1.5]
            fallback.append(n)
        following: defaultdict[NGram, list[int]] = defaultdict(list)
        for gram in counts[n]:
            following[gram[:-1]].append(adjusted(gram))
        for context, numbers in following.items():
            backoff[context] = sum(discounts[min(a, 3)] for a in numbers) / sum(numbers)
        for gram in counts[n]:
            a = adjusted(gram)
            normalised = (a - discounts[min(a, 3)]) / sum(following[gram[:-1]])
            probability[gram] = normalised + backoff[gram[:-1]] * probability[gram[1:]]
        if n == 1:
            probability[b"<s>",] = 1.0
    return {
        gram: (math.log10(p), math.log10(backoff.get(gram, 1.0))) for gram, p in probability.items() if gram
    }, fallback


@pytest.mark.parametrize("order", [2, 3, 5])
@pytest.mark.parametrize(("seed", "sentences"), [(1, 3), (2, 40), (3, 400), (4, 401)])
def test_equations(order: int, seed: int, sentences: int, tmp_path: Path) -> None:
    text = random_text(seed, sentences)
    expected, fallback = reference(text, order)
    model = estimate([text], order)
    found = read_arpa(write(model, tmp_path / "lm.arpa").read_bytes())
    assert found.keys() == expected.keys()
    assert largest_difference(found, expected) < 1e-5
    assert fallback_orders(model) == fallback


def test_blocks_do_not_matter(tmp_path: Path) -> None:
    lines = (MINI / "train.fr").read_bytes().splitlines(keepends=True)
    whole = write(estimate([b"".join(lines)], 3), tmp_path / "whole.arpa")
    parts = write(estimate([b"".join(lines[:10]), *lines[10:20], b"".join(lines[20:])], 3), tmp_path / "parts.arpa")
    assert whole.read_bytes() == parts.read_bytes()


def test_lmplz_golden(tmp_path: Path) -> None:
    model = estimate([(MINI / "train.fr").read_bytes()], 3)
    found = read_arpa(write(model, tmp_path / "lm.arpa").read_bytes())
    expected = read_arpa((MINI / "lm.fr.arpa").read_bytes())
    assert list(found) == list(expected)
    assert largest_difference(found, expected) < 1e-6
    assert fallback_orders(model) == []


@pytest.mark.slow
def test_lmplz_golden_of_multi30k(tmp_path: Path) -> None:
    if not (MULTI30K_TEXT.exists() and MULTI30K_MODEL.exists()):
        pytest.skip("needs the Multi30k text and model beside the repository")
    model = estimate([gzip.decompress(MULTI30K_TEXT.read_bytes())], 5)
    found = read_arpa(write(model, tmp_path / "lm.arpa").read_bytes())
    expected = read_arpa(gzip.decompress(MULTI30K_MODEL.read_bytes()))
    assert list(found) == list(expected)
    assert largest_difference(found, expected) < 1e-5


def test_numbers_by_hand(tmp_path: Path) -> None:
    """One sentence gives the values computed by hand.

    It has no counts of 2, so D(1) = 0.5. Each of a, b and </s> has one left neighbour, and V = 4.
    """
    model = estimate([b"a b\n"], 2)
    arpa = read_arpa(write(model, tmp_path / "lm.arpa").read_bytes())
    unigram = (1 - 0.5) / 3 + 0.5 * 3 / 3 / 4
    assert fallback_orders(model) == [1, 2]
    assert arpa[b"<unk>",][0] == pytest.approx(math.log10(0.5 / 4), abs=1e-6)
    assert arpa[b"b",] == pytest.approx((math.log10(unigram), math.log10(0.5)), abs=1e-6)
    assert arpa[b"a", b"b"][0] == pytest.approx(math.log10(0.5 + 0.5 * unigram), abs=1e-6)
    assert arpa[b"<s>",] == pytest.approx((0, math.log10(0.5)), abs=1e-6)


@pytest.mark.parametrize(
    "history",
    ["", "la", "la lettre", "les femmes le", "voit pas", "demain la", "zzz", "zzz la", "la zzz"],
)
@pytest.mark.parametrize("start", [True, False])
def test_probabilities_sum_to_one(history: str, start: bool, mini_model: Any) -> None:
    model, words = mini_model
    state, after = kenlm.State(), kenlm.State()
    (model.BeginSentenceWrite if start else model.NullContextWrite)(state)
    for word in history.split(" ") if history else []:
        model.BaseScore(state, word, after)
        state, after = after, state
    total = math.fsum(10 ** model.BaseScore(state, word, after) for word in words if word != "<s>")
    assert total == pytest.approx(1, abs=1e-5)


def test_perplexity_of_held_out_text(mini_model: Any) -> None:
    ours, theirs = mini_model[0], load_kenlm(MINI / "lm.fr.arpa")
    sentences = (MINI / "test.fr").read_text("utf-8").split("\n")[:-1]
    log_probabilities = [sum(model.score(sentence) for sentence in sentences) for model in (ours, theirs)]
    assert log_probabilities[0] == pytest.approx(log_probabilities[1], abs=1e-3)
    assert log_probabilities[0] < -100


def test_sentences_shorter_than_the_order_leave_an_empty_section(tmp_path: Path) -> None:
    model = estimate([b"a\n\nb a\n"], 6)
    assert [len(ngram.first_G) for ngram in model.ngrams] == [5, 5, 3, 1, 0, 0]
    assert load_kenlm(write(model, tmp_path / "lm.arpa")).order == 6


def test_a_backoff_of_zero_loads(tmp_path: Path) -> None:
    """A back-off of zero loads.

    t = 24, 4, 2, 2 gives D(3) = 0, which leaves no probability for unseen words after a word with three occurrences.
    """
    lines = [b"once%d\n" % n for n in range(12)] + [b"twice\n", b"Twice\n"] * 2 + [b"thrice\n"] * 3 + [b"four\n"] * 4
    model = estimate([b"".join(lines)], 2)
    path = write(model, tmp_path / "lm.arpa")
    assert model.discounts[1].tolist() == [0, 0.75, 0.875, 0]
    assert read_arpa(path.read_bytes())[b"thrice",][1] == -99
    assert load_kenlm(path).score("thrice", bos=False) < -1


@pytest.fixture(scope="module")
def mini_model(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Our model of the mini corpus, loaded in KenLM, and its words."""
    model = estimate([(MINI / "train.fr").read_bytes()], 3)
    return load_kenlm(write(model, tmp_path_factory.mktemp("lm") / "lm.arpa")), [word.decode() for word in model.words]
