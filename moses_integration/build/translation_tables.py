"""From two tokenised texts and their word alignment to Moses' translation tables: train-model.perl's steps 4 to 7."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from moses_integration.build.aligned_corpus import read_aligned_corpus
from moses_integration.build.extraction import extract_phrase_pairs
from moses_integration.build.lexical import estimate_lexical_model, write_lexical_tables
from moses_integration.build.pair_alignment import LONGEST_PHRASE
from moses_integration.build.phrase_pairs import count_phrase_pairs
from moses_integration.build.phrase_scores import PHRASE_TABLE, phrase_table_lines
from moses_integration.build.reordering import REORDERING_TABLE, reordering_table_lines
from phrasescore.errors import UserError
from phrasescore.files import open_output


@dataclass(frozen=True)
class TableCounts:
    """How much went into the tables and how much came out."""

    sentence_pairs: int
    alignment_points: int
    word_pairs: int
    """Lines of each lexical table."""
    extracted: int
    """Occurrences of phrase pairs."""
    phrase_pairs: int
    """Lines of the phrase table and of the reordering table."""


def build_tables(
    source: Path, target: Path, alignment: Path, folder: Path, max_phrase_length: int = LONGEST_PHRASE
) -> TableCounts:
    """Write `lex.f2e`, `lex.e2f`, the phrase table and the reordering table into `folder`, as Moses would.

    The texts have words separated by blanks, and `alignment` has the points of each sentence pair in the Pharaoh
    format, source first. The tables are those of train-model.perl with `-reordering msd-bidirectional-fe` and its
    other defaults, byte for byte; the lexical tables, which Moses leaves in no order, are sorted.

    Raises:
        UserError: a file cannot be read or written, the input is empty, inconsistent or not what Moses would read, it
            yields no phrase pair, or `max_phrase_length` is not from 1 to 7.
    """
    if not 1 <= max_phrase_length <= LONGEST_PHRASE:
        raise UserError(f"the maximum phrase length is {max_phrase_length}; give a number from 1 to {LONGEST_PHRASE}")
    corpus = read_aligned_corpus(source, target, alignment)
    instances = extract_phrase_pairs(corpus, max_phrase_length)
    if not len(instances):
        raise UserError(f"{alignment}: yields no phrase pair; check that it aligns these texts, source first")
    lexical_model = estimate_lexical_model(corpus)
    write_lexical_tables(lexical_model, corpus, folder)
    phrase_pairs = 0
    with open_output(folder / PHRASE_TABLE) as table, open_output(folder / REORDERING_TABLE) as reordering:
        for pairs in count_phrase_pairs(instances, corpus):
            spellings = pairs.spell(corpus)
            table.writelines(phrase_table_lines(pairs, spellings, lexical_model))
            reordering.writelines(reordering_table_lines(pairs, spellings))
            phrase_pairs += len(pairs)
    return TableCounts(
        corpus.sentences, len(corpus.source_P), len(lexical_model.source_L), len(instances), phrase_pairs
    )
