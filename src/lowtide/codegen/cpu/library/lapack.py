"""Calls of LAPACK: one piece of work for each matrix of a batch.

A matrix is copied into scratch, column by column, whatever its layout; SciPy's routine runs there,
with workspaces as long as it asks for; and results are copied to where they belong.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from lowtide.codegen.cpu.library.lapack_code import Argument, LapackForm, lapack_code
from lowtide.codegen.cpu.library.lapack_routines import (
    ROUTINES,
    Area,
    Arguments,
    MatrixOrder,
    One,
    Routine,
    RoutineCall,
    RoutineSetting,
    Work,
)
from lowtide.codegen.elements.operands import leaves
from lowtide.codegen.kernel import KernelPlan
from lowtide.ir import ElementType, Instruction, Shape
from lowtide.ir.attributes import CustomCall
from lowtide.ir.errors import unsupported
from lowtide.ir.literal import DTYPES
from lowtide.llvm import lapack
from lowtide.llvm.target import Target
from lowtide.ops.custom_call import call_options


def plan_lapack(instruction: Instruction, target: Target) -> KernelPlan | None:
    """Return the plan of a call of LAPACK, None for another call.

    Raises UnsupportedOpError where operands and results are not those of the routine, and where
    SciPy is not there to run it.
    """
    routine = ROUTINES.get(instruction.attributes_as(CustomCall).target)
    if routine is None:
        return None
    operands = [x.shape for x in instruction.operands]
    results = leaves(instruction.shape)
    batch = operands[0].dimensions[: -routine.operands[0]] if operands else ()
    ranks = [len(batch) + x for x in routine.operands], [len(batch) + x for x in routine.results]
    if ([x.rank for x in operands], [x.rank for x in results]) != ranks:
        raise _misfit(instruction, routine)
    call = routine.describe(_setting(routine, instruction, len(batch), operands, results))
    _check(instruction, routine, call, batch, results)
    try:
        form = LapackForm(routine.name, call, batch, _resolved(routine.name, call.arguments))
    except lapack.MissingRoutineError as error:
        raise unsupported(instruction, f"{error}; the evaluator runs it (--reference)") from None
    return KernelPlan(lambda: lapack_code(instruction, form, target), 0, form.nbytes)


def _setting(
    routine: Routine,
    instruction: Instruction,
    batch: int,
    operands: Sequence[Shape],
    results: Sequence[Shape],
) -> RoutineSetting:
    orders = [[_order(x, batch) for x in shapes] for shapes in (operands, results)]
    for x in instruction.attributes_as(CustomCall).output_to_operand_aliasing:
        result = x.output_index[0] if x.output_index else 0
        if orders[0][x.operand] is not orders[1][result]:
            orders[1][result] = (
                MatrixOrder.OTHER
            )  # Nothing is turned round in the bytes where it lies.
    return RoutineSetting(
        routine.type,
        call_options(instruction),
        tuple([x.dimensions[batch:] for x in operands]),
        tuple([x.dimensions[batch:] for x in results]),
        *[tuple(x) for x in orders],
    )


def _order(shape: Shape, batch: int) -> MatrixOrder:
    """Return how the matrices of a batch lie, which has `batch` dimensions."""
    before, own = tuple(range(batch)), tuple(range(batch, shape.rank))
    orders = {(*before, *own): MatrixOrder.ROWS, (*before, *own[::-1]): MatrixOrder.COLUMNS}
    return orders.get(shape.physical_order, MatrixOrder.OTHER)


def _misfit(instruction: Instruction, routine: Routine) -> Exception:
    return unsupported(instruction, f"its operands or results are not those of {routine.name}")


def _check(
    instruction: Instruction,
    routine: Routine,
    call: RoutineCall,
    batch: tuple[int, ...],
    results: Sequence[Shape],
) -> None:
    """Raise UnsupportedOpError unless all arrays of the call have the types and sizes they need."""
    operands = [x.shape for x in instruction.operands]
    found = True
    for x in [x for x in call.arguments if isinstance(x, Area)]:
        if x.operand is not None:
            found &= _is(operands[x.operand], x.type, (*batch, *x.sizes))
        if x.result is not None:
            kind = x.type if x.pairs is None else _COMPLEX[x.type]
            found &= _is(results[x.result], kind, (*batch, *x.sizes))
    for operand, result in call.kept:
        found &= _is(results[result], operands[operand].element_type, operands[operand].dimensions)
    if not found:
        raise _misfit(instruction, routine)


def _is(shape: Shape, type_: ElementType, sizes: tuple[int, ...]) -> bool:
    return shape.element_type is type_ and shape.dimensions == sizes


_COMPLEX: Final = {ElementType.F32: ElementType.C64, ElementType.F64: ElementType.C128}


# -- workspaces and places -------------------------------------------------------------------------


def _resolved(name: str, arguments: Arguments) -> list[Argument]:
    """Return arguments with workspaces of the lengths that the routine asks for."""
    if not any(isinstance(x, Work) for x in arguments):  # To ask it would be to run it.
        return [x for x in arguments if not isinstance(x, Work)]
    values: list[lapack.Value] = []
    for x in arguments:
        values += [None, -1] if isinstance(x, Work) else [None if isinstance(x, Area | One) else x]
    answers = iter(lapack.asked(name, values))
    found: list[Argument] = []
    for x in arguments:
        if isinstance(x, str | int):
            found.append(x)
            continue
        answer = next(answers)
        if isinstance(x, Work):
            length = max(int(np.frombuffer(answer, DTYPES[x.type], 1)[0].real), 1)
            found += [Area(x.type, (length,)), length]
        else:
            found.append(x)
    return found
