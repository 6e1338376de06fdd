"""Prune the tables of a built system by several criteria, and measure BLEU against the number of lines.

FOLDER is that of an ablation: `system/` is its baseline system, and `prepared/` has its dev and test sets. Without
`--weights`, each pruned system is tuned with every seed and translates the test set.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from experiments.drawing import line_plot
from experiments.machine import machine
from experiments.markdown import as_markdown
from experiments.steps import Json, Steps, log
from moses_integration.ini import MosesIni
from moses_integration.library import decode, tune
from moses_integration.metrics import measure
from moses_integration.tuning.tunings import spread
from phrasescore import prune
from phrasescore.cli.options import positive
from phrasescore.cli.parser import CommandParser
from phrasescore.cli.running import run_command
from phrasescore.files import make_folder, read_lines, sha256_of, write_atomically, write_json
from phrasescore.text import counted

CRITERIA: Mapping[str, Json] = {
    "count": {"by": "count"},
    "significance": {"by": "significance"},
    "entropy": {"by": "entropy"},
    "p(target | source)": {"by": "3"},
    "count, top 20": {"by": "count", "top": 20},
}
WHOLE = "no pruning"


def parse_arguments() -> argparse.Namespace:
    """Return the options."""
    parser = CommandParser(prog="python -m experiments.pruning", description=__doc__)
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="folder of an ablation")
    parser.add_argument("--output", type=Path, default=Path("results/pruning"), help="folder (default: %(default)s)")
    parser.add_argument("--criteria", nargs="+", choices=CRITERIA, default=list(CRITERIA), help="default: all")
    parser.add_argument("--shares", nargs="+", type=float, default=[0.5, 0.2, 0.1], help="default: %(default)s")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3], help="default: %(default)s")
    parser.add_argument(
        "--weights", type=Path, metavar="INI", help="translate the dev set with the weights of this ini"
    )
    parser.add_argument("--processes", type=positive, help="processes to share the work among (default: all cores)")
    return parser.parse_args()


class Pruning:
    """Pruned systems in a folder. Completed steps are not repeated."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._args = args
        self._ini = MosesIni.read(args.folder / "system" / "moses.ini")
        self._labels = [self._ini.phrase_table().label, "LexicalReordering0"]
        self._tables = [self._ini.path_of(self._ini.feature(label)) for label in self._labels]
        self._steps = Steps(args.output / "steps", log)
        self._part = "dev" if args.weights else "test"
        # The ablation tunes on a part of the dev set if its configuration has `tuning.sentences`.
        self._tuning = "tuning" if (args.folder / "prepared" / "tuning.source").exists() else "dev"

    def run(self) -> Json:
        """Measure all systems; write the table of results and the plot, and return the table."""
        args, digests = self._args, [sha256_of(path) for path in self._tables]
        others = [
            args.folder / "system" / "moses.ini",
            self._ini.language_model(),
            *self._texts(self._tuning),
            *self._texts(self._part),
        ]
        depends_on = [digests, [sha256_of(path) for path in others], args.weights and sha256_of(args.weights)]
        systems: dict[str, tuple[str | None, Json]] = {WHOLE: (None, {})}
        for criterion in args.criteria:
            for share in args.shares:
                systems[f"{criterion}, {100 * share:g}%"] = criterion, {**CRITERIA[criterion], "keep": share}
        measured = {name: self._measured(name, options, depends_on) for name, (_, options) in systems.items()}
        how = "the given weights" if args.weights else f"weights tuned with {counted(len(args.seeds), 'seed')}"
        found: Json = {
            "kind": "table",
            "title": f"BLEU against the size of a pruned phrase table: {args.folder.name}",
            "description": f"BLEU of the {self._part} set with {how}; tokens are compared as they are.",
            "columns": {"system": "", "criterion": "", "lines": ",.0f", "BLEU": ".2f"},
            "rows": [
                [name, criterion, measured[name]["lines"], measured[name]["bleu"]]
                for name, (criterion, _) in systems.items()
            ],
            "provenance": {
                "version": self._steps.versions,
                "machine": machine(),
                "sha256": dict(zip(self._labels, digests, strict=True)),
            },
        }
        write_json(args.output / "pruning.json", found)
        write_atomically(args.output / "pruning.svg", line_plot("lines", f"{self._part} BLEU", _curves(found)))
        return found

    def _measured(self, name: str, options: Json, depends_on: Sequence[Any]) -> Json:
        """Return the number of lines and BLEU of a pruned system."""
        # A path in moses.ini has no spaces.
        work = self._args.output / re.sub(r"\W+", "-", name)
        lines = self._steps.run(name, [*depends_on, options], partial(self._build, work, options))
        seeds = [None] if self._args.weights else self._args.seeds
        mean, deviation = spread(
            [
                self._steps.run(
                    f"{name}, translated" if seed is None else f"{name}, seed {seed}",
                    [*depends_on, options, seed],
                    partial(self._bleu, work, seed),
                )
                for seed in seeds
            ]
        )
        return {"lines": lines, "bleu": {"mean": mean, "standard_deviation": deviation if len(seeds) > 1 else None}}

    def _build(self, work: Path, options: Json) -> int:
        """Write the tables and the ini of a pruned system; return the number of lines."""
        make_folder(work)
        ini, tables = self._ini.with_absolute_paths(), self._tables
        if options:
            tables = [(work / path.name).absolute() for path in tables]
            prune(
                self._tables[0],
                tables[0],
                reordering=(self._tables[1], tables[1]),
                processes=self._args.processes,
                log=log,
                **options,
            )
        for label, path in zip(self._labels, tables, strict=True):
            ini.set_argument(label, "path", str(path))
        if self._args.weights:
            ini.set_weights(MosesIni.read(self._args.weights).weights_of_features())
        ini.write(work / "moses.ini")
        return sum(1 for _ in read_lines(tables[0]))

    def _tuned(self, work: Path, seed: int) -> Path:
        source, *references = self._texts(self._tuning)
        tune(
            work / "moses.ini",
            tuned := work / f"tuned.{seed}.ini",
            source=source,
            reference=references,
            prepared=True,
            seeds=[seed],
            processes=self._args.processes,
            log=log,
        )
        return tuned

    def _bleu(self, work: Path, seed: int | None) -> float:
        """Return BLEU of a system after tuning with a seed, or with the weights of its ini."""
        ini = work / "moses.ini" if seed is None else self._tuned(work, seed)
        source, *references = self._texts(self._part)
        translations = ini.with_suffix(".translations")
        decode(ini, source, translations, prepared=True, processes=self._args.processes)
        return measure(translations, references, "none")["BLEU"].score

    def _texts(self, part: str) -> list[Path]:
        """Return the source and the references of a part of the data."""
        prepared = self._args.folder / "prepared"
        return [prepared / f"{part}.source", *sorted(prepared.glob(f"{part}.reference*"))]


def _curves(found: Json) -> dict[str, list[tuple[float, float]]]:
    """Return BLEU against the number of lines by criterion; each curve ends with the whole table."""
    points = [(criterion, (lines, bleu["mean"])) for _, criterion, lines, bleu in found["rows"]]
    whole = next(point for criterion, point in points if criterion is None)
    names = dict.fromkeys(criterion for criterion, _ in points if criterion is not None)
    return {name: sorted({point for criterion, point in points if criterion == name} | {whole}) for name in names}


def run(args: argparse.Namespace) -> int:
    """Run the experiment; print its table."""
    make_folder(args.output)
    found = Pruning(args).run()
    print(
        as_markdown(
            list(found["columns"]),
            [
                [name, criterion or "", f"{lines:,}", f"{bleu['mean']:.2f}"]
                for name, criterion, lines, bleu in found["rows"]
            ],
        ),
        end="",
    )
    return 0


if __name__ == "__main__":
    arguments = parse_arguments()
    sys.exit(run_command("experiments.pruning", lambda: run(arguments)))
