"""The toolkit of an installed Moses: `train-model.perl`, `mert-moses.pl` and `moses`."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path

from moses_integration.building.aligned_corpus import Corpus, read_aligned_corpus
from moses_integration.building.alignment import HEURISTIC
from moses_integration.building.translation_tables import PHRASE_TABLE, REORDERING_TABLE, REORDERING_TYPE
from moses_integration.decoder.declaration import KINDS
from moses_integration.decoder.phrases import words_of
from moses_integration.decoder.settings import SearchSettings
from moses_integration.decoder.tables import filter_table
from moses_integration.ini import IGNORED, FeatureLine, MosesIni, Weights
from moses_integration.toolkits.binary_tables import binary_form
from moses_integration.toolkits.installation import Installation, StepFailure, has_content, run_step
from moses_integration.toolkits.moses_input import require_moses_words
from moses_integration.toolkits.script_names import check_folder_name, link_files
from moses_integration.toolkits.toolkit import Binary, NbestRequest, Progress, Translate, TuningRequest
from moses_integration.tuning.bleu import read_references
from moses_integration.tuning.tune import check_dev_set
from moses_integration.tuning.tunings import Tuning, TuningConfig
from phrasescore.errors import UserError
from phrasescore.files import open_output, read_lines, write_lines
from phrasescore.text import ProgressCallback, no_progress, text_lines
from phrasescore.words import phrases_of
from phrasescore.workers import available_cores

_TABLES = ("lex.e2f", "lex.f2e", PHRASE_TABLE, REORDERING_TABLE)
_REFERENCES = "dev.references"
_TEXT_TABLES = ("PhraseDictionaryMemory", "LexicalReordering")
_PLAIN = {"inputtype": {"0"}, "input-factors": {"0"}, "search-algorithm": {"0", "1"}, "xml-input": {"pass-through"}}
"""Settings under which source phrases are sequences of the input words, so that tables can be filtered."""
_RUN_COMMANDS = ("PhraseDictionaryFuzzyMatch", "PhraseDictionaryTransliteration")
"""Classes with which Moses runs shell commands from the line of the feature."""
_CHANGE_FEATURES = ("feature-add", "feature-name-overwrite", "feature-overwrite")
"""Sections that change the features of [feature]."""
_DEV_BLEU = re.compile(r"^# BLEU ([0-9.]+(?:e-?[0-9]+)?) on dev", re.MULTILINE)


class MosesToolkit:
    """An installed Moses."""

    name = "moses"

    def __init__(self, installation: Installation, processes: int | None = None, binary: Binary | None = None) -> None:
        check_folder_name(installation.home)
        self._moses, self._binary = installation, binary
        self._threads = str(processes or available_cores())

    def __str__(self) -> str:
        return f"Moses in {self._moses.home}"

    def check(self, ini: MosesIni, folder: Path, *, tunes: bool) -> None:
        """Reject unknown features, and names that Moses' scripts cannot handle."""
        check_folder_name(folder)
        _check_features(ini)
        for feature in ini.features() if tunes else ():
            ini.check_label(feature)

    def check_text(self, ini: MosesIni, source: Path) -> None:
        """Reject words that Moses would misread, if the input is plain text."""
        if ini.values("inputtype") in ([], ["0"]) and not ini.values("factor-delimiter"):
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
        command: list[str | Path] = [
            "perl",
            self._moses.script("training/train-model.perl"),
            "--root-dir",
            root.resolve(),
        ]
        command += ["--corpus", corpus.source.resolve().with_suffix("")]
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
        self.check(ini, folder, tunes=True)
        self.check_text(ini, source)
        folder.mkdir(parents=True, exist_ok=True)
        sentences, references = list(text_lines(source)), read_references(request.references)
        check_dev_set(sentences, references, (source, request.references[0]))
        # Moses drops an unterminated last line, and some of its programs do not decompress.
        dev = folder / "dev.lines"
        write_lines(dev, sentences)
        # mert-moses.pl reads all files with this prefix, also those of an earlier run.
        for earlier in folder.glob(f"{_REFERENCES}*"):
            earlier.unlink()
        for number, lines in enumerate(zip(*references, strict=True)):
            write_lines(folder / f"{_REFERENCES}{number}", lines)
        request.progress(None, "filtering tables")
        filtered = self._filter(ini, dev, folder)
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
        self.check(ini, folder, tunes=False)
        self.check_text(ini, source)
        yield partial(self._translate, cache(partial(self._filter, ini, source, folder)), source, folder)

    def _translate(
        self,
        filtered: Callable[[], Path],
        source: Path,
        folder: Path,
        weights: Weights,
        output: Path | str,
        nbest: NbestRequest | None = None,
        progress: Progress | None = None,
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

    def _filter(self, ini: MosesIni, source: Path, folder: Path) -> Path:
        """Return a moses.ini whose text tables have only the phrases of the input, in binary form if requested.

        Moses' filter-model-given-input.pl is not used, because it loses source phrases of more than ten words and lines
        with tabs, which Moses reads.
        """
        links, filtered = folder / "links", folder / "filtered"
        for earlier in (links, filtered):
            shutil.rmtree(earlier, ignore_errors=True)
        tables = {one.label: _find_table(ini, one) for one in ini.features() if _is_to_be_filtered(ini, one)}
        # mert-moses.pl ignores a section with a comment after its name.
        result = link_files(ini, links).without_comments()
        for section in IGNORED:
            result.set_values(section, [])
        filtered.mkdir()
        wanted = _phrases_of_text(ini, source) if tables else set()
        for label, path in tables.items():
            feature = result.feature(label)
            table = filtered / f"{Path(feature.arguments['path']).name.removesuffix('.gz')}.gz"
            filter_table(path, wanted, table, is_for_reordering=feature.kind == "LexicalReordering")
            result.set_argument(label, "path", str(table.resolve()))
            # Moses fails or crashes without factors.
            for key in _factors_of(feature):
                if key not in feature.arguments:
                    result.set_argument(label, key, "0")
        if self._binary is not None:
            for feature in result.features():
                self._binarise(result, feature, folder, self._binary)
        result.write(filtered / "moses.ini")
        return filtered / "moses.ini"

    def _binarise(self, ini: MosesIni, feature: FeatureLine, folder: Path, binary: Binary) -> None:
        """Convert the table of a feature, unless it is empty, and set its path in the ini."""
        if "path" not in feature.arguments:
            return
        table = ini.path_of(feature)
        form = binary_form(binary, feature, table)
        if form is None or not has_content(table):
            return
        command = [self._moses.binary(form.program), *form.options]
        run_step(f"binarising {feature.label}", command, folder / f"binarise.{table.name}.log", form.artefacts)
        ini.set_kind(feature.label, form.kind)
        ini.set_argument(feature.label, "path", str(form.path))


def _check_features(ini: MosesIni) -> None:
    """Reject features that Moses does not have, or that make it run other programs."""
    for section in _CHANGE_FEATURES:
        if ini.values(section):
            raise UserError(
                f"{ini.location(section)}: [{section}] changes features of [feature]; edit [feature] instead"
            )
    for feature in ini.features():
        place = f"{ini.at(feature.row)}: {feature.label}"
        if feature.kind in KINDS and not KINDS[feature.kind].is_of_moses:
            raise UserError(
                f"{place} is a neural language model, which Moses does not have; use --toolkit embedded, or remove it "
                "and rescore with `phrasescore-smt rescore`"
            )
        if feature.kind in _RUN_COMMANDS:
            raise UserError(f"{place} makes Moses run commands of its line; remove it, or run moses yourself")


def _is_to_be_filtered(ini: MosesIni, feature: FeatureLine) -> bool:
    """Whether a table is text whose source phrases are sequences of the input words, and may be filtered."""
    if feature.kind not in _TEXT_TABLES or feature.arguments.get("filterable") == "false":
        return False
    if feature.kind == "LexicalReordering" and not {"f", "fe"} & {*feature.arguments.get("type", "").split("-")}:
        return False
    plain = all(set(ini.values(section)) <= values for section, values in _PLAIN.items())
    return plain and feature.arguments.get("input-factor", "0") == "0"


def _factors_of(table: FeatureLine) -> tuple[str, ...]:
    """Return the arguments for factors; a reordering table without target phrases has none for the output."""
    has_target = table.kind != "LexicalReordering" or "f" not in table.arguments["type"].split("-")
    return ("input-factor", "output-factor") if has_target else ("input-factor",)


def _find_table(ini: MosesIni, table: FeatureLine) -> Path:
    """Return the file of a table; Moses also finds `table.gz` by the name `table`."""
    named = ini.path_of(table)
    path = next((path for path in (named, Path(f"{named}.gz")) if path.is_file()), None)
    if path is None:
        raise UserError(f"{ini.at(table.row)}: {named}: is not a file; fix the path=")
    return path


def _phrases_of_text(ini: MosesIni, text: Path) -> set[bytes]:
    """Return the phrases of a text up to the length that Moses looks up."""
    given = ini.values("max-phrase-length")
    longest = int(given[0]) if given and given[0].isdecimal() else SearchSettings().longest_phrase
    return {phrase for line in text_lines(text) for phrase in phrases_of(words_of(line), longest)}


def _count_lines(path: Path) -> int:
    return sum(1 for _ in read_lines(path))
