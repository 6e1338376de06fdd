"""`phrasescore-decoder`: the embedded decoder with the switches of `moses`, for Moses' own scripts.

`mert-moses.pl` accepts it in place of `moses`. It supports the most common switches. A successful run prints nothing
on standard error that Moses' experiment manager interprets as a crash.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from moses_integration.decoder.declaration import declare_model
from moses_integration.decoder.model import LogLinearModel
from moses_integration.decoder.output import Translating, Translation
from moses_integration.decoder.phrases import require_words, words_of
from moses_integration.decoder.pool import start_decoders
from moses_integration.decoder.settings import MOST, SHORT_NAMES, is_on, read_settings
from moses_integration.ini import MosesIni
from moses_integration.per_text.context_sections import networks_of
from phrasescore import __version__
from phrasescore.cli.console import as_line, run_command
from phrasescore.configuration import nearest
from phrasescore.errors import UsageError, UserError
from phrasescore.files import STANDARD_STREAM, display_name, open_output, read_lines, require_writable
from phrasescore.text import no_log, text_lines
from phrasescore.unknown_words import UnknownWords
from phrasescore.words import parse_number

_SHORT = {**SHORT_NAMES, "h": "help"}
_LONG_ONLY = {"n-best-list", "weight-overwrite", "search-algorithm", "max-phrase-length", "inputtype"}
_ALONE = {
    "include-segmentation-in-n-best",
    "print-alignment-info-in-n-best",
    "report-segmentation",
    "drop-unknown",
    "show-weights",
    "help",
    "version",
}
"""Switches that need no value."""
_HELP = """\
usage: phrasescore-decoder -f moses.ini [switches] < sentences > translations

The embedded decoder under Moses' switches (- or --, short and long names as in Moses):

  -f, -config FILE                     moses.ini
  -i, -input-file FILE                 sentences; standard input without it
  -n-best-list FILE SIZE [distinct]    write n-best lists
  -include-segmentation-in-n-best      with source and target ranges
  -print-alignment-info-in-n-best      with word alignment
  -show-weights                        print features and weights, and end
  -weight-overwrite 'A= 1 2 B= 3'      other weights than moses.ini's; x keeps one
  -wf, -weight-file FILE               weights of sparse features; accepted if it has none
  -t, -report-segmentation             source range behind each phrase; not with -n-best-list
  -s, -stack N                         hypotheses in a stack (200)
  -b, -beam-threshold X                worst factor to the best of a stack (1e-5)
  -search-algorithm 0|1                0 scores every candidate, 1 cube pruning
  -cbp, -cube-pruning-pop-limit N      candidates of a stack that are scored (500; 1000 with -search-algorithm 1)
  -dl, -distortion-limit N             longest jump; -1 for any (moses.ini's)
  -max-phrase-length N                 longest source phrase (20)
  -du, -drop-unknown                   leave unknown words out
  -th, -threads N|all                  processes (1)
  -v, -verbose N                       0 says nothing; accepted
  -inputtype 0                         plain text; accepted
  -version
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the decoder; return its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    return run_command("phrasescore-decoder", lambda: _run(arguments))


def _log(text: str) -> None:
    """Print a line on standard error."""
    print(as_line(f"phrasescore-decoder: {text}"), file=sys.stderr)


def _run(arguments: Sequence[str]) -> int:
    if not arguments:
        sys.stdout.write(_HELP)
        return 2
    switches = parse_switches(arguments)
    _require_values(switches)
    if "help" in switches or "version" in switches:
        sys.stdout.write(_HELP if "help" in switches else f"phrasescore-decoder {__version__}\n")
        return 0
    ini = MosesIni.read(Path(_one(switches, "config")))
    if networks_of(ini):
        raise UserError(
            f"{ini.name}: has a column that a network makes for each text, which this decoder does not ask; use "
            "`phrasescore-smt decode`, or `phrasescore-smt text-table` and this decoder then"
        )
    model = declare_model(ini)
    model.set_weights(_overwritten(ini, switches), "-weight-overwrite")
    if "show-weights" in switches:
        sys.stdout.write(_show_weights(model))
        return 0
    ini.require_some_weight(model.weights())
    _refuse_sparse_weights(switches)
    settings = read_settings(ini, switches)
    if _one(switches, "inputtype", "0") != "0":
        raise UsageError("-inputtype: this decoder reads plain text (0) only; use Moses")
    log = _log if _whole(switches, "verbose", 1) else no_log
    for note in ini.notes:
        log(note)
    text = _one(switches, "input-file", STANDARD_STREAM)
    lines = list(text_lines(text, log))
    require_words(lines, display_name(text))
    sentences = [words_of(line) for line in lines]
    processes = None if _one(switches, "threads", "1") == "all" else _whole(switches, "threads", 1)
    if processes is not None and processes < 1:
        raise UsageError(f"-threads: {processes} is not at least 1; give a number of processes, or all")
    require_writable(
        _one(switches, "n-best-list", "/dev/null"), inputs=(_one(switches, "config"), text, *ini.model_files())
    )
    task = _task(switches)
    with start_decoders(ini, sentences, processes, settings=settings) as pool:
        unknown = _write(pool.run(task, model.weights()), switches)
    UnknownWords(words=sum(map(len, sentences)), unknown=unknown).warn_if_many(display_name(text), "phrase table", log)
    return 0


def parse_switches(arguments: Sequence[str]) -> dict[str, list[str]]:
    """Return the values of each switch by its long name; the first occurrence wins (moses/Parameter.cpp).

    Raises:
        UsageError: a switch is unknown, it occurs under both its names, or a value precedes the first switch.
    """
    known = {*_SHORT.values(), *_LONG_ONLY, *_ALONE}
    switches: dict[str, list[str]] = {}
    spelt: dict[str, str] = {}
    values: list[str] | None = None
    for argument in arguments:
        # A value may be a negative number.
        if argument.startswith("-") and len(argument) > 1 and not argument[1].isdecimal():
            given = argument.lstrip("-")
            name = _SHORT.get(given, given)
            if name not in known:
                near = nearest(name, known)
                advice = f"did you mean `-{near}`?" if near else "`phrasescore-decoder -h` lists them"
                raise UsageError(f"{argument}: is no switch of this decoder; {advice}")
            # Moses would mix the values of the two names.
            if spelt.setdefault(name, given) != given:
                raise UsageError(f"-{spelt[name]} and -{given}: are two names of one switch; give one of them")
            if name in switches and name not in _ALONE:
                _log(f"{argument}: is given twice; only the first counts, as in Moses")
            values = []
            switches.setdefault(name, values)
        elif values is None:
            raise UsageError(f"{argument}: stands where a switch is expected; give -f moses.ini first")
        else:
            values.append(argument)
    return switches


def _require_values(switches: dict[str, list[str]]) -> None:
    """Raise a UsageError for a switch without its value."""
    for name, values in switches.items():
        if not values and name not in _ALONE:
            raise UsageError(f"-{name}: has no value; `phrasescore-decoder -h` says what it takes")


def _show_weights(model: LogLinearModel) -> str:
    """Return what `-show-weights` prints: features in Moses' order, six decimals (moses/Util.cpp)."""
    lines = []
    for feature in model.features:
        numbers = " ".join(f"{weight:.6f}" for weight in model.weights_F[model.columns[feature.label]])
        lines.append(f"{feature.label}= {numbers}" if feature.tuneable else f"{feature.label} UNTUNEABLE")
    return "\n".join(lines) + "\n"


def _task(switches: dict[str, list[str]]) -> Translating:
    listing = switches.get("n-best-list", [])
    if switches.get("report-segmentation"):
        raise UsageError("-report-segmentation: Moses reports whatever its value says; give it none, or leave it out")
    if listing and "report-segmentation" in switches:
        raise UsageError(
            "-report-segmentation: would stand in n-best lists of Moses, too; use -include-segmentation-in-n-best, or "
            "leave -n-best-list out"
        )
    # Use as many digits as the largest value has.
    if listing and (len(listing) < 2 or not re.fullmatch("[0-9]{1,10}", listing[1]) or int(listing[1]) > MOST):
        raise UsageError(
            f"-n-best-list: needs a file and a size up to {MOST:,}; give -n-best-list FILE SIZE [distinct]"
        )
    return Translating(
        trace="report-segmentation" in switches,
        nbest=int(listing[1]) if listing else 0,
        distinct="distinct" in listing[2:],
        segmentation=_is_on(switches, "include-segmentation-in-n-best"),
        alignment=_is_on(switches, "print-alignment-info-in-n-best"),
    )


def _write(results: Iterator[Translation], switches: dict[str, list[str]]) -> int:
    """Write all requested outputs; return the number of unknown words."""
    unknown = 0
    listing = switches.get("n-best-list", ["/dev/null"])[0]
    # An n-best list on standard output replaces the translations, as in Moses.
    to_stdout = listing in (STANDARD_STREAM, "/dev/stdout")
    with open_output("/dev/null" if to_stdout else listing) as nbest:
        for result in results:
            sys.stdout.buffer.write(b"".join(result.nbest) if to_stdout else result.line + b"\n")
            nbest.writelines(result.nbest)
            unknown += result.unknown
    sys.stdout.buffer.flush()
    return unknown


def _overwritten(ini: MosesIni, switches: dict[str, list[str]]) -> dict[str, list[float]]:
    """Return the weights of `-weight-overwrite 'A= 1 x B= 3'`; x keeps the ini's weight."""
    before, weights, label = ini.weights_of_features(), dict[str, list[float]](), ""
    for token in " ".join(switches.get("weight-overwrite", [])).split():
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


def _refuse_sparse_weights(switches: dict[str, list[str]]) -> None:
    """Reject a `-weight-file` with weights; comments are allowed (moses/FeatureVector.cpp)."""
    for path in switches.get("weight-file", []):
        for row, line in enumerate(read_lines(path), 1):
            if line.strip() and not line.startswith(b"#"):
                raise UserError(
                    f"{path}: line {row}: is the weight of a sparse feature, which this decoder has not; use Moses, or "
                    "give dense weights by -weight-overwrite"
                )


def _one(switches: dict[str, list[str]], name: str, default: str | None = None) -> str:
    values = switches.get(name, [])
    if values:
        return values[0]
    if default is None:
        raise UsageError(f"-{name}: is missing; `phrasescore-decoder -h` lists the switches")
    return default


def _whole(switches: dict[str, list[str]], name: str, default: int) -> int:
    value = _one(switches, name, str(default))
    if not re.fullmatch("[0-9]{1,10}", value):
        raise UsageError(f"-{name}: `{value}` is no whole number; give one")
    return int(value)


def _is_on(switches: dict[str, list[str]], name: str) -> bool:
    try:
        return name in switches and is_on(switches[name])
    except ValueError as fault:
        raise UsageError(f"-{name}: {fault}; give true or false") from fault
