"""Workers of a scheduler resolve relative paths against the client's working directory."""

from __future__ import annotations

import re

import pytest
from distributed import LocalCluster

from tests.faults import readers
from tests.faults.world import (
    BUILD,
    COLUMN_INI,
    CONTEXT_MODEL,
    INI,
    PLUGIN,
    PLUGIN_MODEL,
    REORDERING,
    RESCORE,
    TABLE,
    World,
)

_ANNOTATE = ("phrasescore", "annotate", TABLE, "-o", "out", "-q")
_TEXT = ("--source", "dev.en", "--toolkit", "embedded", "-q")
_TUNE = ("--reference", "dev.fr", "--iterations", "2", "--restarts", "1", "--nbest", "5", "-o", "out")
_IN_CONTEXT = ("--in-context", CONTEXT_MODEL)
_RESCORE = ("phrasescore-smt", *RESCORE, "--scorer", "S=model", "--scorer", "L=lm", "-o", "out")
_LEARN = ("--reference", "dev.fr", "--ini", COLUMN_INI)

SHARING: dict[str, tuple[tuple[str, ...], str]] = {
    "annotate": ((*_ANNOTATE, "-m", "model"), "out"),
    "annotate for a text": ((*_ANNOTATE, "-m", "model", "--only-sources-in", "dev.en"), "out"),
    "annotate with a plugin": ((*_ANNOTATE, "-m", PLUGIN_MODEL, "--plugin", PLUGIN), "out"),
    "build": (("phrasescore-smt", *BUILD, "-o", "new"), "new/phrase-table.gz"),
    "tune in a work folder": (("phrasescore-smt", "tune", COLUMN_INI, *_TEXT, *_TUNE, "--work", "new"), "out"),
    "tune in context": (("phrasescore-smt", "tune", INI, *_TEXT, *_TUNE, "--work", "new", *_IN_CONTEXT), "out"),
    "decode": (("phrasescore-smt", "decode", COLUMN_INI, *_TEXT, "-o", "out"), "out"),
    "decode in a work folder": (("phrasescore-smt", "decode", COLUMN_INI, *_TEXT, "-o", "out", "--work", "new"), "out"),
    "text-table": (
        ("phrasescore-smt", "text-table", INI, *_TEXT[:2], "-q", "-o", "new", *_IN_CONTEXT),
        "new/phrase-table.gz",
    ),
    "rescore, tuning": ((*_RESCORE, *_LEARN, "--nbest-output", "new.nbest"), "new.nbest"),
}
"""Commands that share work, with relative paths only, and one output of each."""


@pytest.mark.parametrize("name", SHARING)
def test_workers_in_another_folder_find_the_files(world: World, cluster: LocalCluster, name: str) -> None:
    command, output = SHARING[name]
    contents = []
    for place in (("--processes", "1"), ("--scheduler", cluster.scheduler_address)):
        world.renew()
        done = world.run((*command, *place))
        assert done.code == 0, done.err.decode()
        contents.append(readers.read(world.folder / output))
    assert contents[0] == contents[1]


def test_an_error_of_a_worker_says_that_it_comes_from_a_worker(world: World, cluster: LocalCluster) -> None:
    world.renew()
    (world.folder / REORDERING).unlink()
    done = world.run((*SHARING["decode"][0], "--scheduler", cluster.scheduler_address))
    assert done.code == 1
    assert re.search(
        rb"^phrasescore-smt decode: /\S+/reordering-table\S+: .*; .*on the Dask worker tcp://\S+\)$", done.err
    )
