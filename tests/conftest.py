"""Fixtures that several test modules share."""

from __future__ import annotations

import gzip
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest
import torch

from phrasescore.device import choose_device
from phrasescore.model_folder import load_model
from phrasescore.nn.architecture import ModelConfig
from phrasescore.pairs import DataConfig
from phrasescore.scoring.encoder_decoder import EncoderDecoderScorer
from phrasescore.training.settings import Settings
from phrasescore.training.training_config import TrainingConfig
from tests.reference import Weights

if TYPE_CHECKING:
    # Worker processes of tests import this module, and would import Dask, too.
    from distributed import LocalCluster

# Hypothesis examples may be slow on a busy machine; the tests' own time-out suffices. Each run draws others.
hypothesis.settings.register_profile("tests", deadline=None, max_examples=40)
hypothesis.settings.load_profile("tests")

DATA = Path(__file__).parent / "data"
MINI = DATA / "mini"
SHARED = Path(__file__).parents[2] / "shared"

TINY = ModelConfig(hidden=8, embedding=5, maxout=4, output_rank=3, biases="all", initialisation="scaled")


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name a parameter of undecodable bytes after its argument.

    By default pytest names such bytes by their content. Compressed data may contain the time, so workers of
    pytest-xdist that start in different seconds would collect different tests.
    """
    return argname if isinstance(val, bytes) and not val.isascii() else None


@pytest.fixture
def mini_table(tmp_path: Path) -> Path:
    """A copy of the mini corpus's phrase table."""
    return Path(shutil.copy(MINI / "phrase-table.gz", tmp_path / "phrase-table.gz"))


@pytest.fixture
def small_table(tmp_path: Path) -> Path:
    """The first 600 lines of the mini corpus's phrase table."""
    path = tmp_path / "small.gz"
    lines = gzip.decompress((MINI / "phrase-table.gz").read_bytes()).splitlines(keepends=True)[:600]
    path.write_bytes(gzip.compress(b"".join(lines), mtime=0))
    return path


@pytest.fixture
def four_pairs(tmp_path: Path) -> Path:
    """A phrase table of four pairs with counts."""
    path = tmp_path / "four-pairs"
    path.write_bytes(
        b"a b ||| x ||| 0.5 1 0.25 1 ||| 0-0 ||| 2 4 1\n"
        b"a b ||| y z ||| 1 1 0.75 1 ||| 0-0 ||| 3 4 3\n"
        b"c ||| x ||| 0.5 1 1 1 ||| 0-0 ||| 2 1 1\n"
        b"d ||| w ||| 1 1 1 1 ||| 0-0 ||| 9 9 9\n"
    )
    return path


@pytest.fixture
def tiny_settings() -> Settings:
    """Settings of a network that trains in a second."""
    training = TrainingConfig(batch_size=32, epochs=2, evaluate_every=10, warmup_updates=5, learning_rate=5e-3)
    return Settings(TINY, DataConfig(held_out=0.1), training)


@pytest.fixture(scope="session")
def scorer() -> EncoderDecoderScorer:
    """A scorer with a network trained briefly on the mini corpus."""
    return EncoderDecoderScorer(load_model(DATA / "stored-model"), choose_device("cpu", "fp32"))


@pytest.fixture(scope="session")
def weights(scorer: EncoderDecoderScorer) -> Weights:
    """The weights of the scorer's network."""
    return {name: tensor.double().numpy() for name, tensor in scorer.model.network.state_dict().items()}


@pytest.fixture
def moses_home() -> Path:
    """The folder of an installed Moses; skips the test if there is none."""
    home = os.environ.get("MOSES_HOME")
    if not home:
        pytest.skip("needs MOSES_HOME")
    return Path(home).resolve()


@pytest.fixture
def multi30k_table() -> Path:
    """A real phrase table; skips the test if it is missing."""
    path = SHARED / "golden/multi30k-en-fr/phrase-table.gz"
    if not path.exists():
        pytest.skip("needs the Multi30k phrase table beside the repository")
    return path


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The figures that the test saves."""
    from matplotlib.figure import Figure

    written: list[Any] = []
    save = Figure.savefig

    def save_and_keep(figure: Any, *arguments: Any, **options: Any) -> None:
        written.append(figure)
        save(figure, *arguments, **options)

    monkeypatch.setattr(Figure, "savefig", save_and_keep)
    return written


@pytest.fixture
def double_precision() -> Iterator[None]:
    """Compute in 64-bit floats."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A Dask scheduler with two workers in another working directory, as on a cluster."""
    from distributed import LocalCluster

    elsewhere = f"import os\nos.chdir({str(tmp_path_factory.mktemp('elsewhere'))!r})\n"
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0", preload=[elsewhere]) as cluster:
        yield cluster
