"""The two steps of rescoring: tune weights on the n-best list of a dev set, and apply them to another list.

The weights are in a file that `rescore --reference` writes and `rescore --weights` reads.
"""

from __future__ import annotations

import time
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from moses_integration.ini import MosesIni, Weights
from moses_integration.nbest import ListFault, NbestEntry, read_nbest, write_nbest
from moses_integration.per_text.position_tags import strip_tags
from moses_integration.prepared_text import DevSet
from moses_integration.rescoring.features import (
    FeatureSpec,
    ListFeature,
    ScorerFeature,
    load_features,
    needs_backoff,
    share_scoring,
)
from moses_integration.rescoring.reranking import (
    ListTuning,
    add_scores,
    best_of,
    check_dense,
    check_fit,
    check_new,
    list_bleu,
    oracle_bleu,
    rerank,
    tune_on_list,
    weights_before,
)
from moses_integration.tuning.candidates import from_nbest
from phrasescore.device import Device, Precision, choose_device, configure_memory
from phrasescore.errors import UsageError, UserError, arg_name
from phrasescore.files import display_name, sha256_of, write_json
from phrasescore.files.documents import read_json
from phrasescore.model_files import described, versions
from phrasescore.text import Log, counted
from phrasescore.workers import available_cores

SCHEMA = 6
FEWEST = 2
"""Sentences that tuning needs."""
_LARGEST_WEIGHT = float(np.finfo(np.float32).max)
"""Moses stores weights in 32 bits."""


@dataclass(frozen=True)
class TunedWeights:
    """The weights from `rescore --reference`, with the features and models that they belong to."""

    path: Path
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

    @classmethod
    def read(cls, path: Path) -> TunedWeights:
        report = read_json(path, "tune again")
        try:
            ini, backoff, scorers = report["ini"], report["backoff"], report["scorers"]
            found = cls(
                path,
                Path(ini["path"]) if ini else None,
                Path(backoff["path"]) if backoff else None,
                backoff and backoff["sha256"],
                [FeatureSpec(one["label"], Path(one["path"]), one["column"]) for one in scorers],
                {one["label"]: one["sha256"] for one in scorers},
                {label: [_weight(value) for value in values] for label, values in report["weights"].items()},
            )
            if report["schema"] != SCHEMA or not found.digests.keys() <= found.weights.keys():
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
            "weights": self.weights,
        }
        write_json(self.path, content)

    def specs_with(self, given: Sequence[FeatureSpec]) -> list[FeatureSpec]:
        """Return the features; a given feature replaces the saved feature with the same label and column."""
        replaced = {spec.label: spec for spec in given}
        for spec in given:
            if (spec.label, spec.column) not in {(one.label, one.column) for one in self.scorers}:
                raise UserError(
                    f"{arg_name('scorer')} {spec.label}={spec.source}: {self.path} has no weight for it; leave it out "
                    "or tune with it"
                )
        for one in self.scorers:
            if self.digests[one.label] is None and one.label not in replaced:
                raise UserError(
                    f"{self.path}: the numbers of {one.label} belong to the list it was tuned on; give "
                    f"{arg_name('scorer')} {one.label}=FILE with those of this list"
                )
        return [replaced.get(one.label, one) for one in self.scorers]

    def require_list(self, entry: NbestEntry) -> None:
        """Raise a ListFault unless a list, given by any entry, has exactly the features before rescoring."""
        check_new(entry, self.digests)
        check_fit(entry.features(), {label: of for label, of in self.weights.items() if label not in self.digests})

    def require_width(self, spec: FeatureSpec, entries: Sequence[NbestEntry]) -> None:
        """Raise an error unless a scorer gave as many values for an entry as it has weights."""
        width = len(self.weights[spec.label])
        if entries and (found := len(entries[0].features()[spec.label])) != width:
            raise UserError(
                f"{spec.path}: has {counted(found, 'number')} for each entry where {self.path} has "
                f"{counted(width, 'weight')} of {spec.label}; give the same numbers as in tuning"
            )

    def require_same(self, specs: Sequence[FeatureSpec], features: Sequence[ListFeature], backoff: Path | None) -> None:
        """Raise an error unless the weights were tuned with these models; `features` are `specs`, loaded."""
        if backoff and sha256_of(backoff) != self.backoff_digest:
            raise UserError(
                f"{backoff}: is not the n-gram model that {self.path} was tuned with; give that one by "
                f"{arg_name('backoff')}, or tune again"
            )
        for spec, feature in zip(specs, features, strict=True):
            if feature.fingerprint != self.digests[spec.label]:
                raise UserError(
                    f"{spec.path}: is not the model that {self.path} was tuned with; give that one by "
                    f"{arg_name('scorer')} {spec.label}={replace(spec, path=Path('FOLDER')).source}, or tune again"
                )


@dataclass(frozen=True)
class Rescorer:
    """Adds features to an n-best list."""

    nbest: Path
    scorers: Sequence[FeatureSpec]
    log: Log
    backoff: Path | None = None
    device: str = "auto"
    precision: Precision = "auto"
    processes: int | None = None
    scheduler: str | None = None
    nbest_output: Path | None = None

    def tune(self, output: Path, dev: DevSet, ini: MosesIni | None, facts: Any) -> ListTuning:
        """Tune the weights of all features on the list of a dev set, and write them with a report."""
        source = list(map(strip_tags, dev.sentences))
        entries = self._read(source, [feature.label for feature in ini.features()] if ini else ())
        if not entries:
            raise ListFault("is empty; check what the decoder reported")
        if (found := len({entry.sentence for entry in entries})) < FEWEST:
            raise ListFault(
                f"has translations of {counted(found, 'sentence')}; give a dev set of some hundred sentences"
            )
        weights = self._weights_of_list(ini, entries[0])
        backoff = self._backoff_of(ini)
        device = self._device(self.scorers)
        # Hash the list before writing, because the new list may replace it.
        facts = {"list": described(self.nbest), **facts, "entries": len(entries)}
        with share_scoring(len(entries), device, self.processes, self.scheduler) as workers:
            features = load_features(self.scorers, device, backoff, workers)
            entries, seconds = self._score(entries, features, source)
        digests = {feature.label: feature.fingerprint for feature in features}
        weights = weights_before(entries[0], weights, list(digests))
        candidates = from_nbest(entries, dev.translations)
        before, oracle = list_bleu(candidates, weights), oracle_bleu(candidates)
        origin = "the ini's weights" if ini else "weights of 1"
        self.log(f"dev BLEU {before:.2f} with {origin}; the best choice from the n-best list has about {oracle:.2f}")
        started = time.monotonic()
        tuned = tune_on_list(candidates, weights, self.processes or available_cores())
        seconds["tuning"] = round(time.monotonic() - started, 1)
        self.log(f"dev BLEU {tuned.bleu:.2f}, held-out dev BLEU {tuned.held_out:.2f}")
        if ini and tuned.held_out <= before:
            self.log("the held-out dev BLEU is no higher than with the ini's weights: do not use these weights")
        path = Path(ini.name) if ini else None
        digest = sha256_of(backoff) if backoff else None
        TunedWeights(output, path, backoff, digest, self.scorers, digests, tuned.weights).write(
            {
                **facts,
                "computing": {"device": str(device.torch_device), "precision": device.precision},
                "versions": versions(),
                "dev_bleu": {"before": before, "oracle": oracle, "tuned": tuned.bleu, "held_out": tuned.held_out},
                "l2": tuned.l2,
                "seconds": seconds,
            }
        )
        # After the weights, whose tuning takes longer.
        if self.nbest_output:
            write_nbest(self.nbest_output, rerank(entries, tuned.weights))
        return tuned

    def apply(self, tuned: TunedWeights, sentences: Iterable[bytes]) -> list[bytes]:
        """Rescore the list with tuned weights; return the best translation of each sentence."""
        specs, source = tuned.specs_with(self.scorers), list(map(strip_tags, sentences))
        entries = self._read(source, tuned.weights)
        if entries:
            tuned.require_list(entries[0])
        if tuned.backoff is None:
            self._require_no_backoff()
        backoff, device = self.backoff or tuned.backoff, self._device(specs)
        with share_scoring(len(entries), device, self.processes, self.scheduler) as workers:
            features = load_features(specs, device, backoff, workers)
            tuned.require_same(specs, features, backoff)
            entries, _ = self._score(entries, features, source)
            for spec in specs:
                tuned.require_width(spec, entries)
        ranked = rerank(entries, tuned.weights)
        if self.nbest_output:
            write_nbest(self.nbest_output, ranked)
        return best_of(ranked, len(source))

    def _read(self, source: Sequence[bytes], dense: Container[str]) -> list[NbestEntry]:
        """Read the list without position tags; labels in `dense` are known to be no sparse features."""
        entries = [replace(entry, words=strip_tags(entry.words)) for entry in read_nbest(self.nbest)]
        self.log(f"{display_name(self.nbest)}: {len(entries):,} translations of {len(source):,} sentences")
        # Check before the slow scoring.
        check_dense(entries, dense)
        return entries

    def _weights_of_list(self, ini: MosesIni | None, entry: NbestEntry) -> Weights:
        if ini is None:
            return {label: [1.0] * len(values) for label, values in entry.features().items()}
        try:
            # The ini of another toolkit's list may have weights only, without feature lines.
            return weights_before(entry, ini.weights() | ini.weights_of_features(), [])
        except ListFault as fault:
            problem = fault.reason.split(";")[0]
            raise UserError(
                f"{ini.name}: does not belong to {self.nbest}, which {problem}; give the ini that the list was decoded "
                "with"
            ) from fault

    def _backoff_of(self, ini: MosesIni | None) -> Path | None:
        """Return the n-gram model for neural language models, by default the ini's; None if no scorer needs it."""
        if not any(map(needs_backoff, self.scorers)):
            self._require_no_backoff()
            return None
        if self.backoff is None and ini is None:
            raise UsageError(
                f"{arg_name('scorer')}: a language model needs an n-gram model; give {arg_name('backoff')}, or "
                f"{arg_name('ini')} for its own"
            )
        return self.backoff or (ini.language_model() if ini else None)

    def _require_no_backoff(self) -> None:
        if self.backoff is not None:
            raise UsageError(f"{arg_name('backoff')}: changes nothing without a neural language model; leave it out")

    def _device(self, specs: Sequence[FeatureSpec]) -> Device:
        if all(spec.path.is_file() for spec in specs):
            for name in ("device", "precision"):
                if getattr(self, name) != "auto":
                    raise UsageError(f"{arg_name(name)}: changes nothing without a network; leave it out")
        configure_memory()
        # The decoder uses fp32 for language models, so its n-best lists have the same scores.
        is_exact = self.precision == "auto" and any(map(needs_backoff, specs))
        return choose_device(self.device, "fp32" if is_exact else self.precision)

    def _score(
        self, entries: Sequence[NbestEntry], features: Sequence[ListFeature], source: Sequence[bytes]
    ) -> tuple[list[NbestEntry], dict[str, float]]:
        """Return the list with the new features, and the seconds that each took, by label."""
        seconds: dict[str, float] = {}
        started = time.monotonic()

        def report(feature: ListFeature) -> None:
            nonlocal started
            seconds[feature.label], started = round(time.monotonic() - started, 1), time.monotonic()
            unknown, words = "", feature.found.words if isinstance(feature, ScorerFeature) else None
            if words is not None and words.target:
                # Unknown words show that the text was prepared differently from the network's training text.
                unknown = f", {words.target_unknown / words.target:.2%} of the target words are unknown to the network"
            self.log(f"{feature.label}: {seconds[feature.label]} s{unknown}")

        return add_scores(entries, source, features, report), seconds


def _weight(value: Any) -> float:
    # In Python, bool is a subclass of int.
    if type(value) not in (int, float) or not abs(value) <= _LARGEST_WEIGHT:
        raise ValueError
    return float(value)
