"""BLEU of a tuned system, with its weights as they are, when its phrase table loses its worst pairs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from experiments.machine import machine
from experiments.options import share
from experiments.provenance import describe_file
from experiments.qualitative.prune import LOG_PROBS, add_judge_options, describe_judge, judge_of, parse_with_judge
from moses_integration.build.system_text import SystemText
from moses_integration.cli.options import add_text_options, finite, prepare_text
from moses_integration.evaluation import compare
from moses_integration.ini import MosesIni
from moses_integration.toolkits.embedded import EmbeddedToolkit
from phrasescore.analysis.pruning import judge_table, prune
from phrasescore.cli.console import run_command
from phrasescore.cli.options import add_processes_option
from phrasescore.files import read_lines, write_atomically, write_json, write_lines

Json = dict[str, Any]
SHARES = (0.2, 0.5, 0.8)


def parse_arguments() -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(prog="python -m experiments.qualitative.pruned_systems", description=__doc__)
    parser.add_argument("ini", type=Path, metavar="INI", help="tuned moses.ini with a text table")
    parser.add_argument("--source", type=Path, required=True, metavar="TEXT", help="test text")
    parser.add_argument("--reference", type=Path, nargs="+", required=True, metavar="TEXT", help="one file or more")
    add_text_options(parser)
    add_judge_options(parser)
    parser.add_argument(
        "--shares",
        type=share,
        nargs="*",
        default=SHARES,
        metavar="X",
        help="of the lines to drop, by the plain score and by the score per word (default: %(default)s)",
    )
    parser.add_argument(
        "--thresholds", type=finite, nargs="*", default=(), metavar="X", help="of ln p per word, below which lines go"
    )
    add_processes_option(parser)
    parser.add_argument(
        "--output", type=Path, default=Path("results/pruning"), help="folder of the report (default: %(default)s)"
    )
    return parse_with_judge(parser)


class _System:
    """The system and the test text."""

    def __init__(self, args: argparse.Namespace, folder: Path) -> None:
        self._references, self._folder = list(args.reference), folder
        self._ini = MosesIni.read(args.ini).with_absolute_paths()
        self.table = self._ini.path_of(self._ini.phrase_table())
        self._source = prepare_text(self._ini, "source", args.source, folder / "source", args.prepared)
        self._text = None if args.prepared else SystemText.of(self._ini)
        is_tokenised = self._text is None or not self._text.settings.tokenise
        # sacreBLEU's own tokeniser would cut escapes such as `&apos;` into words that nearly always match.
        self._tokenise = "none" if is_tokenised else "13a"
        self._toolkit = EmbeddedToolkit(args.processes)

    def translate(self, table: Path, name: str) -> Path:
        """Return the translation of the test text with a table in the place of the system's."""
        ini, tokens, output = self._ini.copy(), self._folder / f"{name}.tokens", self._folder / name
        ini.set_argument(ini.phrase_table().label, "path", str(table.resolve()))
        with self._toolkit.translator(ini, self._source, self._folder) as translate:
            translate(ini.weights(), tokens)
        lines = read_lines(tokens)
        write_lines(output, lines if self._text is None else self._text.detokenise(lines))
        return output

    def against(self, translation: Path, baseline: Path) -> Json:
        """Return BLEU of a translation, and the p-value of its difference from another."""
        return asdict(compare(translation, baseline, self._references, self._tokenise))


@dataclass(frozen=True)
class Point:
    """What of a table goes; see `prune`."""

    per_word: bool
    share: float | None = None
    threshold: float | None = None

    def __str__(self) -> str:
        if self == WHOLE:
            return "nothing"
        limit = f"below {self.threshold:g}" if self.share is None else f"share {self.share:.0%}"
        return f"{'score per word' if self.per_word else 'score'}, {limit}"


WHOLE = Point(per_word=False, share=0.0)


def points(args: argparse.Namespace) -> Iterator[Point]:
    """Yield what is tried."""
    for per_word in (False, True) if args.by in LOG_PROBS else (False,):
        yield from (Point(per_word, share=one) for one in args.shares)
    yield from (Point(args.by in LOG_PROBS, threshold=one) for one in args.thresholds)


def measure(args: argparse.Namespace) -> Json:
    """Prune, translate and count at each point, the whole table first; the tables are deleted again."""
    args.output.mkdir(parents=True, exist_ok=True)
    found: list[Json] = []
    with TemporaryDirectory(prefix=".pruning", dir=args.output) as name:
        # Not compressed, so that sizes can be compared.
        folder, output = Path(name), Path(name) / "phrase-table"
        system = _System(args, folder)
        judged = judge_table(system.table, judge_of(args, system.table))
        for number, point in enumerate((WHOLE, *points(args))):
            pruned = prune(system.table, output, judged, relative=args.relative, **asdict(point))
            bleu = system.against(system.translate(output, str(number)), folder / "0")
            found.append({"point": str(point), **asdict(point), **asdict(pruned), **describe_file(output), **bleu})
            print(f"{point}: {pruned.lines_written:,} lines, BLEU {bleu['bleu']:.2f}", file=sys.stderr, flush=True)
    report = {
        "schema": 1,
        "machine": machine(),
        "ini": describe_file(args.ini),
        "table": describe_file(system.table),
        "source": describe_file(args.source),
        "references": [describe_file(path) for path in args.reference],
        "judge": describe_judge(args),
        "points": found,
    }
    write_json(args.output / "report.json", report)
    write_atomically(args.output / "report.md", markdown(report).encode())
    return report


def markdown(report: Json) -> str:
    """Return the report for people to read."""
    judge, rows = report["judge"], []
    for point in report["points"]:
        best = "" if point["best_dropped"] is None else f"{point['best_dropped']:.2f}"
        rows.append(
            f"| {point['point']} | {best} | {point['lines_written']:,} | {point['bytes'] / 1e6:.1f} | "
            f"{point['extractions_kept']:.0%} | {point['bleu']:.2f} | {point['p_value']:.4f} |"
        )
    return "\n".join(
        (
            "# What pruning the phrase table does to BLEU and size",
            "",
            f"System `{report['ini']['file']}`, its weights as they are; pairs judged by {judge['by']}"
            f"{', compared with the best of their source' if judge['relative'] else ''}; each source keeps its best. "
            f"BLEU: {report['points'][0]['signature']}; p is of the difference from the whole table.",
            "",
            "| dropped | best score dropped | lines | MB of text | extractions kept | BLEU | p |",
            "|---|---|---|---|---|---|---|",
            *rows,
            "",
        )
    )


def run(args: argparse.Namespace) -> int:
    """Measure; print the report."""
    print(markdown(measure(args)), end="")
    return 0


if __name__ == "__main__":
    arguments = parse_arguments()
    sys.exit(run_command("experiments.qualitative.pruned_systems", lambda: run(arguments)))
