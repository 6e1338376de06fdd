"""Which toolkit does the work."""

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
        name: `auto` is Moses where it is installed, unless there is a scheduler.
        processes: to share the work among.
        binary: lets Moses decode with binary tables.
        scheduler: of workers that share the work instead.

    Raises:
        UserError: Moses is asked for, or needed for binary tables, and not found; or it is to share its work.
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
        raise UserError(f"--binarise {binary}: the embedded toolkit reads text tables; use Moses, or leave it out")
    return EmbeddedToolkit(processes)
