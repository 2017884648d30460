"""Select-and-scatter: the gradient of pooling by a maximum, and whatever else has its form.

A piece of work is a block of the operand along one dimension, for one index of the dimensions that
windows do not reach along. First each window over the block selects a position, and its number goes
to scratch. Then each element adds up what the windows that selected it have, in the order of the
windows. So nothing is written twice, and pieces do not depend on one another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Final

from lowtide.codegen.cpu.contraction.packing import tail_mask
from lowtide.codegen.cpu.cost import seconds
from lowtide.codegen.cpu.vector_elements import vector_elements
from lowtide.codegen.elements.elements import Elements
from lowtide.codegen.elements.operands import Bound, bind
from lowtide.codegen.elements.parts import floor_split, within
from lowtide.codegen.elements.reducers import carried, renamed
from lowtide.codegen.elements.values import Element, Mask
from lowtide.codegen.indexing import ZERO, Affine, Index
from lowtide.codegen.kernel import ARGUMENTS, KernelCode, KernelPlan, rounded
from lowtide.codegen.value import Value, vector_type
from lowtide.ir import Instruction
from lowtide.ir.attributes import ReduceWindow, WindowDimension
from lowtide.ir.thunk import Phase
from lowtide.llvm.function import Function, Integer
from lowtide.llvm.target import Target
from lowtide.records import dataclass

NUMBERS_BYTES: Final = 128 << 10
"""The numbers of positions that a piece keeps, at most, if a block can be so small."""

_UNROLLED: Final = 16
"""Positions of a window that are written one by one."""


def plan_select_and_scatter(instruction: Instruction, target: Target) -> KernelPlan | None:
    """Return how a select-and-scatter runs, for any computations and element types."""
    if not instruction.shape.element_count:
        return KernelPlan(lambda: KernelCode((), ()))
    scheme = _scheme(instruction, target)
    nbytes = rounded(scheme.windows_at_once * max(1, scheme.lanes) * 4)
    return KernelPlan(lambda: _code(instruction, target, scheme), thread_bytes=nbytes)


@dataclass(frozen=True, slots=True)
class SelectScheme:
    """How it is cut: `alone` are dimensions of windows of one element, and `over` the others.

    The last dimension has lanes if it is alone. A block has `block` elements along over[0].
    """

    sizes: tuple[int, ...]
    places: tuple[int, ...]
    windows: tuple[WindowDimension, ...]
    lanes: int
    alone: tuple[int, ...]
    over: tuple[int, ...]
    block: int

    @property
    def blocks(self) -> int:
        """The blocks along the first dimension that windows reach along."""
        return -(-self.sizes[self.over[0]] // self.block) if self.over else 1

    @property
    def lane_blocks(self) -> int:
        """The vectors along the last dimension."""
        return -(-self.sizes[-1] // self.lanes) if self.lanes else 1

    @property
    def units(self) -> int:
        """The pieces of work."""
        return prod([self.sizes[d] for d in self.alone]) * self.blocks * self.lane_blocks

    @property
    def block_places(self) -> int:
        """The most places of windows over a block, along the dimension that is cut."""
        if not self.over:
            return 1
        d = self.over[0]
        x = self.windows[d]
        reach = (self.block - 1) * x.base_dilation + (x.size - 1) * x.window_dilation
        return min(self.places[d], reach // x.stride + 1)

    @property
    def windows_at_once(self) -> int:
        """The most windows over a block."""
        return self.block_places * prod([self.places[d] for d in self.over[1:]])

    @property
    def positions(self) -> int:
        """The positions of a window."""
        return prod([x.size for x in self.windows])


def _scheme(instruction: Instruction, target: Target) -> SelectScheme:
    operand, source = (x.shape.dimensions for x in instruction.operands[:2])
    windows = instruction.attributes_as(ReduceWindow).window.dimensions
    windows = windows if operand else ()
    wide = max(instruction.shape.element_type.bits // 8, 4)
    has_lanes = bool(operand) and _is_alone(windows[-1]) and operand[-1] > 1
    lanes = target.vector_bytes // wide if has_lanes else 0
    last = len(operand) - 1
    alone = [d for d, x in enumerate(windows) if _is_alone(x) and not (lanes and d == last)]
    over = [d for d, x in enumerate(windows) if not _is_alone(x)]
    block = operand[over[0]] if over else 1
    found = SelectScheme(operand, source, windows, lanes, tuple(alone), tuple(over), block)
    while block > 1 and found.windows_at_once * max(1, lanes) * 4 > NUMBERS_BYTES:
        block = -(-block // 2)
        found = SelectScheme(operand, source, windows, lanes, tuple(alone), tuple(over), block)
    return found


def _is_alone(x: WindowDimension) -> bool:
    plain = x.stride == x.base_dilation == 1
    return x.size == 1 and plain and x.padding_low == x.padding_high == 0


def _code(instruction: Instruction, target: Target, scheme: SelectScheme) -> KernelCode:
    fn = Function("select_and_scatter", ARGUMENTS)
    elements = vector_elements(fn, target, scheme.lanes)
    writer = SelectWriter(elements, instruction, scheme, bind(fn, instruction))
    nbytes = rounded(scheme.windows_at_once * max(1, scheme.lanes) * 4)
    writer.numbers = fn.gep("%scratch", fn.mul("%thread", nbytes))
    with elements.scopes.loop("%begin", "%end") as loop:
        writer.piece(loop.index)
    operand = instruction.operands[0].shape
    each = operand.element_count / scheme.units
    cycles = each / max(1, scheme.lanes) * (scheme.positions + 20)
    phase = Phase(fn.name, scheme.units, seconds(2 * operand.nbytes / scheme.units, cycles))
    return KernelCode((fn,), (phase,), "\n".join(elements.globals.values()))


@dataclass(frozen=True, slots=True)
class _Best:
    """What a window has selected up to some position, and the number of that one, -1 for none."""

    value: Value
    number: str


@dataclass(eq=False, slots=True)
class SelectWriter:
    """Writes what windows select, and what elements get of it."""

    elements: Elements
    instruction: Instruction
    scheme: SelectScheme
    bound: Bound
    numbers: str = ""
    first: Integer = 0
    """The first place, along the dimension that is cut, of windows over the block."""

    def piece(self, unit: Integer) -> None:
        """Write a piece of work."""
        elements, scheme, fn = self.elements, self.scheme, self.elements.function
        at: dict[int, Affine] = {}
        mask: Mask | None = None
        rest = unit
        if scheme.lanes:
            start = fn.mul(fn.rem(rest, scheme.lane_blocks), scheme.lanes)
            rest = fn.div(rest, scheme.lane_blocks)
            at[len(scheme.sizes) - 1] = elements.indices.variable(
                start, scheme.sizes[-1], is_lane=True
            )
            mask = self._mask(at[len(scheme.sizes) - 1])
        block = fn.rem(rest, scheme.blocks)
        rest = fn.div(rest, scheme.blocks)
        for d in reversed(scheme.alone):
            at[d] = elements.indices.variable(fn.rem(rest, scheme.sizes[d]), scheme.sizes[d])
            rest = fn.div(rest, scheme.sizes[d])
        ranges = [(0, scheme.sizes[d]) for d in scheme.over]
        low: Integer = fn.mul(block, scheme.block)
        bounds: list[tuple[Integer, Integer]] = list(ranges)
        windows: list[tuple[Integer, Integer]] = [(0, scheme.places[d]) for d in scheme.over]
        if bounds:
            high = fn.min(fn.add(low, scheme.block), scheme.sizes[scheme.over[0]])
            bounds[0] = low, high
            windows[0] = self._places(scheme.over[0], low, fn.sub(high, 1))
            self.first = windows[0][0]
        self._over(scheme.over, windows, at, lambda x: self.select(x, mask))
        elements.scopes.forget()
        self._over(scheme.over, bounds, at, lambda x: self.scatter(x, mask))

    def _mask(self, lane: Affine) -> Mask | None:
        if self.scheme.sizes[-1] % self.scheme.lanes == 0:
            return None
        if self.scheme.lane_blocks == 1:
            return tail_mask(self.scheme.lanes, self.scheme.sizes[-1])
        found = within(self.elements, Affine(lane.terms, 0, 0, 1 << 40), 0, self.scheme.sizes[-1])
        assert isinstance(found, Mask)
        return found

    def _over(
        self,
        dimensions: Sequence[int],
        ranges: Sequence[tuple[Integer, Integer]],
        at: dict[int, Affine],
        body: Callable[[dict[int, Affine]], None],
    ) -> None:
        """Write loops over dimensions, outermost first."""
        if not dimensions:
            body(at)
            return
        d = dimensions[0]
        with self.elements.scopes.loop(*ranges[0]) as loop:
            extent = max(self.scheme.sizes[d], self.scheme.places[d])
            x = self.elements.indices.variable(loop.index, extent)
            self._over(dimensions[1:], ranges[1:], {**at, d: x}, body)

    def _places(self, d: int, low: Integer, high: Integer) -> tuple[Integer, Integer]:
        """The places of windows that meet elements from `low` to `high`, the end excluded."""
        fn, x = self.elements.function, self.scheme.windows[d]
        reach = (x.size - 1) * x.window_dilation
        least = fn.add(fn.mul(low, x.base_dilation), x.padding_low - reach + x.stride - 1)
        most = fn.add(fn.mul(high, x.base_dilation), x.padding_low + x.stride)
        first = fn.min(fn.div(fn.max(least, 0), x.stride), self.scheme.places[d])
        return first, fn.min(fn.div(fn.max(most, 0), x.stride), self.scheme.places[d])

    def slot(self, at: dict[int, Affine]) -> str:
        """Return the address of the number of a window."""
        elements, scheme, fn = self.elements, self.scheme, self.elements.function
        total: Integer = 0
        for number, d in enumerate(scheme.over):
            place = elements.indices.scalar(at[d])
            relative = fn.sub(place, self.first) if number == 0 else place
            size = scheme.block_places if number == 0 else scheme.places[d]
            total = fn.add(fn.mul(total, size), relative)
        return fn.gep(self.numbers, fn.mul(total, 4 * max(1, scheme.lanes)))

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
        low, high = self._places(d, here, here)
        with elements.scopes.loop(low, high, 1, carried([total])) as loop:
            before = renamed([total], loop.values)[0]
            place = elements.indices.variable(loop.index, self.scheme.places[d])
            spread = fn.sub(
                fn.add(fn.mul(here, x.base_dilation), x.padding_low),
                fn.mul(loop.index, x.stride),
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
