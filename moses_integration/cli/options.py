"""Options that several commands of `phrasescore-smt` share, and what they stand for."""

from __future__ import annotations

import argparse
import math
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any

from moses_integration.placed import IN_CONTEXT, IN_CONTEXT_SHA256, PLACED
from phrasescore.cli.console import Reporter
from phrasescore.cli.options import add_device_options, add_sharing_options, path_or_standard_stream, whole_number
from phrasescore.errors import UsageError, UserError
from phrasescore.files import STANDARD_STREAM, display_name, lock_file, write_lines
from phrasescore.text import Say, silently, text_lines

if TYPE_CHECKING:
    from moses_integration.ini import MosesIni
    from moses_integration.placed.context_column import ContextColumn
    from moses_integration.toolkits.toolkit import Toolkit
    from moses_integration.tuning.tunings import Tuning

_WORK_MARK = ".phrasescore-work"
"""A file in the folder of --work: what else is there is ours."""


def add_toolkit_options(parser: argparse.ArgumentParser) -> None:
    """Add --toolkit, --processes and --scheduler."""
    parser.add_argument(
        "--toolkit",
        choices=("auto", "moses", "embedded"),
        default="auto",
        help="what does the work: an installed Moses, or the embedded toolkit; auto takes Moses if MOSES_HOME is set "
        "or `moses` is on the PATH (default: %(default)s)",
    )
    add_sharing_options(parser)


def add_source_option(parser: argparse.ArgumentParser) -> None:
    """Add --source, which standard input stands in for."""
    parser.add_argument(
        "--source",
        type=path_or_standard_stream,
        default=STANDARD_STREAM,
        metavar="TEXT",
        help="sentences (default: standard input)",
    )


def add_text_options(parser: argparse.ArgumentParser) -> None:
    """Add --prepared."""
    parser.add_argument(
        "--prepared",
        action="store_true",
        help="the text is tokenised and escaped as the system wants it; without this it is prepared as the training "
        "text was",
    )


def add_binarise_option(parser: argparse.ArgumentParser) -> None:
    """Add --binarise."""
    parser.add_argument(
        "--binarise",
        choices=("compact", "probing"),
        help="make the filtered phrase table binary before decoding, which takes less memory; Moses only",
    )


class Distinct(argparse.Action):
    """Store the values of an option; one that is given twice is wrong."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        """Store them, with those of the same option before."""
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
    """Parse a number that is neither infinite nor none."""
    number = float(text)
    if not math.isfinite(number):
        raise argparse.ArgumentTypeError(f"{text} is no finite number")
    return number


def say_spread(tunings: Sequence[Tuning], reporter: Reporter) -> tuple[float, float]:
    """Return mean and standard deviation of the dev BLEU of some seeds; say them, and where BLEU means nothing."""
    from moses_integration.evaluation import BY_CHANCE
    from moses_integration.tuning.tunings import spread

    mean, deviation = spread([tuning.bleu for tuning in tunings])
    if len(tunings) > 1:
        reporter.say(f"dev BLEU of {len(tunings)} seeds: mean {mean:.2f}, standard deviation {deviation:.2f}")
    if not mean:
        reporter.say(
            "no translation has 4 words in a row as its reference has them, so BLEU is 0 and the weights, of the best "
            "smoothed BLEU at most, mean little; check that the dev text and its reference belong together and are "
            "prepared alike"
        )
    elif mean < BY_CHANCE:
        reporter.say(
            "dev BLEU is no higher than chance makes it; check that the dev text and its reference belong together and "
            "are prepared alike"
        )
    return mean, deviation


def toolkit_of(args: argparse.Namespace, reporter: Reporter) -> Toolkit:
    """Return the toolkit asked for, and say which it is when that was left to us."""
    from moses_integration.toolkits.choice import choose_toolkit

    toolkit = choose_toolkit(
        args.toolkit,
        getattr(args, "processes", None),
        getattr(args, "binarise", None),
        getattr(args, "scheduler", None),
    )
    if args.toolkit == "auto":
        reporter.say(f"toolkit: {toolkit}")
    return toolkit


def read_ini(path: Path, reporter: Reporter, toolkit: Toolkit | None = None) -> MosesIni:
    """Read a moses.ini, and say where its paths are taken from, and which of its sections the toolkit passes over.

    Raises:
        UserError: it cannot be read.
    """
    from moses_integration.ini import MosesIni, quote_text

    ini = MosesIni.read(path)
    if ini.note:
        reporter.say(ini.note)
    for section in toolkit.ignored_sections(ini) if toolkit else ():
        passed_over = f"[{quote_text(section)}] is passed over by the embedded decoder"
        reporter.say(f"{ini.name}: {passed_over}; remove it, or use Moses")
    return ini


def add_in_context_option(parser: argparse.ArgumentParser, text: str) -> None:
    """Add --in-context."""
    parser.add_argument(
        "--in-context", type=Path, nargs="+", action="extend", metavar="FOLDER", help=text + " (several: their mean)"
    )
    add_device_options(parser)


def placing(
    args: argparse.Namespace,
    ini: MosesIni,
    toolkit: Toolkit,
    reporter: Reporter,
    new_weight: float | None = None,
    *,
    tunes: bool = False,
) -> tuple[MosesIni, Toolkit]:
    """Return ini and toolkit for what --in-context, or else a comment of the ini, says; as they are if nothing does.

    Args:
        args: of a command that has the options of --in-context.
        ini: the system's.
        toolkit: what does the work.
        reporter: told of what is placed.
        new_weight: of the column, if the ini has none yet and one may be added.
        tunes: whether weights are sought for the networks, whatever those of the ini were for.

    Raises:
        UsageError: an option would change nothing.
        UserError: a network cannot be used or is not the one that the weights are for, or the ini has no column for it
            and none may be added.
    """
    from moses_integration.ini import widen
    from moses_integration.placed.toolkit import PlacingToolkit

    columns = context_column(args, ini, reporter)
    if columns is None:
        return ini, toolkit
    ini = ini.copy()
    if not ini.remarks(IN_CONTEXT):
        if new_weight is None:
            raise UserError(f"{ini.name}: has no column for --in-context; give the ini that `tune --in-context` wrote")
        widen(ini, ini.phrase_table().label, columns.width, new_weight)
        tunes = True
    if tunes:
        folders = args.in_context or ini.remarks(IN_CONTEXT)
        ini.set_remarks(IN_CONTEXT_SHA256, columns.networks)
        ini.set_remarks(IN_CONTEXT, [str(Path(folder).resolve()) for folder in folders])
    require_tuned_for(ini, columns)
    return ini, PlacingToolkit(toolkit, columns, reporter.say)


def context_column(args: argparse.Namespace, ini: MosesIni, reporter: Reporter) -> ContextColumn | None:
    """Return the column of the networks that --in-context, or else a comment of the ini, names.

    Raises:
        UsageError: there are none, and an option is about them.
        UserError: a network cannot be used.
    """
    folders = args.in_context or ini.remarks(IN_CONTEXT)
    if not folders:
        for name in ("device", "precision"):
            if getattr(args, name) != "auto":
                raise UsageError(f"--{name}: changes nothing without a network in context; leave it out")
        return None
    from moses_integration.placed.context_column import ContextColumn
    from phrasescore.scoring.engine import Scorer

    try:
        scorer = Scorer.load(*folders, device=args.device, precision=args.precision)
    except UserError as error:
        if args.in_context:
            raise
        raise UserError(f"{error}; or say by --in-context where the network of {ini.name} lies now") from error
    return ContextColumn(scorer, args.processes, args.scheduler, reporter.say)


def require_tuned_for(ini: MosesIni, columns: ContextColumn) -> None:
    """Check that the weights of an ini were sought with these networks, where a comment says with which they were.

    Raises:
        UserError: they were sought with others.
    """
    sought_with = ini.remarks(IN_CONTEXT_SHA256)
    if sought_with and sorted(sought_with) != sorted(columns.networks):
        raise UserError(
            f"{columns.scorer.origin}: is not what {ini.name} was tuned with, or was trained on since; give that by "
            "--in-context, or tune again"
        )


@contextmanager
def work_folder(given: Path | None) -> Iterator[Path]:
    """Yield the folder for what a run leaves behind: the one given, or one that is deleted afterwards.

    It is kept when a step of Moses fails, for the message names a log in it. One that was made for a run that failed
    before it wrote anything is removed.

    Raises:
        UserError: the one given cannot be made, another run is at work in it, or it has files that no earlier run
            left; what this run writes or removes could be theirs.
    """
    from moses_integration.toolkits.installation import StepFailure

    if given is not None:
        if given.exists() and not given.is_dir():
            raise UserError(f"{given}: is a file; give the name of a folder")
        mark, is_new = given / _WORK_MARK, not given.exists()
        if given.exists() and any(given.iterdir()) and not mark.exists():
            raise UserError(f"{given}: has files that no earlier run left; give a new or empty folder")
        try:
            given.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"{given}: cannot be made ({error.strerror}); check the folder and its rights") from error
        with lock_file(mark, f"{given}: another run is at work in it; wait for it or give another folder"):
            try:
                yield given
            except BaseException:
                if is_new and [*given.iterdir()] == [mark]:
                    shutil.rmtree(given)
                raise
        return
    folder = Path(mkdtemp(prefix="phrasescore."))
    try:
        yield folder
    except StepFailure:
        raise
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    else:
        shutil.rmtree(folder)


def prepare_text(
    ini: MosesIni | None, side: str, raw: str | Path, prepared: Path, is_prepared: bool, say: Say = silently
) -> Path:
    """Write the text as the system's training text is to the file `prepared`, and return that.

    Args:
        ini: the system's; None for prepared text without one.
        side: `source` or `target`.
        raw: the text.
        prepared: where it goes.
        is_prepared: whether it is as the system wants it already.
        say: told of lines that are not UTF-8, and of text that does not look like what it is given as.

    Raises:
        UserError: it cannot be read or is no text, or how the system's text was prepared is not known, as where the
            ini was moved; or the system has the tables of another text.
    """
    from moses_integration.building.system_text import SystemText
    from moses_integration.building.text_form import FOR_TEXT_OF_A_SYSTEM, TextClaim, noting_form
    from moses_integration.placed.names import of_names

    if is_prepared:
        # Of escapes and capitals nothing is known: a text may have none.
        advice = replace(FOR_TEXT_OF_A_SYSTEM, if_plain="leave out --prepared")
        claim = TextClaim(tokenised=True, escaped=True, has_capitals=False, advice=advice)
        lines = noting_form(text_lines(raw, say), display_name(raw), claim, say)
        if ini is not None and ini.remarks(PLACED) and side == "source":
            lines = of_names(lines, display_name(raw), ini.name)
        write_lines(prepared, lines)
        return prepared
    assert ini is not None, "text is prepared where no ini says how"
    if ini.remarks(PLACED) and side == "source":
        raise UserError(
            f"{ini.name}: has the tables of one text; give that, `{ini.remarks(PLACED)[0]}` beside it, and --prepared"
        )
    text = SystemText.of(ini)
    if text is None:
        # Where the ini was moved, this is why.
        ini.require_files()
        raise UserError(
            f"{ini.name}: how its text was prepared is not known, for no preparation.json lies beside it or the files "
            "it names; give text that is tokenised and escaped as in training, and --prepared"
        )
    text.prepare(side, raw, prepared, say)
    return prepared
