"""Named parts, and user files that register more: units, attentions, encoders, optimisers and scorers.

A plugin is Python code that runs only because the user names it on the command line. Code in a model folder never runs:
the folder only lists the plugins of its training.
"""

from __future__ import annotations

import hashlib
import importlib.util
import sys
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Generic, TypeVar

from phrasescore.configuration import suggestion
from phrasescore.errors import UserError, is_out_of_memory
from phrasescore.files import read_bytes, real_path

_loaded: dict[Path, str] = {}


def load_plugins(paths: Iterable[str | Path]) -> None:
    """Import plugins, each once, as `--plugin` does; worker processes import them, too."""
    if isinstance(paths, str | Path):
        raise TypeError(f"paths: is one file; give a list, as [{str(paths)!r}]")
    for path in map(Path, paths):
        resolved = real_path(path)
        if resolved not in _loaded:
            digest = hashlib.sha256(read_bytes(path)).hexdigest()
            _import(path, resolved)
            _loaded[resolved] = digest


def loaded_plugins() -> dict[str, str]:
    """Return the SHA-256 of each loaded plugin by its path, in loading order."""
    return {str(path): digest for path, digest in _loaded.items()}


def check_plugins(folder: Path, described: Collection[Mapping[str, str]]) -> None:
    """Check that no loaded plugin is a modified version of a plugin that a network was trained with.

    A missing plugin may define an optimiser, which only training needs, and an additional plugin may belong to another
    network. But if plugins are both missing and additional, a file may have changed, even its name.
    `described` has the `path` and `sha256` of each plugin of the training of the network in `folder`.
    """
    loaded, digests = loaded_plugins(), [plugin["sha256"] for plugin in described]
    others = [path for path, digest in loaded.items() if digest not in digests]
    for plugin in described:
        name, digest = Path(plugin["path"]).name, plugin["sha256"]
        if others and digest not in loaded.values():
            other = min(others, key=lambda path: Path(path).name != name)
            raise UserError(
                f"{folder}: was trained with {name} (SHA-256 {digest[:12]}...), which {other} is not; load the "
                "plugin as it was, or train again"
            )


@contextmanager
def plugins_blamed() -> Iterator[None]:
    """Convert an error of a plugin's code, or of a component that it registered, to a `UserError`."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        if is_out_of_memory(error):
            raise
        frames, what = traceback.extract_tb(error.__traceback__), f"{type(error).__name__}: {error}"
        for frame in reversed(frames):
            if Path(frame.filename) in _loaded:
                raise UserError(f"{frame.filename}: line {frame.lineno}: fails with {what}; fix it") from error
        if isinstance(error, OSError) or not _loaded:
            raise
        # The library called the plugin as docs/plugins.md specifies, or used its result.
        used = f"{frames[-1].filename}, line {frames[-1].lineno}"
        raise UserError(
            f"{', '.join(map(str, _loaded))}: cannot be used by {used} ({what}); fix it, docs/plugins.md describes "
            "the interfaces"
        ) from error


def _import(path: Path, resolved: Path) -> None:
    name = f"phrasescore_plugin_{path.stem}_{len(_loaded)}"
    spec = importlib.util.spec_from_file_location(name, resolved)
    if spec is None or spec.loader is None:
        raise UserError(f"{path}: is not a Python file; give one that ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        if isinstance(error, UserError):
            raise UserError(f"{path}: {error}") from error
        raise UserError(f"{path}: fails with {type(error).__name__}: {error}; fix it") from error


T = TypeVar("T")
U = TypeVar("U")


class NotRegisteredError(UserError):
    """No component has this name."""


class Registry(Generic[T]):
    """Named components of one kind, registered by a decorator."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._things: dict[str, T] = {}

    def register(self, name: str) -> Callable[[U], U]:
        if not isinstance(name, str):
            raise UserError(f'a part is registered as {name!r}; give its name, as in @register_unit("minimal")')

        def add(thing: U) -> U:
            if name in self._things:
                raise UserError(f"there is already the {self.kind} `{name}`; register yours under another name")
            self._things[name] = thing  # type: ignore[assignment]
            return thing

        return add

    def __getitem__(self, name: str) -> T:
        """Return a registered component, or raise `NotRegisteredError`."""
        if name not in self._things:
            advice = f"{suggestion(name, self._things)} (a plugin may bring others)"
            raise NotRegisteredError(f"there is no {self.kind} `{name}`; {advice}")
        return self._things[name]
