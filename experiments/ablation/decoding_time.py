"""What networks cost in translating: seconds a sentence, in one process on one thread.

The same sentences are decoded twice. The first time nothing is known of them; the second time, as in tuning, a neural
language model in the decoder finds nearly all its n-grams in its cache. Loading is left out, and so is searching for
weights; one word is translated once before. The table of a text is made by what loads the system, too; what it takes
for one word is loading. Seconds are the CPU's, which hardly change when the machine has other work too; where a GPU
computes the networks they are the clock's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from experiments.steps import Json
from experiments.timing import timed
from moses_integration.decoder.neural_lm import NeuralLanguageModelFeature
from moses_integration.decoder.phrases import words_of
from moses_integration.decoder.pool import SentenceDecoder
from moses_integration.decoder.settings import read_settings
from moses_integration.ini import MosesIni, Weights
from moses_integration.nbest import parse_entry
from moses_integration.placed.columns import ScorerColumns
from moses_integration.placed.system import place_text
from moses_integration.rescoring.features import FeatureSpec, load_features
from moses_integration.rescoring.reranking import add_scores, best_of, rerank
from moses_integration.toolkits.embedded import Translating
from phrasescore.device import choose_device, one_thread
from phrasescore.files import write_lines
from phrasescore.text import text_lines


@dataclass(frozen=True)
class Rescoring:
    """How networks choose from n-best lists."""

    choices: Sequence[FeatureSpec]
    """What scores the lists."""
    weights: Weights
    """For all features."""
    size: int
    """Translations of a list."""


def time_translating(
    ini: MosesIni, source: Sequence[bytes], column: ScorerColumns | None = None, rescoring: Rescoring | None = None
) -> Json:
    """Return what translating costs.

    Args:
        ini: tuned; that of the decoder if lists are rescored.
        source: sentences as tokens.
        column: what makes a table for the text, to translate with.
        rescoring: how networks then choose from n-best lists.

    Returns:
        `device`, where networks compute; `cold` and `warm`: `seconds` a sentence, `queries` of the neural language
        model a sentence, and `served`, the share of them that its cache had (None without queries). Besides, in seconds
        a sentence that are part of both: `placing`, what the table takes, and `rescoring`, scoring and choosing.

    Raises:
        UserError: a model cannot be loaded.
    """
    # Where the decoder lets networks compute.
    device, seconds = choose_device("auto", "fp32"), dict[str, float]()

    @contextmanager
    def part(name: str) -> Iterator[None]:
        with timed() as timing:
            yield
        used = timing.cpu_seconds if device.torch_device.type == "cpu" else timing.seconds
        seconds[name] = used / len(source)

    with TemporaryDirectory() as folder, one_thread():
        if column is not None:
            with part("loading"):
                _place(ini, [_one_word(source)], Path(folder) / "word", column)
            with part("placing"):
                ini, source = _place(ini, source, Path(folder) / "text", column)
            seconds["placing"] = max(0.0, seconds["placing"] - seconds.pop("loading"))
        decoder = _warmed_up(ini, source)
        queries: Json = {}
        for name in ("cold", "warm"):
            with part(name):
                queries[name], lists = _decode(decoder, len(source), rescoring.size if rescoring else 0)
        if rescoring is not None:
            entries = [parse_entry(line.rstrip(b"\n")) for line in lists]
            scorers = load_features(rescoring.choices, device, ini.language_model())
            with part("rescoring"):
                best_of(rerank(add_scores(entries, source, scorers), rescoring.weights), len(source))
    more = {name: used for name, used in seconds.items() if name not in queries}
    whole = {name: {"seconds": seconds[name] + sum(more.values()), **found} for name, found in queries.items()}
    return {"device": str(device), **whole, **more}


def _place(ini: MosesIni, source: Sequence[bytes], folder: Path, column: ScorerColumns) -> tuple[MosesIni, list[bytes]]:
    """Return the system of a text and its sentences, which are written into a new folder."""
    folder.mkdir()
    text = folder / "source"
    write_lines(text, source)
    placed = place_text(ini, text, folder, column)
    return MosesIni.read(placed.ini), list(text_lines(placed.text))


def _one_word(source: Sequence[bytes]) -> bytes:
    """Return what is translated once before: hardly any option, and few n-grams for a cache."""
    return words_of(source[0])[0]


def _warmed_up(ini: MosesIni, source: Sequence[bytes]) -> SentenceDecoder:
    """Return a decoder of the sentences that has done what a process does once; its caches have next to nothing."""
    ini = ini.copy()
    for feature in ini.features():
        # Scores in a file would be those of earlier decodings.
        ini.remove_argument(feature.label, "cache")
    sentences = [words_of(line) for line in [*source, _one_word(source)]]
    decoder = SentenceDecoder(ini, read_settings(ini), sentences)
    decoder.run(Translating(0), len(source))
    return decoder


def _decode(decoder: SentenceDecoder, sentences: int, size: int) -> tuple[Json, list[bytes]]:
    """Return what the neural language model was asked and its cache had, and the lines of n-best lists of a size."""
    neural = [one for one in decoder.model.context_features if isinstance(one, NeuralLanguageModelFeature)]
    for feature in neural:
        feature.queries = feature.served = 0
    lines = [line for number in range(sentences) for line in decoder.run(Translating(size), number)[1]]
    queries, served = sum(one.queries for one in neural), sum(one.served for one in neural)
    return {"queries": queries / sentences, "served": served / queries if queries else None}, lines
