"""What was measured, and what the estimates take from elsewhere: `configs/rates.toml`."""

from __future__ import annotations

from dataclasses import dataclass

from experiments.wmt14.corpora import CONFIGS
from phrasescore.documents import read_toml


@dataclass(frozen=True)
class Rates:
    """Numbers that the estimates rest on; the file says where each is from."""

    download: float
    prepare: float
    select: float
    lmplz: float
    ngrams: float
    arpa_bytes: float
    trie_bytes: float
    align: float
    align_memory: float
    align_passes: float
    extracted: float
    distinct: float
    moses_tables: float
    embedded_tables: float
    embedded_memory: float
    table_bytes: float
    extract_bytes: float
    corpus_memory: float
    filter: float
    read_table: float
    table_memory: float
    train: float
    train_gpu: float
    cslm: float
    cslm_gpu: float
    cslm_passes: float
    cslm_memory: float
    annotate: float
    filtered: float
    tune: float
    queries: float
    queries_later: float
    query: float
    query_unnormalised: float
    line_memory: float
    text_bytes: float
    source_words: float


@dataclass(frozen=True)
class Rate:
    """One of them as the file has it."""

    value: float
    unit: str
    origin: str
    """measured (with the command), paper, or guessed."""


def read_rate_table() -> dict[str, Rate]:
    """Return the rates with unit and origin, in the order of the file."""
    return {name: Rate(**entry) for name, entry in read_toml(CONFIGS / "rates.toml").items()}


def read_rates() -> Rates:
    """Return the rates.

    Raises:
        TypeError: the file lacks one or has one too many.
    """
    return Rates(**{name: rate.value for name, rate in read_rate_table().items()})
