"""Layout normalization: each value as its row-major twin, relayouts as transposes.

The twin of a value has the same bytes, its dimensions numbered as they lie. Operations take their
attributes along (`forms.py`). Some operations take and give arrays as they are; they, and the
borders of the program, keep their layouts behind and before a bitcast, which costs nothing.

Before: y = f32[2,3]{0,1} negate(x); z = f32[2,3]{1,0} copy(y)
After:  y = f32[3,2]{1,0} negate(bitcast(x)); z = f32[2,3]{1,0} transpose(y), dimensions={1,0}
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, final

from lowtide.ir import (
    Computation,
    Instruction,
    Module,
    Opcode,
    Shape,
    ShapeIndex,
    array_shape,
    tuple_shape,
)
from lowtide.ir.attributes import GetTupleElement
from lowtide.ir.opcode import CONTROL_FLOW
from lowtide.ir.traversal import post_order
from lowtide.passes.interface import Pass, example
from lowtide.transforms.layout.forms import LayoutForm, attributes_in, form_of
from lowtide.transforms.layout.orders import (
    Order,
    bitcast,
    is_default,
    is_movable,
    order_of,
    permuted,
    reordered,
    row_major_order,
    twin_shape,
)
from lowtide.transforms.layout.places import LayoutPlaces, passed


def normalize_layouts(module: Module) -> int:
    """Replace values by their row-major twins; return how many instructions changed.

    Where loops or calls disagree on the layout of what they hand on, nothing is done.
    """
    places = LayoutPlaces(module)
    if not places.is_consistent or not any(map(_has_order, places.computations)):
        return 0
    return _Normalizer(places).run()


def _has_order(computation: Computation) -> bool:
    """Whether any value does not lie as its dimensions are numbered."""
    return any(
        leaf.is_array and not is_default(leaf)
        for x in computation.instructions.values()
        for _, leaf in x.shape.leaves()
    )


@final
class _Normalizer:
    """The twins of the values of a module, where these are not the values themselves."""

    def __init__(self, places: LayoutPlaces) -> None:
        self.places = places
        self.changes = 0
        self._shapes: dict[Instruction, Shape] = {}
        """The shapes that values had."""
        self._twins: dict[Instruction, Instruction] = {}

    def run(self) -> int:
        """Change the module; return how many instructions changed."""
        orders = {x: post_order(x) for x in self.places.computations}
        for instructions in orders.values():
            self._shapes.update({x: x.shape for x in instructions})
        for computation, instructions in orders.items():
            for x in instructions:
                if x.shape.is_array:
                    self._array(x)
                else:
                    self._other(x)
            self._root(computation)
        for computation, instructions in orders.items():
            self._replace(computation, instructions)
        return self.changes

    def _replace(self, computation: Computation, instructions: list[Instruction]) -> None:
        """Let those that had no reason to change read twins; remove what nobody reads any more."""
        for x in instructions:
            twin = self._twins.get(x, x)
            if twin.shape is x.shape and twin is not x:
                x.replace_all_uses_with(twin)
        for x in reversed(instructions):
            if self._twins.get(x, x) is not x and not x.users and _is_replaceable(x):
                computation.remove(x)

    # -- values --------------------------------------------------------------------------------

    def _order(self, x: Instruction) -> Order:
        return order_of(self._shapes.get(x, x.shape))

    def _twin(self, x: Instruction, order: Order) -> Instruction:
        """Return the twin of a value in an order, row major."""
        found = self._twins.get(x)
        if found is None:
            found = x
            if not is_default(x.shape):
                found = self._twins[x] = bitcast(x, twin_shape(x.shape))
        return reordered(found, self._order(x), order)

    def _physical(self, x: Instruction) -> Instruction:
        """Return a value in the shape that it had."""
        twin, shape = self._twins.get(x, x), self._shapes.get(x, x.shape)
        return twin if twin.shape is shape else bitcast(twin, shape)

    def _place_shape(self, x: Instruction, shape: Shape, index: ShapeIndex) -> Shape:
        """Return the shape of a place from now on, of a tuple element by element."""
        if shape.is_tuple:
            elements = enumerate(shape.tuple_shapes)
            return tuple_shape([self._place_shape(x, y, (*index, i)) for i, y in elements])
        if not is_movable(shape) or self.places.of(x, index) in self.places.pinned:
            return shape
        return twin_shape(shape)

    def _in_place(self, x: Instruction) -> None:
        shape = self._place_shape(x, x.shape, ())
        if shape is not x.shape:
            x.set_shape(shape)
            self.changes += 1
            if shape.is_array:
                self._twins[x] = x

    # -- instructions --------------------------------------------------------------------------

    def _other(self, x: Instruction) -> None:
        """Tuples and what is no array stay, with other shapes."""
        before = x.shape
        self._in_place(x)
        if x.opcode is Opcode.TUPLE:
            wanted = list(before.tuple_shapes)
            for i, y in enumerate(x.operands):
                if y.shape.is_array:
                    self._hand_over(x, i, wanted[i], self.places.of(x, (i,)) in self.places.pinned)
        elif not self._calls(x):
            self._keep_operands(x)

    def _calls(self, x: Instruction) -> bool:
        """Hand arrays over to computations; False where the instruction calls none of these."""
        if x.opcode not in CONTROL_FLOW:
            return False
        if any(callee not in self.places.computations for callee in x.called_computations):
            return False
        for i, callee in passed(x):
            parameter = callee.parameters[i if x.opcode is Opcode.CALL else 0]
            if parameter.shape.is_array:
                pinned = self.places.of(parameter) in self.places.pinned
                self._hand_over(x, i, self._shapes[parameter], pinned)
        return True

    def _hand_over(self, x: Instruction, number: int, wanted: Shape, pinned: bool) -> None:
        """Let an operand be what a place wants that had a shape, and still has it if `pinned`."""
        operand = x.operands[number]
        same = self._shapes.get(operand, operand.shape) is wanted
        if not is_movable(wanted) or (pinned and same):
            self._replace_operand(x, number, self._physical(operand))
            return
        twin = self._twin(operand, order_of(wanted))
        self._replace_operand(x, number, bitcast(twin, wanted) if pinned else twin)

    def _keep_operands(self, x: Instruction) -> None:
        for number, operand in enumerate(x.operands):
            if operand.shape.is_array:
                self._replace_operand(x, number, self._physical(operand))

    def _replace_operand(self, x: Instruction, number: int, operand: Instruction) -> None:
        if x.operands[number] is not operand:
            x.replace_operand(number, operand)
            self.changes += 1

    def _array(self, x: Instruction) -> None:
        if x.opcode is Opcode.PARAMETER:
            self._in_place(x)
        elif x.opcode is Opcode.GET_TUPLE_ELEMENT:
            self._element(x)
        elif self._calls(x):
            self._in_place(x)
        else:
            self._operation(x)

    def _element(self, x: Instruction) -> None:
        source, index = x.operands[0], x.attributes_as(GetTupleElement).index
        before = self._shapes[source].tuple_shapes[index]
        after = source.shape.tuple_shapes[index]
        if after is x.shape:
            return
        own = order_of(x.shape)
        x.set_shape(after)
        self.changes += 1
        self._twins[x] = reordered(bitcast(x, twin_shape(before)), order_of(before), own)

    def _operation(self, x: Instruction) -> None:
        own = self._order(x)
        orders = [self._order(y) for y in x.operands]
        if all(order == row_major_order(len(order)) for order in (own, *orders)):
            return
        form = None if x.has_control_edges else form_of(x, orders, own)
        if form is None:
            self._keep_operands(x)
            return
        self._twins[x] = reordered(self._rebuilt(x, form), form.order, own)
        self.changes += 1

    def _rebuilt(self, x: Instruction, form: LayoutForm) -> Instruction:
        pairs = zip(x.operands, form.orders, strict=False)
        operands = [self._twin(y, order) for y, order in pairs]
        if form.passes_on:
            return operands[0]
        if form.operands is not None:
            operands = [operands[i] for i in form.operands]
        return x.parent.add_like(
            x,
            tuple(operands),
            shape=array_shape(x.shape.element_type, permuted(x.shape.dimensions, form.order)),
            attributes=attributes_in(x, form),
            annotations=replace(x.annotations, sharding=None),
        )

    def _root(self, computation: Computation) -> None:
        root = computation.root
        if not root.shape.is_array:
            return
        stays = computation.is_entry or not is_movable(self._shapes.get(root, root.shape))
        if stays or self.places.of(root) in self.places.pinned:
            new = self._physical(root)
        else:
            new = self._twin(root, self._order(root))
        if new is not root:
            computation.root = new
            self.changes += 1


def _is_replaceable(x: Instruction) -> bool:
    """Whether an instruction may go once it has no users."""
    return not x.is_root and x.opcode is not Opcode.PARAMETER and not x.has_control_edges


PASSES: Final = (
    Pass(
        "layout-normalization",
        normalize_layouts,
        "Makes all arrays row major: puts their dimensions into the order in which they lie.",
        *example(
            """
HloModule m, entry_computation_layout={(f32[2,3]{0,1})->f32[2,3]{1,0}}

ENTRY main {
  x = f32[2,3]{0,1} parameter(0)
- y = f32[2,3]{0,1} negate(x)
- ROOT z = f32[2,3]{1,0} copy(y)
+ bitcast = f32[3,2]{1,0} bitcast(x)
+ y.1 = f32[3,2]{1,0} negate(bitcast)
+ ROOT transpose = f32[2,3]{1,0} transpose(y.1), dimensions={1,0}
}
"""
        ),
    ),
)
