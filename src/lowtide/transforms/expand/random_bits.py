"""Random bits as arithmetic of integers: Threefry-2x32 and Philox-4x32.

Bits and states are the same to the last bit. Elements of less than 8 bits stay, and so do states of
other lengths than u64[2] (both algorithms) and u64[3] (Philox).

Source of both: J. Salmon, M. Moraes, R. Dror and D. Shaw (2011), "Parallel random numbers: as easy
as 1, 2, 3".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from lowtide.builder.values import Op
from lowtide.evaluator.random import (
    PHILOX_KEY_STEPS,
    PHILOX_MULTIPLIERS,
    PHILOX_ROUNDS,
    THREEFRY_PARITY,
    THREEFRY_ROTATIONS,
)
from lowtide.ir import ElementType, Instruction, Opcode, array_shape
from lowtide.ir.attributes import RngBitGenerator
from lowtide.passes.interface import Pass
from lowtide.passes.rewriting import Rewriter
from lowtide.transforms.expand.support import expander, expansion
from lowtide.transforms.simplify.support import Made

_U8: Final = ElementType.U8
_U32: Final = ElementType.U32
_U64: Final = ElementType.U64
_UNSIGNED: Final = {8: _U8, 16: ElementType.U16, 32: _U32, 64: _U64}


@expander(Opcode.RNG_BIT_GENERATOR)
def write_random_bits(x: Instruction, at: Rewriter) -> Made:
    """rng-bit-generator(state) => (state + counters, bits), the same to the last bit"""
    state = x.operands[0].shape
    shape = x.shape.tuple_shapes[1] if x.shape.is_tuple else x.shape
    algorithm = x.attributes_as(RngBitGenerator).algorithm
    is_philox = algorithm != "rng_three_fry"
    element_type = shape.element_type
    if state not in _STATES[is_philox] or element_type.bits not in _UNSIGNED:
        return None
    if element_type in _WITHOUT_BITS or not shape.element_count:
        return None
    words = [_word(at(x.operands[0]), i) for i in range(state.dimensions[0])]
    stream = _philox_bits if is_philox else _threefry_bits
    bits, used = stream(words, shape.dimensions, wide=element_type.bits == 64)
    made = narrowed_bits(bits, element_type)
    return at.build.tuple([_advanced(words, used), made]) if x.shape.is_tuple else made


_STATES: Final = {
    False: (array_shape(_U64, (2,)),),
    True: (array_shape(_U64, (2,)), array_shape(_U64, (3,))),
}
_WITHOUT_BITS: Final = frozenset({ElementType.PRED, ElementType.C64, ElementType.C128})


def narrowed_bits(bits: Op, element_type: ElementType) -> Op:
    """Return the low bits of unsigned words as values of a type that is no wider."""
    build = bits.builder
    unsigned = _UNSIGNED[element_type.bits]
    if bits.element_type is not unsigned:
        bits = build.convert(bits, unsigned)
    return bits if element_type is unsigned else build.bitcast_convert(bits, element_type)


def _word(state: Op, number: int) -> Op:
    return state.builder.reshape(state.builder.slice(state, [number], [number + 1]), ())


def _advanced(words: Sequence[Op], used: int) -> Op:
    """The state after so many counters: key, low half of the counter, and high half if it has."""
    build = words[0].builder
    low = words[1] + _u64(words[1], used)
    after = [words[0], low]
    if len(words) == 3:
        after.append(words[2] + build.convert(low.lt(words[1]), _U64))
    return build.concatenate([build.reshape(word, (1,)) for word in after], 0)


def _u32(like: Op, number: int) -> Op:
    return like.builder.constant(np.uint32(number))


def _u64(like: Op, number: int) -> Op:
    return like.builder.constant(np.uint64(number))


def _halves(words: Op) -> tuple[Op, Op]:
    """The low and high 32 bits of u64 words."""
    build = words.builder
    return build.convert(words, _U32), build.convert(words >> _u64(words, 32), _U32)


def _joined(low: Op, high: Op) -> Op:
    build = low.builder
    wide = build.convert(high, _U64) << _u64(low, 32)
    return build.convert(low, _U64) | wide


def _counters(start: Op, count: int) -> Op:
    """Numbers from `start`; the scalar itself where one is wanted."""
    if count == 1:
        return start
    return start.builder.iota(array_shape(_U64, (count,))) + start


# -- Threefry ----------------------------------------------------------------------------------


def _threefry_bits(words: Sequence[Op], sizes: tuple[int, ...], *, wide: bool) -> tuple[Op, int]:
    """Bits in some sizes, and how many counters they take."""
    key, counter = words
    build = key.builder
    if wide or not sizes:
        count = math.prod(sizes)
        low, high = _threefry(key, _counters(counter, count))
        return build.reshape(_joined(low, high) if wide else low, sizes), count
    axis = next((i for i, n in enumerate(sizes) if n % 2 == 0), sizes.index(max(sizes)))
    half = (*sizes[:axis], (sizes[axis] + 1) // 2, *sizes[axis + 1 :])
    single = (*half[: axis + 1], 1, *half[axis + 1 :])
    count = math.prod(half)
    pair = [build.reshape(x, single) for x in _threefry(key, _counters(counter, count))]
    both = build.concatenate(pair, axis + 1)
    full = build.reshape(both, (*half[:axis], 2 * half[axis], *half[axis + 1 :]))
    if full.dimensions == sizes:
        return full, count
    return build.slice(full, [0] * len(sizes), sizes), count


def _threefry(key: Op, counters: Op) -> tuple[Op, Op]:
    """The two words that 20 rounds make of each counter."""
    low, high = _halves(key)
    keys = (low, high, low ^ high ^ _u32(low, THREEFRY_PARITY))
    a, b = _halves(counters)
    a, b = a + keys[0], b + keys[1]
    for group in range(5):
        for distance in THREEFRY_ROTATIONS[group % 2]:
            a = a + b
            b = _rotated(b, distance) ^ a
        a = a + keys[(group + 1) % 3]
        b = b + (keys[(group + 2) % 3] + _u32(low, group + 1))
    return a, b


def _rotated(words: Op, distance: int) -> Op:
    return (words << _u32(words, distance)) | (words >> _u32(words, 32 - distance))


# -- Philox ------------------------------------------------------------------------------------


def _philox_bits(words: Sequence[Op], sizes: tuple[int, ...], *, wide: bool) -> tuple[Op, int]:
    """Bits in some sizes, and how many blocks of four words they take."""
    key, start = words[:2]
    build = key.builder
    count = math.prod(sizes)
    blocks = -(-count // (2 if wide else 4))
    low = _counters(start, blocks)
    high = build.convert(low.lt(start), _U64) + (words[2] if len(words) == 3 else key)
    parts = _philox(key, low, high)
    if wide:
        parts = [_joined(*parts[:2]), _joined(*parts[2:])]
    rows = build.concatenate([build.reshape(x, (blocks, 1)) for x in parts], 1)
    flat = build.reshape(rows, (blocks * len(parts),))
    if flat.dimensions != (count,):
        flat = build.slice(flat, [0], [count])
    return build.reshape(flat, sizes), blocks


def _philox(key: Op, low: Op, high: Op) -> list[Op]:
    """The four words that 10 rounds make of each 128-bit counter."""
    k0, k1 = _halves(key)
    x0, x1 = _halves(low)
    x2, x3 = _halves(high)
    for _ in range(PHILOX_ROUNDS):
        p_low, p_high = _product(x0, PHILOX_MULTIPLIERS[0])
        q_low, q_high = _product(x2, PHILOX_MULTIPLIERS[1])
        x0, x1, x2, x3 = q_high ^ x1 ^ k0, q_low, p_high ^ x3 ^ k1, p_low
        k0 = k0 + _u32(key, PHILOX_KEY_STEPS[0])
        k1 = k1 + _u32(key, PHILOX_KEY_STEPS[1])
    return [x0, x1, x2, x3]


def _product(words: Op, multiplier: int) -> tuple[Op, Op]:
    """The low and high words of products."""
    return _halves(words.builder.convert(words, _U64) * _u64(words, multiplier))


RULES: Final = (write_random_bits,)


PASSES: Final = (
    Pass(
        "expand-rng-bit-generator",
        expansion(RULES),
        "Writes random bits as arithmetic of integers: Threefry and Philox.",
        before="""
HloModule m

ENTRY main {
  s = u64[2] parameter(0)
  ROOT b = u32[] rng-bit-generator(s), algorithm=rng_three_fry
}
""",
    ),
)
