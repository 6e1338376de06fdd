"""`phrasescore-decoder`: the embedded decoder with the switches of `moses`, for Moses' own scripts.

`mert-moses.pl` accepts it in place of `moses`. A successful run prints nothing on standard error that Moses' experiment
manager interprets as a crash.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from moses_integration.cli.switches import HELP, Switches
from moses_integration.decoder.declaration import declare_model
from moses_integration.decoder.model import LogLinearModel
from moses_integration.decoder.phrases import require_words, words_of
from moses_integration.decoder.pool import Translation, load_decoder, start_decoders
from moses_integration.decoder.settings import read_settings
from moses_integration.ini import MosesIni
from moses_integration.per_text.context_sections import networks_of
from phrasescore import __version__
from phrasescore.cli.console import as_line
from phrasescore.cli.running import run_command
from phrasescore.errors import UsageError, UserError
from phrasescore.files import STANDARD_STREAM, display_name, open_output, require_writable
from phrasescore.text import no_log, text_lines
from phrasescore.vocabulary import WordCounts


def main(argv: Sequence[str] | None = None) -> int:
    """Run the decoder; return its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    return run_command("phrasescore-decoder", lambda: _run(arguments))


def _log(text: str) -> None:
    print(as_line(f"phrasescore-decoder: {text}"), file=sys.stderr)


def _run(arguments: Sequence[str]) -> int:
    if not arguments:
        sys.stdout.write(HELP)
        return 2
    switches = Switches.parse(arguments, _log)
    if "help" in switches or "version" in switches:
        sys.stdout.write(HELP if "help" in switches else f"phrasescore-decoder {__version__}\n")
        return 0
    ini = MosesIni.read(Path(switches.one("config")))
    if networks_of(ini):
        raise UserError(
            f"{ini.name}: has a column in context, which this decoder cannot compute; use `phrasescore-smt decode`, or "
            "write a per-text phrase table by `phrasescore-smt text-table` and decode with its ini"
        )
    model = declare_model(ini)
    model.set_weights(switches.weights(ini), "-weight-overwrite")
    if "show-weights" in switches:
        sys.stdout.write(_shown_weights(model))
        return 0
    ini.require_some_weight(model.weights())
    switches.require_no_sparse_weights()
    settings, task = read_settings(ini, switches), switches.task()
    if switches.one("inputtype", "0") != "0":
        raise UsageError("-inputtype: this decoder reads plain text (0) only; use Moses")
    log = _log if switches.whole("verbose", 1) else no_log
    for note in ini.notes:
        log(note)
    text = switches.one("input-file", STANDARD_STREAM)
    lines = list(text_lines(text, log))
    require_words(lines, display_name(text))
    sentences = [words_of(line) for line in lines]
    processes = None if switches.one("threads", "1") == "all" else switches.whole("threads", 1, least=1)
    nbest = switches.one("n-best-list", "/dev/null")
    require_writable(nbest, inputs=(switches.one("config"), text, *ini.model_files()))
    with start_decoders(partial(load_decoder, ini, settings), sentences, processes) as pool:
        unknown = _write(pool.run(task, model.weights()), nbest)
    words = WordCounts(sum(map(len, sentences)), unknown)
    words.warn_if_many_unknown(display_name(text), "phrase table", log)
    return 0


def _shown_weights(model: LogLinearModel) -> str:
    """Return what `-show-weights` prints: features in Moses' order, six decimals (moses/Util.cpp)."""
    lines = []
    for feature in model.features:
        numbers = " ".join(f"{weight:.6f}" for weight in model.weights_F[model.columns[feature.label]])
        lines.append(f"{feature.label}= {numbers}" if feature.tuneable else f"{feature.label} UNTUNEABLE")
    return "\n".join(lines) + "\n"


def _write(results: Iterator[Translation], nbest: str) -> int:
    """Write translations and n-best lists; return the number of unknown words."""
    unknown = 0
    # An n-best list on standard output replaces the translations, as in Moses.
    to_stdout = nbest in (STANDARD_STREAM, "/dev/stdout")
    with open_output("/dev/null" if to_stdout else nbest) as lists:
        for result in results:
            sys.stdout.buffer.write(b"".join(result.nbest) if to_stdout else result.line + b"\n")
            lists.writelines(result.nbest)
            unknown += result.unknown
    sys.stdout.buffer.flush()
    return unknown
