"""Neural scores for Moses phrase tables, after Cho et al. (EMNLP 2014).

From Python:

    import phrasescore

    if __name__ == "__main__":                                                # worker processes import this file
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
    from phrasescore.errors import UserError as UserError
    from phrasescore.library import annotate as annotate
    from phrasescore.library import check as check
    from phrasescore.library import inspect as inspect
    from phrasescore.library import join as join
    from phrasescore.library import lm_train as lm_train
    from phrasescore.library import prune as prune
    from phrasescore.library import read_report as read_report
    from phrasescore.library import score as score
    from phrasescore.library import score_in_context as score_in_context
    from phrasescore.library import train as train
    from phrasescore.library import translate as translate
    from phrasescore.library import word_scores as word_scores
    from phrasescore.lm.text_scores import TextScores as TextScores
    from phrasescore.lm.text_scores import lm_score as lm_score
    from phrasescore.parallel_text import ParallelText as ParallelText
    from phrasescore.plugins import load_plugins as load_plugins
    from phrasescore.scoring.annotate import Counts as Counts
    from phrasescore.scoring.columns import Column as Column
    from phrasescore.scoring.occurrences import Context as Context
    from phrasescore.scoring.occurrences import Occurrences as Occurrences
    from phrasescore.scoring.scorer import PhraseScorer as PhraseScorer
    from phrasescore.scoring.scorer import Scores as Scores
    from phrasescore.scoring.scorer import load_scorer as load_scorer
    from phrasescore.scoring.scorer import register_scorer as register_scorer
    from phrasescore.table.check import TableReport as TableReport
    from phrasescore.translator import Translation as Translation
    from phrasescore.vocabulary import WordCounts as WordCounts

__version__ = "0.1.0"

# The library logs unusual events; only the command line attaches a handler.
logging.getLogger(__name__).addHandler(logging.NullHandler())

# GNU OpenMP threads spin for milliseconds after each operation. If other processes run on the machine, spinning threads
# take CPU time from the thread that they wait for, which slows everything down many times. Spinning for microseconds
# costs nothing on an idle machine. Set this before torch is imported.
os.environ.setdefault("GOMP_SPINCOUNT", "1000")

_NAMES = {
    "errors": "UserError",
    "library": "annotate check inspect join lm_train prune read_report score score_in_context train translate "
    "word_scores",
    "lm.text_scores": "TextScores lm_score",
    "parallel_text": "ParallelText",
    "plugins": "load_plugins",
    "scoring.annotate": "Counts",
    "scoring.columns": "Column",
    "scoring.occurrences": "Context Occurrences",
    "scoring.scorer": "PhraseScorer Scores load_scorer register_scorer",
    "table.check": "TableReport",
    "translator": "Translation",
    "vocabulary": "WordCounts",
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}
__all__ = list(_MODULES)


def __getattr__(name: str) -> Any:
    """Import names lazily, so that the command line responds before torch is loaded."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
