"""Memory graphs from JSON."""

import json

import pytest
from tests.support import SHARED, needs_shared, read_text

from lowtide.analysis.memory_profile import peak_bytes
from lowtide.frontend.graph_json import read_graph_json
from lowtide.ir import InputError

GRAPHS = SHARED / "benchmarks" / "memory_graphs"


def document() -> dict:
    """Two nodes in a row, of which the second writes over what it reads."""
    nodes = [
        {"name": "b", "opcode": "dot", "seconds": 1.5, "scratch_bytes": 3, "control": []},
        {"name": "a", "opcode": "add", "seconds": 0, "scratch_bytes": 0, "control": [0]},
    ]
    first = {"bytes": 8, "producer": 0, "consumers": [1], "live_out": False, "may_reuse": []}
    second = {"bytes": 8, "producer": 1, "consumers": [], "live_out": True, "may_reuse": [0]}
    return {"name": "g", "source": "s", "notes": "n", "nodes": nodes, "buffers": [first, second]}


def test_a_graph_has_what_the_file_says() -> None:
    found = read_graph_json(json.dumps(document()))
    graph = found.graph
    assert (found.name, found.source, found.notes) == ("g", "s", "n")
    assert (found.node_names, found.opcodes) == (("b", "a"), ("dot", "add"))
    assert graph.seconds.tolist() == [1.5, 0]
    assert graph.scratch_bytes.tolist() == [3, 0]
    assert graph.operands.rows() == [[], [0]]
    assert graph.control.rows() == [[], [0]], "it may not run again, which reading does not say"
    assert graph.shares.tolist() == [[1, 0, 1]]
    assert graph.live_out.tolist() == [False, True]
    assert peak_bytes(graph, [0, 1]) == 11


def changed(path: str, value: object) -> str:
    """The document with one field set, or taken out where `value` is None."""
    found = document()
    *steps, last = [int(x) if x.isdigit() else x for x in path.split(".")]
    at = found
    for step in steps:
        at = at[step]
    if value is None:
        del at[last]
    else:
        at[last] = value
    return json.dumps(found)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "f: line 1, column 2: not JSON: "),
        ("[]", "f: not a memory graph: expected an object"),
        ("[" * 100_000, "f: not a memory graph: it nests too deeply"),
        ("{}", "f: nodes: no field 'nodes'"),
        (changed("name", 3), "f: name: expected a string, found 3"),
        (changed("nodes", {}), "f: nodes: expected a list, found {}"),
        (changed("nodes.1", 7), "f: nodes[1]: expected an object, found 7"),
        (changed("nodes.1.opcode", None), "f: nodes[1]: no field 'opcode'"),
        (changed("nodes.1.seconds", -1), "f: nodes[1].seconds: expected seconds"),
        (changed("nodes.1.seconds", float("nan")), "f: nodes[1].seconds: expected seconds"),
        (changed("nodes.0.scratch_bytes", True), "f: nodes[0].scratch_bytes: expected whole bytes"),
        (changed("nodes.0.control", [2]), "f: nodes[0].control[0]: expected the number of a node"),
        (changed("nodes.0.control", [1]), "f: nodes: these nodes wait for each other: 0, 1"),
        (changed("buffers.0.bytes", 1 << 62), "f: buffers[0].bytes: expected whole bytes from 0"),
        (changed("buffers.0.producer", -2), "f: buffers[0].producer: expected the number of a nod"),
        (changed("buffers.0.consumers", ["1"]), 'f: buffers[0].consumers[0]: expected the number'),
        (changed("buffers.0.live_out", 1), "f: buffers[0].live_out: expected true or false"),
        (changed("buffers.1.bytes", 9), "f: buffers[1].may_reuse: buffer 0 has 8 bytes, this one"),
        (changed("buffers.0.may_reuse", [1]), "f: buffers[0].may_reuse: the producer, node 0, doe"),
        (changed("buffers.0.consumers", [0, 1]), "f: nodes: these nodes wait for each other: 0"),
    ],
)  # fmt: skip
def test_a_malformed_file_is_one_clear_error(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        read_graph_json(text, "f")
    assert str(caught.value).startswith(message)


@needs_shared
@pytest.mark.parametrize("path", sorted(GRAPHS.glob("*.xz"))[::9], ids=lambda path: path.name)
def test_the_shared_graphs_are_read(path) -> None:
    data = json.loads(read_text(path))
    found = read_graph_json(json.dumps(data))
    assert found.name == data["name"]
    assert found.graph.node_count == len(data["nodes"])
    assert found.graph.buffer_bytes.tolist() == [x["bytes"] for x in data["buffers"]]
    assert found.graph.consumers.rows() == [x["consumers"] for x in data["buffers"]]
