"""The view that the kernel of an operator has of it: its tensors, its options, its activation."""

from __future__ import annotations

from typing import Final, final

from lowtide.builder import Op
from lowtide.frontend.graphs.context import OpKernelContext
from lowtide.frontend.graphs.graph import GraphError
from lowtide.frontend.graphs.shared import elementwise
from lowtide.frontend.tflite.model import LiteGraph, LiteOperator, LiteTensor
from lowtide.ir.element_type import ElementType

DOMAIN: Final = "tflite"

ACTIVATIONS: Final = ("NONE", "RELU", "RELU_N1_TO_1", "RELU6", "TANH", "SIGN_BIT")
"""What an operator may do to its result, by its code."""

BOUNDS: Final = {
    "RELU": (0.0, None),
    "RELU_N1_TO_1": (-1.0, 1.0),
    "RELU6": (0.0, 6.0),
    "RELU_0_TO_1": (0.0, 1.0),
}
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
    "INT4": ElementType.S8,
    "INT2": ElementType.S8,
    "UINT4": ElementType.U8,
    "FLOAT8_E4M3FN": ElementType.F8E4M3FN,
    "FLOAT8_E5M2": ElementType.F8E5M2,
}
"""The types of tensors that arrays have; numbers of less than a byte take one each."""


_WHOLE: Final = frozenset({ElementType.S16, ElementType.S32, ElementType.S64, ElementType.U32})
"""The types of integers that stand for themselves and have kernels with activations."""


def _as(kind: ElementType, bound: float) -> float:
    """A bound as a number of a type."""
    return bound if kind.is_floating else max(int(bound), 0 if kind.is_unsigned else int(bound))


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

    def result(self, number: int) -> LiteTensor:
        """Return what is known of an output; raises GraphError where there is none."""
        if not 0 <= number < len(self._operator.outputs):
            raise self.error(f"it has no output {number}")
        return self._graph.tensors[self._operator.outputs[number]]

    def tensor(self, number: int) -> LiteTensor:
        """Return what is known of an input."""
        self.context.expression(number)
        return self._graph.tensors[self._operator.inputs[number]]

    def between(self, number: int) -> LiteTensor:
        """Return what is known of a value inside the operator; raises GraphError for none."""
        numbers = self._operator.intermediates
        if number >= len(numbers) or numbers[number] < 0:
            raise self.error(f"it has no intermediate tensor {number}")
        return self._graph.tensors[numbers[number]]

    @property
    def between_count(self) -> int:
        """How many values inside the operator are told."""
        return len(self._operator.intermediates)

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

    def numbers(self, field: int, dtype: str = "<i8") -> list[int]:
        """Return an option that is a vector of integers; empty where it is not there."""
        options = self._operator.options
        if options is None:
            return []
        return [int(x) for x in options.array(field, dtype, f"field {field}")]

    def reals(self, field: int) -> list[float]:
        """Return an option that is a vector of floats; empty where it is not there."""
        options = self._operator.options
        return [] if options is None else options.array(field, "<f4", f"field {field}").tolist()

    def long(self, field: int) -> int:
        """Return an option of 64 bits."""
        options = self._operator.options
        return 0 if options is None else int(options.scalar(field, "q", 0))

    @property
    def custom_options(self) -> bytes:
        """The options of a custom operator, in a form of its own."""
        return self._operator.custom_options

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
        """Set the next output, after an activation of floats."""
        self.context.set_output(len(self.context.outputs), self.activated(value, activation))

    def activated(self, value: Op, activation: str) -> Op:
        """Return floats or integers after an activation; raises GraphError for an unknown one."""
        kind = value.element_type
        if activation in BOUNDS and (kind.is_floating or kind in _WHOLE):
            low, high = [None if x is None else _as(kind, x) for x in BOUNDS[activation]]
            value = value if low is None else self.b.maximum(value, low)
            return value if high is None else self.b.minimum(value, high)
        if activation != "NONE" and not kind.is_floating:
            raise self.refusal(f"activation {activation} of {kind.value} without a scale")
        if activation == "TANH":
            return self.b.tanh(value)
        if activation == "SIGMOID":
            return self.b.logistic(value)
        if activation != "NONE":
            raise self.refusal(f"activation {activation}")
        return value

    def element_type(self, number: int = 0) -> ElementType:
        """Return the type of an output; raises GraphError for one that no array has."""
        outputs = self._operator.outputs
        tensor = self._graph.tensors[outputs[number]] if number < len(outputs) else self.made
        if tensor.type not in ELEMENT_TYPES:
            raise self.refusal(f"a result of type {tensor.type}")
        return ELEMENT_TYPES[tensor.type]

    def cast(self, value: Op, element_type: ElementType) -> Op:
        """Return a value as another type."""
        return elementwise.cast(self.b, value, element_type)
