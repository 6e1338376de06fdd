"""Each option of `build` sets the setting of the same name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from moses_integration.building.build_config import BuildConfig
from moses_integration.building.parallel_text import CleaningRules
from moses_integration.building.system import BuildSettings
from moses_integration.building.system_text import TextSettings
from moses_integration.cli import main

TEXT = TextSettings("en", "fr", tokenise=True, casing="true", escape=True)
DEFAULTS = BuildSettings(TEXT)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("", DEFAULTS),
        ("--source-language de", replace(DEFAULTS, text=replace(TEXT, source_language="de"))),
        ("--target-language cs", replace(DEFAULTS, text=replace(TEXT, target_language="cs"))),
        ("--casing lower", replace(DEFAULTS, text=replace(TEXT, casing="lower"))),
        ("--tokenised", replace(DEFAULTS, text=replace(TEXT, tokenise=False, casing="keep"))),
        (
            "--tokenised --escaped --casing true",
            replace(DEFAULTS, text=replace(TEXT, tokenise=False, escape=False)),
        ),
        ("--longest-sentence 40", replace(DEFAULTS, cleaning=CleaningRules(longest_sentence=40))),
        ("--ratio 3.5", replace(DEFAULTS, cleaning=CleaningRules(ratio=3.5))),
        ("--aligner fast-align", replace(DEFAULTS, config=BuildConfig(aligner="fast-align"))),
        ("--seed 9", replace(DEFAULTS, config=BuildConfig(seed=9))),
        ("--order 3", replace(DEFAULTS, config=BuildConfig(order=3))),
        ("--longest-phrase 4", replace(DEFAULTS, config=BuildConfig(longest_phrase=4))),
    ],
)
def test_options_are_settings(
    options: str, expected: BuildSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[BuildSettings] = []

    def build(source: Path, target: Path, folder: Path, settings: BuildSettings, *rest: Any) -> Path:
        built.append(settings)
        return folder / "moses.ini"

    monkeypatch.setattr("moses_integration.building.system.build_system", build)
    texts = ["--source", "train.en", "--target", "train.fr", "-o", str(tmp_path / "system")]
    assert main(["build", *texts, "--toolkit", "embedded", "-q", *options.split()]) == 0
    assert built == [expected]
