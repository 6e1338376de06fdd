from __future__ import annotations

import torch

from experiments.machine import machine
from phrasescore import __version__
from phrasescore.model_files import versions


def test_a_machine_has_its_versions() -> None:
    assert machine().keys() == {"cpu", "cores", "system", "versions"}
    assert machine()["versions"] == versions()
    assert versions()["phrasescore"].startswith(__version__)
    # The metadata may omit the build variant, as in 2.13.0+cpu.
    assert torch.__version__.startswith(versions()["torch"].partition("+")[0])
