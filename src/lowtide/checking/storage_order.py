"""Arrays in memory, as strides: when two shapes name the same bytes in the same places."""

from __future__ import annotations

from lowtide.ir import Instruction, Opcode, Shape
from lowtide.ir.attributes import Dimensions


def same_places(a: Shape, b: Shape) -> bool:
    """Whether equal indices mean equal bytes in arrays of both shapes."""
    if a is b:
        return True
    if a.dimensions != b.dimensions or element_bits(a) != element_bits(b):
        return False
    if _is_tiled(a) or _is_tiled(b):
        return a.layout == b.layout
    return _long_dimensions(a) == _long_dimensions(b)


def is_row_major(shape: Shape) -> bool:
    """Whether elements that follow one another in order of indices do so in memory."""
    return not _is_tiled(shape) and len(_runs(shape)) <= 1


def element_bits(shape: Shape) -> int:
    """Return the bits that an element takes in memory; 0 for what is no array."""
    if not shape.is_array:
        return 0
    if shape.layout is not None and shape.layout.element_size_in_bits:
        return shape.layout.element_size_in_bits
    return 8 * shape.element_type.nbytes


def keeps_bytes(instruction: Instruction) -> bool:
    """Whether a reshape or transpose moves nothing: it only names its operand's bytes anew."""
    source, result = instruction.operands[0].shape, instruction.shape
    if element_bits(source) != element_bits(result) or _is_tiled(source) or _is_tiled(result):
        return False
    if instruction.opcode is Opcode.RESHAPE:
        return _runs(source) == _runs(result)
    dimensions = instruction.attributes_as(Dimensions).dimensions
    before, after = _strides(source), _strides(result)
    return all(
        result.dimensions[i] == 1 or after[i] == before[dimension]
        for i, dimension in enumerate(dimensions)
    )


def _is_tiled(shape: Shape) -> bool:
    layout = shape.layout
    return layout is not None and bool(layout.tiles or layout.split_configs)


def _strides(shape: Shape) -> list[int]:
    """The distance, in elements, between neighbours in each dimension."""
    strides = [0] * shape.rank
    order = range(shape.rank - 1, -1, -1) if shape.layout is None else shape.layout.minor_to_major
    distance = 1
    for dimension in order:
        strides[dimension] = distance
        distance *= shape.dimensions[dimension]
    return strides


def _long_dimensions(shape: Shape) -> list[tuple[int, int]]:
    """(size, stride) of the dimensions with more than one element."""
    pairs = zip(shape.dimensions, _strides(shape), strict=True)
    return [(size, stride) for size, stride in pairs if size != 1]


def _runs(shape: Shape) -> list[tuple[int, int]]:
    """(size, stride) with neighbouring dimensions made one where they lie row major."""
    runs: list[tuple[int, int]] = []
    for size, stride in _long_dimensions(shape):
        if runs and runs[-1][1] == size * stride:
            runs[-1] = (runs[-1][0] * size, stride)
        else:
            runs.append((size, stride))
    return runs
