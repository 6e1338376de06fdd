"""`phrasescore-decoder`: the embedded decoder with the switches of `moses`, for Moses' own scripts.

`mert-moses.pl` accepts it in place of `moses`. It supports the most common switches. A successful run prints nothing
on standard error that Moses' experiment manager interprets as a crash.
"""

from __future__ import annotations

import argparse
import math
import re
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from moses_integration.decoder.declaration import declare_model
from moses_integration.decoder.model import LogLinearModel
from moses_integration.decoder.output import Printed, Printing
from moses_integration.decoder.phrases import require_words, words_of
from moses_integration.decoder.pool import DecoderPool
from moses_integration.decoder.settings import MOST, SHORT_NAMES, parse_whole, read_settings
from moses_integration.ini import MosesIni, parse_truth
from moses_integration.per_text.context_sections import networks_of
from phrasescore import __version__
from phrasescore.cli.console import as_line, run_command
from phrasescore.configuration import nearest
from phrasescore.errors import UsageError, UserError
from phrasescore.files import STANDARD_STREAM, display_name, open_output, read_lines, require_writable
from phrasescore.text import no_log, text_lines
from phrasescore.unknown_words import UnknownWords
from phrasescore.words import parse_number

_OF_INI = (
    *("stack", "beam-threshold", "search-algorithm", "cube-pruning-pop-limit", "distortion-limit"),
    *("max-phrase-length", "drop-unknown"),
)
"""Switches that replace the value of their section of the ini, as in Moses."""


class _First(argparse.Action):
    """Of a repeated switch, the first one counts (moses/Parameter.cpp)."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        assert isinstance(parser, SwitchParser)
        if self.dest in parser.given:
            _log(f"{option}: is given twice; only the first counts, as in Moses")
            return
        parser.given.add(self.dest)
        setattr(namespace, self.dest, values)


class SwitchParser(argparse.ArgumentParser):
    """Parses the switches of Moses: long and short names after - or --, without abbreviations."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.given: set[str] = set()

    def add(self, name: str, text: str, **settings: Any) -> None:
        """Add a switch with Moses' short name, if it has one."""
        short = [short for short, long in SHORT_NAMES.items() if long == name]
        settings = {"action": _First, "dest": name.replace("-", "_"), **settings}
        self.add_argument(*(f"-{one}" for one in (*short, name)), help=text, **settings)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse; reject unknown switches first, which argparse would take for abbreviations."""
        args = [f"-{one.lstrip('-')}" if one.startswith("--") else one for one in args]
        known = {name.removeprefix("-") for name in self._option_string_actions}
        for one in args:
            # A value may be a negative number.
            if one.startswith("-") and len(one) > 1 and not one[1].isdecimal() and one[1:] not in known:
                near = nearest(one[1:], known)
                advice = f"did you mean `-{near}`?" if near else "`phrasescore-decoder -h` lists them"
                self.error(f"{one}: is no switch of this decoder; {advice}")
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        """Raise a UsageError that begins with the long name of the switch."""
        raise UsageError(re.sub(r"^argument (?:[^:]*/)?", "", message))


def make_parser() -> SwitchParser:
    """Return the parser of the switches."""
    parser = SwitchParser(
        "phrasescore-decoder",
        usage="phrasescore-decoder -f moses.ini [switches] < sentences > translations",
        description="The embedded decoder under Moses' switches (- or --, short and long names as in Moses).",
        add_help=False,
        formatter_class=lambda prog: argparse.RawTextHelpFormatter(prog, max_help_position=50, width=200),
    )
    add = parser.add
    add("config", "moses.ini", metavar="FILE", type=Path, required=True)
    add("input-file", "sentences (default: standard input)", metavar="FILE", default=STANDARD_STREAM)
    add("n-best-list", "write n-best lists: FILE SIZE [distinct]", nargs="+", metavar="FILE", default=[])
    truth: dict[str, Any] = {"nargs": "?", "type": _truth, "const": True, "default": False, "metavar": "BOOL"}
    add("include-segmentation-in-n-best", "with source and target ranges", **truth)
    add("print-alignment-info-in-n-best", "with word alignment", **truth)
    add("show-weights", "print features and weights, and end", action="store_true")
    add("weight-overwrite", "other weights: 'A= 1 2 B= 3'; x keeps one", nargs="+", metavar="W", default=[])
    add("weight-file", "weights of sparse features; accepted if it has none", metavar="FILE")
    add("report-segmentation", "source range after each phrase; not with -n-best-list", action="store_true")
    add("translation-details", "how each translation came about, phrase by phrase", metavar="FILE", default="/dev/null")
    add("stack", "hypotheses in a stack (200)", type=_whole, metavar="N")
    add("beam-threshold", "worst factor to the best of a stack (1e-5)", type=_fraction, metavar="X")
    add("search-algorithm", "0 scores every candidate, 1 is cube pruning", type=int, choices=(0, 1))
    scored = "candidates of a stack that are scored (500; 1000 with -search-algorithm 1)"
    add("cube-pruning-pop-limit", scored, type=_whole, metavar="N")
    add("distortion-limit", "longest jump; -1 for any (moses.ini's)", type=_integer, metavar="N")
    add("max-phrase-length", "longest source phrase (20)", type=_one_or_more, metavar="N")
    add("drop-unknown", "leave unknown words out", nargs="?", const="", metavar="BOOL")
    add("threads", "processes: a number, or all (1)", type=_threads, default=1, metavar="N")
    add("verbose", "0 prints no messages; other numbers are accepted", type=_whole, default=1, metavar="N")
    add("inputtype", "plain text; accepted", type=int, choices=(0,))
    add("version", "print the version", action="version", version=f"phrasescore-decoder {__version__}")
    parser.add_argument("-h", "-help", action="help", help="print this help")
    return parser


def _truth(text: str) -> bool:
    try:
        return parse_truth(text)
    except ValueError as fault:
        raise argparse.ArgumentTypeError(f"{fault}; give true or false") from fault


def _integer(text: str, least: int = -MOST) -> int:
    try:
        number = parse_whole(text)
    except ValueError as fault:
        raise argparse.ArgumentTypeError(f"`{text}` {fault}; give one") from fault
    if not least <= number <= MOST:
        raise argparse.ArgumentTypeError(f"{text} is out of range; give {least:,} to {MOST:,}")
    return number


_whole = partial(_integer, least=0)
_one_or_more = partial(_integer, least=1)


def _fraction(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a number of at least 0 and below 1")
    return number


def _threads(text: str) -> int | None:
    """Return the number of processes, None for all cores."""
    return None if text == "all" else _one_or_more(text)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the decoder; return its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    return run_command("phrasescore-decoder", lambda: _run(arguments))


def _log(text: str) -> None:
    print(as_line(f"phrasescore-decoder: {text}"), file=sys.stderr)


def _run(arguments: Sequence[str]) -> int:
    parser = make_parser()
    if not arguments:
        parser.print_help()
        return 2
    args = parser.parse_args(arguments)
    printing = _printing(args)
    ini = MosesIni.read(args.config)
    if networks_of(ini):
        raise UserError(
            f"{ini.name}: has a column that a network makes for each text, which this decoder does not ask; use "
            "`phrasescore-smt decode`, or `phrasescore-smt text-table` and this decoder then"
        )
    model = declare_model(ini)
    model.set_weights(_overwritten(ini, args.weight_overwrite), "-weight-overwrite")
    if args.show_weights:
        sys.stdout.write(_shown_weights(model))
        return 0
    ini.require_some_weight(model.weights())
    _require_no_sparse_weights(args.weight_file)
    override_sections(ini, args)
    settings = read_settings(ini)
    log = _log if args.verbose else no_log
    for note in ini.notes:
        log(note)
    lines = list(text_lines(args.input_file, log))
    require_words(lines, display_name(args.input_file))
    sentences = [words_of(line) for line in lines]
    nbest = args.n_best_list[0] if args.n_best_list else "/dev/null"
    inputs = (args.config, args.input_file, *ini.model_files())
    require_writable(nbest, args.translation_details, inputs=inputs)
    with DecoderPool(ini, settings, sentences, args.threads) as pool:
        unknown = _write(pool.run(printing, model.weights()), nbest, args.translation_details)
    words = UnknownWords(words=sum(map(len, sentences)), unknown=unknown)
    words.warn_if_many(display_name(args.input_file), "phrase table", log)
    return 0


def override_sections(ini: MosesIni, args: argparse.Namespace) -> None:
    """Replace values of the ini by those of switches; a switch without a value only fills a gap, as in Moses."""
    for name in _OF_INI:
        value = getattr(args, name.replace("-", "_"))
        if value is None or (value == "" and ini.values(name)):
            continue
        ini.set_values(name, [str(value) or "true"])


def _overwritten(ini: MosesIni, given: Sequence[str]) -> dict[str, list[float]]:
    """Return the weights of `-weight-overwrite 'A= 1 x B= 3'`; x keeps the ini's weight."""
    before, weights, label = ini.weights_of_features(), dict[str, list[float]](), ""
    for token in " ".join(given).split():
        if token.endswith("="):
            label = token[:-1]
            weights[label] = []
            continue
        try:
            numbers = weights[label]
            numbers.append(before[label][len(numbers)] if token == "x" else parse_number(token))
        except (ValueError, LookupError) as error:
            raise UserError(
                f"-weight-overwrite: `{token}` is no weight of `{label}`; give 'Label= number ...'"
            ) from error
    return weights


def _require_no_sparse_weights(path: str | None) -> None:
    """Reject a `-weight-file` with weights; comments are allowed (moses/FeatureVector.cpp)."""
    for row, line in enumerate(read_lines(path) if path else (), 1):
        if line.strip() and not line.startswith(b"#"):
            raise UserError(
                f"{path}: line {row}: is the weight of a sparse feature, which this decoder has not; use Moses, or "
                "give dense weights by -weight-overwrite"
            )


def _shown_weights(model: LogLinearModel) -> str:
    """Return what `-show-weights` prints: features in Moses' order, six decimals (moses/Util.cpp)."""
    lines = []
    for feature in model.features:
        numbers = " ".join(f"{weight:.6f}" for weight in model.weights_F[model.columns[feature.label]])
        lines.append(f"{feature.label}= {numbers}" if feature.tuneable else f"{feature.label} UNTUNEABLE")
    return "\n".join(lines) + "\n"


def _printing(args: argparse.Namespace) -> Printing:
    listing = args.n_best_list
    if listing and args.report_segmentation:
        raise UsageError(
            "-report-segmentation: would stand in n-best lists of Moses, too; use -include-segmentation-in-n-best, or "
            "leave -n-best-list out"
        )
    # Use as many digits as the largest value has.
    if listing and (len(listing) < 2 or not re.fullmatch("[0-9]{1,10}", listing[1]) or int(listing[1]) > MOST):
        raise UsageError(
            f"-n-best-list: needs a file and a size up to {MOST:,}; give -n-best-list FILE SIZE [distinct]"
        )
    return Printing(
        trace=args.report_segmentation,
        nbest=int(listing[1]) if listing else 0,
        distinct="distinct" in listing[2:],
        segmentation=args.include_segmentation_in_n_best,
        alignment=args.print_alignment_info_in_n_best,
        details=args.translation_details != "/dev/null",
    )


def _write(results: Iterator[Printed], nbest: str, details: str) -> int:
    """Write all requested outputs; return the number of unknown words."""
    unknown = 0
    # An n-best list on standard output replaces the translations, as in Moses.
    to_stdout = nbest in (STANDARD_STREAM, "/dev/stdout")
    with open_output("/dev/null" if to_stdout else nbest) as lists, open_output(details) as detailed:
        for result in results:
            sys.stdout.buffer.write(result.nbest if to_stdout else result.best)
            lists.write(result.nbest)
            detailed.write(result.details)
            unknown += result.unknown
    sys.stdout.buffer.flush()
    return unknown
