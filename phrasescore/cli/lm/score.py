"""`phrasescore lm score`: ln p of the sentences of a text under a neural language model, or the text's perplexity."""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from phrasescore import __version__
from phrasescore.cli.options import add_device_options, path_or_standard_stream
from phrasescore.errors import UsageError, UserError
from phrasescore.files import display_name, read_lines, require_writable, sha256_of, sha256_of_input, write_json
from phrasescore.lm.perplexity import Scores, best_weight, interpolate, perplexity
from phrasescore.words import split_words

if TYPE_CHECKING:
    from phrasescore.lm.scorer import NeuralLmScorer

_AUTO = "auto"
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
    """A text and what the models give to its words."""

    sentences: list[list[bytes]]
    network: list[Scores]
    backoff: list[Scores]


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
    require_writable(args.report)
    from phrasescore.device import choose_device, keep_freed_memory
    from phrasescore.lm.scorer import NeuralLmScorer

    keep_freed_memory()
    device = choose_device(args.device, args.precision)
    scorer = NeuralLmScorer.load(args.model, device, args.backoff, args.unnormalised)
    weight = _learn_weight(scorer, args.weight_text) if args.interpolate == _AUTO else args.interpolate
    scored = _score_text(scorer, args.text)
    final = scored.network
    if weight is not None:
        pairs = zip(scored.network, scored.backoff, strict=True)
        final = [interpolate(first, second, weight) for first, second in pairs]
    summary = _summarise(scorer, scored, None if weight is None else final)
    if args.report:
        write_json(args.report, _make_report(args, scorer, summary, weight))
    if args.summary:
        print(_as_text(scorer, summary, weight), end="")
    else:
        sys.stdout.writelines(f"{scores.sum():.9g}\n" for scores in final)
    return 0


def _check_usage(args: argparse.Namespace) -> None:
    if args.interpolate is not None and args.backoff is None:
        raise UsageError("--interpolate: needs an n-gram model to interpolate with; give --backoff")
    if (args.interpolate == _AUTO) != (args.weight_text is not None):
        raise UsageError("--interpolate auto and --weight-text need each other; give both or a weight")
    if args.weight_text is not None and _is_same_file(args.text, args.weight_text):
        raise UsageError(f"{args.weight_text}: is the text to be scored; take the weight from another text")


def _is_same_file(first: str | Path, second: Path) -> bool:
    return isinstance(first, Path) and first.exists() and second.exists() and first.samefile(second)


def _learn_weight(scorer: NeuralLmScorer, text: Path) -> float:
    scored = _score_text(scorer, text)
    return best_weight(np.concatenate(scored.network), np.concatenate(scored.backoff))


def _score_text(scorer: NeuralLmScorer, path: str | Path) -> _Scored:
    sentences = [split_words(line) for line in read_lines(path)]
    if not sentences:
        raise UserError(f"{display_name(path)}: is empty; give a tokenised text, one sentence a line")
    network = scorer.word_log_probs(sentences)
    model = scorer.backoff
    backoff = [] if model is None else model.word_log_probs(sentences)
    return _Scored(sentences, network, backoff)


def _summarise(scorer: NeuralLmScorer, scored: _Scored, interpolated: list[Scores] | None) -> _Summary:
    words = [word for sentence in scored.sentences for word in sentence]
    model = scorer.backoff
    return _Summary(
        sentences=len(scored.sentences),
        words=len(words) + len(scored.sentences),
        outside_shortlist=sum(scorer.word_id(word) >= scorer.shortlist for word in words),
        unknown_to_backoff=None if model is None else sum(not model.knows(word) for word in words),
        network=perplexity(np.concatenate(scored.network)),
        backoff=None if model is None else perplexity(np.concatenate(scored.backoff)),
        interpolation=None if interpolated is None else perplexity(np.concatenate(interpolated)),
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
    import torch

    return {
        "schema": REPORT_SCHEMA,
        "model": {"folder": str(args.model), "weights_sha256": scorer.model.weights_digest},
        "backoff": args.backoff and {"path": str(args.backoff), "sha256": sha256_of(args.backoff)},
        "unnormalised": scorer.unnormalised,
        "text": {
            "path": str(args.text),
            "sha256": sha256_of_input(args.text),
            "sentences": summary.sentences,
            "words": summary.words,
            "outside_shortlist": summary.outside_shortlist,
            "unknown_to_backoff": summary.unknown_to_backoff,
        },
        "weight": weight,
        "weight_text": args.weight_text
        and {"path": str(args.weight_text), "sha256": sha256_of_input(args.weight_text)},
        "perplexity": {
            "network": summary.network,
            "backoff": summary.backoff,
            "interpolation": summary.interpolation,
        },
        "is_distribution": scorer.is_distribution,
        "computing": {"device": str(scorer.device.torch_device), "precision": scorer.device.precision},
        "versions": {"phrasescore": __version__, "torch": torch.__version__},
    }
