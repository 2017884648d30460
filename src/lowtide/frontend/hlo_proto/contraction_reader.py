"""The attributes of windowed operations, dots and convolutions, read from protobuf."""

from __future__ import annotations

from operator import attrgetter
from typing import Any, Final

import lowtide.ir.attributes as ir
from lowtide.frontend.hlo_proto import enums
from lowtide.frontend.hlo_proto.fields import FieldError, lookup, natural, naturals
from lowtide.frontend.hlo_proto.instruction_source import Source, read_lists
from lowtide.ir.attribute_fields import AttributeField


def read_window(source: Source, how: AttributeField) -> ir.Window | None:
    """Return the window of an instruction, the default of the field where there is none."""
    if not source.proto.HasField("window"):
        default: ir.Window | None = how.default
        return default
    dimensions = []
    for i, x in enumerate(source.proto.window.dimensions):
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


def read_precision(source: Source, how: AttributeField) -> ir.PrecisionConfig:
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


def read_dot_dimensions(source: Source, how: AttributeField) -> ir.DotDimensions:
    """Return the dimension numbers of a dot or ragged-dot, which must be there."""
    source.required(how.proto.partition(".")[0])
    lists = read_lists(
        attrgetter(how.proto)(source.proto),
        how.proto,
        "lhs_contracting_dimensions",
        "rhs_contracting_dimensions",
        "lhs_batch_dimensions",
        "rhs_batch_dimensions",
    )
    return ir.DotDimensions(*lists)


_LARGEST_RANK: Final = 64
_CONVOLUTION_SIDES: Final = (
    ("input", "input_batch_dimension", "input_feature_dimension"),
    ("kernel", "kernel_input_feature_dimension", "kernel_output_feature_dimension"),
    ("output", "output_batch_dimension", "output_feature_dimension"),
)


def read_convolution_dimensions(
    source: Source, how: AttributeField
) -> ir.ConvolutionDimensions | None:
    """Return the roles of dimensions, which must differ within each of the three arrays."""
    path = "convolution_dimension_numbers"
    if not how.required and not source.proto.HasField(path):
        return None
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


def read_sparsity(source: Source, how: AttributeField) -> str:
    """Return the sparsity of both operands as text has it, empty where there is none."""
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
