"""Graphs from JSON objects.

A graph has `nodes` and `outputs`, and perhaps `storage` and `ref_count` by entry, `device` by node,
and `node_range`. A node has `op` (null for a variable), `inputs` as pairs [node, output], `sizes`
in elements, one per output (-1 or null: not known), and perhaps `name`, `dtype` (of all outputs, or
a list), `shapes`, `device`, and the fields of an operation, which then take the place of those in
the table. Other fields are notes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from lowtide.planning.nnvm.data_types import DataType
from lowtide.planning.nnvm.graph import UNKNOWN_SIZE, Entry, NnvmGraph, NnvmNode
from lowtide.planning.nnvm.ops import NnvmOp, read_op
from lowtide.suggestions import nearest_name

_GRAPH_FIELDS: Final = ("nodes", "outputs", "storage", "ref_count", "node_range", "device")
_OP_FIELDS: Final = ("inplace_pairs", "identity", "ignore_inputs", "pattern")
_NODE_FIELDS: Final = (*("name", "op", "inputs", "sizes", "dtype", "shapes", "device"), *_OP_FIELDS)


def read_graph(fields: Mapping[str, Any]) -> NnvmGraph:
    """Return the graph that a JSON object describes.

    Raises ValueError, which names node and field, where the object is malformed.
    """
    _check_fields(fields, _GRAPH_FIELDS, "the graph")
    nodes = _list(_required(fields, "nodes", "the graph"), "the graph: field 'nodes'")
    outputs = _list(_required(fields, "outputs", "the graph"), "the graph: field 'outputs'")
    node_range = _integers(fields.get("node_range"), "the graph: field 'node_range'")
    if node_range is not None and len(node_range) != 2:
        raise ValueError(f"the graph: field 'node_range': expected two, found {len(node_range)}")
    devices = _integers(fields.get("device"), "the graph: field 'device'")
    if devices is not None and len(devices) != len(nodes):
        raise ValueError(f"the graph: field 'device' has {len(devices)}, 'nodes' {len(nodes)}")
    return NnvmGraph(
        tuple(
            [
                _node(number, node, 0 if devices is None else devices[number])
                for number, node in enumerate(nodes)
            ]
        ),
        tuple([_entry(x, f"the graph: outputs[{i}]") for i, x in enumerate(outputs)]),
        _integers(fields.get("storage"), "the graph: field 'storage'"),
        _integers(fields.get("ref_count"), "the graph: field 'ref_count'"),
        None if node_range is None else (node_range[0], node_range[1]),
    )


def _node(number: int, fields: Any, device: int) -> NnvmNode:
    where = f"node {number}"
    if not isinstance(fields, Mapping):
        raise ValueError(f"{where}: expected an object, found {fields!r}")
    name = fields.get("name", f"n{number}")
    where = f"{where} ({name})"
    _check_fields(fields, _NODE_FIELDS, where)
    op = _required(fields, "op", where)
    if op is not None and not isinstance(op, str):
        raise ValueError(f"{where}: field 'op': expected a name or null, found {op!r}")
    inputs = _list(_required(fields, "inputs", where), f"{where}: field 'inputs'")
    shapes = tuple([_shape(x, where) for x in fields.get("shapes") or ()])
    sizes = _sizes(fields, shapes, where)
    return NnvmNode(
        name,
        None if op == "null" else op,
        tuple([_entry(x, f"{where}: inputs[{i}]") for i, x in enumerate(inputs)]),
        sizes,
        _dtypes(fields.get("dtype", 0), len(sizes), where),
        shapes,
        _integer(fields.get("device", device), f"{where}: field 'device'"),
        _own_options(fields, where),
    )


def _own_options(fields: Mapping[str, Any], where: str) -> NnvmOp | None:
    given = any(name in fields for name in _OP_FIELDS)
    return read_op(fields, where) if given else None


def _sizes(
    fields: Mapping[str, Any], shapes: tuple[tuple[int, ...], ...], where: str
) -> tuple[int, ...]:
    volumes = tuple([math.prod(shape) for shape in shapes])
    if "sizes" not in fields and shapes:
        return volumes
    given = _list(_required(fields, "sizes", where), f"{where}: field 'sizes'")
    sizes = tuple([UNKNOWN_SIZE if x is None else x for x in given])
    for size in sizes:
        if _integer(size, f"{where}: field 'sizes'") < UNKNOWN_SIZE:
            raise ValueError(f"{where}: field 'sizes': expected -1 or more, found {size}")
    if shapes and sizes != volumes:
        raise ValueError(f"{where}: field 'shapes' has {list(volumes)} elements, not {list(sizes)}")
    return sizes


def _shape(shape: Any, where: str) -> tuple[int, ...]:
    sizes = _integers(shape, f"{where}: field 'shapes'")
    if sizes is None or any(size < 0 for size in sizes):
        raise ValueError(f"{where}: field 'shapes': expected sizes from 0 on, found {shape!r}")
    return sizes


def _dtypes(dtype: Any, count: int, where: str) -> tuple[DataType, ...]:
    listed = tuple(dtype) if isinstance(dtype, list | tuple) else (dtype,) * count
    for one in listed:
        if isinstance(one, bool) or not isinstance(one, int | str | np.dtype):
            raise ValueError(f"{where}: field 'dtype': expected a number or a name, found {one!r}")
    return listed


# -- fields ------------------------------------------------------------------------------------


def _check_fields(fields: Any, known: Sequence[str], where: str) -> None:
    """Raise ValueError for a field that is spelled almost like a known one."""
    if not isinstance(fields, Mapping):
        raise ValueError(f"{where}: expected an object, found {type(fields).__name__}")
    for name in fields:
        if name in known:
            continue
        close = nearest_name(str(name), known, 0.75)
        if close:
            raise ValueError(f"{where}: unknown field {name!r}; did you mean {close!r}?")


def _required(fields: Mapping[str, Any], name: str, where: str) -> Any:
    if name not in fields:
        raise ValueError(f"{where}: field {name!r} is missing")
    return fields[name]


def _list(value: Any, where: str) -> Sequence[Any]:
    if not isinstance(value, list | tuple):
        raise ValueError(f"{where}: expected a list, found {value!r}")
    return value


def _integer(value: Any, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{where}: expected a whole number, found {value!r}")
    return value


def _integers(values: Any, where: str) -> tuple[int, ...] | None:
    if values is None:
        return None
    return tuple([_integer(value, where) for value in _list(values, where)])


def _entry(entry: Any, where: str) -> Entry:
    """Return [node, output]; a third number is the version that files of NNVM have."""
    numbers = _integers(entry, where) or ()
    if len(numbers) not in (2, 3):
        raise ValueError(f"{where}: expected [node, output], found {entry!r}")
    return numbers[0], numbers[1]
