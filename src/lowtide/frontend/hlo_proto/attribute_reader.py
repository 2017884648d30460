"""The attributes of each opcode, read from the fields of a HloInstructionProto."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import lowtide.ir.attributes as ir
from lowtide.frontend.hlo_proto import enums
from lowtide.frontend.hlo_proto.fields import FieldError, lookup, natural, naturals, only
from lowtide.frontend.hlo_proto.groups import read_groups
from lowtide.frontend.hlo_proto.literals import read_literal
from lowtide.frontend.hlo_proto.shapes import ShapeReader
from lowtide.frontend.hlo_proto.shardings import read_sharding
from lowtide.frontend.hlo_proto.sources import PayloadReader
from lowtide.ir.element_type import ElementType
from lowtide.ir.instruction import Instruction
from lowtide.ir.opcode import Opcode
from lowtide.ir.shape import Shape


@dataclass(frozen=True, slots=True)
class Source:
    """What attributes are read from: the message, and what the instruction consists of so far."""

    proto: Any
    opcode: Opcode
    shape: Shape
    operands: tuple[Instruction, ...]
    called: int
    shapes: ShapeReader
    payloads: PayloadReader


Reader = Callable[[Source], ir.Attributes]


def read_attributes(source: Source) -> ir.Attributes:
    """Return the attributes of an instruction; raises FieldError at the field that is bad."""
    reader = _READERS.get(source.opcode)
    return ir.NO_ATTRIBUTES if reader is None else reader(source)


def _required(source: Source, field: str) -> Any:
    if not source.proto.HasField(field):
        raise FieldError(f"{source.opcode.value} needs this field", field)
    return getattr(source.proto, field)


# -- sources and data movement -----------------------------------------------------------------


def _parameter(source: Source) -> ir.Attributes:
    return ir.Parameter(natural(source.proto.parameter_number, "parameter_number"))


def _constant(source: Source) -> ir.Attributes:
    proto = _required(source, "literal")
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
    for i, x in enumerate(_required(source, "padding_config").dimensions):
        interior = natural(
            x.interior_padding, f"padding_config.dimensions[{i}].interior_padding"
        )
        dimensions.append(
            ir.PaddingDimension(x.edge_padding_low, x.edge_padding_high, interior)
        )
    return ir.Pad(tuple(dimensions))


def _lists(message: Any, path: str, *fields: str) -> list[tuple[int, ...]]:
    return [naturals(getattr(message, field), f"{path}.{field}") for field in fields]


def _gather(source: Source) -> ir.Attributes:
    path = "gather_dimension_numbers"
    numbers = _required(source, path)
    offset, collapsed, start_map, operand_batching, start_batching = _lists(
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
    numbers = _required(source, path)
    window, inserted, scatter_map, input_batching, index_batching = _lists(
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


# -- windows, contractions, reductions ---------------------------------------------------------


def _window(message: Any) -> ir.Window:
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


def _reduce_window(source: Source) -> ir.Attributes:
    return ir.ReduceWindow(_window(source.proto.window))


def _precision(source: Source) -> ir.PrecisionConfig:
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
    lists = _lists(
        numbers,
        path,
        "lhs_contracting_dimensions",
        "rhs_contracting_dimensions",
        "lhs_batch_dimensions",
        "rhs_batch_dimensions",
    )
    return ir.DotDimensions(*lists)


def _dot(source: Source) -> ir.Attributes:
    path = "dot_dimension_numbers"
    return ir.Dot(_dot_dimensions(_required(source, path), path), _precision(source))


def _ragged_dot(source: Source) -> ir.Attributes:
    path = "ragged_dot_dimension_numbers"
    numbers = _required(source, path)
    ragged, group = _lists(numbers, path, "lhs_ragged_dimensions", "rhs_group_dimensions")
    dimensions = _dot_dimensions(numbers.dot_dimension_numbers, f"{path}.dot_dimension_numbers")
    return ir.RaggedDot(dimensions, ragged, group, _precision(source))


_LARGEST_RANK: Final = 64
_CONVOLUTION_SIDES: Final = (
    ("input", "input_batch_dimension", "input_feature_dimension"),
    ("kernel", "kernel_input_feature_dimension", "kernel_output_feature_dimension"),
    ("output", "output_batch_dimension", "output_feature_dimension"),
)


def _convolution_dimensions(source: Source) -> ir.ConvolutionDimensions:
    path = "convolution_dimension_numbers"
    numbers = _required(source, path)
    found: list[Any] = []
    spatial_rank = len(numbers.input_spatial_dimensions)
    for side, *named in _CONVOLUTION_SIDES:
        field = f"{side}_spatial_dimensions"
        (spatial,) = _lists(numbers, path, field)
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


def _convolution(source: Source) -> ir.Attributes:
    proto = source.proto
    return ir.Convolution(
        _convolution_dimensions(source),
        _window(proto.window),
        max(proto.feature_group_count, 1),
        max(proto.batch_group_count, 1),
        _precision(source),
        lookup(enums.CONVOLUTION_KINDS, proto.conv_kind, "conv_kind"),
        _sparsity(source),
    )


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
    return ir.BatchNorm(
        source.proto.epsilon, natural(source.proto.feature_index, "feature_index")
    )


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
        _window(proto.window) if proto.HasField("window") else None,
        _convolution_dimensions(source) if has_dimensions else None,
        max(proto.feature_group_count, 1),
        max(proto.batch_group_count, 1),
        _precision(source),
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
    return ir.CopyStart(
        natural(proto.cross_program_prefetch_index, "cross_program_prefetch_index")
    )


def _domain(source: Source) -> ir.Attributes:
    """Return the shardings: what the text calls the entry, protobuf calls the exit."""
    sides = []
    for field in ("domain_exit_sharding", "domain_entry_sharding"):
        sharding = None
        if source.proto.HasField(field):
            try:
                sharding = read_sharding(getattr(source.proto, field), source.payloads)
            except FieldError as error:
                raise error.under(field) from None
        sides.append(sharding)
    return ir.Domain("sharding", *sides)


# -- communication -----------------------------------------------------------------------------


def _channel_id(source: Source) -> int | None:
    proto = source.proto
    if proto.HasField("channel_id") and proto.channel_id >= 0:
        channel_id = proto.channel_id
    else:
        channel_id = proto.all_reduce_id if proto.all_reduce_id > 0 else None
    assert channel_id is None or isinstance(channel_id, int)
    return channel_id


_WITH_DIMENSION: Final = frozenset(
    {Opcode.ALL_GATHER, Opcode.ALL_GATHER_START, Opcode.REDUCE_SCATTER}
)


def _collective(source: Source) -> ir.Attributes:
    proto = source.proto
    dimension = None
    if source.opcode in _WITH_DIMENSION or proto.dimensions:
        dimension = only(proto.dimensions, "dimensions")
    return ir.Collective(
        read_groups(proto),
        _channel_id(source),
        dimension,
        proto.constrain_layout,
        proto.use_global_device_ids,
        proto.has_dynamic_root,
    )


def _permute(source: Source) -> ir.Attributes:
    pairs = [
        (
            natural(x.source, f"source_target_pairs[{i}].source"),
            natural(x.target, f"source_target_pairs[{i}].target"),
        )
        for i, x in enumerate(source.proto.source_target_pairs)
    ]
    return ir.CollectivePermute(tuple(pairs), _channel_id(source), _slice_sizes(source))


def _slice_sizes(source: Source) -> tuple[tuple[int, ...], ...]:
    """Return one list of sizes for each list of start indices; else, one for each size."""
    sizes = naturals(source.proto.dynamic_slice_sizes, "dynamic_slice_sizes")
    if not sizes:
        return ()
    counts = _start_index_counts(source.operands[2].shape) if len(source.operands) > 2 else []
    if sum(counts) != len(sizes):
        counts = [1] * len(sizes)
    lists = []
    for count in counts:
        lists.append(sizes[:count])
        sizes = sizes[count:]
    return tuple(lists)


def _start_index_counts(shape: Shape) -> list[int]:
    """Return how many indices stand in each innermost tuple of a tuple."""
    return [
        len(inner.tuple_shapes)
        for _, inner in shape.subshapes()
        if inner.is_tuple and not any(x.is_tuple for x in inner.tuple_shapes)
    ]


def _channel(source: Source) -> ir.Attributes:
    return ir.Channel(_channel_id(source), source.proto.is_host_transfer)


def _infeed(source: Source) -> ir.Attributes:
    return ir.Infeed(source.proto.infeed_config)


def _outfeed(source: Source) -> ir.Attributes:
    shape = source.operands[0].shape
    if source.proto.HasField("outfeed_shape"):
        shape = source.shapes.read_field(source.proto, "outfeed_shape")
    return ir.Outfeed(shape, source.proto.outfeed_config)


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
    Opcode.REDUCE_WINDOW: _reduce_window,
    Opcode.SELECT_AND_SCATTER: _reduce_window,
    Opcode.DOT: _dot,
    Opcode.SCALED_DOT: _dot,
    Opcode.RAGGED_DOT: _ragged_dot,
    Opcode.CONVOLUTION: _convolution,
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
    Opcode.ALL_GATHER: _collective,
    Opcode.ALL_GATHER_START: _collective,
    Opcode.ALL_REDUCE: _collective,
    Opcode.ALL_REDUCE_START: _collective,
    Opcode.REDUCE_SCATTER: _collective,
    Opcode.ALL_TO_ALL: _collective,
    Opcode.RAGGED_ALL_TO_ALL: _collective,
    Opcode.COLLECTIVE_BROADCAST: _collective,
    Opcode.COLLECTIVE_PERMUTE: _permute,
    Opcode.COLLECTIVE_PERMUTE_START: _permute,
    Opcode.SEND: _channel,
    Opcode.SEND_DONE: _channel,
    Opcode.RECV: _channel,
    Opcode.RECV_DONE: _channel,
    Opcode.INFEED: _infeed,
    Opcode.OUTFEED: _outfeed,
}
"""Opcodes that are not here have no attributes, or are asynchronous."""
