"""The RNN encoder-decoder of Cho et al. (2014) in float64 NumPy: one vector at a time, for tests only.

Written from the paper's equations and from nothing in `phrasescore`, so that agreement between the two means
something. It is slow on purpose: no batch, no padding, no mask, no cache.

n hidden units, m numbers in an embedding, s maxout outputs, r rank of the output factors, V words. Every matrix is
[outputs, inputs], so that `W @ x` is the paper's W x. A weight marked optional below is simply absent.
"""

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Weights = dict[str, NDArray[np.float64]]

REQUIRED = frozenset(
    {
        "encoder.embedding.words.weight",  # E [Vs, m]
        "encoder.unit.input.weight",  # W_r, W_z, W [3n, m]
        "encoder.unit.recurrent_gates.weight",  # U_r, U_z [2n, n]
        "encoder.unit.recurrent_candidate.weight",  # U [n, n]
        "decoder.embedding.words.weight",  # E' [Vt, m]
        "decoder.initial.weight",  # V' [n, n]
        "decoder.unit.input.weight",  # W'_r, W'_z, W' [3n, m]
        "decoder.unit.recurrent_gates.weight",  # U'_r, U'_z [2n, n]
        "decoder.unit.recurrent_candidate.weight",  # U' [n, n]
        "decoder.unit.context.weight",  # C_r, C_z, C [3n, n]
        "decoder.readout.state.weight",  # O_h [2s, n]
        "decoder.readout.word.weight",  # O_y [2s, m]
        "decoder.readout.context.weight",  # O_c [2s, n]
        "softmax.words.weight",  # G_l [V, r], or G [V, s] at full rank
    }
)
OPTIONAL = frozenset(
    {
        "encoder.embedding.bias",  # [m]
        "encoder.unit.input.bias",  # [3n]
        "encoder.unit.candidate_bias",  # [n]
        "encoder.summary.weight",  # V [n, n]
        "encoder.summary.bias",  # [n]
        "decoder.embedding.bias",  # [m]
        "decoder.initial.bias",  # [n]
        "decoder.unit.input.bias",  # [3n]
        "decoder.unit.candidate_bias",  # [n]
        "decoder.readout.state.bias",  # [2s]
        "decoder.readout.factor.weight",  # G_r [r, s]
        "softmax.words.bias",  # [V]
    }
)


def check_names(weights: Weights) -> None:
    """Raise an error for a missing or unknown weight; an unknown one would be ignored silently."""
    missing, unknown = REQUIRED - weights.keys(), weights.keys() - REQUIRED - OPTIONAL
    if missing or unknown:
        raise KeyError(f"missing weights: {sorted(missing)}; unknown weights: {sorted(unknown)}")


def sigma(x: Vector) -> Vector:
    """The logistic sigmoid 1 / (1 + e^-x), written as e^-ln(1 + e^-x), which cannot overflow."""
    y: Vector = np.exp(-np.logaddexp(0.0, -x))
    return y


def bias(weights: Weights, name: str, size: int) -> Vector:
    """The bias vector `name`, or zeros where the model has none."""
    b = weights.get(name, np.zeros(size))
    if b.shape != (size,):
        raise ValueError(f"{name}: {b.shape}, not {(size,)}")
    return b


def embed(weights: Weights, side: str, word: int) -> Vector:
    """e(x) = E x + bias for a one-hot x, that is, one row of the stored table."""
    table = weights[f"{side}.embedding.words.weight"]
    if not 0 <= word < len(table):
        raise IndexError(f"{side} word {word} of {len(table)}")
    row: Vector = table[word]
    return row + bias(weights, f"{side}.embedding.bias", len(row))


def unit_step(weights: Weights, side: str, e: Vector, h: Vector, c: Vector | None, reset: str) -> Vector:
    """One step of the gated unit, from state `h` on the embedded word `e`; `c` is None in the encoder."""
    n = len(h)
    W_r, W_z, W = np.split(weights[f"{side}.unit.input.weight"], 3)
    b_r, b_z, b = np.split(bias(weights, f"{side}.unit.input.bias", 3 * n), 3)
    b = b + bias(weights, f"{side}.unit.candidate_bias", n)
    U_r, U_z = np.split(weights[f"{side}.unit.recurrent_gates.weight"], 2)
    U = weights[f"{side}.unit.recurrent_candidate.weight"]
    if c is None:
        Cr_c, Cz_c, C_c = np.zeros(n), np.zeros(n), np.zeros(n)
    else:
        C_r, C_z, C = np.split(weights[f"{side}.unit.context.weight"], 3)
        Cr_c, Cz_c, C_c = C_r @ c, C_z @ c, C @ c

    r = sigma(W_r @ e + b_r + U_r @ h + Cr_c)  # r_t = sigma(W_r e + U_r h_{t-1} + C_r c)
    z = sigma(W_z @ e + b_z + U_z @ h + Cz_c)  # z_t = sigma(W_z e + U_z h_{t-1} + C_z c)
    if reset == "before":
        candidate = np.tanh(W @ e + b + U @ (r * h) + C_c)  # h~_t = tanh(W e + U (r_t * h_{t-1}) + C c)
    elif reset == "after":
        candidate = np.tanh(W @ e + b + r * (U @ h + C_c))  # h~_t = tanh(W e + r_t * [U h_{t-1} + C c])
    else:
        raise ValueError(f"reset is 'before' or 'after', not {reset!r}")
    return z * h + (1 - z) * candidate  # h_t = z_t * h_{t-1} + (1 - z_t) * h~_t


def summarise(weights: Weights, source: list[int], *, reset: str, end: int) -> Vector:
    """The summary c of a source phrase given without its end symbol."""
    n = weights["encoder.unit.recurrent_candidate.weight"].shape[0]
    h = np.zeros(n)  # h_0 = 0
    for word in [*source, end]:  # x_N is the end symbol
        h = unit_step(weights, "encoder", embed(weights, "encoder", word), h, None, reset)
    if "encoder.summary.weight" not in weights:
        return h  # c = h_N, as in the authors' code
    V = weights["encoder.summary.weight"]
    return np.tanh(V @ h + bias(weights, "encoder.summary.bias", n))  # c = tanh(V h_N)


def initial_state(weights: Weights, c: Vector) -> Vector:
    """The decoder's state before the first word."""
    V = weights["decoder.initial.weight"]
    return np.tanh(V @ c + bias(weights, "decoder.initial.bias", len(V)))  # h'_0 = tanh(V' c)


def read_out(weights: Weights, e: Vector, h: Vector, c: Vector) -> Vector:
    """The ln p of every target word, from the embedded previous word `e`, the state `h` and the summary `c`."""
    O_h = weights["decoder.readout.state.weight"]
    O_y = weights["decoder.readout.word.weight"]
    O_c = weights["decoder.readout.context.weight"]
    b = bias(weights, "decoder.readout.state.bias", len(O_h))
    pre = O_h @ h + b + O_y @ e + O_c @ c  # s'_t = O_h h'_t + O_y y_{t-1} + O_c c
    pairs = [(pre[2 * i], pre[2 * i + 1]) for i in range(len(pre) // 2)]  # here counted from 0
    s = np.array([max(pair) for pair in pairs])  # s_{t,i} = max(s'_{t,2i-1}, s'_{t,2i})
    if "decoder.readout.factor.weight" in weights:
        s = weights["decoder.readout.factor.weight"] @ s  # G_r s_t, the first half of G = G_l G_r
    G_l = weights["softmax.words.weight"]
    a = G_l @ s + bias(weights, "softmax.words.bias", len(G_l))  # a_j = g_j . s_t
    top = a.max()  # subtracted from every a_j, which changes no probability
    log_p: Vector = a - top - np.log(np.sum(np.exp(a - top)))  # ln p(y_t = j | y_<t, x) = a_j - ln sum_k e^{a_k}
    return log_p


def decoder_step(weights: Weights, previous: int | None, h: Vector, c: Vector, *, reset: str) -> tuple[Vector, Vector]:
    """Read the previous target word (None before the first): the new state and ln p of every next word."""
    if previous is None:
        e = np.zeros(weights["decoder.embedding.words.weight"].shape[1])  # e(y_0) = 0: no bias, and O_y e(y_0) = 0
    else:
        e = embed(weights, "decoder", previous)
    h = unit_step(weights, "decoder", e, h, c, reset)
    return h, read_out(weights, e, h, c)


def next_word_log_probs(
    weights: Weights, source: list[int], prefix: list[int], *, encoder_reset: str, decoder_reset: str, end: int
) -> Vector:
    """The ln p(. | prefix, x) of every target word [V]; only `source` gets an end symbol."""
    check_names(weights)
    c = summarise(weights, source, reset=encoder_reset, end=end)
    h, log_p = decoder_step(weights, None, initial_state(weights, c), c, reset=decoder_reset)
    for word in prefix:
        h, log_p = decoder_step(weights, word, h, c, reset=decoder_reset)
    return log_p


def pair_log_probs(
    weights: Weights, source: list[int], target: list[int], *, encoder_reset: str, decoder_reset: str, end: int
) -> list[float]:
    """The ln p(y_t | y_<t, x) for t = 1..M+1, the last for the end symbol, which both phrases get."""
    check_names(weights)
    c = summarise(weights, source, reset=encoder_reset, end=end)
    h = initial_state(weights, c)
    previous: int | None = None
    result: list[float] = []
    for word in [*target, end]:
        h, log_p = decoder_step(weights, previous, h, c, reset=decoder_reset)
        if not 0 <= word < len(log_p):
            raise IndexError(f"target word {word} of {len(log_p)}")
        result.append(float(log_p[word]))
        previous = word
    return result


def parameter_count(
    source_words: int,
    target_words: int,
    *,
    embedding: int,
    hidden: int,
    maxout: int,
    rank: int | None,
    biases: str,
    summary: bool,
) -> int:
    """How many numbers a model learns; `rank` None (or 0) is full rank, `biases` is authors or all."""
    m, n, s = embedding, hidden, maxout
    encoder = source_words * m + 3 * n * m + 3 * n * n  # E; W_r, W_z, W; U_r, U_z, U
    if summary:
        encoder += n * n  # V
    decoder = target_words * m + n * n  # E'; V'
    decoder += 3 * n * m + 3 * n * n + 3 * n * n  # W'_r, W'_z, W'; U'_r, U'_z, U'; C_r, C_z, C
    output = 2 * s * n + 2 * s * m + 2 * s * n  # O_h; O_y; O_c
    output += rank * s + target_words * rank if rank else target_words * s  # G_r and G_l, or G
    matrices = encoder + decoder + output
    # h'_0; s'_t; a: learned wherever anything is.
    shared = n + 2 * s + target_words
    if biases == "authors":
        return matrices + shared + 2 * m + 2 * n  # e and e'; h~ and h~'
    if biases == "all":
        return matrices + shared + 2 * 3 * n + (n if summary else 0)  # r, z, h~ of both units; c
    raise ValueError(f"biases are 'authors' or 'all', not {biases!r}")
