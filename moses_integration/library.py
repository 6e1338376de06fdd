"""The commands of `phrasescore-smt` as functions.

Each function takes the options of its command as keyword arguments with underscores, such as `seeds=[1, 2, 3]` or
`in_context="ctx"`; docs/commands.md lists them. `log` receives each line that the command would print. `progress`
receives the completed fraction (None if unknown) and a short description. An unknown option is a `TypeError`; an
invalid value, or a file, model or system that cannot be used, is a `UserError`. Worker processes import the
script that calls a function, so it needs `if __name__ == "__main__":`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from moses_integration.metrics import Evaluated
from moses_integration.metrics import evaluate as evaluate_files
from phrasescore.errors import UserError
from phrasescore.files import is_stream, read_lines
from phrasescore.files.documents import read_json
from phrasescore.scoring.scorer import PhraseScorer, load_scorer
from phrasescore.text import Log, ProgressCallback, no_log, no_progress

File = str | Path
Files = File | Sequence[File]


def build(
    source: File,
    target: File,
    output: File,
    *,
    log: Log = no_log,
    progress: ProgressCallback = no_progress,
    **options: Any,
) -> Path:
    """Build a system from parallel text, one sentence a line; return the path of its moses.ini."""
    _call("build", {"source": source, "target": target, "output": output, **options}, log, progress)
    return Path(output) / "moses.ini"


def add_column(ini: File, table: File, output: File, *, log: Log = no_log, **options: Any) -> None:
    """Write a moses.ini that uses an annotated phrase table, which is the ini's table with new columns."""
    _call("add-column", {"ini": ini, "table": table, "output": output, **options}, log)


def add_language_model(ini: File, model: File, output: File, *, log: Log = no_log, **options: Any) -> None:
    """Write a moses.ini with a neural language model as a feature of the embedded decoder."""
    _call("add-lm", {"ini": ini, "model": model, "output": output, **options}, log)


def train_expected_bleu(
    ini: File, folder: File, *, log: Log = no_log, progress: ProgressCallback = no_progress, **options: Any
) -> PhraseScorer:
    """Train a phrase-pair model for expected BLEU (+XBLEU) with a tuned moses.ini and return it, ready to score."""
    _call("expected-bleu", {"ini": ini, "output": folder, **options}, log, progress)
    return load_scorer(folder)


def tune(
    ini: File,
    output: File,
    *,
    source: File,
    reference: Files,
    log: Log = no_log,
    progress: ProgressCallback = no_progress,
    **options: Any,
) -> dict[str, Any]:
    """Tune the weights of a system on a dev set (MERT) and write them; return the report, such as `dev_bleu`."""
    given = {"ini": ini, "output": output, "source": source, "reference": reference}
    return _reported("tune", {**given, **options}, log, progress)


def decode(
    ini: File,
    source: File,
    output: File | None = None,
    *,
    log: Log = no_log,
    progress: ProgressCallback = no_progress,
    **options: Any,
) -> list[str]:
    """Translate a text, one sentence a line, and return the translations; also write them to `output` if given."""
    return _written("decode", {"ini": ini, "source": source, **options}, output, log, progress)


def text_table(
    ini: File,
    source: File,
    output: File,
    *,
    log: Log = no_log,
    progress: ProgressCallback = no_progress,
    **options: Any,
) -> Path:
    """Write the per-text phrase table of a text, with the column in context, to a folder; return its moses.ini."""
    _call("text-table", {"ini": ini, "source": source, "output": output, **options}, log, progress)
    return Path(output) / "moses.ini"


def prepare(ini: File, source: File, output: File | None = None, *, log: Log = no_log, **options: Any) -> list[str]:
    """Return a source text, prepared as the training text of a system; also write it to `output` if given."""
    return _written("prepare", {"ini": ini, "source": source, **options}, output, log)


def strip_tags(text: File, output: File | None = None) -> list[str]:
    """Return the output of a decoder, without the position tags of `text_table`; also write it to `output` if given."""
    return _written("strip-tags", {"text": text}, output, no_log)


def estimate_gain(
    ini: File,
    *,
    source: File,
    reference: Files,
    log: Log = no_log,
    progress: ProgressCallback = no_progress,
    **options: Any,
) -> dict[str, Any]:
    """Estimate the BLEU gain of features of weight 0, or of a column in context, on a dev set without tuning.

    Returns:
        expected BLEU `without` and `with_all` features, `gain` and `standard_error`.
    """
    return _reported("estimate-gain", {"ini": ini, "source": source, "reference": reference, **options}, log, progress)


def tune_rescoring(
    nbest: File, output: File, *, source: File, reference: Files, log: Log = no_log, **options: Any
) -> dict[str, Any]:
    """Add features (`scorer=["RNN=rnn"]`) to the n-best lists of a dev set and tune the weights of all features.

    Returns:
        the content of `output`, such as `weights`, and `dev_bleu` (0 to 100): `before` tuning, `tuned`, `held_out`.
    """
    given = {"nbest": nbest, "source": source, "reference": reference, "output": output}
    _require_rereadable("output", output, "give a file")
    _call("rescore", {**given, **options}, log)
    return read_json(Path(output), "give a file that `rescore` can write")


def rescore(
    nbest: File,
    weights: File,
    *,
    source: File,
    output: File | None = None,
    log: Log = no_log,
    **options: Any,
) -> list[str]:
    """Rescore n-best lists with the weights that `tune_rescoring` wrote; return the best translations."""
    return _written("rescore", {"nbest": nbest, "weights": weights, "source": source, **options}, output, log)


def combine(lists: Files, *, source: File, output: File | None = None, log: Log = no_log, **options: Any) -> list[str]:
    """Return the translations with the highest expected BLEU under the n-best lists of one or more systems."""
    return _written("combine", {"lists": lists, "source": source, **options}, output, log)


def evaluate(
    translations: Files, reference: Files, *, baseline: File | None = None, log: Log = no_log, **options: Any
) -> list[Evaluated]:
    """Return BLEU, chrF and TER of one or more systems; with a baseline, which comes first, also p-values.

    Options: `tokenise` ("13a", "intl", "none" or "char") and `lowercase`.
    """
    base = None if baseline is None else Path(baseline)
    return evaluate_files(_paths(translations), _paths(reference), base, log=log, **options)


def _paths(files: Files) -> list[Path]:
    return [Path(files)] if isinstance(files, str | Path) else [Path(file) for file in files]


def _written(
    command: str, options: Mapping[str, Any], output: File | None, log: Log, progress: ProgressCallback = no_progress
) -> list[str]:
    _require_rereadable("output", output, "leave it out, and write the returned lines")
    with TemporaryDirectory(prefix="phrasescore-") as folder:
        text = Path(folder) / "text" if output is None else Path(output)
        _call(command, {**options, "output": text}, log, progress)
        return [line.decode("utf-8", "replace") for line in read_lines(text)]


def _reported(command: str, options: Mapping[str, Any], log: Log, progress: ProgressCallback) -> dict[str, Any]:
    _require_rereadable("report", options.get("report"), "leave it out, and use the returned report")
    with TemporaryDirectory(prefix="phrasescore-") as folder:
        report = Path(options.get("report") or Path(folder) / "report.json")
        _call(command, {**options, "report": report}, log, progress)
        return read_json(report, "give a file that can be written")


def _require_rereadable(option: str, path: File | None, advice: str) -> None:
    if path is not None and is_stream(path):
        raise UserError(f"{option}: is a stream or a device, which cannot be read again; {advice}")


def _call(command: str, options: Mapping[str, Any], log: Log, progress: ProgressCallback = no_progress) -> None:
    from moses_integration.cli import make_parser
    from phrasescore.calling import call

    call(make_parser(), command, options, log, progress)
