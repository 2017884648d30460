"""Descriptions of models for callers: inputs, outputs, and what the file says about itself."""

from __future__ import annotations

from dataclasses import field

from lowtide.frontend.onnx.interface import ModelInterface, ValueType
from lowtide.records import dataclass


@dataclass(frozen=True, slots=True)
class NodeArg:
    """An input or output: its name, its type as "tensor(float)", and its sizes.

    Sizes are numbers, names, or None where nothing is known of one.
    """

    name: str
    type: str
    shape: list[int | str | None]


@dataclass(frozen=True, slots=True)
class ModelMetadata:
    """What a model says about itself."""

    producer_name: str
    graph_name: str
    domain: str
    description: str
    graph_description: str
    version: int
    custom_metadata_map: dict[str, str] = field(default_factory=dict)


def node_arg(value: ValueType) -> NodeArg:
    """Return how an input or output is described."""
    return NodeArg(value.name, value.text, list(value.sizes or ()))


def metadata_of(model: ModelInterface) -> ModelMetadata:
    """Return what a model says about itself."""
    labels = model.labels
    return ModelMetadata(
        labels.producer,
        labels.graph,
        labels.domain,
        labels.description,
        labels.graph_description,
        labels.version,
        dict(model.metadata),
    )
