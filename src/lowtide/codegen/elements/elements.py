"""The values of a kernel's instructions at index tuples: how all kernels compute elements.

Every value is written where the loops around it allow, as far out as it can be, and once. A rule
for an operation (`rules.py`) is a generator: it yields the operands' elements that it needs and
gets their values; so chains of any length take no stack.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from lowtide.codegen import indexing
from lowtide.codegen.elements.reading import Array, read
from lowtide.codegen.elementwise import memory
from lowtide.codegen.indexing import Affine, Variable
from lowtide.codegen.value import Value
from lowtide.ir import Computation, ElementType, Instruction
from lowtide.llvm.function import Function, Integer, Loop
from lowtide.llvm.target import Target

if TYPE_CHECKING:
    from lowtide.codegen.cpu.tiles import Tile

Index: TypeAlias = "tuple[Affine, ...]"

_NARROW: Final = 1 << 31
"""Indices below this are computed in 32 bits where lanes differ."""

_INDEX: Final = {"i32": ElementType.S32, "i64": ElementType.S64}


@dataclass(frozen=True, slots=True)
class Mask:
    """Where elements are wanted: an i1, or one per lane; `level` as of `Variable`.

    `count` is the number of lanes where it holds, if these are known to be the first ones, else 0.
    """

    name: str
    lanes: int
    level: int
    count: int = 0


class Element(NamedTuple):
    """The values of an instruction at an index (several where it yields a tuple of scalars).

    `level` is the depth of loops at which they are known.
    """

    values: tuple[Value, ...]
    level: int


class Request(NamedTuple):
    """What a rule asks for: an instruction's element; where `mask` is false any value will do."""

    instruction: Instruction
    at: Index
    mask: Mask | None
    frame: Frame


Rule: TypeAlias = "Generator[Request, Element, Element]"


@dataclass(frozen=True, eq=False, slots=True)
class Frame:
    """One use of a computation: what its parameters stand for.

    They are arrays in memory, elements, or operands of `caller` in the frame `parent`. `tuples` has
    the arrays of parameters that are tuples, depth first.
    """

    arrays: Mapping[Instruction, Array] = field(default_factory=dict)
    elements: Mapping[Instruction, Element] = field(default_factory=dict)
    caller: Instruction | None = None
    parent: Frame | None = None
    tuples: Mapping[Instruction, tuple[Array, ...]] = field(default_factory=dict)


@dataclass(eq=False, slots=True)
class _Scope:
    """What is known within a loop, or under a condition, where `loop` is None."""

    loop: Loop | None
    known: dict[Any, Element] = field(default_factory=dict)


class Elements:
    """Writes elements into a function, whose loops it has to know of.

    `lanes` is the length of vectors; a lane variable makes values vary over so many.
    """

    def __init__(self, function: Function, target: Target, lanes: int) -> None:
        self.function = function
        self.target = target
        self.lanes = lanes
        self.globals: dict[str, str] = {}
        self.reads: list[tuple[Array, Affine]] = []
        """All places in memory that are read or written."""
        self.writes: list[tuple[Array, Affine]] = []
        """Those that are written by `store`."""
        self.fixed: dict[Variable, None] = {}
        """Variables that are used otherwise than in addresses."""
        self.quotients: list[tuple[Affine, int]] = []
        """Indices that had to be divided, and by what."""
        self.tests: list[tuple[Affine, int, int]] = []
        """Indices that had to be compared, with the ends of the range, the latter excluded."""
        self.raw: Mapping[ElementType, ElementType] = {}
        """Types of constants in whose place integers are moved."""
        self.is_streaming = False
        """Whether vectors are stored past the caches where addresses allow it."""
        self.tile: Tile | None = None
        """How elements are read that do not lie side by side along the lanes."""
        self._scopes = [_Scope(None)]
        self._variables = 0
        self._frames: dict[Any, Frame] = {}
        self._provided: dict[Instruction, Callable[[Index, Mask | None], Element]] = {}
        self._divided: dict[Variable, tuple[Affine, int]] = {}

    # -- loops and variables -------------------------------------------------------------------

    @property
    def level(self) -> int:
        """The depth of loops and conditions at this place."""
        return len(self._scopes) - 1

    def variable(self, name: Integer, extent: int, *, is_lane: bool = False) -> Affine:
        """Return an i64 that is known from here on as an index below `extent`."""
        if isinstance(name, int) and not is_lane:
            return indexing.constant(name)
        self._variables += 1
        return indexing.of(Variable(self._variables, str(name), extent, self.level, is_lane))

    @contextmanager
    def loop(
        self,
        start: Integer,
        stop: Integer,
        step: Integer = 1,
        carry: Sequence[tuple[str, str]] = (),
    ) -> Iterator[Loop]:
        """Write a loop as `Function.loop` does; values in it go ahead of it where they can."""
        with self.function.loop(start, stop, step, carry) as loop:
            self._scopes.append(_Scope(loop))
            yield loop
            self._scopes.pop()

    @contextmanager
    def when(self, condition: str) -> Iterator[None]:
        """Write what runs only where an i1 holds; nothing in it goes ahead of it."""
        with self.function.when(condition):
            self._scopes.append(_Scope(None))
            yield
            self._scopes.pop()

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Write what is branched to by other means than `when`; nothing in it goes ahead of it."""
        self._scopes.append(_Scope(None))
        yield
        self._scopes.pop()

    @contextmanager
    def at_level(self, level: int) -> Iterator[None]:
        """Write ahead of the loops deeper than `level`, but not ahead of a condition."""
        scopes = self._scopes
        place = self.level
        while place > level and scopes[place].loop is not None:
            place -= 1
        if place == self.level:
            yield
            return
        loop = scopes[place + 1].loop
        assert loop is not None
        self._scopes = scopes[: place + 1]
        with self.function.before(loop):
            yield
        self._scopes = scopes

    def provide(
        self, instruction: Instruction, rule: Callable[[Index, Mask | None], Element]
    ) -> None:
        """Have the elements of an instruction come from `rule`; it replaces the usual way."""
        self._provided[instruction] = rule

    def forget(self) -> None:
        """Forget values that are known at this place, since memory that they came from changed."""
        for scope in self._scopes:
            scope.known.clear()

    # -- elements ------------------------------------------------------------------------------

    def at(
        self, instruction: Instruction, index: Index, frame: Frame, mask: Mask | None = None
    ) -> Value:
        """Return the value of an array-shaped instruction at an index."""
        (value,) = self.all_at(instruction, index, frame, mask).values
        return value

    def all_at(
        self, instruction: Instruction, index: Index, frame: Frame, mask: Mask | None = None
    ) -> Element:
        """Return the values of an instruction, one for each array of its shape."""
        from lowtide.codegen.elements.rules import rule_of

        stack: list[tuple[Any, Rule]] = []
        found: Element | None = None
        request: Request | None = Request(instruction, index, mask, frame)
        while True:
            if request is not None:
                key = request
                found = self._known(key)
                if found is None:
                    stack.append((key, rule_of(self, request)))
            if not stack:
                assert found is not None
                return found
            key, rule = stack[-1]
            try:
                request = next(rule) if found is None else rule.send(found)
                found = None
            except StopIteration as end:
                stack.pop()
                found, request = end.value, None
                assert found is not None
                self._remember(key, found)

    def _known(self, key: Any) -> Element | None:
        for scope in reversed(self._scopes):
            found = scope.known.get(key)
            if found is not None:
                return found
        return None

    def _remember(self, key: Any, element: Element) -> None:
        self._scopes[self.placed(element.level)].known[key] = element

    def placed(self, level: int) -> int:
        """Return the depth at which what needs `level` is written: not ahead of conditions."""
        place = self.level
        while place > level and self._scopes[place].loop is not None:
            place -= 1
        return place

    def provided(self, request: Request) -> Element | None:
        """Return what `provide` says about an instruction."""
        rule = self._provided.get(request.instruction)
        return None if rule is None else rule(request.at, request.mask)

    def once(self, key: Any, level: int, write: Callable[[], Any]) -> Any:
        """Return what `write` returns, called once per place and key, at a level."""
        found = self._known(key)
        if found is None:
            place = self.placed(level)
            with self.at_level(place):
                found = write()
            self._scopes[place].known[key] = found
        return found

    def frame_of(self, parent: Frame, caller: Instruction) -> Frame:
        """Return the frame of the computation that an instruction of `parent` calls."""
        key = (parent, caller)
        return self._frames.setdefault(key, Frame(caller=caller, parent=parent))

    def apply(
        self, computation: Computation, elements: Sequence[Element], mask: Mask | None = None
    ) -> Element:
        """Return what a computation of scalars makes of elements, per lane."""
        bound = dict(zip(computation.parameters, elements, strict=True))
        return self.all_at(computation.root, (), Frame(elements=bound), mask)

    # -- lanes ---------------------------------------------------------------------------------

    def same_lanes(self, values: Sequence[Value], level: int) -> list[Value]:
        """Return the values as vectors, if any of them is one."""
        return self.all_lanes([Element((x,), level) for x in values])

    def all_lanes(self, found: Sequence[Element]) -> list[Value]:
        """Return single values of elements as vectors, if any of them is one, each at its level."""
        varies = any(x.values[0].lanes for x in found)
        pairs = [(x.values[0], x.level) for x in found]
        return [self.splat(x, at) if varies and not x.lanes else x for x, at in pairs]

    def splat(self, value: Value, level: int) -> Value:
        """Return a vector with a value in each lane; `level` is that of the value."""
        found: Value = self.once(
            ("splat", value), level, lambda: memory.splat(self.function, value, self.lanes)
        )
        return found

    def both(self, a: Mask | None, b: Mask | None) -> Mask | None:
        """Return where both masks hold."""
        if a is None or b is None:
            return a or b
        lanes = max(a.lanes, b.lanes)
        level = max(a.level, b.level)
        x, y = self.mask_lanes(a, lanes), self.mask_lanes(b, lanes)
        type_ = f"<{lanes} x i1>" if lanes else "i1"
        name = self.once(("and", x, y), level, lambda: self.function.op(f"and {type_} {x}, {y}"))
        return Mask(name, lanes, level)

    def mask_lanes(self, mask: Mask, lanes: int) -> str:
        """Return a mask as an i1 per lane, or as an i1 for no lanes."""
        if mask.lanes == lanes:
            return mask.name
        name: str = self.once(
            ("mask", mask.name), mask.level, lambda: self.function.splat("i1", mask.name, lanes)
        )
        return name

    # -- indices -------------------------------------------------------------------------------

    def split(self, index: Affine, divisor: int) -> tuple[Affine, Affine]:
        """Return quotient and remainder of an index that is not negative."""
        found = index.split(divisor)
        if found is not None:
            return found
        multiples = {v: x for v, x in index.terms if x % divisor == 0}
        rest = index
        whole = indexing.ZERO
        if multiples and index.constant >= 0:
            taken = Affine(
                tuple([(v, x // divisor) for v, x in multiples.items()]), 0, -(1 << 62), 1 << 62
            )
            remaining = tuple([(v, x) for v, x in index.terms if x % divisor])
            if all(x > 0 for _, x in remaining):
                high = index.constant + sum([x * (v.extent - 1) for v, x in remaining])
                rest = Affine(remaining, index.constant, index.constant, high)
                whole = taken
        quotient = self._quotient(rest, divisor)
        remainder = (rest - quotient * divisor).within(0, divisor - 1)
        remainder = Affine(remainder.terms, remainder.constant, 0, divisor - 1)
        total = whole + quotient
        top = index.high // divisor
        return Affine(total.terms, total.constant, index.low // divisor, top), remainder

    def _quotient(self, index: Affine, divisor: int) -> Affine:
        found: Affine = self.once(
            ("quotient", index, divisor), index.level, lambda: self._new_quotient(index, divisor)
        )
        return found

    def _new_quotient(self, index: Affine, divisor: int) -> Affine:
        """A variable whose value is written where it is needed, which it seldom is."""
        self._variables += 1
        extent = max(index.high // divisor + 1, 2)
        vector = f"%quotient{self._variables}" if index.varies else ""
        variable = Variable(self._variables, "", extent, self.level, vector=vector)
        self._divided[variable] = index, divisor
        return indexing.of(variable)

    def _divided_by(self, variable: Variable) -> str:
        """Write a quotient: an i64, or one for each lane."""
        index, divisor = self._divided[variable]
        self.fix(index)
        self.quotients.append((index, divisor))
        if not variable.vector:
            return str(self.function.div(self.scalar(index), divisor))
        fn, type_ = self.function, f"<{self.lanes} x i64>"
        if index.high >= _NARROW:
            return fn.op(f"udiv {type_} {self.vector(index)}, splat (i64 {divisor})")
        narrow = f"<{self.lanes} x i32>"
        found = fn.op(f"udiv {narrow} {self.narrow_vector(index)}, splat (i32 {divisor})")
        return fn.op(f"zext {narrow} {found} to {type_}")

    def name_of(self, variable: Variable) -> Integer:
        """Return the LLVM value of a variable."""
        if variable not in self._divided:
            number = variable.name
            return int(number) if number.isdecimal() else variable.vector or number
        name: str = self.once(
            ("divided", variable), variable.level, lambda: self._divided_by(variable)
        )
        return name

    def fix(self, index: Affine) -> None:
        """Note that an index is used for itself, not in an address."""
        for variable, _ in index.terms:
            self.fixed[variable] = None

    def looked_up(self, element: Element, extent: int) -> Affine:
        """Return an integer element as an index, clamped to 0 .. `extent` - 1."""
        (value,) = element.values
        found: Affine = self.once(
            ("index", value, extent), element.level, lambda: self._clamped(value, extent)
        )
        return found

    def _clamped(self, value: Value, extent: int) -> Affine:
        if extent <= 1:
            return indexing.ZERO
        fn, lanes = self.function, value.lanes
        width = "i32" if value.type.bits <= 32 and extent <= _NARROW else "i64"
        type_ = f"<{lanes} x {width}>" if lanes else width
        name = _widened(fn, value, type_, width)
        top = f"splat ({width} {extent - 1})" if lanes else str(extent - 1)
        if value.type.is_signed:
            zero = "zeroinitializer" if lanes else "0"
            name = fn.intrinsic("smax", type_, name, zero)
            name = fn.intrinsic("smin", type_, name, top)
        else:
            name = fn.intrinsic("umin", type_, name, top)
        if width == "i32":
            name = fn.op(f"sext {type_} {name} to {f'<{lanes} x i64>' if lanes else 'i64'}")
        self._variables += 1
        vector = name if lanes else ""
        return indexing.of(Variable(self._variables, name, extent, self.level, vector=vector))

    def scalar(self, index: Affine) -> Integer:
        """Write an index, of lane 0 where lanes differ, as an i64."""
        total: Integer = 0
        for level in sorted({v.level for v, _ in index.terms}):
            group = tuple([(v, x) for v, x in index.terms if v.level == level and not v.vector])
            total = self.once(("sum", total, group), level, partial(self._summed, total, group))
        return self.function.add(total, index.constant)

    def _summed(self, before: Integer, terms: tuple[tuple[Variable, int], ...]) -> Integer:
        total = before
        for variable, factor in terms:
            total = self.function.add(total, self.function.mul(self.name_of(variable), factor))
        return total

    def vector(self, index: Affine) -> str:
        """Write an index as an i64 per lane."""
        if index.low >= 0 and index.high < _NARROW:
            narrow, lanes = self.narrow_vector(index), self.lanes
            return self.function.op(f"sext <{lanes} x i32> {narrow} to <{lanes} x i64>")
        return self._lanes_of(index, "i64")

    def narrow_vector(self, index: Affine) -> str:
        """Write an index as an i32 per lane, wrapped around where that is too narrow."""
        name: str = self.once(("narrow", index), index.level, lambda: self._lanes_of(index, "i32"))
        return name

    def _lanes_of(self, index: Affine, width: str) -> str:
        fn, type_ = self.function, f"<{self.lanes} x {width}>"
        base = self._narrowed(str(self.scalar(index)), "i64", width)
        total = memory.splat(fn, Value((base,), _INDEX[width]), self.lanes).name
        step = sum([x for v, x in index.terms if v.is_lane])
        if step:
            numbers = ", ".join([f"{width} {i * step}" for i in range(self.lanes)])
            total = fn.op(f"add {type_} {total}, <{numbers}>")
        for variable, factor in index.terms:
            if variable.vector:
                wide = f"<{self.lanes} x i64>"
                scaled = self._narrowed(str(self.name_of(variable)), wide, type_)
                if factor != 1:
                    scaled = fn.op(f"mul {type_} {scaled}, splat ({width} {factor})")
                total = fn.op(f"add {type_} {total}, {scaled}")
        return total

    def _narrowed(self, name: str, given: str, wanted: str) -> str:
        if given == wanted:
            return name
        if not name.startswith("%"):
            return str((int(name) + _NARROW) % (2 * _NARROW) - _NARROW)
        return self.function.op(f"trunc {given} {name} to {wanted}")

    def read(self, array: Array, index: Index, mask: Mask | None) -> Element:
        """Load an element of an array in memory."""
        return read(self, array, index, mask)

    def integer(self, index: Affine, type_: ElementType) -> Element:
        """Return an index as an element of an integer type."""
        self.fix(index)
        value: Value = self.once(
            ("integer", index, type_), index.level, lambda: self._integer(index, type_)
        )
        return Element((value,), index.level)

    def _integer(self, index: Affine, type_: ElementType) -> Value:
        fn = self.function
        width = f"i{type_.bits}"
        if not index.varies:
            name = str(self.scalar(index))
            if type_.bits != 64 and name.startswith("%"):
                name = fn.op(f"trunc i64 {name} to {width}")
            return Value((name,), type_)
        if type_.bits == 64:
            return Value((self.vector(index),), type_, self.lanes)
        name = self.narrow_vector(index)
        if type_.bits != 32:
            name = fn.op(f"trunc <{self.lanes} x i32> {name} to <{self.lanes} x {width}>")
        return Value((name,), type_, self.lanes)


def _widened(fn: Function, value: Value, type_: str, width: str) -> str:
    """An integer as one of at least its width."""
    if f"i{max(8, value.type.bits)}" == width:
        return value.name
    how = "sext" if value.type.is_signed else "zext"
    return fn.op(f"{how} {value.llvm_type} {value.name} to {type_}")
