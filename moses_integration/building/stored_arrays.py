"""Arrays in `.npy` files that other processes map into memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phrasescore.files import full_disk_told


def save_array(folder: Path, name: str, *parts: NDArray[Any]) -> None:
    """Write arrays, joined along their first axis, as one.

    `np.save` reports a full disk without the file and the reason, and a mapped file that has no room kills the process.

    Raises:
        FullDiskError: the disk is full.
    """
    path, first = folder / f"{name}.npy", parts[0]
    header = {
        "descr": np.lib.format.dtype_to_descr(first.dtype),
        "fortran_order": False,
        "shape": (sum(map(len, parts)), *first.shape[1:]),
    }
    with full_disk_told(str(path)), path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for part in parts:
            file.write(np.ascontiguousarray(part).data)


def load_array(folder: Path, name: str) -> NDArray[Any]:
    """Return a stored array, of which only what is looked at comes into memory."""
    array: NDArray[Any] = np.load(folder / f"{name}.npy", mmap_mode="r")
    return array
