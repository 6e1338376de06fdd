"""What each step costs, from sizes and rates. The formulas are the methods; `configs/rates.toml` has the rates.

Sizes are millions of words and lines; gigabytes are 10^9 bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from experiments.wmt14.config import Config
from experiments.wmt14.corpora import Text
from experiments.wmt14.rates import Rates

_M, _G, _HOUR = 1e6, 1e9, 3600.0


@dataclass(frozen=True)
class Cost:
    """What a step takes."""

    core_hours: float = 0.0
    memory: float = 0.0
    """Gigabytes at the peak."""
    disk: float = 0.0
    """Gigabytes that it leaves behind."""
    scratch: float = 0.0
    """Gigabytes of disk besides, while it runs."""
    gpu_hours: float = 0.0
    """In place of the core hours, if there is a GPU."""
    cores: int | None = 1
    """How many cores it can use; None for all."""

    def hours(self, cores: int) -> float:
        """Return how long it takes on a machine with so many cores, without its GPU."""
        return self.core_hours / (min(self.cores, cores) if self.cores else cores)


class Estimates:
    """Costs for given texts and settings."""

    def __init__(self, texts: Sequence[Text], config: Config, rates: Rates) -> None:
        self._texts, self._config, self._rates = texts, config, rates
        parallel = [text for text in texts if text.role == "parallel"]
        trained = [text for text in texts if text.role in ("parallel", "monolingual")]
        self.train_words = sum(text.words * text.share for text in parallel)
        """Of the target side, in millions."""
        self.train_lines = sum(text.lines * text.share for text in parallel)
        self.target_words = sum(text.words for text in trained)
        self.lm_words = config.selection.lm_words
        self.dev_words = sum(text.words for text in texts if text.role == "dev")
        self.test_words = sum(text.words for text in texts if text.role == "test")
        self.dev_source_words, self.test_source_words = (
            words * rates.source_words for words in (self.dev_words, self.test_words)
        )
        self.extracted = self.train_words * rates.extracted
        """Phrase pairs with their repetitions, in millions."""
        self.table_lines = self.extracted * rates.distinct
        self.filtered_lines = (self.dev_source_words + self.test_source_words) * rates.filtered
        self.both_sides = 1 + rates.source_words

    def _text_size(self, words: float, sides: float = 1.0) -> float:
        """Return gigabytes of plain text."""
        return words * _M * sides * self._rates.text_bytes / _G

    def _packed_size(self, text: Text) -> float:
        sides = self.both_sides if text.source else 1.0
        return self._text_size(text.words, sides) * _PACKED

    def download(self) -> Cost:
        """All archives at the rate of the network."""
        size = sum(text.gigabytes for text in self._texts)
        return Cost(size / self._rates.download / _HOUR, 0.1, size)

    def unpack(self, text: Text) -> Cost:
        """A tenth of what tokenising it takes."""
        size = self._packed_size(text)
        return Cost(text.words * self.both_sides * _M / self._rates.prepare / 10 / _HOUR, 0.1, size)

    def prepare(self, text: Text) -> Cost:
        """Words by the tokeniser's rate."""
        sides, size = (self.both_sides if text.source else 1.0), self._packed_size(text)
        return Cost(text.words * sides * _M / self._rates.prepare / _HOUR, 1.0, size, 2.5 * size, cores=None)

    def join(self, name: str) -> Cost:
        """Reading and writing."""
        words = {"train": self.train_words, "dev": self.dev_words, "test": self.test_words}[name]
        size = self._text_size(words, self.both_sides)
        return Cost(size / 0.1 / _HOUR, 0.1, size)

    def select(self, text: Text) -> Cost:
        """Words of both sides by the rate of both models."""
        hours = text.words * self.both_sides * _M / self._rates.select / _HOUR
        return Cost(hours, 0.5, self._packed_size(text) * text.share, text.lines * 6e-3)

    def select_lm(self) -> Cost:
        """Words of the target side by the rate of both models."""
        hours = self.target_words * _M / self._rates.select / _HOUR
        return Cost(hours, 0.5, self._text_size(self.lm_words), 1.0)

    def language_model(self) -> Cost:
        """Words by lmplz's rate; n-grams grow no faster than words. It sorts in the memory that it is given."""
        ngrams = self.lm_words * _M * self._rates.ngrams
        arpa, trie = ngrams * self._rates.arpa_bytes / _G, ngrams * self._rates.trie_bytes / _G
        hours = self.lm_words * _M / self._rates.lmplz / _HOUR
        memory = max(trie, 2.0, self._config.language_model.gigabytes)
        return Cost(2 * hours, memory, trie, 2 * arpa)

    def align(self, part: int) -> Cost:
        """Words of both sides by passes, which fall with the root of a part's pairs: see `alignment.align`."""
        pairs = min(part, self.train_lines * _M)
        words = self.train_words * self.both_sides * _M
        # One pass more for what is rounded up, for a part has a few only.
        passes = self._rates.align_passes / pairs**0.5 + 1
        memory = pairs * (words / (self.train_lines * _M)) * self._rates.align_memory * 2 / _G
        size = self.train_words * _M * 5.5 / _G
        return Cost(words * passes * self._rates.align / _HOUR, memory, size, size, cores=2)

    def tables(self) -> Cost:
        """Extracted phrase pairs by Moses' rate; it sorts them on disk, in three files."""
        lines, words = self.table_lines * _M, self.train_words * _M * self.both_sides
        hours = self.extracted * _M / self._rates.moses_tables / _HOUR
        size, scratch = 1.5 * lines * self._rates.table_bytes / _G, self.extracted * _M * self._rates.extract_bytes / _G
        return Cost(hours, words * self._rates.corpus_memory / _G, size, scratch, cores=4)

    def embedded_tables(self) -> Cost:
        """The same by the embedded toolkit, which holds all phrase pairs in memory."""
        size = 1.5 * self.table_lines * _M * self._rates.table_bytes / _G
        hours = self.extracted * _M / self._rates.embedded_tables / _HOUR
        return Cost(hours, self.extracted * _M * self._rates.embedded_memory / _G, size)

    def filter(self) -> Cost:
        """Lines of both tables by the rate of reading them."""
        size = 1.5 * self.filtered_lines * _M * self._rates.table_bytes / _G
        hours = 2 * self.table_lines * _M / self._rates.filter / _HOUR
        return Cost(hours, self.filtered_lines * _M * 1e2 / _G + 1, size)

    def draw(self) -> Cost:
        """Lines by the rate of reading them."""
        share = self._config.tables.draw
        size = self.table_lines * _M * share * self._rates.table_bytes / _G
        return Cost(self.table_lines * _M / self._rates.filter / _HOUR, 0.1, size)

    def network(self) -> Cost:
        """Reading the drawn lines, then the pairs it is trained on, in batches too small for many cores."""
        lines = self.table_lines * _M * self._config.tables.draw
        reading, pairs = lines / self._rates.read_table / _HOUR, self._config.network_pairs
        memory, size = lines * self._rates.table_memory / _G + 1, lines * 8 * 4 / _G
        gpu = reading + pairs / self._rates.train_gpu / _HOUR
        return Cost(reading + pairs / self._rates.train / _HOUR, memory, 0.1, size, gpu, cores=2)

    def cslm(self) -> Cost:
        """Words by passes."""
        words = self.lm_words * _M * self._rates.cslm_passes
        hours, gpu = words / self._rates.cslm / _HOUR, words / self._rates.cslm_gpu / _HOUR
        return Cost(hours, self.lm_words * _M * self._rates.cslm_memory / _G, 0.2, 0.5, gpu, cores=2)

    def annotate(self) -> Cost:
        """Lines of the filtered table by the engine's rate."""
        lines = self.filtered_lines * _M
        size = lines * self._rates.table_bytes * 1.2 / _G
        return Cost(lines / self._rates.annotate / _HOUR, 1.1, size, cores=None)

    def perplexity(self) -> Cost:
        """Words of dev by the rate of the neural language model."""
        return Cost(self.dev_words * _M / self._rates.query / _HOUR, 7.0)

    def queries(self, runs: int) -> float:
        """Millions of n-grams that so many runs of tuning ask the neural language model: all in the first decoding, and
        in each run a share of as many."""
        first = (self.dev_source_words + self.test_source_words) * self._rates.queries
        return first * (1 + runs * self._rates.queries_later)

    def cache(self) -> Cost:
        """The file."""
        return Cost(disk=self._config.tuning.cache / 1000)

    def tune(self, neural: bool, first: bool) -> Cost:
        """Source words of dev by decodings, and those of test once; of a row with the neural language model also the
        n-grams that the cache lacks."""
        section, rates = self._config.tuning, self._rates
        words = self.dev_source_words * section.iterations + self.test_source_words
        seconds = words * _M / rates.tune
        if neural:
            new = self.queries(1) - (0 if first else self.queries(0))
            seconds += new * _M / (rates.query_unnormalised if self._config.unnormalised else rates.query)
        memory = self._decoder_memory() + neural * section.cache / 1000
        return Cost(seconds / _HOUR, memory, 0.05, 0.5, cores=section.processes)

    def decode(self) -> Cost:
        """Source words of test."""
        hours = self.test_source_words * _M / self._rates.tune / _HOUR
        return Cost(hours, self._decoder_memory(), 0.01, cores=self._config.tuning.processes)

    def _decoder_memory(self) -> float:
        model = self.lm_words * _M * self._rates.ngrams * self._rates.trie_bytes / _G
        # The processes share the pages of the language model.
        return model + self._config.tuning.processes * self.filtered_lines * _M * self._rates.line_memory / _G


_PACKED = 0.45
"""Size of compressed text, as a share of plain text."""
