"""Joint subword vocabularies: pieces, files, and networks of subwords from training to translation."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phrasescore.cli import main
from phrasescore.errors import UsageError, UserError
from phrasescore.model_files import SOURCE_VOCABULARY, SUBWORDS
from phrasescore.model_folder import load_model
from phrasescore.pairs import DataConfig
from phrasescore.parallel_text import ParallelText, SentenceConfig, read_sentences
from phrasescore.scoring.encoder_decoder import EncoderDecoderScorer
from phrasescore.scoring.occurrences import Occurrences
from phrasescore.subwords import SubwordVocabulary
from phrasescore.training.settings import Settings
from phrasescore.vocabulary import END, UNKNOWN
from tests.copying import write_sentences

pytest.importorskip("sentencepiece")

COUNTS = Counter({b"low": 5, b"lower": 2, b"newest": 6, b"widest": 3, b"\xff": 9, "▁low".encode(): 9, "é".encode(): 1})
VOCABULARY = SubwordVocabulary.learn(COUNTS, 30)


def test_frequent_words_are_one_piece() -> None:
    assert (len(VOCABULARY), VOCABULARY.words[UNKNOWN], VOCABULARY.words[END]) == (30, b"<unk>", b"</s>")
    assert VOCABULARY.symbols(b"low newest") == ["▁low".encode(), "▁newest".encode()]
    assert len(VOCABULARY.symbols(b"lowest")) > 1


@given(st.lists(st.text("lowerstnéid", min_size=1), max_size=5))
def test_the_pieces_of_words_spell_them(words: list[str]) -> None:
    line = " ".join(words).encode()
    encoded = VOCABULARY.encode([line, b"", b" low  low "])
    assert VOCABULARY.spell(encoded.ids[: encoded.offsets[1]]) == line.split()
    assert encoded.lengths[1:].tolist() == [0, 2]
    assert UNKNOWN not in encoded.ids


def test_what_cannot_be_spelled_is_unknown() -> None:
    for word in (b"lowz", b"\xff", "▁low".encode(), b"<unk>"):
        assert word not in VOCABULARY
        assert UNKNOWN in VOCABULARY.encode([word]).ids
        assert END not in VOCABULARY.encode([word, b"</s>"]).ids
    assert VOCABULARY.coverage(Counter({b"lower": 3, b"lowz": 1})) == 0.75


def test_saved_and_loaded(tmp_path: Path) -> None:
    VOCABULARY.save(tmp_path / "model")
    loaded = SubwordVocabulary.load(tmp_path / "model")
    assert (loaded.words, loaded.digest()) == (VOCABULARY.words, VOCABULARY.digest())
    assert SubwordVocabulary.learn(COUNTS, 30).digest() == VOCABULARY.digest()
    (tmp_path / "model").write_bytes(b"no model")
    with pytest.raises(UserError, match="is not a subword model of phrasescore; copy"):
        SubwordVocabulary.load(tmp_path / "model")


def test_fewer_pieces_than_characters_are_an_error() -> None:
    with pytest.raises(UserError, match="5 are too few for the characters of the text; give more"):
        SubwordVocabulary.learn(COUNTS, 5)
    with pytest.raises(UserError, match="subwords: no word of the text is UTF-8; convert the text"):
        SubwordVocabulary.learn(Counter({b"\xff": 3}), 5)


def test_long_words_are_learnt() -> None:
    assert b"xy" in SubwordVocabulary.learn(Counter({b"a": 9, b"xy" * 4000: 1}), 9)


def test_sentences_are_read_as_pieces(tmp_path: Path) -> None:
    text = ParallelText(*write_sentences(tmp_path, "train", 50, seed=3))
    data = read_sentences(text, tmp_path, DataConfig(), SentenceConfig(subwords=40))
    assert data.source_vocabulary is data.target_vocabulary
    expected = data.source_vocabulary.encode(text.source.read_bytes().splitlines())
    for side in (data.pairs.source, data.pairs.target):
        np.testing.assert_array_equal(side.ids, expected.ids)
        np.testing.assert_array_equal(side.offsets, expected.offsets)
    # Validation text has other words, in the same pieces.
    other = ParallelText(*write_sentences(tmp_path, "valid", 9, seed=4))
    both = data.source_vocabulary, data.target_vocabulary
    read = read_sentences(other, tmp_path, DataConfig(), SentenceConfig(subwords=40), both)
    np.testing.assert_array_equal(read.pairs.source.ids, both[0].encode(other.source.read_bytes().splitlines()).ids)


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Transformer of subwords, trained to copy."""
    folder = tmp_path_factory.mktemp("subwords")
    source, target = map(str, write_sentences(folder, "train", 600, seed=3))
    command = ["train", "--source", source, "--target", target, "-o", str(folder / "net"), "--preset", "transformer"]
    command += ["--hidden", "32", "--dropout", "0", "--batch-size", "32", "--learning-rate", "0.01", "--epochs", "12"]
    values = "model.embedding=32 model.feed_forward=32 model.encoder_layers=1 model.decoder_layers=1"
    for value in [*values.split(), "sentences.subwords=40", "training.warmup_updates=25"]:
        command += ["--set", value]
    command += ["--device", "cpu", "--precision", "fp32", "-q"]
    assert main(command) == 0
    return folder / "net"


def test_a_network_of_subwords_translates_words(network: Path, tmp_path: Path) -> None:
    lines = ["a b c", "", "h g d", "b b"]
    (tmp_path / "text").write_text("".join(f"{line}\n" for line in lines))
    assert not (network / SOURCE_VOCABULARY).exists()
    common = ["-m", str(network), "--device", "cpu", "--precision", "fp32", "-o", str(tmp_path / "out")]
    assert main(["translate", str(tmp_path / "text"), *common, "--json"]) == 0
    records = [json.loads(line)["translations"] for line in (tmp_path / "out").read_text().splitlines()]
    assert [found[0]["text"] if found else "" for found in records] == lines
    # A translation in the pieces of its words has the score of the pair.
    texts = [line.encode() for line in lines if line]
    scores = EncoderDecoderScorer.load([network], "cpu", "fp32").score(Occurrences(texts, texts)).first_N
    assert scores == pytest.approx([found[0]["score"] for found in records if found], abs=1e-4)


def test_a_changed_subword_model_is_an_error(network: Path, tmp_path: Path) -> None:
    copy = tmp_path / "net"
    copy.mkdir()
    for file in network.iterdir():
        if file.is_file():
            (copy / file.name).write_bytes(file.read_bytes())
    VOCABULARY.save(copy / SUBWORDS)
    with pytest.raises(UserError, match=r"subwords\.model: is not the vocabulary the network was trained with"):
        load_model(copy)


@pytest.mark.parametrize(
    ("learns_from", "values", "message"),
    [
        ("aligned", {"sentences": {"subwords": 9}}, "`subwords`: a word alignment is of words"),
        ("sentences", {"model": {"tied_embeddings": True}}, "`tied_embeddings`: needs a vocabulary of both sides"),
        ("sentences", {"sentences": {"subwords": 9, "min_count": 2}}, "`min_count`: has no effect with `subwords`"),
        ("sentences", {"training": {"optimiser": "auto"}}, "optimiser `auto`"),
        ("table", {"sentences": {"subwords": 9}}, "`subwords`: has no effect with a phrase table"),
        ("sentences", {"model": {"heads": 2}}, "`heads`: has no effect without a Transformer"),
    ],
)
def test_settings_without_effect_are_errors(learns_from: Any, values: dict[str, Any], message: str) -> None:
    with pytest.raises((UserError, UsageError)) as caught:
        Settings.of(learns_from, None, [values]).check()
    assert message in str(caught.value)
