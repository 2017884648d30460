"""The copies that a module needs, where they run, and what loops copy each iteration."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from lowtide.analysis.call_graph import CallRole, call_sites, executed_computations, while_body
from lowtide.analysis.colocation import WishKind
from lowtide.ir import Computation, Instruction, Module, Opcode, SourceLocation
from lowtide.records import dataclass
from lowtide.report.schema import Json, source_json


class Reason(Protocol):
    """The reason for a copy; the four values and instructions are empty where none conflict."""

    @property
    def kind(self) -> WishKind:
        """What needs the copy."""

    @property
    def held(self) -> str:
        """The value that is needed still."""

    @property
    def reader(self) -> str:
        """The instruction that needs it."""

    @property
    def taken(self) -> str:
        """The value that wants its place."""

    @property
    def writer(self) -> str:
        """The instruction that makes that one."""

    def text(self) -> str:
        """Return all of it as one sentence without a full stop."""


class Inserted(Protocol):
    """A copy that was put into a module, and why."""

    @property
    def copy(self) -> Instruction:
        """The copy."""

    @property
    def reason(self) -> Reason:
        """Why it has to be there."""


@dataclass(frozen=True, slots=True)
class NeededCopy:
    """A copy that was put into the module, since it would compute something else without it.

    `loops` are the loops that run it each iteration, the innermost around each of its call sites;
    none for one that runs once per call.
    """

    copy: Instruction
    reason: Reason
    loops: tuple[Instruction, ...]

    @property
    def nbytes(self) -> int:
        """The bytes that it writes each time."""
        return self.copy.shape.nbytes

    @property
    def is_large(self) -> bool:
        """Whether it copies more than one element."""
        return bool(self.copy.shape.dimensions)

    def to_json(self) -> Json:
        """Return the entry of the schema's `copies`."""
        reason = self.reason
        return {
            "name": self.copy.name,
            "bytes": self.nbytes,
            "instruction": self.copy.operands[0].name,
            "computation": self.copy.parent.name,
            "loops": [loop.name for loop in self.loops],
            "kind": reason.kind.value,
            "reason": reason.text(),
            "conflict": _conflict_json(reason),
            "source": source_json(_source(self.copy)),
        }


@dataclass(frozen=True, slots=True)
class LoopCopies:
    """Bytes that a loop copies each iteration; single elements do not count.

    `copies` had to be put in, largest first; without any, the state of the loop stays in its place.
    `own_bytes` are copied by the program as it was given.
    """

    loop: Instruction
    state_bytes: int
    copies: tuple[NeededCopy, ...]
    own_bytes: int

    @property
    def nbytes(self) -> int:
        """The bytes of the copies that had to be put in."""
        return sum([x.nbytes for x in self.copies])

    @property
    def in_place(self) -> bool:
        """Whether no copy of the loop's state is needed."""
        return not self.copies

    def to_json(self) -> Json:
        """Return the entry of the schema's `loops`."""
        return {
            "loop": self.loop.name,
            "in_place": self.in_place,
            "state_bytes": self.state_bytes,
            "copied_bytes": self.nbytes,
            "own_copied_bytes": self.own_bytes,
            "reasons": [x.reason.text() for x in self.copies],
        }


def needed_copies(module: Module, inserted: Iterable[Inserted]) -> tuple[NeededCopy, ...]:
    """Return the copies that were put into a module, largest first."""
    callers = _callers(module)
    loops: dict[Computation, tuple[Instruction, ...]] = {}
    found = []
    for x in inserted:
        computation = x.copy.parent
        if computation not in loops:
            loops[computation] = _loops_around(computation, callers)
        found.append(NeededCopy(x.copy, x.reason, loops[computation]))
    return tuple(sorted(found, key=lambda x: -x.nbytes))


def loop_copies(module: Module, copies: Sequence[NeededCopy]) -> tuple[LoopCopies, ...]:
    """Return what each loop that runs copies, callees before callers."""
    needed: dict[Instruction, list[NeededCopy]] = {}
    for x in copies:
        for loop in x.loops:
            if x.is_large:
                needed.setdefault(loop, []).append(x)
    inserted = {x.copy for x in copies}
    return tuple(
        [
            LoopCopies(
                loop,
                loop.shape.leaf_nbytes,
                tuple(needed.get(loop, ())),
                _own_bytes(while_body(loop), inserted),
            )
            for computation in executed_computations(module.entry)
            for loop in computation.instructions.values()
            if loop.opcode is Opcode.WHILE
        ]
    )


def _callers(module: Module) -> dict[Computation, list[tuple[Instruction, CallRole]]]:
    callers: dict[Computation, list[tuple[Instruction, CallRole]]] = {}
    for computation in executed_computations(module.entry):
        for caller, role, callee in call_sites(computation):
            callers.setdefault(callee, []).append((caller, role))
    return callers


def _loops_around(
    computation: Computation, callers: dict[Computation, list[tuple[Instruction, CallRole]]]
) -> tuple[Instruction, ...]:
    """The innermost loops that run a computation, from wherever it is called."""
    loops: dict[Instruction, None] = {}
    waiting = {computation: None}
    queue = [computation]
    for inner in queue:
        for caller, role in callers.get(inner, ()):
            if role in (CallRole.BODY, CallRole.CONDITION):
                loops[caller] = None
            elif caller.parent not in waiting:
                waiting[caller.parent] = None
                queue.append(caller.parent)
    return tuple(loops)


def _own_bytes(body: Computation, inserted: set[Instruction]) -> int:
    """Bytes of the arrays that a body copies as they are, though nothing needs that."""
    return sum(
        [
            x.shape.nbytes
            for x in body.instructions.values()
            if x.opcode is Opcode.COPY
            and x not in inserted
            and x.shape == x.operands[0].shape
            and x.shape.dimensions
        ]
    )


def _conflict_json(reason: Reason) -> Json | None:
    """The two values and the two uses, where these are in each other's way."""
    if not reason.held:
        return None
    return {
        "held": reason.held,
        "reader": reason.reader,
        "taken": reason.taken,
        "writer": reason.writer,
    }


def _source(copy: Instruction) -> SourceLocation | None:
    """The line of the program that a copy, or else what it copies, comes from."""
    for instruction in (copy, *copy.operands):
        if instruction.source is not None and instruction.source.file:
            return instruction.source
    return None
