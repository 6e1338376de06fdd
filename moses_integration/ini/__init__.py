"""Read, edit and write moses.ini files."""

from moses_integration.ini.additions import (
    NEW_WEIGHT,
    add_column_in_context,
    add_columns,
    add_feature,
    first_weight,
    require_pairs_of,
    score_count,
)
from moses_integration.ini.lines import IGNORED, IN_CONTEXT, FeatureLine, parse_truth, quote_text, split_fields
from moses_integration.ini.moses_ini import LABEL, MosesIni, Weights, files_at

__all__ = [
    "IGNORED",
    "IN_CONTEXT",
    "LABEL",
    "NEW_WEIGHT",
    "FeatureLine",
    "MosesIni",
    "Weights",
    "add_column_in_context",
    "add_columns",
    "add_feature",
    "files_at",
    "first_weight",
    "parse_truth",
    "quote_text",
    "require_pairs_of",
    "score_count",
    "split_fields",
]
