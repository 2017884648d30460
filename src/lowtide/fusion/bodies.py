"""The bodies of fusions, one for all that compute the same."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import final

from lowtide.ir import Computation, Instruction, Module, Opcode
from lowtide.ir.attributes import Constant, Parameter


@final
class Bodies:
    """Makes bodies of fusions in a module; equal ones are made once.

    Models are layers of the same kernels: most bodies are equal to one that is there already. Names
    and source lines do not matter, those of the first stay.
    """

    def __init__(self, module: Module) -> None:
        self._module = module
        self._made: dict[Hashable, Computation] = {}

    def of(
        self, members: Sequence[Instruction], root: Instruction
    ) -> tuple[Computation, list[Instruction]]:
        """Return a computation of instructions, and what it has to be given.

        `members` stand operands first and have no control edges; `root` is the one whose value is
        the result.
        """
        number: dict[Instruction, int] = {}
        outside: list[Instruction] = []
        rows: list[Hashable] = []
        for place, member in enumerate(members):
            for operand in member.operands:
                if operand not in number:
                    outside.append(operand)
                    number[operand] = -len(outside)
            rows.append(_row(member, number))
            number[member] = place
        key = (number[root], tuple(rows), tuple([x.shape for x in outside]))
        body = self._made.get(key)
        if body is None:
            body = self._made[key] = self._copied(members, root, outside)
        return body, outside

    def _copied(
        self, members: Sequence[Instruction], root: Instruction, outside: Sequence[Instruction]
    ) -> Computation:
        body = self._module.add_computation("fused_computation")
        inside: dict[Instruction, Instruction] = {}
        parameters = enumerate(outside)
        for member in members:
            while not all(x in inside for x in member.operands):
                number, value = next(parameters)
                name = f"param_{number}"
                inside[value] = body.add(
                    Opcode.PARAMETER, value.shape, (), Parameter(number), name=name
                )
            inside[member] = copied(member, body, tuple([inside[x] for x in member.operands]))
        body.root = inside[root]
        return body


def _row(member: Instruction, number: dict[Instruction, int]) -> Hashable:
    """Return what an instruction computes; itself where that is not all in its text."""
    attributes = member.attributes
    if isinstance(attributes, Constant) and attributes.literal.elided:
        return member
    return (
        member.opcode,
        member.shape,
        tuple([number[x] for x in member.operands]),
        attributes,
        member.called_computations,
        member.annotations,
    )


def copied(
    member: Instruction, body: Computation, operands: tuple[Instruction, ...]
) -> Instruction:
    """Add the same instruction to a body, with other operands; return it."""
    copy = body.add(
        member.opcode,
        member.shape,
        operands,
        member.attributes,
        member.called_computations,
        name=member.name,
    )
    copy.set_metadata(member.raw_metadata)
    copy.set_annotations(member.annotations)
    return copy
