"""Binary forms of text tables, made by programs of an installed Moses: less memory, quicker to load."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from moses_integration.ini import FeatureLine
from moses_integration.toolkits.toolkit import Binary
from phrasescore.errors import UserError


class BinaryForm(NamedTuple):
    """How a table becomes binary."""

    program: str
    """Of Moses' `bin/`."""
    options: list[str | Path]
    artefacts: list[Path]
    """What the program must leave behind."""
    kind: str
    """Class of the feature that reads it."""
    path: Path
    """What moses.ini must name."""


def binary_form(binary: Binary, feature: FeatureLine, table: Path) -> BinaryForm | None:
    """Return how to make the table of a feature binary, None if there is nothing to do.

    Raises:
        UserError: Moses would not translate with the result.
    """
    match binary, feature.kind:
        case "compact", "PhraseDictionaryMemory":
            path = table.with_suffix(".minphr")
            options: list[str | Path] = ["-in", table, "-out", path, "-nscores", str(feature.width)]
            return BinaryForm("processPhraseTableMin", options, [path], "PhraseDictionaryCompact", path)
        case "compact", "LexicalReordering":
            # Moses looks for the binary form beside the table that the ini names.
            made = table.with_name(f"{table.name}.minlexr")
            return BinaryForm("processLexicalTableMin", ["-in", table, "-out", table], [made], feature.kind, table)
        case "probing", "PhraseDictionaryMemory":
            if feature.arguments.get("table-limit") == "0":
                raise UserError(
                    f"--binarise probing: ProbingPT takes the table-limit=0 of {feature.label} for no translation at "
                    "all; give a limit, or take --binarise compact"
                )
            path = table.with_suffix(".probing")
            options = ["--input-pt", table, "--output-dir", path, "--num-scores", str(feature.width)]
            files = ("config", "probing_hash.dat", "source_vocabids", "TargetColl.dat", "TargetVocab.dat")
            return BinaryForm("CreateProbingPT", options, [path / name for name in files], "ProbingPT", path)
    return None
