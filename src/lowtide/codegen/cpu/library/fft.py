"""Fourier transforms of up to three dimensions, of any length."""

from __future__ import annotations

from collections.abc import Sequence
from math import log2, prod
from typing import Final

from lowtide.codegen.cpu.cost import seconds
from lowtide.codegen.cpu.library.copies import Copy, copies_code
from lowtide.codegen.cpu.library.fft_fold import FoldFunction
from lowtide.codegen.cpu.library.fft_groups import MANY_GROUPS, FftStage, stages_of
from lowtide.codegen.cpu.library.fft_pass import PassFunction, Setting, grid_of
from lowtide.codegen.kernel import ARGUMENTS, KernelCode, KernelPlan, rounded
from lowtide.codegen.library.fft_form import FftPass, FoldPass, LinesPlace, PassLimits, passes_of
from lowtide.codegen.library.fft_scratch import COMPLEX, lies_in_rows, places_in_scratch
from lowtide.ir import ElementType, Instruction
from lowtide.ir.attributes import Fft
from lowtide.ir.errors import unsupported
from lowtide.ir.thunk import Phase
from lowtide.llvm.function import Function
from lowtide.llvm.target import Target

_LONGEST: Final = 4096
"""The longest transform that stays in the caches for a vector of lines."""

_LONGEST_HALVED: Final = 32768
"""The same for lines of real numbers: two passes of complex ones cost more up to there."""

_LONGEST_HALVED_OF_MANY: Final = 12288
"""The same where each thread takes a line through both passes."""


_FIRST_CACHE: Final = 32 << 10

_SHORT_VECTOR: Final = 32

_SHORTEST_VECTOR: Final = 16


def plan_fft(instruction: Instruction, target: Target) -> KernelPlan | None:
    """Return the plan of an fft whose operand is an array in row-major order."""
    operand, shape = instruction.operands[0].shape, instruction.shape
    if not all(lies_in_rows(x) for x in (operand, shape)):
        raise unsupported(instruction, "native code takes arrays in row-major order here")
    if not operand.element_count or 0 in instruction.attributes_as(Fft).length:
        return KernelPlan(lambda: copies_code([Copy(None, None, 1, shape)]))
    type_ = COMPLEX[operand.element_type]
    stages, lanes = _stages(instruction, type_, target)
    passes = [x for stage in stages for x in stage.passes]
    starts, shared = places_in_scratch(passes, operand, (LinesPlace.INPUT,))
    grid = _grid_bytes(type_, stages, lanes)
    thread = 2 * grid + max([x.own for x in stages]) * type_.nbytes
    setting = Setting(
        type_,
        operand.element_type,
        shape.element_type,
        lanes,
        target,
        starts,
        shared,
        rounded(thread),
        grid,
    )
    return KernelPlan(lambda: _code(stages, setting), shared, setting.thread_bytes)


def _stages(
    instruction: Instruction, type_: ElementType, target: Target
) -> tuple[list[FftStage], int]:
    """Return the stages, and how many lines are side by side in a vector.

    Vectors are no longer than 32 bytes where two grids of longer ones leave the first cache: half
    as many lines take less time and half the scratch. They have no more lanes than there are lines,
    if no pass is cut into others for that.
    """
    operand = instruction.operands[0].shape
    are_many = prod(operand.dimensions[:-1]) >= MANY_GROUPS
    halved = min(_LONGEST_HALVED, _LONGEST_HALVED_OF_MANY) if are_many else _LONGEST_HALVED

    def cut(vector_bytes: int) -> tuple[list[FftStage], int]:
        lanes = vector_bytes // (8 if type_ is ElementType.C128 else 4)
        limits = PassLimits(lanes, _LONGEST, halved)
        return list(stages_of(passes_of(instruction, limits))), lanes

    found = cut(target.vector_bytes)
    if 2 * _grid_bytes(type_, *found) > _FIRST_CACHE:
        return cut(min(_SHORT_VECTOR, target.vector_bytes))
    vector_bytes = target.vector_bytes
    while vector_bytes > _SHORTEST_VECTOR and 2 * _most_lines(found[0]) <= found[1]:
        vector_bytes //= 2
        shorter = cut(vector_bytes)
        if _lengths(shorter[0]) != _lengths(found[0]):
            break
        found = shorter
    return found


def _most_lines(stages: Sequence[FftStage]) -> int:
    """The most lines that a pass transforms."""
    passes = [x for stage in stages for x in stage.passes]
    return max([x.groups * x.count for x in passes if isinstance(x, FftPass)])


def _lengths(stages: Sequence[FftStage]) -> list[int]:
    """The lengths of the lines of all passes."""
    return [x.n for stage in stages for x in stage.passes if isinstance(x, FftPass)]


def _grid_bytes(type_: ElementType, stages: Sequence[FftStage], lanes: int) -> int:
    passes = [x for stage in stages for x in stage.passes]
    return max([grid_of(type_, x, lanes).nbytes for x in passes if isinstance(x, FftPass)])


def _code(stages: Sequence[FftStage], setting: Setting) -> KernelCode:
    functions, phases = [], []
    texts: dict[str, str] = {}
    for number, stage in enumerate(stages):
        parts, cycles = [], 0.0
        for place, one in enumerate(stage.passes):
            name = f"pass{number}_{place}"
            writer: PassFunction | FoldFunction
            if isinstance(one, FoldPass):
                writer, each = FoldFunction(one, setting, name), 64.0
            else:
                writer = PassFunction(one, setting, name)
                each = 2 * one.n * (4 + 3 * log2(max(one.n, 2))) + 20 * one.n
            writer.write()
            parts.append(writer)
            cycles += each * writer.units
            texts |= writer.elements.globals
        functions += [x.fn for x in parts]
        units = stage.groups or parts[0].units
        if stage.groups:
            functions.append(_in_turn(parts, stage.groups, f"groups{number}"))
        phases.append(Phase(functions[-1].name, units, seconds(0, cycles / units)))
    return KernelCode(tuple(functions), tuple(phases), "\n".join(texts.values()))


def _in_turn(parts: Sequence[PassFunction | FoldFunction], groups: int, name: str) -> Function:
    """Return a function that takes some groups, one after the other, through all passes."""
    fn = Function(name, ARGUMENTS)
    with fn.loop("%begin", "%end") as loop:
        for x in parts:
            units = x.units // groups
            begin = fn.mul(loop.index, units)
            fn.call(x.fn, ["%buffers", "%scratch", begin, fn.add(begin, units), "%thread"])
    return fn
