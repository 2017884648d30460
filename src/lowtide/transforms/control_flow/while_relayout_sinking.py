"""Relayouts and casts of arrays that a loop takes slices of, done on the slices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lowtide.analysis.loop_trip_count import trip_count
from lowtide.ir import Instruction, Module, Opcode
from lowtide.ir.attributes import Parameter
from lowtide.passes.editing import make, settle
from lowtide.passes.interface import Pass, example
from lowtide.transforms.control_flow.loops import WhileLoop, add_invariants, loops_of


def sink_relayouts(module: Module) -> int:
    """Carry an array as it was before a transpose or a convert; return how many did.

    That is done where each step only takes slices of what the loop passes on: the operation then
    works on a slice, and no second copy of the whole, such as the stacked weights of all layers,
    lives beside the loop. A convert that makes less of what it reads goes inside where that is an
    argument of the program, which is there anyway, and the steps together read it about once.
    The element that is carried no longer has readers: `while-dead-carries` removes it.
    """
    return settle(lambda module: sum([_sink(loop) for loop in loops_of(module)]), module)


def _sink(loop: WhileLoop) -> int:
    starts = loop.starts
    worth_it = [i for i in loop.invariants() if _is_worth_it(starts.known(i))]
    read_inside = loop.all_read_inside() if worth_it else {}
    chosen = [
        i
        for i in worth_it
        if _is_sliced(loop, i, read_inside.get(i, []))
        and (not _makes_less(starts.known(i)) or _is_read_once(loop, read_inside[i]))
    ]
    if not chosen:
        return 0
    before = [starts.known(i) for i in chosen]
    sources = [x.operands[0] for x in before if x is not None]
    readers = [read_inside[i] for i in chosen]
    inside = add_invariants(loop, sources)
    for x, source, reads in zip(before, inside, readers, strict=True):
        assert x is not None
        made = make(source.parent, x.opcode, x.shape, (source,), x, x.attributes)
        for read in reads:
            for user in [user for user in read.users if user.opcode in _SLICING]:
                user.replace_operand(0, made)
    return len(chosen)


_SLICING: Final = frozenset({Opcode.DYNAMIC_SLICE, Opcode.SLICE})


def _is_sliced(loop: WhileLoop, index: int, reads: Sequence[Instruction]) -> bool:
    """Whether the body takes slices of an element, and does nothing else with it but pass it on.

    `reads` are all instructions that are that element.
    """
    root = loop.body.root
    sliced = False
    for read in reads:
        if read.parent is not loop.body or read.is_root:
            return False
        for user in read.users:
            if user is root:
                continue
            if user.opcode not in _SLICING or read in user.operands[1:]:
                return False
            sliced = True
    return sliced and [i for i, x in enumerate(loop.results) if x in reads] == [index]


def _is_worth_it(start: Instruction | None) -> bool:
    if start is None or start.has_control_edges or not start.operands:
        return False
    if start.opcode is not Opcode.CONVERT:
        return start.opcode is Opcode.TRANSPOSE
    if start.operands[0].shape.nbytes < start.shape.nbytes:
        return True
    return _makes_less(start) and _is_only_carried(start)


def _makes_less(start: Instruction | None) -> bool:
    """Whether an array is smaller than what it is made of."""
    return start is not None and start.operands[0].shape.nbytes > start.shape.nbytes


def _is_only_carried(cast: Instruction) -> bool:
    """Whether nothing but loops of the program itself reads the cast of an argument of it.

    A donated argument that nothing else reads would leave its memory to others once it was cast.
    """
    source = cast.operands[0]
    if source.opcode is not Opcode.PARAMETER or not source.parent.is_entry:
        return False
    if len(source.users) == 1 and _is_donated(source):
        return False
    return all(x.opcode is Opcode.TUPLE and not x.is_root for x in cast.users)


def _is_donated(parameter: Instruction) -> bool:
    """Whether the program may write over a parameter of its entry, or a part of it."""
    module = parameter.parent.module
    number = parameter.attributes_as(Parameter).number
    aliased = {x.parameter for x in module.input_output_aliases}
    return number in aliased | {x.parameter for x in module.buffer_donors}


_MOST_READS: Final = 2
"""An array may be read so often in all steps: casting it once reads it, writes, and reads again."""


def _is_read_once(loop: WhileLoop, reads: Sequence[Instruction]) -> bool:
    """Whether the slices that all steps take are of about as many elements as the array."""
    found = trip_count(loop.instruction)
    if found is None:
        return False
    slices = [x for read in reads for x in read.users if x.opcode in _SLICING]
    taken = found.count * sum([x.shape.element_count for x in slices])
    return taken <= _MOST_READS * reads[0].shape.element_count


PASSES: Final = (
    Pass(
        "while-relayout-sinking",
        sink_relayouts,
        "Moves transposes and conversions of arrays into the loops that read slices of them.",
        *example(
            """
HloModule m

condition {
- c = (s32[], f32[4], f32[6,4]) parameter(0)
+ c = (s32[], f32[4], f32[6,4], f32[4,6]) parameter(0)
  i = s32[] get-tuple-element(c), index=0
  n = s32[] constant(6)
  ROOT more = pred[] compare(i, n), direction=LT
}

body {
- b = (s32[], f32[4], f32[6,4]) parameter(0)
+ b = (s32[], f32[4], f32[6,4], f32[4,6]) parameter(0)
  i.1 = s32[] get-tuple-element(b), index=0
+ one = s32[] constant(1)
+ next = s32[] add(i.1, one)
  x = f32[4] get-tuple-element(b), index=1
- w = f32[6,4] get-tuple-element(b), index=2
+ s = f32[4,6] get-tuple-element(b), index=3
+ turned.1 = f32[6,4] transpose(s), dimensions={1,0}
  zero = s32[] constant(0)
- row = f32[1,4] dynamic-slice(w, i.1, zero), dynamic_slice_sizes={1,4}
+ row = f32[1,4] dynamic-slice(turned.1, i.1, zero), dynamic_slice_sizes={1,4}
  flat = f32[4] reshape(row)
  y = f32[4] multiply(x, flat)
- one = s32[] constant(1)
- next = s32[] add(i.1, one)
- ROOT r = (s32[], f32[4], f32[6,4]) tuple(next, y, w)
+ w = f32[6,4] get-tuple-element(b), index=2
+ ROOT r = (s32[], f32[4], f32[6,4], f32[4,6]) tuple(next, y, w, s)
}

ENTRY main {
+ start = s32[] constant(0)
  x.1 = f32[4] parameter(0)
  stacked = f32[4,6] parameter(1)
  turned = f32[6,4] transpose(stacked), dimensions={1,0}
- start = s32[] constant(0)
- init = (s32[], f32[4], f32[6,4]) tuple(start, x.1, turned)
- loop = (s32[], f32[4], f32[6,4]) while(init), condition=condition, body=body
+ init = (s32[], f32[4], f32[6,4], f32[4,6]) tuple(start, x.1, turned, stacked)
+ loop = (s32[], f32[4], f32[6,4], f32[4,6]) while(init), condition=condition, body=body
  ROOT out = f32[4] get-tuple-element(loop), index=1
}
"""
        ),
    ),
)
