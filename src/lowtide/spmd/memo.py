"""Factors and splits of operations that were worked out, for drafts that ask for them again.

Drafts of one module differ in few places: most operations meet operands in the same tilings as in
the last draft, and are split as there. So are those of layers that are alike.
"""

from __future__ import annotations

from typing import Final, final

from lowtide.ir import Instruction, Shape
from lowtide.ir.tilings.grid import DeviceGrid
from lowtide.ir.tilings.tiling import Tiling
from lowtide.ops.factors.record import OpFactors
from lowtide.spmd.choice import OperationSplit, Question, choose, product_count
from lowtide.spmd.factor_axes import device_factors

_MOST_SPLITS: Final = 100_000
"""So many splits are kept; then all are forgotten."""

_Kind = tuple[OpFactors, tuple[Shape, ...], Shape, float, tuple[bool, ...]]
"""What an operation is to a split: factors, arrays, products, which operands it alone reads."""

_Seen = tuple[int, DeviceGrid, bool, tuple[object, ...], tuple[Tiling | None, ...]]


@final
class SplitMemo:
    """The splits of operations that are alike, each worked out once, of any modules."""

    def __init__(self) -> None:
        self._kinds: dict[_Kind, int] = {}
        self._splits: dict[_Seen, OperationSplit] = {}

    def kind(self, question: Question) -> int:
        """Return the number of all operations that are split as this one is, asked the same."""
        q, x = question, question.instruction
        shapes = tuple([operand.shape for operand in q.operands])
        kind = q.rule, shapes, x.shape, product_count(x), tuple(q.read_once)
        return self._kinds.setdefault(kind, len(self._kinds))

    def split(self, question: Question, kind: int) -> OperationSplit:
        """Return what `choose` does of a question about an operation of some kind."""
        q = question
        operands = tuple([operand.seen_by(q.instruction.name) for operand in q.operands])
        key = kind, q.grid, q.weighs_memory, operands, tuple(q.wanted)
        found = self._splits.get(key)
        if found is None:
            if len(self._splits) >= _MOST_SPLITS:
                self._splits.clear()
            found = self._splits[key] = choose(question)
        return found


@final
class OperationMemo:
    """The factors and the kinds of the operations of one module, each worked out once.

    The module may not be changed meanwhile. `splits` may be those of other modules, too.
    """

    def __init__(self, splits: SplitMemo | None = None) -> None:
        self._rules: dict[tuple[Instruction, bool], OpFactors] = {}
        self._kinds: dict[tuple[Instruction, bool], int] = {}
        self._splits = splits or SplitMemo()

    def rule(self, x: Instruction, *, halos: bool) -> OpFactors:
        """Return what `device_factors` does."""
        key = x, halos
        found = self._rules.get(key)
        if found is None:
            found = self._rules[key] = device_factors(x, halos=halos)
        return found

    def split(self, question: Question, *, halos: bool) -> OperationSplit:
        """Return what `choose` does of a question with the factors that `rule` returns."""
        key = question.instruction, halos
        kind = self._kinds.get(key)
        if kind is None:
            kind = self._kinds[key] = self._splits.kind(question)
        return self._splits.split(question, kind)
