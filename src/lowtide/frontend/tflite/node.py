"""The view that the kernel of an operator has of it: its tensors, its options, its activation."""

from __future__ import annotations

from typing import Final, final

from lowtide.builder import Op
from lowtide.frontend.graphs.context import OpKernelContext
from lowtide.frontend.graphs.errors import GraphError
from lowtide.frontend.graphs.shared import elementwise
from lowtide.frontend.tflite.flatbuffer import FlatTable
from lowtide.frontend.tflite.model import LiteGraph, LiteOperator, LiteTensor
from lowtide.ir.element_type import ElementType

DOMAIN: Final = "tflite"

ACTIVATIONS: Final = ("NONE", "RELU", "RELU_N1_TO_1", "RELU6", "TANH", "SIGN_BIT")
"""What an operator may do to its result, by its code."""

BOUNDS: Final = {"RELU": (0.0, None), "RELU_N1_TO_1": (-1.0, 1.0), "RELU6": (0.0, 6.0)}
"""The activations that keep numbers within bounds."""

QUANTIZED: Final = {"INT8": (-128, 127), "INT16": (-32768, 32767), "UINT8": (0, 255)}
"""The types whose numbers may stand for others, and their ends."""


ELEMENT_TYPES: Final = {
    "FLOAT32": ElementType.F32,
    "FLOAT16": ElementType.F16,
    "INT32": ElementType.S32,
    "UINT8": ElementType.U8,
    "INT64": ElementType.S64,
    "BOOL": ElementType.PRED,
    "INT16": ElementType.S16,
    "COMPLEX64": ElementType.C64,
    "INT8": ElementType.S8,
    "FLOAT64": ElementType.F64,
    "COMPLEX128": ElementType.C128,
    "UINT64": ElementType.U64,
    "UINT32": ElementType.U32,
    "UINT16": ElementType.U16,
    "BFLOAT16": ElementType.BF16,
}
"""The types of tensors that arrays of HLO have."""


@final
class LiteNode:
    """An operator while its kernel runs; mistakes are raised as GraphError, which names it."""

    def __init__(self, context: OpKernelContext) -> None:
        self.context = context
        self.b = context.builder
        operator, graph = context.node.attributes["operator"], context.node.attributes["graph"]
        assert isinstance(operator, LiteOperator)
        assert isinstance(graph, LiteGraph)
        self._operator, self._graph = operator, graph

    def tensor(self, number: int) -> LiteTensor:
        """Return what is known of an input."""
        self.context.expression(number)
        return self._graph.tensors[self._operator.inputs[number]]

    @property
    def made(self) -> LiteTensor:
        """What is known of the first output; raises GraphError where there is none."""
        if not self._operator.outputs or self._operator.outputs[0] < 0:
            raise self.error("it has no output")
        return self._graph.tensors[self._operator.outputs[0]]

    @property
    def output_count(self) -> int:
        """How many outputs there are."""
        return len(self._operator.outputs)

    def error(self, message: str) -> GraphError:
        """Return the error to raise."""
        return self.context.error(message)

    def refusal(self, message: str) -> GraphError:
        """Return the error to raise for what there is no kernel for."""
        return self.error(f"{message}; lowtide has no kernel for that")

    # -- options -------------------------------------------------------------------------------

    def number(self, field: int, default: int = 0) -> int:
        """Return an option of 32 bits."""
        options = self._operator.options
        return default if options is None else options.integer(field, default)

    def code(self, field: int, default: int = 0) -> int:
        """Return an option of one byte: a flag, or one of a few words."""
        options = self._operator.options
        return default if options is None else int(options.scalar(field, "b", default))

    def real(self, field: int, default: float) -> float:
        """Return an option that is a float."""
        options = self._operator.options
        return default if options is None else float(options.scalar(field, "f", default))

    def options(self) -> FlatTable | None:
        """Return the table of options."""
        return self._operator.options

    def activation(self, field: int) -> str:
        """Return the name of the activation that an option says."""
        code = self.code(field)
        if not 0 <= code < len(ACTIVATIONS):
            raise self.error(f"activation {code}; known are 0 to {len(ACTIVATIONS) - 1}")
        return ACTIVATIONS[code]

    # -- results -------------------------------------------------------------------------------

    @property
    def is_quantized(self) -> bool:
        """Whether the first input's numbers stand for others."""
        given = self.tensor(0)
        return given.type in QUANTIZED and len(given.quantization.scales) > 0

    def require_floats(self) -> None:
        """Raise GraphError where the first input is quantized."""
        if self.is_quantized:
            raise self.refusal(f"it is quantized to {self.tensor(0).type}")

    def give(self, value: Op, activation: str = "NONE") -> None:
        """Set the only output, after an activation of floats, in the shape that the file says."""
        if activation in BOUNDS:
            low, high = BOUNDS[activation]
            value = self.b.maximum(value, low)
            value = value if high is None else self.b.minimum(value, high)
        elif activation == "TANH":
            value = self.b.tanh(value)
        elif activation != "NONE":
            raise self.refusal(f"activation {activation}")
        self.context.set_output(0, self.shaped(value))

    def shaped(self, value: Op) -> Op:
        """Return a value in the shape of the first output, which has as many elements."""
        shape = self.made.shape
        return value if value.dimensions == shape else self.b.reshape(value, shape)

    def cast(self, value: Op, element_type: ElementType) -> Op:
        """Return a value as another type."""
        return elementwise.cast(self.b, value, element_type)
