"""Devices of processes that share work, the memory of matrix products, and copies to devices, on simulated GPUs."""

from __future__ import annotations

import os
from dataclasses import dataclass

import pytest
import torch

from phrasescore.device import (
    Device,
    Precision,
    choose_device,
    configure_memory,
    fetch,
    on_device,
    pack,
    unpack,
)
from phrasescore.nn.cpu_products import has_int8, rounded_rows
from phrasescore.workers import available_cores
from tests.no_numbers import META, copies

TENSORS = [
    torch.arange(5),
    torch.tensor([True, False, True]),
    torch.empty(0, dtype=torch.int64),
    torch.tensor(2.5, dtype=torch.float64),
    torch.arange(6, dtype=torch.float32).reshape(2, 3).t(),
    torch.arange(5)[None].expand(1, 5).t()[:1],
    torch.arange(1).expand(1).as_strided((1,), (0,)),
]
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


@pytest.mark.parametrize(
    ("amx", "avx512_bf16", "processor", "precision"),
    [
        (True, True, "GenuineIntel avx512_fp16", "bf16"),
        (False, True, "GenuineIntel avx512_fp16", "fp32"),
        (False, True, "GenuineIntel", "bf16"),
        (False, True, "AuthenticAMD", "bf16"),
        (False, False, "AuthenticAMD", "fp32"),
    ],
)
def test_auto_selects_16_bits_only_where_they_are_faster(
    amx: bool, avx512_bf16: bool, processor: str, precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: amx)
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: avx512_bf16)
    monkeypatch.setattr("phrasescore.nn.cpu_products._processor_description", lambda: processor)
    monkeypatch.setattr("phrasescore.device.has_int8", lambda: True)
    assert choose_device("cpu", "auto").precision == precision
    assert choose_device("cpu", "int8").product_dtype is (torch.bfloat16 if precision == "bf16" else torch.int8)


def test_few_kernels_are_cached_unless_the_user_says_how_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LRU_CACHE_CAPACITY", raising=False)
    monkeypatch.setenv("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "7")
    configure_memory()
    assert (os.environ["LRU_CACHE_CAPACITY"], os.environ["ONEDNN_PRIMITIVE_CACHE_CAPACITY"]) == ("256", "7")


def test_few_numbers_of_rows_remain_and_few_rows_are_added() -> None:
    rounded = [len(rounded_rows(torch.ones(rows, 1, dtype=torch.bfloat16))) for rows in range(5000)]
    assert all(0 <= after - before < max(16, before / 4) for before, after in enumerate(rounded))
    assert len(set(rounded)) < 50
    row = torch.ones(33, 2, dtype=torch.uint8)
    assert torch.equal(rounded_rows(row), torch.cat((row, torch.zeros(15, 2, dtype=torch.uint8))))
    assert rounded_rows(row.float()).shape == row.shape


def test_rounded_rows_change_no_product_and_no_gradient() -> None:
    """The 16-bit products of a layer on a CPU; the rows have two dimensions."""
    torch.manual_seed(1)
    layer, x = torch.nn.Linear(24, 40), torch.randn(7, 3, 24, requires_grad=True)
    found: list[list[torch.Tensor]] = []
    for products in (choose_device("cpu", "bf16").products(), torch.autocast("cpu", torch.bfloat16)):
        layer.zero_grad()
        x.grad = None
        with products:
            y = layer(x.tanh())
        assert (y.shape, y.dtype) == ((7, 3, 40), torch.bfloat16)
        y.float().square().sum().backward()
        assert x.grad is not None
        assert layer.weight.grad is not None
        assert layer.bias.grad is not None
        found.append([y.detach().float(), x.grad, layer.weight.grad, layer.bias.grad])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, atol=2e-2, rtol=2e-2)


def test_layers_accept_no_rows_and_no_inputs() -> None:
    layer = torch.nn.Linear(64, 72)
    precisions: list[Precision] = ["bf16", "int8"] if has_int8() else ["bf16"]
    for precision in precisions:
        with choose_device("cpu", precision).products(), torch.inference_mode():
            assert layer(torch.ones(0, 3, 64)).shape == (0, 3, 72)
            assert torch.nn.functional.linear(torch.ones(2, 0), torch.ones(5, 0)).shape == (2, 5)
            assert torch.nn.functional.linear(torch.ones(2, 64), weight=layer.weight).shape == (2, 72)


@dataclass(frozen=True)
class Some:
    parts: list[slice | torch.Tensor]
    by_name: dict[str, tuple[torch.Tensor, int]]


def test_packed_tensors_are_what_they_were() -> None:
    found = unpack(pack(TENSORS), TENSORS)
    for ours, theirs in zip(found, TENSORS, strict=True):
        assert ours.dtype == theirs.dtype
        assert torch.equal(ours, theirs)
    assert all(tensor.data_ptr() % 64 == found[0].data_ptr() % 64 for tensor in found if tensor.numel())


def test_all_tensors_go_to_a_device_in_one_copy() -> None:
    some = Some([slice(0, 2), TENSORS[0], TENSORS[4]], {"x": (TENSORS[1], 7)})
    assert on_device(some, torch.device("cpu")) is some
    with copies() as counted:
        moved = on_device(some, META)
        assert counted.number == 1
        assert on_device(moved, META) is moved
    assert counted.number == 1
    assert moved.parts[0] == slice(0, 2)
    tensors = [moved.parts[1], moved.parts[2], moved.by_name["x"][0]]
    assert [(one.shape, one.dtype, one.device) for one in tensors if isinstance(one, torch.Tensor)] == [
        (one.shape, one.dtype, META) for one in (TENSORS[0], TENSORS[4], TENSORS[1])
    ]
    assert moved.by_name["x"][1] == 7


def test_nothing_is_transferred_on_a_cpu() -> None:
    assert fetch(TENSORS[0])() is TENSORS[0]
