"""Values that are kept across the peak take fewer bytes, and are made again just before use.

Truth values are packed, eight to a byte. The mask of a rectifier is read from its result, which is
often kept anyway. What is exactly a conversion of a narrower type is kept in that type.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from lowtide.builder import Builder
from lowtide.ir import ElementType, Instruction, Module, Opcode
from lowtide.ir.attributes import Compare
from lowtide.ir.clone import clone_module
from lowtide.ir.traversal import post_order
from lowtide.passes.dead_code import sweep
from lowtide.passes.interface import Pass, example
from lowtide.passes.matching import same_instructions
from lowtide.transforms.memory.compress.bits import can_pack, pack, unpack
from lowtide.transforms.memory.compress.types import has_narrow_form, narrow_form
from lowtide.transforms.memory.peak_values import PeakValues, Planner, peak_values

Way: TypeAlias = Callable[[Instruction, list[Instruction], PeakValues], bool]


def compress_saved_values(
    module: Module, planner: Planner | None = None, *, least: int = 4096
) -> int:
    """Keep values in fewer bytes while most is live; return how many of them.

    They are those of at least `least` bytes that are made before the peak and read after it, where
    operands come first, as the result needs them. What reads them after the peak reads them made
    again from what is kept; no value changes in any bit. Where there is a `planner`, only those
    ways are taken by which the module needs fewer bytes, by default all. An optimization barrier
    keeps passes from undoing it.
    """
    ways = _WAYS if planner is None else _best_ways(module, planner, least)
    return _compressed(module, ways, least, planner)


def _best_ways(module: Module, planner: Planner, least: int) -> tuple[Way, ...]:
    """All ways, one, or none: whatever needs the fewest bytes, and fewer ways of equal ones."""
    best: tuple[Way, ...] = ()
    lowest = planner.footprint(module)
    lowest -= lowest // _LEAST_SHARE
    for ways in (*[(way,) for way in _WAYS], _WAYS):
        trial = clone_module(module)
        if not _compressed(trial, ways, least, planner):
            continue
        nbytes = planner.footprint(trial)
        if nbytes < lowest:
            best, lowest = ways, nbytes
    return best


_LEAST_SHARE: Final = 128
"""What saves a smaller part of the bytes is not worth its time."""


def _compressed(module: Module, ways: Sequence[Way], least: int, planner: Planner | None) -> int:
    peak = peak_values(module, planner)
    changes = 0
    for x, readers in _saved(peak, least):
        changes += any(way(x, readers, peak) for way in ways)
    if changes:
        sweep(peak.computation)
    return changes


def _saved(peak: PeakValues, least: int) -> list[tuple[Instruction, list[Instruction]]]:
    """The values to look at, operands first, and what reads each one after the peak."""
    found = []
    for x in post_order(peak.computation):
        if peak.live.get(x, 0) < least or not x.shape.is_array or _is_kept_anyway(x, peak):
            continue
        readers = peak.late_readers(x)
        if readers and peak.position[x] <= peak.at:
            found.append((x, readers))
    return found


def _is_kept_anyway(x: Instruction, peak: PeakValues) -> bool:
    """Whether a value has its place until the end, or costs nothing to make again."""
    if x.opcode in (Opcode.PARAMETER, Opcode.CONSTANT, Opcode.OPTIMIZATION_BARRIER):
        return True
    if x.is_root or any(y.is_root and y.opcode is Opcode.TUPLE for y in x.users):
        return True
    sources = [y for y in x.operands if y.shape.rank]
    return all(_lives_on(y, peak) for y in sources)


def _lives_on(x: Instruction, peak: PeakValues) -> bool:
    """Whether a value is there after the peak whatever is done: an argument, or read later."""
    if x.opcode in (Opcode.PARAMETER, Opcode.CONSTANT):
        return True
    return peak.last.get(x, -1) > peak.at


def _read_instead(readers: list[Instruction], old: Instruction, new: Instruction) -> None:
    for reader in readers:
        for number, operand in enumerate(reader.operands):
            if operand is old:
                reader.replace_operand(number, new)


# -- masks of rectifiers -----------------------------------------------------------------------

_MASKS: Final = {
    (Opcode.MAXIMUM, "GT"),
    (Opcode.MAXIMUM, "LE"),
    (Opcode.MINIMUM, "LT"),
    (Opcode.MINIMUM, "GE"),
}
"""Comparisons of x and y that say the same of max(x, y) and y; so they do where x is NaN."""


def _from_result(x: Instruction, readers: list[Instruction], peak: PeakValues) -> bool:
    """compare(x, y), GT => compare(maximum(x, y), y), GT where the maximum is kept anyway."""
    if x.opcode is not Opcode.COMPARE:
        return False
    compare = x.attributes_as(Compare)
    for y in x.operands[0].users:
        if (y.opcode, compare.direction) not in _MASKS or compare.type == "TOTALORDER":
            continue
        kept = y.shape is x.operands[0].shape and _lives_on(y, peak)
        if not kept or not _same_pair(y.operands, x.operands):
            continue
        build = Builder.inside(x.parent)
        with build.metadata(x.metadata):
            operands = [build.value(y), build.value(x.operands[1])]
            made = build.emit(Opcode.COMPARE, operands, compare)
        _read_instead(readers, x, made.instruction)
        return True
    return False


def _same_pair(a: tuple[Instruction, ...], b: tuple[Instruction, ...]) -> bool:
    return same_instructions(a, b) or same_instructions(a, b[::-1])


# -- bits and narrow types ---------------------------------------------------------------------


def _as_bits(x: Instruction, readers: list[Instruction], peak: PeakValues) -> bool:
    """pred[...] => u8[... / 8] while it is kept."""
    if x.shape.element_type is not ElementType.PRED or not can_pack(x.shape):
        return False
    build = Builder.inside(x.parent)
    with build.metadata(x.metadata):
        kept = build.opt_barrier(pack(build.value(x)))
        made = unpack(kept, x.shape)
    _read_instead(readers, x, made.instruction)
    return True


def _as_narrow(x: Instruction, readers: list[Instruction], peak: PeakValues) -> bool:
    """A value that a narrower type holds exactly is kept in that type; truth values as bits."""
    if not has_narrow_form(x):
        return False
    build = Builder.inside(x.parent)
    with build.metadata(x.metadata):
        value = narrow_form(build, x)
        if value.element_type is ElementType.PRED and can_pack(value.shape):
            kept = unpack(build.opt_barrier(pack(value)), value.shape)
        else:
            kept = build.opt_barrier(value)
        made = build.convert(kept, x.shape.element_type)
    _read_instead(readers, x, made.instruction)
    return True


_WAYS: Final[tuple[Way, ...]] = (_from_result, _as_bits, _as_narrow)

PASSES: Final = (
    Pass(
        "compress-saved-values",
        compress_saved_values,
        "Keeps truth values as bits, and exact conversions in the narrower type, across the peak.",
        *example(
            """
HloModule m
+
+or {
+ a = u8[] parameter(0)
+ b = u8[] parameter(1)
+ ROOT c = u8[] or(a, b)
+}

ENTRY main {
  x = f32[16,256] parameter(0)
  w = f32[256,256] parameter(1)
  v = f32[256,256] parameter(2)
  zero = f32[] constant(0)
  zeros = f32[16,256] broadcast(zero), dimensions={}
  h = f32[16,256] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  mask = pred[16,256] compare(h, zeros), direction=GT
  y = f32[16,256] select(mask, h, x)
  z = f32[16,256] dot(y, v), lhs_contracting_dims={1}, rhs_contracting_dims={1}
- ROOT d = f32[16,256] select(mask, z, zeros)
+ bits = u8[16,256] convert(mask)
+ rows = u8[8,2,256] reshape(bits)
+ places = u8[8,2,256] iota(), iota_dimension=0
+ shifted = u8[8,2,256] shift-left(rows, places)
+ none = u8[] constant(0)
+ packed = u8[2,256] reduce(shifted, none), dimensions={0}, to_apply=or
+ kept = u8[2,256] opt-barrier(packed)
+ spread = u8[8,2,256] broadcast(kept), dimensions={1,2}
+ places.1 = u8[8,2,256] iota(), iota_dimension=0
+ last = u8[8,2,256] shift-right-logical(spread, places.1)
+ one = u8[] constant(1)
+ ones = u8[8,2,256] broadcast(one), dimensions={}
+ bit = u8[8,2,256] and(last, ones)
+ rows.1 = u8[16,256] reshape(bit)
+ none.1 = u8[] constant(0)
+ nones = u8[16,256] broadcast(none.1), dimensions={}
+ mask.1 = pred[16,256] compare(rows.1, nones), direction=NE
+ ROOT d = f32[16,256] select(mask.1, z, zeros)
}
"""
        ),
        meanings=(("least", "how many bytes a value has at least"),),
    ),
)
