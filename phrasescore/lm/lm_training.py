"""Training a neural language model on a tokenised text, one sentence a line.

Legend: A n-grams of a batch, c = n - 1 words of a context.
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
from torch import Tensor

from phrasescore.device import Device, on_device
from phrasescore.errors import UsageError, UserError, spelled
from phrasescore.files import display_name
from phrasescore.lm.lm_settings import LmSettings
from phrasescore.lm.ngrams import Ngrams, read_text
from phrasescore.log_probs import perplexity
from phrasescore.model_files import LANGUAGE_MODEL
from phrasescore.model_folder import save_lm_description
from phrasescore.nn.neural_lm import NeuralLanguageModel
from phrasescore.nn.weights import check_size
from phrasescore.phrases import Phrases, hash_phrases
from phrasescore.text import text_lines, utf8_lines
from phrasescore.training.batches import hold_out_sentences
from phrasescore.training.loop import OPTIMISERS, Start, Trainer
from phrasescore.training.run_folder import absolute_paths, run_folder
from phrasescore.training.task import BatchLoss, Examples, Task
from phrasescore.training.training_config import fixed_values
from phrasescore.vocabulary import Vocabulary

_BATCH = 4096


@dataclass(frozen=True)
class TextLoss:
    """Negative log-likelihood in nats; words outside the shortlist count as `<unk>`."""

    per_word: float
    """Per word, ends of sentences included."""
    mean_log_norm: float
    """Mean of ln Z."""
    log_norm_deviation: float
    """Standard deviation of ln Z: the error of an unnormalised score."""

    @property
    def per_example(self) -> float:
        """The quantity to minimise."""
        return self.per_word

    def __str__(self) -> str:
        return f"{self.per_word:.3f} nats per word (perplexity {perplexity(self.per_word):.2f})"


@dataclass(frozen=True)
class TextTask(Task):
    """Maximises the mean ln p of the words of a text; the examples are n-grams."""

    unit: ClassVar[str] = "word"

    network: NeuralLanguageModel
    held_out: Ngrams
    """N-grams of random sentences of the same text."""
    validation: Ngrams | None
    """N-grams of a validation text, if there is one."""
    ngrams: Ngrams
    """Training n-grams."""

    @property
    def batches_per_epoch(self) -> int:
        """Number of batches of an epoch."""
        return math.ceil(len(self.ngrams) / self.config.batch_size)

    def batches(self, epoch: int) -> Iterator[Examples]:
        """Yield the batches of an epoch: all n-grams in random order, in equal shares."""
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
    text: str | Path,
    folder: Path,
    settings: LmSettings,
    device: Device,
    validation: Path | None = None,
    start: Start = Start(),  # noqa: B008
) -> tuple[Trainer[TextTask], dict[str, Any]]:
    """Read the text and create a trainer, at the start or where an interrupted run in the folder stopped.

    Also return facts about the text: lines, words, share of the words that the shortlist covers.
    """
    OPTIMISERS[settings.training.optimiser]
    with run_folder(folder, start.restart, LANGUAGE_MODEL, start.ranks) as home:
        numbered = read_text(text, partial(text_lines, log=start.log))
        to_validate = None if validation is None else read_text(validation, partial(utf8_lines, log=start.log))
        counts = numbered.counts()
        vocabulary = Vocabulary.most_frequent(counts, settings.text.vocabulary, settings.text.min_count)
        order, seed = settings.model.order, settings.training.seed
        sentences = numbered.encode(vocabulary)
        number = 0 if validation is not None else int(len(sentences) * settings.text.held_out)
        lines, held_out = hold_out_sentences(hash_phrases(sentences), number, seed)
        training, kept = (sentences.where(np.isin(np.arange(len(sentences)), some)) for some in (lines, held_out))
        if not len(training):
            raise UserError(f"{display_name(text)}: leaves no sentences to train on; hold out less")
        if settings.model.self_normalise and validation is None and not number:
            raise UsageError(
                f"{spelled('self_normalise')}: needs held-out text to measure ln Z; give "
                f"{spelled('validation')}, or hold out more of the text"
            )
        others = None if to_validate is None else to_validate.encode(vocabulary)
        other = None if others is None else Ngrams(others, order)
        check_size(lambda: NeuralLanguageModel(settings.model, len(vocabulary)))
        torch.manual_seed(seed)
        network = NeuralLanguageModel(settings.model, len(vocabulary)).to(device.torch_device)
        network.multiply_in(device.product_dtype)
        task = TextTask(network, settings.training, device, Ngrams(kept, order), other, Ngrams(training, order))
        digests = {"text": _digest(sentences), "validation": None if others is None else _digest(others)}
        sections = settings.model, settings.text, settings.training
        fixed = {**fixed_values(*sections), "shortlist": vocabulary.digest(), **digests}
        facts = {"lines": len(sentences), "words": counts.total(), "coverage": vocabulary.coverage(counts)}
        files = absolute_paths({"text": text, "validation": validation})

        def describe(training: dict[str, Any]) -> None:
            sections = {"text": asdict(settings.text), "training": {**files, "digests": digests, **facts, **training}}
            save_lm_description(folder, settings.model, vocabulary, sections)

        trainer = Trainer(home, task, fixed, start.ranks)
        trainer.begin(describe, restart=start.restart)
        return trainer, facts


def _digest(sentences: Phrases) -> str:
    return hashlib.sha256(sentences.ids.tobytes() + sentences.offsets.tobytes()).hexdigest()
