"""The per-text table of a system with target factors equals that of the system without factors."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from moses_integration.ini import MosesIni, add_column_in_context
from moses_integration.per_text.context_column import ContextColumn
from moses_integration.per_text.indexed_system import IndexedSystem, write_indexed_system
from moses_integration.toolkits.embedded import EmbeddedToolkit
from moses_integration.toolkits.installation import Installation
from moses_integration.toolkits.moses import MosesToolkit
from phrasescore.device import choose_device
from phrasescore.errors import UserError
from phrasescore.model_folder import TrainedModel
from phrasescore.nn.architecture import ModelConfig
from phrasescore.nn.encoder_decoder import EncoderDecoder
from phrasescore.scoring.encoder_decoder import EncoderDecoderScorer
from phrasescore.vocabulary import Vocabulary
from tests.conftest import MINI
from tests.moses_integration.per_text.test_indexed_system import Recorded, table_of, translate

TAGS = "KENLM name=LM1 factor=1 path={folder}/tags.arpa order=2\n"
ONE_GRAMS = {"<unk>": "-2", "<s>": "-99", "</s>": "-0.9", "T0": "-0.5", "T1": "-0.6", "T2": "-0.8", "UNK": "-1.5"}
TWO_GRAMS = {"T0 T1": "-0.2", "T1 T2": "-1.2", "T2 T0": "-0.4"}
ARPA = "\n".join(
    [
        *("\\data\\", f"ngram 1={len(ONE_GRAMS)}", f"ngram 2={len(TWO_GRAMS)}", "", "\\1-grams:"),
        *(f"{score}\t{words}\t-0.2" for words, score in ONE_GRAMS.items()),
        *("", "\\2-grams:", *(f"{score}\t{words}" for words, score in TWO_GRAMS.items())),
        *("", "\\end\\", ""),
    ]
)


def with_factors(line: bytes) -> bytes:
    source, target, rest = line.split(b" ||| ", 2)
    words = (b"%b|T%d" % (word, len(word) % 3) for word in target.split())
    return b" ||| ".join((source, b" ".join(words), rest))


def without_factors(line: bytes) -> bytes:
    source, target, rest = line.split(b" ||| ", 2)
    return b" ||| ".join((source, b" ".join(word.partition(b"|")[0] for word in target.split()), rest))


def factored_ini(folder: Path, *, tags: bool) -> MosesIni:
    """Write the mini corpus's system with factors, with or without a language model of the second factor."""
    lines = gzip.decompress((MINI / "phrase-table.gz").read_bytes()).splitlines(keepends=True)
    (folder / "phrase-table.gz").write_bytes(gzip.compress(b"".join(map(with_factors, lines)), mtime=0))
    (folder / "tags.arpa").write_text(ARPA)
    text = "".join(MosesIni.read(MINI / "moses.ini").with_absolute_paths().to_bytes().decode())
    text = text.replace(f"path={MINI}/phrase-table.gz", f"path={folder}/phrase-table.gz")
    text = text.replace("num-features=4 path", "num-features=4 table-limit=3 path")
    text = text.replace(".gz input-factor=0 output-factor=0\n", ".gz input-factor=0 output-factor=0,1\n")
    if tags:
        text = text.replace("\n# dense", f"{TAGS.format(folder=folder)}\n# dense") + "\nLM1= 0.4\n"
    (folder / "moses.ini").write_text(text)
    return MosesIni.read(folder / "moses.ini")


def indexed_in(ini: MosesIni, text: Path, folder: Path) -> IndexedSystem:
    folder.mkdir()
    add_column_in_context(ini)
    return write_indexed_system(ini, text, folder, Recorded())


def test_options_and_names_are_those_of_words_alone(tmp_path: Path) -> None:
    text = MINI / "test.en"
    factored = indexed_in(factored_ini(tmp_path, tags=False), text, tmp_path / "factored")
    plain_ini = MosesIni.read(MINI / "moses.ini").with_absolute_paths()
    plain_ini.set_argument("TranslationModel0", "table-limit", "3")
    plain = indexed_in(plain_ini, text, tmp_path / "plain")
    assert factored.text.read_bytes() == plain.text.read_bytes()
    assert [without_factors(line) for line in table_of(factored)] == table_of(plain)
    assert all(b"|T" in line for line in table_of(factored))
    assert table_of(factored, 1) == table_of(plain, 1)


def test_a_network_scores_the_surface_form(tmp_path: Path) -> None:
    source, target = (Vocabulary(sorted({*(MINI / f"train.{side}").read_bytes().split()})) for side in ("en", "fr"))
    network = EncoderDecoder(ModelConfig(hidden=8, embedding=5, in_context=True), len(source), len(target))
    model = TrainedModel(network.eval(), source, target, "target-given-source")
    scorer = EncoderDecoderScorer(model, choose_device("cpu", "fp32"))
    (tmp_path / "text").write_bytes(b"".join((MINI / "test.en").read_bytes().splitlines(keepends=True)[:10]))
    ini = factored_ini(tmp_path, tags=False)
    columns = []
    for name, system in (("factored", ini), ("plain", MosesIni.read(MINI / "moses.ini"))):
        system = system.with_absolute_paths()
        system.set_argument("TranslationModel0", "table-limit", "3")
        add_column_in_context(system)
        (tmp_path / name).mkdir()
        indexed = write_indexed_system(system, tmp_path / "text", tmp_path / name, ContextColumn(scorer, 1))
        columns.append([float(line.split(b" ||| ")[2].split()[-1]) for line in table_of(indexed)])
    assert columns[0] == pytest.approx(columns[1])
    assert len(np.unique(columns[0])) > 10


def test_the_embedded_decoder_translates_no_factors(tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    with pytest.raises(
        UserError,
        match=r"moses\.ini: line \d+: .*`output-factor=0,1` asks for factored translations, which .*use Moses",
    ):
        EmbeddedToolkit(1).check(factored_ini(tmp_path, tags=True), tmp_path / "in", tmp_path / "new", tunes=False)


@pytest.mark.parametrize("argument", ["input-factor=0,1", "input-factor=1"])
def test_factored_source_words_are_rejected(argument: str, tmp_path: Path) -> None:
    ini = factored_ini(tmp_path, tags=False)
    ini.set_argument("TranslationModel0", *argument.split("="))
    with pytest.raises(UserError, match=f"does not support `{argument}` of PhraseDictionaryMemory"):
        indexed_in(ini, MINI / "test.en", tmp_path / "new")


def test_a_table_of_other_factors_than_the_ini_says(tmp_path: Path) -> None:
    ini = factored_ini(tmp_path, tags=False)
    ini.set_argument("TranslationModel0", "output-factor", "0,1,2")
    with pytest.raises(UserError, match=r"line .*: has 1 factor per source word, 2 factors per target word, unlike"):
        indexed_in(ini, MINI / "test.en", tmp_path / "new")


@pytest.mark.moses
@pytest.mark.parametrize("tags", [False, True])
def test_moses_translates_a_text_identically(moses_home: Path, tmp_path: Path, tags: bool) -> None:
    ini, toolkit = factored_ini(tmp_path, tags=tags), MosesToolkit(Installation(moses_home), 1)
    text = tmp_path / "text"
    text.write_bytes(b"the zzz quantum letter .\n" + (MINI / "test.en").read_bytes())
    (tmp_path / "new").mkdir()
    indexed = write_indexed_system(ini, text, tmp_path / "new")
    plain = translate(toolkit, tmp_path / "moses.ini", text, tmp_path / "plain.out")
    assert translate(toolkit, indexed.ini, indexed.text, tmp_path / "indexed.out") == plain
    assert b"zzz" in plain[0]
