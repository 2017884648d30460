"""Malformed graphs, tables and options: errors that name node and field."""

import pytest

from lowtide.planning import nnvm


def good():
    return {
        "nodes": [
            {"name": "x", "op": None, "inputs": [], "sizes": [8]},
            {"name": "a", "op": "relu", "inputs": [[0, 0]], "sizes": [8]},
            {"name": "b", "op": "elemwise_add", "inputs": [[0, 0], [1, 0]], "sizes": [8]},
        ],
        "outputs": [[2, 0]],
    }


def test_the_graph_that_the_cases_below_change():
    assert nnvm.plan(good()).not_allocated == 0


NODE = r"node 1 \(a\): "


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"op": "rellu"}, NODE + r"field 'op': unknown op 'rellu'; did you mean 'relu'\?"),
        ({"op": 3}, NODE + "field 'op': expected a name or null, found 3"),
        ({"inputs": [[2, 0]]}, NODE + r"inputs\[0\] is of node 2 \(b\), which is not before it"),
        ({"inputs": [[1, 0]]}, NODE + r"inputs\[0\] is of node 1 \(a\), which is not before it"),
        ({"inputs": [[7, 0]]}, NODE + r"inputs\[0\] is of node 7; there are 3 nodes"),
        ({"inputs": [[0, 1]]}, NODE + r"inputs\[0\] is output 1 of node 0 \(x\), of 1"),
        ({"inputs": [[0]]}, NODE + r"inputs\[0\]: expected \[node, output\], found \[0\]"),
        ({"inputs": [[0, "0"]]}, NODE + r"inputs\[0\]: expected a whole number, found '0'"),
        ({"inputs": 3}, NODE + "field 'inputs': expected a list, found 3"),
        ({"inputs": []}, NODE + "relu writes output 0 over input 0; the node has"),
        ({"sizes": []}, r"node 2 \(b\): inputs\[1\] is output 0 of node 1 \(a\), of 0"),
        ({"sizes": [-2]}, NODE + "field 'sizes': expected -1 or more, found -2"),
        ({"sizes": [1.5]}, NODE + "field 'sizes': expected a whole number, found 1.5"),
        ({"shapes": [[2, 3]]}, NODE + r"field 'shapes' has \[6\] elements, not \[8\]"),
        ({"shapes": [[2, -4]]}, NODE + "field 'shapes': expected sizes from 0 on"),
        ({"dtype": [0, 0]}, NODE + "field 'dtype' has 2 types, 'sizes' 1"),
        ({"dtype": None}, NODE + "field 'dtype': expected a number or a name, found None"),
        ({"size": [8]}, NODE + r"unknown field 'size'; did you mean 'sizes'\?"),
        ({"ignore_inputs": [1]}, NODE + "relu ignores input 1; the node has 1 in field 'inputs'"),
        ({"inplace_pairs": [[0]]}, NODE + r"field 'inplace_pairs': expected pairs"),
        ({"inplace_pairs": [[0, 0]], "identity": [True, False]}, NODE + "field 'identity' has 2"),
        ({"pattern": "broadcst"}, NODE + r"unknown pattern 'broadcst'; did you mean 'broadcast'"),
        ({"pattern": 5}, NODE + "field 'pattern': expected one of"),
    ],
)
def test_nodes(change, message):
    graph = good()
    graph["nodes"][1] |= change
    with pytest.raises(ValueError, match=message):
        nnvm.plan(graph)


@pytest.mark.parametrize("field", ["op", "inputs", "sizes"])
def test_missing_fields(field):
    graph = good()
    del graph["nodes"][1][field]
    with pytest.raises(ValueError, match=NODE + f"field '{field}' is missing"):
        nnvm.plan(graph)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"outputs": [[3, 0]]}, r"outputs\[0\] is of node 3; there are 3 nodes"),
        ({"outputs": [[2, 1]]}, r"outputs\[0\] is output 1 of node 2 \(b\), of 1"),
        ({"storage": [-1, -1]}, "field 'storage' has 2 values; there are 3 entries"),
        ({"storage": [-1, 5, -1]}, "field 'storage' has 5 for entry 1"),
        ({"ref_count": [1, -1, 1]}, "field 'ref_count' has -1 for entry 1"),
        ({"node_range": [2, 1]}, "field 'node_range' is 2 to 1; there are 3 nodes"),
        ({"node_range": [0]}, "field 'node_range': expected two, found 1"),
        ({"device": [0]}, "field 'device' has 1, 'nodes' 3"),
        ({"output": []}, r"unknown field 'output'; did you mean 'outputs'\?"),
        ({"nodes": [3]}, "node 0: expected an object, found 3"),
    ],
)
def test_graphs(change, message):
    with pytest.raises(ValueError, match=message):
        nnvm.plan(good() | change)


def test_a_variable_computes_nothing():
    graph = good()
    graph["nodes"][0]["sizes"] = [1, 2]
    with pytest.raises(ValueError, match=r"node 0 \(x\): a variable has no inputs and one size"):
        nnvm.plan(graph)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"match_range": -1}, "match_range is -1"),
        ({"num_temp": -1}, "num_temp is -1"),
        ({"variant": "mxnet"}, "unknown variant 'mxnet'; there are: nnvm, tvm, relay"),
        ({"ops": {"relu": 3}}, "op 'relu': expected an object with"),
        ({"ops": {"relu": {"ignore_inputs": [0, 0]}}}, "op 'relu': field 'ignore_inputs' names"),
    ],
)
def test_options(options, message):
    with pytest.raises(ValueError, match=message):
        nnvm.plan(good(), **options)


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"NNVM_EXEC_MATCH_RANGE": "-1"}, "NNVM_EXEC_MATCH_RANGE is '-1'; expected a number"),
        ({"NNVM_EXEC_NUM_TEMP": "two"}, "NNVM_EXEC_NUM_TEMP is 'two'"),
        ({"NNVM_AUTO_SEARCH_MATCH_RANGE": "2"}, "NNVM_AUTO_SEARCH_MATCH_RANGE is '2'"),
    ],
)
def test_variables_of_the_environment(variables, message):
    with pytest.raises(ValueError, match=message):
        nnvm.options_from(variables)
    assert nnvm.options_from({"NNVM_AUTO_SEARCH_MATCH_RANGE": "", "PATH": "?"}) == {
        "match_range": 16,
        "auto_search_match_range": False,
        "num_temp": 1,
    }


def test_other_fields_are_notes():
    graph = good()
    graph["nodes"][1]["note"] = "anything"
    assert nnvm.plan(graph | {"split": "x", "expected": {}}) == nnvm.plan(good())


@pytest.mark.parametrize("field", ["storage", "ref_count", "node_range"])
def test_relay_has_no_presets(field):
    presets = {"storage": [-1, -1, -1], "ref_count": [1, 1, 1], "node_range": [0, 1]}
    with pytest.raises(ValueError, match="the variant 'relay' has no"):
        nnvm.plan(good() | {field: presets[field]}, variant="relay")
