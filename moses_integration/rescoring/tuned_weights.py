"""The file of weights that `rescore --reference` writes, as it is read again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from moses_integration.rescoring.kinds import LANGUAGE_MODELS, ScorerChoice
from phrasescore.documents import read_json
from phrasescore.errors import UserError

SCHEMA = 2
_LARGEST_WEIGHT = float(np.finfo(np.float32).max)
"""Moses has weights in 32 bit."""


@dataclass(frozen=True)
class TunedWeights:
    """What a file of weights says."""

    ini: Path | None
    """The moses.ini of the list; another toolkit's has none."""
    backoff: Path | None
    """n-gram model of the language models, if there are any."""
    backoff_digest: str | None
    scorers: list[ScorerChoice]
    digests: Mapping[str, str | None]
    """By label."""
    weights: dict[str, list[float]]

    @classmethod
    def read(cls, path: Path) -> TunedWeights:
        """Read a file that tuning wrote.

        Raises:
            UserError: it is none.
        """
        report = read_json(path, "tune again")
        try:
            return cls._parse(report)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UserError(f"{path}: is not a file of weights that `rescore --reference` wrote; tune first") from error

    @classmethod
    def _parse(cls, report: Mapping[str, Any]) -> TunedWeights:
        scorers = [ScorerChoice.parse(f"{one['label']}={one['kind']}:{one['path']}") for one in report["scorers"]]
        weights = {label: [_weight(value) for value in of_label] for label, of_label in report["weights"].items()}
        backoff = report["backoff"]
        is_sound = (
            report["schema"] == SCHEMA
            and all(scorer.label in weights for scorer in scorers)
            and bool(backoff) == any(scorer.kind in LANGUAGE_MODELS for scorer in scorers)
        )
        if not is_sound:
            raise ValueError
        return cls(
            Path(report["ini"]["path"]) if report["ini"] else None,
            Path(backoff["path"]) if backoff else None,
            backoff and backoff["sha256"],
            scorers,
            {one["label"]: one["sha256"] for one in report["scorers"]},
            weights,
        )

    def choices(self, path: Path, given: Sequence[ScorerChoice]) -> list[ScorerChoice]:
        """Return the scorers, those that are given in the place of the saved ones of their label and kind.

        `path` is that of the file, for messages.

        Raises:
            UserError: one that is given has no weight, or numbers are not given anew.
        """
        replaced = {choice.label: choice for choice in given}
        for choice in given:
            if (choice.label, choice.kind) not in {(one.label, one.kind) for one in self.scorers}:
                raise UserError(
                    f"--scorer {choice.label}={choice.kind}: {path} has no weight for it; leave it out or tune with it"
                )
        for one in self.scorers:
            if one.kind == "numbers" and one.label not in replaced:
                raise UserError(
                    f"{path}: the numbers of {one.label} belong to the list it was tuned on; give --scorer "
                    f"{one.label}=numbers:FILE with those of this list"
                )
        return [replaced.get(one.label, one) for one in self.scorers]


def _weight(value: Any) -> float:
    """Return a value of JSON as a weight.

    Raises:
        ValueError: it is no number, or none of 32 bit.
    """
    # To Python, true is a number.
    if type(value) not in (int, float) or not abs(value) <= _LARGEST_WEIGHT:
        raise ValueError
    return float(value)
