"""Large modules of repeated layers: training steps of a transformer, as frameworks emit them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from tests.generated.gradients import Tape

from lowtide.builder import Builder
from lowtide.builder.values import Op
from lowtide.ir import ElementType, Module, array_shape
from lowtide.ir.attributes import DotDimensions

BATCH, LENGTH, WIDTH, HEADS, INNER = 4, 64, 128, 4, 512
"""Sequences, positions, features of a position, heads, features inside the second half."""

_ROWS: Final = (BATCH, LENGTH, WIDTH)
_F32: Final = ElementType.F32
_KEPT: Final = 0.9
"""The share of elements that dropout keeps."""

_WEIGHTS: Final[tuple[tuple[int, ...], ...]] = (
    *[(WIDTH,)] * 2,
    *[(WIDTH, WIDTH)] * 4,
    *[(WIDTH,)] * 2,
    *[(WIDTH, INNER), (INNER,)],
    *[(INNER, WIDTH), (WIDTH,)],
)
"""The sizes of the arrays of a layer."""


def layered_module(count: int, *, calls: bool = False) -> Module:
    """Return a training step of as many layers as make about `count` instructions, at least one.

    A layer is attention and two products with layer norms, dropout and residuals around them; the
    second half of the module mirrors the first with gradients and updates the weights, which are
    donated. With `calls` the layers are computations of their own, of which those that update
    compute forward again; else all is in the entry.
    """
    one, two = [_step(layers, calls).instruction_count for layers in (1, 2)]
    return _step(max(1, 1 + round((count - one) / (two - one))), calls)


def _step(layers: int, calls: bool) -> Module:
    build = Builder("step")
    first = build.parameter(0, array_shape(_F32, _ROWS), "x")
    each = len(_WEIGHTS)
    weights = [
        build.parameter(1 + i, array_shape(_F32, _WEIGHTS[i % each])) for i in range(layers * each)
    ]
    groups = [weights[i : i + each] for i in range(0, len(weights), each)]
    updated = (_with_calls if calls else _unrolled)(build, first, groups)
    for i in range(len(weights)):
        build.alias((i,), 1 + i)
    return build.build(build.tuple(updated))


# -- how layers are put together ---------------------------------------------------------------


def _unrolled(build: Builder, x: Op, groups: Sequence[Sequence[Op]]) -> list[Op]:
    tape = Tape(build)
    for number, weights in enumerate(groups):
        x = _layer(tape, x, weights, number)
    gradients = tape.gradients(x, x)
    return [_updated(tape, w, gradients) for group in groups for w in group]


def _with_calls(build: Builder, x: Op, groups: Sequence[Sequence[Op]]) -> list[Op]:
    inputs = [x]
    for number, weights in enumerate(groups):
        operands = [inputs[-1], *weights]
        body = partial(_forward, number)
        inputs.append(_called(build, "layer", body, operands))
    gradient = inputs.pop()
    updated: list[list[Op]] = []
    for number, weights in reversed(list(enumerate(groups))):
        operands = [gradient, inputs[number], *weights]
        gradient, *new = _called(build, "update", partial(_backward, number), operands)
        updated.append(new)
    return [x for group in reversed(updated) for x in group]


def _called(build: Builder, name: str, body: partial[Op], operands: Sequence[Op]) -> Op:
    child = build.sub_builder(name)
    parameters = [child.parameter(i, x.shape) for i, x in enumerate(operands)]
    return build.call(operands, child.build_computation(body(child, *parameters)))


def _forward(number: int, build: Builder, x: Op, *weights: Op) -> Op:
    return _layer(Tape(build), x, weights, number)


def _backward(number: int, build: Builder, gradient: Op, x: Op, *weights: Op) -> Op:
    tape = Tape(build)
    gradients = tape.gradients(_layer(tape, x, weights, number), gradient)
    updated = [_updated(tape, w, gradients) for w in weights]
    return build.tuple([gradients[x.instruction.name], *updated])


def _updated(tape: Tape, weight: Op, gradients: dict[str, Op]) -> Op:
    gradient = gradients[weight.instruction.name]
    return weight - gradient * tape.filled(1e-3, gradient)


# -- one layer ---------------------------------------------------------------------------------


def _layer(tape: Tape, x: Op, weights: Sequence[Op], number: int) -> Op:
    gain, bias, query, key, value, out, gain_2, bias_2, up, up_bias, down, down_bias = weights
    attended = _attention(tape, _normalized(tape, x, gain, bias), (query, key, value), number)
    x = tape.add(x, _dropped(tape, _product(tape, attended, out), 3 * number))
    inner = _product(tape, _normalized(tape, x, gain_2, bias_2), up)
    inner = _gelu(tape, tape.add(inner, _along_rows(tape, up_bias, inner)))
    result = _product(tape, inner, down)
    result = tape.add(result, _along_rows(tape, down_bias, result))
    return tape.add(x, _dropped(tape, result, 3 * number + 1))


def _along_rows(tape: Tape, vector: Op, like: Op) -> Op:
    return tape.spread(vector, like.dimensions, [like.rank - 1])


def _product(tape: Tape, x: Op, weight: Op) -> Op:
    """Return the rows times a matrix, in bf16 as mixed precision has it."""
    narrow = [tape.convert(y, ElementType.BF16) for y in (x, weight)]
    return tape.convert(tape.dot(narrow[0], narrow[1], DotDimensions((x.rank - 1,), (0,))), _F32)


def _mean(tape: Tape, x: Op) -> Op:
    rows = list(range(x.rank - 1))
    total = tape.scale(tape.total(x, x.rank - 1), 1 / x.dimensions[-1])
    return tape.spread(total, x.dimensions, rows)


def _normalized(tape: Tape, x: Op, gain: Op, bias: Op) -> Op:
    centred = tape.subtract(x, _mean(tape, x))
    variance = _mean(tape, tape.multiply(centred, centred))
    stable = tape.add(variance, tape.filled(1e-6, x))
    unit = tape.multiply(centred, tape.rsqrt(stable))
    scaled = tape.multiply(unit, _along_rows(tape, gain, x))
    return tape.add(scaled, _along_rows(tape, bias, x))


def _gelu(tape: Tape, x: Op) -> Op:
    cube = tape.multiply(tape.multiply(x, x), x)
    inside = tape.scale(tape.add(x, tape.scale(cube, 0.044715)), 0.7978845608)
    return tape.multiply(tape.scale(x, 0.5), tape.add(tape.tanh(inside), tape.filled(1, x)))


def _attention(tape: Tape, x: Op, weights: Sequence[Op], number: int) -> Op:
    heads = (BATCH, LENGTH, HEADS, WIDTH // HEADS)
    query, key, value = [
        tape.transpose(tape.reshape(_product(tape, x, w), heads), (0, 2, 1, 3)) for w in weights
    ]
    scores = tape.dot(query, key, DotDimensions((3,), (3,), (0, 1), (0, 1)))
    scores = tape.where(_causal(tape, scores), tape.scale(scores, heads[-1] ** -0.5), -1e9)
    shares = _dropped(tape, _softmax(tape, scores), 3 * number + 2)
    mixed = tape.dot(shares, value, DotDimensions((3,), (2,), (0, 1), (0, 1)))
    return tape.reshape(tape.transpose(mixed, (0, 2, 1, 3)), _ROWS)


def _softmax(tape: Tape, x: Op) -> Op:
    rows = list(range(x.rank - 1))
    greatest = tape.build.broadcast(tape.greatest(x, x.rank - 1), x.dimensions, rows)
    powers = tape.exponential(tape.subtract(x, greatest))
    return tape.divide(powers, tape.spread(tape.total(powers, x.rank - 1), x.dimensions, rows))


def _causal(tape: Tape, like: Op) -> Op:
    square = array_shape(ElementType.S32, like.dimensions[-2:])
    mask = tape.build.compare(tape.build.iota(square, 0), tape.build.iota(square, 1), "GE")
    return tape.build.broadcast(mask, like.dimensions, [like.rank - 2, like.rank - 1])


def _dropped(tape: Tape, x: Op, seed: int) -> Op:
    """Return x with some elements zero, chosen by scrambling their numbers, the rest larger."""
    build = tape.build
    shape = array_shape(ElementType.U32, (x.shape.element_count,))
    bits = build.iota(shape)
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        bits = bits + build.broadcast(build.constant(seed, ElementType.U32), shape.dimensions, ())
        amount = build.broadcast(build.constant(shift, ElementType.U32), shape.dimensions, ())
        bits = build.xor(bits, build.shift_right_logical(bits, amount))
        by = build.constant(factor, ElementType.U32)
        bits = bits * build.broadcast(by, shape.dimensions, ())
    limit = build.constant(int(_KEPT * 0xFFFFFFFF), ElementType.U32)
    kept = build.compare(bits, build.broadcast(limit, shape.dimensions, ()), "LT")
    return tape.where(build.reshape(kept, x.dimensions), tape.scale(x, 1 / _KEPT), 0)
