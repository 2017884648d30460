"""Random numbers of TensorFlow, from Philox-4x32-10: the numbers of its kernels for processors.

A stateful op draws from the stream of its seeds. What it has drawn before is counted: for a
SavedModel the count is a variable, for a frozen graph it is 0. An op without seeds takes its name
for one. Source: Salmon et al. 2011, Parallel random numbers: as easy as 1, 2, 3.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from typing import Final

import numpy as np

from lowtide.builder import Builder, Op
from lowtide.evaluator.random import PHILOX_KEY_STEPS, PHILOX_MULTIPLIERS, PHILOX_ROUNDS
from lowtide.frontend.graphs.context import OpKernelContext, integer
from lowtide.frontend.graphs.registry import op
from lowtide.frontend.graphs.shared.reductions import cumulative_sum, reduce
from lowtide.frontend.tensorflow.graph_def import DOMAIN
from lowtide.ir import array_shape
from lowtide.ir.element_type import ElementType

_E = ElementType
_MANTISSAS: Final = {_E.F16: (_E.U16, 10), _E.BF16: (_E.U16, 7), _E.F32: (_E.U32, 23)}
"""Words of the width of a type, and how many bits its mantissa has."""

_SEED_KEY: Final = 0x02461E29_3EC8F720
"""The key by which seeds are mixed."""

_MASK: Final = 0xFFFFFFFF

_RESERVED: Final = 256
"""By how many counters a stateful op goes on for each number."""

_PHILOX: Final = (1, 3)
"""The numbers of Philox, and of the choice that is Philox on processors, among algorithms."""

_TRIES: Final = 32
"""Numbers of which the first four within two deviations are taken: fewer are below 1e-30."""

_OWN_COUNTERS: Final = 64
"""How many counters each truncated number has for itself."""

Draw = Callable[[OpKernelContext, Op, Op, tuple[int, ...]], Op]
"""Gives numbers of some sizes for a key, u64[1], and a counter, u64[2] with the low half first."""


def _words(b: Builder, key: Op, counter: Op, count: int, word: ElementType = _E.U32) -> Op:
    """Return at least `count` words, whole blocks of 128 bits of them."""
    each = 128 // word.bits
    state = b.concatenate([key, counter], 0)
    shape = array_shape(word, (-(-count // each) * each,))
    return b.get_tuple_element(b.rng_bit_generator(state, shape, "rng_philox"), 1)


def _group_words(b: Builder, key: Op, counter: Op, groups: int, blocks: int, apart: int) -> Op:
    """Return the first words of streams that are `apart` counters from one another.

    u32[groups * blocks * 4].
    The blocks are reckoned here one by one: the generator's own run on without a gap.
    """
    steps = np.arange(groups)[:, None] * apart + np.arange(blocks)
    step = b.constant(steps.reshape(-1).astype(np.uint64))
    wide = [b.broadcast(b.reshape(x, []), step.dimensions, []) for x in _two(b, counter)]
    low = wide[0] + step
    high = wide[1] + b.convert(low.lt(step), _E.U64)
    x = [y for z in (low, high) for y in (z & _MASK, z >> 32)]
    keys = [b.broadcast(b.reshape(y, []), step.dimensions, []) for y in (key & _MASK, key >> 32)]
    for _ in range(PHILOX_ROUNDS):
        p, q = x[0] * PHILOX_MULTIPLIERS[0], x[2] * PHILOX_MULTIPLIERS[1]
        x = [(q >> 32) ^ x[1] ^ keys[0], q & _MASK, (p >> 32) ^ x[3] ^ keys[1], p & _MASK]
        keys = [(y + z) & _MASK for y, z in zip(keys, PHILOX_KEY_STEPS, strict=True)]
    columns = [b.reshape(b.convert(y, _E.U32), [*step.dimensions, 1]) for y in x]
    return b.reshape(b.concatenate(columns, 1), [4 * len(steps) * blocks])


def _two(b: Builder, pair: Op) -> list[Op]:
    return [b.slice(pair, [i], [i + 1]) for i in range(2)]


def _shaped(b: Builder, x: Op, sizes: tuple[int, ...]) -> Op:
    return b.reshape(b.slice(x, [0], [math.prod(sizes)]), sizes)


def _fractions(b: Builder, words: Op, element_type: ElementType) -> Op:
    """Return numbers in [0, 1) whose mantissas are the low bits of words."""
    unsigned, bits = _MANTISSAS[element_type]
    low = b.convert(words & ((1 << bits) - 1), unsigned)
    one = b.bitcast_convert(b.constant(1.0, element_type), unsigned)
    whole = b.broadcast(one, low.dimensions, []) | low
    return b.bitcast_convert(whole, element_type) - 1.0


def _wide_fractions(b: Builder, words: Op) -> Op:
    """Return f64 in [0, 1) of pairs of words, [count, 2] u32, the upper one first."""
    count = words.dimensions[0]
    columns = [b.reshape(b.slice(words, [0, i], [count, i + 1]), [count]) for i in range(2)]
    parts = [b.convert(x, _E.U64) for x in columns]
    mantissa = ((parts[0] & 0xFFFFF) << 32) | parts[1]
    one = b.bitcast_convert(b.constant(1.0, _E.F64), _E.U64)
    whole = b.broadcast(one, mantissa.dimensions, []) | mantissa
    return b.bitcast_convert(whole, _E.F64) - 1.0


def _dtype(context: OpKernelContext) -> ElementType:
    found = context.element_type("dtype", _E.F32)
    if found not in _MANTISSAS and found is not _E.F64:
        raise context.error(f"random numbers of type {found.value}")
    return found


def _uniform(context: OpKernelContext, key: Op, counter: Op, sizes: tuple[int, ...]) -> Op:
    b, count, element_type = context.builder, math.prod(sizes), _dtype(context)
    if element_type is _E.F64:
        words = _words(b, key, counter, 2 * count)
        found = _wide_fractions(b, b.reshape(words, [words.dimensions[0] // 2, 2]))
    else:
        found = _fractions(b, _words(b, key, counter, count), element_type)
    return _shaped(b, found, sizes)


def _pairs(b: Builder, first: Op, second: Op) -> Op:
    """Return two normal numbers for each two in [0, 1), in turn (Box and Muller 1958)."""
    least = b.constant(1e-7, first.element_type)
    radius = b.sqrt(b.log(b.maximum(first, b.broadcast(least, first.dimensions, []))) * -2.0)
    angle = second * (2 * math.pi)
    both = [b.reshape(f(angle) * radius, [*first.dimensions, 1]) for f in (b.sine, b.cosine)]
    found = b.concatenate(both, first.rank)
    return b.reshape(found, [*first.dimensions[:-1], 2 * first.dimensions[-1]])


def _columns(b: Builder, x: Op, step: int) -> list[Op]:
    """Return each `step`-th element of a vector, from each place below the step."""
    rows = b.reshape(x, [x.dimensions[0] // step, step])
    count = rows.dimensions[0]
    return [b.reshape(b.slice(rows, [0, i], [count, i + 1]), [count]) for i in range(step)]


def _normal(context: OpKernelContext, key: Op, counter: Op, sizes: tuple[int, ...]) -> Op:
    b, count, element_type = context.builder, math.prod(sizes), _dtype(context)
    if element_type is _E.F64:
        words = _words(b, key, counter, 2 * count)
        fractions = _wide_fractions(b, b.reshape(words, [words.dimensions[0] // 2, 2]))
    else:
        fractions = _fractions(b, _words(b, key, counter, count), _E.F32)
    found = _pairs(b, *_columns(b, fractions, 2))
    return _shaped(b, b.convert(found, element_type), sizes)


def _truncated(context: OpKernelContext, key: Op, counter: Op, sizes: tuple[int, ...]) -> Op:
    """Numbers of each group, two f64 or four, are the first within two deviations of its stream."""
    b, count, element_type = context.builder, math.prod(sizes), _dtype(context)
    is_wide = element_type is _E.F64
    each = 2 if is_wide else 4
    groups = -(-count // each)
    flat = _group_words(b, key, counter, groups, _TRIES // each, each * _OWN_COUNTERS)
    if is_wide:
        fractions = _wide_fractions(b, b.reshape(flat, [flat.dimensions[0] // 2, 2]))
    else:
        fractions = _fractions(b, flat, _E.F32)
    normal = b.reshape(_pairs(b, *_columns(b, fractions, 2)), [groups, _TRIES])
    is_inside = b.abs(normal).lt(2.0)
    place = cumulative_sum(b, b.convert(is_inside, _E.S32), 1, exclusive=True, reverse=False)
    chosen = []
    for number in range(each):
        wanted = is_inside & place.eq(number)
        zeros = b.broadcast(b.constant(0.0, normal.element_type), normal.dimensions, [])
        chosen.append(reduce(b, "sum", b.select(wanted, normal, zeros), [1], keep=True))
    found = b.reshape(b.concatenate(chosen, 1), [groups * each])
    return _shaped(b, b.convert(found, element_type), sizes)


def _whole(context: OpKernelContext, key: Op, counter: Op, sizes: tuple[int, ...]) -> Op:
    """Whole numbers from one bound to below another: the last two inputs."""
    b = context.builder
    low, high = [context.input(context.input_count - i) for i in (2, 1)]
    unsigned = _E.U64 if low.element_type.bits == 64 else _E.U32
    words = _words(b, key, counter, math.prod(sizes), unsigned)
    span = b.convert(high, unsigned) - b.convert(low, unsigned)
    rest = b.remainder(words, b.broadcast(b.reshape(span, []), words.dimensions, []))
    first = b.broadcast(b.reshape(low, []), words.dimensions, [])
    return _shaped(b, first + b.convert(rest, low.element_type), sizes)


def _any(context: OpKernelContext, key: Op, counter: Op, sizes: tuple[int, ...]) -> Op:
    """Whole numbers of all bits."""
    b, element_type = context.builder, context.element_type("dtype", _E.S64)
    unsigned = _E.U64 if element_type.bits == 64 else _E.U32
    words = _words(b, key, counter, math.prod(sizes), unsigned)
    return _shaped(b, b.bitcast_convert(words, element_type), sizes)


_STATELESS: Final[dict[str, Draw]] = {
    "StatelessRandomNormal": _normal,
    "StatelessRandomUniform": _uniform,
    "StatelessRandomUniformFullInt": _any,
    "StatelessRandomUniformInt": _whole,
    "StatelessTruncatedNormal": _truncated,
}
_STATEFUL: Final[dict[str, Draw]] = {
    "RandomStandardNormal": _normal,
    "RandomUniform": _uniform,
    "RandomUniformInt": _whole,
    "TruncatedNormal": _truncated,
}


def _mixed(b: Builder, seed: Op) -> tuple[Op, Op]:
    """Return the key and the counter that two seeds stand for."""
    key = b.constant(np.array([_SEED_KEY], np.uint64))
    state = b.convert(b.convert(seed, _E.S64), _E.U64)
    words = _words(b, key, state, 2, _E.U64)
    zero = b.constant(np.zeros(1, np.uint64))
    return b.slice(words, [0], [1]), b.concatenate([zero, b.slice(words, [1], [2])], 0)


@op("StatelessRandomGetKeyCounter", "StatelessRandomGetKeyCounterAlg", domain=DOMAIN, inputs=1)
def key_and_counter(context: OpKernelContext) -> None:
    """Give the key and the counter of a seed, and which algorithm takes them."""
    for number, value in enumerate(_mixed(context.builder, context.input(0))):
        context.set_output(number, value)
    if context.node.op.endswith("Alg"):
        context.set_output(2, np.array(_PHILOX[0], np.int32))


@op("StatelessRandomGetAlg", domain=DOMAIN, inputs=0)
def algorithm(context: OpKernelContext) -> None:
    """Give the number of Philox."""
    context.set_output(0, np.array(_PHILOX[0], np.int32))


@op(*_STATELESS, domain=DOMAIN, inputs=(2, 4))
def stateless(context: OpKernelContext) -> None:
    """Give numbers for the sizes and the seeds in the first two inputs."""
    key, counter = _mixed(context.builder, context.input(1))
    draw = _STATELESS[context.node.op]
    context.set_output(0, draw(context, key, counter, tuple(context.ints(0))))


@op(*[f"{x}V2" for x in _STATELESS], domain=DOMAIN, inputs=(4, 6))
def stateless_v2(context: OpKernelContext) -> None:
    """Give numbers for sizes, a key, a counter and an algorithm."""
    chosen = context.one_int(3)
    if chosen not in _PHILOX:
        raise context.error(f"algorithm {chosen} is not Philox, the only one on processors")
    key, counter = _unsigned(context, 1, 1), _unsigned(context, 2, 2)
    draw = _STATELESS[context.node.op.removesuffix("V2")]
    context.set_output(0, draw(context, key, counter, tuple(context.ints(0))))


def _unsigned(context: OpKernelContext, number: int, size: int) -> Op:
    """Return an input as u64 of some size."""
    return context.builder.reshape(context.builder.convert(context.input(number), _E.U64), [size])


def counted(name: str) -> str:
    """Return the op that takes how many counters were used behind what another one takes.

    It gives the numbers, and how many counters were used then.
    """
    return f"{name} of a count"


@op(*_STATEFUL, domain=DOMAIN, inputs=(1, 3))
def first_call(context: OpKernelContext) -> None:
    """Give the numbers of the first call."""
    context.set_output(0, _drawn(context, context.node.op, context.builder.constant(0, _E.U64), 0))


@op(*map(counted, _STATEFUL), domain=DOMAIN, inputs=(2, 4))
def each_call(context: OpKernelContext) -> None:
    """Give the numbers of a call, and how many counters were used then."""
    names = {counted(x): x for x in _STATEFUL}
    used = context.input(0)
    found = _drawn(context, names[context.node.op], used, 1)
    context.set_output(0, found)
    context.set_output(1, used + math.prod(found.dimensions) * _RESERVED)


def _drawn(context: OpKernelContext, name: str, used: Op, first: int) -> Op:
    """The numbers of a stateful op whose sizes are input `first`."""
    b = context.builder
    seeds = [context.attribute(x, integer, 0) % 2**64 for x in ("seed", "seed2")]
    if not any(seeds):
        seeds[0] = zlib.crc32(context.node.name.encode()) | 1 << 32
    key = b.constant(np.array(seeds[:1], np.uint64))
    high = b.constant(np.array(seeds[1:], np.uint64))
    counter = b.concatenate([b.reshape(used, [1]), high], 0)
    return _STATEFUL[name](context, key, counter, tuple(context.ints(first)))


@op("RngReadAndSkip", domain=DOMAIN, inputs=3)
def read_and_skip(context: OpKernelContext) -> None:
    """Give counter and key of a generator as they were, and as they are `delta` numbers later."""
    b, held = context.builder, context.input(0)
    chosen = context.one_int(1)
    if chosen not in _PHILOX:
        raise context.error(f"algorithm {chosen} is not Philox, the only one on processors")
    parts = [b.slice(b.convert(held, _E.U64), [i], [i + 1]) for i in range(3)]
    more = b.reshape(b.convert(context.input(2), _E.U64), [1]) * _RESERVED
    low = parts[0] + more
    high = parts[1] + b.convert(low.lt(parts[0]), _E.U64)
    after = b.convert(b.concatenate([low, high, parts[2]], 0), held.element_type)
    context.set_output(0, held)
    context.set_output(1, after)


STATEFUL: Final = frozenset(_STATEFUL)
"""Ops that draw from a stream of their own."""
