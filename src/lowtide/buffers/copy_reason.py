"""The reason for a copy, in words: the two values that want one place, and the two uses."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from lowtide.analysis.colocation import Refusal, Wish, WishKind
from lowtide.analysis.flat_schedule import CarriedState, FlatSchedule
from lowtide.ir import Instruction, Opcode, Shape, ShapeIndex
from lowtide.ir.shape import index_text
from lowtide.records import dataclass


@dataclass(frozen=True, slots=True)
class CopyReason:
    """The value that is copied, and the reason why the copy cannot be left out.

    `held` is a value that `reader` still needs when `writer` makes `taken`, which is to lie in the
    same place; the four are empty where it is not for a conflict in time. Values are named by
    their makers, elements of tuples with their index.
    """

    kind: WishKind
    what: str
    why: str
    held: str = ""
    reader: str = ""
    taken: str = ""
    writer: str = ""

    def text(self) -> str:
        """Return the reason as one sentence without a full stop."""
        return f"{self.what}, because {self.why}"


def reason_for(flat: FlatSchedule, refusal: Refusal, outputs: Sequence[str]) -> CopyReason:
    """Return the reason for the copy that a refusal calls for; `outputs` name the result leaves."""
    wish = refusal.wish
    what = _what(flat, wish, outputs)
    if refusal.held < 0:
        return CopyReason(wish.kind, what, _not_in_time(flat, wish))
    held, taken = value_name(flat, refusal.held), value_name(flat, refusal.taken)
    reader = _instruction_at(flat, refusal.until)
    writer = flat.values.maker[refusal.taken]
    if reader is None:
        why = f"{held} is a result of the program"
    elif reader is writer:
        why = f"{reader.name} reads {held} while it makes {taken}"
    else:
        why = f"{held} is still needed by {reader.name} when {writer.name} makes {taken}"
    if refusal.until == refusal.since and held == taken:
        why = f"{held} is wanted in two places at once"
    return CopyReason(
        wish.kind, what, why, held, "" if reader is None else reader.name, taken, writer.name
    )


def reader_reason(
    flat: FlatSchedule, refusal: Refusal, writer: Instruction, reader: Instruction
) -> CopyReason:
    """Return the reason for a copy of what `writer` overwrites and `reader` reads later."""
    held, taken = value_name(flat, refusal.held), value_name(flat, refusal.taken)
    what = f"{held} is copied before {writer.name} overwrites it"
    why = f"{reader.name} reads it later"
    return CopyReason(refusal.wish.kind, what, why, held, reader.name, taken, writer.name)


def rotation_reason(loop: Instruction, target: str, source: str) -> CopyReason:
    """Return the reason for a loop that returns one element of its state as another one."""
    what = f"loop carry {target} of {loop.name} is copied each iteration"
    return CopyReason(WishKind.STATE, what, f"it becomes what carry {source} was")


def value_name(flat: FlatSchedule, value: int) -> str:
    """Return the name of a value: that of its maker, with the index of an element."""
    maker = flat.values.maker[value]
    if not maker.shape.is_tuple:
        return maker.name
    return maker.name + index_text(_indices(maker.shape)[flat.values.leaf[value]])


@lru_cache(maxsize=64)
def _indices(shape: Shape) -> tuple[ShapeIndex, ...]:
    return tuple([index for index, _ in shape.leaves()])


def _instruction_at(flat: FlatSchedule, position: int) -> Instruction | None:
    return flat.instructions[position] if position < flat.length else None


def _what(flat: FlatSchedule, wish: Wish, outputs: Sequence[str]) -> str:
    if wish.kind in (WishKind.ALIAS, WishKind.OUTPUT):
        return f"output {outputs[wish.number]} is copied at the end"
    if wish.kind is WishKind.IN_PLACE:
        overwrite = flat.overwrites[wish.number]
        writer = flat.instructions[overwrite.position]
        operand = writer.operands[overwrite.operand]
        return f"operand {operand.name} of {writer.name} is copied before it is overwritten"
    join = flat.joins[wish.number]
    if isinstance(join, CarriedState):
        loop = flat.sites[join.site].caller
        assert loop is not None
        carry = f"loop carry {_leaf_index(loop, join.leaves[wish.part])} of {loop.name}"
        when = "each iteration" if wish.kind is WishKind.STATE else "before the loop"
        return f"{carry} is copied {when}"
    caller = flat.sites[join.sites[wish.branch]].caller
    assert caller is not None
    leaf = join.leaves[wish.part]
    return f"result {_leaf_index(caller, leaf)} of {caller.name} is copied in a branch"


def _leaf_index(instruction: Instruction, leaf: int) -> str:
    return index_text(_indices(instruction.shape)[leaf])


def _not_in_time(flat: FlatSchedule, wish: Wish) -> str:
    for value in (wish.before, wish.after):
        if not flat.values.read_only[value]:
            continue
        maker = flat.values.maker[value]
        if maker.opcode is Opcode.CONSTANT:
            return f"{maker.name} is a constant"
        return f"{value_name(flat, value)} is an argument that is not donated"
    if wish.kind is WishKind.OUTPUT:
        return f"{value_name(flat, wish.after)} has its place in another output or in an argument"
    return (
        f"{value_name(flat, wish.before)} and {value_name(flat, wish.after)} have places of their "
        "own, as different arguments or outputs"
    )
