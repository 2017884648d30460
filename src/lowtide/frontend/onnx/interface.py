"""Models as callers see them: types of inputs and outputs, labels, and the weights."""

from __future__ import annotations

from collections.abc import Mapping

from lowtide.ir.element_type import ElementType
from lowtide.ir.literal import Array
from lowtide.records import dataclass


@dataclass(frozen=True, slots=True)
class ValueType:
    """The type of an input or output.

    `kind` is "tensor", "sequence", "optional" or "map"; of a tensor there are the element type
    (None for strings) and the sizes: numbers, names, or None where nothing is known of one; all
    are None where not even the rank is known. `text` is the type as ONNX Runtime writes it, such as
    "seq(tensor(float))".
    """

    name: str
    kind: str = "tensor"
    element_type: ElementType | None = None
    sizes: tuple[int | str | None, ...] | None = None
    text: str = ""


@dataclass(frozen=True, slots=True)
class LabelColumns:
    """What a model says about itself."""

    producer: str = ""
    graph: str = ""
    domain: str = ""
    description: str = ""
    graph_description: str = ""
    version: int = 0


@dataclass(frozen=True, eq=False, slots=True)
class ModelInterface:
    """A model as callers see it, and its initializers as programs read them.

    `inputs` leave out those that `weights` have a value for, which are `overridable`.
    """

    name: str
    inputs: tuple[ValueType, ...]
    outputs: tuple[ValueType, ...]
    overridable: tuple[ValueType, ...]
    metadata: Mapping[str, str]
    labels: LabelColumns
    weights: Mapping[str, Array]
