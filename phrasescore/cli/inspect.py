"""`phrasescore inspect`: show the predictions and gates of a network for one phrase."""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from phrasescore.analysis.candidates import PROBABILITY, Candidate, look_up
from phrasescore.cli.console import Reporter
from phrasescore.cli.options import (
    add_device_options,
    add_model_option,
    add_quiet_option,
    load_networks,
    path_or_standard_stream,
    positive,
)
from phrasescore.errors import UsageError, UserError
from phrasescore.files import display_name
from phrasescore.pairs import orient
from phrasescore.pictures import check_picture
from phrasescore.scoring.occurrences import Occurrences
from phrasescore.search.search_config import SearchConfig
from phrasescore.table.factors import SURFACE
from phrasescore.table.reader import TableReader
from phrasescore.text import counted
from phrasescore.words import split_words

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from phrasescore.analysis.gates import Gates
    from phrasescore.scoring.encoder_decoder import EncoderDecoderScorer

_SEED = 1
_AMONG, _SAMPLES = 30_000, 50
"""Number of phrases that are compared and of targets that are sampled."""
_GATE_WIDTH = 48


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "inspect",
        help="show what a network has learnt about a phrase",
        description="Show the nearest phrases by the cosine of the encoder's summaries, the targets of the table "
        "with the scores of table and network (without a table, the targets that beam search finds), samples of the "
        "network, and the update and reset gates. All logarithms are natural.",
        examples=(
            'phrasescore inspect -m rnn "the letter" --table phrase-table.gz',
            'phrasescore inspect -m rnn "the letter" --gates gates.png',
        ),
    )
    parser.add_argument(
        "phrase",
        metavar="PHRASE",
        help="source phrase, tokenised as the training data",
    )
    add_model_option(parser, several=False)
    parser.add_argument(
        "--table",
        type=path_or_standard_stream,
        metavar="TABLE",
        help="phrase table; - for standard input",
    )
    parser.add_argument(
        "--top",
        type=positive,
        default=5,
        metavar="N",
        help="number of nearest phrases, of targets and of samples to show (default: %(default)s)",
    )
    parser.add_argument(
        "--gates",
        type=Path,
        metavar="FILE",
        help="draw the gates of the first forward layer into a .png, .svg or .pdf file",
    )
    add_device_options(parser)
    add_quiet_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the command; return the exit code."""
    from phrasescore.analysis.gates import encoder_gates
    from phrasescore.analysis.gates_plot import draw

    # Restore the bytes of the argument, whatever the locale.
    phrase = b" ".join(split_words(os.fsencode(args.phrase)))
    if not phrase:
        raise UsageError("the phrase is empty; give at least one word")
    if len(args.models) > 1:
        raise UsageError("--model: looks into one network at a time; give one")
    if args.gates:
        check_picture("--gates", args.gates)
    reporter = Reporter(quiet=args.quiet)
    scorer = load_networks(args)
    if scorer.note is not None:
        reporter.log(scorer.note)
    gates = encoder_gates(scorer, phrase)
    if args.gates:
        if gates is None:
            raise UserError("--gates: the units of this network have no reset and update gates; leave --gates out")
        draw(gates, args.gates)
        reporter.log(f"wrote {args.gates}")
    candidates: list[Candidate] = []
    others: list[bytes] = []
    if args.table:
        reporter.log(f"reading {display_name(args.table)}")
        reader = TableReader(args.table, factors=scorer.factors or SURFACE)
        candidates, others = look_up(reader, scorer.model.direction, phrase, _AMONG)
    else:
        _advise_table(args.models[0], reporter)
    page = _Page(scorer, phrase)
    page.head()
    if others:
        page.neighbours(others, args.top)
    if candidates:
        page.candidates(candidates, args.top)
    else:
        page.searched(args.top, has_table=args.table is not None)
    page.samples(_SAMPLES, args.top)
    if gates is not None:
        page.gates(gates)
    return 0


def _advise_table(model: Path, reporter: Reporter) -> None:
    """Suggest --table with the table that the network was trained on. It is not read by default."""
    from phrasescore.model_folder import training_table

    table = training_table(model)
    learnt = "" if table is None else f" (the network learnt from {display_name(table)})"
    reporter.log(f"{model}: give --table to see the nearest phrases and the table's targets{learnt}")


class _Page:
    """Prints the sections of the report on standard output."""

    def __init__(self, scorer: EncoderDecoderScorer, phrase: bytes) -> None:
        self._scorer, self._phrase = scorer, phrase
        self._console = Console(highlight=False, soft_wrap=True, emoji=False)

    def head(self) -> None:
        """Print the phrase and its unknown words."""
        vocabulary = self._scorer.model.source_vocabulary
        unknown = [_shown(word) for word in self._phrase.split(b" ") if word not in vocabulary]
        note = f"; unknown to the network: {', '.join(unknown)}" if unknown else ""
        model = self._scorer.model
        self._console.print(Text.assemble((_shown(self._phrase), "bold"), f"  ({model.direction}{note})"))
        digests = "as their digests say" if model.is_checked else "without a digest"
        self._console.print(Text(f"weights {digests}", style="dim"))

    def neighbours(self, others: Sequence[bytes], number: int) -> None:
        """Print the nearest phrases."""
        from phrasescore.analysis.vectors import nearest, phrase_vectors

        query_d, *_ = phrase_vectors(self._scorer, [self._phrase])
        found = nearest(query_d, phrase_vectors(self._scorer, others), number)
        self._title(f"Nearest of {counted(len(others), 'phrase')}, by the cosine of the summaries")
        for index, cosine in found:
            self._console.print(Text(f"  {cosine:5.3f}  {_shown(others[index])}"))

    def candidates(self, candidates: Sequence[Candidate], number: int) -> None:
        """Print the best targets by the table and by the network."""
        from phrasescore.analysis.word_scores import word_log_probs

        outputs = [candidate.output for candidate in candidates]
        words = word_log_probs(self._scorer, self._pairs(outputs))
        by_network = sorted(range(len(outputs)), key=lambda i: -float(words[i].sum()))
        by_table = sorted(range(len(outputs)), key=lambda i: -candidates[i].probability)
        shown = set(by_network[:number]) | set(by_table[:number])
        column, name = PROBABILITY[self._scorer.model.direction]
        best = f"of {len(outputs):,} the best {number} by network and by table"
        self._title(f"Targets in the table, {best} (ln of score {column}, {name})")
        self._console.print(Text("   table     RNN  RNN, word by word", style="dim"))
        for index in by_network:
            if index in shown:
                self._target(f"  {math.log(candidates[index].probability):6.2f}", outputs[index], words[index])

    def searched(self, number: int, *, has_table: bool) -> None:
        """Print the best targets that beam search finds."""
        from phrasescore.analysis.word_scores import word_log_probs
        from phrasescore.search.translator import Translator

        # Use a larger beam than is shown, because the best targets need not begin with the most probable words.
        config = SearchConfig(beam=2 * number, n_best=number, length_penalty="none")
        [found] = Translator(self._scorer, config).translate([self._phrase])
        outputs = [one.text for one in found]
        note = "The table has no line with this phrase; the" if has_table else "The"
        self._title(f"{note} best {len(outputs)} targets by beam search")
        self._console.print(Text("     RNN  RNN, word by word", style="dim"))
        for output, words in zip(outputs, word_log_probs(self._scorer, self._pairs(outputs)), strict=True):
            self._target("", output, words)

    def _pairs(self, outputs: Sequence[bytes]) -> Occurrences:
        return Occurrences(*orient(([self._phrase] * len(outputs), list(outputs)), self._scorer.direction))

    def _target(self, before: str, output: bytes, words: NDArray[np.float64]) -> None:
        """Print `before`, a target, and ln p of its words and of the end symbol."""
        line = Text(f"{before}  {words.sum():6.2f} ")
        symbols = [*split_words(output), b"<eos>"]
        for symbol, value in zip(symbols, words.tolist(), strict=True):
            line.append(f" {_shown(symbol)}").append(f" {value:.2f}", style="dim")
        self._console.print(line)

    def samples(self, number: int, shown: int) -> None:
        """Print the most frequent sampled targets."""
        from phrasescore.analysis.sampling import LONGEST, sample_targets

        found = sample_targets(self._scorer, self._phrase, number, _SEED)
        endless = number - sum(sample.times for sample in found)
        left_out = f" ({endless} that had not ended after {LONGEST} words left out)" if endless else ""
        self._title(f"Of {number} targets drawn from the network, the most frequent{left_out}")
        self._console.print(Text("  times     RNN", style="dim"))
        for sample in found[:shown]:
            self._console.print(Text(f"  {sample.times:5}  {sample.log_prob:6.2f}  {_shown(sample.target)}"))

    def gates(self, gates: Gates) -> None:
        """Plot both gates."""
        from phrasescore.analysis.gates_plot import as_text

        symbols = [_shown(symbol) for symbol in gates.symbols]
        units = gates.update_Tn.shape[1]
        for title, gate_Tn in (
            ("Update gate: high where the old state is kept", gates.update_Tn),
            ("Reset gate: low where the old state is forgotten", gates.reset_Tn),
        ):
            self._title(f"{title} (first layer: {units} units, sorted, averaged in groups; the mean behind)")
            for line in as_text(
                gate_Tn,
                symbols,
                _GATE_WIDTH,
                colour=self._console.color_system is not None,
                unicode=self._console.encoding.lower().startswith("utf"),
            ):
                self._console.print(line)

    def _title(self, text: str) -> None:
        self._console.print()
        self._console.print(Text(text, style="bold"))


def _shown(text: bytes) -> str:
    return text.decode("utf-8", "backslashreplace")
