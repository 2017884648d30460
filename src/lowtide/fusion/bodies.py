"""The bodies of fusions, one for all that compute the same."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import final

from lowtide.analysis.value_numbers import text_key
from lowtide.ir import Computation, Instruction, Module, Opcode
from lowtide.ir.attributes import Parameter


@final
class Bodies:
    """Makes bodies of fusions in a module; equal ones are made once.

    Models are layers of the same kernels: most bodies are equal to one that is there already. Names
    and source lines do not matter, those of the first stay.
    """

    def __init__(self, module: Module) -> None:
        self._module = module
        self._made: dict[Hashable, list[Computation]] = {}
        """The one body of all that compute the same; keys are long, and hashed once each."""

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
            rows.append(text_key(member, number))
            number[member] = place
        key = (number[root], tuple(rows), tuple([x.shape for x in outside]))
        made = self._made.setdefault(key, [])
        if not made:
            made.append(self._copied(members, root, outside))
        return made[0], outside

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
            inside[member] = body.add_like(member, tuple([inside[x] for x in member.operands]))
        body.root = inside[root]
        return body
