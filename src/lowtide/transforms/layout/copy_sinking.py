"""Copies between layouts, moved to where fewer bytes are.

That is down, to parts, sums and narrower types, and up, to what is repeated or padded later.

Before: c = f32[64,64]{0,1} copy(x); y = f32[64,4]{0,1} slice(c)
After:  s = f32[64,4]{1,0} slice(x); y = f32[64,4]{0,1} copy(s)
"""

from __future__ import annotations

from collections import deque
from typing import Final

from lowtide.ir import Computation, Instruction, Module, Opcode
from lowtide.ir.traversal import post_order
from lowtide.passes.interface import Pass, example
from lowtide.passes.matching import has_one_user
from lowtide.transforms.layout.forms import changes_layout, form_of, keeps_rank, rule_of
from lowtide.transforms.layout.orders import Order, is_movable, order_of, same_bytes, with_order
from lowtide.transforms.layout.places import computation_runs
from lowtide.transforms.layout.preferences import penalty


def sink_copies(module: Module) -> int:
    """Move copies that change the layout past operations where that moves fewer bytes.

    They also sink where the bytes are as many: there they may meet others. Returns how many
    operations were passed.
    """
    return sum([_sink(computation) for computation in computation_runs(module)])


def _sink(computation: Computation) -> int:
    waiting = deque(post_order(computation))
    passed = 0
    while waiting:
        x = waiting.popleft()
        if computation.instructions.get(x.name) is not x or x.has_control_edges:
            continue
        near = [*x.users, *x.operands]
        if _merged(x) or _raised(x) or _lowered(x):
            passed += 1
            found = computation.instructions.get(x.name)
            waiting.extend([x, *x.users, *near] if found is x else near)
    return passed


def _merged(x: Instruction) -> bool:
    """Let a copy read what another copy reads; drop it where that lies as it should."""
    if x.opcode is not Opcode.COPY or not changes_layout(x):
        return False
    inner = x.operands[0]
    if inner.opcode is not Opcode.COPY or not changes_layout(inner) or inner.has_control_edges:
        return False
    source = inner.operands[0]
    x.replace_operand(0, source)
    if not inner.users and not inner.is_root:
        inner.parent.remove(inner)
    if source.shape is x.shape:
        x.replace_all_uses_with(source)
        x.parent.remove(x)
    return True


# -- down --------------------------------------------------------------------------------------


def _lowered(x: Instruction) -> bool:
    """Let an operation read what copies read, with a copy behind it, where that is no loss."""
    if x.opcode in _STAY or not x.shape.is_array:
        return False
    copies = [y for y in dict.fromkeys(x.operands) if _is_own_copy(y)]
    if not copies:
        return False
    orders = [order_of(y.operands[0].shape if y in copies else y.shape) for y in x.operands]
    wanted = order_of(x.shape)
    form = form_of(x, orders, order_of(copies[0].operands[0].shape) if keeps_rank(x) else wanted)
    if form is None or not all(
        _fits(*each) for each in zip(x.operands, orders, form.orders, strict=True)
    ):
        return False
    before = sum([y.shape.nbytes for y in copies]) + penalty(x, _orders(x), wanted)
    moves = not same_bytes(form.order, wanted, x.shape.dimensions)
    if penalty(x, form.orders, form.order) + (x.shape.nbytes if moves else 0) > before:
        return False
    if moves and all(_is_stored(user) for user in x.users):
        return False
    for number, (y, order) in enumerate(zip(x.operands, form.orders, strict=True)):
        if y in copies:
            x.replace_operand(number, y.operands[0])
        elif order_of(y.shape) != order:
            y.set_shape(with_order(y.shape, order))
    for y in copies:
        y.parent.remove(y)
    if moves:
        _put_copy_behind(x, form.order)
    return True


def _is_stored(x: Instruction) -> bool:
    """Whether operands have to lie in memory; a copy there would be a kernel of its own."""
    return rule_of(x) is None


def _fits(x: Instruction, order: Order, wanted: Order) -> bool:
    """Whether an operand lies as wanted, or can as well be made so."""
    if same_bytes(order, wanted, x.shape.dimensions):
        return True
    return x.opcode in _MADE_IN_ANY_ORDER and has_one_user(x) and not x.has_control_edges


_STAY: Final = frozenset({Opcode.CONVOLUTION, Opcode.COPY})
"""What copies do not pass: a convolution could do with any layout, but has the ones it likes."""

_MADE_IN_ANY_ORDER: Final = frozenset({Opcode.BROADCAST, Opcode.IOTA})


def _is_own_copy(x: Instruction) -> bool:
    return (
        x.opcode is Opcode.COPY
        and has_one_user(x)
        and changes_layout(x)
        and is_movable(x.operands[0].shape)
        and not x.has_control_edges
    )


def _orders(x: Instruction) -> list[Order]:
    return [order_of(y.shape) for y in x.operands]


def _put_copy_behind(x: Instruction, order: Order) -> None:
    """Give an operation another layout, and its readers a copy in the old one."""
    shape, users, is_root = x.shape, list(x.users), x.is_root
    x.set_shape(with_order(shape, order))
    copy = x.parent.add(Opcode.COPY, shape, (x,))
    copy.set_metadata(x.raw_metadata)
    for user in users:
        for number, y in enumerate(user.operands):
            if y is x:
                user.replace_operand(number, copy)
    if is_root:
        x.parent.root = copy


# -- up ----------------------------------------------------------------------------------------


def _raised(copy: Instruction) -> bool:
    """Let an operation make what it is copied to, with copies of operands if these are smaller."""
    if copy.opcode is not Opcode.COPY or not changes_layout(copy) or copy.has_control_edges:
        return False
    x = copy.operands[0]
    if x.opcode in _STAY or x.has_control_edges or not x.operands or not has_one_user(x):
        return False
    wanted, orders = order_of(copy.shape), _orders(x)
    form = form_of(x, orders, wanted)
    if form is None or not same_bytes(form.order, wanted, x.shape.dimensions):
        return False
    places = [
        i
        for i, (y, a, b) in enumerate(zip(x.operands, orders, form.orders, strict=True))
        if not same_bytes(a, b, y.shape.dimensions)
    ]
    moved = sum([x.operands[i].shape.nbytes for i in places])
    if moved + penalty(x, form.orders, wanted) >= x.shape.nbytes + penalty(x, orders, wanted):
        return False
    for i in places:
        y = x.operands[i]
        early = x.parent.add(Opcode.COPY, with_order(y.shape, form.orders[i]), (y,))
        early.set_metadata(y.raw_metadata)
        x.replace_operand(i, early)
    x.set_shape(copy.shape)
    copy.replace_all_uses_with(x)
    copy.parent.remove(copy)
    return True


PASSES: Final = (
    Pass(
        "copy-sinking",
        sink_copies,
        "Moves copies between layouts past operations to where fewer bytes are.",
        *example(
            """
HloModule m, entry_computation_layout={(f32[8,8]{1,0})->f32[2,8]{1,0}}

ENTRY main {
  x = f32[8,8]{1,0} parameter(0)
- copy = f32[8,8]{0,1} copy(x)
- part = f32[2,8]{0,1} slice(copy), slice={[2:4], [0:8]}
- ROOT y = f32[2,8]{1,0} copy(part)
+ ROOT part = f32[2,8]{1,0} slice(x), slice={[2:4], [0:8]}
}
"""
        ),
    ),
)
