"""Parallel text to experiment on.

`prepare` writes one of the data sets in `DATA_SETS` into a folder and says which files hold what.
"""

from experiments.data.data_sets import DATA_SETS, prepare
from experiments.data.folder import DataFolder

__all__ = ["DATA_SETS", "DataFolder", "prepare"]
