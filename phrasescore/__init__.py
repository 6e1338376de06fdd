"""Neural scores for Moses phrase tables, after Cho et al. (EMNLP 2014).

From Python:

    import phrasescore

    if __name__ == "__main__":                                                # because processes are spawned
        scorer = phrasescore.train("phrase-table.gz", "rnn", max_minutes=30)  # or phrasescore.load_scorer("rnn")
        phrasescore.score([("the black dogs", "les chiens noirs")], scorer)   # ln p(target | source) of each pair
        phrasescore.annotate("phrase-table.gz", scorer, "phrase-table.rnn.gz")
        phrasescore.check("phrase-table.rnn.gz", num_features=5).problems
        str(phrasescore.translate(["the black dogs"], scorer, beam=5)[0][0])

Invalid input and invalid option values raise a `UserError`, whose message is one sentence. An argument of the wrong
type raises a `TypeError`.
"""

import importlib
import logging
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from phrasescore.errors import UserError
    from phrasescore.library import (
        annotate,
        check,
        inspect,
        join,
        lm_train,
        prune,
        read_report,
        score,
        score_in_context,
        train,
        translate,
        word_scores,
    )
    from phrasescore.lm.text_scores import TextScores, lm_score
    from phrasescore.parallel_text import ParallelText
    from phrasescore.plugins import load_plugins
    from phrasescore.scoring.annotate import Counts
    from phrasescore.scoring.occurrences import Context, Occurrences
    from phrasescore.scoring.scorer import Column, PhraseScorer, Scores, load_scorer, register_scorer
    from phrasescore.table.check import TableReport
    from phrasescore.translator import Translation

__all__ = [
    "Column",
    "Context",
    "Counts",
    "Occurrences",
    "ParallelText",
    "PhraseScorer",
    "Scores",
    "TableReport",
    "TextScores",
    "Translation",
    "UserError",
    "WordCounts",
    "annotate",
    "check",
    "inspect",
    "join",
    "lm_score",
    "lm_train",
    "load_plugins",
    "load_scorer",
    "prune",
    "read_report",
    "register_scorer",
    "score",
    "score_in_context",
    "train",
    "translate",
    "word_scores",
]
__version__ = "0.1.0"

# The library logs unusual events; only the command line attaches a handler.
logging.getLogger(__name__).addHandler(logging.NullHandler())

# GNU OpenMP threads spin for milliseconds after each operation. If other processes run on the machine, spinning threads
# take CPU time from the thread that they wait for, which slows everything down many times. Spinning for microseconds
# costs nothing on an idle machine. Set this before torch is imported.
os.environ.setdefault("GOMP_SPINCOUNT", "10000")

_MODULES = {
    "Column": "scoring.scorer",
    "Context": "scoring.occurrences",
    "Counts": "scoring.annotate",
    "Occurrences": "scoring.occurrences",
    "ParallelText": "parallel_text",
    "PhraseScorer": "scoring.scorer",
    "Scores": "scoring.scorer",
    "TableReport": "table.check",
    "TextScores": "lm.text_scores",
    "Translation": "translator",
    "UserError": "errors",
    "WordCounts": "vocabulary",
    "annotate": "library",
    "check": "library",
    "inspect": "library",
    "join": "library",
    "lm_score": "lm.text_scores",
    "lm_train": "library",
    "load_plugins": "plugins",
    "load_scorer": "scoring.scorer",
    "prune": "library",
    "read_report": "library",
    "register_scorer": "scoring.scorer",
    "score": "library",
    "score_in_context": "library",
    "train": "library",
    "translate": "library",
    "word_scores": "library",
}


def __getattr__(name: str) -> Any:
    """Import names lazily, so that the command line responds before torch is loaded."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
