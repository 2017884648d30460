"""What callers hold and what sessions keep are apart: no run changes another, nor does writing."""

import sys
from threading import Thread

import numpy as np
import pytest
from tests.onnx.models import helper, onnx, tensor

from lowtide.onnx import InferenceSession
from lowtide.onnx.recent import Recent

FLOAT, INT64 = 1, 7
WEIGHTS = np.arange(9, dtype=np.float32).reshape(3, 3)


def model_of(nodes, inputs, outputs, initializers=()):
    graph = helper.make_graph(nodes, "graph", inputs, outputs)
    for name, value in initializers:
        graph.initializer.append(onnx.numpy_helper.from_array(value, name))
    imports = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8).SerializeToString()


def session_of(*parts, **options):
    return InferenceSession(model_of(*parts), threads=1, compiler="here", **options)


def written_over(results):
    """Write to all that can be written to."""
    for x in results:
        if x.flags.writeable:
            x[...] = 77


def product(*nodes, outputs):
    every = [helper.make_node("MatMul", ["x", "w"], ["y"]), *nodes]
    found = [tensor("y", FLOAT, ["n", 3]), *outputs]
    return every, [tensor("x", FLOAT, ["n", 3])], found, [("w", WEIGHTS)]


def turned():
    return product(
        helper.make_node("Transpose", ["w"], ["c"]), outputs=[tensor("c", FLOAT, [3, 3])]
    )


def sized():
    return product(helper.make_node("Shape", ["x"], ["c"]), outputs=[tensor("c", INT64, [2])])


@pytest.mark.parametrize(
    ("parts", "expected"),
    [(turned(), WEIGHTS.T.tolist()), (sized(), [2, 3])],
    ids=["turned", "sized"],
)
@pytest.mark.parametrize("cache", [False, True])
def test_later_runs_do_not_see_what_callers_write_to_results(parts, expected, cache):
    for _ in range(2):
        session = session_of(*parts, cache=cache)
        for _ in range(3):
            results = session.run(None, {"x": np.ones((2, 3), np.float32)})
            assert results[1].tolist() == expected
            written_over(results)


def grown():
    """The input, as often as `m` says, twice its rows."""
    body = helper.make_graph(
        [
            helper.make_node("Concat", ["s", "s"], ["t"], axis=0),
            helper.make_node("Identity", ["c"], ["d"]),
        ],
        "body",
        [tensor("i", INT64, []), tensor("c", 9, []), tensor("s", FLOAT, None)],
        [tensor("d", 9, []), tensor("t", FLOAT, None)],
    )
    nodes = [helper.make_node("Loop", ["m", "", "x"], ["y"], body=body)]
    inputs = [tensor("x", FLOAT, ["n", 3]), tensor("m", INT64, [])]
    return nodes, inputs, [tensor("y", FLOAT, None)]


def passed_on():
    nodes = [helper.make_node("Neg", ["x"], ["y"])]
    inputs = [tensor("x", FLOAT, ["n", 3])]
    return nodes, inputs, [tensor("y", FLOAT, ["n", 3]), *inputs]


@pytest.mark.parametrize(
    ("parts", "more"), [(grown(), {"m": np.array(0)}), (passed_on(), {})], ids=["grown", "passed"]
)
@pytest.mark.parametrize("cache", [False, True])
def test_feeds_do_not_change_where_callers_write_to_results(parts, more, cache):
    for _ in range(2):
        session = session_of(*parts, cache=cache)
        for _ in range(2):
            x = np.ones((2, 3), np.float32)
            written_over(session.run(None, {"x": x, **more}))
            assert (x == 1).all()


def test_constants_do_not_change_where_callers_write_to_feeds():
    nodes = [
        helper.make_node("Reshape", ["x", "s"], ["y"]),
        helper.make_node("Identity", ["s"], ["z"]),
    ]
    inputs = [tensor("x", FLOAT, ["n", 3]), tensor("s", INT64, [2])]
    outputs = [tensor("y", FLOAT, None), tensor("z", INT64, None)]
    session = session_of(nodes, inputs, outputs, cache=False)
    for _ in range(2):
        sizes = np.array([3, 2])
        y, z = session.run(None, {"x": np.ones((2, 3), np.float32), "s": sizes})
        assert y.shape == (3, 2) and z.tolist() == [3, 2]
        sizes[:] = 6, 1


def shaped():
    nodes = [helper.make_node("Reshape", ["x", "s"], ["y"])]
    inputs = [tensor("x", FLOAT, ["n", 3]), tensor("s", INT64, [2])]
    return nodes, inputs, [tensor("y", FLOAT, None)]


@pytest.mark.parametrize("cache", [False, True])
def test_threads_run_a_session_that_keeps_fewer_programs_than_there_are(cache):
    session = session_of(*shaped(), kept=1, cache=cache)
    found = []

    def run(first):
        for number in range(60):
            rows = 1 + (first + number) % 3
            x = np.full((rows, 3), number, np.float32)
            try:
                y = session.run(None, {"x": x, "s": np.array([1, 3 * rows])})[0]
                found.append(y.shape == (1, 3 * rows) and bool((y == number).all()))
            except Exception as error:
                found.append(repr(error))

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [Thread(target=run, args=(x,)) for x in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert found == [True] * 240


def test_a_node_that_another_thread_gave_the_host_is_run():
    """A run of other sizes comes to its step behind that, as the lock lets it in."""
    session = session_of(*grown(), cache=False)
    runner, feeds = session._runner, {"m": np.array(2)}
    make, found = runner._step, []

    def other():
        found.append(session.run(None, {"x": np.ones((2, 3), np.float32), **feeds})[0].shape)

    def behind_another(*given):
        runner._step = make
        thread = Thread(target=other)
        thread.start()
        thread.join()
        return make(*given)

    runner._step = behind_another
    assert session.run(None, {"x": np.ones((1, 3), np.float32), **feeds})[0].shape == (4, 3)
    assert found == [(8, 3)]


def test_what_decides_about_a_step_is_read_with_it():
    """No other thread finds a deciding value to have too many cases in between."""
    session = session_of(*grown(), cache=False)
    runner, held = session._runner, []
    read = runner._whole_step

    def watched(given):
        held.append(runner._lock.locked())
        return read(given)

    runner._whole_step = watched
    session.run(None, {"x": np.ones((1, 3), np.float32), "m": np.array(2)})
    assert held == [True]


def test_values_used_last_stay():
    recent = Recent()
    assert recent.found("a", lambda: 1, 2) == 1 and recent.found("a", lambda: 9, 2) == 1
    recent.add("b", 2, 2)
    assert recent.find("a") == 1
    recent.add("c", 3, 2)
    assert recent.find("b") is None and recent.values() == [1, 3]
    recent.use(lambda x: x == 1)
    recent.add("d", 4, 2)
    assert recent.values() == [1, 4]
    recent.clear()
    assert recent.values() == [] and recent.find("a") is None
