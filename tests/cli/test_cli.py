"""End-to-end tests of the `phrasescore` commands."""

from __future__ import annotations

import argparse
import ast
import contextlib
import gzip
import hashlib
import json
import os
import re
import select
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import moses_integration
import phrasescore
from moses_integration.cli import make_parser as make_smt_parser
from phrasescore.cli import make_parser
from phrasescore.training.settings import DEFAULT_PRESETS, PRESETS, read_preset
from tests.cli.running import ENVIRONMENT, MODEL, run
from tests.conftest import DATA, MINI
from tests.forked import ForkedPopen, shared_forker

TINY_OPTIONS = (
    "--hidden 8 --set model.embedding=5 --set model.output_rank=3 --batch-size 32 --evaluate-every 20 --device cpu"
)


def error_of(done: subprocess.CompletedProcess[bytes], code: int = 1) -> str:
    """The one sentence of a run that failed."""
    text = done.stderr.decode()
    assert "Traceback" not in text
    assert done.returncode == code
    return text.strip().splitlines()[-1]


def test_the_whole_job(mini_table: Path, tmp_path: Path) -> None:
    model, output, report = tmp_path / "rnn", tmp_path / "out.gz", tmp_path / "report.json"
    trained = run("train", mini_table, "-o", model, *TINY_OPTIONS.split(), "--max-updates", "20")
    assert trained.returncode == 0, trained.stderr
    for part in (
        b"19,385 distinct pairs",
        b"held-out loss ",
        b"per word",
        b"the best so far",
        b"next: phrasescore annotate ",
    ):
        assert part in trained.stderr
    annotated = run("annotate", mini_table, "-m", model, "-o", output, "--report", report, "--device", "cpu")
    assert annotated.returncode == 0, annotated.stderr
    checked = run("check", output, "--num-features", "5")
    assert checked.returncode == 0
    assert b"no problems" in checked.stdout
    reported = json.loads(report.read_text())
    assert reported["input_sha256"] == hashlib.sha256(mini_table.read_bytes()).hexdigest()
    counts = reported["counts"]
    assert counts["lines_read"] == counts["lines_written"] == 19_385
    line = gzip.decompress(output.read_bytes()).splitlines()[7].split(b" ||| ")
    scored = run("score", "-m", model, "--precision", "fp32", stdin=line[0] + b"\t" + line[1] + b"\n")
    assert np.log(float(line[2].split()[-1])) == pytest.approx(float(scored.stdout), abs=0.1)


def test_standard_input_and_output(mini_table: Path) -> None:
    table = mini_table.read_bytes()
    done = run("annotate", "-", "-m", MODEL, "--limit", "30", "-q", stdin=table)
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == 30
    assert done.stderr == b""
    checked = run("check", "-", stdin=table)
    assert checked.returncode == 0


def test_scores_of_pairs() -> None:
    lines = (DATA / "stored-model-scores.tsv").read_bytes().splitlines()
    pairs = b"".join(b"\t".join(line.split(b"\t")[:2]) + b"\n" for line in lines)
    done = run("score", "-m", MODEL, "--precision", "fp32", stdin=pairs)
    expected = [float(line.split(b"\t")[2]) for line in lines]
    assert np.allclose([float(text) for text in done.stdout.split()], expected, atol=1e-4)
    assert "line 2: is not a source phrase, one tab" in error_of(run("score", "-m", MODEL, stdin=b"a\tb\nc d\n"))
    rejected = run("score", "-m", MODEL, stdin=b"a\tb\na\t%b\n" % (8000 * b"x "))
    assert "line 2, target: has more than 1,000 words or 10,000 bytes; no phrase is so long" in error_of(rejected)


def test_networks_are_averaged_if_they_know_the_same_words(small_table: Path, tmp_path: Path) -> None:
    for name, words in (("a", "30"), ("b", "30"), ("other", "20")):
        options = [*TINY_OPTIONS.split(), "--max-updates", "2", "--seed", str(ord(name[0])), "-q"]
        options += ["--set", f"data.target_vocabulary={words}"]
        assert run("train", small_table, "-o", tmp_path / name, *options).returncode == 0
    models: list[list[str | Path]] = [["-m", tmp_path / name] for name in ("a", "b", "other")]
    pair = b"the\tle\n"
    scores = [float(run("score", *model, stdin=pair).stdout) for model in models[:2]]
    together = run("score", *models[0], *models[1], stdin=pair)
    assert abs(float(together.stdout) - sum(scores) / 2) < 1e-3
    assert scores[0] != scores[1]
    rejected = run("annotate", small_table, *models[0], *models[2], "-o", tmp_path / "out.gz")
    assert f"{tmp_path}/other: has another vocabulary than {tmp_path}/a;" in error_of(rejected)


def test_the_report_has_what_chose_the_lines(tmp_path: Path) -> None:
    table, report = tmp_path / "table", tmp_path / "report.json"
    table.write_bytes(b"the ||| le ||| 1 2.718\nthe ||| la ||| 1 2.718\n")
    options: list[str | Path] = ["--replace-last", "2.718", "--limit", "1", "--only-sources-in", MINI / "test.en"]
    done = run("annotate", "-", "-m", MODEL, *options, "--report", report, stdin=table.read_bytes())
    assert done.returncode == 0
    found = json.loads(report.read_bytes())
    assert found["columns"] == ["score"]
    chosen = {"only_sources_in": [str(MINI / "test.en")], "limit": 1, "shard": None, "on_error": "stop"}
    assert found["options"] == {"replace_last": "2.718", **chosen}
    assert found["input_sha256"] is None


def test_columns_by_name_and_a_shard(small_table: Path, tmp_path: Path) -> None:
    output, report = tmp_path / "out", tmp_path / "report.json"
    options: list[str | Path] = ["--columns", "unknown-target", "per-word", "--shard", "1/1", "-o", output]
    done = run("annotate", small_table, "-m", MODEL, *options, "--report", report)
    assert done.returncode == 0
    assert b"next: phrasescore join SHARD... -o TABLE, when all shards are written" in done.stderr
    assert json.loads(report.read_bytes())["columns"] == ["unknown-target", "per-word"]
    assert output.read_bytes().splitlines()[0].split(b" ||| ")[2].count(b" ") == 5
    description = tmp_path / "out.shard.json"
    rejected = error_of(run("annotate", small_table, "-m", MODEL, *options, "--report", description), code=2)
    assert f"{description}: is given for two outputs" in rejected


def test_shards_are_joined_unless_one_is_of_an_older_run(small_table: Path, tmp_path: Path) -> None:
    shards, output = [tmp_path / f"part.{number}.gz" for number in (1, 2)], tmp_path / "out.gz"

    def annotate(number: int, column: str, model: str = MODEL) -> int:
        options = ("--columns", column, "--shard", f"{number}/2", "-o", shards[number - 1], "-q")
        return run("annotate", small_table, "-m", model, *options).returncode

    assert [annotate(number, "unknown-target") for number in (1, 2)] == [0, 0]
    # `part.*` also matches the description files, which `join` must skip.
    done = run("join", *sorted(tmp_path.glob("part.*")), "-o", output)
    assert done.returncode == 0
    assert done.stderr == b"joined 2 shards: 600 lines\n"
    assert gzip.decompress(output.read_bytes()).count(b"\n") == 600
    output.unlink()
    assert [annotate(1, "per-word"), annotate(2, "per-word", "nowhere")] == [0, 1]
    rejected = error_of(run("join", *shards, "-o", output))
    assert rejected.startswith(f"phrasescore join: {shards[1]}: differs from {shards[0]} in columns")
    assert "is an input, which would be lost" in error_of(run("join", *shards, "-o", shards[0]), code=2)
    assert not output.exists()


def test_a_shard_of_a_small_table_that_has_no_line(small_table: Path, tmp_path: Path) -> None:
    done = run("annotate", small_table, "-m", MODEL, "--limit", "1", "--shard", "1/2", "-o", tmp_path / "out")
    assert done.returncode == 0
    assert (tmp_path / "out").read_bytes() == b""
    assert re.search(rb"\n0 lines read, 0 written, [\d,]+ lines/s\n", done.stderr)


def test_a_dry_run_writes_nothing(small_table: Path, tmp_path: Path) -> None:
    # A table this small is scored by one process, whatever --processes is.
    done = run("annotate", small_table, "-m", MODEL, "-o", tmp_path / "out.gz", "--dry-run", "--processes", "32")
    assert done.returncode == 0
    shard = run("annotate", small_table, "-m", MODEL, "-o", tmp_path / "out.gz", "--dry-run", "--shard", "1/2")
    assert shard.returncode == 0
    assert re.fullmatch(
        rb"600 lines; about 2 seconds, \d\.\d GB of memory and 0\.0 MB of output; processes: 1\n", done.stdout
    )
    assert [path.name for path in tmp_path.iterdir()] == ["small.gz"]
    rejected = error_of(run("annotate", "-", "-m", MODEL, "--dry-run", stdin=b""))
    assert "standard input: can be read only once, but --dry-run reads the table twice; give a file" in rejected


def test_a_table_without_a_line_does_not_replace_a_good_one(tmp_path: Path) -> None:
    """An empty table is an error and leaves the old output, because an earlier command of the pipe may have failed."""
    output = tmp_path / "out"
    output.write_bytes(b"good")
    message = "standard input: has no line; check that it is the table meant"
    assert message in error_of(run("annotate", "-", "-m", MODEL, "-o", output, stdin=b""))
    assert output.read_bytes() == b"good"
    checked = run("check", "-", stdin=b"")
    assert checked.returncode == 1
    assert checked.stdout.endswith(
        b"PROBLEM of the file: is empty, so that nothing can be translated with it; check how it was made\n"
    )


def test_a_verdict_is_about_the_lines_that_were_read(small_table: Path) -> None:
    part, whole = (run("check", small_table, "--limit", limit).stdout for limit in ("2", "1000"))
    assert part.endswith(b"no problems in the first 2 lines\n")
    assert whole.endswith(b"no problems: Moses would load this table\n")


def test_only_the_sources_of_a_text(mini_table: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.gz"
    done = run("annotate", mini_table, "-m", MODEL, "-o", output, "--only-sources-in", MINI / "test.en")
    assert done.returncode == 0
    before = output.read_bytes()
    assert 0 < len(gzip.decompress(before).splitlines()) < 19_385
    (tmp_path / "other").write_text("xyzzy\n")
    done = run("annotate", mini_table, "-m", MODEL, "-o", output, "--only-sources-in", tmp_path / "other")
    assert "has no line with a source that occurs in the texts of --only-sources-in" in error_of(done)
    assert output.read_bytes() == before


def test_a_corpus_without_words_is_none_to_count_words_in(mini_table: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    done = run("train", mini_table, f"--set=data.source_corpus={tmp_path / 'empty'}", "-o", tmp_path / "rnn")
    assert "empty: has no words" in error_of(done)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["annotate", "TABLE", "-m", "nowhere"], "nowhere: is not a model folder"),
        (["annotate", "nowhere.gz", "-m", MODEL], "nowhere.gz: cannot be read (No such file"),
        (["annotate", "TABLE", "-m", MODEL, "--device", "cuda:7"], "device `cuda:7`: is not available"),
        (["annotate", "TABLE", "-m", MODEL, "--device", "abacus"], "device `abacus`: there is none of this name"),
        (["annotate", "TABLE", "-m", MODEL, "-o", "/proc/nowhere/x.gz"], "cannot be written"),
        (["train", "TABLE", "-o", "FOLDER/rnn", "--set", "data.held_out=1"], "nothing is left to train on"),
        (["train", "TABLE", "-o", "/proc/rnn"], "/proc/rnn"),
        (["annotate", "TABLE", "-m", MODEL, "--report", "/nowhere/r.json"], "/nowhere/r.json: cannot be written"),
        (["check", "nowhere.gz"], "cannot be read"),
    ],
)
def test_errors_are_one_sentence(small_table: Path, tmp_path: Path, arguments: list[str], message: str) -> None:
    places = {"TABLE": str(small_table), "FOLDER": str(tmp_path)}
    for name, place in places.items():
        arguments = [argument.replace(name, place) for argument in arguments]
    assert message in error_of(run(*arguments))


def test_standard_input_has_a_name(tmp_path: Path) -> None:
    message = "standard input: contains no phrase pairs; give a phrase table of at least one line"
    assert message in error_of(run("train", "-", "-o", tmp_path / "rnn", stdin=b""))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "TABLE", "--batch-size", "0"], "--batch-size: is 0; give at least 1"),
        (["train", "TABLE", "--batch-size", f"{2**31}"], "--batch-size: is 2147483648; give at most 2147483647"),
        (["train", "TABLE", "--max-minutes", "0"], "--max-minutes: is 0.0; give at least"),
        (["train", "TABLE", "--set", "data.held_out=inf"], "held_out is 'inf'; give a number"),
        (["lm", "train", "TABLE", "--set", "text.held_out=inf"], "held_out is 'inf'; give a number"),
        (["train", "TABLE", "--seed", "4294967296"], "--seed: is 4294967296; give at most 4294967295"),
        (["annotate", "TABLE", "-m", MODEL, "--replace-last", "1", "--on-error", "keep"], "does not go with --on-err"),
        (["annotate", "TABLE", "-m", MODEL, "--dry-run", "--report", "r"], "--report: changes nothing with --dry-run"),
        (["annotate", "TABLE", "-m", MODEL, "--dry-run", "--restart"], "--restart: changes nothing with --dry-run"),
        (
            ["lm", "train", "TABLE", "--validation", "v", "--set", "text.held_out=0.5"],
            "`held_out`: has no effect with valid",
        ),
        (["prune", "TABLE", "--keep", "0.2", "--device", "cpu"], "--device: changes nothing without a model; leave it"),
    ],
)
def test_options_that_make_no_sense_are_wrong_usage(
    small_table: Path, tmp_path: Path, arguments: list[str], message: str
) -> None:
    arguments = [str(small_table) if argument == "TABLE" else argument for argument in arguments]
    assert message in error_of(run(*arguments, "-o", tmp_path / "out"), 2)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("command", [["annotate", "-m", MODEL], ["prune", "--keep", "0.2"]])
def test_nothing_is_started_over_on_standard_output(small_table: Path, command: list[str]) -> None:
    message = error_of(run(*command, small_table, "-o", "-", "--restart"), 2)
    assert "--restart: changes nothing with standard output, which cannot be resumed; leave it out" in message


@pytest.mark.parametrize(("share", "is_none"), [("0.001", True), ("0.5", False)])
def test_training_without_held_out_data_is_logged(small_table: Path, tmp_path: Path, share: str, is_none: bool) -> None:
    options = f"--set data.held_out={share} {TINY_OPTIONS} --max-updates 2".split()
    done = run("train", small_table, "-o", tmp_path / "rnn", *options)
    assert done.returncode == 0, done.stderr
    assert (b", nothing held out" in done.stderr) == is_none
    assert (b", held-out loss " in done.stderr) != is_none


def test_a_value_out_of_range_in_a_file_is_not_wrong_usage(small_table: Path, tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text("[training]\nbatch_size = 0\n")
    done = run("train", small_table, "-o", tmp_path / "rnn", "--config", config)
    assert f"{config}: [training]: batch_size is 0; give at least 1" in error_of(done)


def test_a_configuration_file_and_the_command_line(small_table: Path, tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text("[model]\nhidden = 8\nembedding = 6\n[training]\nmax_updates = 3\nbatch_size = 16\n")
    options = ["--set", "model.embedding=5", "--device", "cpu"]
    done = run("train", small_table, "-o", tmp_path / "rnn", "--config", config, *options)
    assert done.returncode == 0, done.stderr
    model = json.loads((tmp_path / "rnn/config.json").read_text())["model"]
    assert (model["hidden"], model["embedding"]) == (8, 5)
    config.write_text("[training]\nbatchsize = 16\n")
    assert "unknown key `batchsize`; did you mean `batch_size`?" in error_of(
        run("train", small_table, "-o", tmp_path / "other", "--config", config)
    )
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("in_a_file", [False, True])
def test_a_given_budget_replaces_that_of_the_preset(small_table: Path, tmp_path: Path, in_a_file: bool) -> None:
    assert "max_updates" in read_preset(PRESETS, DEFAULT_PRESETS["table"])["training"]
    budget = ["--max-updates", "2"]
    if in_a_file:
        (tmp_path / "budget.toml").write_text("[training]\nmax_updates = 2\n")
        budget = ["--config", str(tmp_path / "budget.toml")]
    done = run("train", small_table, "-o", tmp_path / "rnn", *TINY_OPTIONS.split(), *budget)
    assert b"done after update 2: the budget is spent" in done.stderr
    training = json.loads((tmp_path / "rnn/config.json").read_text())["training"]
    assert [training[key] for key in ("max_updates", "epochs", "max_minutes")] == [2, None, None]


def test_settings_by_size_are_logged(small_table: Path, tmp_path: Path) -> None:
    done = run("train", small_table, "-o", tmp_path / "rnn", *TINY_OPTIONS.split())
    said, description = done.stderr.decode(), json.loads((tmp_path / "rnn/config.json").read_text())
    assert "\nby the size of the data: --dropout 0.6, --max-updates 94\n" in said
    assert "\nupdate 20, epoch " in said
    training = description["training"]
    assert (description["model"]["dropout"], training["max_updates"], training["evaluate_every"]) == (0.6, 94, 20)
    assert training["warmup_updates"] == 9
    done = run("train", small_table, "-o", tmp_path / "other", *TINY_OPTIONS.split(), "--dropout", "0", "--epochs", "1")
    assert "by the size" not in done.stderr.decode()
    assert json.loads((tmp_path / "other/config.json").read_text())["model"]["dropout"] == 0


def wait_for(folder: Path, pattern: str) -> None:
    deadline = time.monotonic() + 60
    while not any(folder.glob(pattern)):
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("number", "options", "advice"),
    [
        (signal.SIGINT, ["--restart"], b"the same command without --restart resumes it"),
        (signal.SIGTERM, [], b"the same command resumes"),
    ],
)
def test_training_saves_on_a_signal_and_resumes(
    small_table: Path, tmp_path: Path, number: signal.Signals, options: list[str], advice: bytes
) -> None:
    folder = tmp_path / "rnn"
    command = ["phrasescore", "train", str(small_table), "-o", str(folder)]
    command += [*TINY_OPTIONS.split(), "--set", "training.patience=0", "--epochs"]
    process = ForkedPopen([*command, "100000", *options], ENVIRONMENT, stderr=subprocess.PIPE)
    assert process.stderr is not None
    # The first checkpoint is written while the data are read; a signal then ends the command without a message.
    next(line for line in process.stderr if line.startswith(b"network of"))
    process.send_signal(number)
    _, messages = process.communicate()
    assert process.returncode == 128 + number
    assert advice in messages
    update = int(messages.split(b"stopped after update ")[1].split(b";")[0])
    resumed = run(*command[1:], "1")
    assert resumed.returncode == 0
    assert f"resuming after update {update}".encode() in resumed.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_annotating_leaves_nothing_half_written(small_table: Path, tmp_path: Path, number: signal.Signals) -> None:
    big, folder = tmp_path / "big.gz", tmp_path / "out"
    big.write_bytes((MINI / "phrase-table.gz").read_bytes() * 200)
    folder.mkdir()
    output = folder / "table.gz"
    output.write_bytes(b"old")
    command = ["phrasescore", "annotate", str(big), "-m", MODEL, "-o", str(output), "-q"]
    process = ForkedPopen(command, ENVIRONMENT, stderr=subprocess.PIPE)
    wait_for(folder, ".table.gz.tmp")
    time.sleep(0.5)
    process.send_signal(number)
    _, messages = process.communicate()
    assert process.returncode == (-number if number == signal.SIGKILL else 128 + number)
    # A kill while `multiprocessing` starts a worker makes the worker print a traceback.
    assert number == signal.SIGKILL or b"Traceback" not in messages
    assert output.read_bytes() == b"old"
    done = run("annotate", small_table, "-m", MODEL, "-o", output, "-q")
    assert done.returncode == 0
    assert {path.name for path in folder.iterdir()} == {"table.gz"}


@pytest.mark.parametrize(
    ("command", "number"),
    [
        (f"annotate - -m {MODEL} -o", signal.SIGINT),
        (f"annotate - -m {MODEL} -o", signal.SIGTERM),
        (f"translate - -m {MODEL} -o", signal.SIGINT),
        ("train - -o", signal.SIGTERM),
        ("lm train - -o", signal.SIGINT),
    ],
)
def test_one_signal_ends_what_waits_for_its_input(tmp_path: Path, command: str, number: signal.Signals) -> None:
    """One signal ends a command that waits for standard input and removes its temporary files."""
    output = tmp_path / "out"
    pipe = subprocess.PIPE
    with ForkedPopen(["phrasescore", *command.split(), output], ENVIRONMENT, stdin=pipe, stderr=pipe) as process:
        assert process.stdin is not None
        process.stdin.write(b"the ||| le ||| 1\n")
        process.stdin.flush()
        wait_for(tmp_path, "out/training-state/lock" if "train" in command else ".out.tmp")
        time.sleep(0.5)
        process.send_signal(number)
        assert process.wait(30) == 128 + number
        assert process.stderr is not None
        assert b"Traceback" not in process.stderr.read()
    assert list(tmp_path.iterdir()) == []


def test_one_signal_ends_what_waits_for_its_reader(mini_table: Path) -> None:
    command, pipe = ["phrasescore", "annotate", str(mini_table), "-m", MODEL], subprocess.PIPE
    with ForkedPopen(command, ENVIRONMENT, stdout=pipe, stderr=pipe) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        # The writer blocks once the pipe's buffer is full.
        while not select.select([process.stdout], [], [], 0.1)[0]:
            assert process.poll() is None
        time.sleep(0.5)
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 128 + signal.SIGTERM
        assert b"Traceback" not in process.stderr.read()


def test_findings_as_json(small_table: Path) -> None:
    done = run("check", small_table, "--json")
    findings = json.loads(done.stdout)
    assert findings["lines"] == 600
    assert len(findings["columns"]) == 4
    assert findings["problems"] == {}
    # JSON has no representation of infinity.
    done = run("check", "-", "--json", stdin=b"a ||| b ||| nan inf\n")
    findings = json.loads(done.stdout, parse_constant=pytest.fail)
    assert findings["columns"] == []
    assert len(findings["problems"]) == 1


def test_an_input_is_not_replaced(small_table: Path) -> None:
    content = small_table.read_bytes()
    place = small_table.with_name("link.gz")
    place.symlink_to(small_table)
    arguments = ["annotate", str(small_table), "-m", MODEL, "-q"]
    lost = f"{place}: is an input, which would be lost; give another output"
    assert lost in error_of(run(*arguments, "-o", place), 2)
    assert lost in error_of(run("translate", small_table, "-m", MODEL, "-o", place), 2)
    assert small_table.read_bytes() == content
    assert run(*arguments, "-o", place, "--dry-run").returncode == 0


def test_a_table_is_not_printed_on_a_terminal_by_accident(small_table: Path) -> None:
    def printed(*arguments: str) -> tuple[int, bytes]:
        """Run a command on a pseudo-terminal; return its output and exit code."""
        ours, theirs = os.openpty()
        command = ["phrasescore", "annotate", str(small_table), "-m", MODEL, *arguments]
        with ForkedPopen(command, ENVIRONMENT, stdout=theirs, stderr=subprocess.PIPE) as process:
            os.close(theirs)
            shown = b""
            with contextlib.suppress(OSError):  # Linux raises EIO when the other end of a pseudo-terminal is closed.
                while some := os.read(ours, 1 << 16):
                    shown += some
            assert process.stderr is not None
            said = process.stderr.read()
        os.close(ours)
        return process.wait(), shown or said

    code, said = printed()
    assert code == 2
    assert b"-o: is missing, and a whole table would be printed here; give a file, -o - or --limit" in said
    assert printed("--limit", "3", "-q")[0] == 0
    assert printed("-o", "-", "-q")[1].count(b"\n") == 600


def test_words_that_the_network_does_not_know_are_reported(tmp_path: Path) -> None:
    (tmp_path / "table").write_bytes(b"".join(b"xx%d ||| yy%d ||| 0.5 0.5\n" % (n, n) for n in range(9)))
    said = run("annotate", tmp_path / "table", "-m", MODEL, "-o", tmp_path / "out").stderr.decode()
    for side in ("source", "target"):
        assert (
            f"100.00% of the {side} words are unknown to the network; check that it was trained on this table" in said
        )
    assert "next:" not in said
    done = run("score", "-m", MODEL, stdin=b"the xx\tle chat\n")
    assert len(done.stdout.splitlines()) == 1
    assert b"1 of 2 source words (50%) and 0 of 2 target words (0%) are unknown to the network; they are" in done.stderr
    assert run("score", "-m", MODEL, stdin=b"the dogs\tles chiens\n").stderr == b""


def test_a_filter_that_keeps_almost_nothing_is_reported(small_table: Path, tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("The Text Is Cased As The Table Is Not .\n")
    arguments = ["annotate", str(small_table), "-m", MODEL, "-o", str(tmp_path / "out"), "--only-sources-in"]
    said = run(*arguments, text).stderr.decode()
    assert "only 3 lines kept for 8 different words in the texts of --only-sources-in; check that they" in said
    assert "different words" not in run(*arguments, MINI / "train.en").stderr.decode()


@pytest.mark.parametrize("name", ["out.gz", "out", "out.zst"])
def test_a_full_disk_is_one_sentence(tmp_path: Path, name: str) -> None:
    """A full disk is reported in one sentence; a file size limit of a few kilobytes stands in for it."""
    (tmp_path / name).write_bytes(b"old")
    command = ["annotate", str(MINI / "phrase-table.gz"), "-q", "-m", MODEL, "-o", name]
    done = shared_forker().run("phrasescore", *command, folder=tmp_path, environment=ENVIRONMENT, largest_file=4096)
    assert done.code == 1
    assert done.err.count(b"\n") == 1
    assert b"cannot be written (File too large)" in done.err
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_bytes() == b"old"


@pytest.mark.parametrize(
    "arguments",
    [
        ("train", "--source", "-", "--target", "-", "-o", "rnn"),
        ("train", "TABLE", "--set", "data.source_corpus=-", "--set", "data.target_corpus=-", "-o", "rnn"),
        ("annotate", "-", "-m", MODEL, "--only-sources-in", "-"),
        ("train", "--source", "-", "--target", "text", "--alignment", "-", "-o", "net"),
        ("lm", "train", "-", "--validation", "-", "-o", "lm"),
        ("lm", "score", "-", "-m", "lm", "--backoff", "lm", "--weight-text", "-"),
    ],
)
def test_standard_input_is_one_input_only(arguments: tuple[str, ...]) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert b"-: standard input can be one input only; give files for the others" in done.stderr


def test_faulty_lines_are_reported_whether_they_are_kept_or_not() -> None:
    table = b"the ||| le ||| 1\nbroken\n"
    options: list[str | Path] = ["--on-error", "keep", "--only-sources-in", MINI / "test.en"]
    done = run("annotate", "-", "-m", MODEL, *options, stdin=table)
    assert b"1 faulty line, 0 of them kept; the first: standard input, line 2: has 1 field" in done.stderr


def test_a_table_of_faulty_lines_is_an_error(tmp_path: Path) -> None:
    """A table with only invalid lines is an error and leaves the old output, even with --on-error keep."""
    table, output = tmp_path / "table", tmp_path / "out"
    output.write_bytes(b"old")
    command: list[str | Path] = ["annotate", table, "-m", MODEL, "-o", output, "--on-error", "keep"]
    table.write_bytes(b"broken\nthe ||| le ||| x\n")
    done = run(*command)
    assert done.returncode == 1
    assert f"{table}, line 1: has 1 field" in error_of(done)
    assert error_of(done).endswith("; all 2 lines are faulty, so none gets a score")
    assert output.read_bytes() == b"old"
    assert {path.name for path in tmp_path.iterdir()} == {"table", "out"}
    table.write_bytes(b"broken\nbroken\nthe ||| le ||| 1\n")
    done = run(*command)
    assert done.returncode == 0
    assert b"2 faulty lines, 2 of them kept" in done.stderr
    assert b"next:" not in done.stderr


@pytest.mark.parametrize(
    ("command", "option", "shown"),
    [
        (
            "train",
            "--hidden N",
            "512 with attention; 1000 with cho2014; 384 with context, small; 256 with plain; 128 with transformer",
        ),
        (
            "train",
            "--max-updates N",
            "none with attention, cho2014, plain, transformer; auto with context, small",
        ),
        ("train", "model.feed_word={true,false}", "true"),
        ("train", "--seed N", "1"),
        ("lm train", "model.first_hidden=N", "1536 with cho2014; 384 with small"),
        ("translate", "--beam N", "5"),
    ],
)
def test_help_says_what_each_preset_has(command: str, option: str, shown: str) -> None:
    full_help = "--help" if command == "translate" else "--help-all"
    text = " ".join(run(*command.split(), full_help).stdout.decode().split())
    assert re.search(rf"{option} [^(]*\(default: {shown}\)", text)


@pytest.mark.parametrize("package", [phrasescore, moses_integration])
def test_nothing_is_pickled_or_evaluated(package: ModuleType) -> None:
    """The packages do not execute code from files, because they are untrusted.

    `workers` is exempt: it pickles the messages between the processes of one run.
    """
    forbidden = {"eval", "exec", "compile", "__import__", "torch.load", "os.system", "os.popen"}
    root = Path(str(package.__file__)).parent
    for path in root.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = {alias.name for alias in node.names} | {getattr(node, "module", None)}
                is_between_processes = path.relative_to(root.parent) == Path("phrasescore/workers.py")
                assert is_between_processes or not names & {"pickle", "marshal", "shelve", "joblib"}, path
            if isinstance(node, ast.Call):
                assert ast.unparse(node.func) not in forbidden, path
                assert not {word.arg for word in node.keywords} & {"allow_pickle", "shell"}, path


@pytest.mark.parametrize(
    ("make", "command", "name"),
    [
        (make_parser, "annotate table -m rnn --only-sources-in 1 2 --only-sources-in 3", "only_sources_in"),
        (make_smt_parser, "evaluate out --reference 1 2 --reference 3", "reference"),
        (make_smt_parser, "tune ini --source s -o o --reference 1 2 --reference 3", "reference"),
        (make_smt_parser, "tune ini --source s -o o --reference r --seeds 1 2 --seeds 3", "seeds"),
    ],
)
def test_values_of_a_repeated_option_are_joined(
    make: Callable[[], argparse.ArgumentParser], command: str, name: str
) -> None:
    assert [str(value) for value in getattr(make().parse_args(command.split()), name)] == ["1", "2", "3"]
