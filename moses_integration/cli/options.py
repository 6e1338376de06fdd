"""Options that several commands of `phrasescore-smt` share."""

from __future__ import annotations

import argparse
import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from phrasescore.cli.console import Reporter
from phrasescore.cli.options import add_sharing_options, whole_number
from phrasescore.files import require_writable
from phrasescore.model_files import files_of_models

if TYPE_CHECKING:
    from moses_integration.ini import MosesIni
    from moses_integration.toolkits.toolkit import BuildingToolkit
    from moses_integration.tuning.tunings import Tuning


def add_toolkit_options(parser: argparse.ArgumentParser) -> None:
    """Add --toolkit, --processes and --scheduler."""
    parser.add_argument(
        "--toolkit",
        choices=("auto", "moses", "embedded"),
        default="auto",
        help="installed Moses or embedded toolkit; auto selects Moses if MOSES_HOME is set or `moses` is on the PATH "
        "(default: %(default)s)",
    )
    add_sharing_options(parser)


def add_binarise_option(parser: argparse.ArgumentParser) -> None:
    """Add --binarise."""
    parser.add_argument(
        "--binarise",
        choices=("compact", "probing"),
        help="convert the filtered phrase table to this binary format, which needs less memory; with an installed "
        "Moses only",
    )


class Distinct(argparse._AppendAction):
    """Store the values of an option; a repeated value is an error."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        """Append the values to those of earlier occurrences of the option."""
        before = getattr(namespace, self.dest)
        values = values if before is self.default else [*before, *values]
        twice = [value for value, count in Counter(values).items() if count > 1]
        if twice:
            raise argparse.ArgumentError(self, f"{twice[0]} is given twice")
        setattr(namespace, self.dest, values)


def natural(text: str) -> int:
    """Parse a number of at least 0."""
    return whole_number(text, 0)


def finite(text: str) -> float:
    """Parse a finite number."""
    number = float(text)
    if not math.isfinite(number):
        raise argparse.ArgumentTypeError(f"{text} is no finite number")
    return number


def say_spread(tunings: Sequence[Tuning], reporter: Reporter) -> tuple[float, float]:
    """Return and log mean and standard deviation of dev BLEU over seeds; warn if BLEU is meaningless."""
    from moses_integration.metrics import NOISE_BLEU
    from moses_integration.tuning.tunings import spread

    mean, deviation = spread([tuning.bleu for tuning in tunings])
    if len(tunings) > 1:
        reporter.log(f"dev BLEU of {len(tunings)} seeds: mean {mean:.2f}, standard deviation {deviation:.2f}")
    if not mean:
        reporter.log(
            "no translation has 4 words in a row as its reference has them, so BLEU is 0 and the weights, of the best "
            "smoothed BLEU at most, mean little; check that the dev text and its reference belong together and are "
            "prepared alike"
        )
    elif mean < NOISE_BLEU:
        reporter.log(
            "dev BLEU is no higher than chance makes it; check that the dev text and its reference belong together and "
            "are prepared alike"
        )
    return mean, deviation


def toolkit_of(args: argparse.Namespace, reporter: Reporter) -> BuildingToolkit:
    """Return the toolkit of --toolkit; log an automatic choice."""
    from moses_integration.toolkits.toolkit import choose_toolkit

    toolkit = choose_toolkit(
        args.toolkit,
        getattr(args, "processes", None),
        getattr(args, "binarise", None),
        getattr(args, "scheduler", None),
    )
    if args.toolkit == "auto":
        reporter.log(f"toolkit: {toolkit}")
    return toolkit


def read_ini(
    path: Path, reporter: Reporter, outputs: Sequence[str | Path | None] = (), networks: Sequence[Path] | None = None
) -> MosesIni:
    """Read a moses.ini, and log notes about unusual content.

    Args:
        path: the ini.
        reporter: logs the notes.
        outputs: files that the command will write.
        networks: model folders that the command reads, in addition to those that the ini names.

    Raises:
        UsageError: an output would replace a file that the ini names, or a file of a network.
        UserError: the ini cannot be read, or an output cannot be written.
    """
    from moses_integration.ini import MosesIni
    from moses_integration.text_table.context_sections import networks_of

    ini = MosesIni.read(path)
    require_writable(*outputs, inputs=(*ini.model_files(), *files_of_models([*networks_of(ini), *(networks or ())])))
    for note in ini.notes:
        reporter.log(note)
    return ini
