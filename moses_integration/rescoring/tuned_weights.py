"""The file of weights that `rescore --reference` writes and `rescore --weights` reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from moses_integration.ini import Weights
from moses_integration.nbest import NbestEntry
from moses_integration.rescoring.features import FeatureSpec, ListFeature, needs_backoff
from moses_integration.rescoring.reranking import check_fit, check_new
from phrasescore.documents import read_json
from phrasescore.errors import UserError
from phrasescore.files import sha256_of, write_json
from phrasescore.provenance import described

SCHEMA = 3
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
    scorers: Sequence[FeatureSpec]
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
        scorers = [_spec(one) for one in report["scorers"]]
        weights = {label: [_weight(value) for value in of_label] for label, of_label in report["weights"].items()}
        backoff = report["backoff"]
        is_sound = report["schema"] == SCHEMA and all(scorer.label in weights for scorer in scorers)
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
            {**asdict(one), "path": str(one.path.resolve()), "sha256": self.digests[one.label]} for one in self.scorers
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

    def choices(self, given: Sequence[FeatureSpec]) -> list[FeatureSpec]:
        """Return the features; one that is given replaces the saved one of its label and column.

        Raises:
            UserError: one that is given has no weight, or numbers are not given anew.
        """
        replaced = {spec.label: spec for spec in given}
        for spec in given:
            if (spec.label, spec.column) not in {(one.label, one.column) for one in self.scorers}:
                raise UserError(
                    f"--scorer {spec.label}={spec.source}: {self.path} has no weight for it; leave it out or tune "
                    "with it"
                )
        for one in self.scorers:
            if self.digests[one.label] is None and one.label not in replaced:
                raise UserError(
                    f"{self.path}: the numbers of {one.label} belong to the list it was tuned on; give --scorer "
                    f"{one.label}=FILE with those of this list"
                )
        return [replaced.get(one.label, one) for one in self.scorers]

    def require_list(self, entry: NbestEntry) -> None:
        """Check that a list, of which this is an entry, has the features that are weighed but for the scorers'.

        Raises:
            ListFault: it has others.
        """
        check_new(entry, self.digests)
        check_fit(entry.features(), {label: of for label, of in self.weights.items() if label not in self.digests})

    def require_same(self, specs: Sequence[FeatureSpec], features: Sequence[ListFeature], backoff: Path | None) -> None:
        """Check that models are those that the weights were tuned with.

        Args:
            specs: the features.
            features: the same, loaded.
            backoff: n-gram model of the language models.

        Raises:
            UserError: one is another.
        """
        if backoff is None and any(map(needs_backoff, specs)):
            raise UserError(
                f"{self.path}: does not say which n-gram model its language model was used with; tune again"
            )
        if backoff and sha256_of(backoff) != self.backoff_digest:
            raise UserError(
                f"{backoff}: is not the n-gram model that {self.path} was tuned with; give that one by --backoff, or "
                "tune again"
            )
        for spec, feature in zip(specs, features, strict=True):
            if feature.fingerprint != self.digests[spec.label]:
                raise UserError(
                    f"{spec.path}: is not the model that {self.path} was tuned with; give that one by --scorer "
                    f"{spec.label}={replace(spec, path=Path('FOLDER')).source}, or tune again"
                )


def _spec(described: Mapping[str, Any]) -> FeatureSpec:
    """Return a feature as a file of weights describes it.

    Raises:
        ValueError: it does not.
    """
    label, column, path = described["label"], described["column"], described["path"]
    spec = FeatureSpec(label, Path(path), column)
    if FeatureSpec.parse(f"{label}={spec.source}") != spec:
        raise ValueError
    return spec


def _weight(value: Any) -> float:
    """Return a value of JSON as a weight.

    Raises:
        ValueError: it is no number, or none of 32 bit.
    """
    # To Python, true is a number.
    if type(value) not in (int, float) or not abs(value) <= _LARGEST_WEIGHT:
        raise ValueError
    return float(value)
