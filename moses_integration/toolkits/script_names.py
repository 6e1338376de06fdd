"""Names that Moses' scripts can be handed: they put them into command lines of a shell as they are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from moses_integration.ini import FeatureLine, MosesIni
from phrasescore.errors import UserError

# Not only what a shell would act on: filter-model-given-input.pl, for one, cuts a path at a `=`, and takes the first
# `.gz` out of that of a reordering table.
_ODD_IN_FOLDER = re.compile(r"[^\w./@%+:,-]|\.gz")
_ODD_IN_NAME = re.compile(r"[^A-Za-z0-9._+-]")
_APPENDED = re.compile(r"(\.[A-Za-z0-9._+-]{1,60})?")
"""What Moses appends to a path to find a file: `.gz`, `.minphr`, `.binphr.idx`."""
_LONGEST_NAME = 60


def check_folder_name(folder: Path) -> None:
    """Refuse a folder that Moses' scripts could not find, or whose name a shell would act on.

    Raises:
        UserError: its path has such a character.
    """
    odd = _ODD_IN_FOLDER.search(str(folder.resolve()))
    if odd:
        raise UserError(
            f"{folder}: Moses' scripts cannot use a folder with `{odd[0]}` in its path; give another one (--work says "
            "where tune and decode work)"
        )


def link_files(ini: MosesIni, folder: Path) -> MosesIni:
    """Return a copy that names links in a new folder, which may have any name in its files' stead.

    A link keeps the end of the name, by which Moses tells what a file is. A path that leads to no file stays as it is.

    Raises:
        UserError: a moses.ini cannot hold a path that stays.
    """
    folder.mkdir()
    paths = {}
    for number, feature in enumerate(ini.features()):
        link = folder.resolve() / f"{number}.{_ODD_IN_NAME.sub('_', _file_name(feature))[-_LONGEST_NAME:]}"
        for appended, file in _files(ini, feature):
            link.with_name(link.name + appended).symlink_to(file)
            paths[feature.label] = link
    linked = ini.copy()
    for label, link in paths.items():
        linked.set_argument(label, "path", str(link))
    return linked.with_absolute_paths()


def _file_name(feature: FeatureLine) -> str:
    """Return the name at the end of a feature's path; it is empty for a folder with a `/` at its end."""
    return feature.arguments.get("path", "").rpartition("/")[2]


def _files(ini: MosesIni, feature: FeatureLine) -> Iterator[tuple[str, Path]]:
    """Yield what Moses may open for a feature: what is appended to its path, and the file or folder."""
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
