from __future__ import annotations

from pathlib import Path

from phrasescore.scoring.annotate_config import phrases_in_texts


def test_every_run_of_words_is_a_phrase(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(b"a b c\n\n")
    (tmp_path / "two").write_bytes("b\u00a0x  a\r\n".encode())
    found = phrases_in_texts([tmp_path / "one", tmp_path / "two"], longest=2)
    assert found == {b"a", b"b", b"c", b"a b", b"b c", "b\u00a0x".encode(), "b\u00a0x a".encode()}
