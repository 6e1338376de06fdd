"""The scorer of docs/plugins.md that uses a CTranslate2 model, tested with a random Transformer."""

from __future__ import annotations

import gzip
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from moses_integration.nbest import read_nbest, write_nbest
from tests.cli.running import ENVIRONMENT
from tests.conftest import MINI
from tests.test_plugins import example

ctranslate2 = pytest.importorskip("ctranslate2")

WIDTH = 8
SENTENCES = 3


def write_model(folder: Path, words: list[str]) -> None:
    """Write a Transformer of one layer and random weights."""
    from ctranslate2.specs import TransformerSpec

    random = np.random.default_rng(1)
    spec = TransformerSpec.from_config(num_layers=1, num_heads=2)
    words = ["<unk>", "<s>", "</s>", *words]

    def normal(*shape: int) -> Any:
        return random.normal(size=shape).astype(np.float32)

    def fill(layer: Any, outputs: int = WIDTH) -> None:
        layer.weight, layer.bias = normal(outputs, WIDTH), normal(outputs)

    for side in (spec.encoder, spec.decoder):
        embeddings = side.embeddings[0] if isinstance(side.embeddings, list) else side.embeddings
        embeddings.weight = normal(len(words), WIDTH)
        side.position_encodings.encodings = normal(200, WIDTH)
        [layer] = side.layer
        fill(layer.self_attention.linear[0], 3 * WIDTH)
        fill(layer.self_attention.linear[1])
        fill(layer.ffn.linear_0)
        fill(layer.ffn.linear_1)
        norms = [side.layer_norm, layer.self_attention.layer_norm, layer.ffn.layer_norm]
        if side is spec.decoder:
            for linear, outputs in zip(layer.attention.linear, (WIDTH, 2 * WIDTH, WIDTH), strict=True):
                fill(linear, outputs)
            norms.append(layer.attention.layer_norm)
        for norm in norms:
            norm.gamma, norm.beta = normal(WIDTH), normal(WIDTH)
    fill(spec.decoder.projection, len(words))
    spec.config.add_source_eos = True
    spec.register_source_vocabulary(words)
    spec.register_target_vocabulary(words)
    spec.validate()
    spec.optimize()
    folder.mkdir()
    spec.save(str(folder))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the plugin, a converted model, its model folder, a table, and an n-best list with its texts."""
    folder = tmp_path_factory.mktemp("external")
    (folder / "ctranslate2_scorer.py").write_text(example("Score with an external model")[0])
    texts = [(MINI / f"{part}.{side}").read_text() for part in ("train", "dev") for side in ("en", "fr")]
    # Without the full stop, which is an unknown word.
    write_model(folder / "converted", sorted({*" ".join(texts).split()} - {"."}))
    for name in ("dev.en", "dev.fr"):
        (folder / name).write_bytes(b"".join((MINI / name).read_bytes().splitlines(keepends=True)[:SENTENCES]))
    entries = read_nbest(MINI / "decode/default.nbest.gz")
    write_nbest(folder / "dev.nbest", (entry for entry in entries if entry.sentence < SENTENCES))
    with gzip.open(MINI / "phrase-table.gz") as whole, gzip.open(folder / "phrase-table.gz", "wb") as table:
        table.writelines(line for number, line in enumerate(whole) if number % 30 == 0)
    return folder


def run(command: str, place: Path) -> str:
    """Run a command of the page; return its output."""
    package = {"phrasescore": "phrasescore", "phrasescore-smt": "moses_integration"}[command.split()[0]]
    program = f"from {package}.cli import main\nif __name__ == '__main__': assert main({command.split()[1:]}) == 0"
    # Python's default filters, because importing CTranslate2 warns.
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=place, env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_the_commands_of_the_page(place: Path) -> None:
    commands = example("Score with an external model")[1].replace("\\\n", " ").splitlines()
    *shell, annotate, rescore = commands
    subprocess.run(["sh", "-ec", "\n".join(shell)], cwd=place, check=True)
    run(annotate, place)
    message = run(f"{rescore} --nbest-output out.nbest --processes 1", place)
    assert " of the target words are unknown to the network" in message
    translator = ctranslate2.Translator(str(place / "converted"), compute_type="float32")

    def log_prob(source: str, target: str) -> float:
        (result,) = translator.score_batch([source.split()], [target.split()])
        assert len(result.log_probs) == len(target.split()) + 1
        return float(sum(result.log_probs))

    lines = gzip.decompress((place / "phrase-table.nmt.gz").read_bytes()).decode().splitlines()
    assert len(lines) > 20
    for line in lines:
        source, target, scores, *_ = line.split(" ||| ")
        assert math.log(float(scores.split()[-1])) == pytest.approx(max(-99, log_prob(source, target)), abs=1e-3)
    sentences = (place / "dev.en").read_text().splitlines()
    entries = list(read_nbest(place / "out.nbest"))
    assert {entry.sentence for entry in entries} == {*range(SENTENCES)}
    for entry in entries:
        (value,) = entry.features()["NMT"]
        assert value == pytest.approx(log_prob(sentences[entry.sentence], entry.words.decode()), abs=1e-3)
    assert json.loads((place / "weights.json").read_text())["weights"]["NMT"]


def test_a_worker_process_loads_plugin_and_model(place: Path) -> None:
    (place / "nmt").mkdir(exist_ok=True)
    (place / "nmt/config.json").write_text('{"kind": "ctranslate2", "model": "../converted"}')
    pack = (
        "import pickle, sys; from phrasescore import load_scorer; from phrasescore.plugins import load_plugins\n"
        "load_plugins(['ctranslate2_scorer.py']); sys.stdout.buffer.write(pickle.dumps(load_scorer('nmt').recipe))"
    )
    unpack = (
        "import pickle, sys; from phrasescore import Occurrences\n"
        "scorer = pickle.loads(sys.stdin.buffer.read())()\n"
        "words = scorer.score(Occurrences([b'the dog .'], [b'a .'])).words\n"
        "print(type(scorer).__name__, words.target, words.target_unknown)"
    )
    packed = subprocess.run([sys.executable, "-c", pack], cwd=place, env=ENVIRONMENT, capture_output=True, check=True)
    done = subprocess.run(
        [sys.executable, "-c", unpack], input=packed.stdout, env=ENVIRONMENT, capture_output=True, check=True
    )
    assert done.stdout.split() == [b"CTranslate2Scorer", b"2", b"1"]
