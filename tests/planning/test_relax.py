"""TVM Relax's static block planning: upstream's numbers, and each rule by itself."""

import json
from typing import Any

import pytest
from tests.support import CONFORMANCE, needs_shared

from lowtide.planning.relax import plan

Binding = dict[str, Any]


def _alloc(out: str, size: int | str, **more: Any) -> Binding:
    return {"kind": "alloc_tensor", "out": out, "bytes": size, **more}


def _call(*args: str, callee: str = "prim_func") -> Binding:
    return {"kind": "call", "callee": callee, "args": list(args)}


def _chain(*sizes: int | str, **more: Any) -> list[Binding]:
    """Tensors t0, t1, ... of some bytes, each worked out from the one before."""
    bindings, before = [], "x"
    for number, size in enumerate(sizes):
        bindings += [_alloc(f"t{number}", size, **more), _call(before, f"t{number}")]
        before = f"t{number}"
    return bindings


def _storage(bindings: list[Binding], **more: Any) -> list[int | None]:
    return list(plan({"bindings": bindings, **more}).storage.values())


@needs_shared
def test_chains_as_upstream_expects() -> None:
    cases = json.loads((CONFORMANCE / "planner_cases.json").read_text())["tvm_relax"]["cases"]
    for case in cases:
        for program in (case, case["chain"]):
            found = plan(program)
            assert found.storage == case["storage"], case["name"]
            assert found.storage_bytes == case["storage_bytes"], case["name"]


def test_the_smallest_that_is_large_enough_then_the_largest_that_is_smaller() -> None:
    four = [_alloc(x, n) for x, n in (("a", 64), ("b", 32), ("c", 16), ("d", 8))]
    ends = [_call("a", "b", "c", "d"), _alloc("e", 20), _alloc("f", 128), _call("e", "f")]
    found = plan({"bindings": [*four, *ends]})
    assert (found.storage["e"], found.storage["f"]) == (1, 0)
    assert found.storage_bytes == [128, 32, 16, 8]


def test_of_equal_storages_the_first_that_was_free_and_of_smaller_ones_the_last() -> None:
    first = [_alloc("a", 16), _alloc("b", 16), _call("b"), _call("a")]
    assert plan({"bindings": [*first, _alloc("c", 16), _call("c")]}).storage["c"] == 1
    assert plan({"bindings": [*first, _alloc("c", 17), _call("c")]}).storage["c"] == 0


@pytest.mark.parametrize(("size", "same"), [(16, True), (15, False), (4111, True), (4112, False)])
def test_sizes_are_within_a_factor_of_sixteen(size: int, same: bool) -> None:
    bindings = [_alloc("a", 256), _call("a"), _alloc("b", size), _call("b")]
    assert _storage(bindings) == [0, 0 if same else 1]


def test_storages_of_another_scope_or_type_stay_apart() -> None:
    bindings = [_alloc("a", 8), _call("a"), _alloc("b", 8, scope="texture"), _call("b")]
    bindings += [_alloc("c", 8, dtype="int32"), _call("c"), _alloc("d", 8), _call("d")]
    assert _storage(bindings) == [0, 1, 2, 0]


def test_sizes_come_from_shapes() -> None:
    shapes = [([3, 5], "float64"), ([3, 5], "bool"), ([], "float16")]
    bindings = []
    for number, (shape, dtype) in enumerate(shapes):
        alloc = {"kind": "alloc_tensor", "out": f"t{number}", "shape": shape, "dtype": dtype}
        bindings += [alloc, _call(f"t{number}")]
    assert plan({"bindings": bindings}).storage_bytes == [120, 15, 2]


def test_what_is_never_used_gets_a_storage_and_keeps_it() -> None:
    assert _storage([_alloc("a", 8), _call("a"), _alloc("b", 8), _alloc("c", 8), _call("c")]) == [
        0,
        1,
        0,
    ]


def test_a_use_counts_as_often_as_it_is_listed() -> None:
    bindings = [_alloc("a", 8), _call("a", "a"), _alloc("b", 8), _call("a", "b"), *_chain(8)]
    assert _storage(bindings) == [0, 1, 0]


@pytest.mark.parametrize("kind", ["reshape", "view", "ensure_zero_offset", "var"])
def test_views_keep_the_storage_in_use(kind: str) -> None:
    bindings = [_alloc("a", 8), _call("a"), {"kind": kind, "args": ["a"], "out": "v"}]
    bindings += [_alloc("b", 8), _call("v", "b"), _alloc("c", 8), _call("c")]
    assert _storage(bindings) == [0, 1, 0]
    assert _storage(bindings, returns=["v"]) == [None, 0, 0]


def test_tuples_hold_what_is_in_them() -> None:
    bindings = [_alloc("a", 8), _alloc("b", 8), {"kind": "tuple", "args": ["a", "b"], "out": "t"}]
    item = {"kind": "get_item", "args": ["t"], "index": 1, "out": "i"}
    bindings += [item, _alloc("c", 8), _call("i", "c"), _alloc("d", 8), _call("t", "d")]
    assert _storage(bindings) == [0, 1, 2, 2]
    assert _storage(bindings, returns=["i"]) == [0, None, 1, 1]
    assert _storage(bindings, returns=["t"]) == [None, None, 0, 0]


@pytest.mark.parametrize(
    ("use", "stays"),
    [
        (_call("t0"), False),
        (_call("t0", callee="extern"), False),
        (_call("t0", callee="call_tir_dyn"), False),
        (_call("t0", callee="relax_function"), True),
        ({"kind": "return", "args": ["t0"]}, True),
        ({"kind": "if", "args": ["t0"], "then": {}, "else": {}}, True),
        ({"kind": "if", "args": ["x"], "then": {"returns": ["t0"]}, "else": {}}, True),
        ({"kind": "if", "args": ["x"], "then": {}, "else": {"bindings": [_call("t0")]}}, True),
    ],
)
def test_what_may_be_kept_stays_dynamic(use: Binding, stays: bool) -> None:
    assert _storage([*_chain(8), use]) == [None if stays else 0]


def test_what_is_used_in_another_block_stays_dynamic() -> None:
    blocks = [[_alloc("a", 8), _alloc("b", 8), _call("a", "b")], [_call("b"), *_chain(8)]]
    assert list(plan({"blocks": blocks}).storage.values()) == [0, None, 0]


def test_blocks_of_branches_take_turns() -> None:
    part = {"bindings": [_alloc("p", 8), _call("p"), _alloc("r", 8)], "returns": ["r"]}
    other = {"bindings": [_alloc("q", 8), _call("q"), _alloc("s", 8)], "returns": ["s"]}
    choice = {"kind": "if", "args": ["x"], "then": part, "else": other, "out": "y"}
    found = plan({"bindings": [*_chain(8), choice, _alloc("z", 8), _call("y", "z")]})
    assert found.storage == {"t0": 0, "p": 0, "r": None, "q": 0, "s": None, "z": 0}


def test_unknown_sizes_are_shared_if_provably_equal() -> None:
    bindings = [*_chain("4 * n * m"), _alloc("a", "m * (n + n) * 2"), _call("a")]
    bindings += [_alloc("b", "4 * n"), _call("b"), _alloc("c", 8), _call("c")]
    found = plan({"bindings": bindings})
    assert list(found.storage.values()) == [0, 0, 1, 2]
    assert found.storage_bytes == ["4 * m * n", "4 * n", 8]


def test_bounds_stand_in_for_variables() -> None:
    shapes: list[list[int | str]] = [["n", 4], ["n * 2 - 1"], ["m", "n"]]
    bindings = []
    for number, shape in enumerate(shapes):
        alloc = {"kind": "alloc_tensor", "out": f"t{number}", "shape": shape, "dtype": "float32"}
        bindings += [alloc, _call(f"t{number}")]
    found = plan({"bindings": bindings, "upper_bounds": {"n": 8}})
    assert found.storage == {"t0": 0, "t1": 0, "t2": 1}
    assert found.storage_bytes == [128, "32 * m"]


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ([{"bytes": 8}], "call 0 of the chain lacks `out`"),
        ({"bindings": [{"kind": "alloc_tensr"}]}, "did you mean 'alloc_tensor'"),
        ({"bindings": [{"kind": "call"}]}, "a binding of kind call lacks 'args'"),
        ({"bindings": [_alloc("a", 1), _alloc("a", 1)]}, "'a' is bound twice"),
        ({"bindings": [_alloc("a", -1)]}, "'a' has -1 bytes"),
        ({"bindings": [_alloc("a", "n &")]}, "'n &' is no size"),
        ({"bindings": [{"kind": "alloc_tensor", "out": "a"}]}, "lacks 'shape'"),
        (
            {"bindings": [{"kind": "alloc_tensor", "out": "a", "shape": [1], "dtype": "f32"}]},
            "unknown dtype 'f32'",
        ),
    ],
)
def test_programs_that_cannot_be(program: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        plan(program)
