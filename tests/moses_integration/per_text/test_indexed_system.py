"""A per-text phrase table gives the same translations as the full table."""

from __future__ import annotations

import gzip
import random
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

from moses_integration.decoder.phrases import Floats, Words
from moses_integration.decoder.pool import load_decoder, nbest_entry
from moses_integration.decoder.settings import read_settings
from moses_integration.ini import MosesIni, add_column_in_context
from moses_integration.per_text.context_column import ContextColumn
from moses_integration.per_text.indexed_system import IndexedSystem, write_indexed_system
from moses_integration.per_text.indexed_tables import digest_of_text
from moses_integration.per_text.position_tags import MARK, strip_tags, tag_word
from moses_integration.per_text.positions import Positions
from moses_integration.toolkits.embedded import EmbeddedToolkit
from moses_integration.toolkits.installation import Installation
from moses_integration.toolkits.moses import MosesToolkit
from moses_integration.toolkits.toolkit import NbestRequest, Toolkit
from phrasescore.errors import FullDiskError, UserError
from phrasescore.files import read_lines, sha256_of, write_lines
from phrasescore.scoring.columns import Column
from tests.conftest import MINI
from tests.moses_integration.decoder.searching import UNLIMITED, Graph
from tests.moses_integration.decoder.small_system import Line, Reordering, SmallSystem, random_system

UNUSUAL = """\
the zzz quantum letter .

the the the the
letter
qqq
xx dog~1~2 \ufdcf the\u00a0.
""".encode()


class Recorded(ContextColumn):
    """A column of sentence number and option index, which records its requests."""

    column = Column("place", "log-linear")

    def __init__(self) -> None:
        """Do not load a scorer."""

    def values(self, positions: Positions, scratch: Path) -> Floats:
        self.positions = [position for position in positions if not position.phrase.is_copied]
        options = [-one.sentence - k / 8 for one in self.positions for k in range(len(one.phrase.targets))]
        return np.array(options, np.float64)


def table_of(indexed: IndexedSystem, number: int = 0) -> list[bytes]:
    ini = MosesIni.read(indexed.ini)
    tables = [feature for feature in ini.features() if feature.kind in ("PhraseDictionaryMemory", "LexicalReordering")]
    return gzip.decompress(ini.path_of(tables[number]).read_bytes()).splitlines(keepends=True)


def translate(toolkit: Toolkit, ini: Path, text: Path, folder: Path) -> tuple[bytes, bytes]:
    """Return translations and n-best lists without position tags."""
    folder.mkdir()
    system = MosesIni.read(ini)
    with toolkit.translator(system, text, folder) as run:
        run(system.weights(), folder / "out", NbestRequest(folder / "list", 20))
    best, lists = (b"\n".join(map(strip_tags, read_lines(folder / name))) for name in ("out", "list"))
    return best, lists


@pytest.fixture
def unusual_text(tmp_path: Path) -> Path:
    path = tmp_path / "text.in"
    lines = (MINI / "test.en").read_bytes().splitlines(keepends=True)[:20]
    path.write_bytes(UNUSUAL + b"".join(lines) + (MINI / "hard.en").read_bytes())
    return path


# The same translations


def check_identical(toolkit: Toolkit, text: Path, folder: Path) -> None:
    (folder / "indexed").mkdir()
    indexed = write_indexed_system(MosesIni.read(MINI / "moses.ini"), text, folder / "indexed")
    plain = translate(toolkit, MINI / "moses.ini", text, folder / "plain.out")
    assert translate(toolkit, indexed.ini, indexed.text, folder / "indexed.out") == plain
    assert b"zzz" in plain[0]
    assert MARK not in plain[0] + plain[1]


def test_a_text_is_translated_identically(unusual_text: Path, tmp_path: Path) -> None:
    with unusual_text.open("ab") as stream:
        stream.write(b" the  men\tlike him .\n")
    check_identical(EmbeddedToolkit(1), unusual_text, tmp_path)


@pytest.mark.moses
def test_moses_translates_a_text_identically(moses_home: Path, unusual_text: Path, tmp_path: Path) -> None:
    check_identical(MosesToolkit(Installation(moses_home), 1), unusual_text, tmp_path)


@pytest.mark.parametrize("first", [50, 100])
def test_small_systems_translate_identically(language_models: list[Path], tmp_path: Path, first: int) -> None:
    """Small random systems translate identically.

    They have duplicate lines, empty targets, dropped words, reordering of copied words, and several tables.
    """
    named = 0
    for seed in range(first, first + 50):
        system, sentence = random_system(random.Random(seed), language_models)
        # Without limits, words with translations are copied as well.
        ini = replace(system, settings=UNLIMITED if seed % 2 else {}).write(tmp_path)
        # Repeated words, so that words alone do not identify a position.
        sentences = [sentence, sentence[::-1], (), sentence, sentence[:2] * 2]
        write_lines(tmp_path / "in", map(b" ".join, sentences))
        (tmp_path / str(seed)).mkdir()
        indexed = write_indexed_system(ini, tmp_path / "in", tmp_path / str(seed))
        text = [tuple(line.split()) for line in read_lines(indexed.text)]
        assert [[strip_tags(word) for word in words] for words in text] == [list(words) for words in sentences]
        found = lists(MosesIni.read(indexed.ini), text)
        assert [strip_tags(line) for line in found] == lists(ini, sentences), seed
        named += sum(MARK in line for line in found)
    assert named, "no word with a name was copied"


def lists(ini: MosesIni, sentences: Sequence[Words]) -> list[bytes]:
    decoder = load_decoder(ini, read_settings(ini), sentences)
    entries = []
    for number in range(len(sentences)):
        model, graph = decoder.run(Graph(), number)
        listed = graph.n_best(200, distinct=False)
        entries += [nbest_entry(model, number, one).to_line() for one in listed]
    return entries


# Output files


def small_system(*lines: Line, table_limit: int = 20) -> SmallSystem:
    weights = {"U": [1.0], "W": [-1.0], "P": [0.2], "T": [0.5], "D": [0.3]}
    return SmallSystem(lines=lines, weights=weights, table_limit=table_limit)


def index_lines(
    tmp_path: Path,
    system: SmallSystem,
    *text: bytes,
    column: ContextColumn | None = None,
    weights: Sequence[float] = (),
) -> IndexedSystem:
    """Write the system of a text; `weights` are the table's in a tuned ini."""
    (tmp_path / "system").mkdir()
    (tmp_path / "indexed").mkdir()
    write_lines(tmp_path / "text.in", text)
    ini = system.write(tmp_path / "system")
    if column:
        add_column_in_context(ini)
    tuned = MosesIni(ini.lines, "tuned.ini")
    if weights:
        tuned.set_weights({"T": weights})
    return write_indexed_system(ini, tmp_path / "text.in", tmp_path / "indexed", column, tuned if weights else None)


A, B, AB = (
    Line((b"a",), (b"A",), (0.5,)),
    Line((b"b",), (b"B",), (0.25,)),
    Line((b"a", b"b"), (b"A", b"B"), (0.125,)),
)


def test_each_position_has_its_lines(tmp_path: Path) -> None:
    indexed = index_lines(tmp_path, small_system(A, B, AB), b"b a b", b"x a")
    b0, a0, b1, a1 = tag_word(b"b", 0, 0), tag_word(b"a", 0, 1), tag_word(b"b", 0, 2), tag_word(b"a", 1, 1)
    assert [*read_lines(indexed.text)] == [b" ".join((b0, a0, b1)), b"x " + a1]
    assert table_of(indexed) == [
        b"%b %b ||| A B ||| 0.125\n" % (a0, b1),
        b"%b ||| A ||| 0.5\n" % a0,
        b"%b ||| A ||| 0.5\n" % a1,
        b"%b ||| B ||| 0.25\n" % b0,
        b"%b ||| B ||| 0.25\n" % b1,
    ]
    assert (indexed.sentences, indexed.positions, indexed.lines) == (2, 5, 5)


def test_words_without_translations_keep_their_form(tmp_path: Path) -> None:
    """Words without translations keep their form, except for tags that a phrase without other words needs."""
    assert [*read_lines(index_lines(tmp_path, small_system(AB, A), b"b a b x", b"b b").text)] == [
        b" ".join((b"b", tag_word(b"a", 0, 1), b"b", b"x")),
        b"b b",
    ]


def test_a_phrase_of_words_without_translations_has_a_tag(tmp_path: Path) -> None:
    indexed = index_lines(tmp_path, small_system(AB), b"a b a b")
    first, second = tag_word(b"b", 0, 1), tag_word(b"b", 0, 3)
    assert [*read_lines(indexed.text)] == [b" ".join((b"a", first, b"a", second))]
    assert table_of(indexed) == [b"a %b ||| A B ||| 0.125\n" % name for name in (first, second)]


def test_a_pair_is_in_the_reordering_table_once_and_so_is_the_copy_of_a_word(tmp_path: Path) -> None:
    """The reordering table has each pair and each copied word once.

    The pair has two lines in the phrase table, and the word begins a phrase.
    """
    reordering = Reordering(
        "wbe-msd-backward-fe",
        {((b"a", b"b"), (b"A", b"B")): (0.5, 0.25, 0.25), ((b"a",), (b"a",)): (0.25, 0.5, 0.25)},
    )
    system = small_system(AB, replace(AB, scores=(0.5,)))
    system = replace(system, weights={**system.weights, "R0": [1.0, 1.0, 1.0]}, reorderings=[reordering])
    indexed = index_lines(tmp_path, system, b"a b")
    assert table_of(indexed, 1) == [
        b"a %b ||| A B ||| 0.5 0.25 0.25\n" % tag_word(b"b", 0, 1),
        b"a ||| a ||| 0.25 0.5 0.25\n",
    ]


def test_lines_are_sorted_as_converters_want_them(unusual_text: Path, tmp_path: Path) -> None:
    (tmp_path / "indexed").mkdir()
    indexed = write_indexed_system(MosesIni.read(MINI / "moses.ini"), unusual_text, tmp_path / "indexed")
    for number in range(2):
        sources = [line[: line.index(b"|||") + 3] for line in table_of(indexed, number)]
        assert sources == sorted(sources)
        assert len(sources) > 1000


@pytest.mark.parametrize(("limit", "best"), [(0, b"PQRS"), (1, b"Q"), (2, b"QS"), (3, b"QRS")])
def test_the_best_options_are_kept_in_their_order(tmp_path: Path, limit: int, best: bytes) -> None:
    options = [Line((b"a",), (word,), (score,)) for word, score in ((b"P", 0.1), (b"Q", 0.4), (b"R", 0.2), (b"S", 0.4))]
    indexed = index_lines(tmp_path, small_system(*options, table_limit=limit), b"a a")
    assert [line.split()[2] for line in table_of(indexed)] == [bytes([word]) for word in best] * 2


def test_other_weights_choose_other_options(tmp_path: Path) -> None:
    options = [Line((b"a",), (b"P",), (0.1,)), Line((b"a",), (b"Q",), (0.4,))]
    indexed = index_lines(tmp_path, small_system(*options, table_limit=1), b"a", weights=[-0.5])
    assert [line.split()[2] for line in table_of(indexed)] == [b"P"]
    assert MosesIni.read(indexed.ini).weights()["T"] == [-0.5]


# A column


def test_the_column_is_that_of_the_position(tmp_path: Path) -> None:
    options = [Line((b"a",), (word,), (score,)) for word, score in ((b"Q", 0.4), (b"R", 0.2), (b"S", 0.4))]
    column = Recorded()
    indexed = index_lines(tmp_path, small_system(*options, B, AB, table_limit=2), b"b a b", b"", b"x a", column=column)
    found = [(position.sentence, position.start, position.end, position.phrase.words) for position in column.positions]
    assert found == [
        (0, 0, 0, (b"b",)),
        (0, 1, 1, (b"a",)),
        (0, 2, 2, (b"b",)),
        (0, 1, 2, (b"a", b"b")),
        (2, 1, 1, (b"a",)),
    ]
    assert column.positions[1].phrase.targets == [(b"Q",), (b"S",)]
    logs = {}
    for line in table_of(indexed):
        source, target, scores = line.rstrip().split(b" ||| ")
        sentence = ord(re.findall(MARK + b"(.)", source)[0]) - ord("a")
        logs[sentence, strip_tags(source), target] = np.log(float(scores.split()[1]))
    assert {key: pytest.approx(value) for key, value in logs.items()} == {
        (0, b"a", b"Q"): 0,
        (0, b"a", b"S"): -1 / 8,
        (0, b"b", b"B"): 0,
        (0, b"a b", b"A B"): 0,
        (2, b"a", b"Q"): -2,
        (2, b"a", b"S"): -2 - 1 / 8,
    }
    ini = MosesIni.read(indexed.ini)
    assert ini.phrase_table().width == 2
    assert ini.weights()["T"] == [0.5, 0.2]


def test_the_column_stands_before_the_other_fields(unusual_text: Path, tmp_path: Path) -> None:
    made = []
    for number, column in enumerate((None, Recorded())):
        (tmp_path / str(number)).mkdir()
        ini = MosesIni.read(MINI / "moses.ini")
        if column:
            add_column_in_context(ini)
        made.append(table_of(write_indexed_system(ini, unusual_text, tmp_path / str(number), column)))
    for plain, wider in zip(*made, strict=True):
        fields, more = plain.split(b" ||| "), wider.split(b" ||| ")
        *scores, new = more[2].split(b" ")
        assert [*more[:2], b" ".join(scores), *more[3:]] == fields
        assert 0 < float(new) <= 1


def test_a_column_changes_the_translation(tmp_path: Path) -> None:
    """A column that depends on the position changes the translation of the second sentence."""

    class Second(ContextColumn):
        column = Column("score", "log-linear")

        def __init__(self) -> None:
            """Do not load a scorer."""

        def values(self, positions: Positions, scratch: Path) -> Floats:
            # Includes scores above 0 and scores too large for Moses.
            return np.array([0, -1000, 0, 1000], np.float64)

    system = small_system(Line((b"a",), (b"P",), (0.5,)), Line((b"a",), (b"Q",), (0.25,)))
    weights = [0.5, 0.3]
    indexed = index_lines(tmp_path, system, b"a", b"a", column=Second(), weights=weights)
    ini = MosesIni.read(indexed.ini)
    assert ini.weights()["T"] == [0.5, 0.3]
    best = lists(ini, [tuple(line.split()) for line in read_lines(indexed.text)])
    assert [line.split(b" ||| ")[1].strip() for line in best] == [b"P", b"Q", b"Q", b"P"]


def test_weights_must_fit(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"tuned\.ini: T has 2 features but 1 weights"):
        index_lines(tmp_path, small_system(A), b"a", column=Recorded(), weights=[1.0])
    assert [*(tmp_path / "indexed").iterdir()] == []


def test_a_column_must_have_a_number_for_each_option(tmp_path: Path) -> None:
    class Wrong(ContextColumn):
        column = Column("score")

        def __init__(self, values: Floats) -> None:
            self._values = values

        def values(self, positions: Positions, scratch: Path) -> Floats:
            return self._values

    (tmp_path / "indexed").mkdir()
    write_lines(tmp_path / "in", [b"a"])
    ini = small_system(A).write(tmp_path)
    add_column_in_context(ini)
    for values in (np.zeros(2), np.zeros((1, 2)), np.full(1, np.nan)):
        with pytest.raises(ValueError, match="has not one number for each option"):
            write_indexed_system(ini, tmp_path / "in", tmp_path / "indexed", Wrong(values))


# Input without a per-text table


def test_a_text_with_tags_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"text.in: line 2: has U\+FDD0"):
        index_lines(tmp_path, small_system(A), b"a", tag_word(b"a", 0, 0))


def test_a_table_with_tags_is_an_error(tmp_path: Path) -> None:
    system = small_system(A, Line((b"b",), (tag_word(b"B", 0, 0),), (0.5,)))
    assert index_lines(tmp_path, system, b"a").lines == 1
    write_lines(tmp_path / "text.in", [b"b"])
    ini = MosesIni.read(tmp_path / "system/moses.ini")
    with pytest.raises(UserError, match=r"table: a line for `b` has U\+FDD0"):
        write_indexed_system(ini, tmp_path / "text.in", tmp_path / "indexed")


def test_binary_tables_are_errors(tmp_path: Path) -> None:
    ini = small_system(A).write(tmp_path)
    ini.lines = [line.replace("PhraseDictionaryMemory", "PhraseDictionaryCompact") for line in ini.lines]
    write_lines(tmp_path / "in", [b"a"])
    with pytest.raises(UserError, match=r"not support PhraseDictionaryCompact; .*, whatever decodes with them") as told:
        write_indexed_system(ini, tmp_path / "in", tmp_path)
    assert "use Moses" not in str(told.value)


def test_a_fault_leaves_the_system_from_before(tmp_path: Path) -> None:
    """A failure in scoring or writing keeps the old system and leaves no other files."""

    class Faulty(Recorded):
        fault: Exception | None = None

        def values(self, positions: Positions, scratch: Path) -> Floats:
            scratch.write_bytes(b"scores")
            if self.fault is not None:
                raise self.fault
            return super().values(positions, scratch)

    index_lines(tmp_path, small_system(A, B), b"a", column=Faulty())
    folder = tmp_path / "indexed"
    ini, before = (
        MosesIni.read(tmp_path / "system" / "moses.ini"),
        {path: path.read_bytes() for path in folder.iterdir()},
    )
    add_column_in_context(ini)
    assert {path.name for path in before} == {"moses.ini", "phrase-table.gz", "text", "text.json"}
    write_lines(tmp_path / "text.in", [b"b"])
    column = Faulty()
    column.fault = FullDiskError("full")
    with pytest.raises(FullDiskError):
        write_indexed_system(ini, tmp_path / "text.in", folder, column)
    column.fault = None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("moses_integration.per_text.indexed_system.write_lines", Mock(side_effect=FullDiskError("full")))
        with pytest.raises(FullDiskError):
            write_indexed_system(ini, tmp_path / "text.in", folder, column)
    assert {path: path.read_bytes() for path in folder.iterdir()} == before
    # A killed run may have left such files, and another user may have indexed a link.
    (folder / ".unfinished").mkdir()
    (folder / ".unfinished" / ".scores.journal").touch()
    (folder / "phrase-table.gz").rename(tmp_path / "elsewhere.gz")
    (folder / "phrase-table.gz").symlink_to(tmp_path / "elsewhere.gz")
    (folder / "text").unlink()
    (folder / "text").mkdir()
    with pytest.raises(UserError, match="text: is a folder"):
        write_indexed_system(ini, tmp_path / "text.in", folder, column)
    assert (folder / "moses.ini").read_bytes() == before[folder / "moses.ini"]
    (folder / "text").rmdir()
    indexed = write_indexed_system(ini, tmp_path / "text.in", folder, column)
    assert {path.name for path in folder.iterdir()} == {path.name for path in before}
    assert table_of(indexed) == [tag_word(b"b", 0, 0) + b" ||| B ||| 0.25 1\n"]
    assert (folder / "text.json").read_bytes() != before[folder / "text.json"]


def test_a_text_without_positions(tmp_path: Path) -> None:
    indexed = index_lines(tmp_path, small_system(A), b"", b"x", column=Recorded())
    assert table_of(indexed) == []
    assert digest_of_text(MosesIni.read(indexed.ini)) == sha256_of(indexed.text)
    assert [*read_lines(indexed.text)] == [b"", b"x"]
    assert MosesIni.read(indexed.ini).phrase_table().width == 2
