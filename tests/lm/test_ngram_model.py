"""N-gram models in all formats, and KenLM's messages about damaged ones."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from phrasescore.errors import UserError
from phrasescore.lm.ngram_model import load_kenlm, require_log10_probs
from tests.lm.conftest import ARPA

TEXT = ARPA.read_bytes()
PLACE = TEXT.index(b"\\1-grams:\n") + len(b"\\1-grams:\n")
UNIGRAMS = (
    TEXT.partition(b"\nngram 2=")[0]
    + b"\n\n"
    + TEXT[TEXT.index(b"\\1-grams:") : TEXT.index(b"\\2-grams:")]
    + b"\\end\\\n"
)
BINARY = b"mmap lm http://kheafield.com/code format version 5\n\0"


def test_a_rejection_of_kenlm_gives_its_cause_alone(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("a b\n")
    with pytest.raises(UserError) as caught:
        load_kenlm(tmp_path / "text")
    assert 'text: KenLM cannot read it (first non-empty line was "a b" not \\data\\);' in str(caught.value)


def test_a_rejection_of_kenlm_may_quote_bytes_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(b"caf\xe9 b\n")
    with pytest.raises(UserError) as caught:
        load_kenlm(tmp_path / "text")
    told = str(caught.value)
    given = 'text: KenLM cannot read it (first non-empty line was "caf\\xe9 b" not \\data\\);'
    # Early releases of Python 3.11 drop the cause of such an exception.
    assert given in told or "text: KenLM cannot read it;" in told


def test_a_rejection_of_kenlm_may_have_no_cause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "text").write_bytes(b"a\n")

    class Rejects:
        def __init__(self, name: bytes, config: object) -> None:
            raise OSError(f"Cannot read model '{name!r}' ()")

    monkeypatch.setattr("kenlm.Model", Rejects)
    with pytest.raises(UserError, match=r"text: KenLM cannot read it; give an ARPA file or a KenLM binary$"):
        load_kenlm(tmp_path / "text")


def test_a_file_in_use_is_not_loaded_again_unless_it_changes(tmp_path: Path) -> None:
    """Also not if the new file has the same size and time."""
    path = tmp_path / "lm.arpa"
    path.write_bytes(ARPA.read_bytes())
    time = path.stat().st_mtime_ns
    model = load_kenlm(path)
    assert load_kenlm(tmp_path / ".." / tmp_path.name / "lm.arpa") is model
    score = model.score("un chien .")
    path.write_bytes(ARPA.read_bytes().replace(b"chien", b"katze"))
    os.utime(path, ns=(time, time))
    assert load_kenlm(path).score("un chien .") != score == model.score("un chien .")


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress])
def test_a_compressed_file_is_unpacked(compress: Callable[[bytes], bytes], tmp_path: Path) -> None:
    (tmp_path / "lm").write_bytes(compress(TEXT))
    assert load_kenlm(tmp_path / "lm").score("un chien .") == load_kenlm(ARPA).score("un chien .")


def test_nothing_is_left_of_what_was_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    (tmp_path / "lm").write_bytes(gzip.compress(TEXT))
    load_kenlm(tmp_path / "lm")
    assert list((tmp_path / "temporary").iterdir()) == []


def test_a_model_without_unknown_words_is_read_without_a_message(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    counts, words = b"ngram 1=4\nngram 2=1\n", b"-1\t<s>\t0\n-1\t</s>\n-1\tun\t0\n-1\tchien\n"
    (tmp_path / "lm").write_bytes(
        b"\\data\\\n%b\n\\1-grams:\n%b\n\\2-grams:\n-1\t<s> un\n\n\\end\\\n" % (counts, words)
    )
    assert load_kenlm(tmp_path / "lm").score("zzz", bos=False, eos=False) == -100
    assert capfd.readouterr() == ("", "")


def test_a_name_need_not_be_text(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"\xff")
    folder.mkdir()
    (folder / "lm").write_bytes(TEXT)
    assert load_kenlm(folder / "lm").score("un chien .") == load_kenlm(ARPA).score("un chien .")
    (folder / "lm").write_bytes(b"text")
    with pytest.raises(UserError, match=r"lm: KenLM cannot read it \(first non-empty line"):
        load_kenlm(folder / "lm")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", r"KenLM cannot read it \(End of file\)"),
        (TEXT[: len(TEXT) // 2], r"KenLM cannot read it \(End of file in the 3-gram\)"),
        (TEXT[: len(TEXT) // 3], r"\(Word tr was not seen in the unigrams .* but appears in the 3-gram\)"),
        (TEXT.replace(b"\\end\\", b""), r"\(End of file\)"),
        (TEXT.replace(b"1=112", b"1=113"), r"\(Could not parse \"\\2-grams:\" into a float in the 1-gram\)"),
        (TEXT.replace(b"2=1647", b"2=1646"), r"\(Was expecting n-gram header \\3-grams: but got .* instead\)"),
        (TEXT.replace(b"1=112", b"1=many"), "invalid numbers of n-grams; copy the file or estimate it again"),
        (TEXT.replace(b"2=1647", b"2=-5"), "invalid numbers of n-grams"),
        (TEXT.replace(b"3=4782", b"3=100000000"), "more n-grams than the file can hold"),
        (TEXT.replace(b"3=4782", b"3=" + b"9" * 400), "more n-grams than the file can hold"),
        (TEXT[:PLACE] + b"x" + TEXT[PLACE:], r"\(Could not parse \"x-3.2179997\" into a float in the 1-gram\)"),
        (TEXT[:PLACE] + b"nan\t" + TEXT[PLACE:], r"\(Could not parse \"nan\" into a float in the 1-gram\)"),
        (TEXT[:PLACE] + TEXT[PLACE + 1 :], r"\(Positive log probability 3.2179997 in the model\)"),
        (TEXT.replace(b"<unk>\t0", b"<unk>\tinf"), r"\(Bad backoff inf in the 1-gram\)"),
        (TEXT.replace(b"<unk>\t0", b"<unk>\tzero"), r"\(Could not parse \"zero\" into a float in the 1-gram\)"),
        (TEXT.replace(b"\t", b" "), r"\(Expected tab after probability in the 1-gram\)"),
        (UNIGRAMS, "lm: has unigrams only, which KenLM does not read; estimate a model of order 2 or more"),
        (TEXT.replace(b"<s>", b"<t>"), r"\(The ARPA file is missing <s> .*\)"),
        (TEXT.decode().encode("utf-16"), "has NUL bytes, which are in no ARPA file; convert it to UTF-8"),
        (b"\xef\xbb\xbf" + TEXT, r"\(first non-empty line was \"\\ufeff\\data\\\" not \\data\\\)"),
        (b"\x1b[31m\n", r"\(first non-empty line was \"\\x1b\[31m\" not"),
        (gzip.compress(TEXT)[:2000], "the compressed data is truncated or corrupt"),
        (BINARY, r"\(This looks like a binary file but got sent to the ARPA parser\)"),
        (BINARY + bytes(500), r"\(File looks like it should be loaded with mmap, but the test values don't match\)"),
        (BINARY.replace(b"5", b"4") + bytes(500), r"\(Binary file has version 4 but this .* expects version 5 .*\)"),
    ],
)
def test_a_damaged_file_is_reported_in_a_sentence(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "lm").write_bytes(content)
    with pytest.raises(UserError, match=message) as caught:
        load_kenlm(tmp_path / "lm")
    assert "threw" not in str(caught.value)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 400 + len(str(tmp_path))


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo])
def test_only_files_are_opened_as_models(make: Callable[[Path], None], tmp_path: Path) -> None:
    make(tmp_path / "lm")
    with pytest.raises(UserError, match="lm: is not a file; give an ARPA file or a KenLM binary"):
        load_kenlm(tmp_path / "lm")


@pytest.mark.parametrize("number", [-np.inf, np.inf, np.nan, 2.0])
def test_numbers_that_are_no_log_probabilities(number: float) -> None:
    require_log10_probs(np.array([-99.0, 0.0, 0.1]), Path("lm"))
    with pytest.raises(UserError, match="lm: gives words log-probabilities that are infinite or above 0"):
        require_log10_probs(np.array([-1.0, number]), Path("lm"))
