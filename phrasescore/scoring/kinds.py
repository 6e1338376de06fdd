"""What appends columns to a phrase table, by the kind of its folders: networks, or functions of phrase pairs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from phrasescore.device import Device, Precision
from phrasescore.errors import UserError
from phrasescore.expected_bleu.scorer import FunctionScorer
from phrasescore.model_folder import network_kind
from phrasescore.pairs import Direction
from phrasescore.scoring.engine import Scorer
from phrasescore.scoring.scores import Scores
from phrasescore.table.factors import Factors
from phrasescore.workers import Shared


class Model(Protocol):
    """What a folder holds."""

    @property
    def folder(self) -> Path:
        """Where it was read from."""
        ...

    @property
    def direction(self) -> Direction:
        """Which side is predicted from which."""
        ...

    @property
    def weights_digest(self) -> str:
        """SHA-256 of the weights file."""
        ...


class TableScorer(Protocol):
    """Scores the lines of a phrase table."""

    @property
    def kind(self) -> str:
        """Of its models, which says what columns there are."""
        ...

    @property
    def models(self) -> Sequence[Model]:
        """One, or several whose mean counts."""
        ...

    @property
    def device(self) -> Device:
        """Where and how precisely it computes."""
        ...

    @property
    def factors(self) -> Factors:
        """Which factors of a table's words make the words that it scores."""
        ...

    @property
    def note(self) -> str | None:
        """What to say before a table is scored."""
        ...

    def shared(self) -> Shared[TableScorer]:
        """Return what a task takes of it."""
        ...

    def encode(self, sources: list[bytes], targets: list[bytes]) -> Any:
        """Turn phrases into what it scores."""
        ...

    def score_encoded(self, pairs: Any) -> Scores:
        """Score encoded pairs.

        Raises:
            UserError: a model is damaged.
        """
        ...

    def count_encoded(self, pairs: Any) -> Scores:
        """Return what is known of encoded pairs without asking a model."""
        ...


def load_table_scorer(
    *folders: str | Path, device: str = "auto", precision: Precision = "auto", direction: Direction | None = None
) -> TableScorer:
    """Load what some folders hold; see `load` of the scorers.

    Raises:
        UserError: one is no model folder, or they hold several kinds of models.
    """
    kinds = {network_kind(Path(folder)): folder for folder in folders}
    if len(kinds) > 1:
        (first, one), (second, other) = list(kinds.items())[:2]
        raise UserError(f"{one}: is of the kind {first}, {other} of the kind {second}; give folders of one kind")
    kind: type[Scorer | FunctionScorer] = FunctionScorer if FunctionScorer.kind in kinds else Scorer
    return kind.load(*folders, device=device, precision=precision, direction=direction)
