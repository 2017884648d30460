"""The attributes of each opcode, read from the fields of a HloInstructionProto."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import lowtide.ir.attributes as ir
from lowtide.frontend.hlo_proto import enums
from lowtide.frontend.hlo_proto.communication_reader import (
    read_channel,
    read_collective,
    read_infeed,
    read_outfeed,
    read_permute,
)
from lowtide.frontend.hlo_proto.contraction_reader import (
    read_convolution,
    read_convolution_dimensions,
    read_dot,
    read_precision,
    read_ragged_dot,
    read_reduce_window,
    read_window,
)
from lowtide.frontend.hlo_proto.fields import FieldError, lookup, natural, naturals, only
from lowtide.frontend.hlo_proto.instruction_source import Source, read_lists
from lowtide.frontend.hlo_proto.literals import read_literal
from lowtide.ir.element_type import ElementType
from lowtide.ir.opcode import Opcode

Reader = Callable[[Source], ir.Attributes]


def read_attributes(source: Source) -> ir.Attributes:
    """Return the attributes of an instruction; raises FieldError at the field that is bad."""
    reader = _READERS.get(source.opcode)
    return ir.NO_ATTRIBUTES if reader is None else reader(source)


# -- sources and data movement -----------------------------------------------------------------


def _parameter(source: Source) -> ir.Attributes:
    return ir.Parameter(natural(source.proto.parameter_number, "parameter_number"))


def _constant(source: Source) -> ir.Attributes:
    proto = source.required("literal")
    try:
        return ir.Constant(read_literal(proto, source.shapes, source.shape))
    except FieldError as error:
        raise error.under("literal") from None


def _iota(source: Source) -> ir.Attributes:
    return ir.Iota(only(source.proto.dimensions, "dimensions"))


def _dimensions(source: Source) -> ir.Attributes:
    return ir.Dimensions(naturals(source.proto.dimensions, "dimensions"))


def _one_dimension(source: Source) -> ir.Attributes:
    return ir.Dimensions((only(source.proto.dimensions, "dimensions"),))


def _reshape(source: Source) -> ir.Attributes:
    dimensions = source.proto.dimensions
    return ir.Reshape(only(dimensions, "dimensions") if dimensions else -1)


def _slice(source: Source) -> ir.Attributes:
    ranges = source.proto.slice_dimensions
    return ir.Slice(
        tuple([x.start for x in ranges]),
        tuple([x.limit for x in ranges]),
        tuple([x.stride for x in ranges]),
    )


def _dynamic_slice(source: Source) -> ir.Attributes:
    return ir.DynamicSlice(naturals(source.proto.dynamic_slice_sizes, "dynamic_slice_sizes"))


def _pad(source: Source) -> ir.Attributes:
    dimensions = []
    for i, x in enumerate(source.required("padding_config").dimensions):
        interior = natural(x.interior_padding, f"padding_config.dimensions[{i}].interior_padding")
        dimensions.append(ir.PaddingDimension(x.edge_padding_low, x.edge_padding_high, interior))
    return ir.Pad(tuple(dimensions))


def _gather(source: Source) -> ir.Attributes:
    path = "gather_dimension_numbers"
    numbers = source.required(path)
    offset, collapsed, start_map, operand_batching, start_batching = read_lists(
        numbers,
        path,
        "offset_dims",
        "collapsed_slice_dims",
        "start_index_map",
        "operand_batching_dims",
        "start_indices_batching_dims",
    )
    return ir.Gather(
        offset,
        collapsed,
        start_map,
        natural(numbers.index_vector_dim, f"{path}.index_vector_dim"),
        naturals(source.proto.gather_slice_sizes, "gather_slice_sizes"),
        operand_batching,
        start_batching,
        source.proto.indices_are_sorted,
    )


def _scatter(source: Source) -> ir.Attributes:
    path = "scatter_dimension_numbers"
    numbers = source.required(path)
    window, inserted, scatter_map, input_batching, index_batching = read_lists(
        numbers,
        path,
        "update_window_dims",
        "inserted_window_dims",
        "scatter_dims_to_operand_dims",
        "input_batching_dims",
        "scatter_indices_batching_dims",
    )
    return ir.Scatter(
        window,
        inserted,
        scatter_map,
        natural(numbers.index_vector_dim, f"{path}.index_vector_dim"),
        input_batching,
        index_batching,
        source.proto.indices_are_sorted,
        source.proto.unique_indices,
    )


# -- reductions, sorting ------------------------------------------------------------------------


def _scan(source: Source) -> ir.Attributes:
    proto = source.proto
    return ir.Scan(
        only(proto.dimensions, "dimensions"),
        natural(proto.num_carries, "num_carries", len(source.operands) + 1),
        proto.is_reverse,
        lookup(enums.TRI_STATES, proto.is_associative, "is_associative"),
    )


def _sort(source: Source) -> ir.Attributes:
    return ir.Sort(only(source.proto.dimensions, "dimensions"), source.proto.is_stable)


def _topk(source: Source) -> ir.Attributes:
    proto = source.proto
    is_stable = proto.is_stable if proto.HasField("is_stable") else True
    return ir.TopK(natural(proto.k, "k"), proto.largest, is_stable)


# -- elementwise and linear algebra ------------------------------------------------------------


def _compare(source: Source) -> ir.Attributes:
    proto = source.proto
    direction = enums.COMPARISON_OPCODES.get(proto.opcode) or proto.comparison_direction
    if direction not in enums.DIRECTIONS:
        raise FieldError(f"unknown direction {direction[:20]!r}", "comparison_direction")
    order = proto.comparison_type or _default_comparison(source.operands[0].shape.element_type)
    if order not in enums.COMPARISONS:
        raise FieldError(f"unknown comparison type {order[:20]!r}", "comparison_type")
    return ir.Compare(direction, order)


def _default_comparison(element_type: ElementType) -> str:
    if element_type.is_floating or element_type.is_complex:
        return "FLOAT"
    return "SIGNED" if element_type.is_signed else "UNSIGNED"


def _reduce_precision(source: Source) -> ir.Attributes:
    return ir.ReducePrecision(source.proto.exponent_bits, source.proto.mantissa_bits)


def _fft(source: Source) -> ir.Attributes:
    kind = lookup(enums.FFT_KINDS, source.proto.fft_type, "fft_type")
    return ir.Fft(kind, naturals(source.proto.fft_length, "fft_length"))


def _cholesky(source: Source) -> ir.Attributes:
    return ir.Cholesky(source.proto.cholesky_options.lower)


def _triangular_solve(source: Source) -> ir.Attributes:
    options = source.proto.triangular_solve_options
    transpose = lookup(
        enums.TRANSPOSES, options.transpose_a, "triangular_solve_options.transpose_a"
    )
    return ir.TriangularSolve(options.left_side, options.lower, options.unit_diagonal, transpose)


def _batch_norm(source: Source) -> ir.Attributes:
    return ir.BatchNorm(source.proto.epsilon, natural(source.proto.feature_index, "feature_index"))


def _rng(source: Source) -> ir.Attributes:
    return ir.Rng(lookup(enums.DISTRIBUTIONS, source.proto.distribution, "distribution"))


def _rng_bit_generator(source: Source) -> ir.Attributes:
    algorithm = lookup(enums.RANDOM_ALGORITHMS, source.proto.rng_algorithm, "rng_algorithm")
    return ir.RngBitGenerator(algorithm)


def _rng_state(source: Source) -> ir.Attributes:
    return ir.RngGetAndUpdateState(source.proto.delta)


# -- structure and control flow ----------------------------------------------------------------


def _element(source: Source) -> ir.Attributes:
    index = source.proto.tuple_index
    shape = source.operands[0].shape
    if not shape.is_tuple or not 0 <= index < len(shape.tuple_shapes):
        raise FieldError(f"a value of shape {shape} has no element {index}", "tuple_index")
    return ir.GetTupleElement(index)


def _call(source: Source) -> ir.Attributes:
    return ir.Call(source.proto.is_composite)


def _conditional(source: Source) -> ir.Attributes:
    if len(source.operands) != source.called + 1:
        raise FieldError(
            f"a conditional of {source.called} branches has {source.called + 1} operands, "
            f"found {len(source.operands)}",
            "operand_ids",
        )
    predicated = source.operands[0].shape.element_type is ElementType.PRED
    if predicated and source.called != 2:
        raise FieldError("a conditional on pred has two branches", "called_computation_ids")
    if not source.called:
        raise FieldError("a conditional has at least one branch", "called_computation_ids")
    return ir.Conditional(predicated)


def read_aliasing(source: Source) -> tuple[ir.Aliasing, ...]:
    """Return which outputs of a fusion or custom-call overwrite which operands."""
    aliases = []
    for i, x in enumerate(source.proto.output_operand_aliasing):
        path = f"output_operand_aliasing[{i}]"
        aliases.append(
            ir.Aliasing(
                naturals(x.output_shape_index, f"{path}.output_shape_index"),
                natural(x.operand_index, f"{path}.operand_index", len(source.operands)),
                naturals(x.operand_shape_index, f"{path}.operand_shape_index"),
            )
        )
    return tuple(aliases)


def _fusion(source: Source) -> ir.Attributes:
    kind = source.proto.fusion_kind
    if kind not in enums.FUSION_KINDS:
        raise FieldError(f"unknown fusion kind {kind[:20]!r}", "fusion_kind")
    return ir.Fusion(kind, read_aliasing(source))


def _custom_call(source: Source) -> ir.Attributes:
    proto = source.proto
    layouts = None
    if proto.constrain_layout:
        layouts = source.shapes.read_list(
            proto.operand_shapes_with_layout, "operand_shapes_with_layout"
        )
        if len(layouts) != len(source.operands):
            raise FieldError(
                f"expected {len(source.operands)} shapes, found {len(layouts)}",
                "operand_shapes_with_layout",
            )
    literal = None
    if proto.HasField("literal"):
        try:
            literal = read_literal(proto.literal, source.shapes)
        except FieldError as error:
            raise error.under("literal") from None
    has_dimensions = proto.HasField("convolution_dimension_numbers")
    return ir.CustomCall(
        proto.custom_call_target,
        read_window(proto.window) if proto.HasField("window") else None,
        read_convolution_dimensions(source) if has_dimensions else None,
        max(proto.feature_group_count, 1),
        max(proto.batch_group_count, 1),
        read_precision(source),
        lookup(enums.PADDING_TYPES, proto.padding_type, "padding_type"),
        layouts,
        proto.custom_call_has_side_effect,
        literal,
        read_aliasing(source),
        lookup(enums.CUSTOM_CALL_SCHEDULES, proto.custom_call_schedule, "custom_call_schedule"),
        lookup(enums.API_VERSIONS, proto.custom_call_api_version, "custom_call_api_version"),
    )


def _copy_start(source: Source) -> ir.Attributes:
    proto = source.proto
    if not proto.HasField("cross_program_prefetch_index"):
        return ir.CopyStart()
    return ir.CopyStart(natural(proto.cross_program_prefetch_index, "cross_program_prefetch_index"))


def _domain(source: Source) -> ir.Attributes:
    """Return the shardings: what the text calls the entry, protobuf calls the exit."""
    sides = []
    for field in ("domain_exit_sharding", "domain_entry_sharding"):
        sharding = None
        if source.proto.HasField(field):
            sharding = source.shardings.read_field(source.proto, field)
        sides.append(sharding)
    return ir.Domain("sharding", *sides)


_READERS: Final[dict[Opcode, Reader]] = {
    Opcode.PARAMETER: _parameter,
    Opcode.CONSTANT: _constant,
    Opcode.IOTA: _iota,
    Opcode.BROADCAST: _dimensions,
    Opcode.TRANSPOSE: _dimensions,
    Opcode.REVERSE: _dimensions,
    Opcode.CONCATENATE: _one_dimension,
    Opcode.REDUCE: _dimensions,
    Opcode.MAP: _dimensions,
    Opcode.GET_DIMENSION_SIZE: _one_dimension,
    Opcode.SET_DIMENSION_SIZE: _one_dimension,
    Opcode.RESHAPE: _reshape,
    Opcode.SLICE: _slice,
    Opcode.DYNAMIC_SLICE: _dynamic_slice,
    Opcode.PAD: _pad,
    Opcode.GATHER: _gather,
    Opcode.SCATTER: _scatter,
    Opcode.REDUCE_WINDOW: read_reduce_window,
    Opcode.SELECT_AND_SCATTER: read_reduce_window,
    Opcode.DOT: read_dot,
    Opcode.SCALED_DOT: read_dot,
    Opcode.RAGGED_DOT: read_ragged_dot,
    Opcode.CONVOLUTION: read_convolution,
    Opcode.SCAN: _scan,
    Opcode.SORT: _sort,
    Opcode.TOPK: _topk,
    Opcode.COMPARE: _compare,
    Opcode.REDUCE_PRECISION: _reduce_precision,
    Opcode.FFT: _fft,
    Opcode.CHOLESKY: _cholesky,
    Opcode.TRIANGULAR_SOLVE: _triangular_solve,
    Opcode.BATCH_NORM_GRAD: _batch_norm,
    Opcode.BATCH_NORM_INFERENCE: _batch_norm,
    Opcode.BATCH_NORM_TRAINING: _batch_norm,
    Opcode.RNG: _rng,
    Opcode.RNG_BIT_GENERATOR: _rng_bit_generator,
    Opcode.RNG_GET_AND_UPDATE_STATE: _rng_state,
    Opcode.GET_TUPLE_ELEMENT: _element,
    Opcode.CALL: _call,
    Opcode.CONDITIONAL: _conditional,
    Opcode.FUSION: _fusion,
    Opcode.CUSTOM_CALL: _custom_call,
    Opcode.COPY_START: _copy_start,
    Opcode.DOMAIN: _domain,
    Opcode.ALL_GATHER: read_collective,
    Opcode.ALL_GATHER_START: read_collective,
    Opcode.ALL_REDUCE: read_collective,
    Opcode.ALL_REDUCE_START: read_collective,
    Opcode.REDUCE_SCATTER: read_collective,
    Opcode.ALL_TO_ALL: read_collective,
    Opcode.RAGGED_ALL_TO_ALL: read_collective,
    Opcode.COLLECTIVE_BROADCAST: read_collective,
    Opcode.COLLECTIVE_PERMUTE: read_permute,
    Opcode.COLLECTIVE_PERMUTE_START: read_permute,
    Opcode.SEND: read_channel,
    Opcode.SEND_DONE: read_channel,
    Opcode.RECV: read_channel,
    Opcode.RECV_DONE: read_channel,
    Opcode.INFEED: read_infeed,
    Opcode.OUTFEED: read_outfeed,
}
"""Opcodes that are not here have no attributes, or are asynchronous."""
