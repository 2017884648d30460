"""Sizes of a module that depend on one another, by the needs of each operation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Final, final

from lowtide.ir import Computation, Instruction, Module, Opcode, ShapeIndex
from lowtide.ir.attributes import (
    BatchNorm,
    Convolution,
    Dimensions,
    Fft,
    Gather,
    GetTupleElement,
    Pad,
    ReduceWindow,
    Scatter,
    Slice,
    Window,
)
from lowtide.ops.factors.record import factors_of
from lowtide.ops.table import TABLE
from lowtide.reduce.shrink.choice import AtMost, small_size
from lowtide.reduce.shrink.factors import Sizes, Variable
from lowtide.reduce.shrink.sums import Sum

Variables = tuple[Variable, ...]


@final
class Relations:
    """The sizes of all arrays of a module as variables, and what has to hold between them."""

    def __init__(self, module: Module) -> None:
        self.sizes = Sizes()
        self.sums: list[Sum] = []
        self.bounds: list[AtMost] = []
        self._variables: dict[tuple[Instruction, ShapeIndex], Variables] = {}
        instructions = [x for c in module.computations.values() for x in c.instructions.values()]
        for x in instructions:
            for index, leaf in x.shape.leaves():
                if leaf.is_dynamic or not leaf.is_array:
                    self._variables[x, index] = tuple(map(self.sizes.fixed, leaf.dimensions))
                else:
                    self._variables[x, index] = tuple(map(self.sizes.new, leaf.dimensions))
        for x in instructions:
            _RULES.get(x.opcode, _other)(self, x)
            if x.shape.is_array:
                self.tiled(x)
        for alias in module.input_output_aliases:
            parameter = module.entry.parameters[alias.parameter], alias.parameter_index
            self.same(parameter, (module.entry.root, alias.output_index))

    def of(self, x: Instruction, index: ShapeIndex = ()) -> Variables:
        """Return the variables of an array."""
        return self._variables[x, index]

    def same(
        self, left: tuple[Instruction, ShapeIndex], right: tuple[Instruction, ShapeIndex]
    ) -> None:
        """Give two arrays the same shape; one that has another number of dimensions is left."""
        a, b = self._variables[left], self._variables[right]
        if len(a) == len(b):
            for i, j in zip(a, b, strict=True):
                self.equal(i, j)

    def same_leaves(self, left: Instruction, right: Instruction, prefix: ShapeIndex = ()) -> None:
        """Give `right` the shape that `left` has at `prefix`."""
        for index, _ in right.shape.leaves():
            self.same((left, (*prefix, *index)), (right, index))

    def equal(self, a: Variable, b: Variable) -> None:
        """Keep two sizes equal, unless they differ now, as 1 does from what it spreads to."""
        if self.sizes.size(a) == self.sizes.size(b):
            self.sizes.equate([a], [b])

    def at_most(self, small: Variable, big: Variable) -> None:
        """Keep a part equal to the whole, or less than it."""
        if self.sizes.size(small) == self.sizes.size(big):
            self.equal(small, big)
        else:
            self.bounds.append(AtMost(small, big, 1, 1))

    def sum(self, whole: Variable, pieces: Variables) -> None:
        """Keep a size the sum of others; pieces of the same size stay that."""
        first: dict[int, Variable] = {}
        for piece in pieces:
            self.equal(first.setdefault(self.sizes.size(piece), piece), piece)
        self.sums.append(Sum(whole, pieces))

    def tiled(self, whole: Instruction) -> None:
        """Where slices of an array cover a dimension one behind the other, keep their sum equal."""
        slices = [x for x in whole.users if x.opcode is Opcode.SLICE]
        for number, variable in enumerate(self.of(whole) if len(slices) > 1 else ()):
            parts: dict[tuple[int, int], Variable] = {}
            for x in slices:
                bounds = x.attributes_as(Slice)
                if bounds.strides[number] == 1:
                    ends = bounds.starts[number], bounds.limits[number]
                    parts.setdefault(ends, self.of(x)[number])
            ranges = [(0, 0), *sorted(parts), (self.sizes.size(variable),) * 2]
            if len(parts) > 1 and all(a[1] == b[0] for a, b in pairwise(ranges)):
                self.sum(variable, tuple(parts.values()))

    def fix(self, x: Instruction) -> bool:
        """Fix all sizes of an instruction and of its operands; return whether that is news."""
        arrays = [(y, index) for y in (x, *x.operands) for index, _ in y.shape.leaves()]
        return self.sizes.fix([v for array in arrays for v in self._variables[array]])


Rule = Callable[[Relations, Instruction], None]

# -- passing values on -------------------------------------------------------------------------


def _nothing(relations: Relations, x: Instruction) -> None:
    """Sizes are free: of sources, and of what has no arrays."""


def _other(relations: Relations, x: Instruction) -> None:
    """What is not known keeps its sizes, unless it is elementwise or changes no shape."""
    if TABLE[x.opcode].elementwise:
        _factored(relations, x)
    elif len(x.operands) == 1 and x.shape.compatible(x.operands[0].shape):
        relations.same_leaves(x.operands[0], x)
    else:
        relations.fix(x)


def _factored(relations: Relations, x: Instruction) -> None:
    """Dimensions that are split together stay equal; those beside dynamic ones stay as they are."""
    arrays = [(y, index) for y in (*x.operands, x) for index, _ in y.shape.leaves()]
    if any(y.shape.at(index).is_dynamic for y, index in arrays):
        relations.fix(x)
        return
    first: dict[tuple[int, ...], Variable] = {}
    for array, dimensions in zip(arrays, factors_of(x).arrays, strict=True):
        for variable, own in zip(relations.of(*array), dimensions, strict=True):
            if own:
                relations.equal(first.setdefault(own, variable), variable)


def _alike(relations: Relations, x: Instruction, count: int) -> None:
    """The first operands have one shape."""
    for operand in x.operands[1:count]:
        relations.same((x.operands[0], ()), (operand, ()))


def _tuple(relations: Relations, x: Instruction) -> None:
    for number, operand in enumerate(x.operands):
        relations.same_leaves(x, operand, (number,))


def _element(relations: Relations, x: Instruction) -> None:
    number = x.attributes_as(GetTupleElement).index
    relations.same_leaves(x.operands[0], x, (number,))


def _call(relations: Relations, x: Instruction) -> None:
    (callee,) = x.called_computations
    _arguments(relations, x.operands, callee)
    relations.same_leaves(callee.root, x)


def _arguments(relations: Relations, arguments: Sequence[Instruction], callee: Computation) -> None:
    for argument, parameter in zip(arguments, callee.parameters, strict=True):
        relations.same_leaves(argument, parameter)


def _while(relations: Relations, x: Instruction) -> None:
    for callee in x.called_computations:
        _arguments(relations, x.operands, callee)
    relations.same_leaves(x.operands[0], x)
    relations.same_leaves(x.called_computations[1].root, x)


def _conditional(relations: Relations, x: Instruction) -> None:
    for operand, branch in zip(x.operands[1:], x.called_computations, strict=True):
        _arguments(relations, [operand], branch)
        relations.same_leaves(branch.root, x)


# -- data movement -----------------------------------------------------------------------------


def _reshape(relations: Relations, x: Instruction) -> None:
    relations.sizes.equate(relations.of(x.operands[0]), relations.of(x))


def _concatenate(relations: Relations, x: Instruction) -> None:
    _factored(relations, x)
    (joined,) = x.attributes_as(Dimensions).dimensions
    pieces = tuple([relations.of(operand)[joined] for operand in x.operands])
    relations.sum(relations.of(x)[joined], pieces)


def _part(relations: Relations, x: Instruction) -> None:
    """The result is a part of the operand."""
    for part, whole in zip(relations.of(x), relations.of(x.operands[0]), strict=True):
        relations.at_most(part, whole)


def _update(relations: Relations, x: Instruction) -> None:
    relations.same((x.operands[0], ()), (x, ()))
    for part, whole in zip(relations.of(x.operands[1]), relations.of(x), strict=True):
        relations.at_most(part, whole)


def _pad(relations: Relations, x: Instruction) -> None:
    sizes = zip(relations.of(x.operands[0]), relations.of(x), strict=True)
    for (inner, outer), padding in zip(sizes, x.attributes_as(Pad).dimensions, strict=True):
        low, high, interior = padding.low, padding.high, padding.interior
        if not (low or high or interior):
            relations.equal(inner, outer)
        elif low >= 0 and high >= 0:
            more = (low > 0) + (high > 0)
            relations.bounds.append(AtMost(inner, outer, interior + 1, more - interior))


def _gather(relations: Relations, x: Instruction) -> None:
    attributes = x.attributes_as(Gather)
    operand, indices = relations.of(x.operands[0]), relations.of(x.operands[1])
    result = relations.of(x)
    offsets = attributes.offset_dims
    batches = [v for i, v in enumerate(result) if i not in offsets]
    free = _batches(relations, indices, attributes.index_vector_dim, batches)
    absent = {*attributes.collapsed_slice_dims, *attributes.operand_batching_dims}
    window = [v for i, v in enumerate(operand) if i not in absent]
    for offset, whole in zip(offsets, window, strict=True):
        relations.at_most(result[offset], whole)
    pairs = zip(
        attributes.operand_batching_dims, attributes.start_indices_batching_dims, strict=True
    )
    for i, j in pairs:
        relations.equal(operand[i], free[j])


def _batches(
    relations: Relations, indices: Variables, vector: int, batches: Sequence[Variable]
) -> Variables:
    """Equate the dimensions of indices, but that of the index vectors, with those of results."""
    if vector < len(indices):
        relations.sizes.fix([indices[vector]])
    for index, batch in zip([*indices[:vector], *indices[vector + 1 :]], batches, strict=True):
        relations.equal(index, batch)
    return indices


def _scatter(relations: Relations, x: Instruction) -> None:
    attributes = x.attributes_as(Scatter)
    count = len(x.operands) // 2
    indices = relations.of(x.operands[count])
    absent = {*attributes.inserted_window_dims, *attributes.input_batching_dims}
    for number in range(count):
        operand, updates = x.operands[number], relations.of(x.operands[count + 1 + number])
        relations.same((operand, ()), (x, (number,) if x.shape.is_tuple else ()))
        places = attributes.update_window_dims
        batches = [v for i, v in enumerate(updates) if i not in places]
        _batches(relations, indices, attributes.index_vector_dim, batches)
        window = [v for i, v in enumerate(relations.of(operand)) if i not in absent]
        for place, whole in zip(places, window, strict=True):
            relations.at_most(updates[place], whole)
        pairs = zip(
            attributes.input_batching_dims, attributes.scatter_indices_batching_dims, strict=True
        )
        for i, j in pairs:
            relations.equal(relations.of(operand)[i], indices[j])


# -- contractions and reductions ---------------------------------------------------------------


def _convolution(relations: Relations, x: Instruction) -> None:
    attributes = x.attributes_as(Convolution)
    dims = attributes.dimensions
    image, kernel = relations.of(x.operands[0]), relations.of(x.operands[1])
    result, sizes = relations.of(x), relations.sizes
    features, images = attributes.feature_group_count, attributes.batch_group_count
    group, image_group = sizes.new(features), sizes.new(images)
    sizes.equate([image[dims.input_batch]], [image_group, result[dims.output_batch]])
    sizes.equate([image[dims.input_feature]], [group, kernel[dims.kernel_input_feature]])
    outputs = kernel[dims.kernel_output_feature]
    relations.equal(outputs, result[dims.output_feature])
    for groups in (group, image_group):
        each = sizes.new(sizes.size(outputs) // sizes.size(groups))
        sizes.equate([outputs], [groups, each])
    inner = tuple([image[i] for i in dims.input_spatial])
    outer = tuple([result[i] for i in dims.output_spatial])
    _slide(relations, attributes.window, inner, outer)


def _slide(relations: Relations, window: Window, inner: Variables, outer: Variables) -> None:
    """A window of which not all positions are padding: a border is less than its size."""
    for dimension, i, o in zip(window.dimensions, inner, outer, strict=True):
        if relations.sizes.size(i) == relations.sizes.size(o):
            relations.equal(i, o)
        elif dimension.base_dilation == 1 == dimension.window_dilation:
            size = small_size(dimension.size)
            stride = size if dimension.stride == dimension.size else small_size(dimension.stride)
            borders = (dimension.padding_low > 0) + (dimension.padding_high > 0)
            offset = size - stride - borders * (size - 1)
            relations.bounds.append(AtMost(o, i, stride, offset))


def _reduce(relations: Relations, x: Instruction) -> None:
    _alike(relations, x, len(x.operands) // 2)
    _factored(relations, x)


def _reduce_window(relations: Relations, x: Instruction) -> None:
    _alike(relations, x, len(x.operands) // 2)
    first, *others = [index for index, _ in x.shape.leaves()]
    for index in others:
        relations.same((x, first), (x, index))
    window = x.attributes_as(ReduceWindow).window
    _slide(relations, window, relations.of(x.operands[0]), relations.of(x, first))


def _select_and_scatter(relations: Relations, x: Instruction) -> None:
    relations.same((x.operands[0], ()), (x, ()))
    window = x.attributes_as(ReduceWindow).window
    _slide(relations, window, relations.of(x.operands[0]), relations.of(x.operands[1]))


def _sort(relations: Relations, x: Instruction) -> None:
    _alike(relations, x, len(x.operands))
    for index, _ in x.shape.leaves():
        relations.same((x.operands[0], ()), (x, index))


def _topk(relations: Relations, x: Instruction) -> None:
    for index, _ in x.shape.leaves():
        for part, whole in zip(relations.of(x, index), relations.of(x.operands[0]), strict=True):
            relations.at_most(part, whole)
    relations.same((x, (0,)), (x, (1,)))


# -- the rest ----------------------------------------------------------------------------------


def _batch_norm(relations: Relations, x: Instruction) -> None:
    image = relations.of(x.operands[0])
    features = image[x.attributes_as(BatchNorm).feature_index]
    leaves = [relations.of(x, index) for index, _ in x.shape.leaves()]
    for variables in [*[relations.of(operand) for operand in x.operands], *leaves]:
        if len(variables) == len(image) > 1:
            for a, b in zip(variables, image, strict=True):
                relations.equal(a, b)
        else:
            relations.equal(variables[0], features)


def _square(relations: Relations, x: Instruction) -> None:
    """Of cholesky and triangular-solve: operand 0 is square in its last two dimensions."""
    matrix = relations.of(x.operands[0])
    relations.equal(matrix[-1], matrix[-2])
    relations.same((x.operands[-1], ()), (x, ()))
    _factored(relations, x)
    # Of triangular-solve, the side on which the matrix stands has its size.
    if len(x.operands) == 2:
        relations.fix(x)


def _fft(relations: Relations, x: Instruction) -> None:
    count = len(x.attributes_as(Fft).length)
    for array in (relations.of(x), relations.of(x.operands[0])):
        relations.sizes.fix(array[len(array) - count :])
    _factored(relations, x)


def _bits(relations: Relations, x: Instruction) -> None:
    """Of bitcast-convert: the narrower type may have a minor dimension more."""
    _factored(relations, x)
    result, operand = relations.of(x), relations.of(x.operands[0])
    common = min(len(result), len(operand))
    relations.sizes.fix([*result[common:], *operand[common:]])


def _random_bits(relations: Relations, x: Instruction) -> None:
    relations.sizes.fix([*relations.of(x.operands[0]), *relations.of(x, (0,))])


_RULES: Final[Mapping[Opcode, Rule]] = {
    Opcode.AFTER_ALL: _nothing,
    Opcode.BATCH_NORM_GRAD: _batch_norm,
    Opcode.BATCH_NORM_INFERENCE: _batch_norm,
    Opcode.BATCH_NORM_TRAINING: _batch_norm,
    Opcode.BITCAST_CONVERT: _bits,
    Opcode.BROADCAST: _factored,
    Opcode.CALL: _call,
    Opcode.CHOLESKY: _square,
    Opcode.CONCATENATE: _concatenate,
    Opcode.CONDITIONAL: _conditional,
    Opcode.CONSTANT: _nothing,
    Opcode.CONVOLUTION: _convolution,
    Opcode.DOT: _factored,
    Opcode.DYNAMIC_SLICE: _part,
    Opcode.DYNAMIC_UPDATE_SLICE: _update,
    Opcode.FFT: _fft,
    Opcode.FUSION: _call,
    Opcode.GATHER: _gather,
    Opcode.GET_TUPLE_ELEMENT: _element,
    Opcode.IOTA: _nothing,
    Opcode.PAD: _pad,
    Opcode.PARAMETER: _nothing,
    Opcode.PARTITION_ID: _nothing,
    Opcode.REDUCE: _reduce,
    Opcode.REDUCE_WINDOW: _reduce_window,
    Opcode.REPLICA_ID: _nothing,
    Opcode.RESHAPE: _reshape,
    Opcode.RNG: _nothing,
    Opcode.RNG_BIT_GENERATOR: _random_bits,
    Opcode.SCATTER: _scatter,
    Opcode.SELECT_AND_SCATTER: _select_and_scatter,
    Opcode.SLICE: _part,
    Opcode.SORT: _sort,
    Opcode.TOPK: _topk,
    Opcode.TRANSPOSE: _factored,
    Opcode.TRIANGULAR_SOLVE: _square,
    Opcode.TUPLE: _tuple,
    Opcode.WHILE: _while,
}
