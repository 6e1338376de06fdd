"""Files of the user's that add units, attentions, optimisers and scorers to the registries.

A plugin is Python that is run because the user names it on the command line. Nothing in a model folder is ever run: a
folder only says which plugins it was trained with.
"""

from __future__ import annotations

import hashlib
import importlib.util
import sys
import traceback
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from phrasescore.errors import UserError, is_out_of_memory
from phrasescore.files import read_bytes, real_path

_loaded: dict[Path, str] = {}


def load_plugins(paths: Iterable[str | Path]) -> None:
    """Import some plugins, each once, as `--plugin` does; worker processes import them, too.

    Raises:
        UserError: a file cannot be read or fails, or registers a name that is taken.
    """
    for path in map(Path, paths):
        resolved = real_path(path)
        if resolved not in _loaded:
            digest = hashlib.sha256(read_bytes(path)).hexdigest()
            _import(path, resolved)
            _loaded[resolved] = digest


def loaded_plugins() -> dict[str, str]:
    """Return the SHA-256 of each plugin of this process by its path, in the order of their loading."""
    return {str(path): digest for path, digest in _loaded.items()}


def check_plugins(folder: Path, described: Collection[Mapping[str, str]]) -> None:
    """Check that no loaded plugin stands in the place of one that a network was trained with.

    One that is not loaded may be an optimiser's, which is needed for training only, and one that the network was not
    trained with may be another network's; both at once may be a file that has changed, whatever it is called now.

    Args:
        folder: the model folder.
        described: `path` and `sha256` of each plugin it was trained with.

    Raises:
        UserError: one may.
    """
    loaded, digests = loaded_plugins(), [plugin["sha256"] for plugin in described]
    others = [path for path, digest in loaded.items() if digest not in digests]
    for plugin in described:
        name, digest = Path(plugin["path"]).name, plugin["sha256"]
        if others and digest not in loaded.values():
            other = min(others, key=lambda path: Path(path).name != name)
            raise UserError(
                f"{folder}: was trained with {name} (SHA-256 {digest[:12]}...), which {other} is not; give --plugin "
                "the file as it was, or train again"
            )


@contextmanager
def plugins_blamed() -> Iterator[None]:
    """Turn an error that a plugin's code, or what it has registered, makes while the network runs into one sentence.

    Raises:
        UserError: a plugin failed, or what could not be used is most likely a plugin's; an error of the system that
            does not come from a plugin is let through, as is a want of memory.
    """
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
                raise UserError(f"{frame.filename}: line {frame.lineno}: fails with {what}; mend it") from error
        if isinstance(error, OSError) or not _loaded:
            raise
        # Our own code has called it in the way of docs/plugins.md, or works on what it returned.
        used = f"{frames[-1].filename}, line {frames[-1].lineno}"
        raise UserError(
            f"{', '.join(map(str, _loaded))}: cannot be used by {used} ({what}); mend it, docs/plugins.md says what is "
            "asked of a part"
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
        raise UserError(f"{path}: fails with {type(error).__name__}: {error}; mend it") from error
