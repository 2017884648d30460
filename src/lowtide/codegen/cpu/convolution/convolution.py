"""Convolutions, alone and with what is fused into them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from lowtide.codegen.arrays import strides
from lowtide.codegen.cpu.contraction.arithmetic import (
    Arithmetic,
    MultiplyMethod,
    arithmetic_of,
    lanes_of,
    quads_of,
    without_pairs,
)
from lowtide.codegen.cpu.contraction.finishing import Epilogue
from lowtide.codegen.cpu.convolution.choosing import choices, has_lanes, lanes_of_columns
from lowtide.codegen.cpu.convolution.code import convolution_code
from lowtide.codegen.cpu.convolution.kernel_panels import kernel_panels
from lowtide.codegen.cpu.convolution.problem import ConvolutionProblem, in_units, problem_of
from lowtide.codegen.cpu.convolution.scheme import ConvolutionScheme
from lowtide.codegen.cpu.convolution.work import Convolver
from lowtide.codegen.elements.operands import members, roots_of
from lowtide.codegen.elements.table import has_rule
from lowtide.codegen.kernel import KernelCode, KernelPlan, first_of
from lowtide.ir import ElementType, Instruction, Opcode
from lowtide.llvm.target import Target
from lowtide.ops.surrounding import surrounded


def plan_convolution(instruction: Instruction, target: Target) -> KernelPlan | None:
    """Return the plan of a convolution of arrays in memory, None where loops do as well.

    That is where there is nothing to add up or to store, and for predicates.
    """
    return _planned(Epilogue(instruction, instruction, (instruction,)), target)


def plan_fused_convolution(fusion: Instruction, target: Target) -> KernelPlan | None:
    """Return the plan of a fusion around one convolution, None where it is none of this kind.

    Operands of the convolution are computed while they are copied and packed. Behind it stand
    operations that keep its elements apart.
    """
    found = members(fusion)
    heroes = [x for x in found if x.opcode is Opcode.CONVOLUTION]
    if len(heroes) != 1 or any(x.opcode in (Opcode.FUSION, Opcode.DOT) for x in found):
        return None
    root = fusion.called_computations[0].root
    finish = Epilogue(heroes[0], fusion, tuple(roots_of(root)))
    if not all(has_rule(x) for x in found) or not finish.is_possible():
        return None
    return _planned(finish, target)


def _planned(finish: Epilogue, target: Target) -> KernelPlan | None:
    convolution = finish.dot
    around = None if finish.kernel is convolution else surrounded(convolution)
    data, fill = (around.data, around.fill) if around else (convolution.operands[0], 0)
    problem = problem_of(convolution, *((data.shape, around.window) if around else ()))
    types = [x.shape.element_type for x in (*convolution.operands, convolution)]
    if problem is None or not problem.products or ElementType.PRED in types:
        return None
    how = _arithmetic(problem, types, target)
    counted = in_units(problem, how.group)
    has_finish = not finish.is_plain(how) or not _columns_lie_together(problem, how, target)
    ready = {
        "is_ready": _is_ready(finish, data, how),
        "weights_ready": _is_weights_ready(finish, problem, how),
        "is_zero_around": not fill,
    }
    panels = kernel_panels(convolution.operands[1], finish.kernel, problem, how)

    def ways() -> Iterator[KernelPlan]:
        given = choices(counted, how, target, has_finish=has_finish, panels=panels, **ready)
        for x in given:
            write = partial(_code, x, target, finish, data, fill)
            yield KernelPlan(write, x.shared_bytes, x.thread_bytes)

    return first_of(ways)


def _code(
    scheme: ConvolutionScheme, target: Target, finish: Epilogue, data: Instruction, fill: int
) -> KernelCode:
    return convolution_code(Convolver(scheme, target, finish, data, fill))


def _arithmetic(
    problem: ConvolutionProblem, types: list[ElementType], target: Target
) -> Arithmetic:
    """How elements are multiplied: several integers at once where they lie one after the other."""
    how = arithmetic_of(types[0], types[1], types[2], target)
    if how.method is not MultiplyMethod.S16_PAIRS:
        return without_pairs(how)
    if has_lanes(problem, how.lanes(target)):
        return lanes_of(how, types[0])
    feature = problem.numbers.input_feature
    if strides(problem.input)[feature] != 1 or problem.channels == 1:
        return without_pairs(how)
    return how if problem.channels == how.group else quads_of(how, types[0], types[1], target)


def _is_ready(finish: Epilogue, operand: Instruction, how: Arithmetic) -> bool:
    """Whether an operand is an array in memory, of what is multiplied, as it is."""
    if finish.kernel is not finish.dot and operand.opcode is not Opcode.PARAMETER:
        return False
    type_, unit = operand.shape.element_type, how.element
    return type_ is unit or (type_.is_integer and unit.is_integer and type_.bits == unit.bits)


def _is_weights_ready(finish: Epilogue, problem: ConvolutionProblem, how: Arithmetic) -> bool:
    """Whether the kernel is an array of what is multiplied, in which columns are neighbours."""
    weights = finish.dot.operands[1]
    if finish.kernel is not finish.dot and weights.opcode is not Opcode.PARAMETER:
        return False
    feature, type_ = problem.numbers.kernel_output_feature, weights.shape.element_type
    if strides(weights.shape)[feature] != 1 or how.planes > 1:
        return False
    if how.method is MultiplyMethod.S16_LANES:
        return type_ in (ElementType.S8, ElementType.U8, ElementType.S16)
    return how.group == 1 and type_ is how.element


def _columns_lie_together(problem: ConvolutionProblem, how: Arithmetic, target: Target) -> bool:
    """Whether vectors of columns can be stored; not one alone, which LLVM 22 stores as two."""
    feature = problem.numbers.output_feature
    columns = problem.output.dimensions[feature]
    lanes = lanes_of_columns(problem, how, target)
    rest = {columns % lanes, problem.outputs % lanes}
    return strides(problem.output)[feature] == 1 and 1 not in rest
