"""Instruction: one operation in a computation, with its operands and users."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeVar, final

from lowtide.ir.annotations import NO_ANNOTATIONS, Annotations
from lowtide.ir.attributes import Attributes
from lowtide.ir.metadata import NO_METADATA, Metadata, SourceLocation
from lowtide.ir.opcode import Opcode
from lowtide.ir.shape import Shape

if TYPE_CHECKING:
    from lowtide.ir.computation import Computation
    from lowtide.ir.lazy_metadata import LazyMetadata

A = TypeVar("A", bound=Attributes)

_NONE: Final[Mapping[Instruction, None]] = MappingProxyType({})


@final
class Instruction:
    """A node of the dataflow graph: it produces the value of shape `shape`.

    Invariants, which hold outside of the methods of this class and `Computation`:
      * `operand in instruction.operands` exactly if `instruction in operand.users`.
      * `x in instruction.control_predecessors` exactly if `instruction in x.control_successors`.
      * All operands and control predecessors belong to the computation of the instruction.
      * `name` is unique in the module, `id` in the computation.

    Instructions compare and hash by identity. The graph changes only through the methods of this
    class and of `Computation`; fields are read, never assigned, from outside of `lowtide.ir`.
    `position` is the offset of the definition in the module's source text, -1 where there is none.
    """

    __slots__ = (
        "_metadata",
        "annotations",
        "attributes",
        "called_computations",
        "control_predecessors",
        "control_successors",
        "id",
        "name",
        "opcode",
        "operands",
        "parent",
        "position",
        "shape",
        "users",
    )

    def __init__(
        self,
        name: str,
        opcode: Opcode,
        shape: Shape,
        operands: tuple[Instruction, ...],
        attributes: Attributes,
        called_computations: tuple[Computation, ...],
        parent: Computation,
        number: int,
    ) -> None:
        self.name = name
        self.opcode = opcode
        self.shape = shape
        self.operands = operands
        self.attributes = attributes
        self.called_computations = called_computations
        self.parent = parent
        self.id = number
        self.users: dict[Instruction, None] = {}
        """The instructions which read this one, in order of first use; never with repeats."""
        self.control_predecessors = _NONE
        self.control_successors = _NONE
        self.annotations = NO_ANNOTATIONS
        self.position = -1
        self._metadata: Metadata | LazyMetadata = NO_METADATA
        for operand in operands:
            operand.users[self] = None

    # -- reading -------------------------------------------------------------------------------

    def attributes_as(self, kind: type[A]) -> A:
        """Return the attributes, which must be of class `kind`; raises TypeError otherwise."""
        if not isinstance(self.attributes, kind):
            found = type(self.attributes).__name__
            raise TypeError(f"{self.name}: {self.opcode} has {found}, not {kind.__name__}")
        return self.attributes

    @property
    def metadata(self) -> Metadata:
        """Where the instruction comes from."""
        metadata = self._metadata
        if not isinstance(metadata, Metadata):
            metadata = self._metadata = metadata.decode()
        return metadata

    @property
    def raw_metadata(self) -> Metadata | LazyMetadata:
        """The metadata as read, perhaps not decoded yet: what copies and printers pass on."""
        return self._metadata

    @property
    def source(self) -> SourceLocation | None:
        """The place in the user's program, from the metadata or its stack frame, or None."""
        metadata = self.metadata
        if metadata.source_file:
            return SourceLocation(metadata.source_file, metadata.source_line)
        return self.parent.module.stack_frames.location(metadata.stack_frame_id)

    @property
    def stack(self) -> tuple[SourceLocation, ...]:
        """The calls in the user's program that led here, innermost first; none where unknown."""
        metadata = self.metadata
        if metadata.source_file:
            return (SourceLocation(metadata.source_file, metadata.source_line),)
        return self.parent.module.stack_frames.calls(metadata.stack_frame_id)

    @property
    def is_root(self) -> bool:
        """Whether the value is the result of the computation."""
        return self.parent.root is self

    @property
    def has_control_edges(self) -> bool:
        """Whether something has to run before or after it without reading its value."""
        return bool(self.control_predecessors or self.control_successors)

    # -- the doors -----------------------------------------------------------------------------

    def replace_all_uses_with(self, replacement: Instruction) -> None:
        """Make every user, and the root if it is `self`, read `replacement` instead.

        Control dependencies stay with `self`. Raises ValueError where the replacement itself
        reads `self`, since the result would be a cycle.
        """
        if replacement is self:
            return
        if self in replacement.operands:
            raise ValueError(f"{replacement} reads {self}: the result would be a cycle")
        for user in self.users:
            user.operands = tuple([replacement if x is self else x for x in user.operands])
            replacement.users[user] = None
        self.users = {}
        if self.parent.root is self:
            self.parent.root = replacement
        self.parent.touch()

    def replace_operand(self, index: int, operand: Instruction) -> None:
        """Make operand number `index` read `operand`."""
        operands = list(self.operands)
        old, operands[index] = operands[index], operand
        self.operands = tuple(operands)
        if old not in self.operands:
            del old.users[self]
        operand.users[self] = None
        self.parent.touch()

    def set_operands(self, operands: tuple[Instruction, ...]) -> None:
        """Replace the whole list of operands, which may change its length."""
        for operand in self.operands:
            operand.users.pop(self, None)
        self.operands = operands
        for operand in operands:
            operand.users[self] = None
        self.parent.touch()

    def set_shape(self, shape: Shape) -> None:
        """Give the result another shape, e.g. another layout."""
        self.shape = shape
        self.parent.touch()

    def set_attributes(self, attributes: Attributes) -> None:
        """Give the operation other attributes."""
        self.attributes = attributes
        self.parent.touch()

    def set_called_computations(self, computations: tuple[Computation, ...]) -> None:
        """Make the instruction call other computations."""
        self.called_computations = computations
        self.parent.touch()

    def set_annotations(self, annotations: Annotations) -> None:
        """Replace sharding, frontend attributes, backend_config and the like."""
        self.annotations = annotations
        self.parent.touch()

    def set_metadata(self, metadata: Metadata | LazyMetadata) -> None:
        """Say where the instruction comes from."""
        self._metadata = metadata

    def add_control_predecessor(self, predecessor: Instruction) -> None:
        """Make this instruction run after `predecessor`, without reading its value."""
        if not isinstance(self.control_predecessors, dict):
            self.control_predecessors = {}
        if not isinstance(predecessor.control_successors, dict):
            predecessor.control_successors = {}
        self.control_predecessors[predecessor] = None
        predecessor.control_successors[self] = None
        self.parent.touch()

    def drop_control_predecessors(self, predecessors: Iterable[Instruction]) -> None:
        """Remove control dependencies of this instruction on `predecessors`."""
        for predecessor in list(predecessors):
            if isinstance(self.control_predecessors, dict):
                self.control_predecessors.pop(predecessor, None)
            if isinstance(predecessor.control_successors, dict):
                predecessor.control_successors.pop(self, None)
        self.parent.touch()

    def __repr__(self) -> str:
        return f"<%{self.name} = {self.shape} {self.opcode.value}>"
