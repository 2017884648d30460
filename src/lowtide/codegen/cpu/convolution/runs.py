"""Columns of a kernel that lie along the contracted indices, packed by squares that are transposed.

Neighbouring columns lie far apart then, while some contracted indices of each column follow one
another in memory: a run of features, of taps, or of both.
"""

from __future__ import annotations

from typing import Final

from lowtide.codegen.cpu.contraction.arithmetic import MultiplyMethod
from lowtide.codegen.cpu.contraction.views import View, view_of, whole
from lowtide.codegen.cpu.convolution.axes import FEATURE
from lowtide.codegen.cpu.convolution.cycles import is_far
from lowtide.codegen.cpu.convolution.scheme import ConvolutionScheme
from lowtide.codegen.cpu.strided import FARTHEST
from lowtide.codegen.cpu.tiles import MOST, side_of
from lowtide.ir import Instruction, Opcode
from lowtide.records import dataclass

_LEAST_SIDE: Final = 4
"""Contracted indices that are loaded at once, or it does not pay to transpose them."""

_LEAST_APART: Final = 8
"""Elements between neighbouring columns, or whole vectors of them are loaded and shuffled.

So are those up to `FARTHEST` apart of a kernel that comes from memory: it is asked for earlier so.
"""


@dataclass(frozen=True, slots=True)
class RunDimension:
    """A contracted dimension of a run: the features or an axis of the window, and its indices.

    `size` are those of the kernel, of which a block has all but along the outermost dimension. With
    `is_reversed` it has them from the last one to the first.
    """

    kind: int
    size: int
    is_reversed: bool


@dataclass(frozen=True, slots=True)
class FeatureRun:
    """Contracted indices of a column that follow one another in memory, outermost first.

    `steps` are those of each contracted dimension of the kernel by kind, `column` of the columns.
    """

    view: View
    dimensions: tuple[RunDimension, ...]
    steps: dict[int, int]
    column: int

    @property
    def size(self) -> int:
        """The indices of the kernel along the run."""
        found = 1
        for x in self.dimensions:
            found *= x.size
        return found

    @property
    def inner(self) -> int:
        """The indices for each one of the outermost dimension."""
        return self.size // self.dimensions[0].size


def run_of(
    scheme: ConvolutionScheme, weights: Instruction, kernel: Instruction
) -> FeatureRun | None:
    """Return the run along which the columns of a kernel lie, None where they lie otherwise."""
    problem, numbers = scheme.problem, scheme.problem.numbers
    is_fused = kernel.opcode is Opcode.FUSION
    view = view_of(weights, kernel) if is_fused else whole(weights)
    is_plain = scheme.how.planes == scheme.how.group == 1 and not scheme.is_inward
    is_plain = is_plain and scheme.how.method is not MultiplyMethod.S16_LANES
    if view is None or not is_plain or scheme.vectors > MOST or not _has_even_features(scheme):
        return None
    places = {FEATURE: numbers.kernel_input_feature} | dict(enumerate(numbers.kernel_spatial))
    steps = {kind: view.single((d,)) for kind, d in places.items()}
    column = view.single((numbers.kernel_output_feature,))
    known = {kind: x for kind, x in steps.items() if x is not None}
    near = FARTHEST if is_far(problem) else _LEAST_APART - 1
    if column is None or column <= near or len(known) < len(steps):
        return None
    sizes = {kind: problem.kernel.dimensions[d] for kind, d in places.items()}
    found = _dimensions(scheme, known, sizes)
    run = FeatureRun(view, found, known, column)
    if not found or side_of(weights.shape.element_type, scheme.lanes, run.size) < _LEAST_SIDE:
        return None
    return run


def _dimensions(
    scheme: ConvolutionScheme, steps: dict[int, int], sizes: dict[int, int]
) -> tuple[RunDimension, ...]:
    """The dimensions of a run, as many as follow one another."""
    found: list[RunDimension] = []
    reach = 1
    for kind in sorted(steps, key=lambda x: (steps[x], x)):
        if sizes[kind] == 1:
            continue
        is_whole = _is_whole(scheme, kind, sizes[kind])
        is_reversed = kind != FEATURE and scheme.problem.spatial[kind].tap_step == -1
        if steps[kind] != reach or not (is_whole or _is_forward(scheme, kind)):
            break
        found.insert(0, RunDimension(kind, sizes[kind], is_reversed))
        if not is_whole:
            break
        reach *= sizes[kind]
    return tuple(found)


def _is_forward(scheme: ConvolutionScheme, kind: int) -> bool:
    """Whether a block has neighbours along a dimension in the order of the kernel."""
    return kind == FEATURE or scheme.problem.spatial[kind].tap_step == 1


def _has_even_features(scheme: ConvolutionScheme) -> bool:
    """Whether all blocks have as many features, so that no zeros follow the last one."""
    return scheme.feature_blocks == 1 or scheme.problem.features % scheme.feature_block == 0


def _is_whole(scheme: ConvolutionScheme, kind: int, size: int) -> bool:
    """Whether each block has all indices along a dimension."""
    if kind == FEATURE:
        return scheme.feature_blocks == 1
    axis = scheme.problem.spatial[kind]
    is_one = len(axis.phases) == 1 and axis.taps == size and abs(axis.tap_step) == 1
    return is_one and scheme.tap_blocks[kind] == size
