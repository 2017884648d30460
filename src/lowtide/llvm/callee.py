"""Functions that code can call in LLVM's textual IR, and the parameters of functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import field
from functools import cache
from typing import Any, Final, final

from lowtide.records import dataclass


class CallError(TypeError):
    """A call whose values are not what is called takes, or of a function that no one defines."""


@dataclass(frozen=True, slots=True)
class FunctionParameter:
    """A parameter of a function: its type, its name without "%", and attributes ("noalias")."""

    type: str
    name: str
    attributes: str = ""

    @property
    def text(self) -> str:
        """How a definition spells it."""
        return " ".join([x for x in (self.type, self.attributes, f"%{self.name}") if x])


def parameters(**types: str) -> tuple[FunctionParameter, ...]:
    """Return parameters without attributes, in order, from their names and types."""
    return tuple([FunctionParameter(type_, name) for name, type_ in types.items()])


@dataclass(frozen=True, slots=True)
class Callee:
    """What is called, if it is no `Function`: one outside of the module, or behind a pointer.

    `symbol` is "@name", or the value of a pointer. `declaration` is the line that the module needs,
    "" for a pointer.
    """

    symbol: str
    returns: str
    types: tuple[str, ...]
    declaration: str = ""
    template: str = field(init=False)

    def __post_init__(self) -> None:
        template = call_template(self.returns, self.symbol, self.types)
        object.__setattr__(self, "template", template)


def call_template(returns: str, what: str, types: tuple[str, ...]) -> str:
    """Return how a call is written, for `str.format` with the names of its values."""
    given = ", ".join([f"{_plain(x)} {{}}" for x in types])
    return f"call {_plain(returns)} {what}({given})"


def _plain(text: str) -> str:
    """Return a text as `str.format` takes it to stand for itself."""
    return text.replace("{", "{{").replace("}", "}}")


_IMMEDIATE = " immarg"
"""What follows the type of a constant in the declaration of an intrinsic, but not in calls."""


@cache
def external(name: str, returns: str, *types: str) -> Callee:
    """Return a function that another module or LLVM defines.

    A type may end with " immarg", which is written where the function is declared.
    """
    declaration = f"declare {returns} @{name}({', '.join(types)})"
    given = tuple([x.removesuffix(_IMMEDIATE) for x in types])
    return Callee(f"@{name}", returns, given, declaration)


@cache
def intrinsic(name: str, type_: str, count: int) -> Callee:
    """Return an intrinsic overloaded on one type, that of its `count` operands and its result."""
    return external(f"llvm.{name}.{suffix(type_)}", type_, *[type_] * count)


COPY: Final = external("llvm.memcpy.p0.p0.i64", "void", "ptr", "ptr", "i64", "i1")
MOVE: Final = external("llvm.memmove.p0.p0.i64", "void", "ptr", "ptr", "i64", "i1")
SET: Final = external("llvm.memset.p0.i64", "void", "ptr", "i8", "i64", "i1")
"""Bytes copied to the first pointer from the second, of which they may meet in a move, or set."""


def pointed(pointer: str, returns: str, *types: str) -> Callee:
    """Return the function that a pointer points to."""
    return Callee(pointer, returns, types)


_SUFFIXES = {"float": "f32", "double": "f64", "half": "f16", "bfloat": "bf16", "ptr": "p0"}


def suffix(type_: str) -> str:
    """Return how intrinsics spell a type: "<16 x float>" is v16f32."""
    if type_.startswith("<"):
        count, element = type_[1:-1].split(" x ")
        return f"v{count}{_SUFFIXES.get(element, element)}"
    return _SUFFIXES.get(type_, type_)


@final
class Repeats:
    """How often things were written in a function, and the results of calls in each block."""

    __slots__ = ("_counts", "_results")

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._results: dict[Any, str] = {}

    def count(self, what: str) -> int:
        """Count one more of something that is written; return how many there are by now."""
        self._counts[what] += 1
        return self._counts[what]

    def once(self, block: str, call: str, values: tuple[str, ...], write: Callable[[], str]) -> str:
        """Return the name of the result of a call, which `write` writes where it is new in a block.

        What is called has no result but for these values, and changes nothing. Lines of a block run
        in the order in which they are written.
        """
        key = (block, call, values)
        if key not in self._results:
            self._results[key] = write()
        return self._results[key]
