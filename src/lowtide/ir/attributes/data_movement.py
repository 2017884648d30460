"""Attributes of sources of values and of what moves data."""

from __future__ import annotations

from typing import Final

from lowtide.ir.attribute_fields import Form, attribute, attribute_record
from lowtide.ir.attributes.base import Attributes
from lowtide.ir.literal import Literal
from lowtide.records import dataclass


@attribute_record
class Parameter(Attributes):
    """Of `parameter`: its number, from 0."""

    number: int = attribute(Form.NATURAL, text="", proto="parameter_number")


@attribute_record
class Constant(Attributes):
    """Of `constant`: its value."""

    literal: Literal = attribute(Form.LITERAL, text="", proto="literal")


@attribute_record
class Iota(Attributes):
    """Of `iota`: the dimension along which the values count from 0."""

    dimension: int = attribute(Form.NATURAL, text="iota_dimension", proto="dimensions")


@attribute_record
class Dimensions(Attributes):
    """Of broadcast, transpose, reverse, concatenate, reduce, map, get- and set-dimension-size.

    For broadcast, entry `i` is the result dimension of operand dimension `i`; for transpose, the
    operand dimension of result dimension `i`; else the dimensions on which the operation works.
    """

    dimensions: tuple[int, ...] = attribute(Form.DIMENSIONS)


@attribute_record
class Reshape(Attributes):
    """Of `reshape`: the dimension that stands for a dynamic size, or -1."""

    inferred_dimension: int = attribute(Form.NATURAL, default=-1, proto="dimensions")


@dataclass(frozen=True, slots=True)
class Slice(Attributes):
    """Of `slice`: per dimension the start, the limit (not included) and the stride."""

    starts: tuple[int, ...]
    limits: tuple[int, ...]
    strides: tuple[int, ...]


@attribute_record
class DynamicSlice(Attributes):
    """Of `dynamic-slice`: the size of the result in each dimension."""

    sizes: tuple[int, ...] = attribute(Form.INTEGERS, text="dynamic_slice_sizes")


@dataclass(frozen=True, slots=True)
class PaddingDimension:
    """Elements added before, after and between the elements along one dimension.

    `low` and `high` may be negative, which removes elements; `interior` may not.
    """

    low: int
    high: int
    interior: int = 0


@attribute_record
class Pad(Attributes):
    """Of `pad`: the padding of each dimension."""

    dimensions: tuple[PaddingDimension, ...] = attribute(Form.PADDING, text="padding")


_GATHER: Final = "gather_dimension_numbers."
_SCATTER: Final = "scatter_dimension_numbers."


@attribute_record
class Gather(Attributes):
    """Of `gather`: how index vectors address slices, and how slices lie in the result."""

    offset_dims: tuple[int, ...] = attribute(Form.INTEGERS, proto=_GATHER)
    collapsed_slice_dims: tuple[int, ...] = attribute(Form.INTEGERS, proto=_GATHER)
    start_index_map: tuple[int, ...] = attribute(Form.INTEGERS, proto=_GATHER)
    index_vector_dim: int = attribute(Form.NATURAL, proto=_GATHER)
    slice_sizes: tuple[int, ...] = attribute(Form.INTEGERS, proto="gather_slice_sizes")
    operand_batching_dims: tuple[int, ...] = attribute(
        Form.INTEGERS, default=(), after="start_index_map", proto=_GATHER
    )
    start_indices_batching_dims: tuple[int, ...] = attribute(
        Form.INTEGERS, default=(), after="operand_batching_dims", proto=_GATHER
    )
    indices_are_sorted: bool = attribute(Form.BOOLEAN, default=False)


@attribute_record
class Scatter(Attributes):
    """Of `scatter`: how index vectors address the windows that updates are written to."""

    update_window_dims: tuple[int, ...] = attribute(Form.INTEGERS, proto=_SCATTER)
    inserted_window_dims: tuple[int, ...] = attribute(Form.INTEGERS, proto=_SCATTER)
    scatter_dims_to_operand_dims: tuple[int, ...] = attribute(Form.INTEGERS, proto=_SCATTER)
    index_vector_dim: int = attribute(Form.NATURAL, proto=_SCATTER)
    input_batching_dims: tuple[int, ...] = attribute(
        Form.INTEGERS, default=(), after="scatter_dims_to_operand_dims", proto=_SCATTER
    )
    scatter_indices_batching_dims: tuple[int, ...] = attribute(
        Form.INTEGERS, default=(), after="input_batching_dims", proto=_SCATTER
    )
    indices_are_sorted: bool = attribute(Form.BOOLEAN, default=False)
    unique_indices: bool = attribute(Form.BOOLEAN, default=False)
