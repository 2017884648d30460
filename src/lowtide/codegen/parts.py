"""Functions that each do a part of the work of a kernel, put together to its phases."""

from __future__ import annotations

from collections.abc import Sequence

from lowtide.codegen.kernel import ARGUMENTS, KernelCode
from lowtide.ir.thunk import Phase
from lowtide.llvm.function import Function
from lowtide.records import dataclass


@dataclass(frozen=True, slots=True)
class KernelPart:
    """A function of pieces of work, and what it needs of the module, other functions among it."""

    function: Function
    units: int
    unit_seconds: float
    globals: str = ""
    others: tuple[Function, ...] = ()


def concatenated(parts: Sequence[KernelPart], name: str = "parts") -> KernelCode:
    """Return one phase which has the pieces of all parts; `name` is that of its function."""
    text = "\n".join(dict.fromkeys([line for x in parts for line in x.globals.splitlines()]))
    functions = [y for x in parts for y in (*x.others, x.function)]
    units = sum([x.units for x in parts])
    if len(parts) == 1:
        phase = Phase(parts[0].function.name, units, parts[0].unit_seconds)
        return KernelCode(tuple(functions), (phase,) if units else (), text)
    fn = Function(name, ARGUMENTS)
    first = 0
    for part in parts:
        begin = fn.max(fn.sub("%begin", first), 0)
        end = fn.min(fn.sub("%end", first), part.units)
        first += part.units
        with fn.when(fn.compare("slt", begin, end)):
            fn.call(part.function, ["%buffers", "%scratch", begin, end, "%thread"])
    total = sum([x.units * x.unit_seconds for x in parts])
    phase = Phase(fn.name, units, total / max(units, 1))
    return KernelCode((*functions, fn), (phase,) if units else (), text)


def in_turn(codes: Sequence[KernelCode]) -> KernelCode:
    """Return the phases of all codes, one after the other."""
    text = "\n".join(dict.fromkeys([line for x in codes for line in x.globals.splitlines()]))
    functions = [x for code in codes for x in code.functions]
    return KernelCode(tuple(functions), tuple([x for code in codes for x in code.phases]), text)
