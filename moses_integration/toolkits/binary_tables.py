"""Binary tables, which take less memory and load faster, written by programs of an installed Moses."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from moses_integration.ini import FeatureLine
from moses_integration.toolkits.toolkit import Binary
from phrasescore.errors import UserError


class BinaryForm(NamedTuple):
    """How to convert a table."""

    program: str
    """In Moses' `bin/`."""
    options: list[str | Path]
    artefacts: list[Path]
    """Files that the program must write."""
    kind: str
    """Class of the feature that reads the binary table."""
    path: Path
    """The `path=` of that feature."""


def binary_form(binary: Binary, feature: FeatureLine, table: Path) -> BinaryForm | None:
    """Return how to convert the table of a feature, None if it stays as it is.

    Raises:
        UserError: Moses would not translate with the binary table.
    """
    match binary, feature.kind:
        case "compact", "PhraseDictionaryMemory":
            path = table.with_suffix(".minphr")
            options: list[str | Path] = ["-in", table, "-out", path, "-nscores", str(feature.width)]
            return BinaryForm("processPhraseTableMin", options, [path], "PhraseDictionaryCompact", path)
        case "compact", "LexicalReordering":
            # Moses finds the binary table beside the one that the ini names.
            made = table.with_name(f"{table.name}.minlexr")
            return BinaryForm("processLexicalTableMin", ["-in", table, "-out", table], [made], feature.kind, table)
        case "probing", "PhraseDictionaryMemory":
            if feature.arguments.get("table-limit") == "0":
                raise UserError(
                    f"--binarise probing: ProbingPT has no translations with table-limit=0, as {feature.label} "
                    "has; give a limit, or use --binarise compact"
                )
            path = table.with_suffix(".probing")
            options = ["--input-pt", table, "--output-dir", path, "--num-scores", str(feature.width)]
            files = ("config", "probing_hash.dat", "source_vocabids", "TargetColl.dat", "TargetVocab.dat")
            return BinaryForm("CreateProbingPT", options, [path / name for name in files], "ProbingPT", path)
    return None
