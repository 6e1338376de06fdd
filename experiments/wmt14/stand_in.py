"""A stand-in for the downloads: the files of the WMT pages, by their names and with their members, of a small text.

So every step but the download itself goes the way that it goes with the real files.
"""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path

from experiments.wmt14.corpora import SOURCE, TARGET, Text
from moses_integration.build.parallel_text import read_pairs
from phrasescore.errors import UserError
from phrasescore.files import write_atomically

Pair = tuple[bytes, bytes]
_MOST = {"train": 20_000, "dev": 60, "test": 40}
"""Pairs that are taken of each part of the data set, for the time."""


def make_archives(data: Path, texts: Sequence[Text], folder: Path) -> None:
    """Write the file of every text into `folder`.

    Args:
        data: a folder with train, dev and test of both languages, as `python -m experiments.data` makes it.
        texts: what there must be. The parallel texts share the training pairs by their real sizes; the monolingual
            ones have the target sides of all of them; those for development share the dev set.
        folder: where the files go.

    Raises:
        UserError: the data set is not there, or too small to give every text a line.
    """
    folder.mkdir(parents=True, exist_ok=True)
    train, dev, test = (
        list(islice(read_pairs(data / f"{part}.{SOURCE}", data / f"{part}.{TARGET}"), most))
        for part, most in _MOST.items()
    )
    for role, pairs in (("parallel", train), ("dev", dev), ("test", test), ("monolingual", train)):
        of_role = [text for text in texts if text.role == role]
        rest, total = iter(pairs), sum(text.lines for text in of_role)
        for number, text in enumerate(of_role, 1):
            size = int(len(pairs) * text.lines / total)
            share = list(rest if number == len(of_role) else islice(rest, size))
            if not share:
                raise UserError(f"{data}: has too few lines to stand in for {text.name}; give a larger data set")
            if text.source is None:
                # Compressed by the suffix of its name.
                write_atomically(folder / text.file, _lines(target for _, target in share))
            else:
                write_atomically(folder / text.file, _archive(text, share))


def _archive(text: Text, pairs: Sequence[Pair]) -> bytes:
    """Return a tar file with both sides."""
    assert text.source is not None
    assert text.target is not None
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz" if text.file.endswith("gz") else "w") as archive:
        for side, member in enumerate((text.source, text.target)):
            lines = [pair[side] for pair in pairs]
            if member.endswith(".sgm"):
                lines = [b'<seg id="%d">%s</seg>' % (number, line) for number, line in enumerate(lines, 1)]
                lines = [b'<srcset setid="x" srclang="any">', b'<doc docid="x">', *lines, b"</doc>", b"</srcset>"]
            data = gzip.compress(_lines(lines)) if member.endswith(".gz") else _lines(lines)
            entry = tarfile.TarInfo(member)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return content.getvalue()


def _lines(lines: Iterable[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in lines)
