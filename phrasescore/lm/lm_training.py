"""Training a neural language model on a tokenised text, or a joint model on word-aligned parallel text.

Legend: A n-grams of a batch, c words of a context.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from phrasescore.device import Device, on_device
from phrasescore.errors import UsageError, UserError, arg_name
from phrasescore.files import display_name
from phrasescore.lm.lm_settings import LmSettings
from phrasescore.lm.ngrams import AffiliatedSource, Ngrams, read_text
from phrasescore.model_files import LANGUAGE_MODEL
from phrasescore.model_folder import save_lm_description
from phrasescore.nn.neural_lm import NeuralLanguageModel
from phrasescore.nn.weights import check_size
from phrasescore.parallel_text import ParallelText
from phrasescore.phrases import Phrases, hash_phrases
from phrasescore.text import text_lines, utf8_lines
from phrasescore.training.batches import hold_out_sentences, perplexity
from phrasescore.training.checkpoint import absolute_paths, run_folder
from phrasescore.training.loop import OPTIMISERS, Start, Trainer
from phrasescore.training.tasks import BatchLoss, Examples, Task
from phrasescore.training.training_config import fixed_values
from phrasescore.vocabulary import Vocabulary

_BATCH = 4096


@dataclass(frozen=True)
class TextLoss:
    """Negative log-likelihood in nats; words outside the shortlist count as `<unk>`."""

    per_word: float
    mean_log_norm: float
    log_norm_deviation: float
    """Standard deviation of ln Z: the error of an unnormalised score."""

    @property
    def per_example(self) -> float:
        return self.per_word

    def __str__(self) -> str:
        return f"{self.per_word:.3f} nats per word (perplexity {perplexity(self.per_word):.2f})"


@dataclass(frozen=True)
class TextTask(Task):
    """Maximises the mean ln p of the words of a text; the examples are n-grams."""

    unit: ClassVar[str] = "word"

    network: NeuralLanguageModel
    held_out: Ngrams
    validation: Ngrams | None
    ngrams: Ngrams

    @property
    def batches_per_epoch(self) -> int:
        return math.ceil(len(self.ngrams) / self.config.batch_size)

    def batches(self, epoch: int) -> Iterator[Examples]:
        order = np.random.default_rng([self.config.seed, 1, epoch]).permutation(len(self.ngrams))
        yield from np.array_split(order, self.batches_per_epoch)

    def loss(self, examples: Examples) -> BatchLoss:
        """Return the mean of -ln p plus the weighted mean of (ln Z)^2 (self-normalisation, Devlin et al. 2014)."""
        log_prob_A, log_norm_A = self._forward(self.ngrams, examples)
        weight = self.network.config.self_normalise
        mean = -log_prob_A.mean() + weight * log_norm_A.square().mean() if weight else -log_prob_A.mean()
        return BatchLoss(mean, len(examples))

    @torch.inference_mode()
    def measure(self, ngrams: Ngrams) -> TextLoss:
        """Return the loss on some n-grams, and store their mean ln Z in the network with its weights."""
        sums = torch.zeros(3, dtype=torch.float64, device=self.device.torch_device)
        self.network.eval()
        with self.device.products():
            for start in range(0, len(ngrams), _BATCH):
                some = np.arange(start, min(start + _BATCH, len(ngrams)))
                log_prob_A, log_norm_A = self._forward(ngrams, some)
                log_norm_A = log_norm_A.double()
                sums += torch.stack((log_prob_A.double().sum(), log_norm_A.sum(), log_norm_A.square().sum()))
        self.network.train()
        log_prob, log_norm, square = sums.tolist()
        mean = log_norm / len(ngrams)
        self.network.mean_log_norm.fill_(mean)
        return TextLoss(-log_prob / len(ngrams), mean, math.sqrt(max(0.0, square / len(ngrams) - mean * mean)))

    def _forward(self, ngrams: Ngrams, numbers: Examples) -> tuple[Tensor, Tensor]:
        ids = tuple(map(torch.from_numpy, ngrams.take(numbers)))
        contexts_Ac, words_A = on_device(ids, self.device.torch_device)
        found: tuple[Tensor, Tensor] = self.network(contexts_Ac, words_A)
        return found


def prepare(
    text: str | Path | ParallelText,
    folder: Path,
    settings: LmSettings,
    device: Device,
    validation: Path | ParallelText | None = None,
    start: Start = Start(),  # noqa: B008
) -> Trainer[TextTask]:
    """Read the text and create a trainer, which resumes an interrupted run."""
    OPTIMISERS[settings.training.optimiser]
    with run_folder(folder, start.restart, LANGUAGE_MODEL, start.ranks) as home:
        read = read_text(text, partial(text_lines, log=start.log), start.log)
        other = None if validation is None else read_text(validation, partial(utf8_lines, log=start.log), start.log)
        counts = read.target.counts()
        limits = settings.text.vocabulary, settings.text.min_count
        vocabulary, source_vocabulary = Vocabulary.most_frequent(counts, *limits), None
        if read.source is not None:
            source_vocabulary = Vocabulary.most_frequent(read.source.counts(), *limits)
        sentences, source = read.encode(vocabulary, source_vocabulary)
        number = 0 if validation is not None else int(len(sentences) * settings.text.held_out)
        lines, held_out = hold_out_sentences(hash_phrases(sentences), number, settings.training.seed)
        if not len(lines):
            raise UserError(f"{display_name(text)}: leaves no sentences to train on; hold out less")
        if settings.model.self_normalise and validation is None and not number:
            raise UsageError(
                f"{arg_name('self_normalise')}: needs held-out text to measure ln Z; give "
                f"{arg_name('validation')}, or hold out more of the text"
            )
        others = None if other is None else other.encode(vocabulary, source_vocabulary)
        sizes = len(vocabulary), 0 if source_vocabulary is None else len(source_vocabulary)
        network = _new_network(settings, sizes, device)

        def ngrams(sentences: Phrases, source: AffiliatedSource | None) -> Ngrams:
            return Ngrams(sentences, settings.model.order, source, network.source_window)

        def some_ngrams(lines: NDArray[np.int64]) -> Ngrams:
            is_taken = np.isin(np.arange(len(sentences)), lines)
            return ngrams(sentences.where(is_taken), None if source is None else source.where(is_taken))

        to_validate = None if others is None else ngrams(*others)
        task = TextTask(network, settings.training, device, some_ngrams(held_out), to_validate, some_ngrams(lines))
        digests = {"text": _digest(sentences, source), "validation": None if others is None else _digest(*others)}
        sections = settings.model, settings.text, settings.training
        fixed = {**fixed_values(*sections), "shortlist": vocabulary.digest(), **digests}
        if source_vocabulary is not None:
            fixed["vocabularies"] = source_vocabulary.digest()
        facts = {"lines": len(sentences), "words": counts.total(), "coverage": vocabulary.coverage(counts)}
        files = absolute_paths({**_files(text, "text"), **_files(validation, "validation")})

        def describe(training: dict[str, Any]) -> None:
            sections = {"text": asdict(settings.text), "training": {**files, "digests": digests, **facts, **training}}
            save_lm_description(folder, settings.model, vocabulary, sections, source_vocabulary)

        trainer = Trainer(home, task, fixed, start.ranks)
        trainer.begin(describe, restart=start.restart)
        start.log(_introduction(facts, settings.model.self_normalise))
        return trainer


def _new_network(settings: LmSettings, sizes: tuple[int, int], device: Device) -> NeuralLanguageModel:
    check_size(lambda: NeuralLanguageModel(settings.model, *sizes))
    torch.manual_seed(settings.training.seed)
    network = NeuralLanguageModel(settings.model, *sizes).to(device.torch_device)
    network.softmax.product_dtype = device.product_dtype
    network.softmax.sampled_words = settings.training.sampled_words
    return network


def _introduction(facts: dict[str, Any], penalty: float) -> str:
    """Describe the text and the loss for the log; `penalty` is the weight of (ln Z)^2."""
    text = (
        f"{facts['lines']:,} lines, {facts['words']:,} words, {facts['coverage']:.2%} of them in the shortlist; losses "
        "are nats per word, ends of sentences included"
    )
    return f"{text}; the training loss includes {penalty:g} (ln Z)^2" if penalty else text


def _files(text: str | Path | ParallelText | None, name: str) -> dict[str, str | Path | None]:
    if not isinstance(text, ParallelText):
        return {name: text}
    return {name: text.target, f"{name}_source": text.source, f"{name}_alignment": text.alignment}


def _digest(sentences: Phrases, source: AffiliatedSource | None) -> str:
    digest = hashlib.sha256()
    for phrases in (sentences, *(source or ())):
        digest.update(phrases.ids.tobytes())
        digest.update(phrases.offsets.tobytes())
    return digest.hexdigest()
