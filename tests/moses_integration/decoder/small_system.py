"""Systems of a few phrases, small enough to enumerate every derivation."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from moses_integration.decoder.phrases import Words
from moses_integration.ini import MosesIni

TARGET_WORDS = (b"A", b"B", b"C", b"D")
COUNTS = {"msd": 3, "mslr": 4, "monotonicity": 2, "leftright": 2}


@dataclass(frozen=True)
class Line:
    """A line of the phrase table."""

    source: Words
    target: Words
    scores: tuple[float, ...]
    alignment: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Reordering:
    """A reordering table; some types have no target words in the keys."""

    kind: str
    rows: dict[tuple[Words, Words], tuple[float, ...]]

    @property
    def has_target(self) -> bool:
        return "f" not in self.kind.split("-")


@dataclass(frozen=True)
class SmallSystem:
    """Tables, weights and limits of a system; the language models are files."""

    lines: Sequence[Line]
    weights: dict[str, list[float]]
    reorderings: Sequence[Reordering] = ()
    language_models: Sequence[Path] = ()
    neural_models: Sequence[tuple[Path, Path]] = ()
    """Folder and back-off model of each."""
    table_limit: int = 20
    distortion_limit: int = -1
    longest_phrase: int = 20
    drop_unknown: bool = False
    settings: dict[str, str] = field(default_factory=dict)
    """Other sections of the ini."""

    def write(self, folder: Path) -> MosesIni:
        """Write the tables and return the ini, which a real Moses can read if it supports all models."""
        width = len(self.weights["T"])
        (folder / "table").write_bytes(
            b"".join(
                b" ||| ".join((b" ".join(line.source), b" ".join(line.target), _numbers(line.scores), *_points(line)))
                + b"\n"
                for line in self.lines
            )
        )
        features = [
            "UnknownWordPenalty name=U",
            "WordPenalty name=W",
            "PhrasePenalty name=P",
            f"PhraseDictionaryMemory name=T num-features={width} path={folder}/table table-limit={self.table_limit}"
            " input-factor=0 output-factor=0",
            "Distortion name=D",
        ]
        for number, reordering in enumerate(self.reorderings):
            rows = [
                b" ||| ".join(
                    (b" ".join(source), *([b" ".join(target)] if reordering.has_target else []), _numbers(row))
                )
                for (source, target), row in reordering.rows.items()
            ]
            (folder / f"reordering{number}").write_bytes(b"\n".join([*rows, b""]))
            # If there are target factors, Moses looks up target words in the reordering table.
            factors = "input-factor=0 output-factor=0" if reordering.has_target else "input-factor=0"
            path = folder / f"reordering{number}"
            features.append(f"LexicalReordering name=R{number} type={reordering.kind} path={path} {factors}")
        features += [f"KENLM name=L{i} path={path} factor=0 order=3" for i, path in enumerate(self.language_models)]
        features += [f"CSLM name=N{i} path={path} backoff={lm}" for i, (path, lm) in enumerate(self.neural_models)]
        sections = {
            "input-factors": "0",
            "mapping": "0 T 0",
            "distortion-limit": str(self.distortion_limit),
            "max-phrase-length": str(self.longest_phrase),
            "drop-unknown": str(self.drop_unknown).lower(),
            **self.settings,
            "feature": "\n".join(features),
            "weight": "\n".join(f"{label}= {' '.join(map(repr, w))}" for label, w in self.weights.items()),
        }
        text = "".join(f"[{name}]\n{value}\n" for name, value in sections.items())
        (folder / "moses.ini").write_text(text)
        return MosesIni.read(folder / "moses.ini")


def random_system(draw: random.Random, language_models: Sequence[Path]) -> tuple[SmallSystem, Words]:
    """Return a random system and a sentence with at most a few thousand derivations."""
    length = draw.choices(range(6), (1, 1, 2, 4, 6, 6))[0]
    sentence = tuple(draw.choices([b"a", b"b", b"c", b"zz", b"z9"], (6, 6, 6, 1, 1), k=length))
    lines = _random_lines(draw, sentence)
    models = draw.sample(list(language_models), draw.randint(0, len(language_models)))
    reorderings = [_random_reordering(draw, lines) for _ in range(draw.randint(0, 2))]
    widths = {"U": 1, "W": 1, "P": 1, "T": 2, "D": 1}
    widths |= {f"R{i}": _width(reordering.kind) for i, reordering in enumerate(reorderings)}
    widths |= {f"L{i}": 1 for i in range(len(models))}
    system = SmallSystem(
        lines=lines,
        weights={label: [draw.uniform(-0.3, 1.0) for _ in range(width)] for label, width in widths.items()},
        reorderings=reorderings,
        language_models=models,
        table_limit=draw.choice([0, 1, 2, 3]),
        distortion_limit=draw.choice([-1, -1, 0, 1, 2, 3, 4]),
        longest_phrase=draw.choice([1, 2, 20, 20]),
        drop_unknown=draw.random() < 0.3,
    )
    return system, sentence


def _random_lines(draw: random.Random, sentence: Words) -> list[Line]:
    lines = []
    spans = {sentence[i:j] for i in range(len(sentence)) for j in range(i + 1, len(sentence) + 1)}
    for source in sorted(spans):
        if b"zz" in source or b"z9" in source or draw.random() < 0.2:
            continue
        for _ in range(draw.randint(1, 2 if len(sentence) > 3 else 4)):
            length = draw.choice([0, 1, 1, 2, 2, 3])
            points = [(s, t) for s in range(len(source)) for t in range(length)]
            aligned = tuple(sorted(draw.sample(points, draw.randint(min(1, length), min(4, len(points))))))
            target = tuple(draw.choices((*TARGET_WORDS, b"new"), k=length))
            line = Line(source, target, _probabilities(draw, 2), aligned)
            lines.append(line)
            if draw.random() < 0.2:
                # The same line, or the same pair with other scores: Moses keeps both.
                lines.append(
                    draw.choice([line, Line(line.source, line.target, _probabilities(draw, 2), line.alignment)])
                )
    draw.shuffle(lines)
    return lines


def _random_reordering(draw: random.Random, lines: Sequence[Line]) -> Reordering:
    direction = draw.choice(["backward", "unidirectional", "forward", "bidirectional"])
    condition = draw.choice(["f", "fe"])
    kind = f"wbe-{draw.choice(list(COUNTS))}-{direction}-{condition}-allff"
    pairs = [(line.source, line.target if condition == "fe" else ()) for line in lines]
    # The table may contain a word that is copied or dropped.
    pairs += [((b"zz",), target) for target in ((b"zz",), ()) if condition == "fe" or not target]
    return Reordering(kind, {pair: _probabilities(draw, _width(kind)) for pair in pairs if draw.random() < 0.8})


def _width(kind: str) -> int:
    parts = kind.split("-")
    return COUNTS[parts[1]] * (2 if "bidirectional" in parts else 1)


def _probabilities(draw: random.Random, count: int) -> tuple[float, ...]:
    return tuple(0.0 if draw.random() < 0.03 else draw.uniform(0.001, 1.0) for _ in range(count))


def _points(line: Line) -> list[bytes]:
    """Return the field of the alignment, if there is one."""
    return [b" ".join(b"%d-%d" % point for point in line.alignment)] if line.alignment else []


def _numbers(values: Sequence[float]) -> bytes:
    return " ".join(map(repr, values)).encode()
