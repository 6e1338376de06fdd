"""MkDocs hooks: show the notebook as a page, with its recorded outputs; keep numbers with ± on one line."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

NOTEBOOK = "from-phrase-to-bleu.ipynb"
_PAGE = Path(NOTEBOOK).with_suffix(".md").name


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Replace the notebook by a Markdown page."""
    notebook = files.get_file_from_path(NOTEBOOK)
    assert notebook is not None
    files.remove(notebook)
    cells = json.loads(notebook.content_string)["cells"]
    files.append(File.generated(config, _PAGE, content="\n\n".join(map(_as_markdown, cells))))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let the links of other pages lead to that page."""
    return markdown.replace(f"({NOTEBOOK})", f"({_PAGE})")


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Do not break lines around ± in tables."""
    return re.sub(r"(<td>[\d.]+) ± ", r"\1&nbsp;±&nbsp;", html)


def _as_markdown(cell: dict[str, Any]) -> str:
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        return source
    printed = "".join("".join(output.get("text", "")) for output in cell["outputs"])
    pictures = [output["data"]["image/png"] for output in cell["outputs"] if "image/png" in output.get("data", {})]
    parts = [f"```python\n{source}\n```"]
    parts += [f"![Output of the code above](data:image/png;base64,{picture.strip()})" for picture in pictures]
    parts += [f"```text\n{printed.strip()}\n```"] if printed.strip() else []
    return "\n\n".join(parts)
