"""File names that are safe for Moses' scripts, which insert them into shell command lines without quoting."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from moses_integration.ini import FeatureLine, MosesIni
from phrasescore.errors import UserError

# Besides shell syntax: filter-model-given-input.pl splits paths at `=`, and removes the first `.gz` of the path of a
# reordering table.
_UNSAFE_IN_FOLDER = re.compile(r"[^\w./@%+:,-]|\.gz")
_UNSAFE_IN_NAME = re.compile(r"[^A-Za-z0-9._+-]")
_APPENDED = re.compile(r"(\.[A-Za-z0-9._+-]{1,60})?")
"""Suffixes that Moses appends to a path: `.gz`, `.minphr`, `.binphr.idx`."""
_LONGEST_NAME = 60


def check_folder_name(folder: Path) -> None:
    """Raise a UserError for a folder that Moses' scripts would not find, or whose name has shell syntax."""
    unsafe = _UNSAFE_IN_FOLDER.search(str(folder.resolve()))
    if unsafe:
        raise UserError(
            f"{folder}: Moses' scripts cannot use a folder with `{unsafe[0]}` in its path; give another one (tune and "
            "decode: --work)"
        )


def link_files(ini: MosesIni, folder: Path) -> MosesIni:
    """Return a copy of an ini whose paths are links with safe names in a new folder.

    A link keeps the end of the file name, by which Moses recognises the format. Paths without a file do not change.

    Raises:
        UserError: an unchanged path cannot be written to a moses.ini.
    """
    folder.mkdir()
    paths = {}
    for number, feature in enumerate(ini.features()):
        link = folder.resolve() / f"{number}.{_UNSAFE_IN_NAME.sub('_', _file_name(feature))[-_LONGEST_NAME:]}"
        for appended, file in _files(ini, feature):
            link.with_name(link.name + appended).symlink_to(file)
            paths[feature.label] = link
    linked = ini.copy()
    for label, link in paths.items():
        linked.set_argument(label, "path", str(link))
    return linked.with_absolute_paths()


def _file_name(feature: FeatureLine) -> str:
    """Return the last component of a feature's path, empty if the path ends in `/`."""
    return feature.arguments.get("path", "").rpartition("/")[2]


def _files(ini: MosesIni, feature: FeatureLine) -> Iterator[tuple[str, Path]]:
    """Yield the files and folders that Moses may open for a feature, each with the suffix after its path."""
    name = _file_name(feature)
    if name in ("", ".", ".."):
        return
    folder = ini.path_of(feature).parent.resolve()
    if not folder.is_dir():
        return
    for file in folder.iterdir():
        appended = file.name.removeprefix(name)
        if file.name.startswith(name) and _APPENDED.fullmatch(appended):
            yield appended, file
