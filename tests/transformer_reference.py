"""A float64 NumPy reference of the Transformer, one vector at a time, for tests only.

Written from the equations of Vaswani et al. (2017), with the norms of Xiong et al. (2020) and the rotary positions of
Su et al. (2021). Only the names of options and weights come from `phrasescore`.
"""

import numpy as np

from phrasescore.nn.architecture import ModelConfig
from tests.reference import Vector, Weights, embed


def affine(weights: Weights, name: str, x: Vector) -> Vector:
    y: Vector = weights[f"{name}.weight"] @ x + weights[f"{name}.bias"]
    return y


def norm(weights: Weights, name: str, x: Vector) -> Vector:
    centred = x - x.mean()
    y: Vector = centred / np.sqrt((centred**2).mean() + 1e-5) * weights[f"{name}.weight"] + weights[f"{name}.bias"]
    return y


def turn(x: Vector, position: int) -> Vector:
    """Multiply the complex numbers x_j + i x_{j + k/2} by e^{i angle}."""
    half = len(x) // 2
    angles = position * 10000.0 ** (-2 * np.arange(half) / len(x))
    z = (x[:half] + 1j * x[half:]) * np.exp(1j * angles)
    return np.concatenate((z.real, z.imag))


def attend(
    weights: Weights, name: str, heads: int, x: Vector, memory: list[Vector], position: int | None = None
) -> Vector:
    """Return the attention of x to a memory; in self-attention x is at a position, and the memory at 0, 1, ..."""
    q = affine(weights, f"{name}.query", x)
    projected = [np.split(affine(weights, f"{name}.keys_values", y), 2) for y in memory]
    found = []
    for head in range(heads):
        part = slice(head * len(q) // heads, (head + 1) * len(q) // heads)
        query, keys = q[part], [key[part] for key, _ in projected]
        if position is not None:
            query, keys = turn(query, position), [turn(key, number) for number, key in enumerate(keys)]
        scores = np.array([query @ key for key in keys]) / np.sqrt(len(query))
        a = np.exp(scores - scores.max())
        a /= a.sum()
        found.append(np.sum([weight * value[part] for weight, (_, value) in zip(a, projected, strict=True)], axis=0))
    return affine(weights, f"{name}.out", np.concatenate(found))


def read(
    weights: Weights, side: str, config: ModelConfig, words: list[int], source: list[Vector] | None
) -> list[Vector]:
    """Return the outputs of the top layer; with a source, each position conditions on those up to it."""
    embedding = "encoder" if config.tied_embeddings else side
    xs = [np.sqrt(config.embedding) * embed(weights, embedding, word) for word in words]
    if config.embedding != config.hidden:
        xs = [weights[f"{side}.stack.widen.weight"] @ x for x in xs]
    for layer in range(config.encoder_layers if source is None else config.decoder_layers):
        name = f"{side}.stack.layers.{layer}"
        ys = [norm(weights, f"{name}.norm", x) for x in xs]
        for position, y in enumerate(ys):
            seen = ys if source is None else ys[: position + 1]
            xs[position] = xs[position] + attend(weights, f"{name}.attention", config.heads, y, seen, position)
        if source is not None:
            for position, x in enumerate(xs):
                y = norm(weights, f"{name}.source_norm", x)
                xs[position] = x + attend(weights, f"{name}.source_attention", config.heads, y, source)
        for position, x in enumerate(xs):
            inner = np.maximum(affine(weights, f"{name}.feed.1", norm(weights, f"{name}.feed.0", x)), 0)
            xs[position] = x + affine(weights, f"{name}.feed.3", inner)
    return [norm(weights, f"{side}.stack.norm", x) for x in xs]
