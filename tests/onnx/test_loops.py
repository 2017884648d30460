"""Loop and Scan: as one module where the number of steps is known, step by step otherwise."""

import numpy as np
import pytest
from tests.onnx.models import FLOAT, INT64, helper, model, tensor

from lowtide.ir import Opcode
from lowtide.onnx import InferenceSession, read_module

onnx_reference = pytest.importorskip("onnx.reference", reason="it is the judge of loops")

QUICK = {"effort": "fast", "cache": False, "threads": 1, "compiler": "here"}
BOOL = 9
X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)


def body(nodes, carried, outputs, condition="going_on"):
    """The body of a Loop: `carried` names come in, `outputs` go out behind the condition."""
    inputs = [tensor("step", INT64, []), tensor("going", BOOL, [])]
    inputs += [tensor(x, kind, sizes) for x, (kind, sizes) in carried.items()]
    results = [tensor(condition, BOOL, None), *[tensor(x, FLOAT, None) for x in outputs]]
    return helper.make_graph(nodes, "body", inputs, results)


def scan_body(nodes, inputs, outputs):
    given = [tensor(x, FLOAT, None) for x in inputs]
    return helper.make_graph(nodes, "body", given, [tensor(x, FLOAT, None) for x in outputs])


def same_as_others(proto, feeds, expected=None):
    """Hold a session's results to the expected ones, and to ONNX Runtime's if it is there.

    Those of the reference are expected if no others are given.
    """
    session = InferenceSession(proto, **QUICK)
    found = session.run(None, feeds)
    judges = [expected or onnx_reference.ReferenceEvaluator(proto).run(None, feeds)]
    try:
        import onnxruntime
    except ImportError:
        pass
    else:
        proto.ir_version = 10
        other = onnxruntime.InferenceSession(
            proto.SerializeToString(), None, ["CPUExecutionProvider"]
        )
        judges.append(other.run(None, feeds))
    for expected in judges:
        for x, y in zip(found, expected, strict=True):
            assert x.dtype == y.dtype and x.shape == y.shape
            np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-6)
    return session


def opcodes(module):
    return {x.opcode for c in module.computations.values() for x in c.instructions.values()}


def counting(most=None, limit=None):
    """A Loop that adds a row; it ends after `most` steps, or where a counter says so."""
    nodes = [
        helper.make_node("Add", ["total", "row"], ["after"]),
        helper.make_node("Mul", ["after", "w"], ["copy"]),
    ]
    carried = {"total": (FLOAT, [4]), "row": (FLOAT, [4])}
    results = ["after", "row_out", "copy"]
    nodes.append(helper.make_node("Identity", ["row"], ["row_out"]))
    initial = ["start", "x0"]
    if limit is None:
        nodes.append(helper.make_node("Identity", ["going"], ["going_on"]))
    else:
        nodes += [
            helper.make_node("Add", ["time", "one"], ["time_out"]),
            helper.make_node("Less", ["time_out", "end"], ["going_on"]),
        ]
        carried = {"time": (INT64, []), **carried}
        results = ["time_out", *results]
        initial = ["zero", *initial]
    loop = helper.make_node(
        "Loop",
        ["most" if most is not None else "", "truth", *initial],
        [*(["time_end"] if limit is not None else []), "last", "row_last", "copies"],
        body=body(nodes, carried, results),
    )
    if limit is not None:
        loop.attribute[0].g.output[1].CopyFrom(tensor("time_out", INT64, None))
    constants = {
        "truth": np.array(True),
        "zero": np.array(0),
        "one": np.array(1),
        "end": np.array(limit or 0),
        "w": np.arange(4, dtype=np.float32),
        "start": np.zeros(4, np.float32),
    }
    if most is not None:
        constants["most"] = np.array(most)
    used = {x for y in (*nodes, loop) for x in y.input}
    constants = {x: y for x, y in constants.items() if x in used}
    results = [tensor("last", FLOAT, [4]), tensor("copies", FLOAT, [None, 4])]
    return model([loop], [tensor("x0", FLOAT, [4])], results, constants)


@pytest.mark.parametrize(
    ("most", "limit", "steps"), [(5, None, 5), (1, None, 1), (None, 7, 7), (3, 7, 3), (9, 7, 7)]
)
def test_a_loop_whose_steps_are_known_stacks_in_a_module(most, limit, steps):
    proto = counting(most, limit)
    session = same_as_others(proto, {"x0": X[0]})
    assert len(session.memory["programs"]) == 1
    module = read_module(proto)
    assert Opcode.WHILE in opcodes(module)
    assert module.entry.root.shape.tuple_shapes[1].dimensions == (steps, 4)


def test_a_loop_of_no_steps_gives_what_it_started_from_and_an_empty_stack():
    module = read_module(counting(0))
    assert Opcode.WHILE not in opcodes(module)
    last, copies = InferenceSession(counting(0), **QUICK).run(None, {"x0": X[0]})
    np.testing.assert_array_equal(last, np.zeros(4))
    assert copies.shape == (0, 4)


def by_rows(limit_from="Shape", condition=None):
    """A Loop over the rows of x, which it gathers by its step: running sums, stacked."""
    nodes = [
        helper.make_node("Gather", ["x", "step"], ["row"], axis=0),
        helper.make_node("Add", ["total", "row"], ["after"]),
        helper.make_node("Identity", ["after"], ["copy"]),
    ]
    if condition is None:
        nodes.append(helper.make_node("Identity", ["going"], ["going_on"]))
    else:
        nodes += [
            helper.make_node("ReduceSum", ["after"], ["sum"], keepdims=0),
            helper.make_node("Less", ["sum", "bound"], ["going_on"]),
        ]
    carried = {"total": (FLOAT, [4])}
    loop = helper.make_node(
        "Loop",
        ["most", "truth", "start"],
        ["last", "all"],
        body=body(nodes, carried, ["after", "copy"]),
    )
    before = []
    if limit_from == "Shape":
        before = [
            helper.make_node("Shape", ["x"], ["sizes"], start=0, end=1),
            helper.make_node("Squeeze", ["sizes"], ["most"]),
        ]
    constants = {"start": np.zeros(4, np.float32), "truth": np.array(True)}
    if condition is not None:
        constants["bound"] = np.array(condition, np.float32)
    inputs = [tensor("x", FLOAT, ["n", 4])]
    if limit_from == "argument":
        inputs.append(tensor("most", INT64, []))
    outputs = [tensor("last", FLOAT, [4]), tensor("all", FLOAT, [None, 4])]
    return model([*before, loop], inputs, outputs, constants)


@pytest.mark.parametrize("n", [1, 3, 6])
def test_a_limit_that_shapes_say_is_known(n):
    x = np.random.default_rng(n).normal(size=(n, 4)).astype(np.float32)
    session = same_as_others(by_rows(), {"x": x})
    assert len(session.memory["programs"]) == 1
    np.testing.assert_allclose(session.run(None, {"x": x})[1], np.cumsum(x, 0), atol=1e-5)


@pytest.mark.parametrize("bound", [-2.0, 100.0, -100.0])
def test_a_condition_on_data_is_run_step_by_step(bound):
    same_as_others(by_rows(condition=bound), {"x": X})
    with pytest.raises(Exception, match="how many outputs it stacks is not known"):
        read_module(by_rows(condition=bound), {"n": 3})


def test_a_limit_that_is_an_argument_is_run_step_by_step():
    for most in (1, 3):
        same_as_others(by_rows("argument"), {"x": X, "most": np.array(most)})


def test_a_loop_in_a_loop_stacks_stacks():
    inner_nodes = [
        helper.make_node("Mul", ["inner_total", "x"], ["inner_after"]),
        helper.make_node("Add", ["inner_after", "total"], ["inner_copy"]),
        helper.make_node("Identity", ["inner_going"], ["inner_on"]),
    ]
    inner = helper.make_graph(
        inner_nodes,
        "inner",
        [
            tensor("inner_step", INT64, []),
            tensor("inner_going", BOOL, []),
            tensor("inner_total", FLOAT, [3, 4]),
        ],
        [
            tensor(x, BOOL if x == "inner_on" else FLOAT, None)
            for x in ("inner_on", "inner_after", "inner_copy")
        ],
    )
    nodes = [
        helper.make_node("Loop", ["two", "truth", "total"], ["product", "products"], body=inner),
        helper.make_node("Add", ["product", "x"], ["after"]),
        helper.make_node("Identity", ["going"], ["going_on"]),
    ]
    outer = body(nodes, {"total": (FLOAT, [3, 4])}, ["after", "products"])
    loop = helper.make_node("Loop", ["three", "truth", "x"], ["last", "all"], body=outer)
    outputs = [tensor("last", FLOAT, [3, 4]), tensor("all", FLOAT, None)]
    constants = {"two": np.array(2), "three": np.array(3), "truth": np.array(True)}
    proto = model([loop], [tensor("x", FLOAT, [3, 4])], outputs, constants)
    total, stack = X, []
    for _ in range(3):
        products = [total * X * a + total for a in (1, X)]
        total, stack = total * X * X + X, [*stack, np.stack(products)]
    session = same_as_others(proto, {"x": X}, [total, np.stack(stack)])
    assert len(session.memory["programs"]) == 1


def test_what_grows_from_step_to_step_is_run_by_the_host():
    nodes = [
        helper.make_node("Concat", ["total", "x"], ["after"], axis=0),
        helper.make_node("ReduceSum", ["after"], ["sum"], keepdims=0),
        helper.make_node("Identity", ["going"], ["going_on"]),
    ]
    given = body(nodes, {"total": (FLOAT, None)}, ["after", "sum"])
    loop = helper.make_node("Loop", ["three", "truth", "x"], ["last", "sums"], body=given)
    outputs = [tensor("last", FLOAT, None), tensor("sums", FLOAT, None)]
    constants = {"three": np.array(3), "truth": np.array(True)}
    proto = model([loop], [tensor("x", FLOAT, [3, 4])], outputs, constants)
    wholes = [np.concatenate([X] * n) for n in (2, 3, 4)]
    same_as_others(proto, {"x": X}, [wholes[-1], np.stack([y.sum() for y in wholes])])


def scanned(sizes, **attributes):
    """A Scan over x and y that carries a running sum, and stacks sums and products."""
    nodes = [
        helper.make_node("Add", ["total", "a"], ["sum"]),
        helper.make_node("Add", ["sum", "w"], ["after"]),
        helper.make_node("Mul", ["a", "b"], ["product"]),
        helper.make_node("Identity", ["after"], ["copy"]),
    ]
    given = scan_body(nodes, ["total", "a", "b"], ["after", "copy", "product"])
    node = helper.make_node(
        "Scan", ["start", "x", "y"], ["last", "sums", "products"],
        body=given, num_scan_inputs=2, **attributes,
    )  # fmt: skip
    outputs = [tensor(x, FLOAT, None) for x in ("last", "sums", "products")]
    inputs = [tensor("x", FLOAT, sizes[0]), tensor("y", FLOAT, sizes[1])]
    constants = {"start": np.zeros(4, np.float32), "w": np.ones(4, np.float32)}
    return model([node], inputs, outputs, constants)


def scan_expected(feeds, attributes):
    """What `scanned` gives by the definition, whose attributes the reference does not have."""
    axes = attributes.get("scan_input_axes", [0, 0])
    backward = attributes.get("scan_input_directions", [0, 0])
    x, y = [np.moveaxis(feeds[name], axis, 0) for name, axis in zip("xy", axes, strict=True)]
    x, y = [z[::-1] if back else z for z, back in zip((x, y), backward, strict=True)]
    sums = np.cumsum(x + 1, 0)
    backward = attributes.get("scan_output_directions", [0, 0])
    stacks = [z[::-1] if back else z for z, back in zip((sums, x * y), backward, strict=True)]
    axes = attributes.get("scan_output_axes", [0, 0])
    return [sums[-1], *[np.moveaxis(z, 0, axis) for z, axis in zip(stacks, axes, strict=True)]]


@pytest.mark.parametrize(
    ("sizes", "attributes"),
    [
        (([3, 4], [3, 4]), {}),
        (([1, 4], [1, 4]), {}),
        (([3, 4], [3, 4]), {"scan_input_directions": [1, 0]}),
        (([3, 4], [3, 4]), {"scan_output_directions": [0, 1]}),
        (([4, 3], [3, 4]), {"scan_input_axes": [1, 0], "scan_output_axes": [1, 0]}),
        (([4, 5], [4, 5]), {"scan_input_axes": [-1, 1], "scan_output_axes": [-1, -2]}),
        (
            ([4, 5], [5, 4]),
            {
                "scan_input_axes": [1, 0],
                "scan_input_directions": [0, 1],
                "scan_output_directions": [1, 1],
            },
        ),
    ],
)
def test_scans_are_modules(sizes, attributes):
    random = np.random.default_rng(3)
    feeds = {x: random.normal(size=s).astype(np.float32) for x, s in zip("xy", sizes, strict=True)}
    proto = scanned(sizes, **attributes)
    session = same_as_others(proto, feeds, scan_expected(feeds, attributes))
    assert len(session.memory["programs"]) == 1
    assert Opcode.WHILE in opcodes(read_module(proto))


def test_sequences_of_different_numbers_of_entries_are_an_error():
    with pytest.raises(Exception, match="different numbers of entries: \\[3, 5\\]"):
        read_module(scanned(([3, 4], [5, 4])))


def test_a_list_with_too_few_entries_is_an_error():
    with pytest.raises(Exception, match="'scan_input_axes' has 1 entries, too few"):
        read_module(scanned(([3, 4], [3, 4]), scan_input_axes=[0]))
