"""Fourier transforms of up to three dimensions, of any length."""

from __future__ import annotations

from math import log2
from typing import Final

from lowtide.codegen.cpu.cost import seconds
from lowtide.codegen.cpu.library.copies import Copy, copies_code
from lowtide.codegen.cpu.library.fft_fold import FoldFunction
from lowtide.codegen.cpu.library.fft_pass import PassFunction, Setting, grid_of
from lowtide.codegen.kernel import KernelCode, KernelPlan
from lowtide.codegen.library.fft_form import (
    FftPass,
    FoldPass,
    LinesPlace,
    PassLimits,
    passes_of,
)
from lowtide.codegen.library.fft_scratch import COMPLEX, lies_in_rows, places_in_scratch
from lowtide.ir import ElementType, Instruction
from lowtide.ir.attributes import Fft
from lowtide.ir.errors import unsupported
from lowtide.ir.thunk import Phase
from lowtide.llvm.target import Target

_LONGEST: Final = 4096
"""The longest transform that stays in the caches for a vector of lines."""

_LONGEST_HALVED: Final = 32768
"""The same for lines of real numbers: two passes of complex ones cost more up to there."""


def plan_fft(instruction: Instruction, target: Target) -> KernelPlan | None:
    """Return the plan of an fft whose operand is an array in row-major order."""
    operand, shape = instruction.operands[0].shape, instruction.shape
    if not all(lies_in_rows(x) for x in (operand, shape)):
        raise unsupported(instruction, "native code takes arrays in row-major order here")
    if not operand.element_count or 0 in instruction.attributes_as(Fft).length:
        return KernelPlan(lambda: copies_code([Copy(None, None, 1, shape)]))
    type_ = COMPLEX[operand.element_type]
    lanes = target.vector_bytes // (8 if type_ is ElementType.C128 else 4)
    passes = passes_of(instruction, PassLimits(lanes, _LONGEST, _LONGEST_HALVED))
    starts, shared = places_in_scratch(passes, operand, (LinesPlace.INPUT,))
    grids = [grid_of(type_, x, lanes) for x in passes if isinstance(x, FftPass)]
    thread = 2 * max([x.nbytes for x in grids])
    setting = Setting(
        type_, operand.element_type, shape.element_type, lanes, target, starts, shared, thread
    )
    return KernelPlan(lambda: _code(passes, setting), shared, thread)


def _code(passes: tuple[FftPass | FoldPass, ...], setting: Setting) -> KernelCode:
    functions, phases = [], []
    texts: dict[str, str] = {}
    for number, one in enumerate(passes):
        writer: PassFunction | FoldFunction
        if isinstance(one, FoldPass):
            writer, cycles = FoldFunction(one, setting, f"pass{number}"), 64.0
        else:
            writer = PassFunction(one, setting, f"pass{number}")
            cycles = 2 * one.n * (4 + 3 * log2(max(one.n, 2))) + 20 * one.n
        writer.write()
        functions.append(writer.fn)
        texts |= writer.elements.globals
        phases.append(Phase(writer.fn.name, writer.units, seconds(0, cycles)))
    return KernelCode(tuple(functions), tuple(phases), "\n".join(texts.values()))
