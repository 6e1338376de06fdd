"""The toolkit of an installed Moses: `train-model.perl`, `filter-model-given-input.pl`, `mert-moses.pl` and `moses`."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from moses_integration.build.system import REORDERING_TABLE, REORDERING_TYPE, Corpus
from moses_integration.ini import MosesIni
from moses_integration.installed_moses import Installation, run_step
from moses_integration.processes import available_cores
from moses_integration.toolkit import NbestRequest, Say
from moses_integration.tuning.tune import Tuning, TuningSettings
from phrasescore.errors import UserError
from phrasescore.files import open_output

_HEURISTIC = "grow-diag-final-and"
_TABLES = ("lex.e2f", "lex.f2e", "phrase-table.gz", REORDERING_TABLE)
_DEV_BLEU = re.compile(r"^# BLEU (\S+) on dev", re.MULTILINE)


class MosesToolkit:
    """An installed Moses."""

    name = "moses"

    def __init__(self, installation: Installation, processes: int | None = None) -> None:
        self._moses = installation
        self._threads = str(processes or available_cores())

    def __str__(self) -> str:
        return f"Moses in {self._moses.home}"

    def build_tables(self, corpus: Corpus, folder: Path, longest_phrase: int) -> None:
        """Run steps 4 to 7 of train-model.perl: lexical tables, extraction, phrase scores, reordering table."""
        root = folder / "training"
        model = root / "model"
        model.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(corpus.alignment, model / f"aligned.{_HEURISTIC}")
        command: list[str | Path] = [
            "perl",
            self._moses.script("training/train-model.perl"),
            "--root-dir",
            root.resolve(),
        ]
        command += ["--corpus", corpus.source.resolve().with_suffix("")]
        command += ["-f", corpus.source.suffix[1:], "-e", corpus.target.suffix[1:], "--alignment", _HEURISTIC]
        command += ["--reordering", REORDERING_TYPE.removeprefix("wbe-"), "--max-phrase-length", str(longest_phrase)]
        command += ["--first-step", "4", "--last-step", "7", "--cores", self._threads]
        run_step("tables", command, folder / "train-model.log", [model / name for name in _TABLES])
        for name in _TABLES:
            (model / name).replace(folder / name)
        shutil.rmtree(root)

    def tune(
        self,
        ini: MosesIni,
        source: Path,
        references: Sequence[Path],
        seeds: Sequence[int],
        settings: TuningSettings,
        folder: Path,
        say: Say,
    ) -> list[Tuning]:
        """Run mert-moses.pl once for each seed, on tables filtered for the dev set."""
        folder.mkdir(parents=True, exist_ok=True)
        filtered = self._filter(ini, source, folder)
        tunings = []
        for seed in seeds:
            tuning = self._mert(filtered, source, references, seed, settings, folder / f"mert.seed{seed}")
            say(f"seed {seed}: dev BLEU {tuning.bleu:.2f}")
            tunings.append(tuning)
        return tunings

    def _mert(
        self,
        filtered: Path,
        source: Path,
        references: Sequence[Path],
        seed: int,
        settings: TuningSettings,
        work: Path,
    ) -> Tuning:
        # mert-moses.pl reuses what it finds of an earlier run, even when the ini has changed.
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        prefix = work / "reference"
        for number, reference in enumerate(references):
            (work / f"reference{number}").symlink_to(reference.resolve())
        command: list[str | Path] = ["perl", self._moses.script("training/mert-moses.pl")]
        command += [source.resolve(), prefix.resolve(), self._moses.binary("moses"), filtered.resolve()]
        command += ["--working-dir", work.resolve(), "--rootdir", self._moses.home / "scripts"]
        command += ["--mertdir", self._moses.home / "bin", "--no-filter-phrase-table", "--return-best-dev"]
        command += ["--nbest", str(settings.nbest), "--maximum-iterations", str(settings.iterations)]
        # The script glues these to what follows, hence the blank.
        command += ["--mertmertargs", f"-n {settings.restarts} -r {seed} ", "--threads", self._threads]
        command += ["--decoder-flags", f"-threads {self._threads} -v 0"]
        tuned = work / "moses.ini"
        run_step(f"tuning with seed {seed}", command, work / "mert-moses.log", [tuned])
        result = MosesIni.read(tuned)
        header = _DEV_BLEU.search("".join(result.lines))
        if header is None:
            raise UserError(f"{tuned}: mert-moses.pl wrote no dev BLEU; see {work / 'mert-moses.log'}")
        bleu = float(header[1])
        return Tuning(seed, result.weights(), 100 * bleu if bleu <= 1 else bleu)

    def decode(self, ini: MosesIni, source: Path, output: Path | str, nbest: NbestRequest | None, folder: Path) -> None:
        """Run `moses` on tables filtered for the input."""
        folder.mkdir(parents=True, exist_ok=True)
        filtered = self._filter(ini, source, folder)
        translations = folder / "translations"
        command: list[str | Path] = [
            self._moses.binary("moses"),
            "-f",
            filtered.resolve(),
            "-threads",
            self._threads,
            "-v",
            "0",
        ]
        artefacts = [translations]
        if nbest:
            lists = folder / "nbest"
            command += ["-n-best-list", lists.resolve(), str(nbest.size), "distinct"]
            command += ["-include-segmentation-in-n-best", "true", "-print-alignment-info-in-n-best", "true"]
            artefacts.append(lists)
        run_step("decoding", command, folder / "moses.log", artefacts, stdin=source, stdout=translations)
        with open_output(output) as stream, translations.open("rb") as lines:
            stream.writelines(line.rstrip(b" \n") + b"\n" for line in lines)
        if nbest:
            with open_output(nbest.path) as stream, lists.open("rb") as content:
                shutil.copyfileobj(content, stream)

    def _filter(self, ini: MosesIni, source: Path, folder: Path) -> Path:
        """Return a moses.ini whose tables hold only what the input needs."""
        whole, filtered = folder / "whole.ini", folder / "filtered"
        shutil.rmtree(filtered, ignore_errors=True)
        ini.with_absolute_paths().write(whole)
        command: list[str | Path] = ["perl", self._moses.script("training/filter-model-given-input.pl")]
        command += [filtered.resolve(), whole.resolve(), source.resolve()]
        run_step("filtering", command, folder / "filter.log", [filtered / "moses.ini"])
        return filtered / "moses.ini"
