"""Places in runs: which values their steps are told apart by."""

from lowtide.frontend.graphs.graph import GraphNode
from lowtide.onnx.places import place_of

NODES = [
    GraphNode("first", "Add", ("x", "w"), ("a",)),
    GraphNode("second", "Mul", ("a", "v"), ("b",)),
    GraphNode("third", "Sub", ("b", "x"), ("c",)),
]


def test_what_the_nodes_make_themselves_tells_no_steps_apart():
    place = place_of(NODES, {"w", "v", "elsewhere"})
    assert place.names == {"x", "w", "a", "v", "b"}
    assert place.same == {"w", "v"}
    assert place.varying == ("x",)


def test_what_is_made_before_a_place_may_vary_there():
    place = place_of(NODES, {"w", "v"}).without({"first"})
    assert [x.name for x in place.nodes] == ["second", "third"]
    assert place.same == {"v"}
    assert set(place.varying) == {"a", "x"}
    assert set(place.without({"second"}).varying) == {"b", "x"}
