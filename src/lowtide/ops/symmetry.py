"""Reducers that give the same for two operands in either order."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import lru_cache

from lowtide.ir.computation import Computation
from lowtide.ir.instruction import Instruction
from lowtide.ir.opcode import Opcode
from lowtide.ir.traversal import post_order
from lowtide.ops.choices import chooses_alike
from lowtide.ops.table import TABLE


@lru_cache(maxsize=64)
def is_symmetric(computation: Computation) -> bool:
    """Return whether a reducer is known to give the same for (b, a) as for (a, b).

    One that only has to be associative may not: then what is reduced has to keep its order.
    """
    count = len(computation.parameters) // 2
    places = list(range(2 * count))
    known: dict[Hashable, int] = {}
    forward = _number(computation, places, known)
    backward = _number(computation, [*places[count:], *places[:count]], known)
    return forward == backward or chooses_alike(computation)


def _number(computation: Computation, places: Sequence[int], known: dict[Hashable, int]) -> int:
    """Return a number of the result, the same for what is computed in the same way.

    `places` says which argument a parameter has; `known` numbers what was met.
    """
    found: dict[Instruction, int] = {}
    for x, place in zip(computation.parameters, places, strict=True):
        found[x] = known.setdefault(("argument", place), len(known))
    for x in post_order(computation):
        if x.opcode is Opcode.PARAMETER:
            continue
        operands = [found[y] for y in x.operands]
        if TABLE[x.opcode].commutative:
            operands.sort()
        key = (x.opcode, x.shape, x.attributes, x.called_computations, tuple(operands))
        found[x] = known.setdefault(key, len(known))
    return found[computation.root]
