"""Whether `torchrun` has started this process as one of several that train one network."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from phrasescore.training.ranks import ALONE, Ranks


@contextmanager
def joined() -> Iterator[Ranks]:
    """Join the other ranks of a training if `torchrun` has started this process as one of several.

    Where some of them fail, the first that does raises its error, which tells of all; the others exit silently.

    Raises:
        UserError: the others do not come, or one of them has died.
        SystemExit: another rank tells what is wrong.
    """
    if os.environ.get("WORLD_SIZE", "") in ("", "1"):
        yield ALONE
        return
    from phrasescore.training.process_group import joined_group

    with joined_group() as group:
        yield group
