"""The attributes of each opcode, written to the fields of a HloInstructionProto."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import lowtide.ir.attributes as ir
from lowtide.frontend.hlo_proto import enums
from lowtide.frontend.hlo_proto.fields import FieldError
from lowtide.frontend.hlo_proto.groups import write_groups
from lowtide.frontend.hlo_proto.literals import write_literal
from lowtide.frontend.hlo_proto.shapes import ShapeWriter
from lowtide.frontend.hlo_proto.shardings import write_sharding
from lowtide.frontend.hlo_proto.sources import PayloadWriter, write_scalar
from lowtide.ir.instruction import Instruction
from lowtide.ir.opcode import Opcode


@dataclass(frozen=True, slots=True)
class Target:
    """What attributes are written to, for which instruction."""

    proto: Any
    instruction: Instruction
    shapes: ShapeWriter
    payloads: PayloadWriter


Writer = Callable[[Any, Target], None]


def write_attributes(target: Target) -> None:
    """Write the attributes of an instruction; raises FieldError where protobuf cannot hold them."""
    attributes = target.instruction.attributes
    _WRITERS[type(attributes)](attributes, target)


def _inverse(table: Mapping[int, Any]) -> dict[Any, int]:
    return {value: number for number, value in table.items()}


_PRECISIONS: Final = _inverse(enums.PRECISIONS)
_ALGORITHMS: Final = _inverse(enums.ALGORITHMS)
_CONVOLUTION_KINDS: Final = _inverse(enums.CONVOLUTION_KINDS)
_FFT_KINDS: Final = _inverse(enums.FFT_KINDS)
_TRANSPOSES: Final = _inverse(enums.TRANSPOSES)
_DISTRIBUTIONS: Final = _inverse(enums.DISTRIBUTIONS)
_RANDOM_ALGORITHMS: Final = _inverse(enums.RANDOM_ALGORITHMS)
_PADDING_TYPES: Final = _inverse(enums.PADDING_TYPES) | {"PADDING_INVALID": 0}
_SCHEDULES: Final = _inverse(enums.CUSTOM_CALL_SCHEDULES)
_API_VERSIONS: Final = _inverse(enums.API_VERSIONS)
_TRI_STATES: Final = _inverse(enums.TRI_STATES)


def _nothing(record: ir.Attributes, target: Target) -> None:
    """Write the record of opcodes that have no attributes."""


# -- sources and data movement -----------------------------------------------------------------


def _parameter(record: ir.Parameter, target: Target) -> None:
    target.proto.parameter_number = record.number


def _constant(record: ir.Constant, target: Target) -> None:
    write_literal(record.literal, target.proto.literal, target.shapes)


def _iota(record: ir.Iota, target: Target) -> None:
    target.proto.dimensions.append(record.dimension)


def _dimensions(record: ir.Dimensions, target: Target) -> None:
    target.proto.dimensions.extend(record.dimensions)


def _reshape(record: ir.Reshape, target: Target) -> None:
    if record.inferred_dimension != -1:
        target.proto.dimensions.append(record.inferred_dimension)


def _slice(record: ir.Slice, target: Target) -> None:
    for start, limit, stride in zip(record.starts, record.limits, record.strides, strict=True):
        target.proto.slice_dimensions.add(start=start, limit=limit, stride=stride)


def _dynamic_slice(record: ir.DynamicSlice, target: Target) -> None:
    target.proto.dynamic_slice_sizes.extend(record.sizes)


def _pad(record: ir.Pad, target: Target) -> None:
    config = target.proto.padding_config
    config.SetInParent()
    for x in record.dimensions:
        config.dimensions.add(
            edge_padding_low=x.low, edge_padding_high=x.high, interior_padding=x.interior
        )


def _gather(record: ir.Gather, target: Target) -> None:
    numbers = target.proto.gather_dimension_numbers
    numbers.offset_dims.extend(record.offset_dims)
    numbers.collapsed_slice_dims.extend(record.collapsed_slice_dims)
    numbers.start_index_map.extend(record.start_index_map)
    numbers.index_vector_dim = record.index_vector_dim
    numbers.operand_batching_dims.extend(record.operand_batching_dims)
    numbers.start_indices_batching_dims.extend(record.start_indices_batching_dims)
    target.proto.gather_slice_sizes.extend(record.slice_sizes)
    target.proto.indices_are_sorted = record.indices_are_sorted


def _scatter(record: ir.Scatter, target: Target) -> None:
    numbers = target.proto.scatter_dimension_numbers
    numbers.update_window_dims.extend(record.update_window_dims)
    numbers.inserted_window_dims.extend(record.inserted_window_dims)
    numbers.scatter_dims_to_operand_dims.extend(record.scatter_dims_to_operand_dims)
    numbers.index_vector_dim = record.index_vector_dim
    numbers.input_batching_dims.extend(record.input_batching_dims)
    numbers.scatter_indices_batching_dims.extend(record.scatter_indices_batching_dims)
    target.proto.indices_are_sorted = record.indices_are_sorted
    target.proto.unique_indices = record.unique_indices


# -- windows, contractions, reductions ---------------------------------------------------------


def _window(window: ir.Window, proto: Any) -> None:
    proto.SetInParent()
    for x in window.dimensions:
        proto.dimensions.add(
            size=x.size,
            stride=x.stride,
            padding_low=x.padding_low,
            padding_high=x.padding_high,
            window_dilation=x.window_dilation,
            base_dilation=x.base_dilation,
            window_reversal=x.reversal,
        )


def _reduce_window(record: ir.ReduceWindow, target: Target) -> None:
    _window(record.window, target.proto.window)


def _precision(precision: ir.PrecisionConfig, target: Target, operands: int) -> None:
    """Write the precision, with an entry for each operand even where all are the default."""
    config = target.proto.precision_config
    config.SetInParent()
    given = precision.operand_precision or (ir.Precision.DEFAULT,) * operands
    config.operand_precision.extend([_PRECISIONS[x] for x in given])
    config.algorithm = _ALGORITHMS[precision.algorithm]


def _dot_dimensions(dimensions: ir.DotDimensions, proto: Any) -> None:
    proto.SetInParent()
    proto.lhs_contracting_dimensions.extend(dimensions.lhs_contracting)
    proto.rhs_contracting_dimensions.extend(dimensions.rhs_contracting)
    proto.lhs_batch_dimensions.extend(dimensions.lhs_batch)
    proto.rhs_batch_dimensions.extend(dimensions.rhs_batch)


def _dot(record: ir.Dot, target: Target) -> None:
    _dot_dimensions(record.dimensions, target.proto.dot_dimension_numbers)
    _precision(record.precision, target, 2)


def _ragged_dot(record: ir.RaggedDot, target: Target) -> None:
    numbers = target.proto.ragged_dot_dimension_numbers
    _dot_dimensions(record.dimensions, numbers.dot_dimension_numbers)
    numbers.lhs_ragged_dimensions.extend(record.lhs_ragged)
    numbers.rhs_group_dimensions.extend(record.rhs_group)
    _precision(record.precision, target, 2)


def _convolution_dimensions(dimensions: ir.ConvolutionDimensions, target: Target) -> None:
    numbers = target.proto.convolution_dimension_numbers
    numbers.SetInParent()
    numbers.input_batch_dimension = dimensions.input_batch
    numbers.input_feature_dimension = dimensions.input_feature
    numbers.input_spatial_dimensions.extend(dimensions.input_spatial)
    numbers.kernel_input_feature_dimension = dimensions.kernel_input_feature
    numbers.kernel_output_feature_dimension = dimensions.kernel_output_feature
    numbers.kernel_spatial_dimensions.extend(dimensions.kernel_spatial)
    numbers.output_batch_dimension = dimensions.output_batch
    numbers.output_feature_dimension = dimensions.output_feature
    numbers.output_spatial_dimensions.extend(dimensions.output_spatial)


_SPARSITY: Final = re.compile(
    r"(lhs|rhs)=\{\s*sparsity=(\d+)x(\d+)[\s,]+dimension=(\d+)[\s,]+stride=(\d+)\s*\}[\s,]*"
)


def _sparsity(text: str, proto: Any) -> None:
    inside = text.strip().removeprefix("{").removesuffix("}").strip()
    position = 0
    while position < len(inside):
        match = _SPARSITY.match(inside, position)
        if match is None:
            raise FieldError(f"unknown text {inside[position:][:40]!r}", "sparsity_config")
        side = getattr(proto, match[1])
        side.num_non_zero, side.block_size, side.dimension, side.stride = map(
            int, match.groups()[1:]
        )
        position = match.end()


def _convolution(record: ir.Convolution, target: Target) -> None:
    proto = target.proto
    _convolution_dimensions(record.dimensions, target)
    _window(record.window, proto.window)
    proto.feature_group_count = record.feature_group_count
    proto.batch_group_count = record.batch_group_count
    _precision(record.precision, target, len(target.instruction.operands))
    proto.conv_kind = _CONVOLUTION_KINDS[record.kind]
    _sparsity(record.sparsity_config, proto.sparsity_config)


def _scan(record: ir.Scan, target: Target) -> None:
    target.proto.dimensions.append(record.dimension)
    target.proto.num_carries = record.num_carries
    target.proto.is_reverse = record.is_reverse
    target.proto.is_associative = _TRI_STATES[record.is_associative]


def _sort(record: ir.Sort, target: Target) -> None:
    target.proto.dimensions.append(record.dimension)
    if record.is_stable:
        target.proto.is_stable = True


def _topk(record: ir.TopK, target: Target) -> None:
    target.proto.k = record.k
    target.proto.largest = record.largest
    target.proto.is_stable = record.is_stable


# -- elementwise and linear algebra ------------------------------------------------------------


def _compare(record: ir.Compare, target: Target) -> None:
    target.proto.comparison_direction = record.direction
    target.proto.comparison_type = record.type


def _reduce_precision(record: ir.ReducePrecision, target: Target) -> None:
    write_scalar(target.proto, "exponent_bits", record.exponent_bits)
    write_scalar(target.proto, "mantissa_bits", record.mantissa_bits)


def _fft(record: ir.Fft, target: Target) -> None:
    target.proto.fft_type = _FFT_KINDS[record.kind]
    target.proto.fft_length.extend(record.length)


def _cholesky(record: ir.Cholesky, target: Target) -> None:
    target.proto.cholesky_options.lower = record.lower


def _triangular_solve(record: ir.TriangularSolve, target: Target) -> None:
    options = target.proto.triangular_solve_options
    options.left_side = record.left_side
    options.lower = record.lower
    options.unit_diagonal = record.unit_diagonal
    options.transpose_a = _TRANSPOSES[record.transpose_a]


def _batch_norm(record: ir.BatchNorm, target: Target) -> None:
    target.proto.epsilon = record.epsilon
    target.proto.feature_index = record.feature_index


def _rng(record: ir.Rng, target: Target) -> None:
    target.proto.distribution = _DISTRIBUTIONS[record.distribution]


def _rng_bit_generator(record: ir.RngBitGenerator, target: Target) -> None:
    target.proto.rng_algorithm = _RANDOM_ALGORITHMS[record.algorithm]


def _rng_state(record: ir.RngGetAndUpdateState, target: Target) -> None:
    target.proto.delta = record.delta


# -- structure and control flow ----------------------------------------------------------------


def _element(record: ir.GetTupleElement, target: Target) -> None:
    target.proto.tuple_index = record.index


def _call(record: ir.Call, target: Target) -> None:
    target.proto.is_composite = record.is_composite


def _conditional(record: ir.Conditional, target: Target) -> None:
    """Write nothing: operand 0 tells a predicate from an index."""


def _aliasing(aliases: tuple[ir.Aliasing, ...], target: Target) -> None:
    for alias in aliases:
        target.proto.output_operand_aliasing.add(
            output_shape_index=alias.output_index,
            operand_index=alias.operand,
            operand_shape_index=alias.operand_index,
        )


def _fusion(record: ir.Fusion, target: Target) -> None:
    target.proto.fusion_kind = record.kind
    _aliasing(record.output_to_operand_aliasing, target)


def _custom_call(record: ir.CustomCall, target: Target) -> None:
    proto = target.proto
    write_scalar(proto, "custom_call_target", record.target)
    if record.window is not None:
        _window(record.window, proto.window)
    if record.dimensions is not None:
        _convolution_dimensions(record.dimensions, target)
    proto.feature_group_count = record.feature_group_count
    proto.batch_group_count = record.batch_group_count
    _precision(record.precision, target, len(target.instruction.operands))
    proto.padding_type = _PADDING_TYPES[record.padding_type]
    if record.operand_layouts is not None:
        proto.constrain_layout = True
        for shape in record.operand_layouts:
            target.shapes.write(shape, proto.operand_shapes_with_layout.add())
    proto.custom_call_has_side_effect = record.has_side_effect
    if record.literal is not None:
        write_literal(record.literal, proto.literal, target.shapes)
    _aliasing(record.output_to_operand_aliasing, target)
    proto.custom_call_schedule = _SCHEDULES[record.schedule]
    proto.custom_call_api_version = _API_VERSIONS[record.api_version]


def _async(record: ir.Async, target: Target) -> None:
    if target.instruction.opcode is not Opcode.ASYNC_START:
        return
    if record.execution_thread != ir.MAIN_THREAD:
        write_scalar(target.proto, "async_execution_thread", record.execution_thread)
    _aliasing(record.output_to_operand_aliasing, target)


def _copy_start(record: ir.CopyStart, target: Target) -> None:
    if record.cross_program_prefetch_index is not None:
        index = record.cross_program_prefetch_index
        write_scalar(target.proto, "cross_program_prefetch_index", index)


def _domain(record: ir.Domain, target: Target) -> None:
    """Write the shardings: what the text calls the entry, protobuf calls the exit."""
    if record.entry is not None:
        write_sharding(record.entry, target.proto.domain_exit_sharding, target.payloads)
    if record.exit is not None:
        write_sharding(record.exit, target.proto.domain_entry_sharding, target.payloads)


# -- communication -----------------------------------------------------------------------------


def _collective(record: ir.Collective, target: Target) -> None:
    proto = target.proto
    write_groups(record.replica_groups, proto)
    if record.channel_id is not None:
        proto.channel_id = record.channel_id
    if record.dimension is not None:
        proto.dimensions.append(record.dimension)
    proto.constrain_layout = record.constrain_layout
    proto.use_global_device_ids = record.use_global_device_ids
    proto.has_dynamic_root = record.has_dynamic_root


def _permute(record: ir.CollectivePermute, target: Target) -> None:
    proto = target.proto
    for source, destination in record.source_target_pairs:
        proto.source_target_pairs.add(source=source, target=destination)
    if record.channel_id is not None:
        proto.channel_id = record.channel_id
    for sizes in record.slice_sizes:
        proto.dynamic_slice_sizes.extend(sizes)


def _channel(record: ir.Channel, target: Target) -> None:
    if record.channel_id is not None:
        target.proto.channel_id = record.channel_id
    target.proto.is_host_transfer = record.is_host_transfer


def _infeed(record: ir.Infeed, target: Target) -> None:
    target.proto.infeed_config = record.config


def _outfeed(record: ir.Outfeed, target: Target) -> None:
    target.shapes.write(record.shape, target.proto.outfeed_shape)
    target.proto.outfeed_config = record.config


_WRITERS: Final[dict[type[ir.Attributes], Writer]] = {
    ir.Attributes: _nothing,
    ir.Parameter: _parameter,
    ir.Constant: _constant,
    ir.Iota: _iota,
    ir.Dimensions: _dimensions,
    ir.Reshape: _reshape,
    ir.Slice: _slice,
    ir.DynamicSlice: _dynamic_slice,
    ir.Pad: _pad,
    ir.Gather: _gather,
    ir.Scatter: _scatter,
    ir.ReduceWindow: _reduce_window,
    ir.Dot: _dot,
    ir.RaggedDot: _ragged_dot,
    ir.Convolution: _convolution,
    ir.Scan: _scan,
    ir.Sort: _sort,
    ir.TopK: _topk,
    ir.Compare: _compare,
    ir.ReducePrecision: _reduce_precision,
    ir.Fft: _fft,
    ir.Cholesky: _cholesky,
    ir.TriangularSolve: _triangular_solve,
    ir.BatchNorm: _batch_norm,
    ir.Rng: _rng,
    ir.RngBitGenerator: _rng_bit_generator,
    ir.RngGetAndUpdateState: _rng_state,
    ir.GetTupleElement: _element,
    ir.Call: _call,
    ir.Conditional: _conditional,
    ir.Fusion: _fusion,
    ir.CustomCall: _custom_call,
    ir.Async: _async,
    ir.CopyStart: _copy_start,
    ir.Collective: _collective,
    ir.CollectivePermute: _permute,
    ir.Channel: _channel,
    ir.Infeed: _infeed,
    ir.Outfeed: _outfeed,
    ir.Domain: _domain,
}
"""How each attribute record is written."""
