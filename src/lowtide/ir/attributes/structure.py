"""Attributes of tuples, calls, fusions, custom calls and asynchronous operations."""

from __future__ import annotations

from typing import Final

from lowtide.ir.attribute_fields import Form, Shown, attribute, attribute_record
from lowtide.ir.attributes.base import Attributes
from lowtide.ir.attributes.windows import (
    DEFAULT_PRECISION,
    ConvolutionDimensions,
    PrecisionConfig,
    Window,
)
from lowtide.ir.literal import Literal
from lowtide.ir.opcode import Opcode
from lowtide.ir.shape import Shape, ShapeIndex
from lowtide.records import dataclass


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
