"""The commands of `phrasescore-smt` as functions.

Each function takes the options of its command as keyword arguments, with underscores; docs/commands.md lists them.
Paths are `str` or `Path`. `log` receives each line that the command would print. `progress` receives the fraction of
the work that is done (None if unknown) and a short description. Worker processes are spawned, so a script needs
`if __name__ == "__main__":`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from moses_integration.metrics import Evaluated
from moses_integration.metrics import evaluate as evaluate_files
from phrasescore.files import read_lines
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
    """Build a system from parallel text; return the path of its moses.ini.

    Args:
        source: sentences, one a line.
        target: their translations.
        output: the system folder.
        log: receives messages.
        progress: receives the progress.
        options: options of `phrasescore-smt build`, such as `tokenised=True`, `alignment="train.align"`, `order=3`.

    Raises:
        TypeError: an option is unknown.
        UserError: a value is invalid, the text cannot be used, or a step fails.
    """
    _call("build", {"source": source, "target": target, "output": output, **options}, log, progress)
    return Path(output) / "moses.ini"


def add_column(ini: File, table: File, output: File, *, log: Log = no_log, **options: Any) -> None:
    """Write a moses.ini that uses an annotated phrase table.

    Args:
        ini: the moses.ini to start from.
        table: the annotated phrase table.
        output: the moses.ini to write.
        log: receives messages.
        options: options of `phrasescore-smt add-column`, such as `weight=0.0`.

    Raises:
        TypeError: an option is unknown.
        UserError: a value is invalid, or the table is not the ini's table with new columns.
    """
    _call("add-column", {"ini": ini, "table": table, "output": output, **options}, log)


def add_language_model(ini: File, model: File, output: File, *, log: Log = no_log, **options: Any) -> None:
    """Write a moses.ini with a neural language model as a feature of the embedded decoder.

    Args:
        ini: the moses.ini to start from.
        model: the model folder of the language model.
        output: the moses.ini to write.
        log: receives messages.
        options: options of `phrasescore-smt add-lm`, such as `backoff="lm.arpa"`.

    Raises:
        TypeError: an option is unknown.
        UserError: a value is invalid, or the embedded decoder does not support the system.
    """
    _call("add-lm", {"ini": ini, "model": model, "output": output, **options}, log)


def train_expected_bleu(
    ini: File, folder: File, *, log: Log = no_log, progress: ProgressCallback = no_progress, **options: Any
) -> PhraseScorer:
    """Train a phrase-pair model for expected BLEU (+XBLEU) and return it, ready to score.

    Args:
        ini: a tuned moses.ini.
        folder: the model folder to write.
        log: receives messages.
        progress: receives the progress.
        options: options of `phrasescore-smt expected-bleu`, such as `sentences=10_000`, `seed=2`.

    Raises:
        TypeError: an option is unknown.
        UserError: a value is invalid, or the training text or the system cannot be used.
    """
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
    """Tune the weights of a system on a dev set (MERT), write them, and return the report.

    Args:
        ini: the moses.ini to tune.
        output: the moses.ini to write.
        source: the dev set.
        reference: its translations, one file or more.
        log: receives messages.
        progress: receives the progress.
        options: options of `phrasescore-smt tune`, such as `seeds=[1, 2, 3]`, `prepared=True`, `in_context="ctx"`.

    Returns:
        the contents of the report of `phrasescore-smt tune --report`, such as `dev_bleu`.

    Raises:
        TypeError: an option is unknown.
        UserError: a value is invalid, or a file, a model or the system cannot be used.
    """
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
    """Translate a text with a system; return the translations, one a sentence.

    Args:
        ini: the moses.ini.
        source: the text, a sentence a line.
        output: optional file for the translations.
        log: receives messages.
        progress: receives the progress.
        options: options of `phrasescore-smt decode`, such as `prepared=True`, `nbest=("lists", 100)`.

    Raises:
        TypeError: an option is unknown.
        UserError: a value is invalid, or the text or the system cannot be used.
    """
    with TemporaryDirectory(prefix="phrasescore.") as folder:
        translations = Path(folder) / "translations" if output is None else Path(output)
        _call("decode", {"ini": ini, "source": source, "output": translations, **options}, log, progress)
        return _lines(translations)


def text_table(
    ini: File,
    source: File,
    output: File,
    *,
    log: Log = no_log,
    progress: ProgressCallback = no_progress,
    **options: Any,
) -> Path:
    """Write the per-text phrase table of a text, with columns in context; return the path of its moses.ini.

    Args:
        ini: the moses.ini of the system.
        source: the text.
        output: the folder for tables, indexed text and moses.ini.
        log: receives messages.
        progress: receives the progress.
        options: options of `phrasescore-smt text-table`, such as `in_context="ctx"`, `weights="tuned.ini"`.

    Raises:
        TypeError: an option is unknown.
        UserError: a value is invalid, or the text, a model or the system cannot be used.
    """
    _call("text-table", {"ini": ini, "source": source, "output": output, **options}, log, progress)
    return Path(output) / "moses.ini"


def estimate_gain(
    ini: File,
    *,
    source: File,
    reference: Files,
    log: Log = no_log,
    progress: ProgressCallback = no_progress,
    **options: Any,
) -> dict[str, Any]:
    """Estimate the BLEU gain of features of weight 0, or of a column in context, without tuning.

    Args:
        ini: a tuned moses.ini.
        source: the dev set.
        reference: its translations, one file or more.
        log: receives messages.
        progress: receives the progress.
        options: options of `phrasescore-smt estimate-gain`, such as `in_context="ctx"`, `nbest=200`.

    Returns:
        expected BLEU `without` and `with_all` features, `gain` and `standard_error`.

    Raises:
        TypeError: an option is unknown.
        UserError: a value is invalid, or a file, a model or the system cannot be used.
    """
    return _reported("estimate-gain", {"ini": ini, "source": source, "reference": reference, **options}, log, progress)


def tune_rescoring(
    nbest: File, output: File, *, source: File, reference: Files, log: Log = no_log, **options: Any
) -> dict[str, Any]:
    """Add features to an n-best list, tune the weights of all features on it, and return the report.

    Args:
        nbest: the n-best list of the dev set.
        output: the weights to write, as JSON.
        source: the dev set.
        reference: its translations, one file or more.
        log: receives messages.
        options: options of `phrasescore-smt rescore`, such as `scorers=["RNN=rnn"]`, `ini="moses.ini"`.

    Returns:
        the contents of `output`, such as `weights` and `dev_bleu`.

    Raises:
        TypeError: an option is unknown.
        UserError: a value is invalid, or a list, a text or a model cannot be used.
    """
    given = {"nbest": nbest, "source": source, "reference": reference, "output": output}
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
    """Rescore an n-best list with tuned weights; return the best translation of each sentence.

    Args:
        nbest: the n-best list.
        weights: written by `tune_rescoring`.
        source: the sentences that were decoded.
        output: optional file for the translations.
        log: receives messages.
        options: options of `phrasescore-smt rescore`, such as `prepared=True`, `nbest_output="rescored"`.

    Raises:
        TypeError: an option is unknown.
        UserError: a value is invalid, or a list, a text or a model cannot be used.
    """
    with TemporaryDirectory(prefix="phrasescore.") as folder:
        translations = Path(folder) / "translations" if output is None else Path(output)
        given = {"nbest": nbest, "weights": weights, "source": source, "output": translations}
        _call("rescore", {**given, **options}, log)
        return _lines(translations)


def evaluate(
    translations: Files, reference: Files, *, baseline: File | None = None, log: Log = no_log, **options: Any
) -> list[Evaluated]:
    """Return BLEU, chrF and TER of one or more systems; with a baseline, also p-values. The baseline comes first.

    Args:
        translations: a file for each system.
        reference: one file or more.
        baseline: translations of the system to compare with.
        log: receives messages.
        options: `tokenise` ("13a", "intl", "none" or "char"), `lowercase`.

    Raises:
        UserError: a file cannot be read or is empty, or the files differ in their number of lines.
    """
    base = None if baseline is None else Path(baseline)
    return evaluate_files(_paths(translations), _paths(reference), base, log=log, **options)


def _paths(files: Files) -> list[Path]:
    return [Path(files)] if isinstance(files, str | Path) else [Path(file) for file in files]


def _lines(text: Path) -> list[str]:
    return [line.decode("utf-8", "replace") for line in read_lines(text)]


def _reported(command: str, options: Mapping[str, Any], log: Log, progress: ProgressCallback) -> dict[str, Any]:
    """Run a command with a report; return the report."""
    with TemporaryDirectory(prefix="phrasescore.") as folder:
        report = Path(options.get("report") or Path(folder) / "report.json")
        _call(command, {**options, "report": report}, log, progress)
        return read_json(report, "give a file that can be written")


def _call(command: str, options: Mapping[str, Any], log: Log, progress: ProgressCallback = no_progress) -> None:
    from moses_integration.cli import make_parser
    from phrasescore.cli.calling import call

    call(make_parser(), command, options, log, progress)
