"""Boxes that stay beside those of a higher score, by the definition for one pair at a time."""

import numpy as np
import pytest
from onnx import TensorProto
from tests.onnx.models import FLOAT, helper, model, tensor

from lowtide.onnx import InferenceSession

RANDOM = np.random.default_rng(5)


def wanted(boxes, scores, most, overlap, least):
    """The numbers of the boxes that stay."""
    kept = []
    for i in np.argsort(-scores, kind="stable"):
        near = any(shared(boxes[i], boxes[j]) > overlap for j in kept)
        if scores[i] > least and len(kept) < most and not near:
            kept.append(int(i))
    return kept


def shared(x, y):
    """What two boxes share of their area; corners may be given in any order."""
    (a, b, c, d), (e, f, g, h) = x, y
    low = max(min(a, c), min(e, g)), max(min(b, d), min(f, h))
    high = min(max(a, c), max(e, g)), min(max(b, d), max(f, h))
    both = max(high[0] - low[0], 0) * max(high[1] - low[1], 0)
    either = abs((c - a) * (d - b)) + abs((g - e) * (h - f)) - both
    return both / either if either > 0 else 0.0


@pytest.mark.parametrize("most", [5, 40])
def test_boxes_that_stay(most):
    boxes = (3 * RANDOM.random((2, 40, 4))).astype(np.float32)
    boxes[:, ::7, 2:] = boxes[:, ::7, :2]  # Boxes without an area.
    scores = RANDOM.random((2, 3, 40)).astype(np.float32)
    scores[:, :, 5] = scores[:, :, 6]
    node = helper.make_node("NonMaxSuppression", ["b", "s", "most", "overlap", "least"], ["y"])
    inputs = [tensor("b", FLOAT, boxes.shape), tensor("s", FLOAT, scores.shape)]
    limits = {"most": np.int64([most]), "overlap": np.float32([0.3]), "least": np.float32([0.2])}
    outputs = [tensor("y", TensorProto.INT64, ["kept", 3])]
    session = InferenceSession(model([node], inputs, outputs, limits))
    found = session.run(None, {"b": boxes, "s": scores})
    overlap, least = (float(limits[x][0]) for x in ("overlap", "least"))
    expected = [
        (batch, kind, number)
        for batch in range(2)
        for kind in range(3)
        for number in wanted(boxes[batch], scores[batch, kind], most, overlap, least)
    ]
    assert found[0].tolist() == [list(x) for x in expected]
