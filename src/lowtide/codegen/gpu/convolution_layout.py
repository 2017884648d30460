"""A convolution as a product of matrices: places of the result by features, over all taps."""

from __future__ import annotations

from lowtide.codegen import indexing
from lowtide.codegen.arrays import strides
from lowtide.codegen.elements.elements import Elements
from lowtide.codegen.elements.loops import met_in_window
from lowtide.codegen.elements.values import Mask
from lowtide.codegen.indexing import Index
from lowtide.ir import Instruction
from lowtide.ir.attributes import Convolution
from lowtide.records import dataclass


@dataclass(frozen=True, slots=True)
class ConvolutionLayout:
    """The layout of a convolution without groups; see `product.ProductLayout`.

    A row is a place of the result in all but its features, a column is a feature of it. Summed up
    are the taps of the window and the features of the input. `places` are the dimensions of the
    result that make a row, in the order in which those of the input lie in memory.
    """

    attributes: Convolution
    places: tuple[int, ...]
    data: tuple[int, ...]
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    depth: tuple[int, ...]

    @classmethod
    def of(cls, convolution: Instruction) -> ConvolutionLayout | None:
        """Return the layout of a convolution, None of one with groups."""
        attributes = convolution.attributes_as(Convolution)
        if attributes.feature_group_count != 1 or attributes.batch_group_count != 1:
            return None
        numbers = attributes.dimensions
        sizes = convolution.shape.dimensions
        kernel = convolution.operands[1].shape.dimensions
        step = strides(convolution.operands[0].shape)
        places = dict(zip(numbers.output_spatial, numbers.input_spatial, strict=True))
        places = {numbers.output_batch: numbers.input_batch, **places}
        in_order = tuple(sorted(places, key=lambda d: -step[places[d]]))
        return cls(
            attributes,
            in_order,
            convolution.operands[0].shape.dimensions,
            tuple([sizes[d] for d in in_order]),
            (sizes[numbers.output_feature],),
            (*[x.size for x in attributes.window.dimensions], kernel[numbers.kernel_input_feature]),
        )

    @property
    def batch(self) -> tuple[int, ...]:
        """There is one product."""
        return ()

    def operand_index(
        self, elements: Elements, side: int, batch: Index, free: Index, depth: Index
    ) -> tuple[Index, Mask | None]:
        """Return where an element of an operand lies, and where there is one."""
        *steps, feature = depth
        if side:
            return self._in_kernel(steps, feature, free[0]), None
        numbers = self.attributes.dimensions
        window = self.attributes.window.dimensions
        place = dict(zip(self.places, free, strict=True))
        found = {numbers.input_batch: place[numbers.output_batch], numbers.input_feature: feature}
        inside: Mask | None = None
        for i, (step, x) in enumerate(zip(steps, window, strict=True)):
            dimension = numbers.input_spatial[i]
            at = place[numbers.output_spatial[i]]
            met, test = met_in_window(elements, at, step, self.data[dimension], x)
            if test is False:
                test = Mask("false", 0, 0)
            assert not isinstance(test, bool)
            inside = elements.vectors.both(inside, test)
            found[dimension] = met
        return tuple([found[d] for d in range(len(found))]), inside

    def _in_kernel(
        self, steps: list[indexing.Affine], feature: indexing.Affine, column: indexing.Affine
    ) -> Index:
        numbers = self.attributes.dimensions
        window = self.attributes.window.dimensions
        found = {numbers.kernel_input_feature: feature, numbers.kernel_output_feature: column}
        for i, (step, x) in enumerate(zip(steps, window, strict=True)):
            found[numbers.kernel_spatial[i]] = step * -1 + (x.size - 1) if x.reversal else step
        return tuple([found[d] for d in range(len(found))])

    def result_index(self, batch: Index, row: Index, column: Index) -> Index:
        """Return where an element of the product lies in the result."""
        numbers = self.attributes.dimensions
        places = (*self.places, numbers.output_feature)
        found = dict(zip(places, (*row, *column), strict=True))
        return tuple([found[d] for d in range(len(found))])

    def deep_dimensions(self, side: int) -> tuple[int, ...]:
        """Return the dimensions of an operand that are summed up."""
        numbers = self.attributes.dimensions
        if side:
            return (numbers.kernel_input_feature, *numbers.kernel_spatial)
        return (numbers.input_feature,)
