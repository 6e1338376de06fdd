"""`phrasescore lm score`: ln p of the sentences of a text under a neural language model, or the text's perplexity."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from phrasescore.cli.console import Reporter
from phrasescore.cli.options import add_device_options, path_or_standard_stream
from phrasescore.errors import UsageError, UserError
from phrasescore.files import (
    STANDARD_STREAM,
    display_name,
    require_one_standard_input,
    require_writable,
    write_json,
)
from phrasescore.lm.interpolation import Scores, best_weight, interpolate
from phrasescore.perplexity import perplexity
from phrasescore.text import chunks, text_lines, utf8_lines
from phrasescore.words import split_words

if TYPE_CHECKING:
    from phrasescore.lm.scorer import NeuralLmScorer

_AUTO = "auto"
_SENTENCES_AT_ONCE = 10_000
REPORT_SCHEMA = 1


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "score",
        help="ln p of each sentence of a text, or the text's perplexity",
        description="Print ln p of each sentence of a tokenised text, one a line, end of sentence included, as a "
        "natural logarithm; or with --summary the perplexity of the text.",
    )
    parser.add_argument(
        "text", type=path_or_standard_stream, nargs="?", default="-", help="tokenised text (default: standard input)"
    )
    parser.add_argument("-m", "--model", type=Path, required=True, metavar="FOLDER", help="model folder")
    parser.add_argument(
        "--backoff",
        type=Path,
        metavar="LM",
        help="n-gram model, ARPA or KenLM binary, for the words outside the shortlist; without it each of them gets "
        "the probability of all of them together, and scores are no distribution over words",
    )
    parser.add_argument(
        "--unnormalised",
        action="store_true",
        help="take the network's outputs for ln p, one row of the softmax a word; for networks trained with "
        "--self-normalise",
    )
    parser.add_argument(
        "--interpolate",
        type=_weight,
        metavar="W|auto",
        help="score with W times the probability of the network plus 1 - W times that of the back-off model; auto "
        "takes the W that suits --weight-text best",
    )
    parser.add_argument(
        "--weight-text", type=Path, metavar="TEXT", help="tokenised text for --interpolate auto, not the one scored"
    )
    parser.add_argument("--summary", action="store_true", help="print the perplexity of each model, not the scores")
    parser.add_argument(
        "--report", type=Path, metavar="FILE", help="write the perplexities, and what they rest on, as JSON"
    )
    add_device_options(parser)
    parser.set_defaults(run=run, command="lm score")


def _weight(text: str) -> float | str:
    """Parse a number between 0 and 1, or `auto`."""
    if text == _AUTO:
        return text
    try:
        weight = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"`{text}` is neither a number nor auto") from None
    if not 0 <= weight <= 1:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 1")
    return weight


@dataclass(frozen=True)
class _Scored:
    """Some sentences and what the models give to their words."""

    sentences: list[list[bytes]]
    network: list[Scores]
    backoff: list[Scores]
    """Nothing without a back-off model."""

    def final(self, weight: float | None) -> list[Scores]:
        """Return the scores of the words: the network's, or with its weight those of both models."""
        if weight is None:
            return self.network
        return [interpolate(first, second, weight) for first, second in zip(self.network, self.backoff, strict=True)]


@dataclass
class _Totals:
    """What is counted of a text, and ln p of it by each model."""

    sentences: int = 0
    words: int = 0
    """Ends of sentences among them."""
    outside_shortlist: int = 0
    unknown_to_backoff: int = 0
    network: float = 0.0
    backoff: float = 0.0
    final: float = 0.0

    def add(self, scorer: NeuralLmScorer, scored: _Scored, final: list[Scores]) -> None:
        """Count some sentences, with their final scores."""
        words = [word for sentence in scored.sentences for word in sentence]
        self.sentences += len(scored.sentences)
        self.words += len(words) + len(scored.sentences)
        self.outside_shortlist += sum(scorer.word_id(word) >= scorer.shortlist for word in words)
        if scorer.backoff is not None:
            self.unknown_to_backoff += sum(not scorer.backoff.knows(word) for word in words)
            self.backoff += float(np.concatenate(scored.backoff).sum())
        self.network += float(np.concatenate(scored.network).sum())
        self.final += float(np.concatenate(final).sum())


@dataclass(frozen=True)
class _Summary:
    """What is known of a text, counted as KenLM's `query` counts: ends of sentences are words, unknown words count."""

    sentences: int
    words: int
    """Ends of sentences among them."""
    outside_shortlist: int
    unknown_to_backoff: int | None
    """None without a back-off model, as below."""
    network: float
    """Perplexity, as below."""
    backoff: float | None
    interpolation: float | None
    """None if the models are not interpolated."""


def run(args: argparse.Namespace) -> int:
    """Score; return the exit code."""
    _check_usage(args)
    require_writable(
        None if args.summary else STANDARD_STREAM, args.report, inputs=(args.text, args.backoff, args.weight_text)
    )
    from phrasescore.device import choose_device, settle_memory
    from phrasescore.lm.scorer import NeuralLmScorer

    settle_memory()
    device = choose_device(args.device, args.precision)
    scorer = NeuralLmScorer.load(args.model, device, args.backoff, args.unnormalised)
    weight = _learn_weight(scorer, args.weight_text) if args.interpolate == _AUTO else args.interpolate
    totals = _Totals()
    for scored in _score_text(scorer, args.text, partial(text_lines, say=Reporter(quiet=False).say)):
        final = scored.final(weight)
        totals.add(scorer, scored, final)
        if not args.summary:
            sys.stdout.writelines(f"{scores.sum():.9g}\n" for scores in final)
    summary = _summarise(scorer, totals, weight)
    if args.report:
        write_json(args.report, _make_report(args, scorer, summary, weight))
    if args.summary:
        print(_as_text(scorer, summary, weight), end="")
    return 0


def _check_usage(args: argparse.Namespace) -> None:
    require_one_standard_input(args.text, args.weight_text)
    if args.interpolate is not None and args.backoff is None:
        raise UsageError("--interpolate: needs an n-gram model to interpolate with; give --backoff")
    if (args.interpolate == _AUTO) != (args.weight_text is not None):
        raise UsageError("--interpolate auto and --weight-text need each other; give both or a weight")
    if args.weight_text is not None and _is_same_file(args.text, args.weight_text):
        raise UsageError(f"{args.weight_text}: is the text to be scored; take the weight from another text")


def _is_same_file(first: str | Path, second: Path) -> bool:
    return isinstance(first, Path) and first.exists() and second.exists() and first.samefile(second)


def _learn_weight(scorer: NeuralLmScorer, text: Path) -> float:
    scored = list(_score_text(scorer, text, utf8_lines))
    network, backoff = (
        [one for some in scored for one in some.network],
        [one for some in scored for one in some.backoff],
    )
    return best_weight(np.concatenate(network), np.concatenate(backoff))


def _score_text(
    scorer: NeuralLmScorer, path: str | Path, read: Callable[[str | Path], Iterator[bytes]]
) -> Iterator[_Scored]:
    """Yield a text with its scores, some sentences at a time, so that it may be of any length."""
    is_empty = True
    for lines in chunks(read(path), _SENTENCES_AT_ONCE):
        is_empty = False
        some = [split_words(line) for line in lines]
        network = scorer.word_log_probs(some)
        yield _Scored(some, network, [] if scorer.backoff is None else scorer.backoff.word_log_probs(some))
    if is_empty:
        raise UserError(f"{display_name(path)}: is empty; give a tokenised text, one sentence a line")


def _summarise(scorer: NeuralLmScorer, totals: _Totals, weight: float | None) -> _Summary:
    has_backoff = scorer.backoff is not None
    return _Summary(
        sentences=totals.sentences,
        words=totals.words,
        outside_shortlist=totals.outside_shortlist,
        unknown_to_backoff=totals.unknown_to_backoff if has_backoff else None,
        network=perplexity(-totals.network / totals.words),
        backoff=perplexity(-totals.backoff / totals.words) if has_backoff else None,
        interpolation=None if weight is None else perplexity(-totals.final / totals.words),
    )


def _as_text(scorer: NeuralLmScorer, summary: _Summary, weight: float | None) -> str:
    rows = [
        ("sentences", f"{summary.sentences:,}"),
        ("words and ends of sentences", f"{summary.words:,}"),
        ("words outside the shortlist", f"{summary.outside_shortlist:,}"),
        ("perplexity of the neural language model", f"{summary.network:.3f}"),
    ]
    if summary.backoff is None:
        rows.append(("", "words outside the shortlist share one probability: no distribution over words; --backoff"))
    else:
        rows.append(("perplexity of the back-off model", f"{summary.backoff:.3f}"))
        rows.append(("words unknown to the back-off model", f"{summary.unknown_to_backoff:,}"))
    if scorer.unnormalised:
        rows.append(("", "the network's scores are not normalised: what they give only estimates a perplexity"))
    if weight is not None:
        rows.append(("weight of the neural language model", f"{weight:.4f}"))
        rows.append(("perplexity of the interpolation", f"{summary.interpolation:.3f}"))
    return "".join(f"{name:41}{value}\n" for name, value in rows)


def _make_report(
    args: argparse.Namespace, scorer: NeuralLmScorer, summary: _Summary, weight: float | None
) -> dict[str, Any]:
    """Return the perplexities and what they rest on; digests are those of files as they lie there."""
    from phrasescore.provenance import described
    from phrasescore.versions import versions

    return {
        "schema": REPORT_SCHEMA,
        "model": {"folder": str(args.model), "weights_sha256": scorer.model.weights_digest},
        "backoff": args.backoff and described(args.backoff),
        "unnormalised": scorer.unnormalised,
        "text": {
            **described(args.text),
            "sentences": summary.sentences,
            "words": summary.words,
            "outside_shortlist": summary.outside_shortlist,
            "unknown_to_backoff": summary.unknown_to_backoff,
        },
        "weight": weight,
        "weight_text": args.weight_text and described(args.weight_text),
        "perplexity": {
            "network": summary.network,
            "backoff": summary.backoff,
            "interpolation": summary.interpolation,
        },
        "is_distribution": scorer.is_distribution,
        "computing": {"device": str(scorer.device.torch_device), "precision": scorer.device.precision},
        "versions": versions(),
    }
