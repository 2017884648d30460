"""Recurrent layers of ONNX: RNN, GRU and LSTM, in one or both directions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from lowtide.builder import Builder, Op
from lowtide.frontend.graphs.context import OpKernelContext, flag, integer, real, text
from lowtide.frontend.graphs.registry import op
from lowtide.frontend.graphs.shared import elementwise
from lowtide.frontend.graphs.shared.arrays import split
from lowtide.frontend.graphs.shared.broadcasting import scalar
from lowtide.frontend.graphs.shared.loops import part_at, repeat_steps, with_part
from lowtide.frontend.onnx.dynamic_quantization import dynamic_product
from lowtide.frontend.onnx.node_list import DOMAIN
from lowtide.frontend.onnx.panels import product_of_panels
from lowtide.records import dataclass

LSTM_BY_COLUMNS: Final = "lowtide.DynamicQuantizeLSTM"
"""The layer of com.microsoft with both kinds of weights by columns, [directions, gates * h, sizes],
and two more inputs: the sums of their columns less the zero points, [directions, gates * h]."""

Activation: TypeAlias = Callable[[Builder, Op], Op]

_ACTIVATIONS: Final[dict[str, Callable[..., Op]]] = {
    "relu": lambda b, x, _a, _b: elementwise.relu(b, x),
    "tanh": lambda b, x, _a, _b: b.tanh(x),
    "sigmoid": lambda b, x, _a, _b: b.logistic(x),
    "affine": lambda _, x, alpha, beta: x * alpha + beta,
    "leakyrelu": lambda b, x, alpha, _: elementwise.leaky_relu(b, x, alpha),
    "thresholdedrelu": lambda b, x, alpha, _: b.select(
        x.ge(alpha), x, elementwise.zeros_like(b, x)
    ),
    "scaledtanh": lambda b, x, alpha, beta: b.tanh(x * beta) * alpha,
    "hardsigmoid": elementwise.hard_sigmoid,
    "elu": lambda b, x, alpha, _: elementwise.elu(b, x, alpha),
    "softsign": lambda b, x, _a, _b: elementwise.softsign(b, x),
    "softplus": lambda b, x, _a, _b: elementwise.softplus(b, x),
}
_DEFAULTS: Final = {
    "affine": (1.0, 0.0),
    "leakyrelu": (0.01, 0.0),
    "thresholdedrelu": (1.0, 0.0),
    "scaledtanh": (1.0, 1.0),
    "hardsigmoid": (0.2, 0.5),
    "elu": (1.0, 0.0),
}
"""The numbers of activations that have some, by default."""


@dataclass(frozen=True, eq=False, slots=True)
class Weights:
    """The weights of one direction: of the step before [h, gates * h], biases, peepholes.

    With a `scale` and a `zero` point the first ones are quantized; `sums` are those of their
    columns less the zero points, where they are known.
    """

    recurrent: Op
    bias: Op | None
    peepholes: Op | None
    scale: Op | None = None
    zero: Op | None = None
    sums: Op | None = None


Cell: TypeAlias = Callable[
    [OpKernelContext, Builder, Op, list[Op], Weights, list[Activation]], list[Op]
]
"""Gives the states after a step, from what comes in, [n, gates * h], and the states before."""


def _rnn(
    _: OpKernelContext, b: Builder, x: Op, states: list[Op], w: Weights, f: list[Activation]
) -> list[Op]:
    return [f[0](b, x + _recurrent(b, states[0], w))]


def _recurrent(b: Builder, h: Op, w: Weights) -> Op:
    if w.scale is None:
        product = b.matmul(h, w.recurrent)
    else:
        product = dynamic_product(b, h, w.recurrent, w.scale, w.zero, w.sums)
    return product if w.bias is None else product + b.broadcast(w.bias, product.dimensions, [1])


def _gru(
    context: OpKernelContext, b: Builder, x: Op, states: list[Op], w: Weights, f: list[Activation]
) -> list[Op]:
    h = states[0]
    size = h.dimensions[1]
    xz, xr, xn = split(b, x, [size] * 3, 1)
    if context.attribute("linear_before_reset", flag, False):
        hz, hr, hn = split(b, _recurrent(b, h, w), [size] * 3, 1)
        z, r = f[0](b, xz + hz), f[0](b, xr + hr)
        n = f[1](b, xn + r * hn)
    else:
        parts = split(b, w.recurrent, [2 * size, size], 1)
        biases = [None, None] if w.bias is None else split(b, w.bias, [2 * size, size], 0)
        both = _recurrent(b, h, Weights(parts[0], biases[0], None))
        hz, hr = split(b, both, [size] * 2, 1)
        z, r = f[0](b, xz + hz), f[0](b, xr + hr)
        n = f[1](b, xn + _recurrent(b, r * h, Weights(parts[1], biases[1], None)))
    return [n - z * n + z * h]


def _lstm(
    context: OpKernelContext, b: Builder, x: Op, states: list[Op], w: Weights, f: list[Activation]
) -> list[Op]:
    h, c = states
    size = h.dimensions[1]
    i, o, forget, g = split(b, x + _recurrent(b, h, w), [size] * 4, 1)
    peeps = [None] * 3 if w.peepholes is None else split(b, w.peepholes, [size] * 3, 0)
    i = f[0](b, _peeped(b, i, peeps[0], c))
    if context.attribute("input_forget", flag, False):
        forget = b.subtract(1, i)
    else:
        forget = f[0](b, _peeped(b, forget, peeps[2], c))
    following = forget * c + i * f[1](b, g)
    o = f[0](b, _peeped(b, o, peeps[1], following))
    return [o * f[2](b, following), following]


def _peeped(b: Builder, gate: Op, peephole: Op | None, c: Op) -> Op:
    return gate if peephole is None else gate + b.broadcast(peephole, c.dimensions, [1]) * c


@dataclass(frozen=True, eq=False, slots=True)
class Layer:
    """What differs between the layers: gates, states, usual activations, and the cell."""

    gates: int
    states: int
    activations: tuple[str, ...]
    cell: Cell


_RNN_LAYER: Final = Layer(1, 1, ("tanh",), _rnn)
_GRU_LAYER: Final = Layer(3, 1, ("sigmoid", "tanh"), _gru)
_LSTM_LAYER: Final = Layer(4, 2, ("sigmoid", "tanh", "tanh"), _lstm)
_LAYERS: Final = {
    "RNN": _RNN_LAYER,
    "GRU": _GRU_LAYER,
    "LSTM": _LSTM_LAYER,
    "com.microsoft.DynamicQuantizeLSTM": _LSTM_LAYER,
    LSTM_BY_COLUMNS: _LSTM_LAYER,
}


@dataclass(frozen=True, slots=True)
class ByDirection:
    """The operator of a layer with weights by direction, and how many inputs stand before others.

    Inputs 1 and 2 are then the weights of the first direction, without a dimension of directions;
    those of a second one come behind all `inputs`. Weights of what comes in may lie in panels.
    """

    op: str
    inputs: int


BY_DIRECTION: Final = {
    "RNN": ByDirection("lowtide.RNN", 8),
    "GRU": ByDirection("lowtide.GRU", 8),
    "LSTM": ByDirection("lowtide.LSTM", 8),
    LSTM_BY_COLUMNS: ByDirection("lowtide.DynamicQuantizeLSTM by direction", 14),
}
"""Recurrent layers whose weights sessions may keep by direction."""

_FORMS: Final = {form.op: op for op, form in BY_DIRECTION.items()}
_QUANTIZED: Final = frozenset({"com.microsoft.DynamicQuantizeLSTM", LSTM_BY_COLUMNS})
_INCOMING, _RECURRENT = (8, 9, 12), (10, 11, 13)
"""The inputs that are scales, zero points and sums of columns of weights that are quantized."""
_DIRECTIONS: Final = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}


@op(*[x.op for x in BY_DIRECTION.values()], domain=DOMAIN, inputs=(8, 16))
@op(LSTM_BY_COLUMNS, domain=DOMAIN, inputs=14)
@op("com.microsoft.DynamicQuantizeLSTM", domain=DOMAIN, inputs=12)
@op("RNN", "GRU", "LSTM", domain=DOMAIN, inputs=(3, 8))
def recurrent(context: OpKernelContext) -> None:
    """Give the hidden states of all steps, and the last states."""
    b, layer = context.builder, _LAYERS[_kind(context)]
    x = context.input(0)
    batch_first = context.attribute("layout", flag, False)
    if batch_first:
        x = b.transpose(x, [1, 0, 2])
    directions = context.choice("direction", _DIRECTIONS, "forward")
    found = [_direction(context, layer, x, d, backward) for d, backward in enumerate(directions)]
    stacked = [
        _stack(b, [run[i] for run in found], 1 if i == 0 else 0) for i in range(1 + layer.states)
    ]
    if batch_first:
        stacked = [
            b.transpose(stacked[0], [2, 0, 1, 3]),
            *[b.transpose(y, [1, 0, 2]) for y in stacked[1:]],
        ]
    context.set_outputs(stacked)


def _kind(context: OpKernelContext) -> str:
    """The operator, as it is where weights lie for all directions together."""
    return _FORMS.get(context.node.op, context.node.op)


def _weights(context: OpKernelContext, number: int) -> tuple[Op, Op]:
    """The weights of a direction: of what comes in, and of the state."""
    if context.node.op not in _FORMS:
        w, r = [_entry(context.builder, context.input(i), number) for i in (1, 2)]
        assert w is not None and r is not None
        return w, r
    first = BY_DIRECTION[_kind(context)].inputs + 2 * (number - 1) if number else 1
    return context.input(first), context.input(first + 1)


def _stack(b: Builder, values: Sequence[Op], axis: int) -> Op:
    sizes = [*values[0].dimensions[:axis], 1, *values[0].dimensions[axis:]]
    wide = [b.reshape(x, sizes) for x in values]
    return wide[0] if len(wide) == 1 else b.concatenate(wide, axis)


def _entry(b: Builder, x: Op | None, number: int) -> Op | None:
    """x[number], None of nothing."""
    if x is None:
        return None
    part = b.slice(x, [number, *[0] * (x.rank - 1)], [number + 1, *x.dimensions[1:]], [1] * x.rank)
    return b.reshape(part, x.dimensions[1:])


def _direction(
    context: OpKernelContext, layer: Layer, x: Op, number: int, backward: bool
) -> list[Op]:
    b = context.builder
    length, batch, _ = x.dimensions
    w, r = _weights(context, number)
    flat = b.reshape(x, [length * batch, x.dimensions[2]])
    by_columns = _kind(context) == LSTM_BY_COLUMNS
    scales: list[Op] = []
    if _kind(context) in _QUANTIZED:
        given, scales = [_quantization(context, number, x) for x in (_INCOMING, _RECURRENT)]
        incoming = dynamic_product(b, flat, b.transpose(w, [1, 0]) if by_columns else w, *given)
        hidden = r.dimensions[1 if by_columns else 0]
    else:
        if w.rank > r.rank:
            incoming = product_of_panels(b, flat, w, r.dimensions[0])
        else:
            incoming = b.matmul(flat, b.transpose(w, [1, 0]))
        r = b.transpose(r, [1, 0])
        hidden = context.attribute("hidden_size", integer, r.dimensions[0])
    biases = _entry(b, context.optional(3), number)
    bias = None
    if biases is not None:
        own, bias = split(b, biases, [layer.gates * hidden] * 2, 0)
        incoming = incoming + b.broadcast(own, incoming.dimensions, [1])
    incoming = b.reshape(incoming, [length, batch, layer.gates * hidden])
    peepholes = _entry(b, context.optional(7), number) if layer.states == 2 else None
    weights = [r, *[y for y in (bias, peepholes) if y is not None], *scales]
    states = [_initial(context, 5 + i, number, x, hidden) for i in range(layer.states)]
    results = b.broadcast(scalar(b, 0, x), [length, batch, hidden], [])
    lengths = context.optional(4)
    carried = [results, *states, incoming, *weights, *([] if lengths is None else [lengths])]
    functions = _activations(context, layer, number)

    def step(c: Builder, count: Op, state: list[Op]) -> list[Op]:
        at = c.subtract(c.constant(length - 1, count.element_type), count) if backward else count
        before, rest = state[1 : 1 + layer.states], state[1 + layer.states :]
        left = rest[2:]
        given = Weights(
            c.transpose(rest[1], [1, 0]) if by_columns else rest[1],
            left.pop(0) if bias is not None else None,
            left.pop(0) if peepholes is not None else None,
            *[left.pop(0) for _ in scales],
        )
        after = layer.cell(context, c, part_at(c, rest[0], at), before, given, functions)
        shown = after[0]
        if lengths is not None:
            going = _going(c, at, left[0], shown)
            shown = c.select(going, shown, elementwise.zeros_like(c, shown))
            after = [c.select(going, new, old) for new, old in zip(after, before, strict=True)]
        return [with_part(c, state[0], shown, at), *after, *rest]

    return repeat_steps(b, length, carried, step)[: 1 + layer.states]


def _quantization(context: OpKernelContext, number: int, places: Sequence[int]) -> list[Op]:
    """The entries of a direction in those of the inputs that there are."""
    count = context.input_count
    if _kind(context) in BY_DIRECTION:
        count = BY_DIRECTION[_kind(context)].inputs
    given = [context.input(i) for i in places if i < count]
    found = [_entry(context.builder, x, number) for x in given]
    return [x for x in found if x is not None]


def _going(b: Builder, at: Op, lengths: Op, like: Op) -> Op:
    """Whether each entry of the batch has a step of number `at`."""
    wide = b.broadcast(b.convert(lengths, at.element_type), like.dimensions, [0])
    return b.broadcast(at, like.dimensions, []).lt(wide)


def _initial(context: OpKernelContext, place: int, number: int, x: Op, hidden: int) -> Op:
    b = context.builder
    given = context.optional(place)
    if given is None:
        return b.broadcast(scalar(b, 0, x), [x.dimensions[1], hidden], [])
    if context.attribute("layout", flag, False):
        given = b.transpose(given, [1, 0, 2])
    found = _entry(b, given, number)
    assert found is not None
    return found


def _activations(context: OpKernelContext, layer: Layer, number: int) -> list[Activation]:
    count = len(layer.activations)
    names = [text(x) for x in context.attribute("activations", list[Any], [])] or [
        *layer.activations
    ] * 2
    alphas, betas = [
        context.attribute(x, list[Any], [])[::-1] for x in ("activation_alpha", "activation_beta")
    ]
    clip = context.attribute("clip", real, 0.0)
    found: list[Activation] = []
    for name in [x.lower() for x in names]:
        if name not in _ACTIVATIONS:
            raise context.error(f"activation {name!r} is none of {', '.join(_ACTIVATIONS)}")
        usual = _DEFAULTS.get(name)
        alpha = float(alphas.pop()) if usual and alphas else (usual or (0.0, 0.0))[0]
        has_beta = name in ("affine", "scaledtanh", "hardsigmoid")
        beta = float(betas.pop()) if has_beta and betas else (usual or (0.0, 0.0))[1]
        is_of_cell = len(found) % count == 2  # ONNX Runtime clips what gates take alone.
        limit = 0.0 if is_of_cell else clip
        found.append(_activation(_ACTIVATIONS[name], alpha, beta, limit))
    return found[number * count : (number + 1) * count]


def _activation(function: Callable[..., Op], alpha: float, beta: float, clip: float) -> Activation:
    def run(b: Builder, x: Op) -> Op:
        if clip:
            x = b.clamp(scalar(b, -clip, x), x, scalar(b, clip, x))
        return function(b, x, alpha, beta)

    return run
