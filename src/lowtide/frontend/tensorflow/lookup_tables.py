"""Tables that give numbers for whole numbers: what the functions that fill them say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from lowtide.frontend.graphs.context import OpKernelContext
from lowtide.frontend.graphs.graph import GraphNode, OpGraph
from lowtide.frontend.graphs.registry import op
from lowtide.frontend.graphs.shared import indexing, reductions
from lowtide.frontend.graphs.shared.broadcasting import along
from lowtide.frontend.tensorflow.graph_def import DOMAIN
from lowtide.frontend.tensorflow.resources import FIND, TABLES, shared_name, table_values
from lowtide.ir.element_type import ElementType
from lowtide.ir.literal import ELEMENT_TYPES, Array

_FILLS: Final = frozenset({"InitializeTable", "InitializeTableV2", "LookupTableImportV2"})


def table_contents(graph: OpGraph, library: Mapping[str, OpGraph]) -> dict[str, Array]:
    """Return the keys and the values of tables, by the names of `table_values`.

    They are constants that a node of the graph, or of a function that it calls, fills in.
    """
    made = {y: x for x in graph.nodes for y in x.outputs}
    found = _filled(graph, made)
    for node in graph.nodes:
        called = library.get(str(node.attributes.get("f")))
        if called is not None and any(x.op in _FILLS for x in called.nodes):
            given = zip(called.inputs, node.inputs, strict=False)
            known = {x: made[y] for x, y in given if y in made}
            known |= {y: x for x in called.nodes for y in x.outputs}
            found |= _filled(called, known)
    return found


def _filled(graph: OpGraph, made: Mapping[str, GraphNode]) -> dict[str, Array]:
    found = {}
    for node in graph.nodes:
        sources = [made.get(x) for x in node.inputs] if node.op in _FILLS else []
        if len(sources) != 3 or sources[0] is None or sources[0].op not in TABLES:
            continue
        names = table_values(shared_name(sources[0]))
        for name, source in zip(names, sources[1:], strict=True):
            if source is not None and source.op == "Const":
                found[name] = np.asarray(source.attributes["value"])
    return found


@op(FIND, domain=DOMAIN, inputs=4)
def find(context: OpKernelContext) -> None:
    """Give the value of each key, a default for those that are not there.

    The inputs are the keys and values of the table, then the keys to find and the default.
    """
    b, keys, values = context.builder, context.constant(0), context.constant(1)
    x, default = context.input(2), context.input(3)
    if keys.dtype not in ELEMENT_TYPES or values.dtype not in ELEMENT_TYPES:
        raise context.error("a table of text")
    order = np.argsort(keys)
    keys, values = keys[order], values[order]
    spread = b.broadcast(default, x.dimensions, [])
    if not keys.size:
        context.set_output(0, spread)
        return
    wide = b.broadcast(x, [*x.dimensions, keys.size], range(x.rank))
    reached = wide.ge(along(b, b.constant(keys), x.rank, wide.dimensions))
    count = reductions.reduce(b, "sum", b.convert(reached, ElementType.S32), [x.rank])
    place = b.maximum(count - 1, 0)
    is_there = indexing.take(b, b.constant(keys), place, 0).eq(x)
    context.set_output(
        0, b.select(is_there, indexing.take(b, b.constant(values), place, 0), spread)
    )
