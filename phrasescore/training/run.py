"""Create a trainer from a table or parallel text: vocabularies, pairs, network, earlier state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from phrasescore.aligned_phrases import AlignedPhrases, extract_phrases
from phrasescore.device import Device
from phrasescore.errors import UsageError, UserError
from phrasescore.files import can_be_read_only_once, display_name
from phrasescore.model_files import ENCODER_DECODER, TRAINING_STATE
from phrasescore.model_folder import save_description
from phrasescore.nn.encoder_decoder import EncoderDecoder
from phrasescore.nn.weights import check_size, start_at_frequencies
from phrasescore.pairs import PairData, PhrasePairs, read_table
from phrasescore.parallel_text import ParallelText, SentenceConfig, first_sentences, read_sentences
from phrasescore.phrases import hash_pairs, hash_phrases
from phrasescore.training.batches import hold_out_sentences, split_held_out
from phrasescore.training.bleu import BleuSample, load_corpus_bleu
from phrasescore.training.in_context import ContextTask
from phrasescore.training.loop import Trainer
from phrasescore.training.phrase_pairs import PhrasePairTask
from phrasescore.training.run_folder import places, run_folder
from phrasescore.training.sentences import SentenceTask
from phrasescore.training.settings import Settings
from phrasescore.training.start import QUIET_START, Description, Start
from phrasescore.training.training_config import TrainingConfig
from phrasescore.vocabulary import END

AnyPairTask = TypeVar("AnyPairTask", PhrasePairTask, SentenceTask, ContextTask)


def prepare(
    table: str | Path,
    folder: Path,
    settings: Settings,
    device: Device,
    validation: Path | None = None,
    start: Start = QUIET_START,
) -> tuple[Trainer[PhrasePairTask], PairData]:
    """Read a phrase table and create a trainer, which resumes an interrupted run in the folder.

    Args:
        table: the phrase table.
        folder: the model folder; created if it does not exist.
        settings: settings of the network, the data and training.
        device: device and precision.
        validation: a phrase table extracted from other sentences.
        start: whether to start over, and the callbacks.

    Raises:
        UsageError: there is a validation table, but `held_out_limit` is 0.
        UserError: the table is malformed, or the folder holds other files or a run with other settings.
    """
    settings.check()
    if validation is not None and not settings.data.held_out_limit:
        raise UsageError(
            "`held_out_limit` also limits the pairs of the validation data, and 0 leaves none to measure; give more, "
            "or set `held_out` to 0 to hold out no others"
        )
    state = folder / TRAINING_STATE

    def read() -> tuple[PairData, PairData | None]:
        data = read_table(table, state, settings.data, progress=start.progress, log=start.log)
        if validation is None:
            return data, None
        vocabularies = data.source_vocabulary, data.target_vocabulary
        # The validation loss is unweighted, so the table needs no counts.
        unweighted = replace(settings.data, weight_by_count=False)
        return data, read_table(validation, state, unweighted, vocabularies, start.progress)

    with run_folder(folder, start.restart, ENCODER_DECODER, start.ranks) as home:
        data, others = start.ranks.once_a_machine(read, state)
        settings = settings.fitted(len(data.distinct))
        lines, held_out = split_held_out(data.distinct, settings.data, settings.training.seed)
        if not len(lines):
            raise UserError(f"{display_name(table)}: leaves no pairs to train on; hold out less or give a larger table")
        network = _new_network(settings, data, device)
        other = None if others is None else _some_pairs(others, settings)
        task = PhrasePairTask(network, settings.training, device, data.pairs, lines, data.pairs.take(held_out), other)
        files = {"table": table, "validation": validation}
        return start.trainer(home, task, _description(settings, data, others, "table", files)), data


def prepare_sentences(
    text: ParallelText,
    folder: Path,
    settings: Settings,
    device: Device,
    validation: ParallelText | None = None,
    start: Start = QUIET_START,
) -> tuple[Trainer[SentenceTask], PairData]:
    """Read parallel text and create a trainer, which resumes an interrupted run in the folder.

    Args:
        text: the training text. Without validation text, some of its sentences are held out.
        folder: the model folder; created if it does not exist.
        settings: settings of the network, the data and training.
        device: device and precision.
        validation: validation text for perplexity and BLEU, in UTF-8.
        start: whether to start over, and the callbacks.

    Raises:
        UsageError: settings are incompatible.
        UserError: the text is malformed, or the folder holds other files or a run with other settings.
    """
    config = settings.sentences or SentenceConfig()
    if config.bleu_sentences:
        if validation is None:
            raise UsageError("`bleu_sentences` are sentences of the validation data; give validation data")
        paths = validation.source, validation.target
        if any(map(can_be_read_only_once, paths)):
            raise UsageError("`bleu_sentences` reads the sentences to validate with twice; give files")
        load_corpus_bleu()

    def make(network: EncoderDecoder, training: TrainingConfig, read: _Text) -> SentenceTask:
        sample = None
        if validation is not None and config.bleu_sentences:
            sources, references = first_sentences(validation, config.bleu_sentences, settings.data)
            sample = BleuSample(read.data.source_vocabulary.encode(sources), references, read.data.target_vocabulary)
        other = None if read.others is None else read.others.pairs
        kept = read.data.pairs.take(read.held_out)
        return SentenceTask(
            network, training, device, read.data.pairs, read.lines, kept, other, sample, config.measured_loss
        )

    return _prepare_text(text, folder, settings, device, validation, start, make)


def prepare_in_context(
    text: ParallelText,
    folder: Path,
    settings: Settings,
    device: Device,
    validation: ParallelText | None = None,
    start: Start = QUIET_START,
) -> tuple[Trainer[ContextTask], PairData]:
    """Read word-aligned text and create a trainer on its phrase pairs in context; see `prepare_sentences`.

    Raises:
        UsageError: settings are incompatible.
        UserError: the text is malformed or has no phrase pairs, or the folder holds other files or a run with other
            settings.
    """

    def make(network: EncoderDecoder, training: TrainingConfig, read: _Text) -> ContextTask:
        assert read.data.pairs.alignment is not None
        if not len(read.data.pairs.alignment.ids):
            raise UserError(f"{text.alignment}: has no alignment point, so no phrase pair occurs; align the text")
        # The held-out sentences of a small text may have no phrase pairs.
        kept = _some_occurrences(read.data.pairs.take(read.held_out), settings)
        other = None
        if validation is not None and read.others is not None:
            other = _some_occurrences(read.others.pairs, settings)
            if len(read.others.pairs) and not len(other):
                raise UserError(
                    f"{validation.alignment}: leaves no phrase pairs to measure; check that it has points, and of this "
                    "text"
                )
        return ContextTask(network, training, device, read.data.pairs, read.lines, kept, other)

    if not settings.data.held_out_limit:
        raise UsageError("`held_out_limit` is the most phrase pairs that are measured, and 0 leaves none; give more")
    return _prepare_text(text, folder, settings, device, validation, start, make)


@dataclass(frozen=True)
class _Text:
    """Parallel text in memory."""

    data: PairData
    others: PairData | None
    """Validation text."""
    lines: NDArray[np.int64]
    """Training lines."""
    held_out: NDArray[np.int64]
    """Held-out lines; empty with validation text."""


def _prepare_text(
    text: ParallelText,
    folder: Path,
    settings: Settings,
    device: Device,
    validation: ParallelText | None,
    start: Start,
    make: Callable[[EncoderDecoder, TrainingConfig, _Text], AnyPairTask],
) -> tuple[Trainer[AnyPairTask], PairData]:
    """Read parallel text and create a trainer for the task that `make` returns; see `prepare_sentences`."""
    settings.check()
    if settings.data.weight_by_count:
        raise UsageError("`weight_by_count` is for phrase tables, sentences have no counts; leave it out")
    config, state = settings.sentences or SentenceConfig(), folder / TRAINING_STATE

    def read() -> tuple[PairData, PairData | None]:
        data = read_sentences(text, state, settings.data, config, progress=start.progress, log=start.log)
        if validation is None:
            return data, None
        vocabularies = data.source_vocabulary, data.target_vocabulary
        return data, read_sentences(validation, state, settings.data, config, vocabularies, start.progress, start.log)

    with run_folder(folder, start.restart, ENCODER_DECODER, start.ranks) as home:
        data, others = start.ranks.once_a_machine(read, state)
        settings = settings.fitted(len(data.distinct))
        lines, held_out = data.distinct, data.distinct[:0]
        if validation is None:
            # Compare word ids: lines that differ only in unknown words are duplicates for the network.
            hashes = hash_pairs(hash_phrases(data.pairs.source), hash_phrases(data.pairs.target))
            number = settings.data.held_out_of(len(lines))
            lines, held_out = hold_out_sentences(hashes, number, settings.training.seed)
        if not len(lines):
            raise UserError(f"{text}: leave no sentences to train on; hold out less or give more")
        network = _new_network(settings, data, device)
        task = make(network, settings.training, _Text(data, others, lines, held_out))
        files = _files_of(text, "") | ({} if validation is None else _files_of(validation, "validation_"))
        return start.trainer(home, task, _description(settings, data, others, "sentences", files)), data


def _files_of(text: ParallelText, prefix: str) -> dict[str, Path | None]:
    """Return the paths of the files of a text by role."""
    files = {"source": text.source, "target": text.target, "alignment": text.alignment}
    return {f"{prefix}{name}": path for name, path in files.items() if path is not None}


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
    network.multiply_in(device.product_dtype)
    return network.to(device.torch_device)


def _description(
    settings: Settings, data: PairData, others: PairData | None, name: str, files: Mapping[str, str | Path | None]
) -> Description:
    """Return the description of a run for its folder; `name` is the name of the training data."""
    vocabularies = data.source_vocabulary, data.target_vocabulary
    digests = {name: data.digest, "validation": None if others is None else others.digest}
    fixed = {**settings.fixed(), **digests, "vocabularies": [words.digest() for words in vocabularies]}
    sections: dict[str, Any] = {"data": asdict(settings.data)}
    if settings.sentences is not None:
        sections["sentences"] = asdict(settings.sentences)

    def save(place: Path, training: dict[str, Any]) -> None:
        direction = settings.data.direction
        factors = settings.data.factors if settings.sentences is None else None
        facts = {**sections, "training": training}
        save_description(place, settings.model, direction, *vocabularies, facts, factors)

    return Description(fixed, {**places(files), "digests": digests, **data.summary}, save)


def _some_pairs(table: PairData, settings: Settings) -> PhrasePairs:
    """Return a random sample of at most `held_out_limit` distinct pairs."""
    shuffled = np.random.default_rng([settings.training.seed, 2]).permutation(table.distinct)
    return table.pairs.take(np.sort(shuffled[: settings.data.held_out_limit]))


def _some_occurrences(sentences: PhrasePairs, settings: Settings) -> AlignedPhrases:
    """Return a random sample of at most `held_out_limit` phrase pairs in context, in the order of the sentences."""
    found = extract_phrases(sentences)
    shuffled = np.random.default_rng([settings.training.seed, 2]).permutation(len(found))
    return found.take(np.sort(shuffled[: settings.data.held_out_limit]))
