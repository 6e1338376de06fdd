"""Neural scores for Moses phrase tables, after Cho et al. (EMNLP 2014).

From Python:

    import phrasescore

    scorer = phrasescore.Scorer.load("rnn")
    scorer.score([("the black dogs", "les chiens noirs")])    # ln p(target | source) of each pair
    phrasescore.annotate("phrase-table.gz", scorer, "phrase-table.rnn.gz", columns=[phrasescore.COLUMNS["score"]])
"""

import importlib
import logging
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from phrasescore.scoring.annotate import annotate
    from phrasescore.scoring.columns import COLUMNS
    from phrasescore.scoring.engine import Scorer

__all__ = ["COLUMNS", "Scorer", "annotate"]
__version__ = "0.1.0"

# What the library has to note is said where somebody listens: the command line does.
logging.getLogger(__name__).addHandler(logging.NullHandler())

# GNU OpenMP lets the threads of a finished operation spin for milliseconds. When anything else runs on the
# machine they steal the time of the thread they wait for, and everything gets many times slower; spinning for
# microseconds costs nothing when nothing else runs. It must be set before torch is imported.
os.environ.setdefault("GOMP_SPINCOUNT", "10000")

_MODULES = {"COLUMNS": "columns", "Scorer": "engine", "annotate": "annotate"}


def __getattr__(name: str) -> Any:
    """Import what is asked for only now: the command line is to answer before torch is there."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.scoring.{_MODULES[name]}"), name)
