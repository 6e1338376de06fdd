from __future__ import annotations

import pytest

from phrasescore.errors import UserError
from phrasescore.nn.architecture import ModelConfig, read_model_config


def test_configurations_without_named_units_are_read() -> None:
    found = read_model_config({"hidden": 7, "encoder_reset": "after", "decoder_reset": "before"}, "config.json")
    assert found == ModelConfig(hidden=7, encoder_unit="gru-appendix", decoder_unit="gru-paper")
    assert read_model_config({"encoder_reset": "before", "decoder_reset": "after"}, "config.json") == ModelConfig()


def test_unknown_keys_and_values_are_errors() -> None:
    with pytest.raises(UserError, match=r"config\.json: unknown key `encoder_reset`"):
        read_model_config({"encoder_reset": "never"}, "config.json")
