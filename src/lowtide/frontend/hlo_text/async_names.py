"""Names of the computations that asynchronous sugar stands for, which the text does not show."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from lowtide.ir.computation import Computation
from lowtide.ir.instruction import Instruction
from lowtide.ir.module import Module
from lowtide.ir.names import NameUniquer
from lowtide.ir.printer import sugared_computations
from lowtide.ir.traversal import printed_order, sequence

WRAPPED: Final = "async_wrapped"
"""The name of a computation that is made of sugar."""


def parameter_name(number: int) -> str:
    """Return the name of a parameter of such a computation; its root is named after its opcode."""
    return f"async_param.{number}" if number else "async_param"


def keep_names(module: Module) -> None:
    """Give what the text shows the names that it gets when the printed text is read.

    As a rule names are given as they come, as in XLA. But in printed text no name may change,
    though what sugar stands for takes names that were given otherwise when the text was first read.
    """
    hidden = sugared_computations(module.computations.values())
    order = _order_of_reading(module, hidden)
    _keep_instruction_names(module, order, hidden)
    _keep_computation_names(module, order, hidden)


def _keep_instruction_names(
    module: Module, order: Sequence[Computation], hidden: set[Computation]
) -> None:
    names = NameUniquer()
    given: dict[Instruction, str] = {}
    shown_stay = True
    for computation in order:
        if computation in hidden:
            for number, parameter in enumerate(computation.parameters):
                given[parameter] = names.unique(parameter_name(number))
            given[computation.root] = names.unique(computation.root.opcode.value)
        else:
            for instruction in sequence(computation):
                name = given[instruction] = names.unique(instruction.name)
                shown_stay &= name == instruction.name
    if shown_stay:
        return
    module.instruction_names = names
    for instruction, name in given.items():
        instruction.name = name
    for computation in order:
        computation.instructions = {x.name: x for x in computation.instructions.values()}


def _keep_computation_names(
    module: Module, order: Sequence[Computation], hidden: set[Computation]
) -> None:
    names = NameUniquer()
    given = {x: names.unique(WRAPPED if x in hidden else x.name) for x in order}
    if all(x.name == name or x in hidden for x, name in given.items()):
        return
    module.computation_names = names
    for computation, name in given.items():
        computation.name = name
    module.computations = {x.name: x for x in module.computations.values()}


def _order_of_reading(module: Module, hidden: set[Computation]) -> list[Computation]:
    """Return the computations as they are made when the printed text is read.

    Each hidden one is made where the text calls it, just before the caller is complete.
    """
    order: dict[Computation, None] = {}
    for computation in printed_order(module):
        if computation not in hidden:
            order.update(dict.fromkeys(_hidden_callees(computation, hidden)))
            order[computation] = None
    return list(order)


def _hidden_callees(computation: Computation, hidden: set[Computation]) -> Iterator[Computation]:
    for instruction in sequence(computation):
        for callee in instruction.called_computations:
            if callee in hidden:
                yield from _hidden_callees(callee, hidden)
                yield callee
