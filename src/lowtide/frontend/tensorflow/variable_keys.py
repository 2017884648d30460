"""Under which names a checkpoint holds variables.

The function that restores a SavedModel says it: a list of names, and to which handle each value
goes. Models without one have the names of their variables, or a graph of objects that knows both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, final

import numpy as np

from lowtide.frontend.graphs.graph import OpGraph
from lowtide.frontend.tensorflow.bundle import CheckpointBundle
from lowtide.frontend.tensorflow.messages import parse
from lowtide.frontend.tensorflow.resources import HANDLES, shared_name
from lowtide.ir.errors import InputError
from lowtide.suggestions import nearest

_OBJECTS: Final = "_CHECKPOINTABLE_OBJECT_GRAPH"
_RESTORE: Final = "RestoreV2"
_ASSIGN: Final = "AssignVariableOp"
_CHECKSUM: Final = 4
_PASSED: Final = frozenset({"Identity", "Cast"})


@final
class VariableKeys:
    """The key of each variable of a graph; raises InputError for one that has none."""

    def __init__(
        self, bundle: CheckpointBundle, graph: OpGraph, library: Mapping[str, OpGraph]
    ) -> None:
        self._bundle = bundle
        self._keys = {**_by_objects(bundle), **_by_restoring(graph, library)}

    def key(self, name: str) -> str:
        """Return the key of a variable."""
        found = self._keys.get(name, name)
        if found not in self._bundle.tensors:
            known = [*self._keys, *self._bundle.tensors]
            raise InputError(f"the checkpoint holds no variable {name!r}{nearest(name, known)}")
        return found


def _by_objects(bundle: CheckpointBundle) -> dict[str, str]:
    """The keys that the checkpoint's graph of objects has for full names, each of them once."""
    if _OBJECTS not in bundle.tensors:
        return {}
    data = bundle.content(_OBJECTS)
    at = next((i + 1 for i, x in enumerate(data) if x < 128), len(data))
    proto = parse("ObjectGraph", data[at + _CHECKSUM :], "the graph of objects of the checkpoint")
    found: dict[str, list[str]] = {}
    for node in proto.nodes:
        for x in node.attributes:
            if x.full_name:
                found.setdefault(x.full_name, []).append(x.checkpoint_key)
    return {name: keys[0] for name, keys in found.items() if len(set(keys)) == 1}


def _by_restoring(graph: OpGraph, library: Mapping[str, OpGraph]) -> dict[str, str]:
    """The keys that the function which restores variables reads for each of them."""
    handles = {x.outputs[0]: shared_name(x) for x in graph.nodes if x.op in HANDLES and x.outputs}
    found = _assigned(graph, handles)
    for node in graph.nodes:
        called = library.get(str(node.attributes.get("f")))
        if called is None or not any(x.op == _RESTORE for x in called.nodes):
            continue
        pairs = zip(called.inputs, node.inputs, strict=False)
        found |= _assigned(called, {x: handles[y] for x, y in pairs if y in handles})
    return found


def _assigned(graph: OpGraph, handles: Mapping[str, str]) -> dict[str, str]:
    """The keys of what a graph restores and assigns to variables, by their handles."""
    made = {y: x for x in graph.nodes for y in x.outputs}
    found = {}
    for node in graph.nodes:
        if node.op != _ASSIGN or node.inputs[0] not in handles:
            continue
        value = node.inputs[1]
        while value in made and made[value].op in _PASSED:
            value = made[value].inputs[0]
        source = made.get(value)
        if source is None or source.op != _RESTORE:
            continue
        names = made.get(source.inputs[1])
        listed: Any = None if names is None else names.attributes.get("value")
        keys = [] if listed is None else np.asarray(listed, object).reshape(-1).tolist()
        number = int(value.rpartition(":")[2])
        if number < len(keys):
            key = keys[number]
            found[handles[node.inputs[0]]] = key.decode() if isinstance(key, bytes) else str(key)
    return found
