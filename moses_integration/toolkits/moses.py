"""The toolkit of an installed Moses: `train-model.perl`, `mert-moses.pl` and `moses`."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from moses_integration.building.aligned_corpus import Corpus, read_aligned_corpus
from moses_integration.building.alignment import HEURISTIC
from moses_integration.building.translation_tables import PHRASE_TABLE, REORDERING_TABLE, REORDERING_TYPE
from moses_integration.decoder.phrases import words_of
from moses_integration.ini import MosesIni, Weights
from moses_integration.toolkits.installation import Installation, StepFailure, run_step
from moses_integration.toolkits.moses_tables import (
    check_features,
    check_folder_name,
    require_moses_words,
    write_filtered_system,
)
from moses_integration.toolkits.toolkit import NbestRequest, SentencesCallback, Toolkit, Translate, TuningRequest
from moses_integration.tuning.bleu import read_dev_set
from moses_integration.tuning.tunings import Tuning, TuningConfig
from phrasescore.errors import UserError
from phrasescore.files import open_output, read_lines, write_lines
from phrasescore.text import ProgressCallback, no_progress, text_lines
from phrasescore.workers import available_cores

if TYPE_CHECKING:
    from moses_integration.per_text.context_column import ContextColumn

_TABLES = ("lex.e2f", "lex.f2e", PHRASE_TABLE, REORDERING_TABLE)
_REFERENCES = "dev.references"
_DEV_BLEU = re.compile(r"^# BLEU ([0-9.]+(?:e-?[0-9]+)?) on dev", re.MULTILINE)


class MosesToolkit:
    """An installed Moses."""

    name = "moses"

    def __init__(self, installation: Installation, processes: int | None = None) -> None:
        check_folder_name(installation.home)
        self._moses = installation
        self._threads = str(processes or available_cores())

    def __str__(self) -> str:
        return f"Moses in {self._moses.home}"

    def with_context_column(self, column: ContextColumn) -> Toolkit:
        """Return a toolkit that writes per-text phrase tables."""
        from moses_integration.per_text.context_toolkit import ContextToolkit

        return ContextToolkit(self, column)

    def check(self, ini: MosesIni, source: Path, folder: Path, *, tunes: bool) -> None:
        """Reject unknown features, names that Moses' scripts cannot handle, and words that Moses would misread."""
        check_folder_name(folder)
        check_features(ini)
        for feature in ini.features() if tunes else ():
            ini.check_label(feature)
        if ini.values("inputtype") == ["1"]:
            raise UserError(
                f"{ini.location('inputtype')}: confusion networks have several lines for a sentence, which are not "
                "supported; give lattices (2), or run moses yourself"
            )
        # `|` separates alternative translations in XML.
        has_xml = ini.values("xml-input") not in ([], ["pass-through"], ["ignore"])
        if ini.values("inputtype") in ([], ["0"]) and not ini.values("factor-delimiter") and not has_xml:
            require_moses_words(text_lines(source), source, max(1, len(ini.values("input-factors"))))

    def check_folder(self, folder: Path) -> None:
        """Reject names that Moses' scripts cannot handle."""
        check_folder_name(folder)

    def build_tables(
        self, corpus: Corpus, folder: Path, longest_phrase: int, progress: ProgressCallback = no_progress
    ) -> None:
        """Run steps 4 to 7 of train-model.perl: lexical tables, extraction, phrase scores, reordering table."""
        for path in (folder, corpus.source, corpus.target):
            check_folder_name(path)
        # Moses' programs ignore points outside a sentence, and misread some words, without an error.
        read_aligned_corpus(*corpus)
        root = folder / "training"
        model = root / "model"
        shutil.rmtree(root, ignore_errors=True)
        model.mkdir(parents=True)
        shutil.copyfile(corpus.alignment, model / f"aligned.{HEURISTIC}")
        command: list[str | Path] = ["perl", self._moses.script("training/train-model.perl")]
        command += ["--root-dir", root.resolve(), "--corpus", corpus.source.resolve().with_suffix("")]
        command += ["-f", corpus.source.suffix[1:], "-e", corpus.target.suffix[1:], "--alignment", HEURISTIC]
        command += ["--reordering", REORDERING_TYPE.removeprefix("wbe-"), "--max-phrase-length", str(longest_phrase)]
        command += ["--first-step", "4", "--last-step", "7", "--cores", self._threads]
        run_step("tables", command, folder / "train-model.log", [model / name for name in _TABLES])
        for name in _TABLES:
            (model / name).replace(folder / name)
        shutil.rmtree(root)

    def tune(self, ini: MosesIni, request: TuningRequest) -> Iterator[Tuning]:
        """Run mert-moses.pl for each seed, lazily, on tables filtered for the dev set."""
        source, seeds, folder = request.source, request.seeds, request.folder
        self.check(ini, source, folder, tunes=True)
        folder.mkdir(parents=True, exist_ok=True)
        sentences, references = read_dev_set(source, request.references)
        # Moses drops an unterminated last line, and some of its programs do not decompress.
        dev = folder / "dev.lines"
        write_lines(dev, sentences)
        # mert-moses.pl reads all files with this prefix, also those of an earlier run.
        for earlier in folder.glob(f"{_REFERENCES}*"):
            earlier.unlink()
        for number, lines in enumerate(zip(*references, strict=True)):
            write_lines(folder / f"{_REFERENCES}{number}", lines)
        request.progress(None, "filtering tables")
        filtered = write_filtered_system(ini, dev, folder)
        for done, seed in enumerate(seeds):
            request.progress(done / len(seeds), f"mert-moses.pl with seed {seed}")
            work = folder / f"mert.seed{seed}"
            tuning = self._mert(filtered, dev, folder / _REFERENCES, seed, request.settings, work)
            request.log(f"seed {seed}: dev BLEU {tuning.bleu:.2f}")
            yield tuning

    def _mert(
        self, filtered: Path, source: Path, references: Path, seed: int, settings: TuningConfig, work: Path
    ) -> Tuning:
        """Run mert-moses.pl; `references` is the prefix of files numbered from 0."""
        # mert-moses.pl reuses files of an earlier run, even if the ini has changed.
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        command: list[str | Path] = ["perl", self._moses.script("training/mert-moses.pl")]
        command += [source.resolve(), references.resolve(), self._moses.binary("moses"), filtered.resolve()]
        command += ["--working-dir", work.resolve(), "--rootdir", self._moses.home / "scripts"]
        command += ["--mertdir", self._moses.home / "bin", "--no-filter-phrase-table", "--return-best-dev"]
        command += ["--nbest", str(settings.nbest), "--maximum-iterations", str(settings.iterations)]
        # The script appends other arguments without a space.
        command += ["--random-restarts", str(settings.restarts), "--mertmertargs", f"-r {seed} "]
        # Long option names, because the flags become sections of the written ini.
        command += ["--threads", self._threads, "--decoder-flags", f"-threads {self._threads} -verbose 0"]
        tuned = work / "moses.ini"
        run_step(f"tuning with seed {seed}", command, work / "mert-moses.log", [tuned])
        result = MosesIni.read(tuned)
        header = _DEV_BLEU.search("".join(result.lines))
        if header is None:
            raise StepFailure(f"{tuned}: mert-moses.pl wrote no dev BLEU", work / "mert-moses.log")
        bleu = float(header[1])
        return Tuning(seed, result.weights(), 100 * bleu if bleu <= 1 else bleu)

    @contextmanager
    def translator(self, ini: MosesIni, source: Path, folder: Path) -> Iterator[Translate]:
        """Yield a function that runs `moses`; the first call filters the tables for the input."""
        self.check(ini, source, folder, tunes=False)
        filtered = cache(lambda: write_filtered_system(ini, source, folder))
        yield partial(self._translate, filtered, source, folder)

    def _translate(
        self,
        filtered: Callable[[], Path],
        source: Path,
        folder: Path,
        weights: Weights,
        output: Path | str,
        nbest: NbestRequest | None = None,
        progress: SentencesCallback | None = None,
    ) -> int:
        """Run `moses` on filtered tables, without progress; see `Translate`."""
        folder.mkdir(parents=True, exist_ok=True)
        weighted, path = MosesIni.read(filtered()), folder / "weighted.ini"
        weighted.set_weights(weights)
        weighted.write(path)
        translations, lists, log = folder / "translations", folder / "nbest", folder / "moses.log"
        unknown = folder / "unknown"
        write_lines(unknown, ())
        command: list[str | Path] = [self._moses.binary("moses"), "-f", path.resolve()]
        command += ["-threads", self._threads, "-v", "0", "-output-unknowns", unknown.resolve()]
        artefacts = [translations]
        if nbest:
            command += ["-n-best-list", lists.resolve(), str(nbest.size), "distinct"]
            command += ["-include-segmentation-in-n-best", "true", "-print-alignment-info-in-n-best", "true"]
            artefacts.append(lists)
        sentences = _count_lines(source)
        run_step("decoding", command, log, artefacts if sentences else (), stdin=source, stdout=translations)
        translated = _count_lines(translations)
        if translated != sentences:
            raise StepFailure(f"decoding: moses translated {translated} of {sentences} sentences", log)
        # Moses writes a space after each word.
        write_lines(output, (line.rstrip(b" ") for line in read_lines(translations)))
        if nbest:
            with open_output(nbest.path) as stream, lists.open("rb") as content:
                shutil.copyfileobj(content, stream)
        return sum(len(words_of(line)) for line in read_lines(unknown))


def _count_lines(path: Path) -> int:
    return sum(1 for _ in read_lines(path))
