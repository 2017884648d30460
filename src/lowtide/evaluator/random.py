"""Random bits: counter-based generators bit for bit as XLA's, and the stateful `rng`.

`rng-bit-generator` is a pure function of its state. `rng` and `rng-get-and-update-state` draw from
the counter which the interpreter holds, so a run repeats exactly for an equal seed; the numbers
are not those of XLA, whose own differ from process to process.

Source of both generators: J. Salmon, M. Moraes, R. Dror and D. Shaw (2011), "Parallel random
numbers: as easy as 1, 2, 3".
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from lowtide.evaluator.values import Value, Values, as_array
from lowtide.ir.attributes import Rng, RngBitGenerator, RngGetAndUpdateState
from lowtide.ir.element_type import ElementType
from lowtide.ir.errors import unsupported
from lowtide.ir.literal import DTYPES, ELEMENT_TYPES, Array
from lowtide.ir.opcode import Opcode
from lowtide.ir.shape import Shape

if TYPE_CHECKING:
    from lowtide.evaluator.interpreter import Interpreter
    from lowtide.evaluator.registry import Handler
    from lowtide.ir.instruction import Instruction

UInt32Array = npt.NDArray[np.uint32]
UInt64Array = npt.NDArray[np.uint64]

MASK_32: Final = 0xFFFFFFFF
MASK_64: Final = 0xFFFFFFFFFFFFFFFF

THREEFRY_ROTATIONS: Final = ((13, 15, 26, 6), (17, 29, 16, 24))
THREEFRY_PARITY: Final = 0x1BD11BDA
PHILOX_MULTIPLIERS: Final = (0xD2511F53, 0xCD9E8D57)
PHILOX_KEY_STEPS: Final = (0x9E3779B9, 0xBB67AE85)
PHILOX_ROUNDS: Final = 10


def threefry(key: int, counters: UInt64Array) -> tuple[UInt32Array, UInt32Array]:
    """Return the two words which Threefry-2x32 (20 rounds) makes of each 64-bit counter."""
    low, high = key & MASK_32, key >> 32
    keys = (low, high, THREEFRY_PARITY ^ low ^ high)
    a = counters.astype(np.uint32) + np.uint32(keys[0])
    b = (counters >> np.uint64(32)).astype(np.uint32) + np.uint32(keys[1])
    for group in range(5):
        for distance in THREEFRY_ROTATIONS[group % 2]:
            a = a + b
            b = _rotate_left(b, distance) ^ a
        a = a + np.uint32(keys[(group + 1) % 3])
        b = b + np.uint32((keys[(group + 2) % 3] + group + 1) & MASK_32)
    return a, b


def _rotate_left(words: UInt32Array, distance: int) -> UInt32Array:
    return (words << np.uint32(distance)) | (words >> np.uint32(32 - distance))


def philox(key: int, low: UInt64Array, high: UInt64Array) -> UInt32Array:
    """Return the words of Philox-4x32 (10 rounds), shape [counters, 4].

    Counter `i` is the 128-bit number `high[i] * 2**64 + low[i]`.
    """
    mask, shift = np.uint64(MASK_32), np.uint64(32)
    x0, x1, x2, x3 = low & mask, low >> shift, high & mask, high >> shift
    k0, k1 = key & MASK_32, key >> 32
    for _ in range(PHILOX_ROUNDS):
        p = x0 * np.uint64(PHILOX_MULTIPLIERS[0])
        q = x2 * np.uint64(PHILOX_MULTIPLIERS[1])
        x0, x1 = (q >> shift) ^ x1 ^ np.uint64(k0), q & mask
        x2, x3 = (p >> shift) ^ x3 ^ np.uint64(k1), p & mask
        k0 = (k0 + PHILOX_KEY_STEPS[0]) & MASK_32
        k1 = (k1 + PHILOX_KEY_STEPS[1]) & MASK_32
    return np.stack([x0, x1, x2, x3], axis=-1).astype(np.uint32)


def philox_words(key: int, counter: int, count: int) -> UInt32Array:
    """Return `count` words (a multiple of 4) of the blocks at 128-bit `counter`, and on."""
    steps = np.arange(count // 4, dtype=np.uint64)
    start = np.uint64(counter & MASK_64)
    low = steps + start
    high = (low < start).astype(np.uint64) + np.uint64((counter >> 64) & MASK_64)
    return philox(key, low, high).reshape(-1)


# -- streams: words to arrays of a shape -------------------------------------------------------


def threefry_bits(
    key: int, counter: int, dimensions: tuple[int, ...], wide: bool
) -> tuple[Array, int]:
    """Return u64 (`wide`) or u32 bits of the shape, and how many counters they take."""
    if wide:
        count = math.prod(dimensions)
        a, b = threefry(key, _counters(counter, count))
        return _join(a, b).reshape(dimensions), count
    if not dimensions:
        return threefry(key, _counters(counter, 1))[0].reshape(()), 1
    axis = _split_dimension(dimensions)
    half = (*dimensions[:axis], (dimensions[axis] + 1) // 2, *dimensions[axis + 1 :])
    count = math.prod(half)
    a, b = threefry(key, _counters(counter, count))
    pairs = np.stack([a.reshape(half), b.reshape(half)], axis=axis + 1)
    full = pairs.reshape((*half[:axis], 2 * half[axis], *half[axis + 1 :]))
    return full.take(range(dimensions[axis]), axis=axis), count


def _split_dimension(dimensions: tuple[int, ...]) -> int:
    """Return the first dimension of even size, else the first one of the greatest size."""
    for axis, size in enumerate(dimensions):
        if size % 2 == 0:
            return axis
    return dimensions.index(max(dimensions))


def _counters(start: int, count: int) -> UInt64Array:
    return np.arange(count, dtype=np.uint64) + np.uint64(start)


def _join(low: UInt32Array, high: UInt32Array) -> UInt64Array:
    return low.astype(np.uint64) | (high.astype(np.uint64) << np.uint64(32))


def philox_bits(
    key: int, counter: int, dimensions: tuple[int, ...], wide: bool
) -> tuple[Array, int]:
    """Return u64 (`wide`) or u32 bits of the shape, and how many counters they take."""
    count = math.prod(dimensions)
    blocks = -(-count // (2 if wide else 4))
    words = philox_words(key, counter, 4 * blocks)
    flat: Array = _join(words[::2], words[1::2]) if wide else words
    return flat[:count].reshape(dimensions), blocks


def as_element_type(bits: Array, element_type: ElementType) -> Array:
    """Return the low bits of each word as values of `element_type`, which is no wider."""
    dtype = DTYPES[element_type]
    if element_type.bits >= 8:
        return np.asarray(bits.astype(np.dtype(f"u{element_type.nbytes}"))).view(dtype)
    low = bits.astype(np.uint8) & np.uint8((1 << element_type.bits) - 1)
    if element_type.is_signed:
        spare = np.int8(8 - element_type.bits)
        return ((low.view(np.int8) << spare) >> spare).astype(dtype)
    return low.astype(dtype) if element_type.is_unsigned else low.view(dtype)


# -- handlers ----------------------------------------------------------------------------------


def rng_bit_generator(
    interpreter: Interpreter, instruction: Instruction, operands: Values
) -> Value:
    """Return (next state, bits), or bits alone where the result is an array.

    Bits of a signed or floating point type are those of the unsigned type of equal width.
    The state is u64 {key, counter} or, of Philox only, {key, low and high half of the counter};
    a Philox state without the high half takes the key in its place.
    """
    state = as_array(operands[0])
    algorithm = instruction.attributes_as(RngBitGenerator).algorithm
    lengths = (2,) if algorithm == "rng_three_fry" else (2, 3)
    if state.dtype != np.uint64 or state.ndim != 1 or state.size not in lengths:
        sizes = " or ".join([f"u64[{n}]" for n in lengths])
        found = instruction.operands[0].shape.text(layout=False)
        raise unsupported(instruction, f"{algorithm} takes a state {sizes}, not {found}")
    has_state = instruction.shape.is_tuple
    shape = instruction.shape.tuple_shapes[1] if has_state else instruction.shape
    _require_bits(instruction, shape)
    key, low = int(state[0]), int(state[1])
    counter = low | (int(state[-1]) if state.size == 3 else key) << 64
    wide = shape.element_type.bits == 64
    if algorithm == "rng_three_fry":
        bits, used = threefry_bits(key, low, shape.dimensions, wide)
    else:
        bits, used = philox_bits(key, counter, shape.dimensions, wide)
    result = as_element_type(bits, shape.element_type)
    after = counter + used
    words = [key, after & MASK_64, (after >> 64) & MASK_64][: state.size]
    return (np.array(words, np.uint64), result) if has_state else result


def _require_bits(instruction: Instruction, shape: Shape) -> None:
    element_type = shape.element_type
    if element_type is ElementType.PRED or element_type.is_complex:
        reason = f"makes integers and real numbers, not {element_type.value}"
        raise unsupported(instruction, reason)


def get_and_update_state(
    interpreter: Interpreter, instruction: Instruction, operands: Values
) -> Value:
    """Return the interpreter's 128-bit counter as u64[2], low half first, and advance it."""
    counter = interpreter.random_counter % 2**128
    delta = instruction.attributes_as(RngGetAndUpdateState).delta
    interpreter.random_counter = (counter + delta) % 2**128
    return np.array([counter & MASK_64, counter >> 64], np.uint64)


def rng(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Value:
    """Return draws from [a, b), or from the normal distribution of mean a and deviation b.

    They come from Philox with key 0 at the interpreter's counter, which advances. Operands behind
    a and b tell the shape, which the result has anyway.
    """
    a, b = (as_array(x) for x in operands[:2])
    shape = instruction.shape
    counter = interpreter.random_counter
    bits, used = philox_bits(0, counter, (shape.element_count, 2), wide=True)
    interpreter.random_counter = (counter + used) % 2**128
    draw = _DISTRIBUTIONS[instruction.attributes_as(Rng).distribution]
    return draw(bits, a, b).reshape(shape.dimensions).astype(DTYPES[shape.element_type])


def _uniform(bits: UInt64Array, a: Array, b: Array) -> Array:
    """Return one draw per row of two words, in the type of the limits."""
    element_type = ELEMENT_TYPES[a.dtype]
    if element_type.is_integer:
        low, high = int(a), int(b)
        span = np.uint64(max(high - low, 1) & MASK_64)
        return (bits[:, 0] % span + np.uint64(low & MASK_64)).astype(np.int64)
    if element_type is ElementType.PRED:
        return np.asarray(bits[:, 0] % np.uint64(2) == 1)
    start, end = a.astype(np.float64), b.astype(np.float64)
    values = (start + (end - start) * _fraction(bits[:, 0])).astype(a.dtype)
    return np.where(values < b, values, a)  # rounding may reach the upper limit


def _normal(bits: UInt64Array, mean: Array, deviation: Array) -> Array:
    """Return one draw per row of two words: G. Box and M. Muller (1958)."""
    radius = np.sqrt(-2 * np.log1p(-_fraction(bits[:, 0])))
    unit = radius * np.cos(2 * np.pi * _fraction(bits[:, 1]))
    return np.asarray(mean.astype(np.float64) + deviation.astype(np.float64) * unit)


def _fraction(words: UInt64Array) -> Array:
    """Return numbers in [0, 1) with 53 random bits."""
    return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53


_DISTRIBUTIONS: Final[dict[str, Callable[[UInt64Array, Array, Array], Array]]] = {
    "rng_normal": _normal,
    "rng_uniform": _uniform,
}

HANDLERS: Final[dict[Opcode, Handler]] = {
    Opcode.RNG: rng,
    Opcode.RNG_BIT_GENERATOR: rng_bit_generator,
    Opcode.RNG_GET_AND_UPDATE_STATE: get_and_update_state,
}
