"""Sections of a moses.ini that change what Moses reads, prints or serves, and not how it translates a sentence.

Source: moses/Parameter.cpp.
"""

from __future__ import annotations

from moses_integration.ini.lines import IniLines

IGNORED = {
    # The text to translate is that of our command.
    "input-file": "",
    # Translations with their numbers, scores, alignment or segmentation.
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
    # The server.
    **dict.fromkeys(("server", "daemon", "serial"), "false"),
    **dict.fromkeys(("server-port", "server-log", "server-timeout", "server-maxconn", "server-maxconn-backlog"), ""),
    **dict.fromkeys(("server-keepalive-maxconn", "server-keepalive-timeout"), ""),
    **dict.fromkeys(("session-timeout", "session-cache-size"), ""),
}
"""Their names, each with the value that has no effect, if there is one."""


def ignored_sections(ini: IniLines) -> list[str]:
    """Return the sections that have an effect in Moses and none here."""
    return [name for name in ini.sections() if name in IGNORED and ini.values(name) not in ([], [IGNORED[name]])]
