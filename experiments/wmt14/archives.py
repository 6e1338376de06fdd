"""Texts out of the archives of the WMT pages: members of tar files, plain, compressed, or with SGML's <seg>."""

from __future__ import annotations

import gzip
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from phrasescore.errors import UserError

_SEGMENT = re.compile(rb"<seg[^>]*>(.*?)</seg>", re.IGNORECASE)


def read_member(archive: Path, member: str) -> Iterator[bytes]:
    """Yield the lines of a text in a tar file, without their ends; of an .sgm file, what stands in its segments.

    As in sacreBLEU's test sets, characters that SGML writes as entities stay as they are.

    Raises:
        UserError: the archive is unreadable, or has no such member.
    """
    try:
        with tarfile.open(archive) as opened:
            stream = opened.extractfile(member)
            if stream is None:
                raise UserError(f"{archive}: {member} is no file in it; list it with `tar -tf`")
            lines: IO[bytes] = gzip.open(stream) if member.endswith(".gz") else stream  # type: ignore[assignment]  # noqa: SIM115
            for line in lines:
                if not member.endswith(".sgm"):
                    yield line.rstrip(b"\r\n")
                elif segment := _SEGMENT.search(line):
                    yield segment[1].strip()
    except KeyError as error:
        raise UserError(f"{archive}: has no {member}; list it with `tar -tf` and mend configs/corpora.toml") from error
    except (tarfile.TarError, OSError, EOFError) as error:
        raise UserError(f"{archive}: cannot be read as a tar file ({error}); download it again") from error
