"""The file of weights that `rescore --reference` writes and `rescore --weights` reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from moses_integration.ini import Weights
from moses_integration.nbest import NbestEntry
from moses_integration.rescoring.features import FeatureSpec, ListFeature
from moses_integration.rescoring.reranking import check_fit, check_new
from phrasescore.errors import UserError, spelled
from phrasescore.files import sha256_of, write_json
from phrasescore.files.documents import read_json
from phrasescore.model_files import described

SCHEMA = 4
_LARGEST_WEIGHT = float(np.finfo(np.float32).max)
"""Moses stores weights in 32 bits."""


@dataclass(frozen=True)
class TunedWeights:
    """The weights from `rescore --reference`, with the features and models that they belong to."""

    path: Path
    """The file of weights."""
    ini: Path | None
    """The moses.ini of the list, None for a list of another toolkit."""
    backoff: Path | None
    """n-gram model for neural language models, None without such models."""
    backoff_digest: str | None
    scorers: Sequence[FeatureSpec]
    digests: Mapping[str, str | None]
    """Model fingerprints by label, None for a file of numbers."""
    weights: Weights
    """Weights of all features, including the added ones."""
    mbr_scale: float | None = None
    """Scale of minimum Bayes risk, None without it."""

    @classmethod
    def read(cls, path: Path) -> TunedWeights:
        report = read_json(path, "tune again")
        try:
            ini, backoff, scorers = report["ini"], report["backoff"], report["scorers"]
            scale = report["mbr_scale"]
            found = cls(
                path,
                Path(ini["path"]) if ini else None,
                Path(backoff["path"]) if backoff else None,
                backoff and backoff["sha256"],
                [FeatureSpec(one["label"], Path(one["path"]), one["column"]) for one in scorers],
                {one["label"]: one["sha256"] for one in scorers},
                {label: [_weight(value) for value in values] for label, values in report["weights"].items()},
                scale if scale is None else _weight(scale),
            )
            is_current = report["schema"] == SCHEMA and (scale is None or scale > 0)
            if not is_current or not found.digests.keys() <= found.weights.keys():
                raise ValueError
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UserError(f"{path}: is not a file of weights that `rescore` wrote; tune first") from error
        return found

    def write(self, report: Mapping[str, Any]) -> None:
        scorers = [
            {**asdict(one), "path": str(one.path.resolve()), "sha256": self.digests[one.label]} for one in self.scorers
        ]
        content = {
            "schema": SCHEMA,
            "ini": self.ini and described(self.ini.resolve()),
            "scorers": scorers,
            "backoff": self.backoff and {"path": str(self.backoff.resolve()), "sha256": self.backoff_digest},
            **report,
            "mbr_scale": self.mbr_scale,
            "weights": self.weights,
        }
        write_json(self.path, content)

    def choices(self, given: Sequence[FeatureSpec]) -> list[FeatureSpec]:
        """Return the features; a given feature replaces the saved feature with the same label and column."""
        replaced = {spec.label: spec for spec in given}
        for spec in given:
            if (spec.label, spec.column) not in {(one.label, one.column) for one in self.scorers}:
                raise UserError(
                    f"{spelled('scorer')} {spec.label}={spec.source}: {self.path} has no weight for it; leave it out "
                    "or tune with it"
                )
        for one in self.scorers:
            if self.digests[one.label] is None and one.label not in replaced:
                raise UserError(
                    f"{self.path}: the numbers of {one.label} belong to the list it was tuned on; give "
                    f"{spelled('scorer')} {one.label}=FILE with those of this list"
                )
        return [replaced.get(one.label, one) for one in self.scorers]

    def require_list(self, entry: NbestEntry) -> None:
        """Raise a ListFault unless a list, given by any entry, has exactly the features before rescoring."""
        check_new(entry, self.digests)
        check_fit(entry.features(), {label: of for label, of in self.weights.items() if label not in self.digests})

    def require_same(self, specs: Sequence[FeatureSpec], features: Sequence[ListFeature], backoff: Path | None) -> None:
        """Raise an error unless the weights were tuned with these models; `features` are `specs`, loaded."""
        if backoff and sha256_of(backoff) != self.backoff_digest:
            raise UserError(
                f"{backoff}: is not the n-gram model that {self.path} was tuned with; give that one by "
                f"{spelled('backoff')}, or tune again"
            )
        for spec, feature in zip(specs, features, strict=True):
            if feature.fingerprint != self.digests[spec.label]:
                raise UserError(
                    f"{spec.path}: is not the model that {self.path} was tuned with; give that one by "
                    f"{spelled('scorer')} {spec.label}={replace(spec, path=Path('FOLDER')).source}, or tune again"
                )


def _weight(value: Any) -> float:
    # In Python, bool is a subclass of int.
    if type(value) not in (int, float) or not abs(value) <= _LARGEST_WEIGHT:
        raise ValueError
    return float(value)
