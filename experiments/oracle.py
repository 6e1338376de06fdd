"""Measure what limits a tuned system of an ablation: the best translations that it lists and that it can produce.

The table has dev BLEU of the first translation, of the best choice from n-best lists, and of the best translation that
the search can reach under several distortion limits and numbers of translation options. Where the reachable
translations are much better than the lists, scores limit the system; where a wider limit reaches more, options or
reordering do.

Both kinds of oracle are approximate, and lower bounds. A choice from lists starts at the best smoothed BLEU of each
sentence and changes single sentences as long as that raises the BLEU of the corpus. Reachable translations are found by
the decoder's own search with another score, the linear approximation of BLEU by Tromble et al. (EMNLP 2008),

    -|e| + sum over n-grams w of e, n = 1 to 4, that are in the reference:  1 / (4 p r^(n - 1))

with the boundaries of the sentence as words. It does not clip repeated n-grams; the choice from lists of 100 such
translations corrects for that. Options are selected as in decoding, and so without the column in context.

Shapes: T phrases, N extensions of hypotheses, C candidates of a sentence, 9 statistics of BLEU.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator, Sequence
from itertools import chain, groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from experiments.machine import machine
from experiments.markdown import as_markdown
from experiments.pages.results import table_of
from experiments.steps import log
from moses_integration.decoder.declaration import load_model
from moses_integration.decoder.language_models import LanguageModelFeature
from moses_integration.decoder.model import LogLinearModel, Translations
from moses_integration.decoder.phrases import Floats, Indices, Words, words_of
from moses_integration.decoder.search import Search
from moses_integration.decoder.settings import DecoderSettings, read_settings
from moses_integration.decoder.translation_options import Options
from moses_integration.ini import MosesIni
from moses_integration.nbest import read_nbest
from moses_integration.per_text.context_column import ContextColumn
from moses_integration.per_text.context_sections import networks_of, option_weights, without_column
from moses_integration.toolkits.embedded import EmbeddedToolkit
from moses_integration.toolkits.toolkit import NbestRequest
from moses_integration.tuning.bleu import (
    MAX_ORDER,
    References,
    Statistics,
    bleu,
    bleu_statistics,
    read_dev_set,
    smoothed_bleu,
)
from phrasescore.cli.options import positive
from phrasescore.cli.parser import CommandParser
from phrasescore.cli.running import run_command
from phrasescore.errors import UserError
from phrasescore.files import sha256_of, write_json
from phrasescore.model_files import code_version
from phrasescore.scoring.scorer import load_scorer

LISTS = (100, 1000)
"""Sizes of n-best lists."""
LIMITS = ((6, 20), (math.inf, 20), (6, 50), (math.inf, 50))
"""Distortion limits and numbers of options per phrase."""
_PRECISION, _RATIO = 0.85, 0.72
"""p and r: the precision of 1-grams, and the ratio of the precisions of successive orders."""
_STACK, _POPS = 2000, 10_000
"""Of the search for reachable translations: more than for translating, because its score has many ties."""
_BOUNDARY = b""
"""Begins and ends a sentence; no word is empty."""
_REACHED = 100
"""Reachable translations of a sentence to choose from."""

Lists = Sequence[Sequence[bytes]]
"""Translations of each sentence."""


class Overlap(LanguageModelFeature):
    """The linear approximation of BLEU of a translation, for one source sentence.

    A state is the longest end of the translation that more words can extend to an n-gram of a reference.
    """

    def __init__(self, references: Sequence[bytes]) -> None:
        super().__init__("Overlap0")
        sentences = [(_BOUNDARY, *words_of(reference), _BOUNDARY) for reference in references]
        self._ngrams = {
            words[start : start + order]
            for words in sentences
            for order in range(1, MAX_ORDER + 1)
            for start in range(len(words) - order + 1)
        }

    def alone(self, phrases: Sequence[Words]) -> tuple[Floats, Floats]:
        """Return the values of the phrases without their context."""
        values_T1 = np.array([[self._value((), phrase) - len(phrase)] for phrase in phrases], np.float64)
        return values_T1, np.zeros_like(values_T1)

    def begin(self, options: Options) -> int:
        """Start the sentence."""
        self._phrases, self._phrase_O = options.phrases, options.phrase_O
        self._states: list[Words] = [(_BOUNDARY,)]
        self._number_of = {self._states[0]: 0}
        return 0

    def extend(self, states_N: Indices, options_N: Indices, is_end: bool) -> tuple[Floats, Indices]:
        """Return the values of the n-grams that begin before the options, and the new states."""
        pairs, pair_N = np.unique(states_N * len(self._phrases) + self._phrase_O[options_N], return_inverse=True)
        found = [self._extend(pair, is_end) for pair in pairs.tolist()]
        values = np.array([[value] for value, _ in found], np.float64)
        return values[pair_N], np.array([state for _, state in found], np.int64)[pair_N]

    def _extend(self, pair: int, is_end: bool) -> tuple[float, int]:
        state, phrase = divmod(pair, len(self._phrases))
        before, words = self._states[state], self._phrases[phrase]
        value = self._value(before, (*words, _BOUNDARY) if is_end else words) - self._value((), words)
        after = (*before, *words)[1 - MAX_ORDER :]
        while after and after not in self._ngrams:
            after = after[1:]
        number = self._number_of.setdefault(after, len(self._states))
        if number == len(self._states):
            self._states.append(after)
        return value, number

    def _value(self, before: Words, words: Words) -> float:
        """Return the value of the n-grams that end in `words`."""
        text = before + words
        ends = range(len(before) + 1, len(text) + 1)
        return sum(
            1 / (MAX_ORDER * _PRECISION * _RATIO ** (order - 1))
            for end in ends
            for order in range(1, min(end, MAX_ORDER) + 1)
            if text[end - order : end] in self._ngrams
        )


class ReachableModel(LogLinearModel):
    """The translation options of a system, scored by their overlap with the references of one sentence."""

    def __init__(self, system: LogLinearModel, references: Sequence[bytes]) -> None:
        super().__init__([Overlap(references)])
        self._system = system

    def translations(self, source: Words) -> Translations | None:
        """Return the options that the system selects."""
        found = self._system.translations(source)
        return found and self._evaluate(source, found.targets)


def reachable(ini: MosesIni, sentences: Sequence[bytes], references: References, limit: float, options: int) -> Lists:
    """Return translations with a large overlap with the references, for each sentence.

    Args:
        ini: the tuned system.
        sentences: prepared source sentences.
        references: of each sentence.
        limit: the distortion limit, infinite for none.
        options: translation options per phrase.
    """
    system, table = without_column(ini), ini.phrase_table()
    system.set_argument(table.label, "table-limit", str(options))
    settings = DecoderSettings(
        _STACK, 0.0, _POPS, -1 if math.isinf(limit) else int(limit), read_settings(system).longest_phrase
    )
    texts = [words_of(sentence) for sentence in sentences]
    model = load_model(system, texts, settings)
    weights = option_weights(ini) or ini.weights_of_features()
    model.set_weights({**weights, table.label: weights[table.label][: table.width]})
    lists = []
    for text, known in zip(texts, references, strict=True):
        graph = Search(ReachableModel(model, known), settings, text).run(keep_arcs=True)
        lists.append([b" ".join(one.words) for one in graph.n_best(_REACHED, distinct=True)] or [b""])
    return lists


def choose(statistics: Sequence[Statistics]) -> list[int]:
    """Return a choice from the candidates of each sentence, [C, 9], with a high BLEU of the corpus."""
    chosen = [int(smoothed_bleu(candidates_C9).argmax()) for candidates_C9 in statistics]
    total_9 = sum(candidates_C9[one].astype(np.int64) for one, candidates_C9 in zip(chosen, statistics, strict=True))
    is_better = True
    while is_better:
        is_better = False
        for number, candidates_C9 in enumerate(statistics):
            bleu_C = bleu(total_9 - candidates_C9[chosen[number]] + candidates_C9)
            best = int(bleu_C.argmax())
            if bleu_C[best] > bleu_C[chosen[number]]:
                total_9 = total_9 - candidates_C9[chosen[number]] + candidates_C9[best]
                chosen[number], is_better = best, True
    return chosen


def measure_lists(lists: Lists, references: References) -> tuple[float, float]:
    """Return BLEU (0 to 100) of the best choice from lists, and the share of sentences where it is a reference."""
    statistics = [bleu_statistics(known, some) for known, some in zip(references, lists, strict=True)]
    chosen = choose(statistics)
    total_9 = np.sum([some[one] for some, one in zip(statistics, chosen, strict=True)], axis=0)
    reached = [some[one] in known for some, one, known in zip(lists, chosen, references, strict=True)]
    return 100 * float(bleu(total_9)), sum(reached) / len(reached)


def decoded(ini: MosesIni, source: Path, sentences: int, processes: int | None) -> Lists:
    """Return the n-best list of each sentence."""
    networks = networks_of(ini)
    column = ContextColumn(load_scorer(*networks, precision="fp32"), processes, log=log) if networks else None
    toolkit = EmbeddedToolkit(processes, column=column)
    with TemporaryDirectory() as folder, toolkit.translator(ini, source, Path(folder)) as translate:
        path = Path(folder) / "nbest"
        translate(ini.weights(), Path(folder) / "output", NbestRequest(path, max(LISTS)))
        entries = groupby(read_nbest(path), lambda entry: entry.sentence)
        lists = {number: [entry.words for entry in some] for number, some in entries}
    # Lines without words have no list.
    return [lists.get(number, [b""]) for number in range(sentences)]


def oracle_table(
    ini: MosesIni, source: Path, references: Sequence[Path], processes: int | None = None
) -> Iterator[tuple[str, float, float]]:
    """Yield the rows of the table: the name of an oracle, its BLEU, and the share of sentences that are references."""
    sentences, known = read_dev_set(source, references)
    lists = decoded(ini, source, len(sentences), processes)
    for size in (1, *LISTS):
        name = "first translation" if size == 1 else f"best of {size:,}"
        yield name, *measure_lists([some[:size] for some in lists], known)
    found: dict[tuple[float, int], Lists] = {}
    for limit, options in LIMITS:
        found[limit, options] = reachable(ini, sentences, known, limit, options)
        # What narrower limits reach is reachable, too, although the search may miss it.
        within = [some for limits, some in found.items() if limits[0] <= limit and limits[1] <= options]
        reached = [list(chain.from_iterable(some)) for some in zip(*within, strict=True)]
        reach = "no distortion limit" if math.isinf(limit) else f"distortion limit {limit}"
        yield f"reachable, {reach}, {options} options", *measure_lists(reached, known)


def parse_arguments() -> argparse.Namespace:
    """Return the options."""
    parser = CommandParser(prog="python -m experiments.oracle", description=__doc__.split("\n", 1)[0])
    parser.add_argument("folder", type=Path, help="folder of a finished ablation")
    parser.add_argument("row", help="a row of it that the decoder translates, such as +CTX; its first run is measured")
    parser.add_argument("--processes", type=positive, help="processes for n-best lists (default: all cores)")
    return parser.parse_args()


def run(args: argparse.Namespace) -> int:
    """Write FOLDER/oracle.ROW.json, a file of docs/results, and print the table.

    Raises:
        UserError: the row has no tuned system.
    """
    inis = sorted((args.folder / "rows").glob(f"{args.row}.seed*/moses.ini"))
    if not inis:
        raise UserError(f"{args.folder}/rows: has no {args.row}.seed*/moses.ini; give a finished row of the decoder")
    source, *references = [
        args.folder / "prepared" / "dev.source",
        *sorted(args.folder.glob("prepared/dev.reference*")),
    ]
    rows: list[Sequence[Any]] = []
    for row in oracle_table(MosesIni.read(inis[0]), source, references, args.processes):
        log(f"{row[0]}: {row[1]:.2f}")
        rows.append(list(row))
    result = {
        "kind": "table",
        "title": f"Oracles of {args.row}",
        "description": "Lower bounds, see experiments/oracle.py. Reference: share of sentences equal to a reference.",
        "columns": {"translation": "", "dev BLEU": ".2f", "reference": ".1%"},
        "rows": rows,
        "provenance": {
            "version": code_version("experiments"),
            "machine": machine(),
            "sha256": {path.name: sha256_of(path) for path in (inis[0], source, *references)},
        },
    }
    write_json(args.folder / f"oracle.{args.row}.json", result)
    table = table_of(result)
    selection = table.select(list(table.columns))
    print(as_markdown(selection.head(), selection.body()))
    return 0


if __name__ == "__main__":
    arguments = parse_arguments()
    sys.exit(run_command("experiments.oracle", lambda: run(arguments)))
