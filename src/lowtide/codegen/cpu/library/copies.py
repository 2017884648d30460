"""Arrays copied, or filled with zeros, in pieces of bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lowtide.codegen.arrays import strides
from lowtide.codegen.cpu.cost import seconds
from lowtide.codegen.elementwise.memory import element_bytes
from lowtide.codegen.kernel import ARGUMENTS, KernelCode
from lowtide.ir import Shape
from lowtide.ir.thunk import Phase
from lowtide.llvm.callee import COPY, SET
from lowtide.llvm.function import Function, Integer
from lowtide.records import dataclass

PIECE_BYTES: Final = 1 << 16
"""Bytes of a piece of work."""


@dataclass(frozen=True, slots=True)
class Copy:
    """One result: the array numbered `source` among the buffers, zeros where that is None."""

    source: int | None
    given: Shape | None
    result: int
    shape: Shape


def copies_code(copies: Sequence[Copy]) -> KernelCode:
    """Return code that makes results; those that lie where their source does stay."""
    functions, phases = [], []
    for number, copy in enumerate(copies):
        nbytes = copy.shape.element_count * copy.shape.element_type.nbytes
        if not nbytes:
            continue
        fn = Function(f"copy{number}", ARGUMENTS)
        units = -(-nbytes // PIECE_BYTES) if _write(fn, copy, nbytes) else 1
        functions.append(fn)
        phases.append(Phase(fn.name, units, seconds(2 * nbytes / units, 0)))
    return KernelCode(tuple(functions), tuple(phases))


def _write(fn: Function, copy: Copy, nbytes: int) -> bool:
    """Write the function of a copy; return whether it works on pieces."""
    result = fn.load("ptr", fn.gep("%buffers", copy.result, "ptr"), 8)
    if copy.source is None or copy.given is None:
        begin, count = _bytes(fn, nbytes)
        fn.call(SET, [fn.gep(result, begin), 0, count, "false"])
        return True
    source = fn.load("ptr", fn.gep("%buffers", copy.source, "ptr"), 8)
    alike = strides(copy.given) == strides(copy.shape)
    with fn.when(fn.op(f"icmp ne ptr {source}, {result}")):
        if alike:
            begin, count = _bytes(fn, nbytes)
            places = [fn.gep(result, begin), fn.gep(source, begin)]
            fn.call(COPY, [*places, count, "false"])
        else:
            _transposed(fn, copy.given, copy.shape, source, result)
    return alike


def _bytes(fn: Function, nbytes: int) -> tuple[Integer, Integer]:
    """The first byte of the pieces, and the number of their bytes."""
    begin = fn.mul("%begin", PIECE_BYTES)
    return begin, fn.sub(fn.min(fn.mul("%end", PIECE_BYTES), nbytes), begin)


def _transposed(fn: Function, given: Shape, shape: Shape, source: str, result: str) -> None:
    """Copy between different layouts, element by element."""
    bits = f"i{8 * shape.element_type.nbytes}"
    align = element_bytes(shape.element_type)
    with fn.loop(0, shape.element_count) as loop:
        rest: Integer = loop.index
        places: list[Integer] = [0, 0]
        for d in range(shape.rank - 1, -1, -1):
            at, rest = fn.rem(rest, shape.dimensions[d]), fn.div(rest, shape.dimensions[d])
            for number, one in enumerate((given, shape)):
                places[number] = fn.add(places[number], fn.mul(at, strides(one)[d]))
        value = fn.load(bits, fn.gep(source, places[0], bits), align)
        fn.store(bits, value, fn.gep(result, places[1], bits), align)
