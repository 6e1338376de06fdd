"""How the text of a system was prepared, so that dev and test text can be prepared alike.

`preparation.json` beside the tables says it; the truecasers stand there, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from moses_integration.building.prepare import Casing, Preparation, prepare_file
from moses_integration.building.text_form import FOR_TEXT_OF_A_SYSTEM, Advice
from moses_integration.building.truecaser import Truecaser
from moses_integration.ini import MosesIni
from phrasescore.configuration import check_values
from phrasescore.documents import read_json
from phrasescore.errors import UserError
from phrasescore.text import Say, silently

PREPARATION = "preparation.json"


@dataclass(frozen=True)
class TextSettings:
    """What the raw text is and how it is prepared."""

    source_language: str
    target_language: str
    tokenise: bool = True
    casing: Casing = "true"
    escape: bool = True

    def of(self, side: str) -> Preparation:
        """Return the preparation of `source` or `target` text."""
        language = self.source_language if side == "source" else self.target_language
        return Preparation(language, self.tokenise, self.casing, self.escape)


def is_language(name: str) -> bool:
    """Whether names of files can end in it, as train.en does; train.align is the word alignment."""
    return bool(re.fullmatch(r"[A-Za-z0-9_-]+", name)) and name != "align"


class SystemText:
    """How a system's text was prepared, so that dev and test text can be prepared alike."""

    def __init__(self, folder: Path, settings: TextSettings) -> None:
        self.folder, self.settings = folder, settings

    @classmethod
    def of(cls, ini: MosesIni) -> SystemText | None:
        """Return what lies beside a file of the system or its moses.ini; None if `build_system` did not make any.

        The annotated table and the tuned moses.ini may stand elsewhere; the other files are where they were built.

        Raises:
            UserError: the file is damaged.
        """
        files = [ini.path_of(feature) for feature in ini.features() if "path" in feature.arguments]
        for folder in (*(file.parent for file in files), ini.folder):
            path = folder / PREPARATION
            if not path.exists():
                continue
            return cls(folder, _read_settings(path))
        return None

    def prepare(
        self,
        side: str,
        raw: str | Path,
        prepared: Path,
        say: Say = silently,
        advice: Advice = FOR_TEXT_OF_A_SYSTEM,
        processes: int | None = None,
    ) -> None:
        """Prepare a dev or test text, line by line, as `prepare_file` does.

        Raises:
            UserError: the text is escaped already, cannot be read, or is none.
        """
        preparation = self.settings.of(side)
        truecaser = None
        if preparation.casing == "true":
            truecaser = Truecaser.load(self.folder / f"truecase.{preparation.language}")
        prepare_file(raw, prepared, preparation, truecaser, say, advice, processes)

    def detokenise(self, lines: Iterator[bytes]) -> Iterator[bytes]:
        """Return translations as plain text."""
        return self.settings.of("target").detokenise(lines)


def _read_settings(path: Path) -> TextSettings:
    """Return what a `preparation.json` says.

    Raises:
        UserError: it is damaged.
    """
    remedy = "build the system again"
    values = read_json(path, remedy)
    try:
        settings = TextSettings(**check_values(TextSettings, values, "settings"))
    except (TypeError, UserError) as error:
        raise UserError(f"{path}: is damaged ({error}); {remedy}") from error
    for language in (settings.source_language, settings.target_language):
        if not is_language(language):
            raise UserError(f"{path}: is damaged (`{language}` is no language); {remedy}")
    return settings
