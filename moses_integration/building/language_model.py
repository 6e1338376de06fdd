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
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryFile

from moses_integration.building.kneser_ney import SYMBOLS, estimate, memory_needed
from phrasescore.errors import UserError
from phrasescore.files import display_name, full_disk_as_error, open_output
from phrasescore.text import chunks, text_lines

ORDERS = range(2, 7)
"""The orders that KenLM loads in the builds of Moses and of its Python module."""

_LINES_AT_ONCE = 1 << 15
_SEPARATORS = bytes.maketrans(b"\t\r", b"  ")
_MESSAGES_SHOWN = 3
_ROOT = Path("/")


def build_language_model(text: Path, output: Path, order: int, memory: str = "50%") -> str:
    """Estimate a language model of a tokenised text, write it as ARPA, and return `embedded` or the path of lmplz.

    Words are separated by spaces, tabs and carriage returns; an empty line is a sentence without words, as for lmplz.
    `memory` is that of lmplz, which sorts in the folder of `output`, in the syntax of GNU sort: `50%`, `4G`.
    """
    program = find_kenlm_program("lmplz")
    if program is None:
        estimate_embedded(text, output, order)
        return "embedded"
    _run_lmplz(program, text, output, order, memory)
    return program


def find_kenlm_program(name: str) -> str | None:
    """Return the path of one of KenLM's programs, on the PATH or in $MOSES_HOME/bin."""
    home = os.environ.get("MOSES_HOME")
    return shutil.which(name) or (shutil.which(name, path=Path(home) / "bin") if home else None)


def estimate_embedded(text: Path, output: Path, order: int) -> None:
    """Do the same as `build_language_model`, always with the embedded estimator."""
    with open_output(output) as stream:
        estimate(_within_memory(text, order), order).write_arpa(stream)


def _within_memory(text: Path, order: int) -> Iterator[bytes]:
    """Yield chunks while a model of them fits into memory; raise a UserError at the end if the whole text does not."""
    available = available_memory()
    words = lines = needed = 0
    for chunk in _read_chunks(text):
        words += len(chunk.split())
        lines += chunk.count(b"\n")
        # Each line has <s> and </s>.
        needed = memory_needed(words + 2 * lines, order)
        if needed <= available:
            yield chunk
    if needed > available:
        raise UserError(
            f"{display_name(text)}: a language model of order {order} of its {words:,} words takes about "
            f"{needed / 1e9:.1f} GB of memory, but {available / 1e9:.1f} GB are free; install KenLM's lmplz, which "
            "sorts on disk, or give less text or a lower order"
        )


def _run_lmplz(program: str, text: Path, output: Path, order: int, memory: str) -> None:
    folder = output.resolve().parent
    command = [program, "-o", str(order), "-S", memory, "-T", str(folder), "--discount_fallback"]
    with (
        open_output(output) as stream,
        full_disk_as_error(f"a temporary file in {folder}"),
        TemporaryFile(dir=folder) as checked_text,
        TemporaryFile(dir=folder) as messages,
    ):
        checked_text.writelines(_read_chunks(text))
        checked_text.seek(0)
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=checked_text, stdout=pipe, stderr=messages) as process:
            assert process.stdout is not None
            try:
                # KenLM does not read the infinite back-offs that lmplz may write for a tiny text.
                stream.writelines(line.replace(b"\t-inf\n", b"\t-99\n") for line in process.stdout)
            except BaseException:
                process.kill()
                raise
        if process.returncode != 0:
            messages.seek(0)
            # Lines without letters are progress bars.
            lines = [line.decode(errors="replace").strip() for line in messages if re.search(b"[A-Za-z]", line)]
            raise UserError(
                f"{shlex.join(command)}: failed with exit code {process.returncode} and the message "
                f"`{' / '.join(lines[-_MESSAGES_SHOWN:])}`; fix the cause or remove lmplz from the PATH"
            )


def available_memory() -> int:
    """Return how many bytes this process can still allocate: the free memory of the machine or its control groups.

    Control groups are those of a container or a batch system. Pages of the file cache count as free.
    """
    found = re.search(r"^MemAvailable: +(\d+) kB$", _read_system_file("proc/meminfo"), re.MULTILINE)
    # Other systems than Linux report the total memory of the machine only.
    free = [int(found[1]) << 10 if found else os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    group = re.search(r"^0::/(.*)$", _read_system_file("proc/self/cgroup"), re.MULTILINE)
    inner = Path("sys/fs/cgroup", group[1] if group else "")
    # A container may see its group as the root, and not the path to it.
    for folder in (inner, *inner.parents):
        limit, usage = (_read_system_file(folder / name).strip() for name in ("memory.max", "memory.current"))
        if limit.isdigit() and usage.isdigit():
            cached = re.search(r"^inactive_file (\d+)$", _read_system_file(folder / "memory.stat"), re.MULTILINE)
            free.append(int(limit) - int(usage) + (int(cached[1]) if cached else 0))
    return max(min(free), 0)


def _read_system_file(path: str | Path) -> str:
    try:
        return Path(_ROOT, path).read_text(errors="replace")
    except OSError:
        return ""


def _read_chunks(path: Path) -> Iterator[bytes]:
    """Yield the text in chunks of whole lines, with words separated by spaces only."""
    has_words = False
    lines_before = 0
    for lines in chunks(text_lines(path), _LINES_AT_ONCE):
        chunk = b"".join(line + b"\n" for line in lines).translate(_SEPARATORS)
        if any(symbol in chunk for symbol in SYMBOLS):
            # A symbol may be a substring of other words.
            for number, line in enumerate(chunk.split(b"\n"), lines_before + 1):
                reject_reserved(line, path, number)
        has_words = has_words or bool(chunk.strip(b" \n"))
        lines_before += len(lines)
        yield chunk
    if not has_words:
        raise UserError(f"{display_name(path)}: has no words; give the tokenised text to model")


def reject_reserved(line: bytes, path: Path, number: int) -> None:
    """Raise a UserError for a word of a sentence that is reserved in language models."""
    for symbol in {*line.split(b" ")} & {*SYMBOLS}:
        raise UserError(
            f"{display_name(path)}: line {number}: `{symbol.decode()}` is reserved in language models and "
            "cannot be a word; remove or escape it"
        )
