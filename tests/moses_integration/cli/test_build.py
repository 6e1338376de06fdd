"""Each option of `build` sets the setting of the same name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from moses_integration.building.preparation import TextSettings
from moses_integration.building.system import BuildConfig, BuildInput
from moses_integration.cli import main

TEXT = TextSettings("en", "fr", tokenise=True, casing="true", escape=True)
CONFIG = BuildConfig()


@pytest.mark.parametrize(
    ("options", "text", "config"),
    [
        ("", TEXT, CONFIG),
        ("--source-language de", replace(TEXT, source_language="de"), CONFIG),
        ("--target-language cs", replace(TEXT, target_language="cs"), CONFIG),
        ("--casing lower", replace(TEXT, casing="lower"), CONFIG),
        ("--tokenised", replace(TEXT, tokenise=False, casing="keep"), CONFIG),
        ("--tokenised --escaped --casing true", replace(TEXT, tokenise=False, escape=False), CONFIG),
        ("--longest-sentence 40", TEXT, BuildConfig(longest_sentence=40)),
        ("--aligner fast-align", TEXT, BuildConfig(aligner="fast-align")),
        ("--order 3", TEXT, BuildConfig(order=3)),
        ("--longest-phrase 4", TEXT, BuildConfig(longest_phrase=4)),
    ],
)
def test_options_are_settings(
    options: str, text: TextSettings, config: BuildConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[tuple[TextSettings, BuildConfig]] = []

    def build(given: BuildInput, folder: Path, text: TextSettings, config: BuildConfig, *_: Any, **__: Any) -> Path:
        built.append((text, config))
        return folder / "moses.ini"

    monkeypatch.setattr("moses_integration.cli.build.build_system", build)
    texts = ["--source", "train.en", "--target", "train.fr", "-o", str(tmp_path / "system")]
    assert main(["build", *texts, "--toolkit", "embedded", "-q", *options.split()]) == 0
    assert built == [(text, config)]
