"""Graphs of NNVM, MXNet and Relay: told by their content, planned both ways, run."""

import json

import numpy as np
import pytest
from tests.nnvm.documents import GRAPHS, Document, compiled, residual

from lowtide.cli.main import main
from lowtide.evaluator import evaluate
from lowtide.frontend.file_kinds import looks_like_nnvm
from lowtide.frontend.graphs.graph import GraphError
from lowtide.frontend.nnvm.document import read_nnvm
from lowtide.frontend.nnvm.module import module_of, with_shapes
from lowtide.ir.errors import InputError, UnsupportedOpError
from lowtide.nnvm.plans import NnvmSettings, graph_fields, plan_both
from lowtide.planning import nnvm


def document(content, shapes=()):
    return with_shapes(read_nnvm(json.dumps(content)), dict(shapes))


def independent_ids(found, in_place=True):
    """Ids by the algorithm as Chen et al. and NNVM have it, written anew: first dead, best fit."""
    fields, _ = graph_fields(found, in_place=in_place)
    reads, first, total = {}, [], 0
    for node in fields["nodes"]:
        first.append(total)
        total += len(node["shapes"])
    for pair in [x for node in fields["nodes"] for x in node["inputs"]] + fields["outputs"]:
        entry = first[pair[0]] + pair[1]
        reads[entry] = reads.get(entry, 0) + 1
    ids, free, size = [-1] * total, [], []
    for number, node in enumerate(fields["nodes"]):
        if node["op"] is None:
            continue
        own = node.get("inplace_pairs")
        traits = nnvm.OPS[node["op"]] if own is None else nnvm.Op()
        counts = [int(np.prod(x)) for x in node["shapes"]]
        given = [first[a] + b for a, b in node["inputs"]]
        taken = {}
        for pair, (i, o) in enumerate(traits.inplace_pairs):
            if i < len(given) and o < len(counts) and o not in taken and i not in taken.values():
                block = ids[given[i]]
                same = counts[o] == int(np.prod(_shape(fields, given[i], first)))
                last = left(reads, given[i], ids, block, traits.is_identity(pair))
                if block >= 0 and same and last and counts[o]:
                    taken[o] = i
        for o, i in taken.items():
            ids[first[number] + o] = ids[given[i]]
        for o in sorted(set(range(len(counts))) - set(taken), key=lambda x: (-counts[x], -x)):
            ids[first[number] + o] = request(free, size, counts[o] * 4)
        for place, entry in enumerate(given):
            if place in traits.ignore_inputs:
                continue
            reads[entry] -= 1
            if not reads[entry] and ids[entry] >= 0 and place not in taken.values():
                free.append(ids[entry])
        unread = [first[number] + o for o in range(len(counts))]
        free += [ids[x] for x in unread if not reads.get(x)]
    return ids


def _shape(fields, entry, first):
    node = max(i for i, x in enumerate(first) if x <= entry)
    return fields["nodes"][node]["shapes"][entry - first[node]]


def left(reads, entry, ids, block, is_identity):
    return reads[entry] == 1 or (is_identity and block >= 0)


def request(free, size, nbytes):
    larger = sorted([(size[x], i) for i, x in enumerate(free) if nbytes <= size[x] <= 16 * nbytes])
    smaller = [(size[x], i) for i, x in enumerate(free) if nbytes // 16 <= size[x] < nbytes]
    if larger:
        return free.pop(larger[0][1])
    if smaller:
        block = free.pop(max(smaller)[1])
        size[block] = nbytes
        return block
    size.append(nbytes)
    return len(size) - 1


@pytest.mark.parametrize("name", GRAPHS)
def test_storage_ids_are_those_of_the_algorithm(name):
    content, shapes = GRAPHS[name]
    found = document(content, shapes.items())
    plan = plan_both(found, NnvmSettings())
    fields, unknown = graph_fields(found, in_place=True)
    assert plan.planned == nnvm.plan(nnvm.read_graph(fields))
    made = [x for x in plan.planned.storage_id if x >= 0]
    assert made == [x for x in independent_ids(found) if x >= 0]
    assert set(unknown) <= {"ElementWiseSum"}
    assert plan.found.bound_bytes <= plan.found.peak_bytes <= plan.live_bytes <= plan.arena_bytes
    assert plan.arena_bytes <= plan.bytes


@pytest.mark.parametrize("name", GRAPHS)
def test_storage_is_never_overwritten_while_it_is_read(name):
    content, shapes = GRAPHS[name]
    found = document(content, shapes.items())
    plan = plan_both(found, NnvmSettings())
    last = {}
    for number, node in enumerate(found.nodes):
        last |= {found.entry(x): number for x in node.inputs}
    last |= {found.entry(x): len(found.nodes) for x in found.heads}
    for number, node in enumerate(found.nodes):
        for entry in range(node.first, node.first + node.count):
            for other in range(node.first):
                if plan.storage[other] == plan.storage[entry]:
                    assert last.get(other, -1) <= number
    assert min(plan.storage) >= 0


def test_options_of_the_algorithm():
    content, shapes = GRAPHS["in place"]
    found = document(content, shapes.items())
    plain = plan_both(found, NnvmSettings())
    apart = plan_both(found, NnvmSettings(in_place=False))
    none = plan_both(found, NnvmSettings(match_range=0, in_place=False))
    assert plain.bytes < apart.bytes < none.bytes
    assert not any(x >= 0 for x in apart.planned.inplace_index)
    assert [len(x.block_bytes) for x in (plain, apart, none)] == [1, 2, 6]
    relay = plan_both(found, NnvmSettings("relay"))
    assert relay.storage == relay.planned.storage_id


def test_graphs_of_the_executor_are_planned_by_the_rules_of_relay(tmp_path, capsys):
    path = tmp_path / "graph.json"
    path.write_text(json.dumps(compiled()))
    assert main(["plan", str(path), "--json", "-o", str(tmp_path / "out.json")]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["variant"] == "relay"
    assert found["storage_id"] == compiled()["attrs"]["storage_id"][1]
    written = json.loads((tmp_path / "out.json").read_text())
    assert written["attrs"]["storage_id"] == ["list_int", found["storage_id"]]
    assert written["nodes"] == compiled()["nodes"]
    assert main(["run", str(path)]) != 0
    assert "Relay's compiler" in capsys.readouterr().err


def test_values_are_those_of_numpy():
    content, shapes = GRAPHS["several outputs"]
    module = module_of(read_nnvm(json.dumps(content)), shapes)
    x = np.random.default_rng(2).uniform(-1, 1, (3, 8, 5)).astype(np.float32)
    both, part = evaluate(module, [x])
    parts = np.split(np.exp(x), 4, 1)
    wanted = np.concatenate([np.maximum(parts[0], 0), parts[3]], 1)
    np.testing.assert_allclose(both, wanted, rtol=1e-6)
    np.testing.assert_allclose(part, parts[1], rtol=1e-6)


def test_a_network_by_numpy():
    d = Document()
    x = d.given("data")
    inputs = [x, *[d.given(y) for y in ("g", "b", "m", "v")]]
    n = d.op("BatchNorm", inputs, eps=0.01, fix_gamma=False)
    p = d.op("Pooling", [n], kernel="(2, 2)", stride="(2, 2)", pool_type="avg")
    f = d.op("FullyConnected", [p, d.given("w"), d.given("c")], num_hidden=3)
    content = d.content(d.op("log_softmax", [f]))
    module = module_of(read_nnvm(json.dumps(content)), {"data": (2, 3, 4, 6)})
    generator = np.random.default_rng(1)
    sizes = [y.shape.dimensions for y in module.entry.parameters]
    assert sizes == [(2, 3, 4, 6), (3,), (3,), (3,), (3,), (3, 18), (3,)]
    values = [generator.uniform(0.1, 1, s).astype(np.float32) for s in sizes]
    data, gamma, beta, mean, variance, w, c = values
    by = [y.reshape(1, 3, 1, 1) for y in (gamma, beta, mean, variance)]
    normal = (data - by[2]) / np.sqrt(by[3] + 0.01) * by[0] + by[1]
    pooled = normal.reshape(2, 3, 2, 2, 3, 2).mean((3, 5)).reshape(2, -1)
    dense = pooled @ w.T + c
    wanted = dense - np.log(np.exp(dense).sum(1, keepdims=True))
    (found,) = evaluate(module, values)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_commands(tmp_path, capsys):
    content, _ = residual()
    path = tmp_path / "net-symbol.json"
    path.write_text(json.dumps(content))
    given = ["--shape", "data=1,8,10,12"]
    assert main(["plan", str(path), *given]) == 0
    lines = capsys.readouterr().out
    assert "nnvm" in lines
    assert "bound" in lines
    assert main(["explain", str(path), *given]) == 0
    capsys.readouterr()
    assert main(["run", str(path), *given, "--reference", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["outputs"][0]["shape"] == "f32[1,960]"


def test_our_own_graphs_are_told_apart():
    ours = {"name": "g", "source": "", "notes": "", "nodes": [], "buffers": []}
    assert not looks_like_nnvm(json.dumps(ours).encode())
    assert looks_like_nnvm(json.dumps(compiled()).encode())


BAD = {
    "shapes": (lambda x: x, {}, "the shape of data, w1, b1, .* is not known; give it: --shape"),
    "name": (lambda x: x, {"dta": (1,)}, "no argument 'dta'; did you mean 'data'"),
    "heads": (lambda x: x | {"heads": [[99, 0, 0]]}, {}, r"heads\[0\]: node 99 does not stand"),
    "rows": (lambda x: x | {"node_row_ptr": [0, 1]}, {}, "node_row_ptr: expected .* numbers"),
    "arguments": (lambda x: x | {"arg_nodes": [3]}, {}, r"arg_nodes\[0\]: expected the number"),
    "types": (
        lambda x: x | {"attrs": {"shape": ["list_shape", [[1]]]}},
        {},
        r"attrs\.shape: expected \[type, list of",
    ),
    "nodes": (lambda x: x | {"nodes": [3]}, {}, r"nodes\[0\]: expected an object, found 3"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_graphs_are_one_error(name):
    change, shapes, message = BAD[name]
    with pytest.raises(InputError, match=message):
        document(change(residual()[0]), shapes.items())


def test_operations_without_a_kernel_are_all_named():
    d = Document()
    x = d.op("Convlution", [d.given("data")])
    content = d.content(d.op("ROIPooling", [x]))
    with pytest.raises(UnsupportedOpError) as found:
        document(content, [("data", (1, 2))])
    assert "Convlution (node 'Convlution1'); did you mean 'Convolution'" in str(found.value)
    assert "ROIPooling" in str(found.value)


def test_an_attribute_that_is_no_number():
    d = Document()
    content = d.content(d.op("Flatten", [convolution_of(d, "eight")]))
    with pytest.raises(GraphError, match="'num_filter' is 'eight'; expected integers"):
        document(content, [("data", (1, 2, 5, 5))])


def convolution_of(d, channels):
    x = d.given("data")
    return d.op("Convolution", [x, d.given("w"), d.given("b")], kernel=(3, 3), num_filter=channels)
