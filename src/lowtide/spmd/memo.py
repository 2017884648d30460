"""Factors and splits of operations that were worked out, for drafts that ask for them again.

So are the tilings that propagation gives to the arrays of an operation.

Drafts of one module differ in few places: most operations meet operands in the same tilings as in
the last draft, and are split as there. So are those of layers that are alike.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from lowtide.ir import Instruction, Shape
from lowtide.ir.tilings.grid import DeviceGrid
from lowtide.ir.tilings.tiling import Tiling
from lowtide.ops.factors.record import OpFactors
from lowtide.spmd.choice import OperationSplit, Question, choose, product_count
from lowtide.spmd.factor_axes import device_factors
from lowtide.spmd.inside import bytes_inside, sends
from lowtide.spmd.roles import Role, role_of

_MOST_SPLITS: Final = 100_000
"""So many splits are kept; then all are forgotten."""

_Kind = tuple[OpFactors, tuple[Shape, ...], Shape, float, tuple[bool, ...]]
"""What an operation is to a split: factors, arrays, products, which operands it alone reads."""

_Axes = tuple[tuple[int, tuple[int, ...]], ...]
"""The axes of each factor of a split."""

_Seen = tuple[int, DeviceGrid, bool, tuple[object, ...], tuple[Tiling | None, ...]]


Extensions = tuple[tuple[int, Tiling], ...]
"""The cells of a relation that are split further, by their places, and their new tilings."""

_Related = tuple[int, int, tuple[Tiling, ...], tuple[tuple[bool, ...], ...]]
"""What decides about extensions: kind, round, tilings, dimensions that may be split further."""


@final
class SplitMemo:
    """The splits of operations that are alike, each worked out once, of any modules."""

    def __init__(self) -> None:
        self._kinds: dict[_Kind, int] = {}
        self._splits: dict[_Seen, OperationSplit] = {}
        self._relations: dict[tuple[object, ...], int] = {}
        self._extensions: dict[_Related, Extensions] = {}

    def relation_kind(self, known_by: tuple[object, ...]) -> int:
        """Return the number of all relations that the same is known of."""
        return self._relations.setdefault(known_by, len(self._relations))

    def extensions(self, key: _Related) -> Extensions | None:
        """Return what was kept for a relation, None where nothing was."""
        return self._extensions.get(key)

    def keep_extensions(self, key: _Related, found: Extensions) -> None:
        """Keep what propagation does to a relation."""
        if len(self._extensions) >= _MOST_SPLITS:
            self._extensions.clear()
        self._extensions[key] = found

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
        self._relations: dict[tuple[Instruction, bool], int] = {}
        self._roles: dict[Instruction, Role] = {}
        self._own_bytes: dict[tuple[Instruction, _Axes], tuple[float, ...]] = {}
        self.splits = splits or SplitMemo()

    def role(self, x: Instruction) -> Role:
        """Return what `role_of` does."""
        found = self._roles.get(x)
        if found is None:
            found = self._roles[x] = role_of(x)
        return found

    def own_bytes(
        self, x: Instruction, rule: OpFactors, split: OperationSplit, grid: DeviceGrid
    ) -> tuple[float, ...]:
        """Return the bytes that a device sends in each collective of an operation itself."""
        if not sends(rule, split):
            return ()
        key = x, tuple(sorted(split.axes.items()))
        found = self._own_bytes.get(key)
        if found is None:
            found = self._own_bytes[key] = bytes_inside(x, rule, split, grid)
        return found

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
            kind = self._kinds[key] = self.splits.kind(question)
        return self.splits.split(question, kind)

    def relation_kind(
        self, x: Instruction, known_by: Callable[[], tuple[object, ...]], *, halos: bool
    ) -> int:
        """Return the kind of the relation of an instruction; `known_by` says what it depends on."""
        key = x, halos
        kind = self._relations.get(key)
        if kind is None:
            kind = self._relations[key] = self.splits.relation_kind(known_by())
        return kind
