"""Test sentences as the rows translate them, side by side."""

from __future__ import annotations

import html
from dataclasses import dataclass

from sacrebleu.metrics.bleu import BLEU

from experiments.data.folder import DataFolder
from experiments.report.differences import choose, word_differences
from experiments.report.loaded import LoadedAblation
from experiments.report.markup import Html, element, join, table
from phrasescore.text import text_lines

_TAGS = {"same": "span", "new": "ins", "gone": "del"}


@dataclass(frozen=True)
class _Texts:
    """The test text, and what each row made of it with the first seed."""

    sources: list[str]
    references: list[list[str]]
    outputs: dict[str, list[str]]
    bleu: dict[str, list[float]]
    """Sentence BLEU, 0 to 100."""


def translations(ablation: LoadedAblation, count: int) -> Html:
    """Return sentences with their translations by every row; nothing if the texts are not there or only one row is.

    Args:
        ablation: in whose folder the texts are.
        count: sentences of each kind: gains, losses, at random.
    """
    best = ablation.best
    texts = _read(ablation) if count and best is not None else None
    if texts is None or best is None:
        return Html()
    first = ablation.first
    changes = [after - before for before, after in zip(texts.bleu[first], texts.bleu[best], strict=True)]
    chosen = choose(changes, count)
    seed = ablation.seeds[0]
    note = (
        f"These are not typical sentences: the first two groups are the extremes of {len(changes):,}, those where the "
        f"sentence BLEU of {best} (the row with the highest dev BLEU) is farthest above and below that of {first}, "
        f"both tuned with seed {seed}. The third group is drawn at random from the rest. The table counts all "
        "sentences. A number behind a translation is its sentence BLEU (smoothed, so that it is not 0 where no four "
        "words match)."
    )
    key = element(
        "p",
        element("ins", "words"),
        f" that {first} has not; ",
        element("del", "words"),
        f" of {first} that nothing takes the place of.",
        class_="note",
    )
    groups = (
        ("Largest gains", chosen.gains),
        ("Largest losses", chosen.losses),
        ("At random", chosen.random),
    )
    shown = [
        join([element("h4", title), *(_sentence(texts, number, first, best) for number in numbers)])
        for title, numbers in groups
        if numbers
    ]
    return join([element("p", note), _counts(texts, first), key, *shown])


def _read(ablation: LoadedAblation) -> _Texts | None:
    data, seed = DataFolder(ablation.folder / "data", ablation.report["data"]), ablation.seeds[0]
    files = [data.source_file("test"), *data.target_files("test")]
    files += [ablation.folder / "rows" / f"{name}.seed{seed}" / "test.out" for name in ablation.rows]
    if not all(path.exists() for path in files):
        return None
    lines = [[line.decode("utf-8", "replace") for line in text_lines(path)] for path in files]
    if len({len(one) for one in lines}) > 1:
        return None
    count = len(ablation.rows)
    sources, references, outputs = lines[0], lines[1:-count], dict(zip(ablation.rows, lines[-count:], strict=True))
    tokenised = ablation.report["data"]["tokenised"]
    metric = BLEU(tokenize="none" if tokenised else "13a", force=True, effective_order=True)
    bleu = {
        name: [
            float(metric.sentence_score(line, list(of_line)).score)
            for line, *of_line in zip(output, *references, strict=True)
        ]
        for name, output in outputs.items()
    }
    if tokenised:
        # Such text has Moses' escapes, which are not for the eye.
        sources, *references = ([html.unescape(line) for line in text] for text in (sources, *references))
        outputs = {name: [html.unescape(line) for line in text] for name, text in outputs.items()}
    return _Texts(sources, references, outputs, bleu)


def _counts(texts: _Texts, first: str) -> Html:
    body = []
    for name in texts.outputs:
        if name != first:
            pairs = list(zip(texts.bleu[first], texts.bleu[name], strict=True))
            same = sum(a == b for a, b in zip(texts.outputs[first], texts.outputs[name], strict=True))
            higher, lower = (
                sum(after > before for before, after in pairs),
                sum(after < before for before, after in pairs),
            )
            body.append([name, f"{higher:,}", f"{lower:,}", f"{len(pairs) - higher - lower - same:,}", f"{same:,}"])
    head = ["row", "higher", "lower", "equal, other words", "the same translation"]
    return table([head], body, f"Sentence BLEU against {first}: how many sentences")


def _sentence(texts: _Texts, number: int, first: str, best: str) -> Html:
    """Return a sentence; rows with the same translation share a line."""
    before = texts.outputs[first][number]
    lines = [_line("source", texts.sources[number], "given")]
    lines += [_line("reference", reference[number], "given") for reference in texts.references]
    rows_of: dict[str, list[str]] = {before: []}
    for name, output in texts.outputs.items():
        rows_of.setdefault(output[number], []).append(name)
    for translation, names in rows_of.items():
        runs = [element(_TAGS[kind], run) for kind, run in word_differences(before, translation)]
        content = translation if translation == before else join(runs, " ")
        score = element("small", f" {texts.bleu[names[0]][number]:.0f}")
        lines.append(_line(", ".join(names), join([content, score]), "best" if best in names else None))
    change = texts.bleu[best][number] - texts.bleu[first][number]
    title = element("h5", f"Sentence {number + 1} ", element("small", f"{best} {change:+.0f}"))
    return element("article", title, element("dl", *lines), class_="sentence")


def _line(name: str, content: str, style: str | None) -> Html:
    return element("div", element("dt", name), element("dd", content), class_=style)
