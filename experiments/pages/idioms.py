"""Find retired expressions in what people read: pages, help, messages, docstrings and comments."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

RETIRED = {
    r"go(es|ne)? on with|go(es)? on from": "say: resume, continue",
    r"by heart": "say: memorise, overfit",
    r"mend(s|ed|ing)?": "say: fix",
    r"t(old|ells) of": "say: report, warn about",
    r"strangers?": "say: untrusted",
    r"their like": "say: duplicates",
    r"unplaced?|placed (text|system|table|ini)s?": "say: indexed text, per-text table",
    r"names?(_| )of(_| )places?": "say: position tag",
    r"teller|watchers?|silently\(|PairFunctions?": "say: log callback, callbacks, no_log, phrase-pair model",
    r"functions? of phrase pairs": "say: phrase-pair model",
    r"rests?(_| )on": "say: depends on",
    r"says? so": "say what the message is",
    r"halves of": "say: folds of",
    r"for want of": "say what ran out, or what is missing",
    r"where (it|they) stands?|stands? in (a|the) (table|line|text)": "say: position; is in, occurs in",
    r"walks? (on|through)|one walk": "say: step",
    r"nobody else": "say: serial, alone",
    r"odd(ly)?[_ ](\w+)": "say: invalid, malformed or unusual",
    r"refus(e|es|ed|al)": "say: reject",
    r"blanks": "say: spaces",
    r"learnt of|learns of": "say: trained on",
}
"""Regular expression of each expression, and why it is retired: what a reader finds in other manuals instead."""

_READ = ("*.md", "*.py", "*.toml", "*.ipynb", "Makefile")
_FOLDERS = ("phrasescore", "moses_integration", "experiments", "tests", "docs")
_PATTERNS = {re.compile(rf"(?<!\w)(?:{pattern})(?!\w)", re.IGNORECASE): reason for pattern, reason in RETIRED.items()}


def retired_expressions(root: Path) -> Iterator[str]:
    """Yield `file:line: expression; reason` for each retired expression in the repository."""
    files = [path for pattern in _READ for path in root.glob(pattern)]
    files += [path for folder in _FOLDERS for pattern in _READ for path in (root / folder).rglob(pattern)]
    for path in sorted(files):
        if path == Path(__file__):
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            for pattern, reason in _PATTERNS.items():
                if found := pattern.search(line):
                    yield f"{path.relative_to(root)}:{number}: `{found[0]}`; {reason}"
