"""The attributes of each opcode, one frozen record per form.

An instruction holds exactly one record; `NO_ATTRIBUTES` where its opcode has none. Computations
which an instruction calls are not attributes: they stand in `Instruction.called_computations`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from lowtide.ir.literal import Literal
from lowtide.ir.replica_groups import ReplicaGroups
from lowtide.ir.shape import Shape, ShapeIndex
from lowtide.ir.sharding import Sharding


@dataclass(frozen=True, slots=True)
class Attributes:
    """The base of all attribute records, and itself the record of opcodes without attributes."""


NO_ATTRIBUTES: Final = Attributes()


# -- sources and data movement -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Parameter(Attributes):
    """Of `parameter`: its number, from 0."""

    number: int


@dataclass(frozen=True, slots=True)
class Constant(Attributes):
    """Of `constant`: its value."""

    literal: Literal


@dataclass(frozen=True, slots=True)
class Iota(Attributes):
    """Of `iota`: the dimension along which the values count from 0."""

    dimension: int


@dataclass(frozen=True, slots=True)
class Dimensions(Attributes):
    """Of broadcast, transpose, reverse, concatenate, reduce, map, get- and set-dimension-size.

    For broadcast, entry `i` is the result dimension of operand dimension `i`; for transpose, the
    operand dimension of result dimension `i`; else the dimensions on which the operation works.
    """

    dimensions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Reshape(Attributes):
    """Of `reshape`: the dimension that stands for a dynamic size, or -1."""

    inferred_dimension: int = -1


@dataclass(frozen=True, slots=True)
class Slice(Attributes):
    """Of `slice`: per dimension the start, the limit (not included) and the stride."""

    starts: tuple[int, ...]
    limits: tuple[int, ...]
    strides: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DynamicSlice(Attributes):
    """Of `dynamic-slice`: the size of the result in each dimension."""

    sizes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PaddingDimension:
    """Elements added before, after and between the elements along one dimension.

    `low` and `high` may be negative, which removes elements; `interior` may not.
    """

    low: int
    high: int
    interior: int = 0


@dataclass(frozen=True, slots=True)
class Pad(Attributes):
    """Of `pad`: the padding of each dimension."""

    dimensions: tuple[PaddingDimension, ...]


@dataclass(frozen=True, slots=True)
class Gather(Attributes):
    """Of `gather`: how index vectors address slices, and how slices lie in the result."""

    offset_dims: tuple[int, ...]
    collapsed_slice_dims: tuple[int, ...]
    start_index_map: tuple[int, ...]
    index_vector_dim: int
    slice_sizes: tuple[int, ...]
    operand_batching_dims: tuple[int, ...] = ()
    start_indices_batching_dims: tuple[int, ...] = ()
    indices_are_sorted: bool = False


@dataclass(frozen=True, slots=True)
class Scatter(Attributes):
    """Of `scatter`: how index vectors address the windows that updates are written to."""

    update_window_dims: tuple[int, ...]
    inserted_window_dims: tuple[int, ...]
    scatter_dims_to_operand_dims: tuple[int, ...]
    index_vector_dim: int
    input_batching_dims: tuple[int, ...] = ()
    scatter_indices_batching_dims: tuple[int, ...] = ()
    indices_are_sorted: bool = False
    unique_indices: bool = False


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


@dataclass(frozen=True, slots=True)
class ReduceWindow(Attributes):
    """Of `reduce-window` and `select-and-scatter`: the window."""

    window: Window


class Precision(StrEnum):
    """How exact the products of one operand of a dot or convolution have to be."""

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
    """Which dimensions of both operands are paired, in order: batch and contracting."""

    lhs_contracting: tuple[int, ...] = ()
    rhs_contracting: tuple[int, ...] = ()
    lhs_batch: tuple[int, ...] = ()
    rhs_batch: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Dot(Attributes):
    """Of `dot` and `scaled-dot`: the dimension numbers and the precision."""

    dimensions: DotDimensions
    precision: PrecisionConfig = DEFAULT_PRECISION


@dataclass(frozen=True, slots=True)
class RaggedDot(Attributes):
    """Of `ragged-dot`: as a dot, one dimension of lhs split into groups of given sizes."""

    dimensions: DotDimensions
    lhs_ragged: tuple[int, ...]
    rhs_group: tuple[int, ...]
    precision: PrecisionConfig = DEFAULT_PRECISION


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


@dataclass(frozen=True, slots=True)
class Convolution(Attributes):
    """Of `convolution`: dimension numbers, window over the spatial dimensions, grouping."""

    dimensions: ConvolutionDimensions
    window: Window = NO_WINDOW
    feature_group_count: int = 1
    batch_group_count: int = 1
    precision: PrecisionConfig = DEFAULT_PRECISION
    kind: str = "unset"
    sparsity_config: str = ""


@dataclass(frozen=True, slots=True)
class Scan(Attributes):
    """Of `scan`: the dimension stepped along, and how many operands and results are carries."""

    dimension: int
    num_carries: int
    is_reverse: bool = False
    is_associative: bool | None = None


@dataclass(frozen=True, slots=True)
class Sort(Attributes):
    """Of `sort`: the dimension, and whether equal elements keep their order."""

    dimension: int
    is_stable: bool = False


@dataclass(frozen=True, slots=True)
class TopK(Attributes):
    """Of `topk`: how many elements, whether the largest, and whether ties keep their order."""

    k: int
    largest: bool = True
    is_stable: bool = True


# -- elementwise and linear algebra ------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Compare(Attributes):
    """Of `compare`: `direction` (EQ NE GE GT LE LT) and the order, e.g. FLOAT or TOTALORDER.

    `type` is the order in force; text and protobuf leave out the default of the element type.
    """

    direction: str
    type: str


@dataclass(frozen=True, slots=True)
class ReducePrecision(Attributes):
    """Of `reduce-precision`: the sizes of the floating point format to round to."""

    exponent_bits: int
    mantissa_bits: int


@dataclass(frozen=True, slots=True)
class Fft(Attributes):
    """Of `fft`: the kind (FFT, IFFT, RFFT, IRFFT) and the lengths of the last dimensions."""

    kind: str
    length: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Cholesky(Attributes):
    """Of `cholesky`: whether the lower triangle is read and written."""

    lower: bool = False


@dataclass(frozen=True, slots=True)
class TriangularSolve(Attributes):
    """Of `triangular-solve`; `transpose_a` is NO_TRANSPOSE, TRANSPOSE or ADJOINT."""

    left_side: bool = False
    lower: bool = False
    unit_diagonal: bool = False
    transpose_a: str = "NO_TRANSPOSE"


@dataclass(frozen=True, slots=True)
class BatchNorm(Attributes):
    """Of the batch-norm operations; `epsilon` is exactly representable in f32."""

    epsilon: float
    feature_index: int


@dataclass(frozen=True, slots=True)
class Rng(Attributes):
    """Of `rng`: rng_uniform or rng_normal."""

    distribution: str


@dataclass(frozen=True, slots=True)
class RngBitGenerator(Attributes):
    """Of `rng-bit-generator`: rng_default, rng_three_fry or rng_philox."""

    algorithm: str


@dataclass(frozen=True, slots=True)
class RngGetAndUpdateState(Attributes):
    """Of `rng-get-and-update-state`: by how much the state advances."""

    delta: int


# -- structure and control flow ----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GetTupleElement(Attributes):
    """Of `get-tuple-element`: which element."""

    index: int


@dataclass(frozen=True, slots=True)
class Call(Attributes):
    """Of `call`: whether it stands for a composite operation of the frontend."""

    is_composite: bool = False


@dataclass(frozen=True, slots=True)
class Conditional(Attributes):
    """Of `conditional`: whether operand 0 is a predicate (true branch first) or an index.

    Called computations: true and false branch, or the branches by index.
    """

    is_predicated: bool


@dataclass(frozen=True, slots=True)
class Aliasing:
    """Output `output_index` occupies the buffer of `operand` at `operand_index`."""

    output_index: ShapeIndex
    operand: int
    operand_index: ShapeIndex = ()


@dataclass(frozen=True, slots=True)
class Fusion(Attributes):
    """Of `fusion`: kLoop, kInput, kOutput or kCustom, and which outputs overwrite operands."""

    kind: str
    output_to_operand_aliasing: tuple[Aliasing, ...] = ()


@dataclass(frozen=True, slots=True)
class CustomCall(Attributes):
    """Of `custom-call`.

    `operand_layouts` is None where the call has no layout constraints.
    """

    target: str
    window: Window | None = None
    dimensions: ConvolutionDimensions | None = None
    feature_group_count: int = 1
    batch_group_count: int = 1
    precision: PrecisionConfig = DEFAULT_PRECISION
    padding_type: str = ""
    operand_layouts: tuple[Shape, ...] | None = None
    has_side_effect: bool = False
    literal: Literal | None = None
    output_to_operand_aliasing: tuple[Aliasing, ...] = ()
    schedule: str = "SCHEDULE_NONE"
    api_version: str = "API_VERSION_ORIGINAL"


MAIN_THREAD: Final = "main"


@dataclass(frozen=True, slots=True)
class Async(Attributes):
    """Of async-start, -update and -done: where the wrapped computation runs."""

    execution_thread: str = MAIN_THREAD
    output_to_operand_aliasing: tuple[Aliasing, ...] = ()


@dataclass(frozen=True, slots=True)
class CopyStart(Attributes):
    """Of `copy-start`: the index of a prefetch that outlives the program, or None."""

    cross_program_prefetch_index: int | None = None


# -- communication -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Collective(Attributes):
    """Of all-gather, all-reduce, reduce-scatter, all-to-all and collective-broadcast.

    `dimension` is the one that is gathered, scattered or split; None for operations without one
    (and for all-to-all over a tuple). `channel_id` is None where absent.
    """

    replica_groups: ReplicaGroups
    channel_id: int | None = None
    dimension: int | None = None
    constrain_layout: bool = False
    use_global_device_ids: bool = False
    has_dynamic_root: bool = False


@dataclass(frozen=True, slots=True)
class CollectivePermute(Attributes):
    """Of `collective-permute`: pairs of source and target device.

    `slice_sizes` is empty but in the form with four operands, which updates in place.
    """

    source_target_pairs: tuple[tuple[int, int], ...]
    channel_id: int | None = None
    slice_sizes: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Channel(Attributes):
    """Of send, recv and their -done: the channel (None where absent), and whether to the host."""

    channel_id: int | None = None
    is_host_transfer: bool = False


@dataclass(frozen=True, slots=True)
class Infeed(Attributes):
    """Of `infeed`: opaque configuration."""

    config: bytes = b""


@dataclass(frozen=True, slots=True)
class Outfeed(Attributes):
    """Of `outfeed`: opaque configuration, and the shape (with layout) that is sent."""

    shape: Shape
    config: bytes = b""


@dataclass(frozen=True, slots=True)
class Domain(Attributes):
    """Of `domain`: the shardings on both sides of a border (None where there is none)."""

    kind: str
    entry: Sharding | None = None
    exit: Sharding | None = None
