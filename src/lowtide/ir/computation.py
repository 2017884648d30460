"""Computation: a function of HLO instructions with one root."""

from __future__ import annotations

from bisect import insort
from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, final

from lowtide.ir.annotations import Annotations
from lowtide.ir.attributes import MAIN_THREAD, NO_ATTRIBUTES, Attributes, Parameter
from lowtide.ir.instruction import Instruction
from lowtide.ir.opcode import Opcode
from lowtide.ir.shape import ProgramShape, Shape

if TYPE_CHECKING:
    from lowtide.ir.module import Module


@final
class Computation:
    """A named set of instructions. It owns them; their names are unique in the module.

    `version` grows with every change, so an analysis result holds for one version (`kept.py`).
    Make computations with `Module.add_computation`.
    """

    __slots__ = (
        "_next_id",
        "_root",
        "execution_thread",
        "id",
        "instructions",
        "kept",
        "module",
        "name",
        "parameters",
        "version",
    )

    def __init__(self, name: str, module: Module, number: int) -> None:
        self.name = name
        self.module = module
        self.id = number
        self.instructions: dict[str, Instruction] = {}
        """The instructions by name, in order of creation."""
        self.parameters: list[Instruction] = []
        """The parameters, in order of their numbers once all of them are there."""
        self.execution_thread = MAIN_THREAD
        self.version = 0
        self.kept: dict[Hashable, tuple[int, object]] = {}
        """What analyses found, and the versions for which that holds: see `kept.py`."""
        self._root: Instruction | None = None
        self._next_id = 0

    @property
    def root(self) -> Instruction:
        """The instruction whose value is the result."""
        if self._root is None:
            raise ValueError(f"computation {self.name} has no root")
        return self._root

    @root.setter
    def root(self, instruction: Instruction) -> None:
        self._root = instruction
        self.version += 1

    @property
    def has_root(self) -> bool:
        """Whether a root is set, as it is in every complete computation."""
        return self._root is not None

    @property
    def program_shape(self) -> ProgramShape:
        """The shapes and names of the parameters, and the shape of the root."""
        return ProgramShape(
            tuple([p.shape for p in self.parameters]),
            self.root.shape,
            tuple([p.name for p in self.parameters]),
        )

    @property
    def is_entry(self) -> bool:
        """Whether this is the computation where the module starts."""
        return self.module.has_entry and self.module.entry is self

    def touch(self) -> None:
        """Record a change, which makes cached analyses of this computation stale."""
        self.version += 1

    # -- the doors -----------------------------------------------------------------------------

    def add(
        self,
        opcode: Opcode,
        shape: Shape,
        operands: tuple[Instruction, ...] = (),
        attributes: Attributes = NO_ATTRIBUTES,
        called_computations: tuple[Computation, ...] = (),
        name: str | None = None,
    ) -> Instruction:
        """Create an instruction; `name` (default: the opcode) gets a number where it is taken."""
        unique = self.module.instruction_names.unique(name or opcode.value)
        self.version += 1
        return self.append(unique, opcode, shape, operands, attributes, called_computations)

    def add_like(
        self,
        instruction: Instruction,
        operands: tuple[Instruction, ...],
        *,
        shape: Shape | None = None,
        attributes: Attributes | None = None,
        called_computations: tuple[Computation, ...] | None = None,
        annotations: Annotations | None = None,
    ) -> Instruction:
        """Create an instruction that does to `operands` what `instruction` does to its own.

        What is not given is that of `instruction`, which may stand in another module. The name is
        its name, with a number where that is taken, and the metadata come along; control edges and
        the place in the source text do not.
        """
        made = self.add(
            instruction.opcode,
            instruction.shape if shape is None else shape,
            operands,
            instruction.attributes if attributes is None else attributes,
            instruction.called_computations if called_computations is None else called_computations,
            instruction.name,
        )
        made.set_metadata(instruction.raw_metadata)
        made.annotations = instruction.annotations if annotations is None else annotations
        return made

    def append(
        self,
        name: str,
        opcode: Opcode,
        shape: Shape,
        operands: tuple[Instruction, ...] = (),
        attributes: Attributes = NO_ATTRIBUTES,
        called_computations: tuple[Computation, ...] = (),
    ) -> Instruction:
        """Create an instruction whose name is kept: for readers of modules.

        The name must be free in this computation; `Module.adopt` makes it unique in the module.
        """
        instruction = Instruction(
            name, opcode, shape, operands, attributes, called_computations, self, self._next_id
        )
        self._next_id += 1
        self.kept.clear()
        self.instructions[name] = instruction
        if opcode is Opcode.PARAMETER:
            self._insert_parameter(instruction)
        return instruction

    def rename_uniquely(self) -> None:
        """Register the names of all instructions with the module, and number those taken."""
        unique = self.module.instruction_names.unique
        changed = False
        for name, instruction in self.instructions.items():
            instruction.name = unique(name)
            changed |= instruction.name != name
        if changed:
            self.instructions = {x.name: x for x in self.instructions.values()}

    def reorder(self, instructions: Iterable[Instruction]) -> None:
        """Make the order of creation that of `instructions`, which are all of this computation."""
        self.kept.clear()
        self.instructions = {x.name: x for x in instructions}
        for number, instruction in enumerate(self.instructions.values()):
            instruction.id = number

    def renumber(self, number: int, ids: Iterable[int]) -> None:
        """Take the numbers that a file has for the computation and, in order, its instructions.

        `ids` must grow; later instructions get larger ones.
        """
        self.id = number
        for instruction, local in zip(self.instructions.values(), ids, strict=True):
            instruction.id = local
            self._next_id = local + 1

    def _insert_parameter(self, parameter: Instruction) -> None:
        insort(self.parameters, parameter, key=lambda p: p.attributes_as(Parameter).number)

    def remove(self, instruction: Instruction) -> None:
        """Remove an instruction without users that is not the root.

        What had to run before it still runs before what had to run after it. Raises ValueError
        where the instruction is in use.
        """
        if instruction.users or instruction is self._root:
            raise ValueError(f"{instruction} is still in use")
        if instruction.has_control_edges:
            _take_out_of_control(instruction)
        for operand in instruction.operands:
            operand.users.pop(instruction, None)
        del self.instructions[instruction.name]
        if instruction.opcode is Opcode.PARAMETER:
            self.parameters.remove(instruction)
        self.version += 1

    def __repr__(self) -> str:
        return f"<Computation {self.name}, {len(self.instructions)} instructions>"


def _take_out_of_control(instruction: Instruction) -> None:
    """Have what came before an instruction come before what came after it, without it."""
    predecessors = list(instruction.control_predecessors)
    for successor in list(instruction.control_successors):
        successor.drop_control_predecessors([instruction])
        for predecessor in predecessors:
            successor.add_control_predecessor(predecessor)
    instruction.drop_control_predecessors(predecessors)
