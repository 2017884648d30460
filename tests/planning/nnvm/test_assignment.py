"""Assignments to variables: flags, hazards, and what a run in the storage pool computes."""

import random

import numpy as np
import pytest

from lowtide.planning import nnvm
from lowtide.planning.nnvm import COPY, IN_PLACE, NO_ASSIGN


def graph_of(*rows, outputs=()):
    """Rows are (op, inputs by name ...); `v`, `w`, `x` are variables in front of them."""
    names = {name: k for k, name in enumerate("vwx")}
    nodes = [{"name": name, "op": None, "inputs": [], "sizes": [4]} for name in names]
    for name, op, *inputs in rows:
        names[name] = len(nodes)
        read = [[names[x], 0] for x in inputs]
        nodes.append({"name": name, "op": op, "inputs": read, "sizes": [4]})
    return nnvm.read_graph({"nodes": nodes, "outputs": [[names[x], 0] for x in outputs]})


def decorated(graph, **options):
    return nnvm.decorate(graph, nnvm.plan(graph), **options)


def flags(graph, **options):
    return [flag for flag in decorated(graph, **options).assign_flags if flag != NO_ASSIGN]


def test_right_side_is_computed_in_the_variable():
    graph = graph_of(("r", "elemwise_add", "v", "x"), ("a", "_assign", "v", "r"), outputs="a")
    found = decorated(graph)
    assert found.assign_flags == (0, 0, 0, 0, IN_PLACE)
    v, w, x, r, a = found.storage_id
    assert r == a == v
    assert len({v, w, x}) == 3
    # the block that the plan had for r and a is empty and keeps its number
    assert nnvm.StoragePool(graph, found.storage_id).sizes == (0, 16, 16, 16)


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ([("r", "dense", "v", "x"), ("a", "_assign", "v", "r")], "no pattern up to broadcast"),
        ([("a", "_assign", "v", "x")], "the right-hand side is a variable"),
        (
            [("r", "relu", "x"), ("q", "exp", "r"), ("a", "_assign", "v", "r")],
            "the right-hand side has another reader",
        ),
        ([("r", "transpose", "v"), ("a", "_assign", "v", "r")], "injective"),
    ],
)
def test_assignments_that_nnvm_copies(rows, why):
    graph = graph_of(*rows, outputs="a")
    assert flags(graph) == flags(graph, original=True) == [COPY], why
    assert decorated(graph).hazards == ()


LATER_READER = [("r", "relu", "v"), ("q", "exp", "v"), ("a", "_assign", "v", "r")]


def test_a_later_reader_of_the_variable_is_a_hazard():
    graph = graph_of(*LATER_READER, outputs="aq")
    found = decorated(graph)
    assert flags(graph) == [COPY]
    (hazard,) = found.hazards
    assert (hazard.assign, hazard.right_side, hazard.culprit) == (5, 3, 4)
    assert hazard.sentence == (
        "node 3 (r) cannot be computed in the storage of node 0 (v), which node 5 (a) assigns: "
        "node 4 (q) reads it in between"
    )
    assert flags(graph, original=True) == [IN_PLACE]
    assert decorated(graph, original=True).hazards == found.hazards


def test_readers_before_and_after_are_no_hazard():
    before = [("q", "exp", "v"), ("r", "relu", "v"), ("a", "_assign", "v", "r")]
    assert flags(graph_of(*before, outputs="aq")) == [IN_PLACE]
    after = [("r", "relu", "v"), ("a", "_assign", "v", "r"), ("q", "exp", "v")]
    assert flags(graph_of(*after, outputs="aq")) == [IN_PLACE]


def test_reading_the_variable_other_than_in_place_is_a_hazard():
    rows = [("r", "broadcast_to", "v"), ("a", "_assign", "v", "r")]
    graph = graph_of(*rows, outputs="a")
    assert flags(graph, original=True) == [IN_PLACE]
    assert flags(graph) == [COPY]
    assert "reads it by input 0, not in place" in decorated(graph).hazards[0].sentence


def test_two_assignments_of_one_variable():
    rows = [
        ("r", "relu", "x"),
        ("s", "exp", "x"),
        ("a", "_assign", "v", "r"),
        ("b", "_assign", "v", "s"),
    ]
    graph = graph_of(*rows, outputs="ab")
    assert flags(graph, original=True) == [IN_PLACE, IN_PLACE]
    assert flags(graph) == [COPY, COPY]
    chained = [
        ("r", "relu", "v"),
        ("a", "_assign", "v", "r"),
        ("s", "exp", "a"),
        ("b", "_assign", "a", "s"),
    ]
    graph = graph_of(*chained, outputs="b")
    assert flags(graph) == [IN_PLACE, IN_PLACE]
    assert set(decorated(graph).storage_id[3:]) == {decorated(graph).storage_id[0]}


def test_what_an_assignment_returns_is_the_variable():
    between = [
        ("a", "_assign", "v", "x"),
        ("r", "relu", "x"),
        ("q", "exp", "a"),
        ("b", "_assign", "v", "r"),
    ]
    graph = graph_of(*between, outputs="bq")
    assert flags(graph, original=True) == [COPY, IN_PLACE]
    assert flags(graph) == [COPY, COPY]
    itself = [("a", "_assign", "v", "x"), ("r", "broadcast_to", "a"), ("b", "_assign", "v", "r")]
    graph = graph_of(*itself, outputs="b")
    assert flags(graph, original=True) == [COPY, IN_PLACE]
    assert flags(graph) == [COPY, COPY]


def test_a_variable_is_copied_whatever_its_pattern():
    nodes = [{"op": None, "inputs": [], "sizes": [4], "pattern": "element_wise"}] * 2
    assign = {"op": "_assign", "inputs": [[0, 0], [1, 0]], "sizes": [4]}
    graph = nnvm.read_graph({"nodes": [*nodes, assign], "outputs": [[2, 0]]})
    assert nnvm.original_assign_flags(graph) == (NO_ASSIGN, NO_ASSIGN, COPY)


def test_given_flags_are_taken_as_they_are():
    graph = graph_of(*LATER_READER, outputs="aq")
    found = decorated(graph, assign_flags=[0, 0, 0, 0, 0, IN_PLACE])
    assert found.assign_flags[5] == IN_PLACE
    assert len(found.hazards) == 1
    assert decorated(graph, assign_flags=[0] * 6).storage_id[5] != found.storage_id[5]
    with pytest.raises(ValueError, match="5 flags for 6 nodes"):
        decorated(graph, assign_flags=[0] * 5)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            [("r", "relu", "x"), ("a", "_assign", "r", "x")],
            r"node 4 \(a\): inputs\[0\] is of node 3",
        ),
        ([("a", "_assign", "v")], r"node 3 \(a\): _assign writes output 0 over input 1"),
        ([("a", "_assign", "v", "x", "w")], r"node 3 \(a\): an assignment has two inputs"),
    ],
)
def test_malformed_assignments(rows, message):
    with pytest.raises(ValueError, match=message):
        decorated(graph_of(*rows, outputs="a"))


def test_sizes_of_assignments():
    source = {
        "nodes": [
            {"op": None, "inputs": [], "sizes": [4]},
            {"op": None, "inputs": [], "sizes": [5]},
            {"op": "_assign", "inputs": [[0, 0], [1, 0]], "sizes": [4]},
        ],
        "outputs": [[2, 0]],
    }
    plan = nnvm.plan(source)
    with pytest.raises(ValueError, match=r"node 2 .*: 5 elements are assigned to 4 of node 0"):
        nnvm.decorate(source, plan)


# -- what a run computes -----------------------------------------------------------------------

APPLY = {
    "relu": lambda x: np.maximum(x, 0),
    "exp": lambda x: x * 3 + 1,
    "elemwise_add": lambda x, y: x + 2 * y,
    "broadcast_to": lambda x: x[::-1],
    "dense": lambda x, y: np.cumsum(x) + y,
    "_assign": lambda _, x: x,
}


def random_program(seed):
    rng = random.Random(seed)
    rows, names, last = [], ["v", "w", "x"], {"v": "v", "w": "w", "x": "x"}
    for number in range(rng.randint(3, 14)):
        name = f"n{number}"
        op = rng.choice([*APPLY, "_assign", "_assign"])
        if op == "_assign":
            target = rng.choice("vw")
            computed = [x for x in names[-3:] if x not in "vwx"] or ["x"]
            first = rng.choice((target, last[target]))
            rows.append((name, op, first, rng.choice(computed)))
            last[target] = name
            names.append(name)
        else:
            count = 2 if op in ("elemwise_add", "dense") else 1
            read = [rng.choice([*names[-4:], "v", "w", "x"]) for _ in range(count)]
            rows.append((name, op, *read))
            names.append(name)
    outputs = [name for name, op, *_ in rows if rng.random() < 0.2]
    return graph_of(*rows, outputs=[*outputs, rows[-1][0], "v", "w"])


def run(graph, storage_id, assign_flags, variables):
    """Compute in the views of a pool; return the outputs."""
    pool = nnvm.StoragePool(graph, storage_id)
    for entry, value in enumerate(variables):
        pool.views[entry][:] = value
    for number, node in enumerate(graph.nodes):
        if node.is_variable or assign_flags[number] == IN_PLACE:
            continue
        read = [pool.views[graph.entry_id(entry)] for entry in node.inputs]
        out = pool.views[graph.first_entry[number]]
        with np.errstate(over="ignore"):
            out[:] = APPLY[node.op](*read)
    return [pool.views[graph.entry_id(entry)].copy() for entry in graph.outputs]


def by_copies(graph, variables):
    """The meaning: every entry has memory of its own, but assignments change the variable."""
    count = graph.entry_count
    targets = [COPY if node.op == "_assign" else 0 for node in graph.nodes]
    own = nnvm.NnvmPlan(
        tuple([-1 if node.is_variable else k for k, node in enumerate(graph.nodes)]),
        (-1,) * count, 0, 0, (), 0,
    )  # fmt: skip
    return run(
        graph, nnvm.decorate(graph, own, assign_flags=targets).storage_id, targets, variables
    )


def test_assignments_in_place_compute_what_copies_do():
    wrong_in_the_original = in_place = 0
    for seed in range(600):
        graph = random_program(seed)
        rng = np.random.default_rng(seed)
        variables = rng.integers(-4, 5, (3, 4)).astype(np.float32)
        expected = by_copies(graph, variables)
        found = decorated(graph)
        in_place += found.assign_flags.count(IN_PLACE)
        result = run(graph, found.storage_id, found.assign_flags, variables)
        assert all(np.array_equal(a, b) for a, b in zip(result, expected, strict=True)), seed
        original = decorated(graph, original=True)
        result = run(graph, original.storage_id, original.assign_flags, variables)
        same = all(np.array_equal(a, b) for a, b in zip(result, expected, strict=True))
        assert same or original.hazards, seed
        wrong_in_the_original += not same
    assert in_place > 50
    assert wrong_in_the_original > 50
