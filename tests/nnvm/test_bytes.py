"""Bytes of graphs by a count that knows nothing of the planner's: what is live at each node."""

import json
import random

import numpy as np
import pytest
from tests.nnvm.documents import GRAPHS, compiled

from lowtide.frontend.nnvm.document import read_nnvm
from lowtide.frontend.nnvm.module import with_shapes
from lowtide.ir import InputError
from lowtide.nnvm.plans import NnvmSettings, plan_both


def live_bytes(found):
    """The most bytes of entries of operations that a node makes or is yet to read."""
    entry = found.entry
    last = {}
    for number, node in enumerate(found.nodes):
        last |= dict.fromkeys(range(node.first, node.first + node.count), number)
        last |= {entry(x): number for x in node.inputs}
    last |= {entry(x): len(found.nodes) for x in found.heads}
    most = 0
    for number in range(len(found.nodes)):
        live = [
            x
            for node in found.nodes[: number + 1]
            if node.op is not None
            for x in range(node.first, node.first + node.count)
            if last[x] >= number
        ]
        sizes = [found.shapes[x] for x in live]
        types = [np.dtype(found.types[x] or "float32") for x in live]
        total = [int(np.prod(s)) * t.itemsize for s, t in zip(sizes, types, strict=True)]
        most = max(most, sum(total))
    return most


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("seed", range(3))
def test_heads_in_the_middle_live_to_the_end(name, seed):
    content, shapes = GRAPHS[name]
    made = [i for i, x in enumerate(content["nodes"]) if x["op"] != "null"]
    rng = random.Random(seed)
    heads = content["heads"] + [[i, 0, 0] for i in rng.sample(made, seed)]
    document = read_nnvm(json.dumps({**content, "heads": heads}))
    found = with_shapes(document, dict(shapes))
    plan = plan_both(found, NnvmSettings(in_place=False))
    assert plan.live_bytes == live_bytes(found)


@pytest.mark.parametrize("kind", ["float16", "float64", "int8"])
def test_elements_have_the_bytes_of_their_type(kind):
    content = json.loads(json.dumps(compiled()).replace("float32", kind))
    found = read_nnvm(json.dumps(content))
    plan = plan_both(found, NnvmSettings("relay", in_place=False))
    assert plan.live_bytes == live_bytes(found)


@pytest.mark.parametrize("kind", ["floaty32", "int3", "float32x"])
def test_an_unknown_type_is_refused_with_its_node(kind):
    found = read_nnvm(json.dumps(compiled()).replace("float32", kind))
    with pytest.raises(InputError, match=f"node '.+': .*'{kind}'"):
        plan_both(found, NnvmSettings("relay"))


def test_more_bytes_than_can_be_addressed_are_refused_with_their_node():
    content = json.loads(json.dumps(compiled()))
    content["attrs"]["shape"][1][-1] = [1 << 39, 1 << 39]
    with pytest.raises(InputError, match=r"node '.+': an output of .* bytes is too large"):
        plan_both(read_nnvm(json.dumps(content)), NnvmSettings("relay"))
