"""The functions of the public Python interface, which correspond to the commands.

An argument of the wrong type or an option that does not exist is a `TypeError`; an invalid value, text or file, or a
model that cannot be used, is a `UserError`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from phrasescore.configuration import Section, check_values, option, options_of, require_known
from phrasescore.errors import UserError
from phrasescore.files import require_writable
from phrasescore.files.documents import read_json, read_json_lines
from phrasescore.model_files import CONFIG, METRICS, files_of_models
from phrasescore.parallel_text import ParallelText
from phrasescore.scoring.annotate import Counts
from phrasescore.scoring.annotate import annotate as annotate_table
from phrasescore.scoring.annotate_config import AnnotateConfig
from phrasescore.scoring.columns import Column
from phrasescore.scoring.encoder_decoder import EncoderDecoderScorer
from phrasescore.scoring.occurrences import (
    GivenPairs,
    GivenPhrases,
    Occurrences,
    clean_pairs,
    clean_phrases,
    clean_text,
    clean_texts,
    in_sentences,
)
from phrasescore.scoring.scorer import PhraseScorer, Scores, load_scorer, require_in_context
from phrasescore.scoring.shards import join_shards, without_descriptions
from phrasescore.search_config import SearchConfig
from phrasescore.table.check import TableReport, check_table
from phrasescore.text import Log, ProgressCallback, chunks, no_log, no_progress
from phrasescore.translator import Translation, Translator
from phrasescore.vocabulary import WordCounts

if TYPE_CHECKING:
    from phrasescore.inspection import Inspection

Floats = NDArray[np.float64]
ScoringCallback = Callable[[int, WordCounts], None]
"""Called with the number of pairs scored so far and the counts of their words."""
_OCCURRENCES_AT_ONCE = 65_536


@dataclass(frozen=True)
class _Numbers(Section):
    top: int = option(5, "", minimum=1)
    num_features: int | None = option(None, "", minimum=1)
    limit: int | None = option(None, "", minimum=1)


def train(
    data: str | Path | ParallelText,
    folder: str | Path,
    *,
    validation: str | Path | ParallelText | None = None,
    log: Log = no_log,
    progress: ProgressCallback = no_progress,
    **options: Any,
) -> PhraseScorer:
    """Train an encoder-decoder, as `phrasescore train` does, and return it, ready to score.

    An interrupted run in the folder is resumed; a finished run is not repeated. `read_report(folder)` returns the
    losses.

    Args:
        data: a phrase table; `ParallelText(source, target)` for a network of whole sentences; or
            `ParallelText(source, target, alignment)` for a network of phrases in context (+CTX).
        folder: the model folder; it is created if it does not exist.
        validation: data of the same kind, whose loss selects the weights to keep.
        log: receives each line that the command would print.
        progress: receives the completed fraction (None if unknown) and a status text.
        options: options of the command, such as `preset="cho2014"`, `max_minutes=30`, and settings of
            `phrasescore train --help-all`, such as `attention="concat"`.
    """
    if validation is not None and isinstance(data, ParallelText) != isinstance(validation, ParallelText):
        raise TypeError("validation: is of another kind than the training data")
    given = {**_data_options(data, "table", ""), **_data_options(validation, "validation", "validation_")}
    _call("train", {**given, "output": folder, **options}, log, progress)
    return load_scorer(
        folder, **{name: options[name] for name in ("device", "precision") if options.get(name) is not None}
    )


def lm_train(
    text: str | Path | ParallelText,
    folder: str | Path,
    *,
    validation: str | Path | ParallelText | None = None,
    log: Log = no_log,
    progress: ProgressCallback = no_progress,
    **options: Any,
) -> None:
    """Train a neural language model or a joint model, as `phrasescore lm train` does.

    An interrupted run in the folder is resumed; a finished run is not repeated.

    Args:
        text: a tokenised text, one sentence a line; for a joint model `ParallelText(source, target, alignment)`.
        folder: the model folder; it is created if it does not exist.
        validation: a text to measure the perplexity on; by default some sentences are held out.
        log: receives each line that the command would print.
        progress: receives the completed fraction (None if unknown) and a status text.
        options: options of the command, such as `order=5`, `epochs=10`, and settings of `phrasescore lm train
            --help-all`.
    """
    data = {**_data_options(text, "text", ""), **_data_options(validation, "validation", "validation_")}
    for name, prefix in (("text", ""), ("validation", "validation_")):
        # The target is the text itself.
        if f"{prefix}target" in data:
            data[name] = data.pop(f"{prefix}target")
    _call("lm train", {**data, "output": folder, **options}, log, progress)


def _data_options(data: str | Path | ParallelText | None, name: str, prefix: str) -> dict[str, str | Path | None]:
    if isinstance(data, ParallelText):
        return {f"{prefix}{side}": path for side, path in vars(data).items()}
    return {name: data}


def _call(command: str, options: Mapping[str, Any], log: Log, progress: ProgressCallback) -> None:
    from phrasescore.calling import call
    from phrasescore.cli import make_parser

    call(make_parser(), command, options, log, progress)


def annotate(
    table: str | Path,
    model: PhraseScorer | str | Path,
    output: str | Path | None,
    *,
    progress: Callable[[Counts, float | None], None] = lambda counts, share: None,
    log: Log = no_log,
    **options: Any,
) -> Counts:
    """Append columns to every line of a phrase table, as `phrasescore annotate` does.

    The output is identical for any number of workers. If an earlier run was interrupted, the same call resumes it;
    table and output must both be regular files.

    Worker processes import the script that calls this, so it needs `if __name__ == "__main__":`.

    Args:
        table: the input file, `-` for standard input.
        model: a scorer, or a model folder.
        output: the output file, compressed according to its suffix, `-` for standard output; None scores without
            writing.
        progress: called after each chunk with the counts so far and the fraction of the table that has been read.
        log: called with each warning about the model or the texts, and when an interrupted run is resumed.
        options: the fields of `AnnotateConfig`, such as `columns=["score", "unknown-target"]`, `processes=4`.

    Raises:
        TypeError: an option does not exist.
        UserError: a value is invalid, the table is empty, malformed or unreadable, the model is damaged or lacks a
            column, or the output cannot be written or is the table. Then no output is written, and an old file stays
            unchanged.
    """
    require_known("annotate", options, options_of(AnnotateConfig))
    config = AnnotateConfig(**check_values(AnnotateConfig, options, "annotate()"))
    config.check(table)
    if output is not None:
        models = [model] if isinstance(model, str | Path) else []
        require_writable(output, inputs=(table, *config.only_sources_in, *files_of_models(models)))
    scorer = _loaded(model)
    if scorer.note is not None:
        log(scorer.note)
    return annotate_table(table, scorer, output, config, progress=progress, log=log)


def prune(
    table: str | Path,
    output: str | Path,
    *,
    log: Log = no_log,
    progress: ProgressCallback = no_progress,
    **options: Any,
) -> None:
    """Drop the less useful lines of a phrase table, as `phrasescore prune` does.

    Args:
        table: the input file.
        output: the output file, compressed according to its suffix.
        log: receives each line that the command would print.
        progress: receives the completed fraction and a status text.
        options: options of the command, such as `keep=0.2`, `by="entropy"`, `reordering=(table, output)`.
    """
    _call("prune", {"table": table, "output": output, **options}, log, progress)


def score(
    pairs: GivenPairs,
    model: PhraseScorer | str | Path,
    *,
    column: str | None = None,
    progress: ScoringCallback = lambda scored, words: None,
) -> Floats:
    """Score phrase pairs, [N]; an encoder-decoder returns ln p(target | source), end symbol included.

    Log-probabilities are natural logarithms. Spaces separate words, as in the table that the model was trained on. A
    network trained for source-given-target returns ln p(source | target). A network in context uses the phrase as the
    sentence.

    Args:
        pairs: source and target phrases, `str` or `bytes`; or a DataFrame with the columns `source` and `target`.
        model: a scorer, or a model folder.
        column: the column to return, one of `model.columns`, such as `per-word` (ln p divided by the number of
            predicted words plus one) or `unknown-target`; None for the first.
        progress: called periodically with the number of pairs scored and the counts of their words.
    """
    scorer = _loaded(model)
    columns = [_column_of(scorer, column)]

    def scores() -> Iterator[Scores]:
        for some in chunks(clean_pairs(pairs, scorer.factors), _OCCURRENCES_AT_ONCE):
            sources, targets = zip(*some, strict=True)
            yield scorer.score(Occurrences(sources, targets), columns)

    return _values_of(scores(), progress)


def score_in_context(
    phrases: GivenPhrases,
    model: PhraseScorer | str | Path,
    *,
    column: str | None = None,
    progress: ScoringCallback = lambda scored, words: None,
) -> Floats:
    """Score phrases in context, [N]: ln p(target | source phrase, its sentence), end symbol included.

    Log-probabilities are natural logarithms. Consecutive phrases of one sentence share the computation for the
    sentence.

    Args:
        phrases: sentence, position (index of the first word, from 0, and of the word after the last one) and
            translation of each, as `("the black dogs sleep .", (0, 3), "les chiens noirs")`; or a DataFrame with the
            columns `sentence`, `start`, `end` and `target`.
        model: a scorer in context, or its model folder.
        column: the column to return, as for `score`.
        progress: as for `score`.
    """
    scorer = _loaded(model)
    require_in_context(scorer)
    columns = [_column_of(scorer, column)]
    some = chunks(clean_phrases(phrases), _OCCURRENCES_AT_ONCE)
    return _values_of((scorer.score(in_sentences(phrases), columns) for phrases in some), progress)


def word_scores(pairs: GivenPairs, model: PhraseScorer | str | Path) -> list[Floats]:
    """Return the scores of each phrase pair word by word: ln p of each target word and of the end symbol.

    Each score is conditioned on the source and the previous words; their sum is the result of `score`. A network
    trained for source-given-target scores the words of the source.
    """
    from phrasescore.inspection import word_log_probs

    scorer = _encoder_decoder(model, "scores words")
    found: list[Floats] = []
    for some in chunks(clean_pairs(pairs, scorer.factors), _OCCURRENCES_AT_ONCE):
        sources, targets = zip(*some, strict=True)
        found += word_log_probs(scorer, Occurrences(sources, targets))
    return found


def _column_of(scorer: PhraseScorer, name: str | None) -> Column:
    return scorer.columns[0] if name is None else scorer.column(name)


def _values_of(found: Iterable[Scores], progress: ScoringCallback) -> Floats:
    values, words, scored = [np.zeros(0)], WordCounts(), 0
    for scores in found:
        values.append(scores.first_N)
        words, scored = words + scores.words, scored + len(scores.first_N)
        progress(scored, words)
    return np.concatenate(values)


def _loaded(model: PhraseScorer | str | Path) -> PhraseScorer:
    if isinstance(model, list | tuple):
        raise TypeError("model: is a list; give `load_scorer(*folders)` for the mean of several networks")
    return load_scorer(model) if isinstance(model, str | Path) else model


def _encoder_decoder(model: PhraseScorer | str | Path, purpose: str) -> EncoderDecoderScorer:
    scorer = _loaded(model)
    if not isinstance(scorer, EncoderDecoderScorer):
        raise UserError(f"{scorer.name}: is not an encoder-decoder, and no other model {purpose}")
    return scorer


def translate(
    sentences: Iterable[str | bytes], model: PhraseScorer | str | Path, **options: Any
) -> list[list[Translation]]:
    """Return the translations of each sentence, best first, as `phrasescore translate` does.

    Args:
        sentences: tokenised in the same way as the training data.
        model: a network, or a model folder.
        options: options of the search, named as those of the command with underscores, such as `beam=5`, `n_best=3`.
    """
    require_known("translate", options, options_of(SearchConfig))
    encoded = list(clean_texts(sentences, "sentence"))
    config = SearchConfig.checked(check_values(SearchConfig, options, "translate()"))
    return Translator(_encoder_decoder(model, "translates"), config).translate(encoded)


def inspect(
    phrase: str | bytes, model: PhraseScorer | str | Path, *, table: str | Path | None = None, top: int = 5
) -> Inspection:
    """Return what a network has learnt about a source phrase, as `phrasescore inspect` shows it.

    Args:
        phrase: tokenised in the same way as the training data.
        model: a network, or a model folder.
        table: a phrase table, for the nearest phrases and the targets to score; without it, beam search finds targets.
        top: the number of nearest phrases, of targets and of samples.
    """
    from phrasescore.inspection import inspect_phrase

    check_values(_Numbers, {"top": top}, "inspect()")
    text = clean_text(phrase, "phrase")
    if not text:
        raise UserError("the phrase is empty; give at least one word")
    return inspect_phrase(_encoder_decoder(model, "learns phrases"), text, table, top)


def check(table: str | Path, *, num_features: int | None = None, limit: int | None = None) -> TableReport:
    """Check a phrase table, as `phrasescore check` does: report its content and what Moses rejects.

    Args:
        table: the input file.
        num_features: the number of score columns, as in `num-features` of moses.ini.
        limit: the number of lines to read.
    """
    check_values(_Numbers, {"num_features": num_features, "limit": limit}, "check()")
    # fspath rejects an integer, which would be taken for a file descriptor.
    return check_table(os.fspath(table), columns=num_features, limit=limit)


def join(shards: Sequence[str | Path], output: str | Path) -> int:
    """Join the shards of a table that `annotate` wrote with `shard`; return the number of lines.

    Args:
        shards: all shards, in any order; SHARD.shard.json must be beside each.
        output: the table to write, with the same suffix as the shards.
    """
    if isinstance(shards, str | Path):
        raise TypeError(f"shards: is one file; give a list, as [{str(shards)!r}]")
    if not (paths := without_descriptions([Path(shard) for shard in shards])):
        raise UserError("shards: is empty; give the files that `annotate` wrote with `shard`")
    return join_shards(paths, output)


def read_report(path: str | Path) -> dict[str, Any]:
    """Read a JSON report of a command (`--report`), or the description and evaluations of a model folder.

    For a model folder the result is the content of `config.json`, with the lines of `metrics.jsonl` as `evaluations`.
    """
    path = Path(path)
    if not path.is_dir():
        return read_json(path, "give a report that a command wrote")
    advice, metrics = "give a folder that `train` wrote", path / METRICS
    evaluations = read_json_lines(metrics, advice) if metrics.exists() else []
    return {**read_json(path / CONFIG, advice), "evaluations": evaluations}
