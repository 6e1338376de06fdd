"""Neural scores for Moses phrase tables, after Cho et al. (EMNLP 2014)."""

import logging
import os

__version__ = "0.1.0"

# What the library has to note is said where somebody listens: the command line does.
logging.getLogger(__name__).addHandler(logging.NullHandler())

# GNU OpenMP lets the threads of a finished operation spin for milliseconds. When anything else runs on the
# machine they steal the time of the thread they wait for, and everything gets many times slower; spinning for
# microseconds costs nothing when nothing else runs. It must be set before torch is imported.
os.environ.setdefault("GOMP_SPINCOUNT", "10000")
