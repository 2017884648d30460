"""Select-and-scatter at one window and at one element.

A window selects a position, whose number is kept. An element adds up what the windows that
selected it have, in the order of the windows.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final

from lowtide.codegen.elements.elements import Elements
from lowtide.codegen.elements.operands import Bound
from lowtide.codegen.elements.parts import floor_split, within
from lowtide.codegen.elements.reducers import carried, renamed
from lowtide.codegen.elements.values import Element, Mask
from lowtide.codegen.indexing import ZERO, Affine, Index
from lowtide.codegen.value import Value, vector_type
from lowtide.ir import Instruction
from lowtide.ir.attributes import WindowDimension
from lowtide.llvm.function import Integer
from lowtide.records import dataclass

_UNROLLED: Final = 16
"""Positions of a window that are written one by one."""


@dataclass(frozen=True, slots=True)
class WindowSelection:
    """The windows of a select-and-scatter; they have more than one element along `over`.

    The last dimension has `lanes` where these are not 0: windows have one element along it.
    """

    sizes: tuple[int, ...]
    places: tuple[int, ...]
    windows: tuple[WindowDimension, ...]
    lanes: int
    over: tuple[int, ...]

    @property
    def positions(self) -> int:
        """The positions of a window."""
        return prod([x.size for x in self.windows])


@dataclass(frozen=True, slots=True)
class _Best:
    """What a window has selected up to some position, and the number of that one, -1 for none."""

    value: Value
    number: str


@dataclass(eq=False, slots=True)
class SelectWriter:
    """Writes what windows select, and what elements get of it.

    A target says where the number of each window lies (`slot`).
    """

    elements: Elements
    instruction: Instruction
    scheme: WindowSelection
    bound: Bound

    def slot(self, at: dict[int, Affine]) -> str:
        """Return the address of the number of a window."""
        raise NotImplementedError

    def reached(self, d: int, low: Integer, high: Integer) -> tuple[Integer, Integer]:
        """The places of windows that meet elements from `low` to `high`, the end excluded."""
        fn, x = self.elements.function, self.scheme.windows[d]
        reach = (x.size - 1) * x.window_dilation
        least = fn.add(fn.mul(low, x.base_dilation), x.padding_low - reach + x.stride - 1)
        most = fn.add(fn.mul(high, x.base_dilation), x.padding_low + x.stride)
        first = fn.min(fn.div(fn.max(least, 0), x.stride), self.scheme.places[d])
        return first, fn.min(fn.div(fn.max(most, 0), x.stride), self.scheme.places[d])

    # -- what a window selects ---------------------------------------------------------------------

    def select(self, at: dict[int, Affine], mask: Mask | None) -> None:
        """Write the number of the position that the window at a place selects."""
        scheme, fn = self.scheme, self.elements.function
        operand = self.instruction.operands[0]
        type_ = operand.shape.element_type
        zero = _zero(Value(("",) * (2 if type_.is_complex else 1), type_, scheme.lanes))
        best = _Best(zero, "splat (i32 -1)" if scheme.lanes else "-1")
        sizes = [scheme.windows[d].size for d in scheme.over]
        numbers = vector_type("i32", scheme.lanes)
        if scheme.positions <= _UNROLLED:
            for number in range(scheme.positions):
                best = self._better(at, _digits(number, sizes), number, best, mask)
            fn.store(numbers, best.number, self.slot(at), 4)
            return
        elements = self.elements
        with elements.scopes.loop(
            0, scheme.positions, 1, [*carried([zero]), (numbers, best.number)]
        ) as loop:
            before = _Best(renamed([zero], loop.values)[0], loop.values[-1])
            rest = elements.indices.variable(loop.index, scheme.positions)
            steps: list[Affine] = []
            for size in reversed(sizes):
                rest, digit = elements.indices.split(rest, size)
                steps.append(digit)
            after = self._better(at, steps[::-1], loop.index, before, mask)
            loop.next = [*after.value.names, after.number]
        fn.store(numbers, loop.results[-1], self.slot(at), 4)

    def _better(
        self,
        at: dict[int, Affine],
        steps: Sequence[Affine],
        number: Integer,
        best: _Best,
        mask: Mask | None,
    ) -> _Best:
        """What is selected after one more position."""
        elements, scheme, fn = self.elements, self.scheme, self.elements.function
        met = self._met(at, steps)
        if met is None:
            return best
        index, inside = met
        wanted = elements.vectors.both(inside, mask)
        found = elements.at(self.instruction.operands[0], index, self.bound.frame, wanted)
        if scheme.lanes and not found.lanes:
            found = elements.vectors.splat(found)
        stays = self._stays(best, found, inside)
        kind, numbers = vector_type("i1", scheme.lanes), vector_type("i32", scheme.lanes)
        value = self._chosen(stays, best.value, found)
        this = self._number(number)
        after = fn.op(f"select {kind} {stays}, {numbers} {best.number}, {numbers} {this}")
        return _Best(value, after)

    def _met(
        self, at: dict[int, Affine], steps: Sequence[Affine]
    ) -> tuple[Index, Mask | None] | None:
        """The element that a position meets, and where there is one; None for nowhere."""
        elements, scheme = self.elements, self.scheme
        inside: Mask | None = None
        index = dict(at)
        for d, step in zip(scheme.over, steps, strict=True):
            x, size = scheme.windows[d], scheme.sizes[d]
            step = step * -1 + (x.size - 1) if x.reversal else step
            spread = at[d].within(0, scheme.places[d] - 1) * x.stride
            spread = spread + step * x.window_dilation + -x.padding_low
            place, rest = floor_split(elements, spread, x.base_dilation)
            for test in (within(elements, place, 0, size), within(elements, rest, 0, 1)):
                if test is False:
                    return None
                assert not isinstance(test, bool)
                inside = elements.vectors.both(inside, test)
            low, high = max(0, place.low), min(place.high, size - 1)
            index[d] = Affine(place.terms, place.constant, low, high)
        return self._index(index), inside

    def _stays(self, best: _Best, found: Value, inside: Mask | None) -> str:
        """Where what was selected stays: there is no element, or it is kept before this one."""
        elements, fn, lanes = self.elements, self.elements.function, self.scheme.lanes
        level = elements.scopes.level
        pair = [Element((best.value,), level), Element((found,), level)]
        (keeps,) = elements.apply(self.instruction.called_computations[0], pair).values
        kind, numbers = vector_type("i1", lanes), vector_type("i32", lanes)
        zero = "zeroinitializer" if lanes else "0"
        known = fn.op(f"icmp sge {numbers} {best.number}, {zero}")
        stays = fn.op(f"and {kind} {self._as_lanes(keeps)}, {known}")
        if inside is None:
            return stays
        ones = "splat (i1 true)" if lanes else "true"
        outside = fn.op(f"xor {kind} {elements.vectors.mask_lanes(inside, lanes)}, {ones}")
        return fn.op(f"or {kind} {stays}, {outside}")

    def _chosen(self, condition: str, yes: Value, no: Value) -> Value:
        fn, kind = self.elements.function, vector_type("i1", self.scheme.lanes)
        names = [
            fn.op(f"select {kind} {condition}, {yes.llvm_type} {a}, {no.llvm_type} {b}")
            for a, b in zip(yes.names, no.names, strict=True)
        ]
        return Value(tuple(names), yes.type, self.scheme.lanes)

    def _as_lanes(self, value: Value) -> str:
        if self.scheme.lanes and not value.lanes:
            return self.elements.vectors.splat(value).name
        return value.name

    def _number(self, number: Integer) -> str:
        """The number of a position as an i32, or one per lane."""
        fn, lanes = self.elements.function, self.scheme.lanes
        if isinstance(number, int):
            return f"splat (i32 {number})" if lanes else str(number)
        narrow = fn.op(f"trunc i64 {number} to i32")
        return fn.splat("i32", narrow, lanes) if lanes else narrow

    def _index(self, at: dict[int, Affine]) -> Index:
        return tuple([at[d] for d in range(len(self.scheme.sizes))])

    # -- what an element gets ----------------------------------------------------------------------

    def scatter(self, at: dict[int, Affine], mask: Mask | None) -> None:
        """Write the sum of what windows that selected an element have, and store it."""
        elements, scheme = self.elements, self.scheme
        start = elements.at(self.instruction.operands[2], (), self.bound.frame)
        if scheme.lanes and not start.lanes:
            start = elements.vectors.splat(start)
        total = self._windows(scheme.over, at, dict(at), [], start, mask)
        here = {d: at[d].within(0, scheme.sizes[d] - 1) for d in at}
        elements.store(self.bound.results[0], self._index(here), total, mask)
        elements.scopes.forget()

    def _windows(
        self,
        dimensions: Sequence[int],
        at: dict[int, Affine],
        places: dict[int, Affine],
        steps: list[Affine],
        total: Value,
        mask: Mask | None,
    ) -> Value:
        """Write loops over the windows that meet an element; return the sum behind them."""
        elements, fn = self.elements, self.elements.function
        if not dimensions:
            return self._added(places, steps, total, mask)
        d = dimensions[0]
        x = self.scheme.windows[d]
        here = elements.indices.scalar(at[d])
        low, high = self.reached(d, here, here)
        with elements.scopes.loop(low, high, 1, carried([total])) as loop:
            before = renamed([total], loop.values)[0]
            place = elements.indices.variable(loop.index, self.scheme.places[d])
            spread = fn.sub(
                fn.add(fn.mul(here, x.base_dilation), x.padding_low), fn.mul(loop.index, x.stride)
            )
            reach = (x.size - 1) * x.window_dilation + 1
            step = elements.indices.variable(spread, reach)
            after = self._windows(
                dimensions[1:], at, {**places, d: place}, [*steps, step], before, mask
            )
            loop.next = list(after.names)
        return renamed([total], loop.results)[0]

    def _added(
        self, places: dict[int, Affine], steps: list[Affine], total: Value, mask: Mask | None
    ) -> Value:
        """The sum after a window, if it selected the position at which it meets the element."""
        elements, scheme, fn = self.elements, self.scheme, self.elements.function
        number, exact = ZERO, None
        for d, spread in zip(scheme.over, steps, strict=True):
            x = scheme.windows[d]
            step, rest = elements.indices.split(spread, x.window_dilation)
            test = within(elements, rest, 0, 1)
            if test is False:
                return total
            assert not isinstance(test, bool)
            exact = elements.vectors.both(exact, test)
            step = step * -1 + (x.size - 1) if x.reversal else step
            number = number * x.size + step
        type_ = vector_type("i32", scheme.lanes)
        kind = vector_type("i1", scheme.lanes)
        chosen = fn.load(type_, self.slot(places), 4)
        this = self._number(elements.indices.scalar(number))
        takes = fn.op(f"icmp eq {type_} {chosen}, {this}")
        if exact is not None:
            takes = fn.op(f"and {kind} {takes}, {elements.vectors.mask_lanes(exact, scheme.lanes)}")
        source = elements.at(
            self.instruction.operands[1], self._index(places), self.bound.frame, mask
        )
        level = elements.scopes.level
        pair = [Element((total,), level), Element((source,), level)]
        (after,) = elements.apply(self.instruction.called_computations[1], pair).values
        if scheme.lanes and not after.lanes:
            after = elements.vectors.splat(after, level)
        return self._chosen(takes, after, total)


def _digits(number: int, sizes: Sequence[int]) -> list[Affine]:
    found = []
    for size in reversed(sizes):
        number, digit = divmod(number, size)
        found.append(ZERO + digit)
    return found[::-1]


def _zero(value: Value) -> Value:
    """A value of zeros."""
    text = {"float": "0.0", "double": "0.0", "i1": "false"}.get(value.llvm_type, "0")
    name = "zeroinitializer" if value.lanes else text
    return Value((name,) * len(value.names), value.type, value.lanes)
