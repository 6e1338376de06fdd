"""Exceptions whose messages address the user."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path


class UserError(Exception):
    """An error that the user can fix: invalid input, a wrong option, a full disk.

    Its message is one sentence: file and line, what is wrong, what to do. The command line prints the message and exits
    with 1. Any other exception that reaches a user is a bug.
    """


class UsageError(UserError):
    """Options conflict, or a required option is missing; the exit code is 2."""


_AS_FLAGS = ContextVar("_AS_FLAGS", default=False)


@contextmanager
def options_spelled_as_flags(as_flags: bool = True) -> Iterator[None]:
    """Let messages name options as the command line does."""
    token = _AS_FLAGS.set(as_flags)
    try:
        yield
    finally:
        _AS_FLAGS.reset(token)


def are_options_flags() -> bool:
    """Return whether messages name options as the command line does."""
    return _AS_FLAGS.get()


def arg_name(option: str, value: object = None) -> str:
    """Return an option for a message: `max_minutes` or `precision='fp32'` to a Python program, else its flag."""
    if _AS_FLAGS.get():
        return flag(option) if value is None else f"{flag(option)} {value}"
    return option if value is None else f"{option}={value!r}"


def flag(name: str) -> str:
    """Return the command-line flag of an option."""
    return f"--{name.replace('_', '-')}"


class InputError(UserError):
    """The input is invalid; output made from it so far is useless after the input is fixed."""


class FullDiskError(UserError):
    """A disk is full; the output so far is valid, and the run can be resumed."""


class WorkersLostError(UserError):
    """All workers are lost, but their results so far are valid, and the run can be resumed."""


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error means that the memory of the machine or of a GPU is exhausted."""
    # Compare class names, so that PyTorch need not be loaded. Its CPU allocator has no error class of its own.
    return (
        isinstance(error, MemoryError)
        or any(kind.__name__ == "OutOfMemoryError" for kind in type(error).__mro__)
        or (isinstance(error, RuntimeError) and "DefaultCPUAllocator: can't allocate memory" in str(error))
    )


_OWN_PACKAGES = ("phrasescore", "moses_integration", "experiments")
_DISTRIBUTIONS = {"kenlm": "ufal.kenlm", "sklearn": "scikit-learn"}
"""Names on PyPI that differ from that of the module."""


def sentence_of(error: BaseException) -> str | None:
    """Return the message of an error of the input, the system or memory; None for a bug."""
    if isinstance(error, UserError):
        return str(error)
    if isinstance(error, OSError):
        place = f"{error.filename}: " if error.filename else ""
        return f"{place}{error.strerror or error}"
    if is_out_of_memory(error):
        return "memory ran out; close other programs or give smaller sizes"
    if isinstance(error, ModuleNotFoundError) and error.name:
        module = error.name.partition(".")[0]
        if module not in _OWN_PACKAGES:
            return f"needs the module `{module}`; pip install {_DISTRIBUTIONS.get(module, module)}"
    return None


@contextmanager
def reported_as(names: Mapping[Path, Path]) -> Iterator[None]:
    """Replace file names in messages by the names that the user gave; messages about a full disk keep the real name."""
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
