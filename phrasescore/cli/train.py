"""`phrasescore train`: train an encoder-decoder on a phrase table or on sentences."""

from __future__ import annotations

import argparse
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from phrasescore.cli.console import Reporter, stop_on_signals
from phrasescore.cli.options import (
    add_device_options,
    add_quiet_option,
    add_section_options,
    add_settings_help,
    path_or_standard_stream,
)
from phrasescore.cli.parser import CommandParser
from phrasescore.cli.training import (
    add_training_options,
    given_layers,
    run_trainer,
)
from phrasescore.configuration import flags_of
from phrasescore.errors import UsageError, spelled
from phrasescore.files import STANDARD_STREAM, require_one_standard_input
from phrasescore.pairs import PairData
from phrasescore.parallel_text import ParallelText
from phrasescore.training.layers import check_nothing_is_held_out, read_presets
from phrasescore.training.settings import DEFAULT_PRESETS, PRESETS, SECTIONS, LearnsFrom, Settings
from phrasescore.training.torchrun import joined

if TYPE_CHECKING:
    from phrasescore.device import Device
    from phrasescore.training.loop import Trainer
    from phrasescore.training.start import Start


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    presets = read_presets(PRESETS)
    parser = subparsers.add_parser(
        "train",
        help="learn an encoder-decoder from a phrase table or from sentences",
        description="Learn an encoder-decoder from the phrase pairs of a Moses phrase table, or from parallel text. "
        "The same command given again resumes a run that was stopped. Several processes that torchrun starts with it "
        "train one network, each on a GPU of its own. Settings come from the preset, then the TOML file (sections "
        "[model], [data], [sentences], [training]), then the command line.",
        most_used=(
            *("table", "output", "preset", "validation", "source", "target", "alignment"),
            *("max_updates", "max_minutes", "hidden", "dropout", "seed", "device"),
        ),
        examples=(
            "phrasescore train phrase-table.gz -o rnn --max-minutes 60",
            "phrasescore train --source train.en --target train.fr --alignment train.align -o ctx",
            "phrasescore train --source train.en --target train.fr -o translator",
        ),
    )
    parser.add_argument(
        "table",
        type=path_or_standard_stream,
        nargs="?",
        metavar="TABLE",
        help="phrase table, - for standard input; or --source",
    )
    parser.add_argument(
        "--preset",
        choices=presets,
        help="cho2014: the paper's settings; small: for CPU cores, as long as suits the number of pairs: a quarter of "
        "an hour on one for a million; context: the same network in sentences; plain: a GRU and nothing else, which "
        "docs/models.md adds to; attention: for sentences, a GRU with attention (default: "
        f"{DEFAULT_PRESETS['table']}, of sentences {DEFAULT_PRESETS['sentences']}, with --alignment "
        f"{DEFAULT_PRESETS['aligned']})",
    )
    parser.add_argument(
        "--validation",
        type=Path,
        metavar="TABLE",
        help="phrase table from other sentences; its loss then decides, not that of held-out pairs, which weights are "
        "kept and when to stop",
    )
    text = parser.add_argument_group("parallel text, in the place of a table")
    text.add_argument("--source", type=Path, metavar="TEXT", help="source sentences, one a line, tokenised")
    text.add_argument("--target", type=Path, metavar="TEXT", help="their translations")
    text.add_argument(
        "--validation-source",
        type=Path,
        metavar="TEXT",
        help="other source sentences, whose loss decides which weights are kept and when to stop; without them "
        "some of the sentences are held out for that",
    )
    text.add_argument("--validation-target", type=Path, metavar="TEXT", help="their translations")
    text.add_argument(
        "--alignment",
        type=Path,
        metavar="POINTS",
        help="word alignment of --source and --target, in the Pharaoh format; the network then learns the phrase pairs "
        "that occur in the sentences, each in its context",
    )
    text.add_argument("--validation-alignment", type=Path, metavar="POINTS", help="that of the other sentences")
    add_training_options(parser)
    add_device_options(parser)
    for name, section in SECTIONS.items():
        if flags_of(section):
            add_section_options(parser, name, section, presets)
    assert isinstance(parser, CommandParser)
    add_settings_help(parser, SECTIONS, presets)
    add_quiet_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the command; return the exit code."""
    with joined() as ranks, stop_on_signals(may_repeat=ranks.number > 1) as stop:
        settings = settings_of(args)
        reporter = Reporter(quiet=args.quiet or not ranks.is_first)
        from phrasescore.device import choose_device, settle_memory
        from phrasescore.training.start import Start

        settle_memory()
        device = choose_device(ranks.device_name(args.device), args.precision)
        with reporter.task("reading") as task, stop.urgently():
            start = Start(args.restart, task.update, reporter.log, ranks)
            trainer, data = _prepare(args, settings, device, start)
        _introduce(reporter, data, settings, has_held_out=len(trainer.task.held_out) > 0)
        if followed := _followed(settings.by_size, trainer):
            reporter.log(f"by the size of the data: {followed}")
        return run_trainer(trainer, reporter, stop, restarted=args.restart, next_command=_next_command(args))


def _next_command(args: argparse.Namespace) -> str:
    """Return the command that uses the trained network."""
    folder = quote(str(args.output))
    if args.alignment is not None:
        return f"phrasescore-smt tune moses.ini --in-context {folder} --source DEV --reference REFERENCE -o tuned.ini"
    if args.source is not None:
        return f"phrasescore translate -m {folder} < TEXT"
    table = "TABLE" if args.table == STANDARD_STREAM else quote(str(args.table))
    return f"phrasescore annotate {table} -m {folder} -o phrase-table.rnn.gz"


def _check_usage(args: argparse.Namespace) -> None:
    """Check that either a table or a text is given, with matching options.

    Raises:
        UsageError: the options are incompatible.
    """
    if (args.table is None) == (args.source is None):
        raise UsageError("give either a phrase table or --source and --target")
    if (args.source is None) != (args.target is None):
        raise UsageError(
            f"{spelled('source')} and {spelled('target')}: are the two sides of one text; give both or neither"
        )
    if (args.validation_source is None) != (args.validation_target is None):
        raise UsageError(
            f"{spelled('validation_source')} and {spelled('validation_target')}: are two sides of one text; give both"
        )
    if args.source is not None and args.validation is not None:
        raise UsageError(f"{spelled('validation')}: is a phrase table; for text give {spelled('validation_source')}")
    _check_alignment(args)
    if args.table is not None and args.validation_source is not None:
        raise UsageError(
            f"{spelled('validation_source')}: is for parallel text; leave it out or give {spelled('source')}"
        )


def _check_alignment(args: argparse.Namespace) -> None:
    """Check that alignments are given for training in context, and only then.

    Raises:
        UsageError: alignments are missing, or nothing uses them.
    """
    if args.alignment is None:
        if args.validation_alignment is not None:
            raise UsageError(
                f"{spelled('validation_alignment')}: is for training in context; give {spelled('alignment')}, too"
            )
        return
    if args.source is None:
        raise UsageError(f"{spelled('alignment')}: is that of parallel text; give {spelled('source')}, no phrase table")
    if (args.validation_source is None) != (args.validation_alignment is None):
        raise UsageError(
            f"{spelled('validation_alignment')}: goes with {spelled('validation_source')}; give both or neither"
        )


def settings_of(args: argparse.Namespace) -> Settings:
    """Return the settings of a run: preset, TOML file, command line.

    Raises:
        UserError: a key or a value is invalid, options are incompatible, or an option would have no effect.
    """
    _check_usage(args)
    settings = Settings.of(_learns_from(args), args.preset, given_layers(args, SECTIONS))
    if args.validation_source is not None:
        # In context, `held_out_limit` has an effect: it limits the phrase pairs of the validation text.
        names = ("held_out", "held_out_limit") if args.alignment is None else ("held_out",)
        check_nothing_is_held_out(settings.given, spelled("validation_source"), names)
    texts = ("source", "target", "alignment")
    inputs = ("table", *texts, "validation", *(f"validation_{name}" for name in texts))
    corpora = settings.data.source_corpus, settings.data.target_corpus
    require_one_standard_input(*(getattr(args, name) for name in inputs), *corpora)
    return settings


def _learns_from(args: argparse.Namespace) -> LearnsFrom:
    if args.source is None:
        return "table"
    return "sentences" if args.alignment is None else "aligned"


def _prepare(
    args: argparse.Namespace, settings: Settings, device: Device, start: Start
) -> tuple[Trainer[Any], PairData]:
    from phrasescore.training.run import prepare, prepare_in_context, prepare_sentences

    if args.source is None:
        return prepare(args.table, args.output, settings, device, args.validation, start)
    text, others = ParallelText(args.source, args.target, args.alignment), None
    if args.validation_source is not None:
        others = ParallelText(args.validation_source, args.validation_target, args.validation_alignment)
    prepare_text = prepare_sentences if args.alignment is None else prepare_in_context
    return prepare_text(text, args.output, settings, device, others, start)


def _followed(by_size: frozenset[str], trainer: Trainer[Any]) -> str:
    """Describe the most important `auto` settings, which depend on the size of the data."""
    network = trainer.task.network.config
    values = {} if network.in_context else {"dropout": network.dropout}
    values["max_updates"] = trainer.config.max_updates
    return ", ".join(f"--{name.replace('_', '-')} {value}" for name, value in values.items() if name in by_size)


def _introduce(reporter: Reporter, data: PairData, settings: Settings, *, has_held_out: bool) -> None:
    facts = data.summary
    is_table = "distinct_pairs" in facts
    pairs = f"{facts['distinct_pairs']:,} distinct pairs" if is_table else f"{facts['sentence_pairs']:,} sentence pairs"
    reporter.log(
        f"{facts['lines']:,} lines, {pairs}; vocabularies of "
        f"{len(data.source_vocabulary):,} and {len(data.target_vocabulary):,} cover "
        f"{facts['source_coverage']:.2%} and {facts['target_coverage']:.2%} of the words"
    )
    if is_table:
        held_out = (
            ": held-out pairs are random pairs of the same table, pieces of sentences it was made from, and show how "
            "well the table is fitted, even if that is by heart; --validation shows pairs of other sentences"
        )
        reporter.log("losses are nats per pair" + (held_out if has_held_out else ""))
    elif settings.model.in_context:
        held_out = "; held-out pairs are of sentences that are not learnt from"
        reporter.log("losses are nats per phrase pair where it occurs" + (held_out if has_held_out else ""))
    else:
        reporter.log(
            "losses are nats per word, ends of sentences included; perplexity is that of references, free-running it "
            "goes on from the network's own words, as some tutorials measure it"
        )
