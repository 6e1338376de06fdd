"""The training text of a system: prepared, checked, and without the pairs that are unfit for training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from moses_integration.building.aligned_corpus import Corpus, reject_misread
from moses_integration.building.language_model import reject_reserved
from moses_integration.building.parallel_text import CleaningRules, clean
from moses_integration.building.prepare import prepare_training_file
from moses_integration.building.system_text import SystemText, TextSettings
from moses_integration.building.text_form import TRAINING_TEXT_ADVICE
from phrasescore.errors import UserError, naming
from phrasescore.files import display_name
from phrasescore.text import Log, lines_abreast, noting_one_sided
from phrasescore.words import split_words


def prepare_corpus(
    source: Path,
    target: Path,
    corpus: Corpus,
    folder: Path,
    text: TextSettings,
    rules: CleaningRules | None,
    log: Log,
    processes: int | None = None,
) -> dict[str, Any]:
    """Prepare both sides of the training text, then drop the pairs that are unfit for training.

    Args:
        source: raw or prepared text.
        target: its translation, line by line.
        corpus: the output.
        folder: for the truecasers.
        text: how to prepare the text.
        rules: None keeps all lines, because an existing alignment fits these only.
        log: receives warnings about the text, and the number of dropped pairs.
        processes: None for all cores.

    Returns:
        The numbers of pairs that were kept and dropped.

    Raises:
        UserError: the texts differ in length, a word cannot occur in a table, or preparation splits a word although
            `rules` is None.
    """
    _require_parallel(source, target, log)
    whole = []
    for side, raw, prepared in (("source", source, corpus.source), ("target", target, corpus.target)):
        whole.append(prepared if rules is None else prepared.with_name(f"{prepared.name}.whole"))
        preparation = text.of(side)
        model = folder / f"truecase.{preparation.language}"
        prepare_training_file(raw, whole[-1], preparation, model, log, processes)
    _reject_unusable_words(whole, (source, target), rules)
    if rules is None:
        _require_same_words(source, corpus.source)
        _require_same_words(target, corpus.target)
        return {"kept": "all, for the alignment is given"}
    return _clean(whole, (source, target), corpus, rules, log)


def _require_parallel(source: Path, target: Path, log: Log) -> None:
    """Check that raw texts have equally many lines, because later messages would name files that the user never saw.

    Lines that are empty on one side only are a warning.
    """
    for _ in noting_one_sided(lines_abreast(source, target), (display_name(source), display_name(target)), log):
        pass


def _reject_unusable_words(whole: Sequence[Path], raw: tuple[Path, Path], rules: CleaningRules | None) -> None:
    """Find words that no table or language model can have before the long steps; messages name the raw texts."""
    for number, pair in enumerate(lines_abreast(*whole), 1):
        try:
            reject_reserved(pair[1], raw[1], number)
            for line, path in zip(pair, raw, strict=True):
                reject_misread(line, path, number, is_target=path == raw[1])
        except UserError:
            if rules is None or rules.broken_by(*pair) is None:
                raise


def _require_same_words(raw: Path, prepared: Path) -> None:
    """Check that preparation split no word, because an existing alignment counts the words of the raw text."""
    for number, lines in enumerate(lines_abreast(raw, prepared), 1):
        before, after = (len(split_words(line)) for line in lines)
        if before != after:
            raise UserError(
                f"{raw}: line {number}: has {before} words but {after} when prepared, so the alignment does not fit; "
                "give the tokenised text that was aligned, its words separated by spaces (no-break spaces count, too), "
                "and --tokenised"
            )


def prepare_validation(
    raw: tuple[Path, Path],
    corpus: Corpus,
    system_text: SystemText,
    rules: CleaningRules,
    log: Log,
    processes: int | None = None,
) -> dict[str, Any]:
    """Prepare both sides of held-out sentences like the training text, then drop the pairs that are unfit for training.

    Raises:
        UserError: see `prepare_corpus`.
    """
    _require_parallel(*raw, log)
    whole = [path.with_name(f"{path.name}.whole") for path in (corpus.source, corpus.target)]
    for side, path, prepared in zip(("source", "target"), raw, whole, strict=True):
        system_text.prepare(side, path, prepared, log, TRAINING_TEXT_ADVICE, processes)
    _reject_unusable_words(whole, raw, rules)
    return _clean(whole, raw, corpus, rules, log)


def _clean(
    whole: Sequence[Path], raw: tuple[Path, Path], corpus: Corpus, rules: CleaningRules, log: Log
) -> dict[str, Any]:
    """Write the pairs that are fit for training, and delete the prepared texts; messages name the raw texts."""
    with naming(dict(zip(whole, raw, strict=True))):
        report = clean(whole[0], whole[1], corpus.source, corpus.target, rules)
    if report.dropped:
        log(f"{display_name(raw[0])} and {display_name(raw[1])}: {report}")
    for path in whole:
        path.unlink()
    return asdict(report)
