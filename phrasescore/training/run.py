"""From a table or parallel text to a trainer that is ready to go: vocabularies, pairs, network, earlier state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from phrasescore.configuration import refuse_given
from phrasescore.device import Device
from phrasescore.errors import UsageError, UserError
from phrasescore.extraction.occurrences import Occurrences, find_occurrences
from phrasescore.files import STANDARD_STREAM, display_name, is_device_or_pipe
from phrasescore.model_folder import KIND, TRAINING_STATE, save_description
from phrasescore.nn.architecture import ModelConfig
from phrasescore.nn.encoder_decoder import EncoderDecoder
from phrasescore.nn.initialisation import start_at_frequencies
from phrasescore.nn.size import check_size, without_numbers
from phrasescore.pairs import DataConfig, PairData, PhrasePairs, read_table
from phrasescore.sentences import ParallelText, SentenceConfig, first_sentences, read_sentences
from phrasescore.text import Say, silently
from phrasescore.training.batches import hold_out_sentences, split_held_out
from phrasescore.training.bleu import BleuSample, load_corpus_bleu
from phrasescore.training.by_size import settings_by_size
from phrasescore.training.in_context import ContextTask
from phrasescore.training.layers import AT_CONSTANT_RATE
from phrasescore.training.loop import Trainer
from phrasescore.training.optimisers import OPTIMISERS
from phrasescore.training.phrase_pairs import PhrasePairTask
from phrasescore.training.ranks import ALONE, Ranks
from phrasescore.training.run_folder import RunFolder, fixed_values, places, run_folder
from phrasescore.training.sentences import SentenceTask
from phrasescore.training.training_config import TrainingConfig
from phrasescore.vocabulary import END

AnyPairTask = TypeVar("AnyPairTask", PhrasePairTask, SentenceTask, ContextTask)
ReadingProgress = Callable[[int, float | None], None]

_FEW_WORDS = 3


@dataclass(frozen=True)
class Settings:
    """Everything a user can set about a run."""

    model: ModelConfig
    data: DataConfig
    training: TrainingConfig
    sentences: SentenceConfig | None = None
    """Of parallel text; None for a phrase table."""
    by_size: frozenset[str] = frozenset()
    """Options whose values are still to follow from how much there is to learn from."""
    given: frozenset[str] = frozenset()
    """Options that were given, and not by a preset."""

    def fitted(self, examples: int) -> Settings:
        """Return the settings for so many distinct pairs, or sentences."""
        found = settings_by_size(examples, self.training.batch_size, self.model.in_context)
        model, training = (
            {name: value for name, value in found[section].items() if name in self.by_size}
            for section in ("model", "training")
        )
        return replace(
            self,
            model=replace(self.model, **model),
            training=replace(self.training, **training),
            by_size=frozenset(),
        )

    def fixed(self) -> dict[str, Any]:
        """Return what must be the same when a run is resumed, as JSON values."""
        sentences = [] if self.sentences is None else [self.sentences]
        return fixed_values(self.model, self.data, self.training, *sentences)

    def check(self) -> None:
        """Check, before anything is read, that what is chosen by name exists and that the network's forms go together.

        Raises:
            UserError: something does not exist (the nearest name is suggested), two forms do not go together, or one
                would change nothing.
        """
        OPTIMISERS[self.training.optimiser]
        self.model.check_effect()
        if self.model.in_context and self.data.direction != "target-given-source":
            raise UsageError("--direction: in context the sentence that is known is the source's; leave it out")
        if self.model.in_context and self.sentences is not None:
            self.sentences.check_effect_in_context()
        self._check_given()
        # What a plugin does may need numbers, which this network does not have: only building the real one tells.
        with suppress(RuntimeError):
            without_numbers(lambda: EncoderDecoder(self.model, _FEW_WORDS, _FEW_WORDS))

    def _check_given(self) -> None:
        """Refuse options that were given and would change nothing.

        Raises:
            UsageError: one was.
        """
        model, idle = self.model, partial(refuse_given, self.given)
        if not model.in_context:
            idle(["pairs_a_sentence"], "without --alignment, by which phrase pairs are found in sentences")
            if self.sentences is not None:
                idle(["long_pairs"], "with parallel text, of which a pass takes all")
        if self.training.schedule == "constant":
            idle(["final_rate"], AT_CONSTANT_RATE)
        if model.readout != "maxout":
            idle(["maxout"], f"with the readout `{model.readout}`, which has no maxout")
        if not model.feed_word:
            idle(["teacher_forcing"], "where no words are fed to the decoder")
        if model.looks_before and not model.feed_context and "feed_context" in self.given:
            # To say that it is fed says what is so.
            raise UsageError(
                "--no-feed-context: changes nothing where attention looks before the step, which gets what it found; "
                "leave it out"
            )
        # --no-summary says what is so, and settings of systems that extend one another may say it.
        if model.summary and not model.uses_summary:
            idle(["summary"], "where neither the steps nor the first state of the decoder see the summary")


def prepare(
    table: str | Path,
    folder: Path,
    settings: Settings,
    device: Device,
    validation: Path | None = None,
    restart: bool = False,
    progress: ReadingProgress = lambda lines, share: None,
    say: Say = silently,
    ranks: Ranks = ALONE,
) -> tuple[Trainer[PhrasePairTask], PairData]:
    """Read a phrase table and set up a trainer, at its start or where an earlier run in the folder stopped.

    Args:
        table: the phrase table.
        folder: the model folder; it is made if it does not exist.
        settings: architecture, data, training.
        device: where and how precisely to compute.
        validation: a table of pairs from other sentences.
        restart: start over even if the folder holds a run.
        progress: called with the lines and the share of the table read so far.
        say: told of lines of the texts for vocabularies that are not UTF-8.
        ranks: the processes that train together.

    Raises:
        UsageError: there is a table to validate with, of which no pairs may be taken.
        UserError: the table is faulty, or the folder holds something else or a run with other settings.
    """
    _require_alone(settings)
    settings.check()
    if validation is not None and not settings.data.held_out_limit:
        raise UsageError(
            "--held-out-limit: is the most pairs of --validation, too, and 0 leaves none to measure; give more, or "
            "--held-out 0 if no others are to be held out"
        )
    state = folder / TRAINING_STATE

    def read() -> tuple[PairData, PairData | None]:
        data = read_table(table, state, settings.data, progress=progress, say=say)
        if validation is None:
            return data, None
        vocabularies = data.source_vocabulary, data.target_vocabulary
        # A loss counts each pair once, so that the table need not have counts.
        unweighted = replace(settings.data, weight_by_count=False)
        return data, read_table(validation, state, unweighted, vocabularies, progress)

    with run_folder(folder, restart, KIND, ranks) as home:
        data, others = ranks.once_a_machine(read, state)
        settings = settings.fitted(len(data.distinct))
        lines, held_out = split_held_out(data.distinct, settings.data, settings.training.seed)
        if not len(lines):
            raise UserError(f"{display_name(table)}: leaves no pairs to train on; hold out less or give a larger table")
        network = _new_network(settings, data, device)
        other = None if others is None else _some_pairs(others, settings)
        task = PhrasePairTask(network, settings.training, device, data.pairs, lines, data.pairs.take(held_out), other)
        digests = {"table": data.digest, "validation": None if others is None else others.digest}
        files = {"table": table, "validation": validation}
        return _set_up(task, home, settings, data, files, digests, restart, ranks), data


def prepare_sentences(
    text: ParallelText,
    folder: Path,
    settings: Settings,
    device: Device,
    validation: ParallelText | None = None,
    restart: bool = False,
    progress: ReadingProgress = lambda lines, share: None,
    say: Say = silently,
    ranks: Ranks = ALONE,
) -> tuple[Trainer[SentenceTask], PairData]:
    """Read parallel text and set up a trainer, at its start or where an earlier run in the folder stopped.

    Args:
        text: the sentences to learn from; if there are none to validate with, some are held out.
        folder: the model folder; it is made if it does not exist.
        settings: architecture, data, training.
        device: where and how precisely to compute.
        validation: other sentences, to measure perplexity and BLEU on.
        restart: start over even if the folder holds a run.
        progress: called with the lines and the share of the text read so far.
        say: told of lines that are not UTF-8; sentences to validate with may have none.
        ranks: the processes that train together.

    Raises:
        UsageError: settings do not go together.
        UserError: the text is faulty, or the folder holds something else or a run with other settings.
    """
    _require_alone(settings)
    config = settings.sentences or SentenceConfig()
    if config.bleu_sentences:
        if validation is None:
            raise UsageError(
                "--bleu-sentences: are sentences to validate with; give --validation-source and --validation-target"
            )
        paths = validation.source, validation.target
        if any(str(path) == STANDARD_STREAM or is_device_or_pipe(path) for path in paths):
            raise UsageError("--bleu-sentences: reads the sentences to validate with twice; give files")
        load_corpus_bleu()

    def make(network: EncoderDecoder, training: TrainingConfig, read: _Text) -> SentenceTask:
        sample = None
        if validation is not None and config.bleu_sentences:
            sources, references = first_sentences(validation, config.bleu_sentences, settings.data, config)
            sample = BleuSample(read.data.source_vocabulary.encode(sources), references, read.data.target_vocabulary)
        other = None if read.others is None else read.others.pairs
        kept = read.data.pairs.take(read.held_out)
        return SentenceTask(
            network, training, device, read.data.pairs, read.lines, kept, other, sample, config.measured_loss
        )

    return _prepare_text(text, folder, settings, device, validation, restart, progress, say, ranks, make)


def prepare_in_context(
    text: ParallelText,
    folder: Path,
    settings: Settings,
    device: Device,
    validation: ParallelText | None = None,
    restart: bool = False,
    progress: ReadingProgress = lambda lines, share: None,
    say: Say = silently,
    ranks: Ranks = ALONE,
) -> tuple[Trainer[ContextTask], PairData]:
    """Read word-aligned text and set up a trainer on its phrase pairs where they occur; see `prepare_sentences`.

    Raises:
        UsageError: settings do not go together.
        UserError: the text is faulty or has no phrase pairs, or the folder holds something else or a run with other
            settings.
    """

    def some_of(sentences: PhrasePairs, of: ParallelText) -> Occurrences:
        found = _some_occurrences(sentences, settings)
        if len(sentences) and not len(found):
            raise UserError(
                f"{of.alignment}: leaves no phrase pairs to measure; check that it has points, and of this text"
            )
        return found

    def make(network: EncoderDecoder, training: TrainingConfig, read: _Text) -> ContextTask:
        assert read.data.pairs.alignment is not None
        if not len(read.data.pairs.alignment.ids):
            raise UserError(f"{text.alignment}: has no alignment point, so no phrase pair occurs; align the text")
        kept = some_of(read.data.pairs.take(read.held_out), text)
        other = None if validation is None or read.others is None else some_of(read.others.pairs, validation)
        return ContextTask(network, training, device, read.data.pairs, read.lines, kept, other)

    if not settings.data.held_out_limit:
        raise UsageError("--held-out-limit: is the most phrase pairs that are measured, and 0 leaves none; give more")
    return _prepare_text(text, folder, settings, device, validation, restart, progress, say, ranks, make)


def _require_alone(settings: Settings) -> None:
    """Check that a network that is to read whole sentences for their phrases is not trained on something else.

    Raises:
        UsageError: it would be.
    """
    if settings.model.in_context:
        raise UsageError("--in-context: needs word-aligned sentences; give --source, --target and --alignment")


@dataclass(frozen=True)
class _Text:
    """Parallel text that was read."""

    data: PairData
    others: PairData | None
    """To validate with."""
    lines: NDArray[np.int64]
    """The sentences to learn from."""
    held_out: NDArray[np.int64]
    """Others, if there are none to validate with."""


def _prepare_text(
    text: ParallelText,
    folder: Path,
    settings: Settings,
    device: Device,
    validation: ParallelText | None,
    restart: bool,
    progress: ReadingProgress,
    say: Say,
    ranks: Ranks,
    make: Callable[[EncoderDecoder, TrainingConfig, _Text], AnyPairTask],
) -> tuple[Trainer[AnyPairTask], PairData]:
    """Read parallel text and set up a trainer for the task that `make` makes of it; see `prepare_sentences`."""
    settings.check()
    if settings.data.weight_by_count:
        raise UsageError("--weight-by-count: is for phrase tables, sentences have no counts; leave it out")
    config, state = settings.sentences or SentenceConfig(), folder / TRAINING_STATE

    def read() -> tuple[PairData, PairData | None]:
        data = read_sentences(text, state, settings.data, config, progress=progress, say=say)
        if validation is None:
            return data, None
        vocabularies = data.source_vocabulary, data.target_vocabulary
        return data, read_sentences(validation, state, settings.data, config, vocabularies, progress)

    with run_folder(folder, restart, KIND, ranks) as home:
        data, others = ranks.once_a_machine(read, state)
        settings = settings.fitted(len(data.distinct))
        lines, held_out = data.distinct, data.distinct[:0]
        if validation is None:
            assert data.hashes is not None
            number = settings.data.held_out_of(len(lines))
            lines, held_out = hold_out_sentences(data.hashes, number, settings.training.seed)
        if not len(lines):
            raise UserError(f"{text}: leave no sentences to train on; hold out less or give more")
        network = _new_network(settings, data, device)
        task = make(network, settings.training, _Text(data, others, lines, held_out))
        files = _files_of(text, "") | ({} if validation is None else _files_of(validation, "validation_"))
        digests = {"sentences": data.digest, "validation": None if others is None else others.digest}
        return _set_up(task, home, settings, data, files, digests, restart, ranks), data


def _files_of(text: ParallelText, prefix: str) -> dict[str, Path | None]:
    """Return where a text lies, by what its files are."""
    files = {"source": text.source, "target": text.target, "alignment": text.alignment}
    return {f"{prefix}{name}": path for name, path in files.items() if path is not None}


def _new_network(settings: Settings, data: PairData, device: Device) -> EncoderDecoder:
    if settings.model.share_embeddings and data.source_vocabulary.digest() != data.target_vocabulary.digest():
        raise UserError(
            "--share-embeddings: needs the same words on both sides, which these are not; give one text of both sides "
            "as --source-corpus and --target-corpus, and vocabularies of one size"
        )

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


def _set_up(
    task: AnyPairTask,
    home: RunFolder,
    settings: Settings,
    data: PairData,
    files: Mapping[str, str | Path | None],
    digests: dict[str, str | None],
    restart: bool,
    ranks: Ranks,
) -> Trainer[AnyPairTask]:
    """Return a trainer at its start or where an earlier run stopped.

    Args:
        task: what to train.
        home: the model folder.
        settings: architecture, data, training.
        data: what was read.
        files: where it was read, by what it is.
        digests: of the data, which must be the same when the run is resumed.
        restart: start over even if the folder holds a run.
        ranks: the processes that train together.
    """
    vocabularies = data.source_vocabulary, data.target_vocabulary
    run = {**settings.fixed(), **digests, "vocabularies": [words.digest() for words in vocabularies]}
    trainer = Trainer(home, task, settings.training, task.device, run, ranks)

    def describe(place: Path) -> None:
        training = {**places(files), "digests": digests, **data.summary, **asdict(settings.training)}
        training["warmup_updates"] = trainer.budget.warmup
        sections: dict[str, Any] = {"data": asdict(settings.data)}
        if settings.sentences is not None:
            sections["sentences"] = asdict(settings.sentences)
        sections["training"] = {**training, "device": str(task.device)}
        save_description(place, settings.model, settings.data.direction, *vocabularies, sections)

    trainer.begin(describe, restart)
    return trainer


def _some_pairs(table: PairData, settings: Settings) -> PhrasePairs:
    """Return as many distinct pairs of a table as may be held out, drawn by the seed."""
    shuffled = np.random.default_rng([settings.training.seed, 2]).permutation(table.distinct)
    return table.pairs.take(np.sort(shuffled[: settings.data.held_out_limit]))


def _some_occurrences(sentences: PhrasePairs, settings: Settings) -> Occurrences:
    """Return as many phrase pairs of some sentences as may be held out, drawn by the seed, sentence by sentence."""
    found = find_occurrences(sentences)
    shuffled = np.random.default_rng([settings.training.seed, 2]).permutation(len(found))
    return found.take(np.sort(shuffled[: settings.data.held_out_limit]))
