"""Prepare the training of an encoder-decoder: read the data, make network and task, resume an earlier run."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from phrasescore.aligned_phrases import AlignedPhrases, extract_phrases
from phrasescore.configuration import reject_without_effect
from phrasescore.device import Device
from phrasescore.errors import UsageError, UserError, arg_name
from phrasescore.files import display_name
from phrasescore.model_files import ENCODER_DECODER, TRAINING_STATE
from phrasescore.model_folder import save_description
from phrasescore.nn.encoder_decoder import EncoderDecoder
from phrasescore.nn.weights import check_size, start_at_frequencies
from phrasescore.pairs import PairData, PhrasePairs, read_table
from phrasescore.parallel_text import ParallelText, SentenceConfig, read_sentences
from phrasescore.phrases import hash_pairs, hash_phrases
from phrasescore.text import Log
from phrasescore.training.batches import hold_out_sentences, split_held_out
from phrasescore.training.checkpoint import absolute_paths, run_folder
from phrasescore.training.loop import Start, Trainer
from phrasescore.training.settings import Settings
from phrasescore.training.tasks import ContextTask, PhrasePairTask, SentenceTask, Task
from phrasescore.vocabulary import END

Data = str | Path | ParallelText
"""A phrase table, or parallel text; with its word alignment for training in context."""


def prepare(
    data: Data,
    folder: Path,
    settings: Settings,
    device: Device,
    validation: Data | None = None,
    start: Start = Start(),  # noqa: B008
) -> Trainer[Any]:
    """Read the data and create a trainer, which resumes an interrupted run; validation data are of the same kind."""
    settings.check()
    _check(data, settings, validation)
    with run_folder(folder, start.restart, ENCODER_DECODER, start.ranks) as home:
        read = _read(data, validation, folder / TRAINING_STATE, settings, start)
        by_size, settings = settings.by_size, settings.fitted(len(read.data.distinct))
        if not len(read.lines):
            raise UserError(f"{display_name(data)}: nothing is left to train on; hold out less or give more data")
        network = _new_network(settings, read.data, device)
        task = _make_task(network, settings, device, read, data, validation)
        trainer = Trainer(home, task, _fingerprint(settings, read, data), start.ranks)

        def describe(training: dict[str, Any]) -> None:
            files = _files_of(data, "") | ({} if validation is None else _files_of(validation, "validation"))
            facts = {**absolute_paths(files), "digests": _digests(read, data), **read.data.summary, **training}
            sections: dict[str, Any] = {"data": asdict(settings.data), "training": facts}
            if settings.sentences is not None:
                sections["sentences"] = asdict(settings.sentences)
            factors = settings.data.factors if settings.sentences is None else None
            vocabularies = _vocabularies(read.data)
            save_description(folder, settings.model, settings.data.direction, *vocabularies, sections, factors)

        trainer.begin(describe, restart=start.restart)
        _log_data(read.data, has_held_out=len(task.held_out) > 0, log=start.log)
        _log_sizes(settings, by_size, start.log)
        return trainer


def _check(data: Data, settings: Settings, validation: Data | None) -> None:
    """Check settings that depend on the data, before they are read."""
    samples_validation = settings.model.in_context or (validation is not None and not isinstance(data, ParallelText))
    if samples_validation and not settings.data.held_out_limit:
        raise UsageError("`held_out_limit` also limits the validation pairs, so it must not be 0; give a larger value")
    if isinstance(data, ParallelText) and validation is not None:
        names = ["held_out"] if settings.model.in_context else ["held_out", "held_out_limit"]
        reject_without_effect(settings.given, dict.fromkeys(names, "with validation text"))


@dataclass(frozen=True)
class _Read:
    """The data in memory."""

    data: PairData
    validation: PairData | None
    lines: NDArray[np.int64]
    held_out: NDArray[np.int64]
    """Held-out lines; empty for parallel text with validation text."""


def _read(data: Data, validation: Data | None, state: Path, settings: Settings, start: Start) -> _Read:
    config, seed, callbacks = settings.data, settings.training.seed, (start.progress, start.log)
    if not isinstance(data, ParallelText):
        table, other = read_table(data, state, config, None, *callbacks), None
        if validation is not None:
            assert not isinstance(validation, ParallelText)
            other = read_table(validation, state, config, _vocabularies(table), start.progress)
        return _Read(table, other, *split_held_out(table.distinct, config, seed))
    sentences = settings.sentences or SentenceConfig()
    text = read_sentences(data, state, config, sentences, None, *callbacks)
    if validation is not None:
        assert isinstance(validation, ParallelText)
        other = read_sentences(validation, state, config, sentences, _vocabularies(text), *callbacks)
        return _Read(text, other, text.distinct, text.distinct[:0])
    # Compare word ids: lines that differ only in unknown words are duplicates for the network.
    hashes = hash_pairs(hash_phrases(text.pairs.source), hash_phrases(text.pairs.target))
    return _Read(text, None, *hold_out_sentences(hashes, config.held_out_of(len(hashes)), seed))


def _vocabularies(data: PairData) -> tuple[Any, Any]:
    return data.source_vocabulary, data.target_vocabulary


def _make_task(
    network: EncoderDecoder, settings: Settings, device: Device, read: _Read, data: Data, validation: Data | None
) -> Task:
    pairs, lines, held_out = read.data.pairs, read.lines, read.data.pairs.take(read.held_out)
    others = None if read.validation is None else read.validation.pairs
    if not isinstance(data, ParallelText):
        some = None
        if read.validation is not None:
            some = read.validation.pairs.take(_sample(read.validation.distinct, settings))
        return PhrasePairTask(network, settings.training, device, held_out, some, pairs, lines)
    if settings.model.in_context:
        return _make_context_task(network, settings, device, read, data, validation)
    measured = (settings.sentences or SentenceConfig()).measured_loss
    return SentenceTask(network, settings.training, device, held_out, others, pairs, lines, measured)


def _make_context_task(
    network: EncoderDecoder,
    settings: Settings,
    device: Device,
    read: _Read,
    text: ParallelText,
    validation: Data | None,
) -> ContextTask:
    pairs, some = read.data.pairs, None
    assert pairs.alignment is not None
    if not len(pairs.alignment.ids):
        raise UserError(f"{text.alignment}: has no alignment point, so no phrase pair occurs; align the text")
    # Held-out sentences of a small text may have no phrase pairs, but a validation text should have some.
    held_out = _some_phrases(pairs.take(read.held_out), settings)
    if isinstance(validation, ParallelText) and read.validation is not None:
        some = _some_phrases(read.validation.pairs, settings)
        if len(read.validation.pairs) and not len(some):
            raise UserError(
                f"{validation.alignment}: gives no phrase pairs for the validation loss; check that it is the "
                "alignment of the validation text"
            )
    return ContextTask(network, settings.training, device, held_out, some, pairs, read.lines)


def _some_phrases(sentences: PhrasePairs, settings: Settings) -> AlignedPhrases:
    found = extract_phrases(sentences)
    return found.take(_sample(np.arange(len(found)), settings))


def _sample(lines: NDArray[np.int64], settings: Settings) -> NDArray[np.int64]:
    """Return a random sample of at most `held_out_limit` lines."""
    shuffled = np.random.default_rng([settings.training.seed, 2]).permutation(lines)
    return np.sort(shuffled[: settings.data.held_out_limit])


def _new_network(settings: Settings, data: PairData, device: Device) -> EncoderDecoder:
    def build() -> EncoderDecoder:
        return EncoderDecoder(settings.model, len(data.source_vocabulary), len(data.target_vocabulary))

    check_size(build)
    torch.manual_seed(settings.training.seed)
    network = build()
    if settings.model.initialisation == "scaled":
        counts = data.pairs.target.counts(len(data.target_vocabulary))
        counts[END] += len(data.pairs)
        start_at_frequencies(network.softmax, torch.from_numpy(counts))
    network.softmax.product_dtype = device.product_dtype
    network.softmax.sampled_words = settings.training.sampled_words
    return network.to(device.torch_device)


def _log_data(data: PairData, *, has_held_out: bool, log: Log) -> None:
    facts = data.summary
    is_table = "distinct_pairs" in facts
    pairs = f"{facts['distinct_pairs']:,} distinct pairs" if is_table else f"{facts['sentence_pairs']:,} sentence pairs"
    log(
        f"{facts['lines']:,} lines, {pairs}; vocabularies of "
        f"{len(data.source_vocabulary):,} and {len(data.target_vocabulary):,} cover "
        f"{facts['source_coverage']:.2%} and {facts['target_coverage']:.2%} of the words"
    )
    if is_table and has_held_out:
        log(
            "held-out pairs are parts of the sentences of the table, so their loss shows only how well the network "
            f"fits the table; {arg_name('validation')} measures pairs of other sentences"
        )


def _log_sizes(settings: Settings, by_size: frozenset[str], log: Log) -> None:
    """Log the most important `auto` settings, which depend on the size of the data."""
    values: dict[str, object] = {} if settings.model.in_context else {"dropout": settings.model.dropout}
    values["max_updates"] = settings.training.max_updates
    if shown := [arg_name(name, value) for name, value in values.items() if name in by_size]:
        log(f"by the size of the data: {', '.join(shown)}")


def _digests(read: _Read, data: Data) -> dict[str, str | None]:
    name = "sentences" if isinstance(data, ParallelText) else "table"
    return {name: read.data.digest, "validation": None if read.validation is None else read.validation.digest}


def _fingerprint(settings: Settings, read: _Read, data: Data) -> dict[str, Any]:
    vocabularies = [words.digest() for words in _vocabularies(read.data)]
    return {**settings.fixed(), **_digests(read, data), "vocabularies": vocabularies}


def _files_of(data: Data, prefix: str) -> dict[str, str | Path | None]:
    if not isinstance(data, ParallelText):
        return {prefix or "table": data}
    files = {"source": data.source, "target": data.target, "alignment": data.alignment}
    return {f"{prefix}_{name}".strip("_"): path for name, path in files.items() if path is not None}
