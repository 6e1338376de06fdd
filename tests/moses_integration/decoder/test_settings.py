"""Search settings under Moses' names."""

from __future__ import annotations

import pickle

import pytest

from moses_integration.decoder.settings import DecoderSettings, UnsupportedError, read_settings
from moses_integration.ini import MosesIni
from phrasescore.errors import UserError
from tests.conftest import MINI


def ini_of(**sections: str) -> MosesIni:
    text = "".join(f"[{name.replace('_', '-')}]\n{value}\n" for name, value in sections.items())
    return MosesIni(text.splitlines(keepends=True))


def test_the_message_of_an_unsupported_system_survives_pickling() -> None:
    error = UnsupportedError("moses.ini: line 3: is unusual", "remove it")
    expected = "moses.ini: line 3: is unusual; remove it, or use Moses"
    assert [str(error), str(pickle.loads(pickle.dumps(error)))] == [expected, expected]


def test_without_sections_moses_defaults_hold() -> None:
    assert read_settings(ini_of()) == DecoderSettings(200, 1e-5, 500, -1, 20, False)
    assert read_settings(MosesIni.read(MINI / "moses.ini")).distortion_limit == 6


def test_every_setting() -> None:
    ini = ini_of(
        stack="100  # a comment",
        beam_threshold="0.03",
        cube_pruning_pop_limit="300",
        distortion_limit="4",
        max_phrase_length="7",
        drop_unknown="true",
        input_factors="0",
        mapping="0 T 0",
    )
    assert read_settings(ini) == DecoderSettings(100, 0.03, 300, 4, 7, True)


@pytest.mark.parametrize("mapping", ["T 0", "0 T 0", "0  T   0", "\t0\tT 0 ", "T\t0"])
def test_both_forms_of_one_decoding_path(mapping: str) -> None:
    """moses/StaticData.cpp, LoadDecodeGraphs."""
    assert read_settings(ini_of(mapping=mapping, input_factors=" 0\t")) == read_settings(ini_of())


@pytest.mark.parametrize(
    ("sections", "limit"),
    [
        ({}, 500),
        ({"search_algorithm": "0"}, 0),
        ({"search_algorithm": "0", "cube_pruning_pop_limit": "300"}, 0),
        ({"search_algorithm": "1"}, 1000),
        ({"search_algorithm": "1", "cube_pruning_pop_limit": "300"}, 300),
        ({"cube_pruning_pop_limit": "300"}, 300),
        ({"cube_pruning_pop_limit": "0"}, 0),
    ],
)
def test_search_algorithms(sections: dict[str, str], limit: int) -> None:
    """Cube pruning has Moses' default pop limit if the ini selects it, else ours; normal search has no limit."""
    assert read_settings(ini_of(**sections)).pop_limit == limit


@pytest.mark.parametrize(
    ("value", "expected"),
    [("1", True), ("True", True), ("yes", True), ("0", False), ("false", False), ("N", False)],
)
def test_truth_values(value: str, expected: bool) -> None:
    assert read_settings(ini_of(drop_unknown=value)).drop_unknown is expected


def test_a_section_without_a_value_has_no_effect() -> None:
    """Moses defines a parameter of moses.ini with its first value (moses/Parameter.cpp, ReadConfigFile)."""
    assert not read_settings(ini_of(drop_unknown="")).drop_unknown
    assert read_settings(ini_of(early_distortion_cost="", distortion_limt="")) == read_settings(ini_of())


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"input_factors": "0\n1"}, r"line 2: .* does not support this \[input-factors\], which may change"),
        ({"output_factors": "1"}, r"line 2: .* does not support this \[output-factors\]"),
        (
            {"drop_unknown": "perhaps"},
            r"line 2: \[drop-unknown\]: `perhaps` is neither true nor false; give",
        ),
        ({"mapping": "0 T 0\n1 T 1"}, r"line 2: .* does not support this \[mapping\]"),
        ({"mapping": "0 T 0\n0 G 0"}, r"line 2: .* does not support this \[mapping\]"),
        ({"mapping": "0 T 1"}, r"line 2: .* does not support this \[mapping\]"),
        # Moses accepts the form but reads no table from it.
        ({"mapping": "0 TM0"}, r"line 2: .* does not support this \[mapping\]"),
        ({"stack": "many"}, r"\[stack\]: `many` is not a whole number from 0 to"),
        ({"stack": "1.5"}, r"moses.ini: line 2: \[stack\]: `1.5` is not a whole number"),
        ({"stack": "-1"}, r"moses.ini: line 2: \[stack\]: `-1` is not a whole number from 0"),
        ({"distortion_limit": "nan"}, r"\[distortion-limit\]: `nan` is no"),
        ({"stack": "9", "cube_pruning_pop_limit": "-1"}, r"line 4: \[cube-pruning-pop-limit\]: `-1` is not a"),
        ({"max_phrase_length": "0"}, r"line 2: \[max-phrase-length\]: `0` is not a whole number from 1"),
        ({"beam_threshold": "1"}, r"line 2: \[beam-threshold\]: `1` is not"),
        ({"beam_threshold": "-0.1"}, r"\[beam-threshold\]: `-0.1` is not at least 0 and below 1"),
        ({"beam_threshold": "x"}, r"\[beam-threshold\]: `x` is not at least 0 and below 1"),
        ({"beam_threshold": "nan"}, r"\[beam-threshold\]: `nan` is not at least 0 and below 1"),
        ({"search_algorithm": "4"}, r"line 2: \[search-algorithm\]: algorithm 4 is neither"),
        (
            {"search_algorithm": "1", "cube_pruning_pop_limit": "0"},
            "line 4: .*: cube pruning of 0 candidates",
        ),
        (
            {"early_distortion_cost": "true"},
            r"line 2: the embedded decoder does not support \[early-distortion-cost\]",
        ),
        (
            {"distortion_limt": "6"},
            r"line 2: .* support \[distortion-limt\], which may change .* fix or remove it, or use M",
        ),
        ({"mark_unknown": "false\nfalse"}, r"does not support this \[mark-unknown\]"),
        ({"cache": "1"}, r"does not support \[cache\]"),
        ({"x" * 100: "1"}, r"does not support \[`?x{37}\.\.\."),
        ({"drop_unknown": "0\n1"}, r"line 2: \[drop-unknown\]: has more than one value; give true or false"),
        ({"stack": "1e2"}, r"line 2: \[stack\]: `1e2` is not a whole number"),
        ({"stack": "1_0"}, r"line 2: \[stack\]: `1_0` is not a whole number"),
        ({"stack": "1000000001"}, r"line 2: \[stack\]: .* is not a whole number from 0 to 1,000,000,000; give one"),
        ({"cube_pruning_pop_limit": "9" * 300}, r"line 2: \[cube-pruning-pop-limit\]: `9{37}\.\.\.` is not"),
        ({"distortion_limit": "-" + "9" * 300}, r"line 2: \[distortion-limit\]: `-9{36}\.\.\.` is not"),
        ({"drop_unknown": "x" * 10_000}, r"line 2: \[drop-unknown\]: `x{37}\.\.\.` is neither true"),
        ({"weight_add": "LM0= 1"}, r"does not support \[weight-add\], which may change scores"),
    ],
)
def test_invalid_settings(sections: dict[str, str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        read_settings(ini_of(**sections))


def test_of_several_numbers_the_first_counts() -> None:
    """Of several numbers, the first counts, as in Moses; messages name it."""
    assert read_settings(ini_of(stack="7\n100")).stack == 7
    with pytest.raises(UserError, match=r"line 2: \[stack\]: `-1` is not"):
        read_settings(ini_of(stack="-1\n100"))


def test_sections_that_change_nothing() -> None:
    """Sections without effect are accepted: ignored ones, Moses' defaults, and mert-moses.pl's form of short flags."""
    harmless = {"threads": "4", "verbose": "0", "minphr_memory": "true", "th": "4", "v": "0", "s": "1", "du": "true"}
    defaults = {"xml_input": "pass-through", "mark_unknown": "false", "decoding_graph_backoff": "0", "inputtype": "0"}
    assert read_settings(ini_of(feature="x", weight="y", **harmless, **defaults)) == read_settings(ini_of())


def test_text_before_the_first_section_is_an_error() -> None:
    ini = MosesIni(["# a comment\n", "\n", "stack 5\n", "[stack]\n", "5\n"])
    with pytest.raises(UserError, match=r"moses.ini: line 3: precedes the first section, which Moses rejects; re"):
        read_settings(ini)
