"""The attributes of windowed operations, dots and convolutions, read from protobuf."""

from __future__ import annotations

from typing import Any, Final

import lowtide.ir.attributes as ir
from lowtide.frontend.hlo_proto import enums
from lowtide.frontend.hlo_proto.fields import FieldError, lookup, natural, naturals
from lowtide.frontend.hlo_proto.instruction_source import Source, read_lists


def read_window(message: Any) -> ir.Window:
    """Return the window of a message."""
    dimensions = []
    for i, x in enumerate(message.dimensions):
        path = f"window.dimensions[{i}]"
        dimensions.append(
            ir.WindowDimension(
                natural(x.size, f"{path}.size"),
                natural(x.stride, f"{path}.stride"),
                x.padding_low,
                x.padding_high,
                natural(x.window_dilation, f"{path}.window_dilation"),
                natural(x.base_dilation, f"{path}.base_dilation"),
                x.window_reversal,
            )
        )
    return ir.Window(tuple(dimensions))


def read_reduce_window(source: Source) -> ir.Attributes:
    """Return the attributes of reduce-window and select-and-scatter."""
    return ir.ReduceWindow(read_window(source.proto.window))


def read_precision(source: Source) -> ir.PrecisionConfig:
    """Return the precision, the empty one where all operands have the default."""
    config = source.proto.precision_config
    path = "precision_config.operand_precision"
    precisions = tuple(
        [
            lookup(enums.PRECISIONS, x, f"{path}[{i}]")
            for i, x in enumerate(config.operand_precision)
        ]
    )
    algorithm = lookup(enums.ALGORITHMS, config.algorithm, "precision_config.algorithm")
    if all(x is ir.Precision.DEFAULT for x in precisions):
        precisions = ()
    if not precisions and algorithm is ir.DotAlgorithm.UNSET:
        return ir.DEFAULT_PRECISION
    return ir.PrecisionConfig(precisions, algorithm)


def _dot_dimensions(numbers: Any, path: str) -> ir.DotDimensions:
    lists = read_lists(
        numbers,
        path,
        "lhs_contracting_dimensions",
        "rhs_contracting_dimensions",
        "lhs_batch_dimensions",
        "rhs_batch_dimensions",
    )
    return ir.DotDimensions(*lists)


def read_dot(source: Source) -> ir.Attributes:
    """Return the attributes of dot and scaled-dot."""
    path = "dot_dimension_numbers"
    return ir.Dot(_dot_dimensions(source.required(path), path), read_precision(source))


def read_ragged_dot(source: Source) -> ir.Attributes:
    """Return the attributes of ragged-dot."""
    path = "ragged_dot_dimension_numbers"
    numbers = source.required(path)
    ragged, group = read_lists(numbers, path, "lhs_ragged_dimensions", "rhs_group_dimensions")
    dimensions = _dot_dimensions(numbers.dot_dimension_numbers, f"{path}.dot_dimension_numbers")
    return ir.RaggedDot(dimensions, ragged, group, read_precision(source))


_LARGEST_RANK: Final = 64
_CONVOLUTION_SIDES: Final = (
    ("input", "input_batch_dimension", "input_feature_dimension"),
    ("kernel", "kernel_input_feature_dimension", "kernel_output_feature_dimension"),
    ("output", "output_batch_dimension", "output_feature_dimension"),
)


def read_convolution_dimensions(source: Source) -> ir.ConvolutionDimensions:
    """Return the roles of dimensions, which must differ within each of the three arrays."""
    path = "convolution_dimension_numbers"
    numbers = source.required(path)
    found: list[Any] = []
    spatial_rank = len(numbers.input_spatial_dimensions)
    for side, *named in _CONVOLUTION_SIDES:
        field = f"{side}_spatial_dimensions"
        (spatial,) = read_lists(numbers, path, field)
        fixed = [natural(getattr(numbers, name), f"{path}.{name}", _LARGEST_RANK) for name in named]
        naturals(spatial, f"{path}.{field}", _LARGEST_RANK)
        if len(spatial) != spatial_rank:
            raise FieldError(
                f"expected {spatial_rank} dimensions, found {len(spatial)}", f"{path}.{field}"
            )
        if len({*fixed, *spatial}) != spatial_rank + 2:
            raise FieldError(f"the {side} has a dimension in two roles", f"{path}.{field}")
        found += [*fixed, spatial]
    return ir.ConvolutionDimensions(*found)


def _sparsity(source: Source) -> str:
    config = source.proto.sparsity_config
    parts = []
    for side in ("lhs", "rhs"):
        if config.HasField(side):
            x = getattr(config, side)
            parts.append(
                f"{side}={{sparsity={x.num_non_zero}x{x.block_size} "
                f"dimension={x.dimension} stride={x.stride}}}"
            )
    return f"{{{' '.join(parts)}}}" if parts else ""


def read_convolution(source: Source) -> ir.Attributes:
    """Return the attributes of convolution."""
    proto = source.proto
    return ir.Convolution(
        read_convolution_dimensions(source),
        read_window(proto.window),
        max(proto.feature_group_count, 1),
        max(proto.batch_group_count, 1),
        read_precision(source),
        lookup(enums.CONVOLUTION_KINDS, proto.conv_kind, "conv_kind"),
        _sparsity(source),
    )
