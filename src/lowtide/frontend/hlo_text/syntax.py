"""How each opcode is written: its attributes, which of them are required, and their record."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import lowtide.frontend.hlo_text.attribute_parser as value
import lowtide.ir.attributes as ir
from lowtide.frontend.hlo_text.lexer import Lexer
from lowtide.frontend.hlo_text.literal_parser import parse_shaped_literal
from lowtide.frontend.hlo_text.shape_parser import parse_shape
from lowtide.frontend.hlo_text.sharding_parser import parse_replica_groups, parse_sharding
from lowtide.ir.element_type import ElementType
from lowtide.ir.opcode import Opcode
from lowtide.ir.replica_groups import ListReplicaGroups
from lowtide.ir.shape import Shape

Values = Mapping[str, Any]
ValueParser = Callable[[Lexer], Any]
Build = Callable[[Values, Sequence[Shape]], ir.Attributes]


@dataclass(frozen=True, slots=True)
class OpSyntax:
    """How one opcode is written.

    `arity` is the number of operands, None for any. `optional` and `required` map attribute
    names to parsers of their values; `computations` are the names of attributes that hold called
    computations, in the order in which they are called. Without `infers_shape` the text must give
    the shape of the result.
    """

    arity: int | None
    build: Build
    required: Mapping[str, ValueParser] = field(default_factory=dict)
    optional: Mapping[str, ValueParser] = field(default_factory=dict)
    computations: tuple[str, ...] = ()
    infers_shape: bool = True
    generic: Mapping[str, ValueParser] = field(default_factory=lambda: GENERIC)


GENERIC: Final[Mapping[str, ValueParser]] = {
    "sharding": parse_sharding,
    "frontend_attributes": value.frontend_attributes,
    "statistics": value.statistics,
    "parameter_replication": value.braced_booleans,
    "origin": value.origin,
    "backend_config": value.backend_config,
}
"""Attributes that any instruction may have; metadata and control-predecessors come on top."""

RESULT_ACCURACY: Final[Mapping[str, ValueParser]] = {"result_accuracy": value.result_accuracy}
"""The attribute of the functions whose result may be more or less exact; kept with the generic."""

COMPUTATION_LISTS: Final = frozenset({"branch_computations", "called_computations"})
"""Attributes that hold several called computations in braces."""


def _nothing(values: Values, operands: Sequence[Shape]) -> ir.Attributes:
    return ir.NO_ATTRIBUTES


def _record(kind: type[ir.Attributes], *names: str) -> Build:
    """Return a function that passes the named values to a record, in order."""

    def build(values: Values, operands: Sequence[Shape]) -> ir.Attributes:
        return kind(*[values[name] for name in names])

    return build


def _keywords(kind: type[ir.Attributes]) -> Build:
    """Return a function that passes the values which are there to a record, by name."""

    def build(values: Values, operands: Sequence[Shape]) -> ir.Attributes:
        return kind(**values)

    return build


def default_comparison(element_type: ElementType) -> str:
    """Return the order that `compare` uses on a type unless told otherwise."""
    if element_type.is_floating or element_type.is_complex:
        return "FLOAT"
    return "SIGNED" if element_type.is_signed else "UNSIGNED"


def _compare(values: Values, operands: Sequence[Shape]) -> ir.Attributes:
    order = values.get("type")
    return ir.Compare(values["direction"], order or default_comparison(operands[0].element_type))


def _broadcast(values: Values, operands: Sequence[Shape]) -> ir.Attributes:
    return ir.Dimensions(values.get("dimensions", ()))


def _one_dimension(values: Values, operands: Sequence[Shape]) -> ir.Attributes:
    return ir.Dimensions((values["dimensions"],))


def _map(values: Values, operands: Sequence[Shape]) -> ir.Attributes:
    return ir.Dimensions(tuple(range(operands[0].rank if operands else 0)))


def _precision(values: Values) -> ir.PrecisionConfig:
    precisions = tuple(values.get("operand_precision", ()))
    algorithm = values.get("algorithm", ir.DotAlgorithm.UNSET)
    if all(p is ir.Precision.DEFAULT for p in precisions):
        precisions = ()
    if not precisions and algorithm is ir.DotAlgorithm.UNSET:
        return ir.DEFAULT_PRECISION
    return ir.PrecisionConfig(precisions, algorithm)


def _dot_dimensions(values: Values) -> ir.DotDimensions:
    return ir.DotDimensions(
        values.get("lhs_contracting_dims", ()),
        values.get("rhs_contracting_dims", ()),
        values.get("lhs_batch_dims", ()),
        values.get("rhs_batch_dims", ()),
    )


def _dot(values: Values, operands: Sequence[Shape]) -> ir.Attributes:
    return ir.Dot(_dot_dimensions(values), _precision(values))


def _ragged_dot(values: Values, operands: Sequence[Shape]) -> ir.Attributes:
    return ir.RaggedDot(
        _dot_dimensions(values),
        values.get("lhs_ragged_dims", ()),
        values.get("rhs_group_dims", ()),
        _precision(values),
    )


def _convolution(values: Values, operands: Sequence[Shape]) -> ir.Attributes:
    return ir.Convolution(
        values["dim_labels"],
        values.get("window", ir.NO_WINDOW),
        values.get("feature_group_count", 1),
        values.get("batch_group_count", 1),
        _precision(values),
        values.get("convolution_kind", "unset"),
        values.get("sparsity_config", ""),
    )


def _reduce_window(values: Values, operands: Sequence[Shape]) -> ir.Attributes:
    return ir.ReduceWindow(values.get("window", ir.NO_WINDOW))


def _dynamic_slice(values: Values, operands: Sequence[Shape]) -> ir.Attributes:
    return ir.DynamicSlice(values["dynamic_slice_sizes"])


def _sort(values: Values, operands: Sequence[Shape]) -> ir.Attributes:
    return ir.Sort(values["dimensions"], values.get("is_stable", False))


def _scan(values: Values, operands: Sequence[Shape]) -> ir.Attributes:
    return ir.Scan(
        values["dimensions"],
        values["num_carries"],
        values.get("is_reverse", False),
        values.get("is_associative", False),
    )


def _conditional(values: Values, operands: Sequence[Shape]) -> ir.Attributes:
    return ir.Conditional(bool(operands) and operands[0].element_type is ElementType.PRED)


def _custom_call(values: Values, operands: Sequence[Shape]) -> ir.Attributes:
    return ir.CustomCall(
        target=values["custom_call_target"],
        window=values.get("window"),
        dimensions=values.get("dim_labels"),
        feature_group_count=values.get("feature_group_count", 1),
        batch_group_count=values.get("batch_group_count", 1),
        precision=_precision(values),
        padding_type=values.get("padding_type", "").replace("PADDING_INVALID", ""),
        operand_layouts=values.get("operand_layout_constraints"),
        has_side_effect=values.get("custom_call_has_side_effect", False),
        literal=values.get("literal"),
        output_to_operand_aliasing=values.get("output_to_operand_aliasing", ()),
        schedule=values.get("schedule", "SCHEDULE_NONE"),
        api_version=values.get("api_version", "API_VERSION_ORIGINAL"),
    )


def _collective(values: Values, operands: Sequence[Shape]) -> ir.Attributes:
    return ir.Collective(
        replica_groups=values.get("replica_groups", ListReplicaGroups()),
        channel_id=values.get("channel_id"),
        dimension=values.get("dimensions"),
        constrain_layout=values.get("constrain_layout", False),
        use_global_device_ids=values.get("use_global_device_ids", False),
        has_dynamic_root=values.get("has_dynamic_root", False),
    )


def _ragged_all_to_all(values: Values, operands: Sequence[Shape]) -> ir.Attributes:
    """Dimensions may stand in the text but say nothing."""
    return _collective({**values, "dimensions": None}, operands)


def _permute(values: Values, operands: Sequence[Shape]) -> ir.Attributes:
    return ir.CollectivePermute(
        values["source_target_pairs"], values.get("channel_id"), values.get("slice_sizes", ())
    )


def _infeed(values: Values, operands: Sequence[Shape]) -> ir.Attributes:
    return ir.Infeed(values.get("infeed_config", "").encode("latin-1", "replace"))


def _outfeed(values: Values, operands: Sequence[Shape]) -> ir.Attributes:
    shape = values.get("outfeed_shape") or operands[0]
    return ir.Outfeed(shape, values.get("outfeed_config", "").encode("latin-1", "replace"))


def _domain(values: Values, operands: Sequence[Shape]) -> ir.Attributes:
    domain = values["domain"]
    assert isinstance(domain, ir.Domain)
    return domain


def _async(values: Values, operands: Sequence[Shape]) -> ir.Attributes:
    return ir.Async(
        values.get("async_execution_thread", ir.MAIN_THREAD),
        values.get("output_to_operand_aliasing", ()),
    )


def _slice(values: Values, operands: Sequence[Shape]) -> ir.Attributes:
    ranges = values["slice"]
    assert isinstance(ranges, ir.Slice)
    return ranges


def _batch_norm(values: Values, operands: Sequence[Shape]) -> ir.Attributes:
    """XLA keeps epsilon as a 32-bit float."""
    (epsilon,) = struct.unpack("f", struct.pack("f", min(max(values["epsilon"], -3e38), 3e38)))
    return ir.BatchNorm(epsilon, values["feature_index"])


_UNARY: Final = OpSyntax(1, _nothing)
_INEXACT: Final = OpSyntax(1, _nothing, generic={**GENERIC, **RESULT_ACCURACY})
_BINARY: Final = OpSyntax(2, _nothing)
_TERNARY: Final = OpSyntax(3, _nothing)
_VARIADIC: Final = OpSyntax(None, _nothing)
_DIMENSIONS: Final = {"dimensions": value.braced_integers}
_FIRST_DIMENSION: Final = {"dimensions": value.first_braced_integer}
_PRECISION: Final = {"operand_precision": value.precisions, "algorithm": value.dot_algorithm}
_DOT: Final = {
    "lhs_contracting_dims": value.braced_integers,
    "rhs_contracting_dims": value.braced_integers,
    "lhs_batch_dims": value.braced_integers,
    "rhs_batch_dims": value.braced_integers,
    **_PRECISION,
}
_COLLECTIVE: Final = {
    "replica_groups": parse_replica_groups,
    "channel_id": value.integer,
    "constrain_layout": value.boolean,
    "use_global_device_ids": value.boolean,
}
_CHANNEL: Final = {"channel_id": value.integer, "is_host_transfer": value.boolean}
_BATCH_NORM: Final = {"epsilon": value.number, "feature_index": value.integer}
_ALIASING: Final = {"output_to_operand_aliasing": value.aliasing}
_CONVOLUTION: Final = {
    "window": value.window,
    "feature_group_count": value.integer,
    "batch_group_count": value.integer,
    **_PRECISION,
}

_SCHEDULES: Final = ("SCHEDULE_NONE", "SCHEDULE_LATEST", "SCHEDULE_EARLIEST")
_API_VERSIONS: Final = (
    "API_VERSION_ORIGINAL",
    "API_VERSION_STATUS_RETURNING",
    "API_VERSION_STATUS_RETURNING_UNIFIED",
    "API_VERSION_TYPED_FFI",
)
_GROUP_MODES: Final = (
    "cross_replica",
    "cross_partition",
    "cross_replica_and_partition",
    "flattened_id",
)
_PADDING_TYPES: Final = ("PADDING_VALID", "PADDING_SAME", "PADDING_INVALID")


def _elementwise() -> dict[Opcode, OpSyntax]:
    unary = (
        "abs ceil copy count-leading-zeros floor imag is-finite negate not popcnt real "
        "round-nearest-afz round-nearest-even sign opt-barrier"
    )
    inexact = (
        "acos acosh asin asinh atanh cbrt cosh cosine erf exponential exponential-minus-one log "
        "log-plus-one logistic rsqrt sine sinh sqrt tan tanh"
    )
    binary = (
        "add add-dependency and atan2 complex divide maximum minimum mulhi multiply or power "
        "remainder shift-left shift-right-arithmetic shift-right-logical subtract xor"
    )
    table = {Opcode(name): _UNARY for name in unary.split()}
    table |= {Opcode(name): _INEXACT for name in inexact.split()}
    table |= {Opcode(name): _BINARY for name in binary.split()}
    table |= {Opcode.CLAMP: _TERNARY, Opcode.SELECT: _TERNARY}
    for name in ("bitcast", "bitcast-convert", "convert", "copy-done"):
        table[Opcode(name)] = OpSyntax(1, _nothing, infers_shape=False)
    table[Opcode.STOCHASTIC_CONVERT] = OpSyntax(2, _nothing, infers_shape=False)
    table[Opcode.COMPARE] = OpSyntax(
        2,
        _compare,
        {"direction": value.choice(("EQ", "NE", "GE", "GT", "LE", "LT"), "comparison direction")},
        {"type": value.choice(("FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED"), "comparison type")},
    )
    table[Opcode.REDUCE_PRECISION] = OpSyntax(
        1,
        _keywords(ir.ReducePrecision),
        {"exponent_bits": value.integer, "mantissa_bits": value.integer},
        infers_shape=False,
    )
    return table


def _data_movement() -> dict[Opcode, OpSyntax]:
    gather_required = {
        "offset_dims": value.braced_integers,
        "collapsed_slice_dims": value.braced_integers,
        "start_index_map": value.braced_integers,
        "index_vector_dim": value.integer,
        "slice_sizes": value.braced_integers,
    }
    gather_optional = {
        "operand_batching_dims": value.braced_integers,
        "start_indices_batching_dims": value.braced_integers,
        "indices_are_sorted": value.boolean,
    }
    scatter_required = {
        "update_window_dims": value.braced_integers,
        "inserted_window_dims": value.braced_integers,
        "scatter_dims_to_operand_dims": value.braced_integers,
        "index_vector_dim": value.integer,
    }
    scatter_optional = {
        "input_batching_dims": value.braced_integers,
        "scatter_indices_batching_dims": value.braced_integers,
        "indices_are_sorted": value.boolean,
        "unique_indices": value.boolean,
    }
    dimensions = _record(ir.Dimensions, "dimensions")
    return {
        Opcode.BROADCAST: OpSyntax(1, _broadcast, {}, _DIMENSIONS),
        Opcode.TRANSPOSE: OpSyntax(1, dimensions, _DIMENSIONS),
        Opcode.REVERSE: OpSyntax(1, dimensions, _DIMENSIONS),
        Opcode.CONCATENATE: OpSyntax(
            None, _one_dimension, {"dimensions": value.one_braced_integer}
        ),
        Opcode.GET_DIMENSION_SIZE: OpSyntax(1, _one_dimension, _FIRST_DIMENSION),
        Opcode.SET_DIMENSION_SIZE: OpSyntax(2, _one_dimension, _FIRST_DIMENSION),
        Opcode.RESHAPE: OpSyntax(
            1,
            _keywords(ir.Reshape),
            {},
            {"inferred_dimension": value.integer},
            infers_shape=False,
        ),
        Opcode.DYNAMIC_RESHAPE: OpSyntax(None, _nothing, infers_shape=False),
        Opcode.SLICE: OpSyntax(1, _slice, {"slice": value.slice_ranges}, infers_shape=False),
        Opcode.DYNAMIC_SLICE: OpSyntax(
            None, _dynamic_slice, {"dynamic_slice_sizes": value.braced_integers}, infers_shape=False
        ),
        Opcode.DYNAMIC_UPDATE_SLICE: OpSyntax(None, _nothing, infers_shape=False),
        Opcode.PAD: OpSyntax(2, _record(ir.Pad, "padding"), {"padding": value.padding}),
        Opcode.GATHER: OpSyntax(2, _keywords(ir.Gather), gather_required, gather_optional),
        Opcode.SCATTER: OpSyntax(
            None, _keywords(ir.Scatter), scatter_required, scatter_optional, ("to_apply",)
        ),
        Opcode.PARAMETER: OpSyntax(0, _nothing, infers_shape=False),
        Opcode.CONSTANT: OpSyntax(0, _nothing, infers_shape=False),
        Opcode.IOTA: OpSyntax(
            0,
            _record(ir.Iota, "iota_dimension"),
            {"iota_dimension": value.integer},
            infers_shape=False,
        ),
    }


def _contraction_and_reduction() -> dict[Opcode, OpSyntax]:
    ragged = {
        "lhs_ragged_dims": value.braced_integers,
        "rhs_group_dims": value.braced_integers,
        **_DOT,
    }
    convolution_optional = {
        **_CONVOLUTION,
        "convolution_kind": value.choice(("fprop", "wgrad", "dgrad", "unset"), "convolution kind"),
        "sparsity_config": value.backend_config,
    }
    window = {"window": value.window}
    one_dimension = {"dimensions": value.one_braced_integer}
    return {
        Opcode.DOT: OpSyntax(2, _dot, {}, _DOT),
        Opcode.SCALED_DOT: OpSyntax(4, _dot, {}, _DOT),
        Opcode.RAGGED_DOT: OpSyntax(3, _ragged_dot, {}, ragged),
        Opcode.CONVOLUTION: OpSyntax(
            None, _convolution, {"dim_labels": value.dim_labels}, convolution_optional
        ),
        Opcode.REDUCE: OpSyntax(
            None, _record(ir.Dimensions, "dimensions"), _DIMENSIONS, {}, ("to_apply",)
        ),
        Opcode.REDUCE_WINDOW: OpSyntax(None, _reduce_window, {}, window, ("to_apply",)),
        Opcode.SELECT_AND_SCATTER: OpSyntax(3, _reduce_window, {}, window, ("select", "scatter")),
        Opcode.MAP: OpSyntax(None, _map, {}, _DIMENSIONS, ("to_apply",)),
        Opcode.SCAN: OpSyntax(
            None,
            _scan,
            {**one_dimension, "num_carries": value.integer},
            {"is_reverse": value.boolean, "is_associative": value.tri_state},
            ("to_apply",),
        ),
        Opcode.SORT: OpSyntax(
            None, _sort, one_dimension, {"is_stable": value.boolean}, ("to_apply",)
        ),
        Opcode.TOPK: OpSyntax(
            1,
            _keywords(ir.TopK),
            {"k": value.integer},
            {"largest": value.boolean, "is_stable": value.boolean},
        ),
    }


def _mathematics() -> dict[Opcode, OpSyntax]:
    kinds = value.choice(("FFT", "IFFT", "RFFT", "IRFFT"), "fft type")
    distributions = value.choice(("rng_uniform", "rng_normal"), "distribution", any_case=True)
    algorithms = value.choice(
        ("rng_default", "rng_three_fry", "rng_philox"), "algorithm", any_case=True
    )
    return {
        Opcode.FFT: OpSyntax(
            1,
            _record(ir.Fft, "fft_type", "fft_length"),
            {"fft_type": kinds, "fft_length": value.braced_integers},
        ),
        Opcode.CHOLESKY: OpSyntax(1, _keywords(ir.Cholesky), {}, {"lower": value.boolean}),
        Opcode.TRIANGULAR_SOLVE: OpSyntax(
            2,
            _keywords(ir.TriangularSolve),
            {},
            {
                "left_side": value.boolean,
                "lower": value.boolean,
                "unit_diagonal": value.boolean,
                "transpose_a": value.choice(
                    ("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"), "transposition"
                ),
            },
        ),
        Opcode.BATCH_NORM_TRAINING: OpSyntax(3, _batch_norm, _BATCH_NORM),
        Opcode.BATCH_NORM_INFERENCE: OpSyntax(5, _batch_norm, _BATCH_NORM),
        Opcode.BATCH_NORM_GRAD: OpSyntax(5, _batch_norm, _BATCH_NORM),
        Opcode.RNG: OpSyntax(
            None,
            _record(ir.Rng, "distribution"),
            {"distribution": distributions},
            infers_shape=False,
        ),
        Opcode.RNG_BIT_GENERATOR: OpSyntax(
            1,
            _record(ir.RngBitGenerator, "algorithm"),
            {"algorithm": algorithms},
            infers_shape=False,
        ),
        Opcode.RNG_GET_AND_UPDATE_STATE: OpSyntax(
            0,
            _record(ir.RngGetAndUpdateState, "delta"),
            {"delta": value.integer},
            infers_shape=False,
        ),
    }


def _structure() -> dict[Opcode, OpSyntax]:
    custom_call_optional = {
        **_CONVOLUTION,
        **_ALIASING,
        "dim_labels": value.dim_labels,
        "padding_type": value.choice(_PADDING_TYPES, "padding type"),
        "operand_layout_constraints": value.shapes,
        "custom_call_has_side_effect": value.boolean,
        "schedule": value.choice(_SCHEDULES, "custom-call schedule", any_case=True),
        "api_version": value.choice(_API_VERSIONS, "custom-call API version", any_case=True),
        "literal": parse_shaped_literal,
    }
    kinds = value.choice(("kLoop", "kInput", "kOutput", "kCustom"), "fusion kind")

    def fusion(values: Values, operands: Sequence[Shape]) -> ir.Attributes:
        return ir.Fusion(values["kind"], values.get("output_to_operand_aliasing", ()))

    thread = {"async_execution_thread": value.string}
    start = OpSyntax(None, _async, {}, {**thread, **_ALIASING}, ("calls",), infers_shape=False)
    later = OpSyntax(1, _async, {}, thread, ("calls",), infers_shape=False)
    return {
        Opcode.TUPLE: _VARIADIC,
        Opcode.GET_TUPLE_ELEMENT: OpSyntax(
            1, _record(ir.GetTupleElement, "index"), {"index": value.integer}
        ),
        Opcode.AFTER_ALL: _VARIADIC,
        Opcode.WHILE: OpSyntax(1, _nothing, {}, {}, ("condition", "body")),
        Opcode.CONDITIONAL: OpSyntax(
            None,
            _conditional,
            {},
            {},
            ("true_computation", "false_computation", "branch_computations"),
        ),
        Opcode.CALL: OpSyntax(
            None, _keywords(ir.Call), {}, {"is_composite": value.boolean}, ("to_apply",)
        ),
        Opcode.FUSION: OpSyntax(
            None, fusion, {"kind": kinds}, _ALIASING, ("calls",), infers_shape=False
        ),
        Opcode.CUSTOM_CALL: OpSyntax(
            None,
            _custom_call,
            {"custom_call_target": value.string},
            custom_call_optional,
            ("to_apply", "called_computations"),
            infers_shape=False,
        ),
        Opcode.ASYNC_START: start,
        Opcode.ASYNC_UPDATE: later,
        Opcode.ASYNC_DONE: later,
        Opcode.COPY_START: OpSyntax(
            1,
            _keywords(ir.CopyStart),
            {},
            {"cross_program_prefetch_index": value.integer},
            infers_shape=False,
        ),
        Opcode.DOMAIN: OpSyntax(1, _domain, {"domain": value.domain}),
    }


def _communication() -> dict[Opcode, OpSyntax]:
    dimension = {"dimensions": value.first_braced_integer}
    mode = {"mode": value.choice(_GROUP_MODES, "collective group mode")}
    gather = OpSyntax(None, _collective, dimension, _COLLECTIVE, infers_shape=False)
    reduce = OpSyntax(
        None, _collective, {}, {**_COLLECTIVE, **mode}, ("to_apply",), infers_shape=False
    )
    permute = OpSyntax(
        None,
        _permute,
        {"source_target_pairs": value.source_target_pairs},
        {"channel_id": value.integer, "slice_sizes": value.integer_groups},
        infers_shape=False,
    )
    channel = _keywords(ir.Channel)
    done = OpSyntax(1, _nothing, infers_shape=False)
    groups = {"replica_groups": parse_replica_groups, "channel_id": value.integer}
    return {
        Opcode.ALL_GATHER: gather,
        Opcode.ALL_GATHER_START: gather,
        Opcode.ALL_GATHER_DONE: done,
        Opcode.ALL_REDUCE: reduce,
        Opcode.ALL_REDUCE_START: reduce,
        Opcode.ALL_REDUCE_DONE: done,
        Opcode.REDUCE_SCATTER: OpSyntax(
            None,
            _collective,
            dimension,
            {**_COLLECTIVE, **mode},
            ("to_apply",),
            infers_shape=False,
        ),
        Opcode.ALL_TO_ALL: OpSyntax(
            None,
            _collective,
            {},
            {
                **groups,
                "constrain_layout": value.boolean,
                "dimensions": value.one_braced_integer,
            },
            infers_shape=False,
        ),
        Opcode.RAGGED_ALL_TO_ALL: OpSyntax(
            None, _ragged_all_to_all, {}, {**groups, **_DIMENSIONS}, infers_shape=False
        ),
        Opcode.COLLECTIVE_BROADCAST: OpSyntax(
            None,
            _collective,
            {},
            {**groups, "has_dynamic_root": value.boolean},
            infers_shape=False,
        ),
        Opcode.COLLECTIVE_PERMUTE: permute,
        Opcode.COLLECTIVE_PERMUTE_START: permute,
        Opcode.COLLECTIVE_PERMUTE_DONE: done,
        Opcode.PARTITION_ID: OpSyntax(0, _nothing),
        Opcode.REPLICA_ID: OpSyntax(0, _nothing),
        Opcode.SEND: OpSyntax(2, channel, {}, _CHANNEL, infers_shape=False),
        Opcode.SEND_DONE: OpSyntax(1, channel, {}, _CHANNEL, infers_shape=False),
        Opcode.RECV: OpSyntax(1, channel, {}, _CHANNEL, infers_shape=False),
        Opcode.RECV_DONE: OpSyntax(1, channel, {}, _CHANNEL, infers_shape=False),
        Opcode.INFEED: OpSyntax(
            1, _infeed, {}, {"infeed_config": value.string}, infers_shape=False
        ),
        Opcode.OUTFEED: OpSyntax(
            2,
            _outfeed,
            {},
            {"outfeed_config": value.string, "outfeed_shape": parse_shape},
            infers_shape=False,
        ),
    }


SYNTAX: Final[Mapping[Opcode, OpSyntax]] = {
    **_elementwise(),
    **_data_movement(),
    **_contraction_and_reduction(),
    **_mathematics(),
    **_structure(),
    **_communication(),
}
"""The syntax of every opcode."""
