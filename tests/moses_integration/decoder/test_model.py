"""The parts of a moses.ini: features, labels and weights, and errors for unsupported ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from moses_integration.decoder.declaration import KINDS, FeatureKind, declare_model, load_model
from moses_integration.decoder.phrases import Floats, PhraseFeature, TargetPhrase, Words
from moses_integration.decoder.pool import Translating, load_decoder
from moses_integration.decoder.settings import DecoderSettings
from moses_integration.ini import MosesIni
from phrasescore.errors import UserError
from tests.conftest import MINI
from tests.moses_integration.decoder.small_system import Line, Reordering, SmallSystem

WEIGHTS = {"U": [1.0], "W": [-1.0], "P": [0.2], "T": [0.5], "D": [0.3]}
FACTORS = "input-factor=0 output-factor=0"


def ini_of(*features: str, weights: str = "") -> MosesIni:
    table = f"PhraseDictionaryMemory path=table {FACTORS}"
    lines = ["[feature]", "UnknownWordPenalty", table, *features, "[weight]", weights]
    return MosesIni([line + "\n" for line in lines])


class CapitalWords(PhraseFeature):
    """Number of target words that begin with a capital."""

    def values(self, source: Words, targets: Sequence[TargetPhrase]) -> Floats:
        return np.array([[float(sum(word[:1].isupper() for word in target.words))] for target in targets])


def test_a_new_feature_is_a_class_and_a_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS, "CapitalWords", FeatureKind(lambda _, line: CapitalWords(line.label)))
    lines = [Line((b"a",), (b"A",), (0.5,)), Line((b"a",), (b"b",), (0.5,))]
    ini = SmallSystem(lines, {**WEIGHTS, "D": [0.0]}).write(tmp_path)
    ini.append("feature", "CapitalWords")
    ini.append("weight", "CapitalWords0= 2")
    best, other = load_decoder(ini, DecoderSettings(), [(b"a",)]).run(Translating(2), 0).nbest
    assert best.startswith(b"0 ||| A  |||")
    assert b" CapitalWords0= 1" in best
    assert b" CapitalWords0= 0" in other


def test_features_with_a_state_come_first() -> None:
    model = declare_model(MosesIni.read(MINI / "moses.5.ini"))
    assert {label: columns.stop - columns.start for label, columns in model.columns.items()} == {
        "LexicalReordering0": 6,
        "Distortion0": 1,
        "LM0": 1,
        "UnknownWordPenalty0": 1,
        "WordPenalty0": 1,
        "PhrasePenalty0": 1,
        "TranslationModel0": 5,
    }
    assert list(model.columns) == [feature.label for feature in model.features]
    assert model.tuneable_F.tolist() == [True] * 8 + [False] + [True] * 7


def test_labels_and_weights_that_are_not_given() -> None:
    model = declare_model(ini_of("Distortion", "Distortion", "WordPenalty name=Words", weights="Distortion1= 0.5"))
    assert {label: model.weights_F[columns].tolist() for label, columns in model.columns.items()} == {
        "Distortion0": [1.0],
        "Distortion1": [0.5],
        "UnknownWordPenalty0": [1.0],
        "PhraseDictionaryMemory0": [1.0],
        "Words": [1.0],
    }


def test_a_feature_that_is_not_to_be_tuned() -> None:
    model = declare_model(ini_of("Distortion tuneable=false", "WordPenalty tuneable=true"))
    tuneable = {feature.label: feature.tuneable for feature in model.features}
    assert tuneable == {
        "Distortion0": False,
        "UnknownWordPenalty0": False,
        "PhraseDictionaryMemory0": True,
        "WordPenalty0": True,
    }
    assert declare_model(ini_of("Distortion")).features[0].tuneable
    for word in ("No", "n", "0"):
        assert not declare_model(ini_of(f"Distortion tuneable={word}")).features[0].tuneable
    with pytest.raises(UserError, match=r"tuneable= `flase` is neither true nor false; fix the line"):
        declare_model(ini_of("Distortion tuneable=flase"))


@pytest.mark.parametrize(
    ("kind", "width"),
    [
        ("wbe-msd-bidirectional-fe-allff", 6),
        ("phrase-mslr-forward-f", 4),
        ("wbe-monotonicity-backward-fe", 2),
        ("leftright-unidirectional-fe", 2),
        ("msd-fe", 3),
    ],
)
def test_widths_of_reordering_types(kind: str, width: int) -> None:
    model = declare_model(ini_of(f"LexicalReordering type={kind} path=reordering {FACTORS}"))
    assert len(model.weights_F[model.columns["LexicalReordering0"]]) == width


@pytest.mark.parametrize(
    ("feature", "message"),
    [
        (
            f"LexicalReordering type=hier-msd-bidirectional-fe path=x {FACTORS}",
            "line 4: .* `hier-msd-bidirectional-fe` is not",
        ),
        (f"LexicalReordering type=wbe-msd-bidirectional-fe-collapseff path=x {FACTORS}", "is not supported"),
        (f"LexicalReordering path=x {FACTORS}", "the reordering type `` is not supported"),
        (
            f"LexicalReordering type=msd-fe path=x default-scores=1,1,1 {FACTORS}",
            "line 4: .* does not support `default-scores=1,1,1`",
        ),
        (f"LexicalReordering type=msd-fe {FACTORS}", "line 4: LexicalReordering0 has no path="),
        (f"LexicalReordering type=wbe-msd-bidirectional path=x {FACTORS}", "`wbe-msd-bidirectional` is not supported"),
        (f"LexicalReordering type=msd-f-fe path=x {FACTORS}", "`msd-f-fe` is not supported"),
        (f"LexicalReordering type=wbe-mslr-forward-backward-fe path=x {FACTORS}", "one of backward, forward and bidi"),
        (
            "LexicalReordering type=msd-fe path=x input-factor=0",
            "line 4: .* needs target phrases; add output-factor=0",
        ),
        ("KENLM path=x factor=1", "line 4: the embedded decoder does not support `factor=1`"),
        ("KENLM path=x oov-feature=1", "line 4: the embedded decoder does not support `oov-feature=1`"),
        ("KENLM path=x num-features=2", "line 4: num-features is 2 where KENLM has 1; fix the line"),
        ("CSLM path=x backoff=y tuneable=x", "line 4: tuneable= `x` is neither true nor false; fix the line"),
        ("WordPenalty path=x", "does not support `path=x` of WordPenalty; remove it"),
        ("Distortion cache=5", "does not support `cache=5` of Distortion"),
        ("KENLM path=x backoff=y", "does not support `backoff=y` of KENLM"),
        ("SRILM path=x", "line 4: the embedded decoder does not support SRILM"),
        ("ProbingPT path=x", "found PhraseDictionaryMemory0 in line 3, ProbingPT0 in line 4; choose one with feature"),
        ("Distortion name=PhraseDictionaryMemory0", "PhraseDictionaryMemory0"),
    ],
)
def test_features_that_are_rejected(feature: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        declare_model(ini_of(feature))


@pytest.mark.parametrize("kind", ["PhraseDictionaryCompact", "ProbingPT"])
def test_a_binary_table_is_rejected(kind: str) -> None:
    with pytest.raises(UserError, match=f"line 3: the embedded decoder does not support {kind}; name the text table"):
        declare_model(MosesIni(["[feature]\n", "UnknownWordPenalty\n", f"{kind} path=x\n"]))


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ("Distortion0= 1 2", "moses.ini: line 6: Distortion0 has 1 features but 2 weights"),
        ("Distortion9= 1", "moses.ini: line 6: the weights of `Distortion9` have no feature"),
    ],
)
def test_weights_that_do_not_fit(weights: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        declare_model(ini_of("Distortion", weights=weights))


def test_a_malformed_table_limit(tmp_path: Path) -> None:
    ini = SmallSystem([], WEIGHTS).write(tmp_path)
    ini.set_argument("T", "table-limit", "many")
    with pytest.raises(UserError, match="table-limit is not a whole number"):
        load_model(ini, [], DecoderSettings())


def test_the_table_limit_follows_the_weights(tmp_path: Path) -> None:
    lines = [Line((b"a",), (b"A",), (0.5,)), Line((b"a",), (b"B", b"B"), (0.4,))]
    model = load_model(SmallSystem(lines, WEIGHTS, table_limit=1).write(tmp_path), [(b"a",)], DecoderSettings())
    best = []
    for weight in (-1.0, 1.0, -1.0):
        model.set_weights({"W": [weight]})
        found = model.translations((b"a",))
        assert found is not None
        best += [target.words for target in found.targets]
    assert best == [(b"B", b"B"), (b"A",), (b"B", b"B")]
    every = model.all_translations((b"a",))
    assert every is not None
    assert len(every.targets) == 2
    assert model.translations((b"a", b"a")) is None


def test_a_language_model_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "lm").write_bytes(b"not a language model\n")
    system = SmallSystem([], {**WEIGHTS, "L0": [1.0]}, language_models=[tmp_path / "lm"])
    with pytest.raises(UserError, match=f"{tmp_path}/lm: KenLM cannot read it"):
        load_model(system.write(tmp_path), [], DecoderSettings())


def test_a_missing_language_model(tmp_path: Path) -> None:
    system = SmallSystem([], {**WEIGHTS, "L0": [1.0]}, language_models=[tmp_path / "lm"])
    with pytest.raises(UserError, match="lm: does not exist"):
        load_model(system.write(tmp_path), [], DecoderSettings())


def test_a_reordering_table_of_another_width(tmp_path: Path) -> None:
    reordering = Reordering("wbe-msd-backward-fe", {((b"a",), (b"A",)): (1.0, 1.0, 1.0, 1.0)})
    system = SmallSystem([Line((b"a",), (b"A",), (1.0,))], {**WEIGHTS, "R0": [1.0] * 3}, [reordering])
    model = load_model(system.write(tmp_path), [(b"a",)], DecoderSettings())
    with pytest.raises(UserError, match="line 1: has 4 scores where the model's type needs 3"):
        model.translations((b"a",))


def test_ngrams_inside_a_phrase_do_not_depend_on_context(language_models: list[Path], tmp_path: Path) -> None:
    """Scores of complete n-grams within a phrase do not depend on context.

    In a trigram model they begin with the third word; earlier words have estimates.
    """
    target = (b"A", b"B", b"A", b"C")
    weights = {**WEIGHTS, "L0": [1.0]}
    system = SmallSystem([Line((b"a",), target, (1.0,))], weights, language_models=language_models[1:])
    model = load_model(system.write(tmp_path), [(b"a",)], DecoderSettings())
    found = model.translations((b"a",))
    assert found is not None
    (lm,) = model.language_models
    column = model.columns["L0"].start
    (first,), _ = (array[:, 0] for array in lm.alone([target[:2]]))
    assert first == 0
    parts = lm.alone([target, target[:2]])
    assert found.values_TF[0, column] == pytest.approx(parts[0][0, 0])
    assert found.estimate_TF[0, column] == pytest.approx(parts[1][0, 0])
    assert parts[1][0, 0] == pytest.approx(parts[1][1, 0])
    assert np.all(parts[0] <= 0)


@pytest.mark.parametrize("weight", [math.nan, math.inf, -1e39])
def test_weights_that_are_not_finite_are_rejected(weight: float) -> None:
    model = declare_model(MosesIni.read(MINI / "moses.ini"))
    with pytest.raises(UserError, match="somewhere: a weight of LM0 is not a finite 32-bit number; fix it"):
        model.set_weights({"LM0": [weight]}, "somewhere")
