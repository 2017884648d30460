"""Functions that code can call in LLVM's textual IR, their parameters, and fences of shuffles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import field
from functools import cache
from typing import TYPE_CHECKING, Any, Final, final

from lowtide.records import dataclass

if TYPE_CHECKING:
    from lowtide.llvm.function import Function


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


# -- fences ------------------------------------------------------------------------------------
#
# LLVM 22 is not to know how operands of some shuffles were made. For AVX-512 it does not end where
# it narrows bytes by itself, for x86-64 it is wrong where it makes floats of halves after they were
# shuffled. A fence is no code at all; what is behind it is not merged with what is before.

_HALF: Final = 32
"""Bytes of half a vector of AVX-512; LLVM ends for shuffles that give no more."""

GROUP: Final = 4
"""How many floats x86-64 shuffles among each other; of halves, twice as many."""

_FLOATS: Final = "<8 x float>"
"""What goes through a fence instead of half a vector of bytes."""


def fenced(
    fn: Function, type_: str, a: str, b: str, order: list[int]
) -> tuple[str, str, list[int]]:
    """Return the operands of a shuffle, and the lanes that it takes of them."""
    if min(_lanes_of(type_, "i8"), len(order)) > _HALF:
        return _halves(fn, type_, a, b, order)
    floats = _lanes_of(type_, "float")
    if fn.has_halves and floats and max(floats, len(order)) > GROUP:
        a, b = [_fence(fn, type_, x) if x[0] == "%" and x not in fn.shuffled else x for x in (a, b)]
    return a, b, order


def _fence(fn: Function, type_: str, vector: str) -> str:
    return fn.call(intrinsic("arithmetic.fence", type_, 1), [vector])


def _halves(
    fn: Function, type_: str, a: str, b: str, order: list[int]
) -> tuple[str, str, list[int]]:
    """Return two vectors of bytes with only the half that a shuffle reads, and its lanes.

    Else LLVM narrows a vector itself where a shuffle repeats bytes of one half of it in turn.
    Halves are the first ones of what is returned.
    """
    size = _lanes_of(type_, "i8")
    found = []
    for start, vector in ((0, a), (size, b)):
        read = {(x - start) // _HALF * _HALF for x in order if start <= x < start + size}
        if len(read) != 1:
            found.append(vector)
            continue
        (half,) = read
        found.append(_half(fn, type_, vector, half))
        order = [x - half if start <= x < start + size else x for x in order]
    return found[0], found[1], order


def _half(fn: Function, type_: str, vector: str, start: int) -> str:
    """Return a vector of bytes that begins with the half of another one from `start` on."""
    size, narrow = _lanes_of(type_, "i8"), f"<{_HALF} x i8>"
    lanes = [x if x < size else -1 for x in range(start, start + _HALF)]
    half = fn.shuffle(type_, vector, "poison", lanes)
    numbers = fn.op(f"bitcast {narrow} {half} to {_FLOATS}")
    half = fn.op(f"bitcast {_FLOATS} {_fence(fn, _FLOATS, numbers)} to {narrow}")
    wide = [x if x < _HALF else -1 for x in range(size)]
    return fn.shuffle(narrow, half, "poison", wide)


def _lanes_of(type_: str, element: str) -> int:
    """The number of lanes of a vector of such elements, 0 for other types."""
    size, _, found = type_.strip("<>").partition(" x ")
    return int(size) if found == element else 0
