"""How tuning went."""

from __future__ import annotations

from experiments.report.charts import Key, Line, charts, legend, line_chart
from experiments.report.loaded import Json, LoadedAblation
from experiments.report.markup import Html, element, join

_MEASURED, _PREDICTED = "bleu", "predicted"
_SHOWN = 8.0
"""BLEU below the highest that the charts show; lower values are drawn at their foot."""


def tuning(ablation: LoadedAblation) -> Html:
    """Return dev BLEU by decoding for every row that was tuned by decoding again and again."""
    rows = {name: row["seeds"] for name, row in ablation.rows.items() if row["seeds"][0].get("iterations")}
    if not rows:
        return Html()
    iterations = [one for seeds in rows.values() for seed in seeds for one in seed["iterations"]]
    values = [one[key] for one in iterations for key in (_MEASURED, _PREDICTED)]
    # One decoding with wild weights must not flatten all curves.
    lowest = max(min(values), max(values) - _SHOWN)
    figures = [_curve(name, seeds, (lowest, max(values))) for name, seeds in rows.items()]
    keys = [Key(f"seed {seed}: dev BLEU of the decoding", number) for number, seed in enumerate(ablation.seeds)]
    keys.append(Key("the same seed: BLEU that the next weights have on the lists so far", None, dashed=True))
    notes = [f"All charts have the same scale; what is more than {_SHOWN:g} BLEU below the highest lies at their foot."]
    others = [name for name in ablation.rows if name not in rows]
    if others:
        notes.append(f"{', '.join(others)}: tuned on one n-best list, without further decodings.")
    return join([legend(keys), charts(figures), element("p", " ".join(notes), class_="note")])


def _curve(name: str, seeds: list[Json], y_range: tuple[float, float]) -> Html:
    lines = []
    for number, seed in enumerate(seeds):
        for key in (_MEASURED, _PREDICTED):
            values = [max(one[key], y_range[0]) for one in seed["iterations"]]
            points = [(float(place), value) for place, value in enumerate(values, start=1)]
            lines.append(Line(points, number, dashed=key == _PREDICTED))
    ends = ", ".join(f"{seed['dev_bleu']:.2f} in {len(seed['iterations'])} decodings" for seed in seeds)
    return line_chart(name, lines, "decoding", "dev BLEU", f"Tuning of {name}: dev BLEU {ends}", y_range=y_range)
