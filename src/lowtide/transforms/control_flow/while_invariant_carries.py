"""Elements that a loop passes on unchanged, read where they come from."""

from __future__ import annotations

from typing import Final

from lowtide.ir import Computation, Instruction, Module, Opcode
from lowtide.passes.call_sites import SMALL
from lowtide.passes.editing import (
    TupleElements,
    element_index,
    make,
    settle,
    substitute,
    take_apart,
)
from lowtide.passes.interface import Pass, example
from lowtide.passes.matching import scalar_value
from lowtide.transforms.control_flow.loops import WhileLoop, loops_of


def read_invariants_outside(module: Module) -> int:
    """Read after a loop what it passes on from before it; make constants within of constants.

    Returns how many changes were made. Constants of at most `SMALL` bytes, broadcasts of a scalar
    constant and iotas become instructions of condition and body, where fusion finds them; also
    where each step makes the constant anew that the loop starts with. The elements then have no
    readers: `while-dead-carries` removes them.
    """
    return settle(lambda module: sum([_read_elsewhere(loop) for loop in loops_of(module)]), module)


def _read_elsewhere(loop: WhileLoop) -> int:
    invariants, starts = loop.invariants(), loop.starts
    changes = _read_before(loop, invariants, starts)
    for index in (*invariants, *_made_anew(loop, starts)):
        changes += _sink(loop, index, starts.known(index))
    return changes


def _read_before(loop: WhileLoop, invariants: list[int], starts: TupleElements) -> int:
    """Make what reads invariant elements after the loop read them before it."""
    x = loop.instruction
    wholes = [user for user in x.users if user.opcode is not Opcode.GET_TUPLE_ELEMENT]
    if invariants and (wholes or x.is_root):
        take_apart(x)
    passed = set(invariants)
    changes = 0
    for user in list(x.users):
        if user.opcode is not Opcode.GET_TUPLE_ELEMENT or element_index(user) not in passed:
            continue
        start = starts[element_index(user)]
        if user.has_control_edges or start.shape is not user.shape:
            continue
        substitute(user, start)
        x.parent.remove(user)
        changes += 1
    return changes


def _made_anew(loop: WhileLoop, starts: TupleElements) -> list[int]:
    """Return the elements that start as a small constant and are made the same by each step."""
    found = []
    for index, result in enumerate(loop.results):
        start = starts.known(index)
        if result.opcode is not Opcode.CONSTANT or start is None:
            continue
        if start.opcode is Opcode.CONSTANT and result.attributes == start.attributes:
            found.append(index)
    return found


def _sink(loop: WhileLoop, index: int, start: Instruction | None) -> int:
    """Make a constant element a constant of condition and body."""
    if start is None or not _is_cheap(start):
        return 0
    changes = 0
    for user in loop.read_inside(index):
        if user.shape is start.shape and _is_read(user, loop, index):
            _replace_reads(user, _made_in(user.parent, start), loop, index)
            changes += 1
    return changes


def _is_read(user: Instruction, loop: WhileLoop, index: int) -> bool:
    """Whether an element is read for more than to pass it on."""
    root = loop.body.root
    if user.is_root or any(reader is not root for reader in user.users):
        return True
    return user.parent is loop.body and any(
        x is user for i, x in enumerate(root.operands) if i != index
    )


def _replace_reads(user: Instruction, made: Instruction, loop: WhileLoop, index: int) -> None:
    for reader in list(user.users):
        for number, operand in enumerate(reader.operands):
            if operand is user and not (reader is loop.body.root and number == index):
                reader.replace_operand(number, made)
    if user.is_root:
        user.parent.root = made


def _is_cheap(x: Instruction) -> bool:
    if x.opcode is Opcode.CONSTANT:
        return x.shape.is_array and x.shape.nbytes <= SMALL
    if x.opcode is Opcode.BROADCAST:
        return scalar_value(x) is not None
    return x.opcode is Opcode.IOTA


def _made_in(parent: Computation, start: Instruction) -> Instruction:
    if start.opcode is not Opcode.BROADCAST:
        return parent.add_like(start, ())
    scalar = parent.add_like(start.operands[0], ())
    made = make(parent, Opcode.BROADCAST, start.shape, (scalar,), start, start.attributes)
    made.set_annotations(start.annotations)
    return made


PASSES: Final = (
    Pass(
        "while-invariant-carries",
        read_invariants_outside,
        "Reads what loops pass on unchanged from before them, and constants within them.",
        *example(
            """
HloModule m

condition {
  c = (s32[], f32[4], f32[4], s32[]) parameter(0)
  i = s32[] get-tuple-element(c), index=0
  n = s32[] get-tuple-element(c), index=3
- ROOT more = pred[] compare(i, n), direction=LT
+ three.1 = s32[] constant(3)
+ ROOT more = pred[] compare(i, three.1), direction=LT
}

body {
  b = (s32[], f32[4], f32[4], s32[]) parameter(0)
  i.1 = s32[] get-tuple-element(b), index=0
  x = f32[4] get-tuple-element(b), index=1
  w = f32[4] get-tuple-element(b), index=2
  n.1 = s32[] get-tuple-element(b), index=3
  one = s32[] constant(1)
  next = s32[] add(i.1, one)
  y = f32[4] multiply(x, w)
  ROOT r = (s32[], f32[4], f32[4], s32[]) tuple(next, y, w, n.1)
}

ENTRY main {
  x.1 = f32[4] parameter(0)
  w.1 = f32[4] parameter(1)
  zero = s32[] constant(0)
  three = s32[] constant(3)
  start = (s32[], f32[4], f32[4], s32[]) tuple(zero, x.1, w.1, three)
  loop = (s32[], f32[4], f32[4], s32[]) while(start), condition=condition, body=body
  last = f32[4] get-tuple-element(loop), index=1
- same = f32[4] get-tuple-element(loop), index=2
- ROOT z = f32[4] add(last, same)
+ ROOT z = f32[4] add(last, w.1)
}
"""
        ),
    ),
)
