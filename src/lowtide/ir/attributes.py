"""The attributes of each opcode, one frozen record per form.

An instruction holds exactly one record; `NO_ATTRIBUTES` where its opcode has none. Computations
which an instruction calls are not attributes: they stand in `Instruction.called_computations`.

Each field says how it looks in text and in protobuf. `Slice` and `Domain` do not: each of them is
one attribute in text, which is read and written as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from lowtide.ir.attribute_fields import Form, Shown, attribute, attribute_record
from lowtide.ir.element_type import ElementType
from lowtide.ir.literal import Literal
from lowtide.ir.opcode import Opcode
from lowtide.ir.replica_groups import ListReplicaGroups, ReplicaGroups
from lowtide.ir.shape import Shape, ShapeIndex
from lowtide.ir.sharding import Sharding


@dataclass(frozen=True, slots=True)
class Attributes:
    """The base of all attribute records, and itself the record of opcodes without attributes."""


NO_ATTRIBUTES: Final = Attributes()


# -- sources and data movement -----------------------------------------------------------------


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


# -- windows, contractions, reductions ---------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WindowDimension:
    """One dimension of a sliding window."""

    size: int
    stride: int = 1
    padding_low: int = 0
    padding_high: int = 0
    window_dilation: int = 1
    base_dilation: int = 1
    reversal: bool = False


@dataclass(frozen=True, slots=True)
class Window:
    """A sliding window, one entry per dimension that it covers."""

    dimensions: tuple[WindowDimension, ...] = ()


NO_WINDOW: Final = Window()


@attribute_record
class ReduceWindow(Attributes):
    """Of `reduce-window` and `select-and-scatter`: the window."""

    window: Window = attribute(Form.WINDOW, default=NO_WINDOW)


class Precision(StrEnum):
    """Accuracy asked of the products of one operand of a dot or convolution."""

    DEFAULT = "default"
    HIGH = "high"
    HIGHEST = "highest"


class DotAlgorithm(StrEnum):
    """The types in which a dot rounds its operands and accumulates."""

    UNSET = "dot_unset"
    ANY_F8_ANY_F8_F32 = "dot_any_f8_any_f8_f32"
    ANY_F8_ANY_F8_F32_FAST_ACCUM = "dot_any_f8_any_f8_f32_fast_accum"
    F16_F16_F16 = "dot_f16_f16_f16"
    F16_F16_F32 = "dot_f16_f16_f32"
    BF16_BF16_BF16 = "dot_bf16_bf16_bf16"
    BF16_BF16_F32 = "dot_bf16_bf16_f32"
    BF16_BF16_F32_X3 = "dot_bf16_bf16_f32_x3"
    BF16_BF16_F32_X6 = "dot_bf16_bf16_f32_x6"
    BF16_BF16_F32_X9 = "dot_bf16_bf16_f32_x9"
    TF32_TF32_F32 = "dot_tf32_tf32_f32"
    TF32_TF32_F32_X3 = "dot_tf32_tf32_f32_x3"
    F32_F32_F32 = "dot_f32_f32_f32"
    F64_F64_F64 = "dot_f64_f64_f64"


@dataclass(frozen=True, slots=True)
class PrecisionConfig:
    """`operand_precision` (empty where all are default) and `algorithm`."""

    operand_precision: tuple[Precision, ...] = ()
    algorithm: DotAlgorithm = DotAlgorithm.UNSET


DEFAULT_PRECISION: Final = PrecisionConfig()


@dataclass(frozen=True, slots=True)
class DotDimensions:
    """The dimensions of both operands that are paired, in order: batch and contracting."""

    lhs_contracting: tuple[int, ...] = ()
    rhs_contracting: tuple[int, ...] = ()
    lhs_batch: tuple[int, ...] = ()
    rhs_batch: tuple[int, ...] = ()


@attribute_record
class Dot(Attributes):
    """Of `dot` and `scaled-dot`: the dimension numbers and the precision."""

    dimensions: DotDimensions = attribute(Form.DOT_DIMENSIONS, proto="dot_dimension_numbers")
    precision: PrecisionConfig = attribute(Form.PRECISION, default=DEFAULT_PRECISION)


@attribute_record
class RaggedDot(Attributes):
    """Of `ragged-dot`: as a dot, one dimension of lhs split into groups of given sizes."""

    dimensions: DotDimensions = attribute(
        Form.DOT_DIMENSIONS, proto="ragged_dot_dimension_numbers.dot_dimension_numbers"
    )
    lhs_ragged: tuple[int, ...] = attribute(
        Form.INTEGERS,
        default=(),
        text="lhs_ragged_dims",
        shown=Shown.ALWAYS,
        proto="ragged_dot_dimension_numbers.lhs_ragged_dimensions",
    )
    rhs_group: tuple[int, ...] = attribute(
        Form.INTEGERS,
        default=(),
        text="rhs_group_dims",
        proto="ragged_dot_dimension_numbers.rhs_group_dimensions",
    )
    precision: PrecisionConfig = attribute(Form.PRECISION, default=DEFAULT_PRECISION)


@dataclass(frozen=True, slots=True)
class ConvolutionDimensions:
    """The role of each dimension of input, kernel and output."""

    input_batch: int
    input_feature: int
    input_spatial: tuple[int, ...]
    kernel_input_feature: int
    kernel_output_feature: int
    kernel_spatial: tuple[int, ...]
    output_batch: int
    output_feature: int
    output_spatial: tuple[int, ...]


@attribute_record
class Convolution(Attributes):
    """Of `convolution`: dimension numbers, window over the spatial dimensions, grouping."""

    dimensions: ConvolutionDimensions = attribute(
        Form.CONVOLUTION_DIMENSIONS, after="window", text="dim_labels"
    )
    window: Window = attribute(Form.WINDOW, default=NO_WINDOW)
    feature_group_count: int = attribute(Form.COUNT, default=1)
    batch_group_count: int = attribute(Form.COUNT, default=1)
    precision: PrecisionConfig = attribute(Form.PRECISION, default=DEFAULT_PRECISION)
    kind: str = attribute(
        Form.WORD,
        default="unset",
        text="convolution_kind",
        proto="conv_kind",
        words=("fprop", "wgrad", "dgrad", "unset"),
        what="convolution kind",
    )
    sparsity_config: str = attribute(Form.SPARSITY, default="")


@attribute_record
class Scan(Attributes):
    """Of `scan`: the dimension stepped along, and how many operands and results are carries."""

    dimension: int = attribute(Form.DIMENSION, text="dimensions")
    num_carries: int = attribute(Form.CARRIES)
    is_reverse: bool = attribute(Form.BOOLEAN, default=False)
    is_associative: bool | None = attribute(Form.TRI_STATE, default=None)


@attribute_record
class Sort(Attributes):
    """Of `sort`: the dimension, and whether equal elements keep their order."""

    dimension: int = attribute(Form.DIMENSION, text="dimensions")
    is_stable: bool = attribute(Form.BOOLEAN, default=False)


@attribute_record
class TopK(Attributes):
    """Of `topk`: how many elements, whether the largest, and whether ties keep their order."""

    k: int = attribute(Form.NATURAL)
    largest: bool = attribute(Form.BOOLEAN, default=True, shown=Shown.ALWAYS)
    is_stable: bool = attribute(Form.BOOLEAN, default=True, shown=Shown.NEVER)


# -- elementwise and linear algebra ------------------------------------------------------------


@attribute_record
class Compare(Attributes):
    """Of `compare`: `direction` (EQ NE GE GT LE LT) and the order, e.g. FLOAT or TOTALORDER.

    `type` is the order in force; text and protobuf leave out the default of the element type.
    """

    direction: str = attribute(
        Form.DIRECTION,
        proto="comparison_direction",
        words=("EQ", "NE", "GE", "GT", "LE", "LT"),
        what="comparison direction",
    )
    type: str = attribute(
        Form.COMPARISON_TYPE,
        proto="comparison_type",
        words=("FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED"),
        what="comparison type",
    )


def default_comparison(element_type: ElementType) -> str:
    """Return the order that `compare` uses on a type unless told otherwise."""
    if element_type.is_floating or element_type.is_complex:
        return "FLOAT"
    return "SIGNED" if element_type.is_signed else "UNSIGNED"


@attribute_record
class ReducePrecision(Attributes):
    """Of `reduce-precision`: the sizes of the floating point format to round to."""

    exponent_bits: int = attribute(Form.INTEGER)
    mantissa_bits: int = attribute(Form.INTEGER)


@attribute_record
class Fft(Attributes):
    """Of `fft`: the kind (FFT, IFFT, RFFT, IRFFT) and the lengths of the last dimensions."""

    kind: str = attribute(
        Form.WORD, text="fft_type", words=("FFT", "IFFT", "RFFT", "IRFFT"), what="fft type"
    )
    length: tuple[int, ...] = attribute(Form.INTEGERS, text="fft_length")


@attribute_record
class Cholesky(Attributes):
    """Of `cholesky`: whether the lower triangle is read and written."""

    lower: bool = attribute(Form.BOOLEAN, default=False, proto="cholesky_options.")


_TRIANGULAR: Final = "triangular_solve_options."


@attribute_record
class TriangularSolve(Attributes):
    """Of `triangular-solve`; `transpose_a` is NO_TRANSPOSE, TRANSPOSE or ADJOINT."""

    left_side: bool = attribute(Form.BOOLEAN, default=False, proto=_TRIANGULAR)
    lower: bool = attribute(Form.BOOLEAN, default=False, proto=_TRIANGULAR)
    unit_diagonal: bool = attribute(Form.BOOLEAN, default=False, proto=_TRIANGULAR)
    transpose_a: str = attribute(
        Form.WORD,
        default="NO_TRANSPOSE",
        shown=Shown.ALWAYS,
        proto=_TRIANGULAR,
        words=("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"),
        what="transposition",
    )


@attribute_record
class BatchNorm(Attributes):
    """Of the batch-norm operations; `epsilon` is exactly representable in f32."""

    epsilon: float = attribute(Form.SINGLE)
    feature_index: int = attribute(Form.NATURAL)


@attribute_record
class Rng(Attributes):
    """Of `rng`: rng_uniform or rng_normal."""

    distribution: str = attribute(
        Form.WORD, words=("rng_uniform", "rng_normal"), what="distribution", any_case=True
    )


@attribute_record
class RngBitGenerator(Attributes):
    """Of `rng-bit-generator`: rng_default, rng_three_fry or rng_philox."""

    algorithm: str = attribute(
        Form.WORD,
        proto="rng_algorithm",
        words=("rng_default", "rng_three_fry", "rng_philox"),
        what="algorithm",
        any_case=True,
    )


@attribute_record
class RngGetAndUpdateState(Attributes):
    """Of `rng-get-and-update-state`: by how much the state advances."""

    delta: int = attribute(Form.INTEGER)


# -- structure and control flow ----------------------------------------------------------------


@attribute_record
class GetTupleElement(Attributes):
    """Of `get-tuple-element`: which element."""

    index: int = attribute(Form.ELEMENT, proto="tuple_index")


@attribute_record
class Call(Attributes):
    """Of `call`: whether it stands for a composite operation of the frontend."""

    is_composite: bool = attribute(Form.BOOLEAN, default=False, shown=Shown.NEVER)


@attribute_record
class Conditional(Attributes):
    """Of `conditional`: whether operand 0 is a predicate (true branch first) or an index.

    Called computations: true and false branch, or the branches by index.
    """

    is_predicated: bool = attribute(Form.PREDICATED, text="")


@dataclass(frozen=True, slots=True)
class Aliasing:
    """Output `output_index` occupies the buffer of `operand` at `operand_index`."""

    output_index: ShapeIndex
    operand: int
    operand_index: ShapeIndex = ()


@attribute_record
class Fusion(Attributes):
    """Of `fusion`: kLoop, kInput, kOutput or kCustom, and which outputs overwrite operands."""

    kind: str = attribute(
        Form.WORD,
        proto="fusion_kind",
        words=("kLoop", "kInput", "kOutput", "kCustom"),
        what="fusion kind",
    )
    output_to_operand_aliasing: tuple[Aliasing, ...] = attribute(Form.ALIASING, default=())


@attribute_record
class CustomCall(Attributes):
    """Of `custom-call`.

    `operand_layouts` is None where the call has no layout constraints.
    """

    target: str = attribute(Form.STRING, after="padding_type", text="custom_call_target")
    window: Window | None = attribute(Form.WINDOW, default=None)
    dimensions: ConvolutionDimensions | None = attribute(
        Form.CONVOLUTION_DIMENSIONS, default=None, text="dim_labels"
    )
    feature_group_count: int = attribute(Form.COUNT, default=1)
    batch_group_count: int = attribute(Form.COUNT, default=1)
    precision: PrecisionConfig = attribute(Form.PRECISION, default=DEFAULT_PRECISION)
    padding_type: str = attribute(
        Form.PADDING_TYPE,
        default="",
        words=("PADDING_VALID", "PADDING_SAME", "PADDING_INVALID"),
        what="padding type",
    )
    operand_layouts: tuple[Shape, ...] | None = attribute(
        Form.LAYOUTS, default=None, text="operand_layout_constraints"
    )
    has_side_effect: bool = attribute(
        Form.BOOLEAN, default=False, text="custom_call_has_side_effect"
    )
    literal: Literal | None = attribute(Form.LITERAL, default=None)
    output_to_operand_aliasing: tuple[Aliasing, ...] = attribute(Form.ALIASING, default=())
    schedule: str = attribute(
        Form.WORD,
        default="SCHEDULE_NONE",
        proto="custom_call_schedule",
        words=("SCHEDULE_NONE", "SCHEDULE_LATEST", "SCHEDULE_EARLIEST"),
        what="custom-call schedule",
        any_case=True,
    )
    api_version: str = attribute(
        Form.WORD,
        default="API_VERSION_ORIGINAL",
        proto="custom_call_api_version",
        words=(
            "API_VERSION_ORIGINAL",
            "API_VERSION_STATUS_RETURNING",
            "API_VERSION_STATUS_RETURNING_UNIFIED",
            "API_VERSION_TYPED_FFI",
        ),
        what="custom-call API version",
        any_case=True,
    )


MAIN_THREAD: Final = "main"


@attribute_record
class Async(Attributes):
    """Of async-start, -update and -done: where the wrapped computation runs."""

    execution_thread: str = attribute(
        Form.THREAD, default=MAIN_THREAD, text="async_execution_thread"
    )
    output_to_operand_aliasing: tuple[Aliasing, ...] = attribute(
        Form.ALIASING, default=(), opcodes=(Opcode.ASYNC_START,)
    )


@attribute_record
class CopyStart(Attributes):
    """Of `copy-start`: the index of a prefetch that outlives the program, or None."""

    cross_program_prefetch_index: int | None = attribute(Form.NATURAL, default=None)


# -- communication -----------------------------------------------------------------------------


_REDUCING_OR_GATHERING: Final = (
    Opcode.ALL_GATHER,
    Opcode.ALL_GATHER_START,
    Opcode.ALL_REDUCE,
    Opcode.ALL_REDUCE_START,
    Opcode.REDUCE_SCATTER,
)
_WITH_DIMENSION: Final = (
    Opcode.ALL_GATHER,
    Opcode.ALL_GATHER_START,
    Opcode.REDUCE_SCATTER,
    Opcode.ALL_TO_ALL,
    Opcode.RAGGED_ALL_TO_ALL,
)


@attribute_record
class Collective(Attributes):
    """Of all-gather, all-reduce, reduce-scatter, all-to-all and collective-broadcast.

    `dimension` is the one that is gathered, scattered or split; None for operations without one
    (and for all-to-all over a tuple). `channel_id` is None where absent.
    """

    replica_groups: ReplicaGroups = attribute(
        Form.GROUPS, default=ListReplicaGroups(), after="channel_id", shown=Shown.ALWAYS
    )
    channel_id: int | None = attribute(Form.CHANNEL, default=None)
    dimension: int | None = attribute(
        Form.COLLECTIVE_DIMENSION,
        default=None,
        after="constrain_layout",
        text="dimensions",
        opcodes=_WITH_DIMENSION,
    )
    constrain_layout: bool = attribute(
        Form.BOOLEAN, default=False, opcodes=(*_REDUCING_OR_GATHERING, Opcode.ALL_TO_ALL)
    )
    use_global_device_ids: bool = attribute(
        Form.GLOBAL_IDS, default=False, opcodes=_REDUCING_OR_GATHERING
    )
    has_dynamic_root: bool = attribute(
        Form.BOOLEAN, default=False, opcodes=(Opcode.COLLECTIVE_BROADCAST,)
    )


@attribute_record
class CollectivePermute(Attributes):
    """Of `collective-permute`: pairs of source and target device.

    `slice_sizes` is empty but in the form with four operands, which updates in place.
    """

    source_target_pairs: tuple[tuple[int, int], ...] = attribute(Form.PAIRS, after="channel_id")
    channel_id: int | None = attribute(Form.CHANNEL, default=None)
    slice_sizes: tuple[tuple[int, ...], ...] = attribute(Form.INTEGER_GROUPS, default=())


@attribute_record
class Channel(Attributes):
    """Of send, recv and their -done: the channel (None where absent), and whether to the host."""

    channel_id: int | None = attribute(Form.CHANNEL, default=None)
    is_host_transfer: bool = attribute(Form.BOOLEAN, default=False)


@attribute_record
class Infeed(Attributes):
    """Of `infeed`: opaque configuration."""

    config: bytes = attribute(Form.BYTES, default=b"", text="infeed_config")


@attribute_record
class Outfeed(Attributes):
    """Of `outfeed`: opaque configuration, and the shape (with layout) that is sent."""

    shape: Shape = attribute(Form.SHAPE, text="outfeed_shape")
    config: bytes = attribute(Form.BYTES, default=b"", text="outfeed_config")


@dataclass(frozen=True, slots=True)
class Domain(Attributes):
    """Of `domain`: the shardings on both sides of a border (None where there is none)."""

    kind: str
    entry: Sharding | None = None
    exit: Sharding | None = None
