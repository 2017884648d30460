"""Attributes of windows, contractions, reductions and sorts."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from lowtide.ir.attribute_fields import Form, Shown, attribute, attribute_record
from lowtide.ir.attributes.base import Attributes
from lowtide.records import dataclass


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

    UNSET = "unset"
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
        after="batch_group_count",
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
