"""Stand-ins for Moses' programs."""

from __future__ import annotations

from pathlib import Path


def program(path: Path, body: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def fake_moses(home: Path) -> Path:
    program(home / "bin/moses", "exit 0")
    (home / "scripts").mkdir()
    return home
