"""Devices of processes that share work, and the memory of matrix products, on simulated GPUs."""

from __future__ import annotations

import os

import pytest
import torch

from phrasescore.device import Device, settle_memory
from phrasescore.workers import available_cores

CPU, ANY, SECOND = (Device(torch.device(name), None) for name in ("cpu", "cuda", "cuda:1"))


def test_there_is_a_process_for_each_core_or_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    assert [device.processes(None) for device in (CPU, ANY, SECOND)] == [available_cores(), 3, 1]
    assert [device.processes(5) for device in (CPU, ANY, SECOND)] == [5, 5, 5]


def test_each_process_takes_the_next_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert ANY.of_this_process() == ANY
    taken = []
    for number in (0, 1, 2, None):
        monkeypatch.setattr("phrasescore.workers._number", number)
        assert (CPU.of_this_process(), SECOND.of_this_process()) == (CPU, SECOND)
        taken.append(str(ANY.of_this_process().torch_device))
    assert taken == ["cuda:0", "cuda:1", "cuda:0", "cuda"]


def test_few_programs_are_kept_unless_the_user_says_how_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LRU_CACHE_CAPACITY", raising=False)
    monkeypatch.setenv("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "7")
    settle_memory()
    assert (os.environ["LRU_CACHE_CAPACITY"], os.environ["ONEDNN_PRIMITIVE_CACHE_CAPACITY"]) == ("64", "7")
