"""`phrasescore lm score`: compute ln p of sentences, or the perplexity of a text, with a neural language model."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from phrasescore.cli.console import Reporter
from phrasescore.cli.options import add_device_options, path_or_standard_stream
from phrasescore.errors import UsageError
from phrasescore.files import STANDARD_STREAM, require_one_standard_input, require_writable, write_json
from phrasescore.model_files import files_of_models
from phrasescore.text import text_lines

if TYPE_CHECKING:
    from phrasescore.lm.perplexity import TextScores

_AUTO = "auto"
REPORT_SCHEMA = 1


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "score",
        help="print ln p of each sentence of a text, or perplexities",
        description="Print ln p of each sentence of a tokenised text, a natural logarithm that includes the end of the "
        "sentence; or with --summary the perplexity of the text.",
        examples=(
            "phrasescore lm score test.fr -m cslm --backoff system/lm.fr.bin",
            "phrasescore lm score test.fr -m cslm --backoff lm.arpa --interpolate auto --weight-text dev.fr --summary",
        ),
    )
    parser.add_argument(
        "text",
        type=path_or_standard_stream,
        nargs="?",
        default="-",
        metavar="TEXT",
        help="tokenised text (default: standard input)",
    )
    parser.add_argument("-m", "--model", type=Path, required=True, metavar="FOLDER", help="model folder")
    parser.add_argument(
        "--backoff",
        type=Path,
        metavar="LM",
        help="n-gram model, ARPA or KenLM binary, for the words outside the shortlist; without it, each of them gets "
        "the probability of all of them together, so that probabilities do not sum to one",
    )
    parser.add_argument(
        "--unnormalised",
        action="store_true",
        help="take the outputs of the network as ln p, without a softmax; for networks trained with --self-normalise",
    )
    parser.add_argument(
        "--interpolate",
        type=_weight,
        metavar="W",
        help="weight of the network in a linear interpolation with the back-off model: a number from 0 to 1, or auto "
        "for the best weight on --weight-text",
    )
    parser.add_argument(
        "--weight-text",
        type=Path,
        metavar="TEXT",
        help="tokenised text for --interpolate auto; not the text that is scored",
    )
    parser.add_argument("--summary", action="store_true", help="print perplexities instead of scores")
    parser.add_argument("--report", type=Path, metavar="FILE", help="write perplexities, models and checksums as JSON")
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


def run(args: argparse.Namespace) -> int:
    """Run the command; return the exit code."""
    _check_usage(args)
    require_writable(
        None if args.summary else STANDARD_STREAM,
        args.report,
        inputs=(args.text, args.backoff, args.weight_text, *files_of_models([args.model])),
    )
    from phrasescore.device import choose_device, settle_memory
    from phrasescore.lm.lm_scorer import NeuralLmScorer
    from phrasescore.lm.perplexity import TextScores, learn_weight, score_text

    settle_memory()
    device = choose_device(args.device, args.precision)
    scorer = NeuralLmScorer.load(args.model, device, args.backoff, args.unnormalised)
    log = Reporter(quiet=False).log
    weight = learn_weight(scorer, args.weight_text, log) if args.interpolate == _AUTO else args.interpolate
    found = TextScores(scorer, weight)
    for scored in score_text(scorer, args.text, partial(text_lines, log=log)):
        final = found.add(scored)
        if not args.summary:
            sys.stdout.writelines(f"{scores.sum():.9g}\n" for scores in final)
    if args.report:
        write_json(args.report, _make_report(args, found))
    if args.summary:
        print(_as_text(found), end="")
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


def _as_text(found: TextScores) -> str:
    rows = [
        ("sentences", f"{found.sentences:,}"),
        ("words and ends of sentences", f"{found.words:,}"),
        ("words outside the shortlist", f"{found.outside_shortlist:,}"),
        ("perplexity of the neural language model", f"{found.network:.3f}"),
    ]
    if found.backoff is None:
        rows.append(("", "words outside the shortlist share one probability: no distribution over words; --backoff"))
    else:
        rows.append(("perplexity of the back-off model", f"{found.backoff:.3f}"))
        rows.append(("words unknown to the back-off model", f"{found.unknown_to_backoff:,}"))
    if found.scorer.unnormalised:
        rows.append(("", "the network's scores are not normalised: what they give only estimates a perplexity"))
    if found.weight is not None:
        rows.append(("weight of the neural language model", f"{found.weight:.4f}"))
        rows.append(("perplexity of the interpolation", f"{found.interpolation:.3f}"))
    return "".join(f"{name:41}{value}\n" for name, value in rows)


def _make_report(args: argparse.Namespace, found: TextScores) -> dict[str, Any]:
    """Return the perplexities and their provenance; digests are those of the files as stored."""
    from phrasescore.provenance import described
    from phrasescore.versions import versions

    return {
        "schema": REPORT_SCHEMA,
        "model": {"folder": str(args.model), "weights_sha256": found.scorer.model.weights_digest},
        "backoff": args.backoff and described(args.backoff),
        "unnormalised": found.scorer.unnormalised,
        "text": {
            **described(args.text),
            "sentences": found.sentences,
            "words": found.words,
            "outside_shortlist": found.outside_shortlist,
            "unknown_to_backoff": found.unknown_to_backoff,
        },
        "weight": found.weight,
        "weight_text": args.weight_text and described(args.weight_text),
        "perplexity": {
            "network": found.network,
            "backoff": found.backoff,
            "interpolation": found.interpolation,
        },
        "is_distribution": found.scorer.is_distribution,
        "computing": {"device": str(found.scorer.device.torch_device), "precision": found.scorer.device.precision},
        "versions": versions(),
    }
