"""Making of the peak: what each buffer holds, where that comes from, and why it is held."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from itertools import islice
from typing import Final, NamedTuple

from lowtide.analysis.colocation import WishKind
from lowtide.analysis.flat_schedule import CarriedState, FlatSchedule, Values
from lowtide.analysis.live_range import LiveRanges
from lowtide.ir import Instruction, Opcode, SourceLocation
from lowtide.ir.attributes import GetTupleElement
from lowtide.ops.table import TABLE
from lowtide.records import dataclass
from lowtide.report.blame import is_backward, user_frame
from lowtide.report.copies import NeededCopy
from lowtide.report.peak import CauseKind, Peak, PeakBuffer


class HeldValue(NamedTuple):
    """A value that takes a buffer of `nbytes` bytes, as a "temporary", "output" or "argument".

    `output` is the number of the output leaf that owns the buffer, -1 where none does.
    """

    value: int
    nbytes: int
    kind: str
    output: int = -1


class Donor(NamedTuple):
    """An argument that an output could overwrite if it were donated, and where it is read last."""

    name: str
    last_read: int


@dataclass(frozen=True, slots=True)
class PeakContext:
    """What is known of a program beside its schedule.

    `copies` are those that were put in. `donors` are told by the number of the output leaf.
    """

    copies: Mapping[Instruction, NeededCopy] = field(default_factory=dict)
    donors: Mapping[int, Donor] = field(default_factory=dict)


NO_CONTEXT: Final = PeakContext()


def peak_in(ranges: LiveRanges, context: PeakContext) -> Peak:
    """Return the peak of live ranges: the first position of those at which most is taken."""
    position = ranges.peak_position
    colocation = ranges.colocation
    held = []
    for value in ranges.values_at(position):
        buffer = colocation.buffer_of[value]
        nbytes, output = int(ranges.nbytes[buffer]), colocation.output[buffer]
        held.append(HeldValue(value, nbytes, _kind(ranges, buffer), output))
    scratch = ranges.scratch.get(position)
    nbytes = 0 if scratch is None else int(ranges.nbytes[scratch])
    return peak_of(ranges.flat, position, held, nbytes, context)


def _kind(ranges: LiveRanges, buffer: int) -> str:
    if ranges.colocation.argument[buffer] >= 0:
        return "argument"
    return "output" if ranges.colocation.output[buffer] >= 0 else "temporary"


def peak_of(
    flat: FlatSchedule,
    position: int,
    held: Sequence[HeldValue],
    scratch_bytes: int = 0,
    context: PeakContext = NO_CONTEXT,
) -> Peak:
    """Return the peak at a position, given what is held then.

    The step there needs `scratch_bytes` while it runs.
    """
    maker = _PeakMaker(flat, context)
    buffers = [maker.buffer(x) for x in held]
    if scratch_bytes:
        buffers.append(maker.scratch(position, scratch_bytes))
    buffers.sort(key=lambda buffer: (-buffer.nbytes, buffer.live, buffer.name))
    if not flat.length:
        return Peak(0, "", None, tuple(buffers))
    instruction = flat.instructions[position]
    stack = stack_of(who_knows(_callers(flat, instruction, flat.site_of[position])))
    return Peak(position, instruction.name, user_frame(stack), tuple(buffers), stack)


def held_buffers(
    flat: FlatSchedule, held: Sequence[HeldValue], context: PeakContext = NO_CONTEXT
) -> list[PeakBuffer]:
    """Return what is known of buffers by the values that they hold, in order, at any time."""
    maker = _PeakMaker(flat, context)
    return [maker.buffer(x) for x in held]


class _PeakMaker:
    def __init__(self, flat: FlatSchedule, context: PeakContext) -> None:
        self.flat = flat
        self.context = context
        self.elements: dict[Instruction, list[tuple[str, str]]] = {}
        self.is_backward_at: dict[int, bool] = {}
        self.initial_of = {
            state: initial
            for join in flat.joins
            if isinstance(join, CarriedState)
            for initial, state in zip(join.initial, join.state, strict=True)
        }

    def buffer(self, held: HeldValue) -> PeakBuffer:
        """A buffer with the value that it holds."""
        flat, value = self.flat, held.value
        values: Values = flat.values
        maker = values.maker[value]
        if maker not in self.elements:
            self.elements[maker] = _elements(maker)
        index, shape = self.elements[maker][values.leaf[value]]
        chain = _callers(flat, maker, values.site[value])
        witnesses = chain if maker.opcode is Opcode.PARAMETER else who_knows(chain)
        witnesses = [*_reader_of(maker, values.leaf[value]), *witnesses]
        stack = stack_of(witnesses)
        end = flat.length - 1
        cause, reason = self.cause(held)
        return PeakBuffer(
            name=_path(chain) + index,
            nbytes=held.nbytes,
            instruction=maker.name,
            opcode=maker.opcode.value,
            shape=shape,
            kind=held.kind,
            op_name=op_name_of(witnesses),
            source=user_frame(stack),
            live=(min(values.first[value], end), min(values.last[value], end)),
            stack=stack,
            cause=cause,
            reason=reason,
        )

    def scratch(self, position: int, nbytes: int) -> PeakBuffer:
        """What the instruction at a position needs while it runs."""
        instruction = self.flat.instructions[position]
        chain = _callers(self.flat, instruction, self.flat.site_of[position])
        witnesses = who_knows(chain)
        stack = stack_of(witnesses)
        return PeakBuffer(
            name=_path(chain) + " (scratch)",
            nbytes=nbytes,
            instruction=instruction.name,
            opcode=instruction.opcode.value,
            shape=f"u8[{nbytes}]",
            kind="scratch",
            op_name=op_name_of(witnesses),
            source=user_frame(stack),
            live=(position, position),
            stack=stack,
            cause=CauseKind.SCRATCH,
        )

    # -- causes --------------------------------------------------------------------------------

    def cause(self, held: HeldValue) -> tuple[CauseKind, str]:
        """Why a buffer is taken, and more about that."""
        if held.kind == "argument":
            return CauseKind.ARGUMENTS, ""
        if held.kind == "output":
            donor = self.context.donors.get(held.output)
            # What is made while the argument is still read, such as a gradient of the weights that
            # an output overwrites later, could not lie there either.
            if donor is not None and donor.last_read <= self.flat.values.first[held.value]:
                return CauseKind.NOT_DONATED, f"{donor.name} could be overwritten"
            return CauseKind.OUTPUTS, ""
        maker = self.flat.values.maker[held.value]
        if maker.opcode is Opcode.COPY:
            return self.copy_cause(maker)
        if reader := self.backward_reader(held.value):
            return CauseKind.SAVED, f"{reader} reads it"
        if is_pointwise(maker):
            return CauseKind.MATERIALIZED, _read_by(maker)
        return CauseKind.IRREDUCIBLE, ""

    def copy_cause(self, copy: Instruction) -> tuple[CauseKind, str]:
        """Why a copy is there."""
        needed = self.context.copies.get(copy)
        if needed is None:
            return CauseKind.COPIES, f"the program copies {copy.operands[0].name}"
        doubled = needed.reason.kind in (WishKind.STATE, WishKind.INITIAL)
        kind = CauseKind.LOOP_STATE if doubled else CauseKind.COPIES
        return kind, needed.reason.text()

    def backward_reader(self, value: int) -> str:
        """The last reader, where it computes a gradient of what the forward pass made; else ""."""
        flat, values = self.flat, self.flat.values
        last = values.last[value]
        origin = value
        while origin in self.initial_of:  # A loop hands on what it was given.
            origin = self.initial_of[origin]
        maker = op_name_of(_callers(flat, values.maker[origin], values.site[origin]))
        if last >= flat.length or not maker or is_backward(maker):
            return ""
        if last not in self.is_backward_at:
            reader = flat.instructions[last]
            chain = _callers(flat, reader, flat.site_of[last])
            self.is_backward_at[last] = _has_backward(reader, op_name_of(who_knows(chain)))
        return flat.instructions[last].name if self.is_backward_at[last] else ""


def _has_backward(reader: Instruction, op_name: str) -> bool:
    """Whether a kernel computes a gradient, perhaps among other things."""
    if is_backward(op_name):
        return True
    if reader.opcode is not Opcode.FUSION:
        return False
    inside = reader.called_computations[0].instructions.values()
    return any(is_backward(x.metadata.op_name) for x in inside)


def _read_by(maker: Instruction) -> str:
    readers = [x.name for x in islice(maker.users, 2)]
    more = f" and {len(maker.users) - 2} more" if len(maker.users) > 2 else ""
    return f"no kernel joins it with {', '.join(readers)}{more}" if readers else ""


# -- where a value comes from --------------------------------------------------------------------


def _path(chain: Sequence[Instruction]) -> str:
    """The names of an instruction and of those that call it, from the entry on."""
    return "/".join([x.name for x in reversed(chain)])


def _reader_of(fusion: Instruction, leaf: int) -> list[Instruction]:
    """What takes a result out of a fusion with several; it knows where that one comes from."""
    if fusion.opcode is not Opcode.FUSION or not fusion.shape.is_tuple:
        return []
    readers = [x for x in fusion.users if x.opcode is Opcode.GET_TUPLE_ELEMENT]
    return [x for x in readers if x.attributes_as(GetTupleElement).index == leaf]


def _elements(instruction: Instruction) -> list[tuple[str, str]]:
    """Per leaf of the result its tuple index as `{1,0}`, empty for an array, and its shape."""
    if not instruction.shape.is_tuple:
        return [("", instruction.shape.text(layout=False))]
    return [
        ("{" + ",".join(map(str, index)) + "}", shape.text(layout=False))
        for index, shape in instruction.shape.leaves()
    ]


def _callers(flat: FlatSchedule, instruction: Instruction, site: int) -> list[Instruction]:
    """An instruction, its caller, the caller's caller, up to the entry."""
    chain = [instruction]
    sites = flat.sites
    while True:
        caller = sites[site].caller
        if caller is None:
            return chain
        chain.append(caller)
        site = sites[site].parent


_USERS_ASKED: Final = 20


def who_knows(chain: Sequence[Instruction]) -> list[Instruction]:
    """Return who knows where the first of `chain` comes from: it, nearest users, its callers."""
    nearby = {chain[0]: None}
    queue = [chain[0]]
    for instruction in queue:
        fresh = [user for user in islice(instruction.users, _USERS_ASKED) if user not in nearby]
        fresh = fresh[: _USERS_ASKED - len(queue)]
        nearby.update(dict.fromkeys(fresh))
        queue += fresh
    return [*nearby, *chain[1:]]


def stack_of(witnesses: Sequence[Instruction]) -> tuple[SourceLocation, ...]:
    """Return the calls that led to the first one of which they are known, innermost first."""
    for instruction in witnesses:
        source = instruction.source
        if source is not None and source.file:
            return instruction.stack
    return ()


def op_name_of(witnesses: Sequence[Instruction]) -> str:
    """Return the name in the user's program of the first one that has any."""
    return next((x.metadata.op_name for x in witnesses if x.metadata.op_name), "")


_MOVES: Final = frozenset(
    {
        *(Opcode.BITCAST, Opcode.BROADCAST, Opcode.CONCATENATE, Opcode.CONSTANT, Opcode.IOTA),
        *(Opcode.GET_TUPLE_ELEMENT, Opcode.PAD, Opcode.PARAMETER, Opcode.RESHAPE, Opcode.REVERSE),
        *(Opcode.SLICE, Opcode.TRANSPOSE, Opcode.TUPLE),
    }
)
"""Operations that compute nothing: each element of the result is one of an operand."""


def is_pointwise(instruction: Instruction) -> bool:
    """Whether a reader could compute each element of an array itself, where it needs it.

    That holds for elementwise operations, broadcasts, slices and the like, and for fusions that
    have nothing else in them.
    """
    if instruction.opcode is Opcode.FUSION:
        inside = instruction.called_computations[0].instructions.values()
        return all(_is_pointwise_step(x) for x in inside)
    if instruction.opcode in (Opcode.PARAMETER, Opcode.CONSTANT, Opcode.TUPLE):
        return False
    return _is_pointwise_step(instruction)


def _is_pointwise_step(instruction: Instruction) -> bool:
    return instruction.opcode in _MOVES or TABLE[instruction.opcode].elementwise
