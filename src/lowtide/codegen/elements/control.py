"""Control flow in computations of scalars, which are applied to elements one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from lowtide.codegen.elements.elements import Elements
from lowtide.codegen.elements.parts import all_of, ask, chosen
from lowtide.codegen.elements.reducers import carried, renamed
from lowtide.codegen.elements.values import CallFrame, Element, Mask, Request, Rule
from lowtide.codegen.value import Value, vector_type
from lowtide.ir import Computation, Instruction, Opcode
from lowtide.ir.attributes import Conditional
from lowtide.ir.errors import unsupported
from lowtide.llvm.callee import external, suffix


def conditional(elements: Elements, request: Request) -> Rule:
    """Compute all branches, and choose among their results."""
    instruction = request.instruction
    _require_scalars(instruction)
    count = len(instruction.operands)
    selector, *given = yield from all_of([ask(request, number, ()) for number in range(count)])
    found: list[Element] = []
    for branch, operand in zip(instruction.called_computations, given, strict=True):
        frame = CallFrame(elements={branch.parameters[0]: operand})
        found.append((yield Request(branch.root, (), request.mask, frame)))
    if instruction.attributes_as(Conditional).is_predicated:
        return chosen(elements, _mask(selector), found[0], found[1])
    result = found[-1]
    for number, element in enumerate(found[:-1]):
        result = chosen(elements, _equals(elements, selector, number), element, result)
    return result


def _mask(element: Element) -> Mask:
    (value,) = element.values
    return Mask(value.name, value.lanes, element.level)


def _equals(elements: Elements, element: Element, number: int) -> Mask:
    (value,) = element.values
    right = f"splat (i32 {number})" if value.lanes else str(number)
    name: str = elements.scopes.once(
        ("equals", value, number),
        element.level,
        lambda: elements.function.op(f"icmp eq {value.llvm_type} {value.name}, {right}"),
    )
    return Mask(name, value.lanes, elements.scopes.placed(element.level))


def while_loop(elements: Elements, request: Request) -> Rule:
    """Repeat the body while the condition holds in some lane; where it does not, values stay.

    Lanes that nobody wants take no part: their values are none for which a loop need end.
    """
    instruction = request.instruction
    _require_scalars(instruction)
    start = yield ask(request, 0, ())
    condition, body = instruction.called_computations
    level = start.level if request.mask is None else max(start.level, request.mask.level)
    place = elements.scopes.placed(level)
    with elements.scopes.at_level(place):
        lanes = elements.lanes  # the body may read what differs from lane to lane
        state = [
            x if x.lanes or not lanes else elements.vectors.splat(x, place) for x in start.values
        ]
        results = _repeated(elements, condition, body, state, request.mask)
    return Element(tuple(results), place)


def _repeated(
    elements: Elements,
    condition: Computation,
    body: Computation,
    state: Sequence[Value],
    mask: Mask | None,
) -> list[Value]:
    """The loop: a test at its head, and values that are carried around."""
    fn = elements.function
    lanes = state[0].lanes
    head, inside, done = (fn.fresh_label(x) for x in ("head", "again", "done"))
    entry = fn.block
    fn.do(f"br label %{head}")
    fn.label(head)
    names = [fn.fresh("state") for _ in carried(state)]
    first_line = len(fn.lines)
    values = renamed(state, names)
    with elements.scopes.inside():
        test = _tested(elements, condition, values, mask)
        fn.do(f"br i1 {_any(elements, test)}, label %{inside}, label %{done}")
        fn.label(inside)
        after = _applied(elements, body, values)
        kept = [_kept(elements, test, a, b, lanes) for a, b in zip(after, values, strict=True)]
    latch = fn.block
    fn.do(f"br label %{head}")
    phis = [
        f"  {name} = phi {type_} [ {first}, %{entry} ], [ {last}, %{latch} ]"
        for name, (type_, first), (_, last) in zip(
            names, carried(state), carried(kept), strict=True
        )
    ]
    fn.lines[first_line:first_line] = phis
    fn.label(done)
    return values


def _applied(
    elements: Elements, computation: Computation, values: Sequence[Value]
) -> tuple[Value, ...]:
    given = Element(tuple(values), elements.scopes.level)
    return elements.apply(computation, [given]).values


def _tested(
    elements: Elements, condition: Computation, values: Sequence[Value], mask: Mask | None
) -> Value:
    """Where the condition holds, and elements are wanted."""
    lanes = values[0].lanes
    (test,) = _applied(elements, condition, values)
    if lanes and not test.lanes:
        test = elements.vectors.splat(test)
    if mask is None:
        return test
    wanted = mask.name if not lanes else elements.vectors.mask_lanes(mask, lanes)
    name = elements.function.op(f"and {test.llvm_type} {test.name}, {wanted}")
    return Value((name,), test.type, lanes)


def _any(elements: Elements, test: Value) -> str:
    """Whether a truth value holds in some lane."""
    if not test.lanes:
        return test.name
    type_ = vector_type("i1", test.lanes)
    callee = external(f"llvm.vector.reduce.or.{suffix(type_)}", "i1", type_)
    return elements.function.call(callee, [test.name])


def _kept(elements: Elements, test: Value, after: Value, before: Value, lanes: int) -> Value:
    """The values after an iteration in the lanes that take part."""
    fn = elements.function
    new = after if after.lanes or not lanes else elements.vectors.splat(after)
    kind = vector_type("i1", test.lanes)
    names = tuple(
        [
            fn.op(f"select {kind} {test.name}, {new.llvm_type} {x}, {new.llvm_type} {y}")
            for x, y in zip(new.names, before.names, strict=True)
        ]
    )
    return Value(names, new.type, new.lanes)


def _require_scalars(instruction: Instruction) -> None:
    """Raise UnsupportedOpError unless all operands and results are scalars."""
    shapes = [instruction.shape, *[x.shape for x in instruction.operands]]
    if any(not leaf.is_array or leaf.rank for x in shapes for _, leaf in x.leaves()):
        reason = "inside of a kernel there is control flow of scalars only"
        raise unsupported(instruction, reason)


RULES: Final[dict[Opcode, Callable[[Elements, Request], Rule]]] = {
    Opcode.CONDITIONAL: conditional,
    Opcode.WHILE: while_loop,
}
"""Rules for control flow."""
