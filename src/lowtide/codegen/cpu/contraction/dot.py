"""Dots, alone and with what is fused into them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from lowtide.codegen.cpu.contraction.arithmetic import Arithmetic, arithmetic_of, quads_of, tiled
from lowtide.codegen.cpu.contraction.choice import (
    blocked_schemes,
    is_better_swapped,
    is_large,
    lies_in_panels,
)
from lowtide.codegen.cpu.contraction.finishing import Epilogue
from lowtide.codegen.cpu.contraction.gemm import Gemm
from lowtide.codegen.cpu.contraction.geometry import Geometry, Roles, geometry_of
from lowtide.codegen.cpu.contraction.inner import Inner
from lowtide.codegen.cpu.contraction.inner_scheme import inner_scheme
from lowtide.codegen.cpu.contraction.operands import OperandSide
from lowtide.codegen.cpu.contraction.phases import gemm_code
from lowtide.codegen.cpu.contraction.product import S, scratch
from lowtide.codegen.cpu.contraction.strip_scheme import strip_scheme
from lowtide.codegen.cpu.contraction.strips import Strips
from lowtide.codegen.cpu.contraction.views import view_of, whole
from lowtide.codegen.cpu.strided import FARTHEST
from lowtide.codegen.elements.operands import members, roots_of
from lowtide.codegen.elements.table import has_rule
from lowtide.codegen.elementwise import memory
from lowtide.codegen.kernel import KernelCode, KernelPlan, first_of
from lowtide.ir import ElementType, Instruction, Opcode
from lowtide.ir.attributes import Dot, DotAlgorithm, ReducePrecision
from lowtide.llvm.target import Target

ROUNDED: Final = {
    DotAlgorithm.F16_F16_F16: ReducePrecision(5, 10),
    DotAlgorithm.F16_F16_F32: ReducePrecision(5, 10),
    DotAlgorithm.BF16_BF16_BF16: ReducePrecision(8, 7),
    DotAlgorithm.BF16_BF16_F32: ReducePrecision(8, 7),
    DotAlgorithm.TF32_TF32_F32: ReducePrecision(8, 10),
}
"""The algorithms that round operands. Those that add up products of several parts of them come
close to the products of f32, which are taken instead; the others change nothing."""

_PLAIN_BYTES: Final = 4
"""Bytes of an element from which on it is computed with as it lies in memory."""

_FEW: Final = 8
"""Products of which a sum in turn, as loops of elements write it, is ready before one of lanes; and
columns that such loops can have beside each other."""

_SHORT: Final = 6
"""Products of which a sum in turn is added up sooner than across the lanes of a vector."""


def plan_dot(instruction: Instruction, target: Target) -> KernelPlan | None:
    """Return the plan of a dot whose operands are arrays in memory, None for a sum of few."""
    finish = Epilogue(instruction, instruction, (instruction,))
    return _planned(finish, target)


def plan_fused_dot(fusion: Instruction, target: Target) -> KernelPlan | None:
    """Return the plan of a fusion around one dot, None where it is none that is written here.

    Operands of the dot are computed while they are read. Behind it stand operations that keep its
    elements apart.
    """
    members_ = members(fusion)
    dots = [x for x in members_ if x.opcode is Opcode.DOT]
    if len(dots) != 1 or any(x.opcode is Opcode.FUSION for x in members_):
        return None
    finish = Epilogue(dots[0], fusion, tuple(roots_of(fusion.called_computations[0].root)))
    if not all(has_rule(x) for x in members_) or not finish.is_possible():
        return None
    return _planned(finish, target)


def _planned(finish: Epilogue, target: Target) -> KernelPlan | None:
    dot = finish.dot
    shape = geometry_of(dot)
    if not shape.batch * shape.m * shape.n:
        return KernelPlan(lambda: KernelCode((), ()))
    if shape.batch * shape.m * shape.n == 1 and shape.k <= _FEW and _algorithm(dot) not in ROUNDED:
        return None
    types = [x.shape.element_type for x in (*dot.operands, dot)]
    how = arithmetic_of(types[0], types[1], types[2], target)
    wide = tiled(how, types[0], types[1], target)
    if wide is not None and is_large(shape, wide):
        how = wide
    rows, columns = _side(finish, 0, shape.rows), _side(finish, 1, shape.columns)
    in_panels = [lies_in_panels(how, x, target) for x in (rows, columns)]
    if in_panels == [True, False] or is_better_swapped(shape, rows):
        shape, rows, columns = shape.swapped(), columns, rows
    packed = quads_of(how, rows.type, columns.type, target)
    is_plain = min([x.nbytes for x in types[:2]]) >= _PLAIN_BYTES and _algorithm(dot) not in ROUNDED
    if columns.lies_along_k and is_plain and _are_tiny(shape, how, target):
        return None
    return first_of(partial(_ways, shape, how, packed, rows, columns, finish, target))


def _are_tiny(shape: Geometry, how: Arithmetic, target: Target) -> bool:
    """Whether there are many products of a row with a few columns that do not fill a vector.

    Loops of elements then have a product in each lane, and nothing is added up across lanes. Types
    that are widened take longer to gather than that saves, and so do matrices so far apart that
    their elements are loaded one by one.
    """
    lanes = how.lanes(target)
    if shape.m != 1 or shape.n > _FEW or shape.batch < 2 * lanes:
        return False
    if shape.n * shape.k <= FARTHEST:
        return shape.k <= min(lanes, _SHORT)
    return 2 * shape.k < lanes and memory.gathers_fast(target)


def _ways(
    shape: Geometry,
    how: Arithmetic,
    packed: Arithmetic,
    rows: OperandSide,
    columns: OperandSide,
    finish: Epilogue,
    target: Target,
) -> Iterator[KernelPlan]:
    """Yield ways to compute a product, the one that seems fastest first.

    `packed` is the arithmetic where columns are packed.
    """
    given = (target, rows, columns, finish)
    has_finish = not finish.is_plain(how)
    inner = inner_scheme(shape, how, packed, rows, columns, target, has_finish)
    if inner is not None:
        yield _plan(inner, target, lambda scheme: Inner(scheme, *given).code())
    strips = strip_scheme(shape, how, rows, columns, target)
    if strips is not None and not lies_in_panels(how, columns, target):
        yield _plan(strips, target, lambda scheme: Strips(scheme, *given).code())
    for found in blocked_schemes(shape, packed, rows, columns, finish, target):
        yield _plan(found, target, lambda scheme: gemm_code(Gemm(scheme, *given)))


def _plan(scheme: S, target: Target, write: Callable[[S], KernelCode]) -> KernelPlan:
    return KernelPlan(partial(write, scheme), *scratch(scheme, target))


def _side(finish: Epilogue, number: int, roles: Roles) -> OperandSide:
    operand = finish.dot.operands[number]
    is_array = finish.kernel is finish.dot
    view = whole(operand) if is_array else view_of(operand, finish.kernel)
    is_wide = operand.shape.element_type in (ElementType.F32, ElementType.F64)
    rounded_to = ROUNDED.get(_algorithm(finish.dot)) if is_wide else None
    return OperandSide(operand, roles, view, finish.kernel, rounded_to)


def _algorithm(dot: Instruction) -> DotAlgorithm:
    return dot.attributes_as(Dot).precision.algorithm
