"""Records compute the same in native code and in Python, and errors name what is wrong."""

import re
from dataclasses import dataclass

import numpy as np
import pytest

from lowtide.native import NativeError
from lowtide.search.kernels import Array, FloatArray, Kernel, Record, in_python, kernel
from lowtide.search.kernels.machine import text_of


@dataclass(frozen=True, eq=False, slots=True)
class Rows(Record):
    starts: Array
    items: Array


@dataclass(frozen=True, eq=False, slots=True)
class Graph(Record):
    count: int
    scale: float
    behind: Rows
    before: Rows
    weight: FloatArray


@dataclass(frozen=True, eq=False, slots=True)
class Search(Record):
    graph: Graph
    seen: Array


@kernel
def reached(rows: Rows, seen: Array, node: int) -> int:
    """Mark what is reached from a node; recursion passes the record on."""
    seen[node] = 1
    total = 1
    for k in range(rows.starts[node], rows.starts[node + 1]):
        if seen[rows.items[k]] == 0:
            total += reached(rows, seen, rows.items[k])
    return total


@kernel
def worth(graph: Graph) -> float:
    total = 0.0
    for node in range(graph.count):
        graph.weight[node] += 1.0
        total += graph.weight[node] * graph.scale
    return total


@kernel
def both(search: Search, backwards: int, node: int) -> float:
    """Parts of records go to other kernels, by themselves or under a name."""
    graph = search.graph
    seen = search.seen
    for x in range(graph.count):
        seen[x] = 0
    if backwards != 0:
        found = reached(graph.before, seen, node)
    else:
        found = reached(search.graph.behind, search.seen, node)
    return float(found * 100) + worth(search.graph)


def rows_of(*rows: list[int]) -> Rows:
    starts = np.cumsum([0, *[len(row) for row in rows]])
    return Rows(starts, np.array([x for row in rows for x in row], np.int64))


def search() -> Search:
    behind, before = rows_of([1, 2], [3], [3], []), rows_of([], [0], [0], [1, 2])
    graph = Graph(4, 0.5, behind, before, np.array([1.0, 2.0, 4.0, 8.0]))
    return Search(graph, np.zeros(4, np.int64))


@pytest.mark.parametrize(("backwards", "node"), [(0, 0), (0, 1), (1, 3), (1, 0)])
def test_native_code_and_python_agree_on_results_and_arrays(backwards: int, node: int) -> None:
    native, python = search(), search()
    expected = both.python(python, backwards, node)
    assert both(native, backwards, node) == expected
    assert native.seen.tolist() == python.seen.tolist()
    assert native.graph.weight.tolist() == python.graph.weight.tolist() == [2.0, 3.0, 5.0, 9.0]


def test_in_python_the_same_records_are_taken() -> None:
    one, other = search(), search()
    with in_python():
        found = both(one, 0, 0)
    assert found == both(other, 0, 0) == 400 + 19 / 2


def test_arrays_are_seen_as_they_are_at_each_call() -> None:
    given = search()
    first = worth(given.graph)
    given.graph.weight[:] = 0
    assert (first, worth(given.graph), worth(given.graph)) == (9.5, 2.0, 4.0)


def test_a_record_may_have_empty_arrays() -> None:
    assert reached(rows_of([]), np.zeros(1, np.int64), 0) == 1


@kernel
def chosen(graph: Graph, turn: int) -> int:
    """A name may stand for one record, and then for another one; so may a choice."""
    rows = graph.before
    first = rows.starts[4]
    if turn != 0:
        rows = graph.behind
    both = rows.starts[1] + (graph.before if turn else graph.behind).starts[1]
    return 100 * first + 10 * rows.starts[2] + both


@pytest.mark.parametrize(("turn", "expected"), [(0, 412), (1, 432)])
def test_a_name_may_stand_for_several_records(turn: int, expected: int) -> None:
    assert chosen(search().graph, turn) == chosen.python(search().graph, turn) == expected


@kernel
def unknown(rows: Rows) -> int:
    return rows.ends[0]


@kernel
def assigned(graph: Graph) -> int:
    graph.count = 3
    return 0


@kernel
def counted_up(graph: Graph) -> int:
    graph.count += 1
    return 0


@kernel
def not_a_record(count: int) -> int:
    return count.real


@kernel
def renamed_number(graph: Graph) -> int:
    rows = 1
    rows = graph.behind
    return rows.starts[0]


@kernel
def other_record(graph: Graph) -> int:
    return reached(graph, graph.before.starts, 0)


@kernel
def without_subscript(rows: Rows) -> int:
    return rows[0]


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        (unknown, "Rows has no field ends"),
        (assigned, "graph.count is a field and cannot be set"),
        (counted_up, "graph.count is a field and cannot be set"),
        (not_a_record, "int has no field real: it is no record"),
        (renamed_number, "expected int, found Rows"),
        (other_record, "expected Rows, found Graph"),
        (without_subscript, "rows is no array"),
    ],
)
def test_what_records_lack_is_named_with_its_place(wrong: Kernel[..., int], problem: str) -> None:
    given = {"rows": rows_of([]), "graph": search().graph, "count": 1}
    arguments = [given[name] for name, _ in wrong.signature.parameters]
    with pytest.raises(NativeError, match=rf"test_records\.py:\d+: .*{re.escape(problem)}"):
        wrong(*arguments)


@dataclass(frozen=True, eq=False, slots=True)
class Named(Record):
    name: str


@dataclass(slots=True)
class Changing(Record):
    count: int


@kernel
def of_named(record: Named) -> int:
    return 0


@kernel
def of_changing(record: Changing) -> int:
    return 0


@kernel
def of_string(name: str) -> int:
    return 0


def test_records_that_kernels_cannot_have() -> None:
    with pytest.raises(
        NativeError, match=r"record Named: name is .*str.*, expected a record or one of"
    ):
        of_named(Named("a"))
    with pytest.raises(NativeError, match="record Changing is no frozen dataclass"):
        of_changing(Changing(1))
    with pytest.raises(NativeError, match=r"test_records\.py:\d+: .*str is no annotation"):
        of_string("a")


def test_wrong_values() -> None:
    rows, seen = rows_of([1], []), np.zeros(2, np.int64)
    with pytest.raises(NativeError, match=r"reached: rows is no Rows but Graph"):
        reached(search().graph, seen, 0)
    with pytest.raises(NativeError, match=r"Rows.items is no Array but ndarray"):
        reached(Rows(rows.starts, rows.items.astype(np.int32)), seen, 0)
    with pytest.raises(NativeError, match=r"Rows.items is not contiguous"):
        reached(Rows(rows.starts, np.zeros(4, np.int64)[::2]), seen, 0)
    graph = search().graph
    with pytest.raises(NativeError, match=r"Graph.behind is no Rows but list"):
        worth(Graph(1, 1.0, [], graph.before, graph.weight))
    with pytest.raises(NativeError, match=r"Graph.count is no int but float"):
        worth(Graph(1.5, 1.0, rows, rows, graph.weight))


def test_the_text_that_machine_code_is_kept_by_is_that_of_types_alone() -> None:
    text = text_of(both)
    assert both(search(), 0, 0) > 0
    assert text_of(kernel(both.python)) == text
    assert len(re.findall(r"call .*@.?reached", text)) == 3
