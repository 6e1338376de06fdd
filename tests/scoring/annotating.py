"""Annotate with options as keywords, in chunks of any size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from phrasescore.scoring import annotate as annotate_module
from phrasescore.scoring.annotate import Counts
from phrasescore.scoring.annotate_config import AnnotateConfig
from phrasescore.scoring.scorer import PhraseScorer
from phrasescore.table.reader import CHUNK_LINES
from phrasescore.text import Log, no_log


def annotate(
    table: Path,
    scorer: PhraseScorer,
    output: Path | None,
    *,
    chunk_lines: int = CHUNK_LINES,
    progress: Callable[[Counts, float | None], None] = lambda counts, share: None,
    log: Log = no_log,
    only_sources: Sequence[bytes] = (),
    **options: Any,
) -> Counts:
    if only_sources:
        assert output is not None
        text = output.with_name("only-sources")
        text.write_bytes(b"\n".join(only_sources))
        options["only_sources_in"] = (text,)
    config = AnnotateConfig(**options)
    return annotate_module.annotate(table, scorer, output, config, chunk_lines=chunk_lines, progress=progress, log=log)
