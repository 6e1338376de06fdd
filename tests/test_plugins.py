"""User plugins, tested with the examples in docs/plugins.md."""

from __future__ import annotations

import gzip
import json
import math
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from phrasescore.cli import main
from phrasescore.errors import UserError
from phrasescore.plugins import check_plugins, load_plugins, plugins_blamed
from tests.cli import running
from tests.conftest import MINI
from tests.forked import shared_forker

DOCUMENT = (Path(__file__).parents[1] / "docs/plugins.md").read_text()
SIZES = "--hidden 8 --set model.embedding=5 --set model.output_rank=3 --batch-size 32 --device cpu"
SIZES += " --set training.warmup_updates=0"


def run(*commands: list[str], code: int = 0) -> str:
    """Run commands, each in a forked process with its own registries; return the messages."""
    messages = []
    for command in commands:
        done = running.run(*command)
        assert done.returncode == code, done.stderr
        messages.append(done.stderr.decode())
    return "".join(messages)


def example(section: str) -> tuple[str, str]:
    """Return the plugin and the commands of a section of the page."""
    text = DOCUMENT.split(f"\n## {section}\n")[1].split("\n## ")[0]
    (code,), (commands,) = (re.findall(rf"```{kind}\n(.*?)```", text, re.DOTALL) for kind in ("python", "sh"))
    return code, commands


def test_the_example_of_a_scorer(small_table: Path, tmp_path: Path) -> None:
    code, commands = example("Add a scorer")
    (tmp_path / "my_scorer.py").write_text(code)
    (tmp_path / "phrase-table.gz").symlink_to(small_table)
    *shell, annotate = commands.splitlines()
    subprocess.run(["sh", "-ec", "\n".join(shell)], cwd=tmp_path, check=True)
    assert shared_forker().run(*annotate.split(), folder=tmp_path, environment=running.ENVIRONMENT).code == 0
    lines = gzip.decompress((tmp_path / "phrase-table.length.gz").read_bytes()).decode().splitlines()
    assert lines
    for line in lines:
        source, target, scores, *_ = line.split(" ||| ")
        difference = len(target.split()) - 1.1 * len(source.split())
        assert float(scores.split()[-1]) == pytest.approx(math.exp(-abs(difference)), rel=1e-8)


def test_the_example(small_table: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code, commands = example("Add a part of a network, or an optimiser")
    plugin, model = tmp_path / "my_parts.py", tmp_path / "rnn"
    plugin.write_text(code)
    train, annotate = (
        line.replace("phrase-table.gz", str(small_table))
        .replace("my_parts.py", str(plugin))
        .replace("rnn/", str(model))
        for line in commands.replace("\\\n", " ").splitlines()
    )
    options = [*train.split()[1:], *SIZES.split(), "--evaluate-every", "30", "-q", "--max-updates"]
    output = tmp_path / "out.gz"
    apply = annotate.replace("phrase-table.rnn.gz", str(output)).split()[1:]
    # The second training resumes the first.
    run([*options, "30"], [*options, "60"], [*apply, "--device", "cpu", "-q"])
    losses = [json.loads(line)["held_out"]["per_pair"] for line in (model / "metrics.jsonl").read_text().splitlines()]
    assert losses[1] < losses[0]
    description = json.loads((model / "config.json").read_text())
    assert description["model"]["encoder_unit"] == "minimal"
    assert [one["path"] for one in description["plugins"]] == [str(plugin)]
    assert output.exists()
    # A unit without word input has a layer without inputs, about which PyTorch would warn.
    plain = "--set model.encoder_unit=minimal --set model.decoder_unit=minimal --set model.bridge=last"
    plain += " --set model.feed_word=false --max-updates 2 -q"
    apart = ["train", str(small_table), "-o", str(tmp_path / "wordless"), "--plugin", str(plugin)]
    assert run([*apart, *SIZES.split(), *plain.split()]) == ""
    # Without the plugin, no code from the folder runs.
    assert main(["score", "-m", str(model)]) == 1
    message = capfd.readouterr().err.strip()
    assert message == (
        f"phrasescore score: {model}: there is no unit `minimal`; it was trained with a plugin; add --plugin {plugin}"
    )
    # The current content of the file is used, whatever its name.
    changed = tmp_path / "renamed.py"
    for file in (plugin, changed):
        file.write_text(code.replace("(1 - f) * h + f *", "f * h + (1 - f) *"))
        message = run(["score", "-m", str(model), "--plugin", str(file)], code=1).strip()
        digest = description["plugins"][0]["sha256"]
        assert message == (
            f"phrasescore score: {model}: was trained with my_parts.py (SHA-256 {digest[:12]}...), which {file} is "
            "not; load the plugin as it was, or train again"
        )
    assert "holds a run with other plugins" in run([*options, "90"], code=1)


@pytest.mark.parametrize(
    ("loaded", "described", "fault"),
    [
        ({}, ["optimiser"], None),
        ({"unit.py": "unit"}, ["unit", "optimiser"], None),
        ({"unit.py": "unit", "of-another-network.py": "other"}, ["unit"], None),
        ({"elsewhere/copy.py": "unit"}, ["unit"], None),
        ({"of-another-network.py": "other"}, [], None),
        ({"unit.py": "changed"}, ["unit"], "unit.py"),
        ({"renamed.py": "changed"}, ["unit"], "renamed.py"),
        ({"other.py": "other", "new/unit.py": "changed"}, ["unit"], "new/unit.py"),
        ({"optimiser.py": "optimiser", "renamed.py": "changed"}, ["unit", "optimiser"], "renamed.py"),
    ],
)
def test_a_plugin_in_the_place_of_another_is_rejected(
    monkeypatch: pytest.MonkeyPatch, loaded: dict[str, str], described: list[str], fault: str | None
) -> None:
    monkeypatch.setattr("phrasescore.plugins._loaded", loaded)
    plugins = [{"path": f"/home/somebody/{digest}.py", "sha256": digest} for digest in described]
    if fault is None:
        check_plugins(Path("rnn"), plugins)
    else:
        with pytest.raises(UserError, match=rf"^rnn: was trained with unit.py \(SHA-256 unit...\), which {fault} is"):
            check_plugins(Path("rnn"), plugins)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import nowhere_to_be_found", "plugin.py: fails with ModuleNotFoundError: No module named"),
        ("def (", "plugin.py: fails with SyntaxError"),
        (
            "from phrasescore.nn.units import register_unit\nregister_unit('gru')(1)",
            "plugin.py: there is already the unit",
        ),
        (
            "from phrasescore.nn.units import register_unit\n@register_unit\nclass Unit: pass",
            'Unit\'>; give its name, as in @register_unit("minimal")',
        ),
        ("import sys; sys.exit(3)", "plugin.py: fails with SystemExit: 3; fix it"),
    ],
)
def test_plugins_that_fail_are_one_sentence(
    tmp_path: Path, code: str, message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "plugin.py").write_text(code)
    assert main(["score", "-m", "model", "--plugin", str(tmp_path / "plugin.py")]) == 1
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 1
    assert message in lines[0]


def test_a_unit_of_wrong_shape_is_one_sentence(small_table: Path, tmp_path: Path) -> None:
    """A unit with a wrong shape is one sentence that names the failing line of the plugin."""
    code, _ = example("Add a part of a network, or an optimiser")
    plugin = tmp_path / "wrong.py"
    plugin.write_text(code.replace("blocks=2", "blocks=3"))
    command = ["train", str(small_table), "-o", str(tmp_path / "rnn"), "--plugin", str(plugin), "--max-updates", "2"]
    message = run([*command, "--set", "model.encoder_unit=minimal", *SIZES.split(), "-q"], code=1).strip()
    line = 1 + plugin.read_text().splitlines().index(
        "        f = torch.sigmoid(gate + self.recurrent_gate(h))",
    )
    assert message.startswith(f"phrasescore train: {plugin}: line {line}: fails with RuntimeError: The size of tensor")
    assert "\n" not in message


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        ("self, inputs, hidden, context, biases", "self, inputs", "TypeError: MinimalGatedUnit.__init__() takes 2"),
        (
            'super().__init__(inputs, hidden, context, blocks=2, bias=biases == "all")',
            "nn.Module.__init__(self)",
            "AttributeError: 'MinimalGatedUnit' object has no attribute",
        ),
        ("def step(self, x, h, context=None)", "def step(self, x)", "TypeError: MinimalGatedUnit.step() takes 2"),
        ("return (1 - f) * h + f *", "f *", "(TypeError: "),
        ("def momentum(parameters, config)", "def momentum(parameters)", "TypeError: momentum() takes 1 positional"),
    ],
)
def test_a_part_that_cannot_be_used_is_one_sentence(
    small_table: Path, tmp_path: Path, right: str, wrong: str, message: str
) -> None:
    """An unusable part is one sentence, even if the error arises outside the plugin."""
    code, _ = example("Add a part of a network, or an optimiser")
    assert right in code
    plugin = tmp_path / "wrong.py"
    plugin.write_text(code.replace(right, wrong))
    command = ["train", str(small_table), "-o", str(tmp_path / "rnn"), "--plugin", str(plugin), "--max-updates", "2"]
    parts = "--set model.encoder_unit=minimal --set model.decoder_unit=minimal --set training.optimiser=momentum"
    said = run([*command, *parts.split(), *SIZES.split(), "-q"], code=1).strip()
    assert said.startswith(f"phrasescore train: {plugin}: cannot be used by ")
    assert message in said
    assert said.endswith("; fix it, docs/plugins.md describes the interfaces")
    assert "\n" not in said


def test_the_system_s_errors_are_a_plugin_s_only_where_it_made_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("phrasescore.plugins._loaded", {})
    plugin = tmp_path / "absent.py"
    plugin.write_text("def work():\n    open('/nowhere/to/be/found')\n")
    load_plugins([plugin])
    module = next(module for name, module in sys.modules.items() if name.startswith("phrasescore_plugin_absent_"))
    with pytest.raises(UserError, match=r"absent.py: line 2: fails with FileNotFoundError"), plugins_blamed():
        module.work()
    with pytest.raises(FileNotFoundError), plugins_blamed():
        Path("/nowhere/to/be/found").read_bytes()


def test_a_plugin_is_not_blamed_for_memory_that_runs_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("phrasescore.plugins._loaded", {})
    plugin = tmp_path / "greedy.py"
    plugin.write_text("import torch\n\n\ndef work():\n    raise torch.OutOfMemoryError('CUDA out of memory')\n")
    load_plugins([plugin])
    module = next(module for name, module in sys.modules.items() if name.startswith("phrasescore_plugin_greedy_"))
    with pytest.raises(torch.OutOfMemoryError), plugins_blamed():
        module.work()


def test_a_plugin_is_a_python_file(small_table: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["score", "-m", "model", "--plugin", str(small_table)]) == 1
    assert "is not a Python file; give one that ends in .py" in capfd.readouterr().err


def test_a_language_model_is_resumed_with_the_same_plugin_only(tmp_path: Path) -> None:
    plugin = tmp_path / "momentum.py"
    plugin.write_text(
        "import torch\nfrom phrasescore.training.loop import register_optimiser\n"
        "register_optimiser('momentum')(lambda p, config: torch.optim.SGD(p, lr=config.learning_rate, momentum=0.9))\n"
    )
    sizes = "--order 3 --set model.embedding=4 --set model.first_hidden=6 --set model.second_hidden=5"
    sizes += " --device cpu -q --max-updates"
    command = ["lm", "train", str(MINI / "dev.fr"), "-o", str(tmp_path / "lm"), "--plugin", str(plugin)]
    command += ["--set", "training.optimiser=momentum", *sizes.split()]
    run([*command, "2"], [*command, "3"])
    plugin.write_text(plugin.read_text().replace("0.9", "0.5"))
    assert "holds a run with other plugins" in run([*command, "4"], code=1)


def test_a_link_to_itself_is_no_plugin(tmp_path: Path) -> None:
    (tmp_path / "plugin.py").symlink_to("plugin.py")
    with pytest.raises(UserError, match=r"plugin\.py: cannot be read \(Too many levels of symbolic links\)"):
        load_plugins([tmp_path / "plugin.py"])
