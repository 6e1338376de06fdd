"""Sections of a moses.ini that change what Moses prints, and not how it translates (moses/Parameter.cpp)."""

from __future__ import annotations

from moses_integration.ini.lines import IniLines

PRINTING = {
    # A translation with its number, score, alignment or segmentation; words that no decoder changes.
    **dict.fromkeys(("print-id", "print-passthrough", "print-alignment-info", "output-hypo-score"), "false"),
    **dict.fromkeys(("report-segmentation", "report-segmentation-enriched", "report-all-factors"), "false"),
    **dict.fromkeys(("sort-word-alignment", "start-translation-id"), "0"),
    **dict.fromkeys(("show-weights", "recover-input-path"), "false"),
    # N-best lists.
    **dict.fromkeys(("n-best-list", "lattice-samples"), ""),
    "n-best-factor": "20",
    "labeled-n-best-list": "true",
    **dict.fromkeys(("n-best-trees", "include-segmentation-in-n-best", "print-alignment-info-in-n-best"), "false"),
    **dict.fromkeys(("report-all-factors-in-n-best", "print-passthrough-in-n-best"), "false"),
    # Reports in files of their own.
    **dict.fromkeys(("translation-details", "translation-all-details", "tree-translation-details"), ""),
    **dict.fromkeys(("alignment-output-file", "output-unknowns", "output-word-graph"), ""),
    **dict.fromkeys(("output-search-graph", "output-search-graph-extended", "output-search-graph-slf"), ""),
    **dict.fromkeys(("output-search-graph-hypergraph", "output-search-graph-pb"), ""),
    **dict.fromkeys(("unpruned-search-graph", "include-lhs-in-search-graph", "print-all-derivations"), "false"),
}
"""Their names, each with the value that has no effect."""


def printing_sections(ini: IniLines) -> list[str]:
    """Return the sections that change what Moses prints."""
    return [name for name in ini.sections() if name in PRINTING and ini.values(name) not in ([], [PRINTING[name]])]
