"""Compute BLEU of greedy translations to monitor training."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from phrasescore.beam_search import Decoding, beam_search
from phrasescore.device import Device
from phrasescore.errors import UserError
from phrasescore.nn.encoder_decoder import EncoderDecoder
from phrasescore.phrases import Phrases
from phrasescore.search_config import SearchConfig
from phrasescore.vocabulary import Vocabulary

if TYPE_CHECKING:
    from sacrebleu.metrics.bleu import BLEUScore

_BATCH = 128


def load_corpus_bleu() -> Callable[..., BLEUScore]:
    """Return `corpus_bleu` of sacreBLEU.

    Raises:
        UserError: sacreBLEU is not installed.
    """
    try:
        from sacrebleu import corpus_bleu
    except ImportError as error:
        raise UserError("`bleu_sentences`: needs sacreBLEU; pip install sacrebleu") from error
    return corpus_bleu


@dataclass(frozen=True)
class BleuSample:
    """Tokenised sentences with reference translations."""

    sources: Phrases
    references: list[bytes]
    """UTF-8."""
    vocabulary: Vocabulary
    """Vocabulary of the target side."""

    def score(self, network: EncoderDecoder, device: Device) -> float:
        """Return BLEU (0 to 100) of greedy translations; words are separated by spaces.

        Raises:
            UserError: sacreBLEU is not installed.
        """
        corpus_bleu = load_corpus_bleu()
        network.eval()
        found = []
        for start in range(0, len(self.references), _BATCH):
            batch = self.sources.take(np.arange(start, min(start + _BATCH, len(self.references))))
            # A beam of one is greedy search.
            found += [one for (one,) in beam_search(Decoding([network], device, batch), SearchConfig(beam=1))]
        network.train()
        words = self.vocabulary.words
        translations = [b" ".join(words[word] for word in one.words).decode("utf-8") for one in found]
        references = [line.decode("utf-8") for line in self.references]
        # Without `force`, sacreBLEU warns about tokenised text.
        return float(corpus_bleu(translations, [references], tokenize="none", force=True).score)
