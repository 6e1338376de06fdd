"""Neural scores for Moses phrase tables, after Cho et al. (EMNLP 2014)."""

__version__ = "0.1.0"
