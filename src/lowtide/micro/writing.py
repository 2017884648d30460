"""A model's file with a plan: operators in their new order, offsets as metadata."""

from __future__ import annotations

import struct
from typing import Final

from lowtide.frontend.file_kinds import IDENTIFIER
from lowtide.frontend.tflite.flatbuffer import FlatTable
from lowtide.frontend.tflite.model import LiteModel
from lowtide.ir.errors import InputError
from lowtide.micro.planning import MicroPlan
from lowtide.micro.prefix import Prefix, Scalar, Target

OFFLINE_PLAN: Final = "OfflineMemoryAllocation"
"""The name of the metadata in which TFLite Micro looks for offsets."""

_ONLINE: Final = -1
_LINE: Final = 16

_VERSION, _GRAPHS, _BUFFERS, _METADATA = 0, 2, 4, 6
_OTHERS: Final = (1, 3, 5, 7)
"""The fields of a model; the others are operator codes, description, old metadata, signatures."""

_OPERATORS: Final = 3
_GRAPH_REFERENCES: Final = (0, 1, 2, 4)
_DEBUG_INDEX: Final = 5
"""The fields of a subgraph; the references are tensors, inputs, outputs, name."""


def planned_file(model: LiteModel, plan: MicroPlan) -> bytes:
    """Return the file of a model with a plan; buffers and tensors keep their numbers.

    A plan that the file had is replaced. Without offsets the file is returned as it is. Raises
    InputError for a model whose buffers lie behind its flatbuffer.
    """
    if not plan.is_planned:
        return model.source.data
    root = model.source.root()
    buffers = root.table_list(_BUFFERS, "buffers")
    if any(x.scalar(1, "Q", 0) > 1 for x in buffers):
        text = "has buffers behind its flatbuffer, and no plan can be added to such a file"
        raise InputError(text, file=model.file)
    prefix = Prefix(IDENTIFIER)
    fields: dict[int, Scalar | Target] = {_VERSION: Scalar(root.scalar(_VERSION, "I", 3))}
    fields |= {x: root.referred(x) for x in _OTHERS if root.referred(x)}
    fields |= {_GRAPHS: "subgraphs", _BUFFERS: "buffers", _METADATA: "metadata"}
    prefix.table("root", fields)
    _add_graphs(prefix, root, plan)
    entries = root.table_list(_METADATA, "metadata")
    kept: list[Target] = [x.at for x in entries if x.text(0, "name") != OFFLINE_PLAN]
    prefix.vector("metadata", [*kept, "entry"])
    prefix.table("entry", {0: "name", 1: Scalar(len(buffers))})
    prefix.content("name", OFFLINE_PLAN.encode())
    prefix.vector("buffers", [*[x.at for x in buffers], "buffer"])
    prefix.table("buffer", {0: "words"})
    prefix.content("words", _words(model, plan), alignment=_LINE)
    return prefix.before(model.source.data)


def _add_graphs(prefix: Prefix, root: FlatTable, plan: MicroPlan) -> None:
    """Add the list of subgraphs, of which the first has its operators in the order of the plan."""
    first, *others = root.table_list(_GRAPHS, "subgraphs")
    prefix.vector("subgraphs", ["main", *[x.at for x in others]])
    fields: dict[int, Scalar | Target] = {
        x: first.referred(x) for x in _GRAPH_REFERENCES if first.referred(x)
    }
    if first.field_at(_DEBUG_INDEX):
        fields[_DEBUG_INDEX] = Scalar(first.integer(_DEBUG_INDEX))
    prefix.table("main", {**fields, _OPERATORS: "operators"})
    operators = first.table_list(_OPERATORS, "operators")
    prefix.vector("operators", [operators[x].at for x in plan.order])


def _words(model: LiteModel, plan: MicroPlan) -> bytes:
    """The metadata: a version, subgraphs, tensors of all, and the offset of each, -1 for none."""
    offsets = [plan.offsets.get(x.number, _ONLINE) for x in model.main.tensors]
    offsets += [_ONLINE for graph in model.graphs[1:] for _ in graph.tensors]
    words = [1, len(model.graphs), len(offsets), *offsets]
    return struct.pack(f"<{len(words)}i", *words)
