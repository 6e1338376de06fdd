from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from phrasescore.choice.instances import DevPairs, DevText
from phrasescore.choice.options import Options, read_options
from phrasescore.errors import UserError
from phrasescore.sentences import ParallelText
from tests.conftest import MINI

TABLE = b"""\
a ||| x ||| 1 1 0.6 1
a ||| x y ||| 1 1 0.3 1
a ||| z ||| 1 1 0.1 1
a b ||| x w ||| 1 1 0.5 1
a b ||| ||| 1 1 0.5 1
b ||| v ||| 1 1 0.5 1
b ||| w ||| 1 1 0.5 1
"""


@pytest.fixture
def options(tmp_path: Path) -> Options:
    (tmp_path / "table").write_bytes(TABLE)
    return read_options(tmp_path / "table", {b"a", b"a b", b"b"}, 4)


def text(folder: Path, source: str, reference: str) -> ParallelText:
    (folder / "dev.s").write_text(source)
    (folder / "dev.t").write_text(reference)
    return ParallelText(folder / "dev.s", folder / "dev.t")


def test_sentences(options: Options, tmp_path: Path) -> None:
    # In the second sentence `a` occurs twice, and `xx` is not `x`; the third has nothing that is right.
    dev = DevText.read(text(tmp_path, "a  b\na c a\na b\n\n", "x y w\nz xx\n\n\n"))
    assert dev.phrases() == {b"a", b"b", b"a b", b"c", b"a c", b"c a", b"a c a"}
    assert dev.sentences == 3
    found = dev.instances(options)
    chosen = [
        (
            options.sources[source],
            [options.targets[option] for option in found.right_R[found.offsets[i] : found.offsets[i + 1]]],
        )
        for i, source in enumerate(found.source_I)
    ]
    # `x w` is not in `x y w`, and that nothing is said is never right.
    assert chosen == [(b"a", [b"x", b"x y"]), (b"b", [b"w"]), (b"a", [b"z"]), (b"a", [b"z"])]
    assert found.sentence_I is not None
    assert found.sentence_I.tolist() == [0, 0, 1, 1]
    assert found.weight_I.tolist() == [1.0] * 4
    some = found.where(np.array([False, True, False, True]))
    assert [options.targets[option] for option in some.right_R] == [b"w", b"z"]
    assert some.offsets.tolist() == [0, 1, 2]


def test_only_what_a_decoder_used(options: Options, tmp_path: Path) -> None:
    (tmp_path / "trace").write_bytes(b"x |0-0| w |1-1| \nz x |0-0| q q |1-2|\nx w |0-1|\n")
    dev = DevText.read(text(tmp_path, "a b\na c a\na b\n", "x w\nz xx\nq\n"), tmp_path / "trace")
    assert list(dev.spans()) == [(0, b"a"), (0, b"b"), (1, b"a"), (1, b"c a"), (2, b"a b")]
    assert [options.sources[source] for source in dev.instances(options).source_I] == [b"a", b"b", b"a"]


@pytest.mark.parametrize(
    ("trace", "fault"),
    [
        (b"x |0-2|\n", r"line 1: has a range outside the sentence"),
        (b"x |1-0|\n", r"line 1: has a range outside the sentence"),
        (b"x |0-0|\nx\n", r"trace: has 2 lines for 1 sentences"),
        (b"x w\n", r"trace: has no source ranges"),
    ],
)
def test_a_trace_of_something_else(trace: bytes, fault: str, tmp_path: Path) -> None:
    (tmp_path / "trace").write_bytes(trace)
    with pytest.raises(UserError, match=fault):
        DevText.read(text(tmp_path, "a b\n", "x w\n"), tmp_path / "trace")


def test_texts_of_different_length(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"dev\.t: ends before line 2 of .*dev\.s; give files of the same sent"):
        DevText.read(text(tmp_path, "a\nb\n", "x\n"))


def test_phrase_pairs_count_as_often_as_they_occurred(options: Options, tmp_path: Path) -> None:
    pairs = b"a ||| x ||| 1 ||| ||| 9 9 3\na ||| q ||| 1 ||| ||| 9 9 9\na b ||| ||| 1 ||| ||| 9 9 2\nb ||| w ||| 1\n"
    (tmp_path / "pairs").write_bytes(pairs)
    dev = DevPairs.read(tmp_path / "pairs")
    assert dev.phrases() == {b"a", b"a b", b"b"}
    found = dev.instances(options)
    assert [options.targets[option] for option in found.right_R] == [b"x", b"", b"w"]
    assert found.weight_I.tolist() == pytest.approx([1, 2 / 3, 1 / 3])
    assert found.sentence_I is None


def test_on_the_mini_corpus_as_by_loops() -> None:
    dev = DevText.read(ParallelText(MINI / "dev.en", MINI / "dev.fr"))
    options = read_options(MINI / "phrase-table.gz", dev.phrases(), 4)
    found = dev.instances(options)
    expected = []
    targets: dict[str, list[str]] = {}
    for source, target in zip(options.source_O, options.targets, strict=True):
        targets.setdefault(options.sources[source].decode(), []).append(target.decode())
    sources, references = ((MINI / name).read_text().splitlines() for name in ("dev.en", "dev.fr"))
    for source_line, reference in zip(sources, references, strict=True):
        words, others = source_line.split(), reference.split()
        grams = {" ".join(others[i:j]) for i in range(len(others)) for j in range(i + 1, len(others) + 1)}
        for i in range(len(words)):
            for j in range(i + 1, len(words) + 1):
                phrase = " ".join(words[i:j])
                right = [target for target in targets.get(phrase, []) if target in grams]
                expected += [(phrase, right)] if right else []
    assert [
        (
            options.sources[source].decode(),
            [options.targets[option].decode() for option in found.right_R[found.offsets[i] : found.offsets[i + 1]]],
        )
        for i, source in enumerate(found.source_I)
    ] == expected
