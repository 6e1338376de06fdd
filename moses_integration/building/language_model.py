"""Build the language model of a system: by KenLM's `lmplz` if installed, else by the embedded estimator.

Both write the same ARPA file: interpolated modified Kneser-Ney, no pruning, n-grams in the same order; logarithms may
differ in the last bit.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile, gettempdir
from typing import Literal

from moses_integration.building.arpa import write_arpa
from moses_integration.building.kneser_ney import SYMBOLS, estimate, memory_needed
from moses_integration.processes import end_group
from phrasescore.errors import UserError
from phrasescore.files import display_name, full_disk_told, open_output
from phrasescore.memory import available_memory
from phrasescore.text import chunks, text_lines

Estimator = Literal["auto", "lmplz", "embedded"]

ORDERS = range(2, 7)
"""The orders that KenLM loads in the builds of Moses and of its Python module."""

_LINES_AT_ONCE = 1 << 15
_SEPARATORS = bytes.maketrans(b"\t\r", b"  ")

_STATISTICS = re.compile(rb"^\d+ (\d+) D1=(\S+) D2=(\S+) D3\+=(\S+)$", re.MULTILINE)
_FALLBACK = re.compile(rb"^Substituting fallback discounts for order (\d+):", re.MULTILINE)
_MESSAGES_SHOWN = 3


@dataclass(frozen=True)
class LanguageModelReport:
    """How a language model was estimated; tuples go by order, from 1."""

    estimator: str
    """`embedded`, or the path of lmplz."""
    ngram_counts: tuple[int, ...]
    """Including `<unk>`, `<s>` and `</s>`."""
    discounts: tuple[tuple[float, float, float], ...]
    """For counts of 1, of 2, and of 3 and more."""
    fallback_orders: tuple[int, ...]
    """Orders with the discounts 0.5, 1 and 1.5, because their counts define none: small or artificial text."""


def build_language_model(
    text: Path,
    output: Path,
    order: int,
    *,
    estimator: Estimator = "auto",
    memory: str = "50%",
    temporary_folder: Path | None = None,
) -> LanguageModelReport:
    """Estimate a language model of a tokenised text, one sentence a line, and write it as ARPA.

    Words are separated by spaces, tabs and carriage returns; an empty line is a sentence without words, as for lmplz.

    Args:
        text: the training text.
        output: compressed if its suffix says so.
        order: from 2 to 6.
        estimator: `auto` runs the lmplz on the PATH or in $MOSES_HOME/bin if there is one.
        memory: of lmplz, which sorts on disk, in the syntax of GNU sort: `50%`, `4G`.
        temporary_folder: of lmplz.

    Raises:
        UserError: the text has no words or a reserved word, lmplz is missing or fails, or the embedded estimator
            would need too much memory.
    """
    if order not in ORDERS:
        raise UserError(f"the order of a language model cannot be {order}; give one from {ORDERS[0]} to {ORDERS[-1]}")
    program = None if estimator == "embedded" else find_kenlm_program("lmplz")
    if program is not None:
        return _run_lmplz(program, text, output, order, memory, temporary_folder or Path(gettempdir()))
    if estimator == "lmplz":
        raise UserError("lmplz is neither on the PATH nor in $MOSES_HOME/bin; install it or use the embedded estimator")
    return _estimate_embedded(text, output, order)


def find_kenlm_program(name: str) -> str | None:
    """Return the path of one of KenLM's programs, on the PATH or in $MOSES_HOME/bin."""
    home = os.environ.get("MOSES_HOME")
    return shutil.which(name) or (shutil.which(name, path=Path(home) / "bin") if home else None)


def _estimate_embedded(text: Path, output: Path, order: int) -> LanguageModelReport:
    with open_output(output) as stream:
        model = estimate(_within_memory(_read_blocks(text), text, order), order)
        write_arpa(stream, model.words, model.sections)
    return LanguageModelReport(
        "embedded",
        tuple(map(len, model.sections)),
        tuple((float(d[1]), float(d[2]), float(d[3])) for d in model.discounts),
        model.fallback_orders,
    )


def _within_memory(blocks: Iterable[bytes], path: Path, order: int) -> Iterator[bytes]:
    """Yield blocks while a model of them fits into memory; raise a UserError at the end if the whole text does not."""
    available = available_memory()
    words = lines = needed = 0
    for block in blocks:
        words += len(block.split())
        lines += block.count(b"\n")
        # Each line has <s> and </s>.
        needed = memory_needed(words + 2 * lines, order)
        if needed <= available:
            yield block
    if needed > available:
        raise UserError(
            f"{display_name(path)}: a language model of order {order} of its {words:,} words takes about "
            f"{needed / 1e9:.1f} GB of memory, but {available / 1e9:.1f} GB are free; install KenLM's lmplz, which "
            "sorts on disk, or give less text or a lower order"
        )


def _run_lmplz(
    program: str, text: Path, output: Path, order: int, memory: str, temporary_folder: Path
) -> LanguageModelReport:
    command = [program, "-o", str(order), "-S", memory, "-T", str(temporary_folder), "--discount_fallback"]
    with (
        open_output(output) as stream,
        full_disk_told(f"a temporary file in {temporary_folder}"),
        TemporaryFile(dir=temporary_folder) as checked_text,
        TemporaryFile(dir=temporary_folder) as log,
    ):
        checked_text.writelines(_read_blocks(text))
        checked_text.seek(0)
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=checked_text, stdout=pipe, stderr=log, process_group=0) as process:
            assert process.stdout is not None
            try:
                shutil.copyfileobj(process.stdout, stream)
            except BaseException:
                end_group(process)
                raise
        log.seek(0)
        messages = log.read()
        if process.returncode != 0:
            raise UserError(
                f"{shlex.join(command)}: failed with exit code {process.returncode} and the message "
                f"`{_last_messages(messages)}`; fix the cause or use the embedded estimator"
            )
    statistics = _STATISTICS.findall(messages)
    return LanguageModelReport(
        program,
        tuple(int(count) for count, *_ in statistics),
        tuple((float(one), float(two), float(more)) for _, one, two, more in statistics),
        # lmplz counts these orders from 0.
        tuple(int(number) + 1 for number in _FALLBACK.findall(messages)),
    )


def _last_messages(log: bytes) -> str:
    """Return the last messages of a program, without its progress bars."""
    lines = [line.strip() for line in log.decode(errors="replace").split("\n")]
    return " / ".join([line for line in lines if re.search("[A-Za-z]", line)][-_MESSAGES_SHOWN:])


def _read_blocks(path: Path) -> Iterator[bytes]:
    """Yield the text in blocks of whole lines, with words separated by spaces only."""
    has_words = False
    lines_before = 0
    for lines in chunks(text_lines(path), _LINES_AT_ONCE):
        block = b"".join(line + b"\n" for line in lines).translate(_SEPARATORS)
        if any(symbol in block for symbol in SYMBOLS):
            # A symbol may be a substring of other words.
            for number, line in enumerate(block.split(b"\n"), lines_before + 1):
                reject_reserved(line, path, number)
        has_words = has_words or bool(block.strip(b" \n"))
        lines_before += len(lines)
        yield block
    if not has_words:
        raise UserError(f"{display_name(path)}: has no words; give the tokenised text to model")


def reject_reserved(line: bytes, path: Path, number: int) -> None:
    """Raise a UserError for a word of a sentence that is reserved in language models."""
    for symbol in {*line.split(b" ")} & {*SYMBOLS}:
        raise UserError(
            f"{display_name(path)}: line {number}: `{symbol.decode()}` is reserved in language models and "
            "cannot be a word; remove or escape it"
        )
