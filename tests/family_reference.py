"""A float64 NumPy reference of all encoder-decoders, one vector at a time, for tests only.

Written from the equations of Cho et al. (2014), Bahdanau et al. (2015), Luong et al. (2015), Sutskever et al. (2014)
and the definition of the LSTM; `transformer_reference.py` has those of the Transformer. Only the names of options and
weights come from `phrasescore`.
"""

import numpy as np

from phrasescore.nn.architecture import ModelConfig
from tests import transformer_reference
from tests.reference import Vector, Weights, bias, embed, sigma

State = tuple[Vector, Vector]
"""h and the cell of an LSTM; for other units the cell is empty."""
NOTHING = np.zeros(0)


def affine(weights: Weights, name: str, x: Vector) -> Vector:
    """Compute W x + b of the layer `name`; the bias is optional."""
    W = weights[f"{name}.weight"]
    y: Vector = W @ x + bias(weights, f"{name}.bias", len(W))
    return y


def unit_step(weights: Weights, name: str, kind: str, x: Vector, state: State, c: Vector | None) -> State:
    """Compute one step of the unit `name` on the input `x` from a state, with an optional context."""
    h, cell = state
    n = len(h)
    inputs = affine(weights, f"{name}.input", x)
    context = np.zeros(len(inputs)) if c is None else weights[f"{name}.context.weight"] @ c
    if kind == "rnn":
        return np.tanh(inputs + context + affine(weights, f"{name}.recurrent", h)), NOTHING
    if kind == "lstm":
        i, f, g, o = np.split(inputs + context + affine(weights, f"{name}.recurrent", h), 4)
        cell = sigma(f) * cell + sigma(i) * np.tanh(g)
        return sigma(o) * np.tanh(cell), cell
    x_r, x_z, x_h = np.split(inputs, 3)
    x_h = x_h + bias(weights, f"{name}.candidate_bias", n)
    c_r, c_z, c_h = np.split(context, 3)
    u_r, u_z = np.split(affine(weights, f"{name}.recurrent_gates", h), 2)
    r, z = sigma(x_r + c_r + u_r), sigma(x_z + c_z + u_z)
    if kind == "gru-paper":
        candidate = np.tanh(x_h + c_h + affine(weights, f"{name}.recurrent_candidate", r * h))
    elif kind == "gru-appendix":
        candidate = np.tanh(x_h + r * (affine(weights, f"{name}.recurrent_candidate", h) + c_h))
    elif kind == "gru":
        candidate = np.tanh(x_h + c_h + r * affine(weights, f"{name}.recurrent_candidate", h))
    else:
        raise ValueError(f"no equation for the unit {kind!r}")
    return z * h + (1 - z) * candidate, NOTHING


def first_state(n: int, kind: str) -> State:
    """Return h_0 = 0 and the zero cell."""
    return np.zeros(n), np.zeros(n) if kind == "lstm" else NOTHING


def read(weights: Weights, name: str, kind: str, xs: list[Vector], n: int) -> list[State]:
    """Return the state after each input."""
    state, states = first_state(n, kind), []
    for x in xs:
        state = unit_step(weights, name, kind, x, state, None)
        states.append(state)
    return states


def layer_name(side: str, layer: int) -> str:
    """Return the prefix of a layer's weight names."""
    return f"{side}.unit" if layer == 0 else f"{side}.upper.{layer - 1}"


Place = tuple[int, int]
"""The range of a phrase in its sentence."""


def encode(
    weights: Weights, config: ModelConfig, source: list[int], end: int, place: Place | None = None
) -> tuple[Vector, list[list[State]], list[Vector]]:
    """Return the summary c, the last states of all layers and directions, and the annotation of each symbol.

    In context, the source is the whole sentence, with the phrase's range.
    """
    words = [*(reversed(source) if config.reverse_source else source), end]
    begin, behind = place or (0, len(source))
    if config.encoder == "transformer":
        annotations = transformer_reference.read(weights, "encoder", config, words, None)
        if config.in_context:
            annotations = mark_annotations(weights, annotations[begin : behind + 1])
        return np.mean(annotations, axis=0), [], annotations
    n = config.hidden // 2 if config.directions == "halves" else config.hidden
    xs = [embed(weights, "encoder", word) for word in words]
    last: list[list[State]] = []
    for layer in range(config.encoder_layers):
        forward = read(weights, layer_name("encoder", layer), config.encoder_unit, xs, n)
        last.append([mark(weights, f"length.{layer}.0", forward[behind], behind - begin, config)])
        xs_above = [h for h, _ in forward]
        if config.directions != "forward":
            name = f"encoder.backward_units.{layer}"
            backward = read(weights, name, config.encoder_unit, xs[::-1], n)
            # The backward state at the first word of the phrase.
            last[-1].append(mark(weights, f"length.{layer}.1", backward[len(source) - begin], behind - begin, config))
            xs_above = [np.concatenate((h, b)) for h, (b, _) in zip(xs_above, backward[::-1], strict=True)]
        xs = xs_above
    c = np.concatenate([h for h, _ in last[-1]])
    if "encoder.summary.weight" in weights:
        c = np.tanh(affine(weights, "encoder.summary", c))
    annotations = xs
    if config.in_context and config.attention != "none":
        annotations = mark_annotations(weights, xs[begin : behind + 1])
    if config.reverse_source:
        annotations = [*xs[:-1][::-1], xs[-1]]
    return c, last, annotations


def marks(weights: Weights, name: str, distance: int) -> Vector:
    """Return the embedding of a distance in words; 7 represents all larger distances."""
    vector: Vector = weights[f"encoder.marks.{name}.weight"][min(distance, 7)]
    return vector


def mark_annotations(weights: Weights, annotations: list[Vector]) -> list[Vector]:
    """Return the annotations of a phrase and of the symbol after it, with the embeddings of both distances."""
    return [
        h + marks(weights, "first", i) + marks(weights, "following", len(annotations) - 1 - i)
        for i, h in enumerate(annotations)
    ]


def mark(weights: Weights, name: str, state: State, length: int, config: ModelConfig) -> State:
    """Return a last state extended by the embedding of the phrase length, with its cell."""
    if not config.in_context:
        return state
    h, cell = np.split(np.concatenate(state) + marks(weights, name, length), [len(state[0])])
    return h, cell


def cross(weights: Weights, config: ModelConfig, c: Vector, last: list[list[State]]) -> list[State]:
    """Return h'_0 of each decoder layer."""
    n, depth = config.hidden, config.decoder_layers
    parts = 2 if config.decoder_unit == "lstm" else 1
    if config.bridge in ("context", "first-backward"):
        vector = c if config.bridge == "context" else last[-1][1][0]
        flat = np.split(np.tanh(affine(weights, "decoder.initial", vector)), depth * parts)
        return [(flat[i * parts], flat[i * parts + 1] if parts == 2 else NOTHING) for i in range(depth)]
    states: list[State] = []
    for layer, ways in enumerate(last[-depth:]):
        if config.bridge == "last":
            used = ways if config.directions == "halves" else ways[:1]
            states.append((np.concatenate([h for h, _ in used]), np.concatenate([cell for _, cell in used])))
            continue
        both = [np.concatenate([way[part] for way in ways]) for part in range(parts)]
        made = [affine(weights, f"decoder.initial.{layer * parts + part}", vector) for part, vector in enumerate(both)]
        states.append((made[0], made[1] if parts == 2 else NOTHING))
    assert all(len(h) == n for h, _ in states)
    return states


def look(weights: Weights, config: ModelConfig, query: Vector, annotations: list[Vector]) -> tuple[Vector, Vector]:
    """Return the attention context and its weights."""
    scores: list[float] = []
    for h in annotations:
        if config.attention == "dot":
            scores.append(float(query @ h))
        elif config.attention in ("general", "scaled"):
            score = float(query @ affine(weights, "decoder.attention.key", h))
            scores.append(score / np.sqrt(len(query)) if config.attention == "scaled" else score)
        else:
            W = np.hstack((weights["decoder.attention.query.weight"], weights["decoder.attention.key.weight"]))
            scores.append(float(weights["decoder.attention.score.weight"][0] @ np.tanh(W @ np.concatenate((query, h)))))
    a = np.exp(np.array(scores) - max(scores))
    a /= a.sum()
    return np.sum([weight * h for weight, h in zip(a, annotations, strict=True)], axis=0), a


def read_out(weights: Weights, config: ModelConfig, e: Vector, h: Vector, c: Vector) -> Vector:
    """Return the input of the softmax, or of the factor before it."""
    name = "decoder.readout"
    if config.readout == "maxout":
        pre = affine(weights, f"{name}.state", h)
        pre = pre + (weights[f"{name}.word.weight"] @ e if len(e) else 0)
        pre = pre + (weights[f"{name}.context.weight"] @ c if len(c) else 0)
        return np.array([max(pre[2 * i], pre[2 * i + 1]) for i in range(len(pre) // 2)])
    if config.readout == "attentional":
        W = np.hstack((weights[f"{name}.state.weight"], weights[f"{name}.context.weight"]))
        h_tilde: Vector = np.tanh(W @ np.concatenate((h, c)) + bias(weights, f"{name}.state.bias", len(W)))
        return h_tilde
    return np.concatenate({"state": (h,), "word-state-context": (e, h, c)}[config.readout])


def next_log_probs(
    weights: Weights, config: ModelConfig, source: list[int], words: list[int], end: int, place: Place | None = None
) -> tuple[list[Vector], list[Vector]]:
    """Return ln p of every word after each prefix of the given words, and the attention weights."""
    c, last, annotations = encode(weights, config, source, end, place)
    if config.decoder == "transformer":
        states_of_words = transformer_reference.read(weights, "decoder", config, [end, *words], annotations)
        return [to_log_probs(weights, config, s) for s in states_of_words], []
    states = cross(weights, config, c, last)
    side = "encoder" if config.share_units else "decoder"
    has_attention = config.attention != "none"
    fixed = c if config.feed_context else NOTHING
    h_tilde = np.zeros(config.hidden)
    found: list[Vector] = []
    looked: list[Vector] = []
    for word in [None, *words]:
        read_size = config.embedding if config.feed_word or config.share_units else 0
        e = np.zeros(read_size)
        if word is not None and config.feed_word:
            e = embed(weights, "decoder", word)
        context = fixed
        if has_attention and config.attention_order == "before":
            context, a = look(weights, config, states[-1][0], annotations)
            looked.append(a)
        x = e
        for layer, state in enumerate(states):
            name = layer_name(side, layer)
            given = context if layer == 0 and len(context) else None
            if layer == 0 and config.input_feeding:
                # [e; h~] is multiplied by one matrix: the rows of `feed` belong to the unit's inputs.
                weights_fed = {**weights}
                weights_fed[f"{name}.input.weight"] = np.hstack(
                    (weights[f"{name}.input.weight"], weights["decoder.feed.weight"])
                )
                states[layer] = unit_step(
                    weights_fed, name, config.decoder_unit, np.concatenate((x, h_tilde)), state, given
                )
            else:
                states[layer] = unit_step(weights, name, config.decoder_unit, x, state, given)
            x = states[layer][0]
        if has_attention and config.attention_order == "after":
            context, a = look(weights, config, x, annotations)
            looked.append(a)
        s = read_out(weights, config, e if config.feed_word else NOTHING, x, context)
        h_tilde = s if config.input_feeding else h_tilde
        if "decoder.readout.factor.weight" in weights:
            s = weights["decoder.readout.factor.weight"] @ s
        found.append(to_log_probs(weights, config, s))
    return found, looked


def to_log_probs(weights: Weights, config: ModelConfig, s: Vector) -> Vector:
    """Return ln p of every word from the input of the softmax."""
    matrix = weights["encoder.embedding.words.weight" if config.tied_embeddings else "softmax.words.weight"]
    logits: Vector = matrix @ s + weights["softmax.words.bias"]
    log_p: Vector = logits - np.logaddexp.reduce(logits)
    return log_p


def pair_log_prob(
    weights: Weights, config: ModelConfig, source: list[int], target: list[int], end: int, place: Place | None = None
) -> float:
    """Return ln p(target | source) with the end symbol; with a range, the source is the sentence around a phrase."""
    found, _ = next_log_probs(weights, config, source, target, end, place)
    return float(sum(log_p[word] for log_p, word in zip(found, [*target, end], strict=True)))


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
