"""The embedded toolkit, which needs Python packages only."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from moses_integration.building.aligned_corpus import Corpus
from moses_integration.building.translation_tables import TableCounts, build_tables
from moses_integration.decoder.phrases import require_words, words_of
from moses_integration.decoder.pool import DecoderPool, LoadDecoder, Translating, load_decoder, start_decoders
from moses_integration.decoder.settings import UnsupportedError, read_settings
from moses_integration.ini import MosesIni, Weights, quote_text
from moses_integration.per_text.context_sections import without_column
from moses_integration.per_text.options_in_context import load_scored, score_text
from moses_integration.toolkits.toolkit import NbestRequest, SentencesCallback, Toolkit, Translate, TuningRequest
from moses_integration.tuning.bleu import read_dev_set
from moses_integration.tuning.tune import Tuner, tunable_model
from moses_integration.tuning.tunings import Iteration, Tuning
from phrasescore.files import open_output
from phrasescore.text import ProgressCallback, no_progress, text_lines
from phrasescore.workers import available_cores

if TYPE_CHECKING:
    from moses_integration.per_text.context_column import ContextColumn


class EmbeddedToolkit:
    """The table builder, decoder and MERT of this package; it works in a folder of any name."""

    name = "embedded"

    def __init__(
        self, processes: int | None = None, scheduler: str | None = None, column: ContextColumn | None = None
    ) -> None:
        """Take the options of `start_workers`, and the column of systems with a column in context."""
        self._processes, self._scheduler, self._column = processes, scheduler, column

    def __str__(self) -> str:
        return self.name

    def with_context_column(self, column: ContextColumn) -> Toolkit:
        """Return a toolkit that scores each text in memory."""
        return EmbeddedToolkit(self._processes, self._scheduler, column)

    def check_folder(self, folder: Path) -> None:
        """Accept any name."""

    def build_tables(
        self, corpus: Corpus, folder: Path, longest_phrase: int, progress: ProgressCallback = no_progress
    ) -> TableCounts:
        """Write the phrase table and the reordering table of a corpus to a system folder."""
        texts = corpus.source, corpus.target, corpus.alignment
        return build_tables(*texts, folder, longest_phrase, self._processes, self._scheduler, progress)

    def check(self, ini: MosesIni, source: Path, folder: Path, *, tunes: bool) -> None:
        """Reject factored target words and `|`; the decoder itself rejects other unsupported features early."""
        table = ini.phrase_table()
        if (factors := table.arguments.get("output-factor", "0")) != "0":
            raise UnsupportedError(
                f"{ini.at(table.row)}: `output-factor={quote_text(factors)}` asks for factored "
                "translations, which the embedded decoder does not write"
            )
        require_words(text_lines(source), source)

    def tune(self, ini: MosesIni, request: TuningRequest) -> Iterator[Tuning]:
        """Yield the tuned weights of each seed, lazily."""
        source, seeds = request.source, request.seeds
        sentences, references = read_dev_set(source, request.references)
        self.check(ini, source, request.folder, tunes=True)
        model = tunable_model(ini)
        if self._column:
            request.progress(None, "scoring phrase pairs in context")
        with self._decoders(ini, sentences, request.folder) as pool:
            tuner = Tuner(model, pool, references, request.settings, self._processes or available_cores())
            for done, seed in enumerate(seeds):

                def progress(share: float | None, text: str, done: int = done, seed: int = seed) -> None:
                    request.progress(None if share is None else (done + share) / len(seeds), f"{text}, seed {seed}")

                def report(iteration: Iteration, seed: int = seed) -> None:
                    request.log(
                        f"seed {seed}: dev BLEU {iteration.bleu:.2f}, {iteration.candidates} candidates, "
                        f"predicted with the next weights {iteration.predicted:.2f} ({iteration.seconds:.0f} s)"
                    )

                yield tuner.tune(seed, report, request.checkpoint, progress)

    @contextmanager
    def _decoders(self, ini: MosesIni, lines: Iterable[bytes], folder: Path) -> Iterator[DecoderPool]:
        """Yield a pool that decodes a text, after scoring it in context if the system has such a column."""
        sentences = [words_of(line) for line in lines]
        settings = read_settings(without_column(ini))
        # The workers of a scheduler share the folder of the run; others use a temporary folder of this machine.
        shared = folder if self._scheduler is not None else None
        load: LoadDecoder = partial(load_decoder, ini, settings)
        with ExitStack() as stack:
            if self._column is not None:
                folder.mkdir(parents=True, exist_ok=True)
                scored = Path(stack.enter_context(TemporaryDirectory(prefix="in-context.", dir=shared)))
                score_text(ini, settings, sentences, self._column, scored, folder / "scores")
                load = partial(load_scored, ini, settings, scored)
            yield stack.enter_context(start_decoders(load, sentences, self._processes, self._scheduler, shared))

    @contextmanager
    def translator(self, ini: MosesIni, source: Path, folder: Path) -> Iterator[Translate]:
        """Yield a function that translates the text; its decoders start at the first call and stay loaded."""
        self.check(ini, source, folder, tunes=False)
        lines = list(text_lines(source))
        with ExitStack() as stack:

            @cache
            def start() -> DecoderPool:
                return stack.enter_context(self._decoders(ini, lines, folder))

            yield partial(_translate, start, len(lines))


def _translate(
    start: Callable[[], DecoderPool],
    sentences: int,
    weights: Weights,
    output: Path | str,
    nbest: NbestRequest | None = None,
    progress: SentencesCallback | None = None,
) -> int:
    """Write translations and n-best lists; return the number of unknown words."""
    unknown = 0
    with ExitStack() as stack:
        best = stack.enter_context(open_output(output))
        lists = stack.enter_context(open_output(nbest.path)) if nbest else None
        results = start().run(Translating(nbest.size if nbest else 0), weights)
        for done, result in enumerate(results, 1):
            unknown += result.unknown
            best.write(result.line + b"\n")
            if lists:
                lists.writelines(result.nbest)
            if progress:
                progress(done, sentences)
    return unknown
