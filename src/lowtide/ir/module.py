"""Module: the unit of compilation, and what its header says."""

from __future__ import annotations

from collections.abc import Iterable
from typing import final

from lowtide.ir.computation import Computation
from lowtide.ir.metadata import StackFrames
from lowtide.ir.names import NameUniquer
from lowtide.ir.schedule import Schedule
from lowtide.ir.shape import ProgramShape, ShapeIndex
from lowtide.ir.sharding import Sharding
from lowtide.ir.source_text import SourceText
from lowtide.records import dataclass


@dataclass(frozen=True, slots=True)
class InputOutputAlias:
    """The output at `output_index` is written over a parameter's buffer.

    `must` means that the runtime may not copy the argument first.
    """

    output_index: ShapeIndex
    parameter: int
    parameter_index: ShapeIndex
    must: bool = False


@dataclass(frozen=True, slots=True)
class BufferDonor:
    """A parameter's buffer which the program may overwrite, tied to no output."""

    parameter: int
    parameter_index: ShapeIndex


@dataclass(frozen=True, slots=True)
class CrossProgramPrefetch:
    """A parameter that is brought to fast memory before the program starts."""

    parameter: int
    index: ShapeIndex
    offset: int | None = None


@final
class Module:
    """A set of computations, one of which is the entry, and the facts of the module header.

    Names of computations and of instructions are unique in the module. `computations` stands in
    an order in which callees come before callers whenever a frontend or a pass made it so;
    `traversal.computation_post_order` computes such an order.
    """

    __slots__ = (
        "_entry",
        "_next_id",
        "alias_passthrough_params",
        "allow_spmd_sharding_propagation_to_output",
        "allow_spmd_sharding_propagation_to_parameters",
        "buffer_donors",
        "computation_names",
        "computations",
        "cross_program_prefetches",
        "debug_attributes",
        "entry_layout",
        "frontend_attributes",
        "input_output_aliases",
        "instruction_names",
        "is_dynamic",
        "name",
        "num_partitions",
        "origin_recovery_table",
        "output_sharding",
        "parameter_shardings",
        "print_order",
        "replica_count",
        "schedule",
        "source_text",
        "stack_frames",
        "unknown_fields",
        "use_auto_spmd_partitioning",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.computations: dict[str, Computation] = {}
        self.computation_names = NameUniquer()
        self.instruction_names = NameUniquer()
        self.entry_layout: ProgramShape | None = None
        """The shapes of the entry with the layouts that callers use; None: those of the entry."""
        self.schedule: Schedule | None = None
        self.input_output_aliases: tuple[InputOutputAlias, ...] = ()
        self.buffer_donors: tuple[BufferDonor, ...] = ()
        self.cross_program_prefetches: tuple[CrossProgramPrefetch, ...] = ()
        self.alias_passthrough_params = False
        self.allow_spmd_sharding_propagation_to_parameters: tuple[bool, ...] = ()
        self.allow_spmd_sharding_propagation_to_output: tuple[bool, ...] = ()
        self.replica_count = 1
        self.num_partitions = 1
        self.frontend_attributes: tuple[tuple[str, str], ...] = ()
        self.debug_attributes: tuple[tuple[str, str], ...] = ()
        self.origin_recovery_table = ""
        """The raw text between the braces of `origin_recovery_table={...}`."""
        self.stack_frames = StackFrames()
        self.parameter_shardings: tuple[Sharding, ...] = ()
        self.output_sharding: Sharding | None = None
        self.is_dynamic = False
        self.use_auto_spmd_partitioning = False
        self.unknown_fields = b""
        """Fields of a HloModuleProto that lowtide keeps but does not interpret."""
        self.source_text: SourceText | None = None
        self.print_order: tuple[Computation, ...] = ()
        """How the text has the computations, where what it was read from had them otherwise than
        `traversal.computation_post_order`."""
        self._entry: Computation | None = None
        self._next_id = 0

    @property
    def entry(self) -> Computation:
        """The computation where the module starts."""
        if self._entry is None:
            raise ValueError(f"module {self.name} has no entry computation")
        return self._entry

    @entry.setter
    def entry(self, computation: Computation) -> None:
        self._entry = computation

    @property
    def has_entry(self) -> bool:
        """Whether an entry is set, as it is in every complete module."""
        return self._entry is not None

    @property
    def is_scheduled(self) -> bool:
        """Whether the order of execution is part of the module."""
        return self.schedule is not None

    @property
    def instruction_count(self) -> int:
        """The number of instructions in all computations."""
        return sum([len(c.instructions) for c in self.computations.values()])

    def add_computation(self, name: str) -> Computation:
        """Create an empty computation; `name` gets a number where it is taken."""
        unique = self.computation_names.unique(name)
        computation = Computation(unique, self, self._next_id)
        self._next_id += 1
        self.computations[unique] = computation
        return computation

    def new_computation(self, name: str) -> Computation:
        """Create a computation that is not in the module yet: for readers of modules."""
        computation = Computation(name, self, self._next_id)
        self._next_id += 1
        return computation

    def adopt(self, computations: Iterable[Computation]) -> None:
        """Add computations made by `new_computation`, numbering names which are taken."""
        for computation in computations:
            computation.name = self.computation_names.unique(computation.name)
            computation.rename_uniquely()
            self.computations[computation.name] = computation
            self._next_id = max(self._next_id, computation.id + 1)

    def become(self, other: Module) -> None:
        """Take over all that another module has, which must not be used any more."""
        for name in self.__slots__:
            setattr(self, name, getattr(other, name))
        for computation in self.computations.values():
            computation.module = self

    def lay_out_entry_by_default(self) -> None:
        """Have arguments and results lie row-major, whatever the layouts of what makes them."""
        self.entry_layout = (self.entry_layout or self.entry.program_shape).with_default_layouts()

    def remove_computation(self, computation: Computation) -> None:
        """Remove a computation, which no remaining instruction may call."""
        if computation is self._entry:
            raise ValueError(f"{computation.name} is the entry computation")
        del self.computations[computation.name]

    def __str__(self) -> str:
        from lowtide.ir.printer import to_text

        return to_text(self)

    def __repr__(self) -> str:
        return f"<Module {self.name}, {self.instruction_count} instructions>"
