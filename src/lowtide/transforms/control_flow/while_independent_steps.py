"""Loops whose steps need nothing of one another, with many steps at a time in vectors."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Final

from lowtide.analysis.call_graph import while_body, while_condition
from lowtide.cost.kernels import compute_seconds
from lowtide.cost.machine import X86_SERVER, Machine
from lowtide.ir import Computation, Instruction, Module, Opcode
from lowtide.ops.dot_roles import dot_roles
from lowtide.passes.call_sites import drop_unreferenced, is_marked
from lowtide.passes.interface import Pass, example
from lowtide.transforms.control_flow.independent_steps.kinds import Kind, StepKind
from lowtide.transforms.control_flow.independent_steps.loop import IndependentLoop, independent_loop
from lowtide.transforms.control_flow.independent_steps.writing import run_together
from lowtide.transforms.control_flow.loops import loops_of
from lowtide.transforms.control_flow.while_unroller import KEPT

_LANES: Final = 8
"""Elements of 32 bits that a vector holds: fewer of them take as long."""

_GAIN: Final = 1.5
"""So many times less time, as estimated, must the steps take together."""

_STEP_SECONDS: Final = 5e-9
"""The time from one step of a loop to the next, where kernels of a step run as one function."""

_LEAST_BYTES: Final = 1 << 10
_SHARE: Final = 16
"""What steps store for others of their values takes at most this part of what the loop carries."""

_STORED_SHARE: Final = 4
"""Of values that several instructions read, kernels store at most this part, the rest is fused."""

_LOAD_SECONDS: Final = 2e-10
_PLACE_SECONDS: Final = 8e-10
"""The time to load one element in a step alone, and in a lane beside others with other places."""

_WHOLE_NUMBERS: Final = 0.5
"""The time of an operation on one whole number beside that on one float: more run at once."""

_SCATTERED: Final = frozenset({Opcode.CONCATENATE, Opcode.DYNAMIC_SLICE, Opcode.GATHER})
"""What has elements that lie at places of their own."""

_KEPT_APART: Final = frozenset(
    {Opcode.DOT, Opcode.GATHER, Opcode.REDUCE, Opcode.REDUCE_WINDOW, Opcode.WHILE}
)
"""What makes a kernel that reads values as they are stored, or stores what it makes."""


def run_steps_together(module: Module, *, share: int = _SHARE) -> int:
    """Run steps that need nothing of one another many at a time; return for how many loops.

    Steps read and write slices of arrays that follow their number, and add up whole numbers. Where
    a step has a loop of its own over a few numbers, lanes of vectors go on until the last is done.
    What is stored for so many steps takes at most a `share`-th of what the loop carries, or 1 KiB;
    a loop stays where the steps would take no less time together, as estimated.
    """
    left: list[Computation] = []
    for loop in loops_of(module):
        if is_marked(loop.instruction, KEPT):
            continue
        found = independent_loop(loop)
        if found is None:
            continue
        together = _together(found, share)
        if together is None:
            continue
        left += loop.instruction.called_computations
        run_together(found, together)
    if left:
        drop_unreferenced(module, left)
    return len(left) // 2


def _together(found: IndependentLoop, share: int) -> int | None:
    """How many steps run at a time; None where the loop had better stay."""
    count = found.count
    limit = max(_LEAST_BYTES, found.loop.instruction.shape.nbytes // share)
    most = min(count, limit // max(1, _stored_bytes(found)))
    if most < count:
        most = _rounded(most, count, repeatable=not (found.rereads or found.totals))
    if most < 2:
        return None
    alone, many = _seconds(found, 1, X86_SERVER), _seconds(found, most, X86_SERVER)
    return most if alone > _GAIN * many else None


def _rounded(most: int, count: int, *, repeatable: bool) -> int:
    """The steps at a time that make equal rounds of at most `most`; 0 where there are none."""
    if most < 2:
        return 0
    if repeatable:
        rounds = -(-count // most)
        even = -(-count // rounds)
        full = -(-even // _LANES) * _LANES
        return full if full <= most else even
    divisors = [d for d in range(most, most // 4, -1) if count % d == 0]
    return divisors[0] if divisors else 0


# -- what steps store ------------------------------------------------------------------------------


def _stored_bytes(found: IndependentLoop) -> int:
    """The bytes of the values of one step that kernels leave to others, about."""
    stored, fused = 0, 0
    for x, kind in found.kinds.items():
        if kind is not StepKind.OWN or not x.shape.is_array:
            continue
        if x.opcode in _KEPT_APART or any(user.opcode in _KEPT_APART for user in x.users):
            stored += x.shape.nbytes
        elif len(x.users) > 1:
            fused += x.shape.nbytes
    return stored + -(-fused // _STORED_SHARE)


# -- time ------------------------------------------------------------------------------------------


def _seconds(found: IndependentLoop, together: int, machine: Machine) -> float:
    """The time of a step where so many run at a time."""
    total = _STEP_SECONDS / together
    for x, kind in found.kinds.items():
        if kind is StepKind.OWN:
            total += _time(x, found.kinds, together, machine)
    return total


def _time(
    x: Instruction, kinds: Mapping[Instruction, Kind], together: int, machine: Machine
) -> float:
    """The part of a step's time that one of its instructions takes where so many run at a time."""
    if x.opcode is Opcode.WHILE:
        inner = [*_of(while_condition(x)), *_of(while_body(x))]
        return sum([_time(y, {}, together, machine) for y in inner])
    if not x.shape.is_array:
        return 0.0
    elements = max(1, x.shape.element_count)
    if x.opcode is Opcode.DOT:
        return _products(x, kinds) * machine.element_seconds / (1 if together == 1 else 2)
    if x.opcode in _SCATTERED:
        follows = all(not isinstance(kinds.get(y), StepKind) for y in x.operands[1:])
        if together == 1 or (x.opcode is Opcode.DYNAMIC_SLICE and follows):
            return elements * _LOAD_SECONDS
        return elements * _PLACE_SECONDS
    full = -(-elements * together // _LANES) * _LANES
    seconds = compute_seconds(x, machine) / elements * full / together
    alone = together == 1 and elements == 1 and not x.shape.element_type.is_floating
    return seconds * _WHOLE_NUMBERS if alone else seconds


def _products(x: Instruction, kinds: Mapping[Instruction, Kind]) -> float:
    """How many products of two elements a dot takes; none where steps share no operand.

    What steps share is read once for many of them; other products take as long together as alone.
    """
    if StepKind.ALIKE not in [kinds[y] for y in x.operands]:
        return 0.0
    (side, _), shape = dot_roles(x), x.operands[0].shape
    return x.shape.element_count * math.prod([shape.dimensions[d] for d in side.contracted])


def _of(computation: Computation) -> Iterable[Instruction]:
    return computation.instructions.values()


PASSES: Final = (
    Pass(
        "while-independent-steps",
        run_steps_together,
        "Runs steps of a loop that need nothing of one another many at a time.",
        *example(
            """
HloModule m

-condition {
- c = (s32[], f32[9], f32[9]) parameter(0)
- i = s32[] get-tuple-element(c), index=0
- n = s32[] constant(9)
- ROOT more = pred[] compare(i, n), direction=LT
-}
-
-body {
- b = (s32[], f32[9], f32[9]) parameter(0)
- i.1 = s32[] get-tuple-element(b), index=0
- one = s32[] constant(1)
- next = s32[] add(i.1, one)
- y = f32[9] get-tuple-element(b), index=1
- x = f32[9] get-tuple-element(b), index=2
- slice = f32[1] dynamic-slice(x, i.1), dynamic_slice_sizes={1}
- sine = f32[1] sine(slice)
- z = f32[9] dynamic-update-slice(y, sine, i.1)
- ROOT r = (s32[], f32[9], f32[9]) tuple(next, z, x)
-}
-
ENTRY main {
  x.1 = f32[9] parameter(0)
+ reshape = f32[9,1] reshape(x.1)
+ sine.1 = f32[9,1] sine(reshape)
+ ROOT reshape.1 = f32[9] reshape(sine.1)
- zero.1 = s32[] constant(0)
- start = (s32[], f32[9], f32[9]) tuple(zero.1, x.1, x.1)
- loop = (s32[], f32[9], f32[9]) while(start), condition=condition, body=body
- ROOT z.1 = f32[9] get-tuple-element(loop), index=1
}
"""
        ),
        meanings=(
            ("share", "the part of what a loop carries that stored values of steps may take"),
        ),
    ),
)
