"""The file of weights that `rescore --reference` writes and `rescore --weights` reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from moses_integration.ini import Weights
from moses_integration.nbest import NbestEntry
from moses_integration.rescoring.kinds import LANGUAGE_MODELS, ScorerChoice
from moses_integration.rescoring.reranking import check_fit, check_new
from moses_integration.rescoring.scorers import ListScorer
from phrasescore.documents import read_json
from phrasescore.errors import UserError
from phrasescore.files import sha256_of, write_json
from phrasescore.provenance import described

SCHEMA = 2
_LARGEST_WEIGHT = float(np.finfo(np.float32).max)
"""Moses has weights in 32 bit."""


@dataclass(frozen=True)
class TunedWeights:
    """What a file of weights says."""

    path: Path
    """The file."""
    ini: Path | None
    """The moses.ini of the list; another toolkit's has none."""
    backoff: Path | None
    """n-gram model of the language models, if there are any."""
    backoff_digest: str | None
    scorers: Sequence[ScorerChoice]
    digests: Mapping[str, str | None]
    """By the scorers' labels."""
    weights: Weights
    """Of all features of the list, the scorers' among them."""

    @classmethod
    def read(cls, path: Path) -> TunedWeights:
        """Read a file that tuning wrote.

        Raises:
            UserError: it is none.
        """
        report = read_json(path, "tune again")
        try:
            return cls._parse(path, report)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UserError(f"{path}: is not a file of weights that `rescore --reference` wrote; tune first") from error

    @classmethod
    def _parse(cls, path: Path, report: Mapping[str, Any]) -> TunedWeights:
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
            path,
            Path(report["ini"]["path"]) if report["ini"] else None,
            Path(backoff["path"]) if backoff else None,
            backoff and backoff["sha256"],
            scorers,
            {one["label"]: one["sha256"] for one in report["scorers"]},
            weights,
        )

    def write(self, report: Mapping[str, Any]) -> None:
        """Write the file, with what else is to be told of the tuning."""
        scorers = [
            {"label": one.label, "kind": one.kind, "path": str(one.path.resolve()), "sha256": self.digests[one.label]}
            for one in self.scorers
        ]
        content = {
            "schema": SCHEMA,
            "ini": self.ini and described(self.ini.resolve()),
            "scorers": scorers,
            "backoff": self.backoff and {"path": str(self.backoff.resolve()), "sha256": self.backoff_digest},
            **report,
            "weights": self.weights,
        }
        write_json(self.path, content)

    def choices(self, given: Sequence[ScorerChoice]) -> list[ScorerChoice]:
        """Return the scorers, those that are given in the place of the saved ones of their label and kind.

        Raises:
            UserError: one that is given has no weight, or numbers are not given anew.
        """
        replaced = {choice.label: choice for choice in given}
        for choice in given:
            if (choice.label, choice.kind) not in {(one.label, one.kind) for one in self.scorers}:
                raise UserError(
                    f"--scorer {choice.label}={choice.kind}: {self.path} has no weight for it; leave it out or tune "
                    "with it"
                )
        for one in self.scorers:
            if one.kind == "numbers" and one.label not in replaced:
                raise UserError(
                    f"{self.path}: the numbers of {one.label} belong to the list it was tuned on; give --scorer "
                    f"{one.label}=numbers:FILE with those of this list"
                )
        return [replaced.get(one.label, one) for one in self.scorers]

    def require_list(self, entry: NbestEntry) -> None:
        """Check that a list, of which this is an entry, has the features that are weighed but for the scorers'.

        Raises:
            ListFault: it has others.
        """
        check_new(entry, self.digests)
        check_fit(entry.features(), {label: of for label, of in self.weights.items() if label not in self.digests})

    def require_same(
        self, choices: Sequence[ScorerChoice], scorers: Sequence[ListScorer], backoff: Path | None
    ) -> None:
        """Check that models are those that the weights were tuned with.

        Args:
            choices: the scorers.
            scorers: the same, loaded.
            backoff: n-gram model of the language models.

        Raises:
            UserError: one is another.
        """
        if backoff and sha256_of(backoff) != self.backoff_digest:
            raise UserError(
                f"{backoff}: is not the n-gram model that {self.path} was tuned with; give that one by --backoff, or "
                "tune again"
            )
        for choice, scorer in zip(choices, scorers, strict=True):
            if scorer.digest != self.digests[choice.label]:
                raise UserError(
                    f"{choice.path}: is not the network that {self.path} was tuned with; give that one by --scorer "
                    f"{choice.label}={choice.kind}:FOLDER, or tune again"
                )


def _weight(value: Any) -> float:
    """Return a value of JSON as a weight.

    Raises:
        ValueError: it is no number, or none of 32 bit.
    """
    # To Python, true is a number.
    if type(value) not in (int, float) or not abs(value) <= _LARGEST_WEIGHT:
        raise ValueError
    return float(value)
