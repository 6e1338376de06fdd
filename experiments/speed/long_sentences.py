"""How the decoder's time grows with the length of a sentence, with Moses' usual distortion limit."""

from __future__ import annotations

import time
from itertools import chain, cycle, islice
from pathlib import Path
from typing import Any

from experiments.decoding_time import Listing
from moses_integration.decoder.phrases import words_of
from moses_integration.decoder.pool import Decoder
from moses_integration.decoder.settings import read_settings
from moses_integration.ini import MosesIni
from phrasescore.files import read_lines

_SYSTEM, _TEXT = Path("tests/data/mini/moses.tuned.ini"), Path("tests/data/mini/test.en")
_LENGTHS = (25, 250, 1000, 4000)
_LISTED = 100


def measure() -> list[dict[str, Any]]:
    """Return for some lengths `words`, and the CPU's seconds for the `best` translation and for a `list` of 100.

    A sentence is made of those of a text, one after another and over again.
    """
    ini = MosesIni.read(_SYSTEM)
    text = cycle(chain.from_iterable(map(words_of, read_lines(_TEXT))))
    sentences = [tuple(islice(text, length)) for length in _LENGTHS]
    decoder = Decoder(ini, read_settings(ini), sentences)
    return [
        {"words": len(sentence), "best": _seconds(decoder, number, 1), "list": _seconds(decoder, number, _LISTED)}
        for number, sentence in enumerate(sentences)
    ]


def _seconds(decoder: Decoder, number: int, size: int) -> float:
    started = time.process_time()
    decoder.run(Listing(size), number)
    return time.process_time() - started
