"""Factors and splits of operations that were worked out, for drafts that ask for them again.

Drafts of one module differ in few places: most operations meet operands in the same tilings as in
the last draft, and are split as there.
"""

from __future__ import annotations

from typing import Final, final

from lowtide.ir import Instruction
from lowtide.ir.tilings.grid import DeviceGrid
from lowtide.ir.tilings.tiling import Tiling
from lowtide.ops.factors.record import OpFactors
from lowtide.spmd.choice import OperationSplit, Question, choose
from lowtide.spmd.factor_axes import device_factors

_MOST_SPLITS: Final = 100_000
"""So many splits are kept; then all are forgotten."""

_Seen = tuple[Instruction, DeviceGrid, bool, bool, tuple[object, ...], tuple[Tiling | None, ...]]


@final
class OperationMemo:
    """The factors and the splits of the operations of one module, each worked out once.

    The module may not be changed meanwhile.
    """

    def __init__(self) -> None:
        self._rules: dict[tuple[Instruction, bool], OpFactors] = {}
        self._splits: dict[_Seen, OperationSplit] = {}

    def rule(self, x: Instruction, *, halos: bool) -> OpFactors:
        """Return what `device_factors` does."""
        key = x, halos
        found = self._rules.get(key)
        if found is None:
            found = self._rules[key] = device_factors(x, halos=halos)
        return found

    def split(self, question: Question, *, halos: bool) -> OperationSplit:
        """Return what `choose` does of a question with the factors that `rule` returns."""
        q = question
        operands = tuple([operand.seen_by(q.instruction.name) for operand in q.operands])
        key = q.instruction, q.grid, halos, q.weighs_memory, operands, tuple(q.wanted)
        found = self._splits.get(key)
        if found is None:
            if len(self._splits) >= _MOST_SPLITS:
                self._splits.clear()
            found = self._splits[key] = choose(question)
        return found
