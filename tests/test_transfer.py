from __future__ import annotations

from dataclasses import dataclass

import torch

from phrasescore.device import fetch, on_device, pack, unpack
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
