"""Steps of the workflow that are not commands: text, language model, tables, filtering, and BLEU of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from experiments.significance import p_value_over_runs
from moses_integration.building import language_model
from moses_integration.building.aligned_corpus import Corpus, clean
from moses_integration.building.extraction import LONGEST_PHRASE
from moses_integration.building.preparation import PREPARATION, SystemText, TextSettings
from moses_integration.building.system import INI, write_initial_ini
from moses_integration.building.translation_tables import PHRASE_TABLE, REORDERING_TABLE
from moses_integration.decoder.tables import filter_table
from moses_integration.metrics import measure
from moses_integration.toolkits.installation import run_step
from moses_integration.toolkits.toolkit import ToolkitName, choose_toolkit
from moses_integration.tuning.tunings import spread
from phrasescore import prune
from phrasescore.files import read_bytes, read_lines, write_atomically, write_json, write_lines
from phrasescore.scoring.annotate_config import phrases_in_texts

SETTINGS = TextSettings("en", "fr", casing="keep")
"""Tokenise and escape, but keep case: the paper does not mention lower-casing."""
_DIRECT = "3"
"""The number of the score p(target | source)."""


def prepare_lines(raw: str, prepared: str, language: str) -> None:
    """Prepare a text, line by line."""
    side = "source" if language == SETTINGS.source_language else "target"
    SystemText(Path(prepared).parent, SETTINGS).prepare(side, raw, Path(prepared))


def prepare_pairs(raw: Sequence[str], prepared: Sequence[str]) -> None:
    """Prepare both sides of a text; drop pairs that are unsuitable for training, such as those longer than 80 words."""
    outputs = [Path(path) for path in prepared]
    whole = [path.with_name(f"whole.{path.name}") for path in outputs]
    for language, before, after in zip((SETTINGS.source_language, SETTINGS.target_language), raw, whole, strict=True):
        prepare_lines(before, str(after), language)
    report = clean(whole[0], whole[1], outputs[0], outputs[1])
    print(f"{prepared[0]}: {report.kept:,} of {report.pairs:,} pairs; dropped {report.dropped}")
    for path in whole:
        path.unlink()


def split(text: str, parts: Sequence[str]) -> None:
    """Split a text into consecutive parts with equal numbers of lines."""
    lines = sum(1 for _ in read_lines(Path(text)))
    rest, size = read_lines(Path(text)), -(-lines // len(parts))
    for part in parts:
        write_lines(Path(part), islice(rest, size))


def build_language_model(text: str, output: str, order: int, memory: str) -> None:
    """Estimate an n-gram model; readers detect its format."""
    arpa, model = Path(f"{output}.arpa"), Path(output)
    language_model.build_language_model(Path(text), arpa, order, memory)
    program = language_model.find_kenlm_program("build_binary")
    if program is None:
        arpa.replace(model)
        return
    command: list[str | Path] = [program, "-T", f"{arpa}.sorting", "trie", arpa, model]
    run_step("binary language model", command, Path(f"{output}.log"), [model])
    arpa.unlink()


def build_tables(corpus: Sequence[str], system: str, lm: str, order: int, toolkit: ToolkitName) -> None:
    """Build the tables and moses.ini of a corpus, given as source, target and alignment files."""
    folder = Path(system)
    choose_toolkit(toolkit).build_tables(Corpus(*map(Path, corpus)), folder, LONGEST_PHRASE)
    write_json(folder / PREPARATION, asdict(SETTINGS))
    write_initial_ini(folder, str(Path(lm).resolve()), order)


def filter_system(system: str, texts: Sequence[str], limit: int, ini: str) -> None:
    """Filter a system for prepared source texts and write it into the folder of `ini`.

    The `limit` most probable translations of each source phrase are kept; the decoder selects 20 by all features.
    """
    whole, folder = Path(system), Path(ini).parent
    sources = phrases_in_texts(list(map(Path, texts)), LONGEST_PHRASE)
    with TemporaryDirectory(dir=folder) as temporary:
        needed = Path(temporary)
        for table in (PHRASE_TABLE, REORDERING_TABLE):
            filter_table(whole / table, sources, needed / table, is_for_reordering=table == REORDERING_TABLE)
        reordering = (needed / REORDERING_TABLE, folder / REORDERING_TABLE)
        prune(needed / PHRASE_TABLE, folder / PHRASE_TABLE, by=_DIRECT, top=limit, reordering=reordering)
    write_json(folder / PREPARATION, asdict(SETTINGS))
    # The moses.ini is valid in both folders: tables have the same names, and the language model has an absolute path.
    write_atomically(Path(ini), read_bytes(whole / INI))


def compare_rows(outputs: Mapping[str, Sequence[Path]], reference: Path, report: Path) -> None:
    """Write BLEU of each row and its difference from the first as JSON; print them as a table."""
    found: dict[str, Any] = {}
    [baseline, *_] = outputs
    print("| row | test BLEU | against the baseline | p |\n|---|---|---|---|")
    for row, runs in outputs.items():
        scores = [measure(run, [reference])["BLEU"] for run in runs]
        mean, deviation = spread([one.score for one in scores])
        p_value = None if row == baseline else p_value_over_runs(runs, outputs[baseline], [reference])
        found[row] = {"bleu": [one.score for one in scores], "mean": mean, "deviation": deviation, "p_value": p_value}
        against = "| | |" if p_value is None else f"| {mean - found[baseline]['mean']:+z.2f} | {p_value:.4f} |"
        print(f"| {row} | {mean:.2f} ± {deviation:.2f} {against}")
    write_json(report, {"rows": found, "signature": scores[0].signature})
