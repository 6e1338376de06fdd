"""Detect and join distributed training started by `torchrun`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from phrasescore.training.ranks import ALONE, Ranks


@contextmanager
def joined() -> Iterator[Ranks]:
    """Join the other ranks if `torchrun` started this process; otherwise return a single rank.

    If ranks fail, the first one to fail raises its error and the others exit silently.

    Raises:
        UserError: the other ranks do not connect, or one of them has died.
        SystemExit: another rank reports the error.
    """
    if os.environ.get("WORLD_SIZE", "") in ("", "1"):
        yield ALONE
        return
    from phrasescore.training.process_group import joined_group

    with joined_group() as group:
        yield group
