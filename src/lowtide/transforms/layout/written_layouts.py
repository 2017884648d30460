"""The labels of layout assignment as layouts of shapes, with copies where two of them meet."""

from __future__ import annotations

from typing import Final, final

from lowtide.ir import Instruction, Opcode, Shape, ShapeIndex, tuple_shape
from lowtide.ir.traversal import post_order
from lowtide.transforms.layout.forms import changes_layout
from lowtide.transforms.layout.orders import Order, order_of, same_bytes, with_order
from lowtide.transforms.layout.problem import (
    RESULT,
    LayoutProblem,
    LayoutUnit,
    Needs,
    is_moved,
    needs,
)


def write_layouts(problem: LayoutProblem) -> int:
    """Change the module of a problem; return how many shapes changed and copies came or went."""
    return _Writer(problem).run()


_MOVES: Final = frozenset({Opcode.TRANSPOSE, Opcode.RESHAPE})
"""Operations that may move what they return: it needs no copy behind them."""


@final
class _Writer:
    """Gives shapes the layouts of the labels, and makes copies where two meet."""

    def __init__(self, problem: LayoutProblem) -> None:
        self.problem = problem
        self.changes = 0
        self._copies: dict[tuple[Instruction, Order], Instruction] = {}
        relayouts = [x.instruction for x in problem.units if changes_layout(x.instruction)]
        self._relayouts = dict.fromkeys(relayouts)

    def run(self) -> int:
        """Write all layouts."""
        concerned = [unit for unit in self.problem.units if unit.cost or is_moved(unit)]
        wanted = {unit: needs(unit) for unit in concerned}
        units: dict[Instruction, list[LayoutUnit]] = {}
        for unit in concerned:
            if unit.number != RESULT:
                units.setdefault(unit.instruction, []).append(unit)
        for computation in self.problem.places.computations:
            for x in post_order(computation):
                shape = self._shape(x, x.shape, ())
                if shape is not x.shape:
                    x.set_shape(shape)
                    self.changes += 1
                for unit in () if x in self._relayouts else units.get(x, ()):
                    self._fit_operands(unit, wanted[unit])
                    self._fit_result(unit, wanted[unit])
        self._fit_root(wanted)
        for x in self._relayouts:
            self._drop_needless(x)
        return self.changes

    def _shape(self, x: Instruction, shape: Shape, index: ShapeIndex) -> Shape:
        if shape.is_tuple:
            elements = [self._shape(x, y, (*index, i)) for i, y in enumerate(shape.tuple_shapes)]
            return tuple_shape(elements)
        node = self.problem.node(x, index)
        if node is None or same_bytes(node.label, node.present, node.sizes):
            return shape
        return with_order(shape, node.label)

    def _fit_root(self, wanted: dict[LayoutUnit, Needs]) -> None:
        last = self.problem.units[-1]
        if last.number != RESULT or last not in wanted:
            return
        node, order = last.operands[0], wanted[last].operands[0]
        if node is None or order is None:
            return
        if not same_bytes(node.label, order, node.sizes):
            root = last.instruction.parent.root
            root.parent.root = self._copy(root, order)

    def _fit_operands(self, unit: LayoutUnit, wanted: Needs) -> None:
        x = unit.instruction
        for i, (node, order) in enumerate(zip(unit.operands, wanted.operands, strict=True)):
            if node is None or order is None or same_bytes(node.label, order, node.sizes):
                continue
            operand = x.operands[unit.number + i]
            copy = self._copies.get((operand, order))
            if copy is None:
                copy = self._copies[operand, order] = self._copy(operand, order)
            x.replace_operand(unit.number + i, copy)

    def _fit_result(self, unit: LayoutUnit, wanted: Needs) -> None:
        x, node, order = unit.instruction, unit.result, wanted.result
        if x.opcode in _MOVES:
            return
        if node is None or order is None or same_bytes(node.label, order, node.sizes):
            return
        label = order_of(x.shape)
        x.set_shape(with_order(x.shape, order))
        readers = list(x.users)
        copy = self._copy(x, label)
        for reader in readers:
            for number, operand in enumerate(reader.operands):
                if operand is x:
                    reader.replace_operand(number, copy)
        if x.is_root:
            x.parent.root = copy

    def _copy(self, x: Instruction, order: Order) -> Instruction:
        self.changes += 1
        copy = x.parent.add(Opcode.COPY, with_order(x.shape, order), (x,))
        copy.set_metadata(x.raw_metadata)
        return copy

    def _drop_needless(self, copy: Instruction) -> None:
        """Remove a copy that changed the layout once, where it no longer does."""
        if copy.shape is copy.operands[0].shape and not copy.has_control_edges:
            copy.replace_all_uses_with(copy.operands[0])
            copy.parent.remove(copy)
            self.changes += 1
