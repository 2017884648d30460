"""Operands of optimization barriers, computed behind them from values that are held anyway.

A checkpoint that saves some results, such as those of products, saves the state at its border too,
even where it is a few elementwise operations away from what is saved.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from lowtide.ir import Computation, Instruction, Module, Opcode
from lowtide.ir.traversal import post_order
from lowtide.ops.table import TABLE
from lowtide.passes.call_sites import SMALL
from lowtide.passes.editing import (
    TupleElements,
    make,
    make_tuple,
    read_elements,
    remove_with_operands,
    substitute,
)
from lowtide.passes.interface import Pass, example
from lowtide.passes.matching import scalar_value
from lowtide.records import dataclass
from lowtide.transforms.control_flow.hoisting import may_move

_MOST_OPERATIONS: Final = 16
"""How many operations are done once more for a value that a barrier no longer passes on."""

_MOVES: Final = frozenset({Opcode.BITCAST, Opcode.COPY, Opcode.RESHAPE, Opcode.TRANSPOSE})


def compute_behind_barriers(module: Module) -> int:
    """Compute elements of barriers behind them, from values held until then; return how many.

    An element is computed behind its barrier where it follows, by a few elementwise operations,
    from arguments, constants, and elements of this barrier or of later ones, and where no later
    barrier has it too. Then it need not be held between its other readers and the barrier.
    """
    return sum([_sink(computation) for computation in module.computations.values()])


@dataclass(frozen=True, slots=True)
class _Barriers:
    """The barriers of a computation, in order; sets of them as bits.

    `after` has for each those that wait for it, itself included; `having` for each value those that
    pass it on; `positions` has for each instruction its place in an order of all.
    """

    barriers: tuple[Instruction, ...]
    after: tuple[int, ...]
    having: Mapping[Instruction, int]
    positions: Mapping[Instruction, int]

    def held(self, x: Instruction, number: int) -> bool:
        """Whether a value is held until a barrier: one that passes it on is that or a later one."""
        return bool(self.having.get(x, 0) & self.after[number])

    def held_longer(self, x: Instruction, number: int) -> bool:
        """Whether a later barrier passes on a value."""
        return bool(self.having.get(x, 0) & self.after[number] & ~(1 << number))


def _sink(computation: Computation) -> int:
    order = post_order(computation)
    barriers = tuple([x for x in order if _may_change(x)])
    if not barriers:
        return 0
    positions = {x: i for i, x in enumerate(order)}
    found = _Barriers(barriers, _followers(order, barriers), _passed_on(barriers), positions)
    return sum([_shrink(i, found) for i in range(len(barriers))])


def _may_change(x: Instruction) -> bool:
    if x.opcode is not Opcode.OPTIMIZATION_BARRIER or x.has_control_edges:
        return False
    return x.operands[0].opcode is Opcode.TUPLE and read_elements(x) is not None


def _followers(order: Sequence[Instruction], barriers: Sequence[Instruction]) -> tuple[int, ...]:
    """For each barrier those that depend on it, itself included."""
    numbers = {x: i for i, x in enumerate(barriers)}
    before: dict[Instruction, int] = {}
    after = [0] * len(barriers)
    for x in order:
        mask = 0
        for y in x.operands:
            mask |= before[y]
        if x in numbers:
            mask |= 1 << numbers[x]
            for i in range(len(barriers)):
                after[i] |= (mask >> i & 1) << numbers[x]
        before[x] = mask
    return tuple(after)


def _passed_on(barriers: Sequence[Instruction]) -> dict[Instruction, int]:
    having: dict[Instruction, int] = {}
    for i, barrier in enumerate(barriers):
        for x in barrier.operands[0].operands:
            having[x] = having.get(x, 0) | 1 << i
    return having


def _shrink(number: int, found: _Barriers) -> int:
    """Compute what can be computed behind a barrier; return how many elements."""
    barrier = found.barriers[number]
    chains: dict[Instruction, list[Instruction]] = {}
    for x in barrier.operands[0].operands:
        if x.shape.is_array and x.shape.nbytes > SMALL and not found.held_longer(x, number):
            chain = _chain(x, number, found)
            if chain:
                chains[x] = chain
    if not chains:
        return 0
    repeated = dict.fromkeys([y for chain in chains.values() for y in chain])
    _rebuild(barrier, chains.keys(), sorted(repeated, key=found.positions.__getitem__))
    return len(chains)


def _chain(x: Instruction, number: int, found: _Barriers) -> list[Instruction]:
    """The operations that make a value from others that are held; none where it takes more."""
    operations: dict[Instruction, None] = {}
    waiting = [x]
    from_held = False
    while waiting:
        y = waiting.pop()
        if y in operations or _is_constant(y):
            continue
        if y is not x and (y.opcode is Opcode.PARAMETER or found.held(y, number)):
            from_held = True
            continue
        if not _may_repeat(y) or len(operations) == _MOST_OPERATIONS:
            return []
        operations[y] = None
        waiting += y.operands
    return list(operations) if from_held else []


def _is_constant(x: Instruction) -> bool:
    return x.opcode in (Opcode.CONSTANT, Opcode.IOTA) or scalar_value(x) is not None


def _may_repeat(x: Instruction) -> bool:
    if not x.shape.is_array or not may_move(x):
        return False
    return TABLE[x.opcode].elementwise or x.opcode in _MOVES


def _rebuild(
    barrier: Instruction, computed: Collection[Instruction], operations: Sequence[Instruction]
) -> None:
    """Compute some elements of a barrier behind it, by operations in order."""
    source, parent = barrier.operands[0], barrier.parent
    inside = set(operations)
    needed = [y for x in operations for y in x.operands if y not in inside and not _is_constant(y)]
    parts = list(dict.fromkeys([x for x in source.operands if x not in computed] + needed))
    operand = make_tuple(parent, parts, source)
    shorter = make(parent, barrier.opcode, operand.shape, (operand,), barrier)
    elements = TupleElements(shorter)
    behind = {x: elements[i] for i, x in enumerate(parts)}
    for x in operations:
        behind[x] = parent.add_like(x, tuple([behind.get(y, y) for y in x.operands]))
    for index, reads in (read_elements(barrier) or {}).items():
        for x in reads:
            substitute(x, behind[source.operands[index]])
            parent.remove(x)
    remove_with_operands(barrier)


PASSES: Final = (
    Pass(
        "barrier-operands",
        compute_behind_barriers,
        "Computes behind optimization barriers what follows from values that they hold anyway.",
        *example(
            """
HloModule m

ENTRY main {
  x = f32[512] parameter(0)
  y = f32[512] sine(x)
- pair = (f32[512], f32[512]) tuple(x, y)
- barrier = (f32[512], f32[512]) opt-barrier(pair)
+ one = (f32[512]) tuple(x)
+ barrier = (f32[512]) opt-barrier(one)
  x.1 = f32[512] get-tuple-element(barrier), index=0
- y.1 = f32[512] get-tuple-element(barrier), index=1
+ y.1 = f32[512] sine(x.1)
  z = f32[512] multiply(x.1, y.1)
  ROOT sum = f32[512] add(y, z)
}
"""
        ),
    ),
)
