"""The view that an op kernel has of its node: inputs, attributes, builder and outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast, final

import numpy as np

from lowtide.builder import Builder, Op
from lowtide.frontend.graphs.dtypes import element_type_of
from lowtide.frontend.graphs.expression import Expression
from lowtide.frontend.graphs.graph import GraphError, GraphNode, NotConstantError
from lowtide.ir.element_type import ElementType
from lowtide.ir.literal import Array

if TYPE_CHECKING:
    from lowtide.frontend.graphs.compiler import GraphCompiler

T = TypeVar("T")

REQUIRED: Final = object()
"""The default of an attribute that has to be there."""

_NEWEST: Final = 1 << 30


@final
class OpKernelContext:
    """One run of a kernel.

    All mistakes in the graph are raised as GraphError, which names the node.
    """

    def __init__(
        self,
        node: GraphNode,
        inputs: list[Expression | None],
        compiler: GraphCompiler,
        scope: Mapping[str, Expression],
    ) -> None:
        self.node = node
        self.compiler = compiler
        self.scope = scope
        """The values known around the node, by name: what graphs inside of it may read."""
        self.outputs: list[Expression] = []
        self._inputs = inputs

    @property
    def builder(self) -> Builder:
        """The builder of the computation that is being built."""
        return self.compiler.builder

    @property
    def version(self) -> int:
        """The version of the op's set; a great number for the newest."""
        return self.node.version or _NEWEST

    def error(self, message: str) -> GraphError:
        """Return the error to raise."""
        return GraphError(message, node=self.node.name, op=self.node.op)

    # -- inputs --------------------------------------------------------------------------------

    @property
    def input_count(self) -> int:
        """The number of inputs, those left out in between included."""
        return len(self._inputs)

    def has_input(self, number: int) -> bool:
        """Whether an input is given; they count from 0."""
        return number < len(self._inputs) and self._inputs[number] is not None

    def expression(self, number: int) -> Expression:
        """Return an input as it is."""
        found = self._inputs[number] if number < len(self._inputs) else None
        if found is None:
            raise self.error(f"input {number} is missing")
        return found

    def input(self, number: int) -> Op:
        """Return an input as an operand."""
        return self.expression(number).op(self.builder)

    def optional(self, number: int) -> Op | None:
        """Return an input as an operand, None where it is left out."""
        return self.input(number) if self.has_input(number) else None

    def inputs(self) -> list[Op]:
        """Return all inputs as operands."""
        return [self.input(i) for i in range(self.input_count)]

    def known(self, number: int) -> Array | None:
        """Return the value of an input, None where it is left out or depends on an argument."""
        if not self.has_input(number):
            return None
        return self.compiler.value_of(self.expression(number))

    def constant(self, number: int) -> Array:
        """Return the value of an input that has to be known when the graph is compiled."""
        value = self.known(number)
        if value is None:
            self.expression(number)
            name = self.node.inputs[number]
            message = (
                f"input {number}, {name!r}, has to be a constant, but depends on an argument: give "
                "the value of that argument when compiling"
            )
            raise NotConstantError(
                message, self.expression(number), node=self.node.name, op=self.node.op
            )
        return value

    def ints(self, number: int) -> list[int]:
        """Return the elements of a constant input of integers, of rank 0 or 1."""
        value = self.constant(number)
        if value.dtype.kind not in "iu" or value.ndim > 1:
            raise self.error(
                f"input {number} has to be a vector of integers, found "
                f"{value.dtype.name}{list(value.shape)}"
            )
        return [int(x) for x in value.reshape(-1)]

    def one_int(self, number: int) -> int:
        """Return a constant input that is one integer."""
        values = self.ints(number)
        if len(values) != 1:
            raise self.error(f"input {number} has to be one integer, found {values}")
        return values[0]

    # -- attributes ----------------------------------------------------------------------------

    def attribute(self, name: str, convert: Callable[[Any], T], default: object = REQUIRED) -> T:
        """Return an attribute as `convert` makes it, or the default where it is left out."""
        if name not in self.node.attributes or self.node.attributes[name] is None:
            if default is REQUIRED:
                raise self.error(f"attribute {name!r} is missing")
            return cast("T", default)
        value = self.node.attributes[name]
        try:
            return convert(value)
        except (TypeError, ValueError) as error:
            raise self.error(f"attribute {name!r} cannot be {value!r}: {error}") from error

    def choice(self, name: str, known: Mapping[str, T], default: str) -> T:
        """Return what a table says for an attribute that is one of some words."""
        word = self.attribute(name, text, default)
        if word not in known:
            raise self.error(f"attribute {name!r} is one of {', '.join(known)}, not {word!r}")
        return known[word]

    def element_type(self, name: str, default: object = REQUIRED) -> ElementType:
        """Return an attribute that is an element type."""
        return self.attribute(name, element_type_of, default)

    # -- dimensions ----------------------------------------------------------------------------

    def axis(self, number: int, rank: int) -> int:
        """Return a dimension from 0, which may be counted from the end as -1, -2, ..."""
        if not -rank <= number < rank:
            raise self.error(f"axis {number} is out of range for rank {rank}")
        return number % rank

    def axes(self, numbers: list[int], rank: int) -> list[int]:
        """Return dimensions from 0, sorted; raises where one is given twice."""
        found = sorted([self.axis(x, rank) for x in numbers])
        if len(set(found)) != len(found):
            raise self.error(f"axes {numbers} name a dimension twice")
        return found

    # -- outputs -------------------------------------------------------------------------------

    def set_output(self, number: int, value: Op | Array | Expression) -> None:
        """Give an output, in order from 0; an array is a constant."""
        if number != len(self.outputs):
            raise ValueError(f"output {number} of {self.node.op} comes after {len(self.outputs)}")
        if not isinstance(value, Op | Expression):
            value = np.asarray(value)
        self.outputs.append(value if isinstance(value, Expression) else Expression(value))

    def set_outputs(self, values: list[Op]) -> None:
        """Give all outputs."""
        for number, value in enumerate(values):
            self.set_output(number, value)


def text(value: Any) -> str:
    """Return a word given as text or bytes; raises TypeError for others."""
    if isinstance(value, bytes):
        return value.decode()
    if not isinstance(value, str):
        raise TypeError("expected text")
    return value


def integers(value: Any) -> list[int]:
    """Return a list of integers; raises TypeError for other values."""
    return [integer(x) for x in value]


def integer(value: Any) -> int:
    """Return an integer; raises TypeError for other values."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError("expected an integer")
    return int(value)


def real(value: Any) -> float:
    """Return a number; raises TypeError for other values."""
    if not isinstance(value, int | float | np.floating | np.integer):
        raise TypeError("expected a number")
    return float(value)


def flag(value: Any) -> bool:
    """Return a truth value, for which 0 and 1 stand too; raises TypeError for others."""
    if value not in (False, True) or not isinstance(value, bool | int | np.bool_ | np.integer):
        raise TypeError("expected a truth value")
    return bool(value)
