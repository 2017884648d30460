"""Weights of recurrent layers that are kept by direction and in panels: equal results."""

import numpy as np
import pytest
from tests.onnx import beside
from tests.onnx.models import FLOAT, helper, model, tensor

from lowtide.frontend.onnx.model import load_model
from lowtide.onnx.recurrent_weights import with_recurrent_weights_prepared

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
INCOMING, HIDDEN, STEPS = 70, 64, 6


def layer(op, direction, *, extras=True, incoming=INCOMING):
    count = 2 if direction == "bidirectional" else 1
    rng = np.random.default_rng(len(op) + count)
    sizes = {"w": (count, GATES[op] * HIDDEN, incoming), "r": (count, GATES[op] * HIDDEN, HIDDEN)}
    if extras:
        sizes["b"] = (count, 2 * GATES[op] * HIDDEN)
    weights = {x: 0.2 * rng.normal(size=y).astype(np.float32) for x, y in sizes.items()}
    attributes = {"direction": direction, "hidden_size": HIDDEN}
    node = helper.make_node(op, ["x", *weights], ["y"], **attributes)
    inputs = [tensor("x", FLOAT, (STEPS, 2, incoming))]
    proto = model([node], inputs, [tensor("y", FLOAT, None)], weights)
    proto.ir_version = 8
    return proto, {"x": rng.normal(size=(STEPS, 2, incoming)).astype(np.float32)}


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("op", GATES)
@pytest.mark.parametrize("extras", [False, True])
def test_layers_with_weights_by_direction_give_the_same(op, direction, extras):
    proto, feeds = layer(op, direction, extras=extras)
    prepared = with_recurrent_weights_prepared(load_model(proto))
    names = [f"{x} {d}" for d in range(1 + (direction == "bidirectional")) for x in ("w", "r")]
    kinds = {"w": "panels", "r": "recurrent"}
    wanted = {f"{x[0]} {kinds[x[0]]} {x[2]}" for x in names}
    assert wanted == {*prepared.initializers} - {"b"}
    beside.check(beside.ours(proto, feeds), beside.reference(proto, feeds))


def test_small_weights_of_one_direction_stay():
    proto, feeds = layer("RNN", "forward", incoming=9)
    given = load_model(proto)
    assert with_recurrent_weights_prepared(given) is given
    beside.check(beside.ours(proto, feeds), beside.reference(proto, feeds))


def test_small_weights_of_two_directions_are_divided_only():
    proto, feeds = layer("RNN", "bidirectional", incoming=9)
    prepared = with_recurrent_weights_prepared(load_model(proto))
    assert "w incoming 1" in prepared.initializers
    beside.check(beside.ours(proto, feeds), beside.reference(proto, feeds))


@pytest.mark.parametrize("reason", ["another node", "the caller", "an output"])
def test_weights_stay_that_are_read_otherwise(reason):
    proto, _ = layer("GRU", "bidirectional")
    if reason == "another node":
        proto.graph.node.append(helper.make_node("Identity", ["r"], ["v"]))
    elif reason == "the caller":
        proto.graph.input.append(tensor("r", FLOAT, None))
    else:
        proto.graph.output.append(tensor("r", FLOAT, None))
    given = load_model(proto)
    assert with_recurrent_weights_prepared(given) is given


def test_layers_that_share_weights_share_what_is_stored():
    proto, feeds = layer("LSTM", "bidirectional")
    again = helper.make_node("LSTM", ["u", "w", "r"], ["v"], direction="bidirectional")
    again.attribute.append(helper.make_attribute("hidden_size", HIDDEN))
    proto.graph.node.append(again)
    proto.graph.input.append(tensor("u", FLOAT, (2, 1, INCOMING)))
    proto.graph.output.append(tensor("v", FLOAT, None))
    feeds["u"] = np.random.default_rng(1).normal(size=(2, 1, INCOMING)).astype(np.float32)
    prepared = with_recurrent_weights_prepared(load_model(proto))
    assert len(prepared.initializers) == 5
    beside.check(beside.ours(proto, feeds), beside.reference(proto, feeds))
