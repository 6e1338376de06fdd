"""Steps that make a system of text: language model, tables, and what texts need of the tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from heapq import nlargest
from itertools import groupby
from pathlib import Path

from experiments.wmt14.text import SETTINGS
from moses_integration.build import language_model
from moses_integration.build.corpus import Corpus
from moses_integration.build.pair_alignment import LONGEST_PHRASE
from moses_integration.build.system import INI, PHRASE_TABLE, REORDERING_TABLE, write_initial_ini
from moses_integration.build.system_text import PREPARATION
from moses_integration.toolkits.choice import choose_toolkit
from moses_integration.toolkits.installation import run_step
from moses_integration.toolkits.toolkit import ToolkitName
from phrasescore.errors import UserError
from phrasescore.files import open_input, open_output, read_bytes, write_atomically, write_json
from phrasescore.table.entry import LineFault, cut_line, cut_source, parse_scores
from phrasescore.table.sources import phrases_in_texts

_DIRECT = 2
"""Which score of a table is p(target | source)."""


def build_language_model(text: str, output: str, order: int, memory: str) -> None:
    """Estimate a model; readers tell its form."""
    # Beside the model: /tmp is often too small to sort in.
    arpa, model = Path(f"{output}.arpa"), Path(output)
    language_model.build_language_model(Path(text), arpa, order, memory=memory, temporary_folder=model.resolve().parent)
    program = language_model.find_kenlm_program("build_binary")
    if program is None:
        arpa.replace(model)
        return
    command: list[str | Path] = [program, "-T", f"{arpa}.sorting", "trie", arpa, model]
    run_step("binary language model", command, Path(f"{output}.log"), [model])
    arpa.unlink()


def build_tables(corpus: Sequence[str], system: str, lm: str, order: int, toolkit: ToolkitName) -> None:
    """Build the tables of a corpus, source, target and links of one stem, and the moses.ini beside them."""
    folder = Path(system)
    choose_toolkit(toolkit).build_tables(Corpus(*map(Path, corpus)), folder, LONGEST_PHRASE)
    write_json(folder / PREPARATION, asdict(SETTINGS))
    write_initial_ini(folder, str(Path(lm).resolve()), order)


def filter_system(system: str, texts: Sequence[str], limit: int, ini: str) -> None:
    """Write what prepared source texts need of a system into the folder of `ini`.

    Of a source phrase the `limit` likeliest translations are kept; the decoder takes 20 of them by all its features.
    """
    whole, folder = Path(system), Path(ini).parent
    sources = phrases_in_texts(list(map(Path, texts)), LONGEST_PHRASE)
    # Two pairs of one hash would only leave one line more in the reordering table.
    kept: set[int] = set()
    with open_input(whole / PHRASE_TABLE) as table, open_output(folder / PHRASE_TABLE) as stream:
        for line in likeliest(table.stream, sources, limit, whole / PHRASE_TABLE):
            kept.add(_pair(line))
            stream.write(line)
    with open_input(whole / REORDERING_TABLE) as table, open_output(folder / REORDERING_TABLE) as stream:
        stream.writelines(line for line in table.stream if _pair(line) in kept)
    write_json(folder / PREPARATION, asdict(SETTINGS))
    # The tables have the same names in both folders, and the language model an absolute one.
    write_atomically(Path(ini), read_bytes(whole / INI))


def likeliest(lines: Iterable[bytes], sources: frozenset[bytes], limit: int, path: Path) -> Iterator[bytes]:
    """Yield the lines of a table that are for these phrases, of each the likeliest ones, in their order.

    The lines of a phrase must stand together, as they do in a table of Moses.

    Raises:
        UserError: a line has no such score; `path` names the table.
    """
    for source, group in groupby(lines, cut_source):
        if source in sources:
            numbered = list(enumerate(group))
            best = nlargest(limit, numbered, lambda one: _direct(one[1], path)) if len(numbered) > limit else numbered
            yield from (line for _, line in sorted(best))


def _direct(line: bytes, path: Path) -> float:
    try:
        return parse_scores(cut_line(line).scores)[_DIRECT]
    except (IndexError, LineFault):
        shown = line.decode("utf-8", "replace").strip()
        raise UserError(f"{path}: `{shown}` has no third score; give a table with Moses' four scores") from None


def _pair(line: bytes) -> int:
    entry = cut_line(line)
    return hash((entry.source, entry.target))
