"""Choose a toolkit."""

from __future__ import annotations

from moses_integration.toolkits.embedded import EmbeddedToolkit
from moses_integration.toolkits.installation import find_installation
from moses_integration.toolkits.moses import MosesToolkit
from moses_integration.toolkits.toolkit import Binary, BuildingToolkit, ToolkitName
from phrasescore.errors import UserError


def choose_toolkit(
    name: ToolkitName, processes: int | None = None, binary: Binary | None = None, scheduler: str | None = None
) -> BuildingToolkit:
    """Return a toolkit.

    Args:
        name: `auto` is Moses if it is installed and there is no scheduler.
        processes: for the embedded toolkit, or threads of Moses; None for all cores.
        binary: converts tables for Moses.
        scheduler: address of a Dask scheduler, for the embedded toolkit.

    Raises:
        UserError: Moses is needed but not found, or does not support an option.
    """
    if scheduler is not None:
        if name == "moses" or binary is not None:
            raise UserError("--scheduler: Moses cannot share its work among workers; use --toolkit embedded")
        return EmbeddedToolkit(processes, scheduler)
    installation = None if name == "embedded" else find_installation()
    if installation is not None:
        return MosesToolkit(installation, processes, binary)
    if name == "moses":
        raise UserError("--toolkit moses: Moses was not found; set MOSES_HOME to its folder, or use --toolkit embedded")
    if binary is not None:
        raise UserError(f"--binarise {binary}: the embedded toolkit reads text tables; use Moses, or omit the option")
    return EmbeddedToolkit(processes)
