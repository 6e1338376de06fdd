"""What the networks are and how they learnt."""

from __future__ import annotations

import math
from typing import Any

from experiments.ablation.networks import CONTEXT, CSLM, S2S
from experiments.ablation.report import loss_of, outside_shortlist
from experiments.ablation.rows import ENSEMBLE, REVERSE
from experiments.report.charts import Key, Line, Mark, charts, legend, line_chart
from experiments.report.loaded import Json, LoadedAblation
from experiments.report.markup import Html, element, heading, join, table

_LOSSES = ("training", "held_out", "validation")
_VOCABULARIES = ("source_vocabulary", "target_vocabulary", "vocabulary")
_COVERAGES = ("source_coverage", "target_coverage", "coverage")
_NOTE = (
    "Losses of the weights that were kept, in nats (natural logarithms); perplexity is that of a word, the end of a "
    "phrase or sentence counted as one. Held-out pairs are drawn from the table that the others come from, so their "
    "loss flatters; validation is other text. The training loss is the mean since the evaluation before, with dropout "
    "and penalties where they are used."
)


def networks(ablation: LoadedAblation) -> Html:
    """Return what the networks are, how well they predict, and their learning curves; nothing if there are none."""
    found: dict[str, Json] = ablation.report["networks"]
    if not found:
        return Html()
    parts = [
        _table(found),
        element("p", _NOTE, class_="note"),
        _options(ablation.report["config"], found),
        _coverage(ablation.report.get("tables", {})),
        _perplexities(found),
    ]
    curves = [_curve(name, network) for name, network in found.items()]
    if curves:
        keys = [Key(name.replace("_", "-"), number) for number, name in enumerate(_LOSSES)]
        parts += [legend(keys), charts(curves)]
    return join(parts)


def _table(found: dict[str, Json]) -> Html:
    names = ("network", "sizes", "parameters", "words known", "of the text", "passes", "minutes", "training loss")
    head: list[list[str]] = [
        [
            *(heading(name, rows=2, of_text=name == "sizes") for name in names),
            heading("validation loss", columns=3),
            heading("held-out loss", columns=2),
        ],
        ["pair", "word", "perplexity", "pair", "word"],
    ]
    body = []
    for name, network in found.items():
        config, best, last = network.get("config", {}), network["best"], network["evaluations"][-1]
        training = config.get("training", {})
        held_out, validation = ([loss_of(best, part, unit) for unit in ("pair", "word")] for part in _LOSSES[1:])
        body.append(
            [
                name,
                element("td", _sizes(config.get("model", {})), class_="text"),
                _number(network.get("parameters"), ",d"),
                " / ".join(f"{config[key]['words']:,}" for key in _VOCABULARIES if key in config),
                " / ".join(f"{training[key]:.1%}" for key in _COVERAGES if training.get(key) is not None),
                _number(last.get("epoch"), ".1f"),
                _number(last["seconds"] / 60 if "seconds" in last else None, ".1f"),
                _number(best.get("training_loss"), ".2f"),
                *map(_number, validation, (".2f", ".3f")),
                _number(None if validation[1] is None else math.exp(validation[1]), ".2f"),
                *map(_number, held_out, (".2f", ".3f")),
            ]
        )
    return table(head, body, "Networks")


def _sizes(model: Json) -> str:
    sizes = {key: value for key, value in model.items() if isinstance(value, int) and not isinstance(value, bool)}
    return ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in sizes.items())


def _number(value: Any, form: str) -> str:
    return "" if value is None else format(value, form)


def _options(config: Json, found: dict[str, Json]) -> Html:
    """Return the commands' options, where the configuration has any for the networks found."""
    commands = {
        "phrasescore train": ("network", (*ENSEMBLE, REVERSE)),
        "phrasescore lm train": ("language_model", (CSLM,)),
        "phrasescore train --source": ("sentence_network", (S2S,)),
        "phrasescore train --alignment": ("context_network", (CONTEXT,)),
    }
    given = [
        f"{command} … {' '.join(config[key])}"
        for command, (key, names) in commands.items()
        if config.get(key) and not found.keys().isdisjoint(names)
    ]
    return join(element("p", element("code", command), class_="note") for command in given)


def _coverage(tables: dict[str, Json]) -> Html:
    """Return how many words of the scored part of the phrase table the networks do not know."""
    body = []
    for name, annotated in tables.items():
        counts = annotated["counts"]
        lines, clipped = counts["lines_written"], counts["pairs_clipped"]
        unknown = [counts[f"{side}_words_unknown"] / max(counts[f"{side}_words"], 1) for side in ("source", "target")]
        body.append([name, f"{lines:,}", *(f"{share:.2%}" for share in unknown), f"{clipped:,}"])
    head = ["table", "phrase pairs for dev and test", "unknown source words", "unknown target words", "clipped scores"]
    return table([head], body, "Phrase pairs that were scored") if body else Html()


def _perplexities(found: dict[str, Json]) -> Html:
    """Return perplexities beside those of the n-gram model, where they were measured."""
    body = []
    for name, report in ((name, one) for name, network in found.items() for one in network.get("perplexities", [])):
        values = report["perplexity"]
        perplexities = [f"{values[key]:.2f}" for key in ("network", "backoff", "interpolation")]
        gain = f"{values['interpolation'] / values['backoff'] - 1:+.1%}"
        outside = f"{outside_shortlist(report):.2%}"
        model = f"{name}, outputs taken for ln p" if report["unnormalised"] else name
        body.append([model, *perplexities, gain, f"{report['weight']:.2f}", outside])
    head = [
        "network",
        "alone",
        "n-gram model",
        "interpolated",
        "against the n-gram model",
        "weight",
        "outside shortlist",
    ]
    note = (
        "Ends of sentences and unknown words are counted. The weight is the network’s, from the dev text. Outputs that "
        "are taken for ln p sum to one only nearly, so that what they give estimates a perplexity."
    )
    shown = table([head], body, "Perplexity of the test text")
    return join([shown, element("p", note, class_="note")]) if body else Html()


def _curve(name: str, network: Json) -> Html:
    evaluations, best = network["evaluations"], network["best"]
    unit = "pair" if any(loss_of(best, key, "pair") is not None for key in _LOSSES[1:]) else "word"
    lines = []
    for number, key in enumerate(_LOSSES):
        losses = [(one["update"], _loss(one, key, unit)) for one in evaluations]
        points = [(update, loss) for update, loss in losses if loss is not None]
        if points:
            lines.append(Line(points, number))
    passes = evaluations[-1]["epoch"]
    description = f"Losses of {name} over {evaluations[-1]['update']:,} updates, {passes:.1f} passes"
    # The weights are chosen by the validation loss if there is one.
    chosen_by = [loss for key in ("validation", "held_out") if (loss := _loss(best, key, unit)) is not None]
    mark = Mark(best["update"], chosen_by[0], f"kept: {chosen_by[0]:.2f}") if chosen_by else None
    if mark:
        description += f"; those kept have {mark.y:.2f} nats per {unit} after {best['update']:,} updates"
    return line_chart(name, lines, f"updates ({passes:.1f} passes)", f"nats per {unit}", description, mark)


def _loss(evaluation: Json, key: str, unit: str) -> float | None:
    return evaluation.get("training_loss") if key == "training" else loss_of(evaluation, key, unit)
