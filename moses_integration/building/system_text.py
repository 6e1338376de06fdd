"""How the text of a system was prepared, so that dev and test text can be prepared in the same way.

`preparation.json` and the truecasers are files beside the tables.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from moses_integration.building.prepare import Casing, Preparation, prepare_file
from moses_integration.building.text_form import SYSTEM_TEXT_ADVICE, Advice
from moses_integration.building.truecaser import Truecaser
from moses_integration.ini import MosesIni
from phrasescore.configuration import check_values
from phrasescore.errors import UserError
from phrasescore.files.documents import read_json
from phrasescore.text import Log, no_log

PREPARATION = "preparation.json"


@dataclass(frozen=True)
class TextSettings:
    """The languages of a system, and how its text is prepared."""

    source_language: str
    target_language: str
    tokenise: bool = True
    casing: Casing = "true"
    escape: bool = True

    def of(self, side: str) -> Preparation:
        """Return the preparation of the `source` or `target` side."""
        language = self.source_language if side == "source" else self.target_language
        return Preparation(language, self.tokenise, self.casing, self.escape)


def is_language(name: str) -> bool:
    """Whether a language can be the suffix of a file, as in train.en; train.align is the word alignment."""
    return bool(re.fullmatch(r"[A-Za-z0-9_-]+", name)) and name != "align"


class SystemText:
    """Prepares text as that of a system, and detokenises its translations."""

    def __init__(self, folder: Path, settings: TextSettings) -> None:
        self.folder, self.settings = folder, settings

    @classmethod
    def of(cls, ini: MosesIni) -> SystemText | None:
        """Return the text of the system of a moses.ini; None if `build_system` did not build it.

        Only some files of a system may have moved, such as an annotated table and a tuned moses.ini, so every folder
        that the ini names is searched.
        """
        files = [ini.path_of(feature) for feature in ini.features() if "path" in feature.arguments]
        for folder in (*(file.parent for file in files), ini.folder):
            path = folder / PREPARATION
            if path.exists():
                return cls(folder, _read_settings(path))
        return None

    def prepare(
        self,
        side: str,
        raw: str | Path,
        prepared: Path,
        log: Log = no_log,
        advice: Advice = SYSTEM_TEXT_ADVICE,
        processes: int | None = None,
    ) -> None:
        """Prepare a dev or test text as `prepare_file` does."""
        preparation = self.settings.of(side)
        truecaser = None
        if preparation.casing == "true":
            truecaser = Truecaser.load(self.folder / f"truecase.{preparation.language}")
        prepare_file(raw, prepared, preparation, truecaser, log, advice, processes)

    def detokenise(self, lines: Iterator[bytes]) -> Iterator[bytes]:
        """Return translations as plain text."""
        return self.settings.of("target").detokenise(lines)


def _read_settings(path: Path) -> TextSettings:
    remedy = "build the system again"
    values = read_json(path, remedy)
    try:
        settings = TextSettings(**check_values(TextSettings, values, "settings"))
    except (TypeError, UserError) as error:
        raise UserError(f"{path}: is damaged ({error}); {remedy}") from error
    for language in (settings.source_language, settings.target_language):
        if not is_language(language):
            raise UserError(f"{path}: is damaged (`{language}` is not a language); {remedy}")
    return settings
