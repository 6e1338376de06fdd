"""moses.ini: read, edit without touching anything else, write."""

from moses_integration.ini.additions import (
    NEW_WEIGHT,
    add_columns,
    add_feature,
    first_weight,
    narrowed,
    score_count,
    widen,
)
from moses_integration.ini.lines import parse_truth, quote_text, split_blanks
from moses_integration.ini.moses_ini import LABEL, FeatureLine, MosesIni, Weights, files_at

__all__ = [
    "LABEL",
    "NEW_WEIGHT",
    "FeatureLine",
    "MosesIni",
    "Weights",
    "add_columns",
    "add_feature",
    "files_at",
    "first_weight",
    "narrowed",
    "parse_truth",
    "quote_text",
    "score_count",
    "split_blanks",
    "widen",
]
