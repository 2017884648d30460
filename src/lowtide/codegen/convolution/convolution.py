"""Convolutions, alone and with what is fused into them."""

from __future__ import annotations

from lowtide.codegen.contraction.arithmetic import Arithmetic, arithmetic_of, without_pairs
from lowtide.codegen.contraction.finishing import Finish
from lowtide.codegen.convolution.choosing import choose
from lowtide.codegen.convolution.code import Convolver
from lowtide.codegen.convolution.problem import Problem, problem_of
from lowtide.codegen.element_rules import has_rule
from lowtide.codegen.kernel import Plan
from lowtide.codegen.operands import members, roots_of
from lowtide.codegen.reading import strides
from lowtide.ir import ElementType, Instruction, Opcode
from lowtide.llvm.target import Target


def plan_convolution(instruction: Instruction, target: Target) -> Plan | None:
    """Return the plan of a convolution of arrays in memory, None where loops do as well.

    That is where there is nothing to add up or to store, and for predicates.
    """
    return _planned(Finish(instruction, instruction, (instruction,)), target)


def plan_fused_convolution(fusion: Instruction, target: Target) -> Plan | None:
    """Return the plan of a fusion around one convolution, None where it is none of this kind.

    Operands of the convolution are computed while they are copied and packed. Behind it stand
    operations that keep its elements apart.
    """
    found = members(fusion)
    heroes = [x for x in found if x.opcode is Opcode.CONVOLUTION]
    if len(heroes) != 1 or any(x.opcode in (Opcode.FUSION, Opcode.DOT) for x in found):
        return None
    root = fusion.called_computations[0].root
    finish = Finish(heroes[0], fusion, tuple(roots_of(root)))
    if not all(has_rule(x) for x in found) or not finish.is_possible():
        return None
    return _planned(finish, target)


def _planned(finish: Finish, target: Target) -> Plan | None:
    convolution = finish.dot
    problem = problem_of(convolution)
    types = [x.shape.element_type for x in (*convolution.operands, convolution)]
    if problem is None or not problem.products or ElementType.PRED in types:
        return None
    how = without_pairs(arithmetic_of(types[0], types[1], types[2], target))
    has_finish = not finish.is_plain(how) or not _columns_lie_together(problem, how, target)
    data = convolution.operands[0]
    scheme = choose(problem, how, target, data, has_finish=has_finish)
    convolver = Convolver(scheme, target, finish)
    return Plan(convolver.code, scheme.shared_bytes, scheme.thread_bytes)


def _columns_lie_together(problem: Problem, how: Arithmetic, target: Target) -> bool:
    """Whether vectors of columns can be stored; not one alone, which LLVM 22 stores as two."""
    feature = problem.numbers.output_feature
    columns = problem.output.dimensions[feature]
    rest = {columns % how.lanes(target), problem.outputs % how.lanes(target)}
    return strides(problem.output)[feature] == 1 and 1 not in rest
