"""Packing: a panel of columns of the kernel, for one block of contracted indices.

A panel has a row for each contracted index, by taps and then by features; the columns of a row are
those of a full tile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lowtide.codegen import elementwise
from lowtide.codegen.arrays import strides
from lowtide.codegen.cpu.contraction.arithmetic import MultiplyMethod
from lowtide.codegen.cpu.contraction.packing import interleaved, or_zero
from lowtide.codegen.cpu.contraction.transposing import transposed
from lowtide.codegen.cpu.convolution.axes import FEATURE
from lowtide.codegen.cpu.convolution.runs import FeatureRun, run_of
from lowtide.codegen.cpu.convolution.scheme import ConvolutionScheme
from lowtide.codegen.cpu.tiles import LINE, TransposedTile
from lowtide.codegen.cpu.vector_elements import VectorMemory, vector_elements
from lowtide.codegen.elements.elements import Elements
from lowtide.codegen.elements.lanes import first_lanes, tail_mask
from lowtide.codegen.elements.operands import Bound, bind
from lowtide.codegen.elements.parts import within
from lowtide.codegen.elements.values import Mask
from lowtide.codegen.elementwise import memory
from lowtide.codegen.indexing import ZERO, Affine
from lowtide.codegen.value import Value
from lowtide.ir import Instruction, Opcode
from lowtide.ir.attributes import NO_ATTRIBUTES
from lowtide.llvm.callee import FunctionParameter, parameters
from lowtide.llvm.function import Function, Integer
from lowtide.llvm.target import Target
from lowtide.records import dataclass


def parameters_of(scheme: ConvolutionScheme) -> tuple[FunctionParameter, ...]:
    """Return the parameters: the first column and feature, and of each dimension the taps.

    `%column` counts the columns of all groups; `%tap0` is the place in the kernel of the first tap.
    """
    names = [f"{x}{i}" for i in range(len(scheme.problem.spatial)) for x in ("tap", "taps")]
    taps = dict.fromkeys(names, "i64")
    return parameters(buffers="ptr", to="ptr", column="i64", feature="i64", **taps)


def panel_function(
    name: str,
    scheme: ConvolutionScheme,
    target: Target,
    kernel: Instruction,
    weights: Instruction,
    columns: int,
    constants: dict[str, str],
) -> Function:
    """Write the packing of `columns` columns; `weights` is what computes them in the kernel.

    Constant arrays that it needs are added to `constants`.
    """
    fn = Function(name, parameters_of(scheme), linkage="internal")
    memory = VectorMemory()
    elements = vector_elements(fn, target, scheme.lanes, memory)
    writer = _PanelWriter(elements, memory, scheme, weights, bind(fn, kernel), columns)
    writer.write(run_of(scheme, weights, kernel))
    constants.update(elements.globals)
    return fn


@dataclass(eq=False, slots=True)
class _PanelWriter:
    elements: Elements
    memory: VectorMemory
    scheme: ConvolutionScheme
    weights: Instruction
    bound: Bound
    columns: int

    def write(self, run: FeatureRun | None) -> None:
        """Write the loops over taps, and in each of them the features; or those along a run."""
        if run is not None:
            kinds = [FEATURE, *range(len(self.scheme.problem.spatial))]
            inside = [x.kind for x in run.dimensions]
            self._runs(run, [x for x in kinds if x not in inside], ZERO + run.view.offset, "%to")
            return
        rows = self._squares if self._lies_along_features() else self._rows
        if self.scheme.is_inward:
            rows = self._vectors
        self._taps(0, [], "%to", rows)
        rests = self.scheme.rests
        if rests is not None:
            vectors = -(-self.columns // self.scheme.lanes)
            rests.sift(self.elements.function, "%to", vectors, self._each_row)

    def _each_row(self, visit: Callable[[Integer, Sequence[Integer]], None]) -> None:
        """Write loops over contracted dimensions, and in them what is done with rows."""
        kinds = [*range(len(self.scheme.problem.spatial)), FEATURE]
        self._row_of(visit, kinds, 0, [0 for _ in self.scheme.ways])

    def _row_of(
        self,
        visit: Callable[[Integer, Sequence[Integer]], None],
        kinds: list[int],
        row: Integer,
        places: list[Integer],
    ) -> None:
        fn, scheme = self.elements.function, self.scheme
        if not kinds:
            visit(row, places)
            return
        kind, *inner = kinds
        with fn.loop(0, self._count(kind)) as loop:
            here = fn.add(row, fn.mul(loop.index, scheme.panel_step(kind)))
            there = [
                fn.add(x, fn.mul(loop.index, way.input_step(kind)))
                for x, way in zip(places, scheme.ways, strict=True)
            ]
            self._row_of(visit, inner, here, there)

    def _lies_along_features(self) -> bool:
        """Whether neighbouring features, and not columns, are neighbours in memory."""
        problem = self.scheme.problem
        steps = strides(problem.kernel)
        feature, output = (
            problem.numbers.kernel_input_feature,
            problem.numbers.kernel_output_feature,
        )
        is_alone = (
            steps[feature] == 1 and problem.channels > 1 and problem.kernel.dimensions[output] > 1
        )
        return is_alone and self.scheme.how.planes == 1

    def _taps(
        self, axis: int, taps: list[Affine], to: str, rows: Callable[[list[Affine], str], None]
    ) -> None:
        scheme, elements = self.scheme, self.elements
        fn = elements.function
        if axis == len(scheme.problem.spatial):
            rows(taps, to)
            return
        spatial = scheme.problem.spatial[axis]
        nbytes = scheme.panel_step(axis) * scheme.columns * scheme.how.unit_bytes
        with elements.scopes.loop(0, f"%taps{axis}") as loop:
            place = fn.add(f"%tap{axis}", fn.mul(loop.index, spatial.tap_step))
            tap = elements.indices.variable(place, spatial.window)
            self._taps(axis + 1, [*taps, tap], fn.gep(to, fn.mul(loop.index, nbytes)), rows)

    def _value(
        self, taps: list[Affine], feature: Affine, column: Affine, mask: Mask | None
    ) -> Value:
        """Units of the kernel, converted, 0 where the mask does not hold."""
        numbers, elements = self.scheme.problem.numbers, self.elements
        index = [ZERO] * self.scheme.problem.kernel.rank
        for d, tap in zip(numbers.kernel_spatial, taps, strict=True):
            index[d] = tap
        index[numbers.kernel_input_feature] = feature
        index[numbers.kernel_output_feature] = column
        return self._unit(elements.at(self.weights, tuple(index), self.bound.frame, mask), mask)

    def _unit(self, value: Value, mask: Mask | None) -> Value:
        """Elements as units, 0 where the mask does not hold."""
        elements, how = self.elements, self.scheme.how
        is_lanewise = how.method is MultiplyMethod.S16_LANES
        type_ = how.total if is_lanewise else how.element_of(value.type)
        if value.type is not type_:
            value = elementwise.emit_op(
                elements.function, elements.target, Opcode.CONVERT, NO_ATTRIBUTES, type_, [value]
            )
        if not value.lanes:
            value = elements.vectors.splat(value)
        if is_lanewise:
            value = self._lower_half(value)
        return value if mask is None else or_zero(elements, value, mask)

    def _lower_half(self, value: Value) -> Value:
        """Numbers of 16 bits whose upper half is 0, so that it adds nothing to a pair."""
        fn, type_ = self.elements.function, value.llvm_type
        half = fn.splat("i32", str(0xFFFF), value.lanes)
        return Value((fn.op(f"and {type_} {value.name}, {half}"),), value.type, value.lanes)

    def _first_column(self) -> Affine:
        problem = self.scheme.problem
        return self.elements.indices.variable("%column", problem.outputs * problem.groups)

    # -- columns that are neighbours ---------------------------------------------------------------

    def _rows(self, taps: list[Affine], to: str) -> None:
        """Write one row after the other; behind the last feature there are zeros."""
        elements, scheme = self.elements, self.scheme
        fn, features = elements.function, scheme.problem.features
        row_bytes = scheme.columns * scheme.how.unit_bytes
        inside = self._inside()
        with elements.scopes.loop(0, inside) as loop:
            unit = elements.indices.variable(fn.add("%feature", loop.index), features)
            there = fn.gep(to, fn.mul(loop.index, row_bytes))
            for first in range(0, self.columns, scheme.lanes):
                mask = tail_mask(scheme.lanes, self.columns - first)
                lane = elements.indices.variable(0, scheme.lanes, is_lane=True)
                column = self._first_column() + first + lane
                place = fn.gep(there, first * scheme.how.unit_bytes)
                self._store_units(taps, unit, column, mask, place)
        self._zeros(inside, to)

    def _store_units(
        self, taps: list[Affine], unit: Affine, column: Affine, mask: Mask | None, to: str
    ) -> None:
        """Store a vector of units of neighbouring columns."""
        elements, group = self.elements, self.scheme.how.group
        fn, target = elements.function, elements.target
        if group == 1:
            memory.store(fn, target, self._value(taps, unit, column, mask), to)
            return
        values = []
        for part in range(group):
            feature, inside = self._present(unit * group + part)
            both = elements.vectors.both(mask, inside)
            values.append(self._value(taps, feature, column, both))
        fn.store(*interleaved(fn, target, elements.lanes, values), to, 1)

    def _inside(self) -> Integer:
        """The units of the block that there are."""
        scheme, fn = self.scheme, self.elements.function
        features = scheme.problem.features
        if scheme.feature_blocks == 1:
            return features
        if features % scheme.feature_block == 0:
            return scheme.feature_block
        return fn.min(fn.sub(features, "%feature"), scheme.feature_block)

    def _whole(self, count: Integer) -> Integer:
        """`count` rounded up to whole vectors, if it is known only when the kernel runs."""
        if isinstance(count, int):
            return count
        fn, lanes = self.elements.function, self.scheme.lanes
        return fn.op(f"and i64 {fn.add(count, lanes - 1)}, {-lanes}")

    def _zeros(self, first: Integer, to: str) -> None:
        """Write zeros for features that there are not, which a copy of the input has as well."""
        if isinstance(first, int):
            return
        scheme, fn = self.scheme, self.elements.function
        row_bytes = scheme.columns * scheme.how.unit_bytes
        with fn.loop(first, scheme.feature_block) as loop:
            there = fn.gep(to, fn.mul(loop.index, row_bytes))
            fn.store(f"<{row_bytes} x i8>", "zeroinitializer", there, 1)

    def _feature_lanes(self, start: Integer, part: int = 0) -> tuple[Affine, Mask | None]:
        """A vector of features from unit `start` of the block on, and which of them there are.

        It is that number `part` of a vector of units.
        """
        elements, scheme, lanes = self.elements, self.scheme, self.scheme.lanes
        group, features = scheme.how.group, scheme.problem.channels
        place = elements.function.add("%feature", start)
        first = elements.indices.variable(place, scheme.problem.features + lanes)
        first = first * group + part * lanes
        lane = elements.indices.variable(0, lanes, is_lane=True)
        if features % (group * lanes) == 0 and scheme.feature_block % lanes == 0:
            return first.within(0, features - lanes) + lane, None
        return self._present(first + lane)

    def _present(self, feature: Affine) -> tuple[Affine, Mask | None]:
        """A feature that may be beyond the last one, and the mask of where it is there."""
        features = self.scheme.problem.channels
        mask = within(self.elements, feature, 0, features)
        if mask is False:
            return ZERO, Mask("false", 0, 0)
        assert not isinstance(mask, bool)
        return feature.within(0, features - 1), mask

    # -- vectors of features ---------------------------------------------------------------------

    def _vectors(self, taps: list[Affine], to: str) -> None:
        """Write for each vector of features that of each column."""
        elements, scheme, lanes = self.elements, self.scheme, self.scheme.lanes
        fn = elements.function
        present = self._inside()
        with elements.scopes.loop(0, present, lanes) as down:
            feature, mask = self._feature_lanes(down.index)
            with elements.scopes.loop(0, self.columns) as across:
                column = self._first_column() + elements.indices.variable(
                    across.index, self.columns
                )
                value = self._value(taps, feature, column, mask)
                at = fn.add(fn.mul(down.index, self.columns), fn.mul(across.index, lanes))
                there = fn.gep(to, fn.mul(at, scheme.how.unit_bytes))
                memory.store(fn, elements.target, value, there)
        self._zeros(self._whole(present), to)

    # -- contracted indices that are neighbours ----------------------------------------------------

    def _runs(self, run: FeatureRun, outer: list[int], place: Affine, to: str) -> None:
        """Write loops over the contracted dimensions outside of a run, then along it."""
        if not outer:
            self._run(run, place, to)
            return
        kind, *rest = outer
        elements, scheme = self.elements, self.scheme
        nbytes = scheme.panel_step(kind) * scheme.columns * scheme.how.unit_bytes
        with elements.scopes.loop(0, self._count(kind)) as loop:
            index = self._contracted(kind, loop.index)
            there = elements.function.gep(to, elements.function.mul(loop.index, nbytes))
            self._runs(run, rest, place + index * run.steps[kind], there)

    def _count(self, kind: int) -> Integer:
        """The indices of the block along a contracted dimension."""
        return self._inside() if kind == FEATURE else f"%taps{kind}"

    def _contracted(self, kind: int, number: Integer) -> Affine:
        """The index in the kernel of a number within the block."""
        fn, variable = self.elements.function, self.elements.indices.variable
        if kind == FEATURE:
            return variable(fn.add("%feature", number), self.scheme.problem.features)
        axis = self.scheme.problem.spatial[kind]
        return variable(fn.add(f"%tap{kind}", fn.mul(number, axis.tap_step)), axis.window)

    def _run(self, run: FeatureRun, place: Affine, to: str) -> None:
        """Write the rows of a run: squares of it and of the columns are transposed."""
        elements, scheme, kind = self.elements, self.scheme, run.dimensions[0].kind
        fn, rows = elements.function, LINE // self.weights.shape.element_type.nbytes
        first: Integer = 0
        if not run.dimensions[0].is_reversed:
            first = fn.mul("%feature" if kind == FEATURE else f"%tap{kind}", run.inner)
        end = fn.add(first, fn.mul(self._count(kind), run.inner))
        slots: dict[tuple[int, int], str] = {}
        column = self._first_column() + elements.indices.variable(0, scheme.lanes, is_lane=True)
        place = place + column * run.column
        with elements.scopes.loop(first, end, rows) as tiles:
            start = elements.indices.variable(tiles.index, run.size)
            with elements.scopes.loop(0, fn.min(rows, fn.sub(end, tiles.index))) as steps:
                row = elements.indices.variable(steps.index, rows)
                ((variable, _),) = row.terms
                number = fn.sub(fn.add(tiles.index, steps.index), first)
                there = self._row_of_run(run, number, to)
                at = place + (start + row).within(0, run.size - 1)
                self.memory.tile = TransposedTile(
                    variable, rows, start, run.size, slots, is_aligned=False
                )
                self._columns_of_run(run, at, there)
                self.memory.tile = None

    def _row_of_run(self, run: FeatureRun, number: Integer, to: str) -> str:
        """The address of the row of a panel that has an index of a run."""
        fn, scheme = self.elements.function, self.scheme
        at: Integer = 0
        for place, x in reversed(list(enumerate(run.dimensions))):
            digit = fn.rem(number, x.size) if place else number
            number = fn.div(number, x.size)
            digit = fn.sub(x.size - 1, digit) if x.is_reversed else digit
            at = fn.add(at, fn.mul(digit, scheme.panel_step(x.kind)))
        return fn.gep(to, fn.mul(at, scheme.columns * scheme.how.unit_bytes))

    def _columns_of_run(self, run: FeatureRun, at: Affine, to: str) -> None:
        elements, scheme = self.elements, self.scheme
        array = self.bound.frame.arrays[run.view.source]
        last = array.shape.element_count - 1
        for first in range(0, self.columns, scheme.lanes):
            left = self.columns - first
            mask = None
            if left < scheme.lanes:
                mask = Mask(first_lanes(left, scheme.lanes), scheme.lanes, 0, left)
            place = (at + first * run.column).within(0, last)
            value = self._unit(elements.read_place(array, place, mask).values[0], mask)
            there = elements.function.gep(to, first * scheme.how.unit_bytes)
            memory.store(elements.function, elements.target, value, there)

    # -- features that are neighbours --------------------------------------------------------------

    def _squares(self, taps: list[Affine], to: str) -> None:
        """Read squares of units along features, and store them transposed.

        The last square may go beyond the features of the block: what it writes there is written
        again for the next tap, or lies behind the panel. Columns beyond the last one repeat it.
        """
        elements, scheme, lanes = self.elements, self.scheme, self.scheme.lanes
        fn, nbytes = elements.function, scheme.how.unit_bytes
        square = self._square()
        present = self._inside()
        size = nbytes // scheme.how.group
        with elements.scopes.loop(0, present, lanes) as down:
            parts = [self._feature_lanes(down.index, x) for x in range(scheme.how.group)]
            with elements.scopes.loop(0, self.columns, lanes) as across:
                with elements.scopes.loop(0, lanes) as inside:
                    number = fn.min(fn.add(across.index, inside.index), self.columns - 1)
                    column = self._first_column() + elements.indices.variable(number, self.columns)
                    row = fn.gep(square, fn.mul(inside.index, lanes * nbytes))
                    for part, (feature, mask) in enumerate(parts):
                        value = self._value(taps, feature, column, mask)
                        there = fn.gep(row, part * lanes * size)
                        memory.store(fn, elements.target, value, there)
                at = fn.add(fn.mul(down.index, scheme.columns), across.index)
                there = fn.gep(to, fn.mul(at, nbytes))
                self._store_square(square, there)
        self._zeros(self._whole(present), to)

    def _store_square(self, square: str, to: str) -> None:
        """Store a square of units transposed, by strips of 16 bytes of each of its rows."""
        fn, scheme, lanes = self.elements.function, self.scheme, self.scheme.lanes
        nbytes = scheme.how.unit_bytes
        side, unit = 16 // nbytes, f"i{8 * nbytes}"
        for first in range(0, lanes, side):
            places = [fn.gep(square, (i * lanes + first) * nbytes) for i in range(lanes)]
            pieces = [fn.load(f"<{side} x {unit}>", x, nbytes) for x in places]
            for i, row in enumerate(transposed(fn, unit, nbytes, pieces), first):
                there = fn.gep(to, i * scheme.columns * nbytes)
                fn.store(f"<{lanes} x {unit}>", row, there, nbytes)

    def _square(self) -> str:
        fn, size = self.elements.function, self.scheme.lanes**2 * self.scheme.how.unit_bytes
        return fn.stack("i8", size)
