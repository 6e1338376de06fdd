"""The weights of a network: their number, computed before memory is allocated, their initial values, and dropout.

Legend: V words of the target vocabulary, symbols included.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from phrasescore.errors import UserError
from phrasescore.nn.architecture import Initialisation
from phrasescore.nn.softmax import WordSoftmax

NetworkT = TypeVar("NetworkT", bound=nn.Module)

MOST_PARAMETERS = 1 << 31
"""Maximum parameters of a network: 8 GiB in 32 bits."""
_GAUSSIAN = 0.01
"""Standard deviation of all but the recurrent weights (Cho et al. 2014, section 4.1.1)."""
_EMBEDDING_SCALE = 0.1


class _NothingDrawn(TorchFunctionMode):
    """Skips `normal_`: on the meta device PyTorch would import its compiler for it."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__name__", "") == "normal_":
            return args[0] if args else kwargs["tensor"]
        return func(*args, **kwargs)


def without_numbers(build: Callable[[], NetworkT]) -> NetworkT:
    """Return a network of meta tensors, which have shapes but no data."""
    with torch.device("meta"), _NothingDrawn():
        return build()


def check_size(build: Callable[[], nn.Module]) -> dict[str, tuple[int, ...]]:
    """Return the shape of each tensor of a network by name; more than `MOST_PARAMETERS` are an error."""
    try:
        network = without_numbers(build)
    except RuntimeError:
        # A unit of a plugin may need data; then only the real network gives the shapes.
        network = build()
    shapes = {name: tuple(tensor.shape) for name, tensor in network.state_dict().items()}
    parameters = sum(math.prod(shape) for shape in shapes.values())
    if parameters > MOST_PARAMETERS:
        raise UserError(
            f"the network would have {parameters:,} parameters, more than {MOST_PARAMETERS:,}; give smaller sizes"
        )
    return shapes


@torch.no_grad()
def initialise(network: nn.Module, form: Initialisation) -> None:
    """Draw all weights from torch's global generator, and set biases to zero.

    Each n x n block of the recurrent matrices, which are linear layers named `recurrent...`, is orthogonal (Saxe et al.
    2014). `cho2014` draws the other weights from a Gaussian of 0.01; `scaled` keeps the variance of each layer's
    outputs (Glorot and Bengio 2010), which saves the first thousands of updates.
    """
    for module in network.modules():
        if isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=_GAUSSIAN if form == "cho2014" else _EMBEDDING_SCALE)
        elif isinstance(module, nn.Linear):
            if form == "cho2014":
                nn.init.normal_(module.weight, std=_GAUSSIAN)
            else:
                nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
    for name, module in network.named_modules():
        if isinstance(module, nn.Linear) and name.rpartition(".")[2].startswith("recurrent"):
            for block in module.weight.split(module.in_features):
                nn.init.orthogonal_(block)


@torch.no_grad()
def start_at_frequencies(softmax: WordSoftmax, count_V: Tensor) -> None:
    """Set the biases of a softmax to ln p(word), with add-one smoothing.

    From zero, the first hundreds of updates learn the word frequencies in the wrong layer. Then the readout can
    saturate, and a network of whole sentences with a large vocabulary never learns more than frequencies.
    """
    smoothed_V = count_V.double() + 1
    softmax.words.bias.copy_((smoothed_V / smoothed_V.sum()).log())


class Dropout(nn.Dropout):
    """`nn.Dropout` with uniform random numbers on a CPU, which take a quarter of the time of PyTorch's masks."""

    def forward(self, input: Tensor) -> Tensor:
        if not self.training or not self.p or input.device.type != "cpu":
            return super().forward(input)
        is_kept = torch.rand(input.shape) >= self.p
        return input * (is_kept.to(input.dtype) / (1 - self.p))
