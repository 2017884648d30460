"""Graphs that TensorFlow recorded (`record.py`), with what it gave for them."""

import io
import lzma
import shutil
from pathlib import Path

import numpy as np
import pytest

from lowtide.evaluator import evaluate
from lowtide.frontend.graphs.graph import GraphError, GraphNode, OpGraph
from lowtide.frontend.tensorflow import FunctionDef, NodeDef, compile_graph_def
from lowtide.frontend.tensorflow.frames import functional
from lowtide.frontend.tensorflow.graph_reader import read_graph
from lowtide.frontend.tensorflow.messages import parse
from lowtide.frontend.tensorflow.saved_model import read_saved_model
from lowtide.ir.errors import UnsupportedOpError
from lowtide.verifier import verify

RECORDED = Path(__file__).parent / "recorded"
GRAPHS = dict(np.load(io.BytesIO(lzma.decompress((RECORDED / "graphs.npz.xz").read_bytes()))))
NAMES = sorted({x.partition("/")[0] for x in GRAPHS})


def ops_recorded():
    """The ops that stand in what was recorded."""
    graphs = [graph_of(x) for x in NAMES]
    data = (RECORDED / "saved_state" / "saved_model.pb").read_bytes()
    graphs.append(read_graph(parse("SavedModel", data, "saved_state").meta_graphs[0].graph_def))
    found = {y.op for x in graphs for y in x.nodes}
    return found | {z.op for x in graphs for y in x.functions for z in y.nodes}


def graph_of(name):
    return read_graph(parse("GraphDef", GRAPHS[f"{name}/graph"].tobytes(), name))


def compiled(name):
    graph = graph_of(name)
    values = GRAPHS[f"{name}/values"].tolist()
    return compile_graph_def(graph.nodes, values, functions=graph.functions)


@pytest.mark.parametrize("name", NAMES)
def test_graph_gives_what_tensorflow_gave(name):
    program = compiled(name)
    verify(program.module)
    given = [GRAPHS[f"{name}/in/{x.removesuffix(':0')}"] for x in program.arguments]
    found = evaluate(program.module, given)
    for number, value in enumerate(found):
        wanted = GRAPHS[f"{name}/out/{number}"]
        assert (value.shape, value.dtype) == (wanted.shape, wanted.dtype)
        whole = np.abs(wanted[np.isfinite(wanted)])
        scale = max(1.0, float(whole.max(initial=0))) if wanted.dtype.kind == "f" else 0
        np.testing.assert_allclose(value, wanted, rtol=1e-5, atol=2e-6 * scale, err_msg=str(number))


def test_random_numbers_that_no_function_rounds_are_equal_to_the_last_bit():
    program = compiled("stateless_numbers")
    found = evaluate(program.module, [GRAPHS["stateless_numbers/in/seed"]])
    uniform = [0, 3, 6, 9, *range(12, len(found))]
    skipped = {19, 20}  # normal numbers
    for number in [x for x in uniform if x not in skipped]:
        np.testing.assert_array_equal(found[number], GRAPHS[f"stateless_numbers/out/{number}"])


def test_a_saved_model_goes_on_with_random_numbers_and_variables():
    program = read_saved_model(RECORDED / "saved_state")
    wanted = dict(np.load(RECORDED / "saved_state.npz"))
    state = [program.state[i] for i in sorted(program.state)]
    names = [x.name for x in program.signature.outputs]
    for step in range(3):
        found = evaluate(program.module, [wanted["x"], *state])
        for name, value in zip(names, found, strict=False):
            np.testing.assert_allclose(
                value, wanted[f"{step}/{name}"], rtol=1e-5, atol=1e-6, err_msg=f"{step} {name}"
            )
        state = list(found[len(names) :])


def test_an_update_that_is_not_known_is_told_though_no_output_reads_it(tmp_path):
    folder = tmp_path / "m"
    shutil.copytree(RECORDED / "saved_state", folder)
    path = folder / "saved_model.pb"
    proto = parse("SavedModel", path.read_bytes(), str(path))
    nodes = [x for f in proto.meta_graphs[0].graph_def.library.function for x in f.node_def]
    changed = [x for x in nodes if x.op in ("ResourceApplyAdadelta", "ResourceApplyRMSProp")]
    assert len(changed) == 2
    for node in changed:
        node.op = node.op.replace("Apply", "Appli")
    path.write_bytes(proto.SerializeToString())
    text = (
        r"saved_model\.pb: there are no kernels for 2 ops among .*: 'ResourceAppliRMSProp' "
        r"\(node 'ResourceApplyRMSProp'; nearest: 'ResourceApplyRMSProp'\), 'ResourceAppliAdadelta'"
    )
    with pytest.raises(UnsupportedOpError, match=text):
        read_saved_model(folder)


def test_ops_without_a_kernel_are_told_at_once_those_within_loops_too():
    graph = graph_of("loops_of_1")
    nodes = [
        NodeDef(
            x.name, {"Tanh": "Tamh", "MatMul": "MatMull"}.get(x.op, x.op), x.inputs, x.attributes
        )
        for x in graph.nodes
    ]
    with pytest.raises(UnsupportedOpError, match=r"2 ops .*'MatMull' .*'MatMul'\), 'Tamh' "):
        compile_graph_def(nodes, GRAPHS["loops_of_1/values"].tolist())


def loop(**changes):
    """One value that a frame doubles while a condition holds; some nodes of it changed."""
    nodes = {
        "enter": GraphNode("enter", "Enter", ("x:0",), ("enter:0",), {"frame_name": b"f"}),
        "merge": GraphNode("merge", "Merge", ("enter:0", "next:0"), ("merge:0",)),
        "test": GraphNode("test", "LoopCond", ("p:0",), ("test:0",)),
        "switch": GraphNode("switch", "Switch", ("merge:0", "test:0"), ("switch:0", "switch:1")),
        "twice": GraphNode("twice", "AddV2", ("switch:1", "switch:1"), ("twice:0",)),
        "p": GraphNode("p", "IsFinite", ("merge:0",), ("p:0",)),
        "next": GraphNode("next", "NextIteration", ("twice:0",), ("next:0",)),
        "exit": GraphNode("exit", "Exit", ("switch:0",), ("exit:0",)),
    }
    nodes |= changes
    return OpGraph("g", ("x:0",), tuple([x for x in nodes.values() if x]), ("exit:0",))


def test_a_frame_becomes_a_loop():
    found = functional(loop())
    assert [x.op for x in found.graph.nodes] == ["While", "Identity"]
    assert len(found.functions) == 2


def test_a_frame_without_a_condition_or_a_next_step_is_told():
    with pytest.raises(GraphError, match="frame 'f' has 0 nodes LoopCond, expected 1"):
        functional(loop(test=None))
    passed = GraphNode("next", "Identity", ("twice:0",), ("next:0",))
    with pytest.raises(GraphError, match=r"node 'merge' \(Merge\): a value of a loop goes on by"):
        functional(loop(next=passed))


def test_a_merge_without_a_switch_is_told():
    node = GraphNode("m", "Merge", ("x:0", "y:0"), ("m:0",))
    with pytest.raises(GraphError, match="no Switch is before both of its inputs"):
        functional(OpGraph("g", ("x:0", "y:0"), (node,), ("m:0",)))


def test_lists_of_which_nothing_tells_the_sizes():
    nodes = [
        NodeDef("x", "Placeholder", (), {"dtype": "float", "shape": (2,)}),
        NodeDef("open", "Const", (), {"value": np.int32(-1)}),
        NodeDef("made", "EmptyTensorList", ("open", "open"), {"element_dtype": "float"}),
        NodeDef("more", "TensorListPushBack", ("made", "x")),
        NodeDef("out", "TensorListStack", ("more", "open"), {"element_dtype": "float"}),
    ]
    with pytest.raises(GraphError, match="whose number of entries no loop tells"):
        compile_graph_def(nodes, ["out"])


def pushing_loop(name, inner=None):
    """Three steps, each of which adds an entry to a list, or runs another such loop."""
    condition = FunctionDef(
        f"{name} test",
        ["i", "l"],
        [
            NodeDef("three", "Const", (), {"value": np.int32(3)}),
            NodeDef("p", "Less", ("i", "three")),
        ],
        ["p:z:0"],
    )
    push = [
        NodeDef("entry", "Const", (), {"value": np.ones(2, np.float32)}),
        NodeDef("more", "TensorListPushBack", ("l", "entry")),
    ]
    if inner:
        functions = {"cond": f"{inner} test", "body": f"{inner} body"}
        push = [
            NodeDef("zero", "Const", (), {"value": np.int32(0)}),
            NodeDef("loop", "While", ("zero", "l"), functions),
            NodeDef("more", "Identity", ("loop:1",)),
        ]
    one = NodeDef("one", "Const", (), {"value": np.int32(1)})
    body = FunctionDef(
        f"{name} body",
        ["i", "l"],
        [one, NodeDef("next", "AddV2", ("i", "one")), *push],
        ["next", "more"],
    )
    return [condition, body]


def pushed(before=(), name="a", functions=()):
    """The length of a list after a loop that starts with it as some nodes leave it."""
    nodes = [
        NodeDef("open", "Const", (), {"value": np.int32(-1)}),
        NodeDef("zero", "Const", (), {"value": np.int32(0)}),
        NodeDef("made", "EmptyTensorList", ("open", "open"), {"element_dtype": "float"}),
        *before,
        NodeDef(
            "loop",
            "While",
            ("zero", "more" if before else "made"),
            {"cond": f"{name} test", "body": f"{name} body"},
        ),
        NodeDef("out", "TensorListLength", ("loop:1",)),
    ]
    return compile_graph_def(nodes, ["out"], functions=functions).module


def test_a_list_has_room_for_what_all_steps_add():
    (found,) = evaluate(pushed(functions=pushing_loop("a")), [])
    assert found == 3


def test_lists_whose_number_of_entries_two_loops_make_are_refused():
    functions = [*pushing_loop("a"), *pushing_loop("b", "a")]
    with pytest.raises(GraphError, match=r"list of tensors .* no loop tells"):
        pushed(name="b", functions=functions)


def test_lists_with_entries_before_the_loop_are_refused():
    before = [
        NodeDef("entry", "Const", (), {"value": np.ones(2, np.float32)}),
        NodeDef("more", "TensorListPushBack", ("made", "entry")),
    ]
    with pytest.raises(GraphError, match="number of entries no loop tells"):
        pushed(before, functions=pushing_loop("a"))


def test_another_algorithm_than_philox_is_told():
    nodes = [
        NodeDef("s", "Const", (), {"value": np.array([2], np.int32)}),
        NodeDef("k", "Placeholder", (), {"dtype": "uint64", "shape": (1,)}),
        NodeDef("c", "Placeholder", (), {"dtype": "uint64", "shape": (2,)}),
        NodeDef("a", "Const", (), {"value": np.int32(2)}),
        NodeDef("r", "StatelessRandomUniformV2", ("s", "k", "c", "a"), {"dtype": "float"}),
    ]
    with pytest.raises(GraphError, match="algorithm 2 is not Philox"):
        compile_graph_def(nodes, ["r"])


def test_ops_without_seeds_draw_different_numbers():
    nodes = [
        NodeDef("s", "Const", (), {"value": np.array([4], np.int32)}),
        NodeDef("a", "RandomUniform", ("s",), {"dtype": "float"}),
        NodeDef("b", "RandomUniform", ("s",), {"dtype": "float"}),
    ]
    first, second = evaluate(compile_graph_def(nodes, ["a", "b"]).module, [])
    assert not np.intersect1d(first, second).size
    assert ((first >= 0) & (first < 1)).all()


def test_a_suppression_without_a_size_says_which_one_has_one():
    nodes = [
        NodeDef("b", "Placeholder", attributes={"dtype": "f32", "shape": (4, 4)}),
        NodeDef("s", "Placeholder", attributes={"dtype": "f32", "shape": (4,)}),
        NodeDef("n", "Const", attributes={"value": np.int32(3), "dtype": "s32"}),
        NodeDef("t", "Const", attributes={"value": np.float32(0.5), "dtype": "f32"}),
        NodeDef("kept", "NonMaxSuppressionV3", ["b", "s", "n", "t", "t"]),
    ]
    with pytest.raises(GraphError, match=r"'kept' .*NonMaxSuppressionV4 with pad_to_max_output"):
        compile_graph_def(nodes, ["kept"])
