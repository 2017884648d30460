"""Images of other sizes by scales and by sizes, as exporters write them, beside ONNX Runtime."""

import numpy as np
import pytest
from tests.onnx.beside import HAS_RUNTIME, check, one_node, ours, runtime

FLOAT = 1
IMAGE = np.random.default_rng(3).normal(size=(1, 2, 8, 9)).astype(np.float32)
SCALES = [(0.5, 1 / 3), (0.625, 13 / 9), (2.0, 3.0), (1.6, 0.7), (7 / 8, 5 / 9)]
MODES = [
    ("nearest", "asymmetric", "floor"),
    ("nearest", "half_pixel", "round_prefer_floor"),
    ("nearest", "half_pixel", "round_prefer_ceil"),
    ("nearest", "align_corners", "floor"),
    ("nearest", "pytorch_half_pixel", "ceil"),
    ("nearest", "tf_half_pixel_for_nn", "floor"),
    ("linear", "half_pixel", "floor"),
    ("linear", "asymmetric", "floor"),
    ("linear", "align_corners", "floor"),
    ("cubic", "half_pixel", "floor"),
    ("cubic", "asymmetric", "floor"),
]


def resized(mode, scales=None, sizes=None):
    kind, coordinates, rounding = mode
    given = [IMAGE, None]
    given += [None, np.array([1, 2, *sizes])] if sizes else [np.float32([1, 1, *scales])]
    how = {"mode": kind, "coordinate_transformation_mode": coordinates}
    return one_node("Resize", given, [FLOAT], "", nearest_mode=rounding, **how)


@pytest.mark.skipif(not HAS_RUNTIME, reason="takes the package onnxruntime")
@pytest.mark.parametrize("mode", MODES, ids=" ".join)
def test_scales_and_sizes(mode):
    for scales in SCALES:
        if mode[1] == "align_corners" and scales == (1.6, 0.7):
            continue  # ONNX Runtime takes the size that is cut off; ONNX's suite the product.
        model, feeds = resized(mode, scales)
        check(ours(model, feeds), runtime(model, feeds))
    for sizes in ((4, 3), (5, 13), (16, 27), (12, 6)):
        model, feeds = resized(mode, sizes=sizes)
        check(ours(model, feeds), runtime(model, feeds))


def test_a_third_in_f32_leaves_every_third_element():
    model, feeds = resized(("nearest", "asymmetric", "floor"), (0.5, 1 / 3))
    np.testing.assert_array_equal(ours(model, feeds)[0], IMAGE[:, :, ::2, ::3])


def test_a_size_is_a_product_in_f32():
    model, feeds = resized(("linear", "half_pixel", "floor"), (1, 13 / 9))
    assert ours(model, feeds)[0].shape == (1, 2, 8, 13)
