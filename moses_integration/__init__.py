"""The Moses side of phrasescore: file formats, an embedded toolkit, and the interface to an installed Moses.

This package imports phrasescore; phrasescore never imports this package. From Python:

    import moses_integration as smt

    if __name__ == "__main__":  # worker processes import this file
        ini = smt.build("train.en", "train.fr", "system")
        smt.tune(ini, "tuned.ini", source="dev.en", reference="dev.fr")["dev_bleu"]
        smt.decode("tuned.ini", "test.en", "test.out")
        smt.evaluate("test.out", "test.fr")[0].metrics["BLEU"].score
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from moses_integration.library import (
        add_column,
        add_language_model,
        build,
        combine,
        decode,
        estimate_gain,
        evaluate,
        prepare,
        rescore,
        strip_tags,
        text_table,
        train_expected_bleu,
        tune,
        tune_rescoring,
    )

__all__ = [
    "add_column",
    "add_language_model",
    "build",
    "combine",
    "decode",
    "estimate_gain",
    "evaluate",
    "prepare",
    "rescore",
    "strip_tags",
    "text_table",
    "train_expected_bleu",
    "tune",
    "tune_rescoring",
]


def __getattr__(name: str) -> Any:
    """Import the functions lazily, so that the command line responds before PyTorch is loaded."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module("moses_integration.library"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
