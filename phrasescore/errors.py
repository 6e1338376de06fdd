"""The exceptions that speak to the user."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path


class UserError(Exception):
    """A fault the user can mend: bad input, a wrong option, a full disk.

    Its message is one sentence: which file and place, what is wrong, what to do. The command line prints
    it and exits with 1; no other exception is expected to reach a user.
    """


class UsageError(UserError):
    """Options that do not go together, or a missing one that others call for; the exit code is 2."""


class OptionError(UsageError):
    """A value or a combination of options that is wrong.

    It carries the names of the options, so that each front end can spell them: `--max-minutes` on the command line,
    `max_minutes` in Python.
    """

    def __init__(self, text: str, *options: str) -> None:
        """Make an error.

        Args:
            text: the message, with `{}` for each option.
            options: names of fields.
        """
        self.text, self.options = text, options
        super().__init__(self.message(flag))

    def message(self, spell: Callable[[str], str]) -> str:
        """Return the message with the options as a front end spells them."""
        return self.text.format(*map(spell, self.options))


def flag(name: str) -> str:
    """Return the name of a field as the command line spells it."""
    return f"--{name.replace('_', '-')}"


class InputError(UserError):
    """A fault of what is read: what was made of it until there is of no use once it is mended."""


class FullDiskError(UserError):
    """There is no space on a disk: what was written of an output only takes some more."""


class WorkersLostError(UserError):
    """Those who shared work are gone, though nothing is wrong with what they have done: it may be gone on with."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that the memory of the machine or of a GPU ran out."""
    # Named, for PyTorch need not be loaded; its allocator of the machine's memory has no error of its own.
    return (
        isinstance(error, MemoryError)
        or any(kind.__name__ == "OutOfMemoryError" for kind in type(error).__mro__)
        or (isinstance(error, RuntimeError) and "DefaultCPUAllocator: can't allocate memory" in str(error))
    )


def sentence_of(error: BaseException) -> str | None:
    """Return what to tell the user of an error: of the input, of the system, or of a lack of memory; None of a bug."""
    if isinstance(error, UserError):
        return str(error)
    if isinstance(error, OSError):
        place = f"{error.filename}: " if error.filename else ""
        return f"{place}{error.strerror or error}"
    if is_out_of_memory(error):
        return "memory ran out; close other programs or give smaller sizes"
    return None


@contextmanager
def naming(names: Mapping[Path, Path]) -> Iterator[None]:
    """Let messages about files name others, those that the user knows; a full disk is that of the file itself."""
    try:
        yield
    except FullDiskError:
        raise
    except UserError as error:
        if not any(str(error).startswith(f"{path}: ") for path in names):
            raise
        message = str(error)
        for path, name in names.items():
            message = message.replace(str(path), str(name))
        raise UserError(message) from error
