"""`phrasescore-smt evaluate`: BLEU, and whether a difference is more than chance."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from moses_integration.cli.options import natural
from phrasescore.cli.console import Reporter
from phrasescore.cli.options import positive, refuse_idle

_TRIALS, _SEED = 10_000, 1


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "evaluate",
        help="BLEU of translations, and the significance of a difference",
        description="sacreBLEU with its signature; with --baseline, paired approximate randomisation.",
    )
    parser.add_argument("translations", type=Path, metavar="TEXT", help="the system's translations")
    parser.add_argument(
        "--reference", type=Path, nargs="+", action="extend", required=True, metavar="TEXT", help="one file or more"
    )
    parser.add_argument("--baseline", type=Path, metavar="TEXT", help="another system's translations to compare with")
    parser.add_argument(
        "--tokenise",
        choices=("13a", "intl", "none", "char"),
        default="13a",
        help="how sacreBLEU splits words; none for tokenised text (default: %(default)s)",
    )
    parser.add_argument(
        "--lowercase",
        action="store_true",
        help="without regard to capitals: for a system of `build --casing lower`, which cannot restore them",
    )
    parser.add_argument("--trials", type=positive, metavar="N", help=f"of the randomisation (default: {_TRIALS})")
    parser.add_argument("--seed", type=natural, metavar="N", help=f"of the randomisation (default: {_SEED})")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    from moses_integration.evaluation import compare, score

    references, say = list(args.reference), Reporter(quiet=False).say
    if args.baseline is None:
        refuse_idle(args, ["trials", "seed"], "without --baseline")
        result = score(args.translations, references, args.tokenise, args.lowercase, say)
        print(json.dumps(asdict(result), indent=2) if args.json else f"BLEU {result.bleu:.2f}  {result.signature}")
        return 0
    trials, seed = args.trials or _TRIALS, _SEED if args.seed is None else args.seed
    comparison = compare(args.translations, args.baseline, references, args.tokenise, trials, seed, args.lowercase, say)
    if args.json:
        print(json.dumps(asdict(comparison), indent=2))
    else:
        print(
            f"BLEU {comparison.bleu:.2f}  baseline {comparison.baseline_bleu:.2f}  difference "
            f"{comparison.bleu - comparison.baseline_bleu:+.2f}  p = {comparison.p_value:.4f}  {comparison.signature}"
        )
    return 0
