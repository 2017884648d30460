"""The sums of a convolution without dilation of its input, which is taken apart into phases.

Where the input is dilated, most positions of the window meet a zero in between. Places of the
output that are equal modulo the dilation (over what it shares with the stride) meet elements at the
same positions. They make a phase: a convolution of its own that meets elements only.
"""

from __future__ import annotations

from dataclasses import replace
from math import gcd, prod

from lowtide.codegen.arrays import strides
from lowtide.ir import Instruction, Shape
from lowtide.ir.attributes import Convolution, ConvolutionDimensions, Window, WindowDimension
from lowtide.records import dataclass


@dataclass(frozen=True, slots=True)
class StridePhase:
    """Some places of the output along a dimension: `count` from `start` on, and what they meet.

    Place q (of this phase) meets at tap j the input at q * stride + j * dilation + `offset`, if
    that is inside, and the kernel at `tap` + j * tap_step.
    """

    start: int
    count: int
    taps: int
    tap: int
    offset: int


@dataclass(frozen=True, slots=True)
class Spatial:
    """A dimension that the window slides along.

    `size` is that of the input, `output` that of the result, whose neighbours within a phase lie
    `output_step` apart.
    """

    size: int
    output: int
    window: int
    stride: int
    dilation: int
    output_step: int
    tap_step: int
    phases: tuple[StridePhase, ...]

    @property
    def count(self) -> int:
        """The places of the longest phase."""
        return max([x.count for x in self.phases])

    @property
    def least(self) -> int:
        """The places of the shortest phase."""
        return min([x.count for x in self.phases])

    @property
    def taps(self) -> int:
        """The most taps of a phase."""
        return max([x.taps for x in self.phases])

    @property
    def stays_inside(self) -> bool:
        """Whether no place ever meets anything but elements, though some may meet nothing."""
        meeting = [x for x in self.phases if x.taps]
        ends = [
            x.offset + (x.count - 1) * self.stride + (x.taps - 1) * self.dilation for x in meeting
        ]
        return bool(ends) and max(ends) < self.size and min([x.offset for x in meeting]) >= 0


@dataclass(frozen=True, slots=True)
class ConvolutionProblem:
    """A convolution: `groups` products of rows (`batch` and places) and `outputs` columns.

    The contracted indices are those of the window and `features`. Group g has the output features
    from g * outputs on; of the input it has the features from g * features on, or, where batches
    are grouped, the batches from g * batch on. Features are counted in units of `unit` of them, the
    last of which may go beyond the features that there are.
    """

    input: Shape
    kernel: Shape
    output: Shape
    numbers: ConvolutionDimensions
    batch: int
    features: int
    outputs: int
    groups: int
    is_batch_grouped: bool
    spatial: tuple[Spatial, ...]
    unit: int = 1

    @property
    def channels(self) -> int:
        """The features, counted one by one."""
        return self.kernel.dimensions[self.numbers.kernel_input_feature]

    @property
    def has_whole_units(self) -> bool:
        """Whether units lie in the input as they are: one behind the other, none in part."""
        return self.channels % self.unit == 0 and all(
            self.input.dimensions[d] == 1 or step % self.unit == 0
            for d, step in enumerate(strides(self.input))
            if d != self.numbers.input_feature
        )

    @property
    def rows(self) -> int:
        """The rows of each group."""
        return self.batch * prod([x.output for x in self.spatial])

    @property
    def products(self) -> int:
        """The products that have to be added up, about."""
        each = [sum([p.count * p.taps for p in x.phases]) for x in self.spatial]
        return self.groups * self.batch * self.features * self.outputs * prod(each)


def problem_of(
    convolution: Instruction, data: Shape | None = None, window: Window | None = None
) -> ConvolutionProblem | None:
    """Return the sums of a convolution, None where there is nothing to add up or to store.

    `data` and `window` are what it is of, if not its operand and its window: then elements outside
    of the data count, which may be something else than 0.
    """
    attributes = convolution.attributes_as(Convolution)
    numbers, output = attributes.dimensions, convolution.shape
    kernel = convolution.operands[1].shape
    counts = data is not None
    data, window = data or convolution.operands[0].shape, window or attributes.window
    if 0 in (data.element_count, kernel.element_count, output.element_count):
        return None
    groups = max(attributes.feature_group_count, attributes.batch_group_count)
    spatial = [
        _spatial(data.dimensions[i], output.dimensions[o], x, counts=counts)
        for i, o, x in zip(
            numbers.input_spatial, numbers.output_spatial, window.dimensions, strict=True
        )
    ]
    return ConvolutionProblem(
        data,
        kernel,
        output,
        numbers,
        output.dimensions[numbers.output_batch],
        kernel.dimensions[numbers.kernel_input_feature],
        output.dimensions[numbers.output_feature] // groups,
        groups,
        attributes.batch_group_count > 1,
        tuple(spatial),
    )


def in_units(problem: ConvolutionProblem, unit: int) -> ConvolutionProblem:
    """Return a problem whose features are counted in units."""
    return replace(problem, features=-(-problem.channels // unit), unit=unit)


def _spatial(size: int, output: int, window: WindowDimension, *, counts: bool) -> Spatial:
    """How a window slides along a dimension; `counts` says whether what is outside counts."""
    base, stride, dilation = window.base_dilation, window.stride, window.window_dilation
    apart = base // gcd(base, stride)
    between = base // gcd(base, dilation)
    step, spread = apart * stride // base, between * dilation // base
    phases = []
    for start in range(min(apart, output)):
        first = _first_tap(start * stride - window.padding_low, dilation, base, between)
        count = -(-(output - start) // apart)
        if first is None or first >= window.size:
            phases.append(StridePhase(start, count, 0, 0, 0))
            continue
        offset = (start * stride - window.padding_low + first * dilation) // base
        taps = -(-(window.size - first) // between)
        low = 0
        if not counts:
            low = max(0, -((offset + (count - 1) * step) // spread))
            taps = max(0, min(taps, (size - 1 - offset) // spread + 1) - low)
        tap = first + low * between
        tap = window.size - 1 - tap if window.reversal else tap
        phases.append(StridePhase(start, count, taps, tap if taps else 0, offset + low * spread))
    tap_step = -between if window.reversal else between
    return Spatial(size, output, window.size, step, spread, apart, tap_step, tuple(phases))


def _first_tap(place: int, dilation: int, base: int, between: int) -> int | None:
    """The first tap that meets no zero between elements, if there is one."""
    for tap in range(between):
        if (place + tap * dilation) % base == 0:
            return tap
    return None
