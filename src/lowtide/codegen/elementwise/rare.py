"""Code that is long, in functions of its own, which kernels call instead of having it.

Such a function has one name wherever it is defined, and may be compiled once for all programs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Final, TypeAlias

from lowtide.codegen.elementwise.number import Number
from lowtide.codegen.value import vector_type
from lowtide.llvm.callee import Callee, parameters
from lowtide.llvm.function import Function
from lowtide.llvm.objects import COMMON
from lowtide.llvm.target import Target

Parts: TypeAlias = tuple[Number, ...]
"""What a function finds, each of as many lanes as its operands."""

_NAMES: Final = "xyz"


def called(
    name: str, parts: Callable[..., Parts], *operands: Number, is_rare: bool = True
) -> Parts:
    """Return what `parts` makes of operands of one type, which it alone depends on.

    On processors a function that the module has for all its kernels is called for that; `name` and
    the type of the operands tell it from others. One that is rare hardly ever runs.
    """
    x = operands[0]
    if x.target.triple.startswith("nvptx"):
        return parts(*operands)
    function, elements = _function(
        name, parts, x.target, x.element, x.lanes, len(operands), is_rare
    )
    for line in (*function.globals, function.text()):
        x.fn.define(line)
    callee = Callee(f"@{function.name}", function.returns, function.types)
    names = tuple([y.name for y in operands])
    found = x.fn.repeats.once(x.fn.block, function.name, names, lambda: x.fn.call(callee, names))
    return tuple(
        [
            x.named(element, x.fn.op(f"extractvalue {function.returns} {found}, {place}"))
            for place, element in enumerate(elements)
        ]
    )


@cache
def _function(
    name: str,
    parts: Callable[..., Parts],
    target: Target,
    element: str,
    lanes: int,
    count: int,
    is_rare: bool,
) -> tuple[Function, tuple[str, ...]]:
    """The function of operands of a type, and the element types of what it finds."""
    given = _NAMES[:count]
    fn = Function(
        f"{COMMON}{name}.{element}.{lanes}",
        parameters(**dict.fromkeys(given, vector_type(element, lanes))),
        attributes=f"nounwind noinline {'cold ' * is_rare}willreturn memory(none)",
        linkage="internal",
    )
    found = parts(*[Number(fn, target, element, lanes, f"%{x}") for x in given])
    fn.returns = f"{{ {', '.join([x.type for x in found])} }}"
    made = "poison"
    for place, part in enumerate(found):
        made = fn.op(f"insertvalue {fn.returns} {made}, {part.type} {part.name}, {place}")
    fn.ret(fn.returns, made)
    return fn, tuple([x.element for x in found])
