"""n-best lists get new features, weights are tuned on them, and the best translations are selected."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch

from moses_integration.decoder.declaration import load_model as load_decoder_model
from moses_integration.decoder.phrases import Words, words_of
from moses_integration.decoder.pool import nbest_entry
from moses_integration.decoder.search import Search
from moses_integration.decoder.settings import DecoderSettings, read_settings
from moses_integration.ini import MosesIni, add_columns
from moses_integration.nbest import ListFault, NbestEntry, format_features, parse_entry, read_nbest
from moses_integration.rescoring import features
from moses_integration.rescoring.features import (
    FeatureSpec,
    ListFeature,
    Numbers,
    ScorerFeature,
    Unit,
    load_features,
    share_scoring,
)
from moses_integration.rescoring.reranking import (
    add_scores,
    best_of,
    check_dense,
    list_bleu,
    oracle_bleu,
    rerank,
    tune_on_list,
    weights_before,
)
from moses_integration.tuning.bleu import bleu_statistics, read_references, smoothed_bleu
from moses_integration.tuning.candidates import from_nbest
from phrasescore.cli import main as phrasescore
from phrasescore.device import choose_device
from phrasescore.errors import UserError
from phrasescore.files import read_lines
from phrasescore.lm.lm_scorer import NeuralLmScorer
from phrasescore.model_folder import load_language_model, load_model, save_lm_description, save_weights
from phrasescore.nn.architecture import NeuralLmConfig
from phrasescore.nn.neural_lm import NeuralLanguageModel
from phrasescore.scoring.columns import PER_WORD, SCORE, UNKNOWN_TARGET, Column
from phrasescore.scoring.encoder_decoder import EncoderDecoderScorer
from phrasescore.scoring.occurrences import Occurrences
from phrasescore.scoring.scorer import PhraseScorer, Scores
from phrasescore.vocabulary import Vocabulary
from tests.conftest import DATA, MINI
from tests.moses_integration.corpus_bleu import corpus_bleu

if TYPE_CHECKING:
    # Worker processes import this module, and would import Dask, too.
    from distributed import LocalCluster

CPU = choose_device("cpu", "fp32")
NETWORK = DATA / "stored-model"
SOURCE = [b"the black dog", b"a big tree"]
LIST = [
    parse_entry(line)
    for line in (
        b"0 ||| le chien noir  ||| LM0= -4 D0= 0 ||| -2 ||| 0=0 1-2=1-2 ||| 0-0",
        b"0 ||| chien zzz  ||| LM0= -5 D0= 0 ||| -2.5 ||| 1-2=0-1 0=2-1 ||| 0-0",
        b"1 ||| un grand arbre  ||| LM0= -3 D0= 1 ||| -1 ||| 0-2=0-2 ||| 0-0",
    )
]


class CountingScorer(EncoderDecoderScorer):
    """A scorer that counts the requested pairs."""

    asked = 0

    def score(self, occurrences: Occurrences, columns: Sequence[Column] = ()) -> Scores:
        self.asked += len(occurrences)
        return super().score(occurrences, columns)


def engine(direction: str = "target-given-source") -> CountingScorer:
    return CountingScorer(replace(load_model(NETWORK), direction=direction), CPU)  # type: ignore[arg-type]


def feature(scorer: PhraseScorer, unit: Unit, column: Column = SCORE, label: str = "A") -> ScorerFeature:
    return ScorerFeature(label, column, unit, features._Values(scorer, None, [column]))


def column(feature: ListFeature, entries: Sequence[NbestEntry] = LIST, source: Sequence[bytes] = SOURCE) -> list[float]:
    values: list[list[float]] = feature.values([words_of(line) for line in source], entries).tolist()
    assert {len(row) for row in values} == {1}
    return [row[0] for row in values]


def log_probs(pairs: list[tuple[bytes, bytes]], direction: str = "target-given-source") -> list[float]:
    alone = engine(direction)
    return [float(alone.score(Occurrences([source], [target])).first_N[0]) for source, target in pairs]


# Scorers


def test_phrase_pairs_of_a_derivation() -> None:
    """The phrase pairs of a derivation include deleted words and follow the alignment.

    The second entry deletes a word and goes from right to left.
    """
    sentence = words_of(SOURCE[0])
    pairs = [
        [(pair.start, pair.source, pair.target) for pair in features._phrase_pairs(sentence, LIST[i])] for i in (0, 1)
    ]
    assert pairs == [
        [(0, b"the", b"le"), (1, b"black dog", b"chien noir")],
        [(1, b"black dog", b"chien zzz"), (0, b"the", b"")],
    ]


def test_phrases_are_what_the_decoder_gets_from_an_annotated_table(tmp_path: Path) -> None:
    table = tmp_path / "annotated.gz"
    texts = ["--only-sources-in", str(MINI / "dev.en")]
    command = ["annotate", str(MINI / "phrase-table.gz"), "-m", str(NETWORK), "-o", str(table), *texts, "-q"]
    for per_word in (False, True):
        assert phrasescore([*command, "--precision", "fp32", "--columns", "per-word" if per_word else "score"]) == 0
        ini = MosesIni.read(MINI / "moses.ini")
        add_columns(ini, "TranslationModel0", table, 1)
        source = list(read_lines(MINI / "dev.en"))[:8]
        sentences = [words_of(line) for line in source]
        model = load_decoder_model(ini, sentences, read_settings(ini))
        entries = [
            nbest_entry(model, number, derivation)
            for number, sentence in enumerate(sentences)
            for derivation in Search(model, DecoderSettings(), sentence).run(keep_arcs=True).n_best(20, distinct=True)
        ]
        assert len(entries) > 100
        in_table = [entry.features()["TranslationModel0"][4] for entry in entries]
        rescored = column(feature(engine(), "phrase", PER_WORD if per_word else SCORE), entries, source)
        np.testing.assert_allclose(rescored, in_table, atol=1e-3)


def test_sentences() -> None:
    pairs = [(SOURCE[0], b"le chien noir"), (SOURCE[0], b"chien zzz"), (SOURCE[1], b"un grand arbre")]
    for direction in ("target-given-source", "source-given-target"):
        expected = np.array(log_probs(pairs, direction))
        np.testing.assert_allclose(column(feature(engine(direction), "sentence")), expected, atol=1e-4)
        predicted = [4, 3, 4] if direction == "target-given-source" else [4, 4, 4]
        per_word = column(feature(engine(direction), "sentence", PER_WORD))
        np.testing.assert_allclose(per_word, expected / predicted, atol=1e-4)
    swapped = log_probs([(target, source) for source, target in pairs])
    np.testing.assert_allclose(log_probs(pairs, "source-given-target"), swapped, atol=1e-4)


def test_a_pair_is_scored_once() -> None:
    counting = engine()
    found = features._Values(counting, None, [SCORE, PER_WORD])
    entries = [*LIST, *LIST]
    column(ScorerFeature("A", SCORE, "phrase", found), entries)
    pairs = {(pair.source, pair.target) for entry in LIST for pair in features._phrase_pairs(_source_of(entry), entry)}
    assert counting.asked == len(pairs)
    # le, chien noir, chien zzz, un grand arbre, and an empty phrase
    assert found.words is not None
    assert (found.words.target_unknown, found.words.target) == (1, 8)
    column(ScorerFeature("B", PER_WORD, "phrase", found), entries)
    assert counting.asked == len(pairs)


def _source_of(entry: NbestEntry) -> Words:
    return words_of(SOURCE[entry.sentence])


def test_an_empty_translation_of_an_empty_sentence() -> None:
    empty = [parse_entry(b"0 |||  ||| LM0= -1 ||| -1 |||  ||| ")]
    assert column(feature(engine(), "phrase"), empty, [b""]) == [0]
    assert column(feature(engine(), "sentence"), empty, [b""])[0] < 0
    assert feature(engine(), "phrase").values([], []).shape == (0, 1)


def test_unknown_words() -> None:
    """Unknown target words are counted.

    The network has all words except `zzz` and `qqq`; the network of the other direction has its vocabularies exchanged.
    """
    source = [b"the black qqq", SOURCE[1]]
    model, reverse = (engine(direction) for direction in ("target-given-source", "source-given-target"))
    assert column(feature(model, "sentence", UNKNOWN_TARGET), source=source) == [0, 1, 0]
    assert column(feature(reverse, "sentence", UNKNOWN_TARGET), source=source) == [3, 2, 3]


class LengthModel(PhraseScorer):
    """A stand-in for a language model: ln p is minus the number of words."""

    fingerprint = "length"

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[bytes] = []

    def score(self, occurrences: Occurrences, columns: Sequence[Column] = ()) -> Scores:
        self.asked += occurrences.targets
        return Scores(np.array([[-float(len(target.split()))] for target in occurrences.targets]))


def test_a_scorer_of_sentences_is_asked_once_for_each_translation() -> None:
    model = LengthModel()
    assert column(feature(model, "sentence"), [*LIST, *LIST]) == [-3, -2, -3] * 2
    assert sorted(model.asked) == [b"chien zzz", b"le chien noir", b"un grand arbre"]


class PlaceScorer(PhraseScorer):
    """A scorer in context: minus the position of the phrase, minus 100 for the second sentence."""

    fingerprint = "place"
    in_context = True

    def score(self, occurrences: Occurrences, columns: Sequence[Column] = ()) -> Scores:
        context = occurrences.context
        assert context is not None
        is_second_N = [context.sentences[number] == SOURCE[1] for number in context.sentence_N]
        return Scores(-(context.start_N + 100.0 * np.array(is_second_N))[:, np.newaxis])


def test_a_scorer_in_context_knows_where_a_phrase_is() -> None:
    assert column(feature(PlaceScorer(), "phrase")) == [-1, -1, -100]


def test_numbers_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "numbers"
    path.write_text("1 -2\n3e1 0\n5 0.5\n")
    assert Numbers("N", path).values([], LIST).tolist() == [[1, -2], [30, 0], [5, 0.5]]
    (tmp_path / "none").write_text("")
    assert Numbers("N", tmp_path / "none").values([], []).shape == (0, 1), "a list of empty sentences"
    for text, message in (
        ("1\n2\n", "has 2 lines where the n-best list has 3 entries"),
        ("1\nx\n3\n", "line 2: `x` is no finite number; give each entry"),
        ("1\nnan\n3\n", "line 2: `nan` is no finite number"),
        ("1\n2 3\n4\n", "line 2: has not 1 numbers"),
        ("\n\n\n", "line 1: has not 1 numbers"),
    ):
        path.write_text(text)
        with pytest.raises(UserError, match=message):
            Numbers("N", path).values([], LIST)


@pytest.fixture
def language_model(tmp_path: Path) -> Path:
    """A neural language model with its initial weights."""
    torch.manual_seed(1)
    config = NeuralLmConfig(order=3, embedding=4, first_hidden=5, second_hidden=4, self_normalise=0.1)
    vocabulary = Vocabulary([b"le", b"chien", b"un"])
    folder = tmp_path / "cslm"
    folder.mkdir()
    save_lm_description(folder, config, vocabulary, {})
    save_weights(folder, NeuralLanguageModel(config, len(vocabulary)))
    return folder


@pytest.fixture
def sentence_network(tmp_path: Path) -> Path:
    """A network declared as trained on sentences."""
    folder = tmp_path / "s2s"
    shutil.copytree(NETWORK, folder)
    description = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**description, "sentences": {}}))
    return folder


def test_the_folder_says_what_is_scored(tmp_path: Path, language_model: Path, sentence_network: Path) -> None:
    (tmp_path / "numbers").write_text("1\n2\n3\n")
    specs = {
        "numbers": (tmp_path / "numbers", None),
        "phrases": (NETWORK, None),
        "phrases per word": (NETWORK, "per-word"),
        "unknown": (NETWORK, "unknown-target"),
        "sentences": (sentence_network, None),
        "sentences per word": (sentence_network, "per-word"),
        "lm": (language_model, None),
        "lm unnormalised": (language_model, "unnormalised"),
    }
    found = load_features([FeatureSpec("X", *spec) for spec in specs.values()], CPU, MINI / "lm.fr.arpa")
    assert [one.fingerprint for one in found].count(None) == 1
    values = {name: column(one) for name, one in zip(specs, found, strict=True)}
    assert values["numbers"] == [1, 2, 3]
    assert values["phrases"][0] < values["phrases per word"][0]
    assert values["sentences"][0] < values["sentences per word"][0]
    assert values["phrases"][2] == pytest.approx(values["sentences"][2], abs=1e-4)
    assert values["unknown"] == [0, 1, 0]
    texts = [words_of(entry.words) for entry in LIST]
    model = NeuralLmScorer.load(language_model, CPU, MINI / "lm.fr.arpa")
    for name, unnormalised in (("lm", False), ("lm unnormalised", True)):
        expected = model.sentence_log_probs(texts, unnormalised=unnormalised)
        assert values[name] == pytest.approx(expected, abs=1e-6)
    assert values["lm"] != values["lm unnormalised"]


@pytest.fixture
def shared_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make tasks so small that a short n-best list has several."""
    monkeypatch.setattr(features, "_AT_ONCE", 20)


@pytest.mark.usefixtures("shared_tasks")
def test_the_result_does_not_depend_on_the_workers(
    language_model: Path, sentence_network: Path, cluster: LocalCluster
) -> None:
    entries = [entry for entry in read_nbest(MINI / "decode/default.nbest.gz") if entry.sentence < 4]
    source = list(read_lines(MINI / "dev.en"))[:4]
    texts = [NETWORK, f"unknown-target:{NETWORK}", f"per-word:{sentence_network}", language_model]
    texts.append(f"unnormalised:{language_model}")
    specs = [FeatureSpec.parse(f"S{number}={text}") for number, text in enumerate(texts)]
    lists, numbers = [], []
    for processes, scheduler in ((1, None), (2, None), (None, cluster.scheduler_address)):
        with share_scoring(len(entries), CPU, processes, scheduler) as workers:
            numbers.append(workers and workers.number)
            lists.append(add_scores(entries, source, load_features(specs, CPU, MINI / "lm.fr.arpa", workers)))
    assert numbers == [None, 2, 2]
    assert lists[1] == lists[0]
    assert lists[2] == lists[0]


def test_a_short_list_is_not_shared() -> None:
    with share_scoring(4096, CPU, 8) as workers:
        assert workers is None
    with share_scoring(0, CPU, 8) as workers:
        assert workers is None


@pytest.mark.usefixtures("shared_tasks")
def test_a_language_model_that_changes_meanwhile_is_one_sentence(language_model: Path) -> None:
    entries = [entry for entry in read_nbest(MINI / "decode/default.nbest.gz") if entry.sentence < 4]
    with share_scoring(len(entries), CPU, 2) as workers:
        [scorer] = load_features([FeatureSpec("L", language_model)], CPU, None, workers)
        torch.manual_seed(2)
        model = load_language_model(language_model)
        save_weights(language_model, NeuralLanguageModel(model.network.config, len(model.vocabulary)))
        with pytest.raises(UserError, match="cslm: has changed while it was used; start again when"):
            column(scorer, entries, list(read_lines(MINI / "dev.en"))[:4])


def test_words_that_a_language_model_does_not_know(language_model: Path) -> None:
    """Words outside the language model's shortlist (le, chien, un) are counted."""
    (scorer,) = load_features([FeatureSpec("U", language_model, "unknown-target")], CPU)
    assert column(scorer) == [1, 1, 2]
    assert scorer.fingerprint == load_language_model(language_model).weights_digest
    with pytest.raises(UserError, match="has no column `per-word`; choose among score, unknown-target"):
        load_features([FeatureSpec("U", language_model, "per-word")], CPU)
    with pytest.raises(UserError, match="is not a model folder"):
        load_features([FeatureSpec("U", language_model / "none", "unknown-target")], CPU)
    with pytest.raises(UserError, match="is a file of numbers, which has no column `unknown-target`; leave it out"):
        load_features([FeatureSpec("U", MINI / "test.fr", "unknown-target")], CPU)


def test_features_are_parsed() -> None:
    assert FeatureSpec.parse("RNN=per-word:a:b=c/") == FeatureSpec("RNN", Path("a:b=c"), "per-word")
    assert FeatureSpec.parse("RNN=rnn/") == FeatureSpec("RNN", Path("rnn"))
    for text in ("RNN", "rnn:rnn", "R_N=rnn", "RNN="):
        with pytest.raises(ValueError, match=r"label of letters|LABEL=\[COLUMN:\]PATH"):
            FeatureSpec.parse(text)


# Adding


def test_added_features_change_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "numbers").write_text("1\n2\n3.14159265\n")
    added = add_scores(
        LIST, SOURCE, [Numbers("N", tmp_path / "numbers"), feature(LengthModel(), "sentence", label="LM1")]
    )
    assert added[2].to_line() == LIST[2].to_line().replace(b" D0= 1 ", b" D0= 1 N= 3.14159 LM1= -3 ")
    assert [replace(new, scores=old.scores) for new, old in zip(added, LIST, strict=True)] == LIST


def test_lists_that_do_not_fit(tmp_path: Path) -> None:
    lm = feature(LengthModel(), "sentence", label="LM0")
    phrases = feature(engine(), "phrase", label="RNN")
    with pytest.raises(UserError, match="has a feature LM0 already"):
        add_scores(LIST, SOURCE, [lm])
    with pytest.raises(UserError, match="has a feature RNN already"):
        add_scores(LIST, SOURCE, [phrases, phrases])
    with pytest.raises(UserError, match=r"sentence 1 \(from 0\) where the source has 1 lines"):
        add_scores(LIST, SOURCE[:1], [])
    assert add_scores(LIST, [*SOURCE, b"", b" "], []) == LIST
    with pytest.raises(UserError, match="has no translation of line 4 of the source, which has words"):
        add_scores(LIST, [*SOURCE, b"", b"a tree"], [])
    with pytest.raises(UserError, match=r"entry of sentence 1 \(from 0\) does not cover the 2 words of `a tree`"):
        add_scores(LIST, [SOURCE[0], b"a tree"], [phrases])
    with pytest.raises(UserError, match="entry of sentence 0 has no segmentation"):
        add_scores([replace(entry, extras=()) for entry in LIST], SOURCE, [phrases])
    (tmp_path / "numbers").write_text("1\n1\n1e999\n")
    with pytest.raises(UserError, match="finite"):
        add_scores(LIST, SOURCE, [Numbers("N", tmp_path / "numbers")])


@pytest.mark.parametrize("segmentation", [b"0-999999999999=0-2", b"0--5=0-2", b"1-0=0 0-1=0-2"])
def test_a_damaged_segmentation_is_rejected_at_once(segmentation: bytes) -> None:
    damaged = replace(LIST[2], extras=(segmentation, b""))
    with pytest.raises(UserError, match="segmentation"):
        add_scores([damaged], [b"", b"a tree"], [feature(engine(), "phrase")])


# Tuning and choosing


def test_weights_before() -> None:
    entry = LIST[0].with_feature("N", [1.0, 2.0])
    weights = {"D0": [0.3], "LM0": [0.5], "UnknownWordPenalty0": [1.0]}
    start = weights_before(entry, weights, ["N"])
    assert start == {"LM0": [0.5], "D0": [0.3], "N": [0, 0]}
    assert list(start) == ["LM0", "D0", "N"]
    with pytest.raises(UserError, match="has 2 values of the feature N where the weights have 0"):
        weights_before(entry, weights, [])
    with pytest.raises(UserError, match="has 1 values of the feature LM0 where the weights have 2"):
        weights_before(entry, {**weights, "LM0": [1, 2]}, ["N"])


def test_sparse_features_are_recognised_by_their_underscore() -> None:
    sparse = [*LIST, LIST[2].with_feature("TM_1", [1.0])]
    with pytest.raises(UserError, match="has the sparse feature TM_1 in sentence 1, but only features that all"):
        check_dense(sparse, ["TM"])
    # A feature may have this name.
    check_dense(sparse, ["TM_1"])
    check_dense(LIST, ())


def test_a_feature_that_knows_bleu_is_found() -> None:
    """Tuning finds a feature that is sentence BLEU and comes close to the oracle's choice."""
    references = read_references([MINI / "dev.fr"])
    entries = list(read_nbest(MINI / "decode/default.nbest.gz"))
    weights = MosesIni.read(MINI / "moses.ini").weights()
    rows = [float(smoothed_bleu(bleu_statistics(references[entry.sentence], [entry.words]))[0]) for entry in entries]
    told = [entry.with_feature("Oracle", [value]) for entry, value in zip(entries, rows, strict=True)]
    without, candidates = from_nbest(entries, references), from_nbest(told, references)
    start = weights_before(told[0], weights, ["Oracle"])
    assert list_bleu(candidates, start) == list_bleu(without, weights_before(entries[0], weights, []))
    tuned, oracle = tune_on_list(candidates, start), oracle_bleu(candidates)
    assert list_bleu(candidates, start) + 1 < oracle
    assert oracle - 0.5 < tuned.held_out
    assert oracle - 0.5 < tuned.bleu
    # Selection reaches the BLEU that tuning reports.
    best = best_of(rerank(told, tuned.weights), len(references))
    assert 100 * corpus_bleu(best, references) == pytest.approx(tuned.bleu)


def test_the_oracle_distinguishes_translations_without_a_correct_4_gram() -> None:
    texts = [(0, b"a b c d e"), (1, b"x y z v"), (1, b"f g h v")]
    entries = [NbestEntry(sentence, words, b"A= 1", b"1") for sentence, words in texts]
    references = [(b"a b c d e",), (b"f g h i",)]
    chosen = [b"a b c d e", b"f g h v"]
    assert oracle_bleu(from_nbest(entries, references)) == pytest.approx(100 * corpus_bleu(chosen, references))


def test_the_best_come_first_and_equals_keep_their_order() -> None:
    draw = random.Random(1)
    entries = [
        NbestEntry(sentence, b"%d" % row, format_features({"A": [draw.randint(0, 2)], "B": [1, -1]}), b"0")
        for sentence in (0, 1, 3)
        for row in range(9)
    ]
    ranked = rerank(entries, {"A": [2.0], "B": [0.5, 0.25]})
    totals = [entry.features()["A"][0] * 2 + 0.25 for entry in ranked]
    assert [float(entry.total) for entry in ranked] == totals
    assert [(e.sentence, -total, int(e.words)) for e, total in zip(ranked, totals, strict=True)] == sorted(
        (e.sentence, -total, int(e.words)) for e, total in zip(ranked, totals, strict=True)
    )
    best = best_of(ranked, 5)
    assert best[2] == best[4] == b""
    assert best[0] == next(e.words for e in entries if e.features()["A"] == [2])
    with pytest.raises(UserError, match="has 2 values of the feature B where the weights have 0"):
        rerank(entries, {"A": [1]})
    with pytest.raises(UserError, match="has 0 values of the feature C where the weights have 1"):
        rerank(entries, {"A": [1], "B": [1, 1], "C": [1]})


def test_features_that_add_up_to_infinity_rank_nothing() -> None:
    entries = [parse_entry(b"3 ||| a  ||| A= 1e308 -1e308 ||| 1")]
    assert rerank(entries, {"A": [1.0, 1.0]})[0].total == b"0"
    with pytest.raises(ListFault, match="sentence 3 has features too large to be added up; find out which model"):
        rerank(entries, {"A": [10.0, 10.0]})
