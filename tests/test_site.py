"""The documentation site and its notebook."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def test_the_pages_and_the_reference_become_a_site_without_broken_links(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    page = (tmp_path / "site/reference.html").read_text()
    for name in ("PhraseScorer", "train", "annotate", "translate"):
        assert f">{name}</" in page
    assert "end symbol included" in page
    notebook = (tmp_path / "site/from-phrase-to-bleu.html").read_text()
    assert "update 1000" in notebook
    assert "data:image/png;base64," in notebook
    # The formulas of a table are code, in which Markdown has no emphasis.
    assert "[e(y_{t−1}); s_t; c]" in (tmp_path / "site/models.html").read_text()


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.filterwarnings("default")
def test_the_notebook_runs() -> None:
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")

    notebook = nbformat.read(ROOT / "docs/from-phrase-to-bleu.ipynb", nbformat.NO_CONVERT)
    nbclient.NotebookClient(notebook, timeout=1000, resources={"metadata": {"path": str(ROOT / "docs")}}).execute()
    printed = "".join(output.get("text", "") for cell in notebook.cells for output in cell.get("outputs", ()))
    assert "les chiens noirs   ln p = " in printed
    # sacreBLEU's value and the notebook's own agree in the printed digits.
    (sacrebleu,) = [line.split()[1] for line in printed.splitlines() if line.startswith("rnn.out")]
    assert f"rnn {float(sacrebleu):g}" in printed
