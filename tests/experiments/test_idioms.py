"""The search for retired expressions."""

from __future__ import annotations

from pathlib import Path

from experiments.pages.idioms import retired_expressions

# Joined here, because the search also reads this file.
MEMORISES, RESUMES = "by_heart".replace("_", " "), "goes_on_with".replace("_", " ")


def test_retired_expressions_are_found_where_people_read(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "page.md").write_text(f"A run resumes.\nThe next run {RESUMES} it.\n")
    (tmp_path / "README.md").write_text(f"The network knows the table {MEMORISES}.\n")
    (tmp_path / "other.txt").write_text(f"{MEMORISES}\n")
    assert list(retired_expressions(tmp_path)) == [
        f"README.md:1: `{MEMORISES}`; say: memorise, overfit",
        f"docs/page.md:2: `{RESUMES}`; say: resume, continue",
    ]
