"""Plots of attention weights.

Legend: T target symbols (words and the end symbol), L source symbols (likewise).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from phrasescore.pictures import as_label, load_pyplot, write_figure
from phrasescore.search.decoding import AttentionWeights

_END = "<eos>"
_INCHES_A_WORD, _INCHES_AROUND, _INCHES_OF_SCALE = 0.32, 1.8, 0.8
_TITLE, _SCALE = "attention: target word by source word", "attention weight"


class Alignment(NamedTuple):
    """A sentence, its translation, and the attention weights."""

    source: Sequence[bytes]
    target: Sequence[bytes]
    attention_TL: AttentionWeights


def draw_alignments(alignments: Sequence[Alignment], path: Path) -> None:
    """Plot alignments below each other, in the format of the path's suffix; see `write_figure`."""
    plt = load_pyplot("--attention")
    heights = [_INCHES_AROUND + _INCHES_A_WORD * len(one.attention_TL) for one in alignments]
    width = _INCHES_OF_SCALE + _INCHES_AROUND + _INCHES_A_WORD * max(one.attention_TL.shape[1] for one in alignments)
    figure, axes = plt.subplots(
        len(alignments), 1, figsize=(width, sum(heights)), height_ratios=heights, squeeze=False, layout="compressed"
    )
    for axis, one in zip(axes[:, 0], alignments, strict=True):
        image = axis.imshow(one.attention_TL, cmap="Greys", vmin=0, vmax=1, interpolation="nearest")
        axis.set_xticks(range(one.attention_TL.shape[1]), _symbols(one.source), rotation=90)
        axis.set_yticks(range(one.attention_TL.shape[0]), _symbols(one.target))
        axis.xaxis.tick_top()
        axis.grid(visible=False)
    figure.suptitle(_TITLE)
    figure.colorbar(image, ax=axes[:, 0], label=_SCALE, aspect=10 * len(alignments))
    write_figure(figure, path)


def _symbols(words: Sequence[bytes]) -> list[str]:
    return [as_label(word.decode("utf-8", "replace")) for word in words] + [_END]
