"""The page: one HTML file with its style inside, no scripts, and nothing to fetch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments.report.embedded import embedded
from experiments.report.loaded import LoadedAblation
from experiments.report.markup import Html, element, identifier, join
from experiments.report.networks import networks
from experiments.report.provenance import provenance
from experiments.report.results import costs, overview, results, weights
from experiments.report.translations import translations
from experiments.report.tuning import tuning
from phrasescore import __version__
from phrasescore.files import write_atomically

SENTENCES = 5
"""Of each kind, side by side."""
_STYLE = Path(__file__).with_name("style.css")


@dataclass(frozen=True)
class Contents:
    """What is on the page."""

    ablations: Sequence[LoadedAblation]
    qualitative: Sequence[Path] = ()
    """Folders of `experiments.qualitative`."""
    measurements: Sequence[Path] = ()
    """Folders of `experiments.speed` and `experiments.goldens`."""
    sentences: int = SENTENCES


@dataclass(frozen=True)
class _Section:
    """A part of the page that the list of contents names."""

    title: str
    content: Html
    parts: Sequence[str] = ()

    @property
    def anchor(self) -> str:
        return identifier(self.title)


def write_page(contents: Contents, path: Path) -> None:
    """Write the page.

    Raises:
        UserError: a report is faulty, or the file cannot be written.
    """
    write_atomically(path, page(contents).encode())


def page(contents: Contents) -> str:
    """Return the page.

    Raises:
        UserError: a report is faulty.
    """
    ablations = contents.ablations
    sections = [
        _ablation(title, one, contents.sentences) for title, one in zip(_titles(ablations), ablations, strict=True)
    ]
    sections += _embedded("What the networks have learnt", contents.qualitative)
    sections += _embedded("Speed, and equality with Moses", contents.measurements)
    collapsed = element("div", *(provenance(one) for one in ablations))
    title = "phrasescore: what neural scores are worth"
    if len(ablations) == 1:
        title = f"phrasescore: {sections[0].title}"
    summary = Html()
    if len(ablations) > 1:
        summary = overview(ablations, [(section.title, section.anchor) for section in sections[: len(ablations)]])
    sections.append(_Section("Provenance", collapsed))
    body = [
        element("header", element("h1", title), element("p", _ABOUT), summary),
        _contents(sections),
        element("main", *(_shown(section) for section in sections)),
        element("footer", element("p", f"Written by phrasescore {__version__}, python -m experiments.report.")),
    ]
    head = [
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", title),
        element("style", Html(_STYLE.read_text())),
    ]
    document = element("html", element("head", *head), element("body", *body), lang="en")
    return f"<!DOCTYPE html>\n{document}\n"


_ABOUT = (
    "Phrase-based translation with and without the scores of neural networks, after Cho et al. (EMNLP 2014). Every row "
    "is one system with more features than the baseline; all rows of a data set share text, word alignment, tables and "
    "n-gram model, and each is tuned anew with every seed."
)


def _titles(ablations: Sequence[LoadedAblation]) -> list[str]:
    """Return a title for each: its data, and where two have the same, its folder, by the whole path if it must be."""
    titles = [one.title for one in ablations]
    for named in (lambda one: one.folder.name, lambda one: str(one.folder)):
        titles = [
            f"{one.title} ({named(one)})" if titles.count(title) > 1 else title
            for one, title in zip(ablations, titles, strict=True)
        ]
    return titles


def _ablation(title: str, ablation: LoadedAblation, sentences: int) -> _Section:
    parts = {
        "BLEU": results(ablation),
        "Cost": costs(ablation),
        "Networks": networks(ablation),
        "Tuning": tuning(ablation),
        "Weights": weights(ablation),
        "Translations": translations(ablation, sentences),
    }
    parts = {name: part for name, part in parts.items() if part}
    shown = [element("section", element("h3", name), part, id=identifier(title, name)) for name, part in parts.items()]
    return _Section(title, join(shown), list(parts))


def _embedded(title: str, folders: Sequence[Path]) -> list[_Section]:
    pieces = [element("section", element("h3", folder.name), embedded(folder), class_="embedded") for folder in folders]
    return [_Section(title, join(pieces))] if pieces else []


def _contents(sections: Sequence[_Section]) -> Html:
    entries = []
    for section in sections:
        links = [element("a", section.title, href=f"#{section.anchor}")]
        links += [element("a", part, href=f"#{identifier(section.title, part)}") for part in section.parts]
        entries.append(element("li", join(links, " ")))
    return element("nav", element("ul", *entries), aria_label="contents")


def _shown(section: _Section) -> Html:
    return element("section", element("h2", section.title), section.content, id=section.anchor)
