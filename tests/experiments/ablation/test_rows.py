from __future__ import annotations

from experiments.ablation.rows import BASELINE, Row, extended_by


def test_a_row_is_its_parts() -> None:
    row = Row.parse("+WP+CSLM+RNN")
    assert row == Row.parse(row.name)
    assert row.name == "+RNN+CSLM+WP"
    assert Row.parse("+CTX+NNJM").name == "+NNJM+CTX"
    assert Row.parse(BASELINE).name == BASELINE
    assert [(column.name, len(column.scores)) for column in row.columns()] == [("rnn-wp", 2)]
    assert (row.listed, row.decoded) == ((), row)
    listed = Row.parse("+RNN+CSLM+RESCORING+S2S+CHANNEL")
    assert (listed.listed, listed.decoded.name) == (("CSLM", "S2S", "CHANNEL"), "+RNN")
    assert row.columns()[0].options == ("--columns", "score", "unknown-target")
    [per_word] = Row.parse("+RNN+PER-WORD").columns()
    assert (per_word.name, per_word.networks, per_word.options) == ("rnn-per-word", ("rnn",), ("--columns", "per-word"))
    [_, reverse] = Row.parse("+RNN+REVERSE").columns()
    assert (reverse.networks, reverse.options) == (("reverse",), ())
    many = Row.parse("+RNN+REVERSE+ENSEMBLE+PER-WORD").columns()
    assert [(column.name, len(column.networks)) for column in many] == [("ensemble-per-word", 3), ("reverse", 1)]


def test_a_training_has_its_own_networks() -> None:
    row = Row.parse("+RNN+XBLEU+CSLM")
    first, second = row.trainings(2)
    assert first == row
    assert (second.name, second.label) == (row.name, f"{row.name}.training2")
    assert [column.networks for column in second.columns()] == [("rnn-2",), ("xbleu-2",)]
    assert second.networks("cslm") == ("cslm-2",)
    assert Row.parse("+CSLM+S2S").trainings(2)[1].decoded == Row.parse("+CSLM").trainings(2)[1]
    assert Row.parse("+S2S").trainings(2)[1].decoded == Row.parse(BASELINE)
    assert Row.parse(BASELINE).trainings(2) == [Row.parse(BASELINE)]


def test_an_ensemble_has_the_networks_of_three_trainings() -> None:
    row = Row.parse("+CSLM+CTX+ENSEMBLE")
    assert row.networks("ctx") == ("ctx", "ctx-2", "ctx-3")
    assert row.networks("cslm") == ("cslm",)
    assert row.trainings(2) == [row]


def test_a_row_is_compared_with_the_largest_that_it_extends() -> None:
    rows = [Row.parse(name) for name in (BASELINE, "+RNN", "+CSLM", "+RNN+CSLM", "+RNN+CSLM+WP")]
    names = [[other.name for other in extended_by(row, rows)] for row in rows]
    assert names == [[], [], [], ["+RNN", "+CSLM"], ["+RNN+CSLM"]]
