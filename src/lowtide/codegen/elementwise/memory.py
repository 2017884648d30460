"""Elements between memory and registers: contiguous, gathered and scattered; constants.

Addresses are multiples of the size of an element (of each part of a complex one). A mask is the
name of a <lanes x i1>: lanes where it is false are not touched, and loads give zeros there, gathers
any number. Single elements (no lanes) take no mask: `Function.when` does that.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from lowtide.codegen.elementwise.apart import lane_places, load_apart, store_apart
from lowtide.codegen.elementwise.formats import FORMATS, UPPER, decoded, encoded
from lowtide.codegen.elementwise.number import Number, constant_text
from lowtide.codegen.value import Value, memory_type, register_type, vector_type
from lowtide.ir.element_type import ElementType
from lowtide.ir.literal import DTYPES
from lowtide.llvm.callee import external, suffix
from lowtide.llvm.function import Function, Integer
from lowtide.llvm.strength import TYPE_BYTES
from lowtide.llvm.target import Target

STREAMED: Final = "!0 = !{i32 1}"
"""What a module defines that has streamed stores."""

_ALIGNMENT: Final = "i32 immarg"
"""The type of the alignment of an access under a mask."""

_FAST_GATHERS: Final = "serialize"
"""A feature of Intel's processors that gather a vector in half the time of its elements: those from
Sapphire Rapids and Alder Lake on. AMD's take as long as for single elements, and earlier ones of
Intel twice that time with what their microcode does for safety."""


def element_bytes(type_: ElementType) -> int:
    """Return the bytes of an element in memory; of a complex one, of each part."""
    return TYPE_BYTES[memory_type(type_)]


# -- contiguous --------------------------------------------------------------------------------


def load(
    fn: Function,
    target: Target,
    type_: ElementType,
    pointer: str,
    lanes: int,
    mask: str | None = None,
) -> Value:
    """Return `lanes` elements from an address on, or one for no lanes."""
    _check_mask(lanes, mask)
    parts = 2 if type_.is_complex else 1
    element = memory_type(type_)
    whole = vector_type(element, parts * lanes)
    if type_.is_complex and not lanes:
        names = [raw(fn, element, fn.gep(pointer, i, element), None, type_) for i in (0, 1)]
        return Value(tuple(names), type_)
    if mask is not None and type_.is_complex:
        mask = _doubled(fn, mask, lanes)
    if mask is None or mask.startswith("<") or takes_masks(target, type_):
        return _vector(fn, target, type_, raw(fn, whole, pointer, mask, type_), lanes)
    (name,) = fn.choose(
        _is_whole(fn, whole, mask),
        [whole],
        lambda: [raw(fn, whole, pointer, None, type_)],
        lambda: [raw(fn, whole, pointer, mask, type_)],
    )
    return _vector(fn, target, type_, name, lanes)


def takes_masks(target: Target, type_: ElementType) -> bool:
    """Return whether a vector of such elements is loaded by one instruction under a mask.

    Else it becomes a branch and a load for each lane: whether all lanes are wanted, as they mostly
    are, is then worth a branch ahead of these.
    """
    is_narrow = element_bytes(type_) < 4
    return not (is_narrow and target.triple.startswith("x86_64")) or target.has("avx512bw")


def _is_whole(fn: Function, whole: str, mask: str) -> str:
    """Whether a mask holds in all lanes."""
    type_ = _mask_type(whole)
    bits = f"i{type_[1:].split(' ')[0]}"
    return fn.op(f"icmp eq {bits} {fn.op(f'bitcast {type_} {mask} to {bits}')}, -1")


def loaded(fn: Function, target: Target, type_: ElementType, name: str, lanes: int) -> Value:
    """Return a vector of elements from one of integers with their bytes in memory.

    For no lanes it is one element, which is not complex, from an integer.
    """
    parts = 2 if type_.is_complex else 1
    element = memory_type(type_)
    whole = vector_type(element, parts * lanes)
    given = vector_type(f"i{8 * element_bytes(type_) * parts}", lanes)
    if given != whole:
        name = fn.op(f"bitcast {given} {name} to {whole}")
    return _vector(fn, target, type_, name, lanes)


def _vector(fn: Function, target: Target, type_: ElementType, name: str, lanes: int) -> Value:
    if not type_.is_complex:
        return _in_register(fn, target, type_, name, lanes)
    whole = vector_type(memory_type(type_), 2 * lanes)
    picks = [fn.shuffle(whole, name, "poison", range(i, 2 * lanes, 2)) for i in (0, 1)]
    return Value(tuple(picks), type_, lanes)


def raw(fn: Function, whole: str, pointer: str, mask: str | None, type_: ElementType) -> str:
    """Return a vector of the LLVM type `whole`, or one element, as it stands in memory."""
    align = element_bytes(type_)
    if mask is None:
        return fn.load(whole, pointer, align)
    name = f"llvm.masked.load.{suffix(whole)}.p0"
    callee = external(name, whole, "ptr", _ALIGNMENT, _mask_type(whole), whole)
    return _kept(fn, whole, fn.call(callee, [pointer, align, mask, "zeroinitializer"]))


def _kept(fn: Function, whole: str, name: str) -> str:
    """A value all of whose lanes are kept, zeros where nothing was loaded.

    LLVM 22 makes lanes that nothing reads undefined, and ends the process on some loads whose
    lanes outside the mask are then zeros in part.
    """
    return fn.op(f"freeze {whole} {name}")


def store(
    fn: Function,
    target: Target,
    value: Value,
    pointer: str,
    mask: str | None = None,
    *,
    streamed: bool = False,
    align: int = 0,
) -> None:
    """Store elements from an address on, a multiple of `align` bytes where that is not 0.

    With `streamed` they go past the caches: the address is a multiple of the bytes of the vector,
    or of 64 if these are more, there is no mask, and the module has to define STREAMED.
    """
    element, lanes = memory_type(value.type), value.lanes
    _check_mask(lanes, mask)
    if not value.type.is_complex:
        whole = vector_type(element, lanes)
        name = _in_memory(fn, target, value)
        if streamed:
            stream(fn, whole, name, pointer, element_bytes(value.type) * lanes)
        else:
            _store(fn, target, whole, name, pointer, mask, value, align)
        return
    if not lanes:
        for i, name in enumerate(value.names):
            _store(fn, target, element, name, fn.gep(pointer, i, element), None, value)
        return
    real, imaginary = value.names
    picks = [i // 2 + lanes * (i % 2) for i in range(2 * lanes)]
    mixed = fn.shuffle(value.llvm_type, real, imaginary, picks)
    whole = vector_type(element, 2 * lanes)
    if streamed:
        stream(fn, whole, mixed, pointer, element_bytes(value.type) * 2 * lanes)
        return
    mask = None if mask is None else _doubled(fn, mask, lanes)
    _store(fn, target, whole, mixed, pointer, mask, value)


def stream(fn: Function, whole: str, name: str, pointer: str, nbytes: int) -> None:
    """Store a vector of so many bytes past the caches, as `store` says of `streamed`."""
    fn.do(f"store {whole} {name}, ptr {pointer}, align {min(nbytes, 64)}, !nontemporal !0")


def load_pairs(fn: Function, target: Target, pointer: str, lanes: int) -> Value:
    """Return `lanes` elements of bf16 from an address on: the even ones, then the odd ones.

    A word holds two. The upper one is a float as it stands there, but for bits that are cleared,
    the lower one is shifted: two vectors take one load and two instructions, where lanes in order
    take one more to spread the elements of each.
    """
    half = lanes // 2
    words = Number(fn, target, "i32", half, fn.load(f"<{half} x i32>", pointer, 2))
    even, odd = words << 16, words & UPPER
    joined = fn.shuffle(f"<{half} x i32>", even.name, odd.name, range(lanes))
    whole = Number(fn, target, "i32", lanes, joined)
    return Value((whole.from_bits().name,), ElementType.BF16, lanes)


def store_pairs(
    fn: Function, target: Target, value: Value, pointer: str, *, streamed: bool = False
) -> None:
    """Store what `load_pairs` would return, from an address on; `streamed` as in `store`."""
    lanes = value.lanes
    half = lanes // 2
    bits = Number(fn, target, "float", lanes, value.names[0]).bits()
    even, odd = [
        Number(fn, target, "i32", half, fn.shuffle(f"<{lanes} x i32>", bits.name, "poison", picked))
        for picked in (range(half), range(half, lanes))
    ]
    words = (even >> 16) | (odd & UPPER)
    if streamed:
        stream(fn, f"<{half} x i32>", words.name, pointer, 2 * lanes)
    else:
        fn.store(f"<{half} x i32>", words.name, pointer, 2)


def _store(
    fn: Function,
    target: Target,
    whole: str,
    name: str,
    pointer: str,
    mask: str | None,
    value: Value,
    align: int = 0,
) -> None:
    align = align or element_bytes(value.type)
    if mask is None:
        fn.store(whole, name, pointer, align)
        return
    pieces = _pieces(target, mask)
    if not pieces:
        function = f"llvm.masked.store.{suffix(whole)}.p0"
        callee = external(function, "void", whole, "ptr", _ALIGNMENT, _mask_type(whole))
        fn.call(callee, [name, pointer, align, mask])
    element = whole[1:-1].split(" x ")[1]
    for piece in pieces:
        part, at = vector_type(element, len(piece)), fn.gep(pointer, piece.start, element)
        lanes = fn.shuffle(whole, name, "poison", piece)
        fn.store(part, lanes, at, element_bytes(value.type))


def _pieces(target: Target, mask: str) -> list[range]:
    """Lanes of a constant mask in runs of 1, 2, 4, ... that are stored one by one.

    None if they are stored by one instruction, which takes AVX-512: that of AVX takes AMD's
    processors 12 cycles, and for elements of fewer than 4 bytes there is none. LLVM 22 stores four
    bytes where a masked store has one lane and the value was truncated to it.
    """
    if not mask.startswith("<"):
        return []
    found: list[range] = []
    for lane, holds in enumerate(_constant_lanes(mask)):
        if holds:
            found.append(range(lane, lane + 1))
        while len(found) > 1 and _are_halves(*found[-2:]):
            found[-2:] = [range(found[-2].start, found[-1].stop)]
    return found if len(found) == 1 == len(found[0]) or not target.has("avx512vl") else []


def _are_halves(a: range, b: range) -> bool:
    """Whether runs of equal length are one, which begins at a multiple of its length."""
    return a.stop == b.start and len(a) == len(b) and a.start % (2 * len(a)) == 0


def _constant_lanes(mask: str) -> list[bool]:
    """Where a mask holds that is spelled out."""
    return [x.split()[-1] in ("true", "1") for x in mask[1:-1].split(",")]


# -- anywhere ----------------------------------------------------------------------------------


def gather(
    fn: Function,
    target: Target,
    type_: ElementType,
    base: str,
    indices: str,
    lanes: int,
    mask: str | None = None,
    *,
    narrow: str = "",
) -> Value:
    """Return the elements of an array at indices, a <lanes x i64>; an i64 for no lanes.

    `narrow` are the same indices as a <lanes x i32>, where these are known not to be negative. With
    it lanes that a mask leaves out may be read as the first element, which there has to be.
    """
    _check_mask(lanes, mask)
    element, align = memory_type(type_), element_bytes(type_)
    apart = _apart(fn, target, type_, base, narrow, lanes, mask)
    if apart:
        names = [load_apart(fn, element, x, lanes, align) for x in apart]
    else:
        names = []
        for pointer in _addresses(fn, type_, base, indices, lanes):
            if not lanes:
                names.append(raw(fn, element, pointer, None, type_))
            elif mask is None and target.has("avx512f") and not gathers_fast(target):
                names.append(load_apart(fn, element, _lanes_of(fn, pointer, lanes), lanes, align))
            else:
                names.append(_gather(fn, vector_type(element, lanes), pointer, mask, type_))
    if type_.is_complex:
        return Value(tuple(names), type_, lanes)
    return _in_register(fn, target, type_, names[0], lanes)


def _apart(
    fn: Function,
    target: Target,
    type_: ElementType,
    base: str,
    narrow: str,
    lanes: int,
    mask: str | None,
    *,
    writes: bool = False,
) -> list[dict[int, str]]:
    """The addresses of elements by lane, of each part of complex ones; none for one instruction.

    Under a mask LLVM would write a branch for each lane: those left out read the first element.
    """
    is_slow = target.triple.startswith("x86_64") and not gathers_fast(target)
    if not narrow or lanes < 2 or lanes % 2 or not is_slow:
        return []
    if mask is not None and not mask.startswith("<"):
        if writes or target.has("avx512f"):
            return []
        zeros = f"<{lanes} x i32> zeroinitializer"
        narrow = fn.op(f"select <{lanes} x i1> {mask}, <{lanes} x i32> {narrow}, {zeros}")
        mask = None
    where = [True] * lanes if mask is None else _constant_lanes(mask)
    places = lane_places(fn, narrow, lanes)
    element = memory_type(type_)
    unit = f"{{ {element}, {element} }}" if type_.is_complex else element
    first = {i: fn.gep(base, places[i], unit) for i in range(lanes) if where[i]}
    if not type_.is_complex:
        return [first]
    return [first, {i: fn.gep(x, 1, element) for i, x in first.items()}]


def _lanes_of(fn: Function, pointers: str, lanes: int) -> dict[int, str]:
    """The addresses of a vector; LLVM takes them apart by itself for processors without AVX-512."""
    type_ = f"<{lanes} x ptr>"
    return {i: fn.op(f"extractelement {type_} {pointers}, i64 {i}") for i in range(lanes)}


def _gather(fn: Function, whole: str, pointers: str, mask: str | None, type_: ElementType) -> str:
    lanes = whole[1:].split(" ")[0]
    name = f"llvm.masked.gather.{suffix(whole)}.v{lanes}p0"
    callee = external(name, whole, f"<{lanes} x ptr>", _ALIGNMENT, _mask_type(whole), whole)
    every = mask if mask is not None else constant_text("i1", 1, int(lanes))
    found = fn.call(callee, [pointers, element_bytes(type_), every, "zeroinitializer"])
    return found if mask is None else _kept(fn, whole, found)


def scatter_store(
    fn: Function,
    target: Target,
    value: Value,
    base: str,
    indices: str,
    mask: str | None = None,
    *,
    narrow: str = "",
) -> None:
    """Store elements at indices of an array; where two indices are equal, the last lane stays.

    `narrow` is as in `gather`.
    """
    lanes = value.lanes
    _check_mask(lanes, mask)
    names = value.names if value.type.is_complex else (_in_memory(fn, target, value),)
    apart = _apart(fn, target, value.type, base, narrow, lanes, mask, writes=True)
    if apart:
        element, align = memory_type(value.type), element_bytes(value.type)
        for places, name in zip(apart, names, strict=True):
            store_apart(fn, element, name, places, lanes, align)
        return
    pointers = _addresses(fn, value.type, base, indices, lanes)
    whole = vector_type(memory_type(value.type), lanes)
    for pointer, name in zip(pointers, names, strict=True):
        if not lanes:
            _store(fn, target, whole, name, pointer, None, value)
            continue
        function = f"llvm.masked.scatter.{suffix(whole)}.v{lanes}p0"
        types = (whole, f"<{lanes} x ptr>", _ALIGNMENT, _mask_type(whole))
        every = mask if mask is not None else constant_text("i1", 1, lanes)
        callee = external(function, "void", *types)
        fn.call(callee, [name, pointer, element_bytes(value.type), every])


def gathers_fast(target: Target) -> bool:
    """Return whether one instruction gathers a vector faster than its elements are loaded."""
    return target.has("avx512f") and target.has(_FAST_GATHERS)


def _addresses(
    fn: Function, type_: ElementType, base: str, indices: str, lanes: int
) -> tuple[str, ...]:
    """The addresses of elements, or of both parts of complex ones."""
    index = vector_type("i64", lanes)
    element = memory_type(type_)
    unit = f"{{ {element}, {element} }}" if type_.is_complex else element
    first = fn.op(f"getelementptr inbounds {unit}, ptr {base}, {index} {indices}")
    if not type_.is_complex:
        return (first,)
    pointers = vector_type("ptr", lanes)
    return first, fn.op(f"getelementptr inbounds {element}, {pointers} {first}, i64 1")


# -- values ------------------------------------------------------------------------------------


def splat(fn: Function, value: Value, lanes: int) -> Value:
    """Return a vector with a single element in each lane; the element itself for no lanes."""
    if not lanes:
        return value
    element = register_type(value.type)
    names = [
        fn.splat(element, name, lanes) if name.startswith("%") else f"splat ({element} {name})"
        for name in value.names
    ]
    return Value(tuple(names), value.type, lanes)


def constant(type_: ElementType, number: complex) -> Value:
    """Return a single element, the number rounded to its type."""
    element = register_type(type_)
    if type_.is_complex:
        found = complex(number)
        parts = (found.real, found.imag)
        return Value(tuple([constant_text(element, x) for x in parts]), type_)
    if not type_.is_floating:
        return Value((constant_text(element, int(number.real)),), type_)
    rounded = np.asarray(number.real, np.float64).astype(DTYPES[type_]).astype(np.float64)
    return Value((constant_text(element, float(rounded)),), type_)


def lane_numbers(lanes: int) -> str:
    """Return the constant <lanes x i64> <0, 1, 2, ...>; 0 for no lanes."""
    return f"<{', '.join([f'i64 {i}' for i in range(lanes)])}>" if lanes else "0"


def numbered_lanes(fn: Function, target: Target, first: Integer, lanes: int) -> Number:
    """Return the i64 of each lane: `first`, and one more from lane to lane."""
    start = fn.splat("i64", str(first), lanes)
    name = fn.op(f"add <{lanes} x i64> {start}, {lane_numbers(lanes)}")
    return Number(fn, target, "i64", lanes, name)


# -- forms -------------------------------------------------------------------------------------


def numbers(fn: Function, target: Target, value: Value) -> tuple[Number, ...]:
    """Return a value as numbers: one, or the real and the imaginary part."""
    element = register_type(value.type)
    return tuple([Number(fn, target, element, value.lanes, name) for name in value.names])


def _in_register(fn: Function, target: Target, type_: ElementType, name: str, lanes: int) -> Value:
    """What was loaded in the form in which it is computed with."""
    raw = Number(fn, target, memory_type(type_), lanes, name)
    if type_ is ElementType.PRED:
        raw = raw.differs(0)
    elif type_.is_floating and type_.bits < 32:
        raw = decoded(type_, raw & 2**type_.bits - 1 if type_.bits < 8 else raw)
    elif type_.is_integer:
        raw = wrapped(type_, raw)
    return Value((raw.name,), type_, lanes)


def _in_memory(fn: Function, target: Target, value: Value) -> str:
    (x,) = numbers(fn, target, value)
    type_ = value.type
    if type_ is ElementType.PRED:
        return x.cast("zext", "i8").name
    if type_ in FORMATS or (type_.is_floating and type_.bits < 32):
        return encoded(type_, x).name
    if type_.is_integer and type_.bits < 8:
        return (x & ((1 << type_.bits) - 1)).name
    return x.name


def wrapped(type_: ElementType, x: Number) -> Number:
    """Return an integer of 8 bits wrapped around to a type narrower than that, and extended."""
    unused = x.width - type_.bits
    if unused <= 0 or type_.bits >= 8:
        return x
    if type_.is_signed:
        return (x << unused).ashr(unused)
    return x & ((1 << type_.bits) - 1)


def _check_mask(lanes: int, mask: str | None) -> None:
    if mask is not None and not lanes:
        raise ValueError("a single element takes no mask")


def _mask_type(whole: str) -> str:
    return f"{whole.split(' ')[0]} x i1>"


def _doubled(fn: Function, mask: str, lanes: int) -> str:
    return fn.shuffle(f"<{lanes} x i1>", mask, "poison", [i // 2 for i in range(2 * lanes)])
