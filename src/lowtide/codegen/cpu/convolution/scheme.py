"""Blocking of the products of a convolution: tiles, rows, columns and taps, pieces of work."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from lowtide.codegen.arrays import strides
from lowtide.codegen.cpu.contraction.arithmetic import Arithmetic, rests_of
from lowtide.codegen.cpu.contraction.scheme import STACK_BYTES
from lowtide.codegen.cpu.convolution.axes import (
    FEATURE,
    LANE,
    InputAxis,
    Row,
    StepLoop,
    merged_loops,
)
from lowtide.codegen.cpu.convolution.kernel_panels import KernelPanels
from lowtide.codegen.cpu.convolution.problem import ConvolutionProblem
from lowtide.codegen.kernel import rounded
from lowtide.cost.machine import X86_SERVER
from lowtide.records import dataclass
from lowtide.records.changed import changed

if TYPE_CHECKING:
    from lowtide.codegen.cpu.contraction.rests import Rests


@dataclass(frozen=True, slots=True)
class ConvolutionScheme:
    """How to compute a convolution.

    Rows are the dimensions of the result but that of the features, outermost first. A tile has
    `tile_rows` indices along row dimension `tile_dim` and all along those behind it; a block of
    rows has `block` along `block_dim` and all behind it. A block of contracted indices has
    `feature_block` features, and of the window `tap_blocks`; blocks are shared out over `shares`
    pieces of work, the sums of which are added up later. `column_block` counts panels.

    With `is_lanewise` each lane has its own input features, else a unit is multiplied with all
    lanes. With `is_inward` lanes are neighbouring features of a few columns, each of which is a
    vector; its lanes are added up in the end. `in_place` says that the input is read where it lies,
    but by tiles that reach beyond it, which copy what they read; `input_axes` say how it lies,
    outermost first. With `weights_in_place` the kernel is read where it lies, too, which may be in
    `kernel_panels`. With `clips` what is around is zeros, and a tile leaves out taps that meet none
    but zeros along axes that it does not extend along: dilated ones, and all if it is lanewise.
    What a piece of work needs lies on the stack of its thread if that is `stack_bytes` at most.
    """

    problem: ConvolutionProblem
    how: Arithmetic
    lanes: int
    is_lanewise: bool
    is_inward: bool
    in_place: bool
    input_axes: tuple[InputAxis, ...]
    has_finish: bool
    rows: tuple[Row, ...]
    tile_dim: int
    tile_rows: int
    vectors: int
    block_dim: int
    block: int
    feature_block: int
    tap_blocks: tuple[int, ...]
    column_block: int
    shares: int = 1
    weights_in_place: bool = False
    clips: bool = False
    stack_bytes: int = 0
    kernel_panels: KernelPanels | None = None

    # -- rows ------------------------------------------------------------------------------------

    @property
    def inner(self) -> int:
        """The rows behind the dimension along which tiles are cut."""
        return prod([x.size for x in self.rows[self.tile_dim + 1 :]])

    @property
    def tile_height(self) -> int:
        """The rows of a tile."""
        return self.tile_rows * self.inner

    @property
    def blocks(self) -> int:
        """The blocks along the dimension that is cut into blocks."""
        return -(-self.rows[self.block_dim].size // self.block)

    @property
    def tiles_between(self) -> int:
        """The tiles of a block, but for those along the dimension of tiles."""
        return prod([self.extent_of(d) for d in range(self.block_dim, self.tile_dim)])

    @property
    def tiles_along(self) -> int:
        """The tiles of a block along the dimension of tiles."""
        return -(-self.extent_of(self.tile_dim) // self.tile_rows)

    @property
    def block_tiles(self) -> int:
        """The tiles of a block."""
        return self.tiles_between * self.tiles_along

    def extent_of(self, dim: int) -> int:
        """Return the most indices of a block along a row dimension."""
        if dim < self.block_dim:
            return 1
        return (
            min(self.block, self.rows[dim].size) if dim == self.block_dim else self.rows[dim].size
        )

    def tile_extent(self, dim: int) -> int:
        """Return how many indices of a row dimension a tile has."""
        if dim < self.tile_dim:
            return 1
        return self.tile_rows if dim == self.tile_dim else self.rows[dim].size

    @property
    def overlaps(self) -> bool:
        """Whether some rows are computed by two tiles, since sizes do not divide."""
        size = self.rows[self.tile_dim].size
        is_odd = any(x.size != x.least for x in self.rows)
        return is_odd or size % self.tile_rows != 0

    # -- columns ---------------------------------------------------------------------------------

    @property
    def columns(self) -> int:
        """The columns of a full tile."""
        return self.problem.outputs if self.is_inward else self.vectors * self.lanes

    @property
    def all_columns(self) -> int:
        """The columns of a product."""
        groups = self.problem.groups if self.is_lanewise else 1
        return self.problem.outputs * groups

    @property
    def panels(self) -> int:
        """The panels of columns."""
        return -(-self.all_columns // self.columns)

    @property
    def last_columns(self) -> int:
        """The columns of the last panel."""
        return self.all_columns - (self.panels - 1) * self.columns

    @property
    def column_blocks(self) -> int:
        """The blocks of panels."""
        return -(-self.panels // self.column_block)

    # -- contracted indices ----------------------------------------------------------------------

    @property
    def feature_blocks(self) -> int:
        """The blocks of features."""
        return -(-self.problem.features // self.feature_block)

    @property
    def tap_parts(self) -> tuple[int, ...]:
        """The blocks of each dimension of the window."""
        taps = [x.taps for x in self.problem.spatial]
        return tuple([max(1, -(-t // b)) for t, b in zip(taps, self.tap_blocks, strict=True)])

    @property
    def inner_blocks(self) -> int:
        """The blocks of contracted indices."""
        return self.feature_blocks * prod(self.tap_parts)

    @property
    def block_steps(self) -> int:
        """The most contracted indices of a block."""
        return self.feature_block * prod(self.tap_blocks)

    def panel_step(self, kind: int) -> int:
        """Return by how many rows of a panel neighbours along a contracted dimension lie apart."""
        if kind == FEATURE:
            return 1
        return self.feature_block * prod(self.tap_blocks[kind + 1 :])

    def input_step(self, kind: int) -> int:
        """Return by how many units of the input neighbours along a contracted dimension differ."""
        step = next(x.step for x in self.axes() if x.kind == kind)
        return step if kind == FEATURE else step * self.problem.spatial[kind].dilation

    def column_step(self, kind: int) -> int:
        """Return by how many units of columns neighbours along a contracted dimension lie apart."""
        if not self.weights_in_place:
            return self.panel_step(kind) * self.columns
        feature, spatial = self.kernel_steps()
        if kind == FEATURE:
            return feature
        return spatial[kind] * self.problem.spatial[kind].tap_step

    def kernel_steps(self) -> tuple[int, tuple[int, ...]]:
        """Return the distances in the kernel of neighbours along features, and along each axis."""
        if self.kernel_panels is not None:
            return self.kernel_panels.feature, self.kernel_panels.spatial
        numbers, steps = self.problem.numbers, strides(self.problem.kernel)
        spatial = tuple([steps[d] for d in numbers.kernel_spatial])
        return steps[numbers.kernel_input_feature], spatial

    @property
    def column_unit_bytes(self) -> int:
        """Bytes of a unit of columns in memory."""
        if self.weights_in_place:
            return self.problem.kernel.element_type.nbytes
        return self.how.unit_bytes

    def steps(self) -> tuple[StepLoop, ...]:
        """Return the loops of a tile, the longest one innermost."""
        at = {x.kind: x.step for x in self.axes()}
        spatial = self.problem.spatial
        width = self.feature_step
        features = self._features
        features = None if features is None else features // width
        b_step = self.column_step(FEATURE) * width
        found = [StepLoop((FEATURE,), features, at[FEATURE] * width, b_step)]
        for i, axis in enumerate(spatial):
            size = self.tap_blocks[i]
            is_known = len(axis.phases) == 1 and axis.taps % size == 0
            is_known = is_known and not self.is_clipped(i)
            b_step = self.column_step(i)
            step = StepLoop((i,), size if is_known else None, axis.dilation * at[i], b_step)
            if size > 1:
                found.append(step)
            elif not is_known:
                found.insert(0, step)
        found.sort(key=lambda x: -x.a_step)
        merged = merged_loops(found)
        merged = [x for x in merged if x.size != 1] or merged[-1:]
        longest = max(merged, key=self._longest)
        merged.remove(longest)
        return (*merged, longest)

    def _longest(self, steps: StepLoop) -> tuple[bool, int]:
        """The most steps; lanes of their own have those last whose number is known, unrolled."""
        features = self.feature_block // self.feature_step
        most = prod([features if x == FEATURE else self.tap_blocks[x] for x in steps.kinds])
        return self.is_lanewise and steps.size is not None, most

    @property
    def feature_step(self) -> int:
        """The features that one step takes."""
        return self.lanes if self.is_inward else 1

    @property
    def _features(self) -> int | None:
        """The features of each block, if known."""
        is_even = self.problem.features % self.feature_block == 0
        return self.feature_block if is_even or self.has_zeros else None

    @property
    def has_zeros(self) -> bool:
        """Whether zeros follow the last feature: in a copy of the input, and in a panel."""
        return not self.in_place and not self.weights_in_place

    # -- the input -------------------------------------------------------------------------------

    def axes(self) -> tuple[InputAxis, ...]:
        """Return how the input lies that a piece of work reads, outermost first."""
        return self.input_axes if self.in_place else self._read_axes()

    @property
    def last_kind(self) -> int:
        """The innermost axis of the input."""
        return LANE if self.is_lanewise and not self.in_place else self.input_axes[-1].kind

    def _read_axes(self) -> tuple[InputAxis, ...]:
        kinds, extents = [x.kind for x in self.input_axes], self.read_extents()
        if self.is_lanewise:
            kinds.append(LANE)
        step = self._line(extents[-1])
        axes = [InputAxis(kinds[-1], extents[-1], 1)]
        for kind, extent in zip(kinds[-2::-1], extents[-2::-1], strict=True):
            axes.append(InputAxis(kind, extent, step))
            step *= extent
        return tuple(reversed(axes))

    def _line(self, extent: int) -> int:
        """How far apart lines of so many units lie: not in the same sets of the first cache."""
        return extent + (self.lanes if extent * self.how.row_unit_bytes % 4096 == 0 else 0)

    @property
    def read_bytes(self) -> int:
        """Bytes of the input that a piece of work reads for a block of contracted indices."""
        return prod(self.read_extents()) * self.how.row_unit_bytes

    def read_extents(self) -> list[int]:
        """Return how much of each axis of the input a piece of work reads, outermost first."""
        along = {x.axis: self.extent_of(d) for d, x in enumerate(self.rows)}
        along[FEATURE] = self.feature_block
        found = []
        for kind in [x.kind for x in self.input_axes]:
            extent = along[kind]
            if kind >= 0:
                spatial = self.problem.spatial[kind]
                reach = (self.tap_blocks[kind] - 1) * spatial.dilation
                extent = (extent - 1) * spatial.stride + reach + 1
            found.append(extent)
        if self.is_lanewise:
            found.append(self.column_block * self.columns)
        return found

    @property
    def has_border(self) -> bool:
        """Whether some tiles reach beyond the input, which is read in place by the others."""
        return self.in_place and not all(map(self.is_within, range(len(self.problem.spatial))))

    def is_within(self, axis: int) -> bool:
        """Return whether all that tiles read along an axis lies in the input."""
        return self.problem.spatial[axis].stays_inside or self.is_clipped(axis)

    def is_clipped(self, axis: int) -> bool:
        """Return whether tiles leave out the taps along an axis that lie beyond the input."""
        spatial = self.problem.spatial[axis]
        is_apart = spatial.dilation > 1 or self.is_lanewise
        if not self.clips or spatial.stays_inside or not is_apart:
            return False
        return axis in [x.axis for x in self.rows[: self.tile_dim + (self.tile_rows == 1)]]

    def at_border(self) -> ConvolutionScheme:
        """Return the scheme of a tile at the border, which reads a copy of what it reaches."""
        return changed(
            self, in_place=False, block_dim=self.tile_dim, block=self.tile_rows, column_block=1
        )

    # -- scratch ---------------------------------------------------------------------------------

    @property
    def slab_bytes(self) -> int:
        """Bytes of the copy of the input; vectors that are stored whole may go beyond its end."""
        if self.in_place:
            return 0
        *outer, last = self.read_extents()
        elements = prod(outer) * self._line(last) if outer else last
        return rounded(elements * self.how.row_unit_bytes + 64)

    @property
    def panel_bytes(self) -> int:
        """Bytes of a packed panel of the kernel, a square of units behind it, and rests."""
        if self.weights_in_place:
            return 0
        rests = self.rests
        return self._plain_panel_bytes + (rests.nbytes if rests else 0)

    @property
    def _plain_panel_bytes(self) -> int:
        return rounded((self.block_steps + self.lanes) * self.columns * self.how.unit_bytes)

    @property
    def rests(self) -> Rests | None:
        """The rests of a packed panel, None where it has none."""
        given = self.how, self.lanes, self.block_steps, self.vectors
        return rests_of(*given, self._plain_panel_bytes, len(self.ways))

    @property
    def ways(self) -> tuple[ConvolutionScheme, ...]:
        """The scheme, and that of tiles at the border if there are any: rows lie in other ways."""
        return (self, self.at_border()) if self.has_border else (self,)

    @property
    def tile_sums(self) -> int:
        """The sums of a tile, in whole vectors."""
        return -(-self.tile_height * self.columns // self.lanes) * self.lanes

    @property
    def block_sums_bytes(self) -> int:
        """Bytes of the sums of all tiles of a piece."""
        return self.sums_bytes(self.column_block)

    def sums_bytes(self, panels: int) -> int:
        """Return the bytes of the sums of all tiles of a block of rows and so many panels."""
        return rounded(self.block_tiles * panels * self.tile_sums * self.how.unit_bytes)

    @property
    def keeps_sums(self) -> bool:
        """Whether sums wait in the thread's scratch for the next block of contracted indices."""
        if self.is_shared or not (self.has_finish or self.overlaps):
            return False
        return self.inner_blocks > 1

    @property
    def is_shared(self) -> bool:
        """Whether several pieces add up parts of the same sums, which are put together later."""
        return self.shares > 1

    @property
    def thread_bytes(self) -> int:
        """Scratch of a thread."""
        return 0 if self.is_alone else self.far_bytes

    @property
    def piece_bytes(self) -> int:
        """What a piece of work needs while it is done."""
        kept = self.block_sums_bytes if self.keeps_sums else 0
        return self.slab_bytes + self.far_panel_bytes + kept

    @property
    def far_bytes(self) -> int:
        """The same, where it does not lie on the stack."""
        nbytes = self.piece_bytes
        return nbytes if nbytes > self.stack_bytes else 0

    @property
    def far_panel_bytes(self) -> int:
        """Bytes of a packed panel that lies beside the rest, and not on the stack by itself."""
        nbytes = self.panel_bytes
        return nbytes if nbytes > STACK_BYTES else 0

    @property
    def shared_bytes(self) -> int:
        """Scratch for the sums of all shares, or of the one piece that there is."""
        if self.is_alone:
            return self.far_bytes
        return self.shares * self.row_units * self.block_sums_bytes if self.is_shared else 0

    @property
    def is_alone(self) -> bool:
        """Whether there is one piece of work, so that one thread at a time needs scratch."""
        return self.row_units * self.shares == 1

    # -- pieces of work --------------------------------------------------------------------------

    @property
    def groups(self) -> int:
        """The products, one after the other."""
        return 1 if self.is_lanewise else self.problem.groups

    @property
    def row_units(self) -> int:
        """The pieces of work of one share."""
        return self.block_count * self.column_blocks

    @property
    def block_count(self) -> int:
        """The blocks of rows, of all products and phases."""
        before = prod([x.size for x in self.rows[: self.block_dim]])
        phases = prod([len(x.phases) for x in self.problem.spatial])
        return self.groups * phases * before * self.blocks

    @property
    def unit_seconds(self) -> float:
        """About how long a piece of work takes."""
        return seconds_of(self.problem, self.how, self.lanes) / (self.row_units * self.shares)


def seconds_of(problem: ConvolutionProblem, how: Arithmetic, lanes: int) -> float:
    """Return about how long a convolution takes on one thread."""
    arithmetic = problem.products * how.planes**2 / (1.6 * lanes * X86_SERVER.vector_clock_hertz)
    moved = problem.input.nbytes + problem.output.nbytes + problem.kernel.nbytes
    return arithmetic + moved / X86_SERVER.stream_bytes_per_second + 1e-7
