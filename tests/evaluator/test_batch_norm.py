import ml_dtypes
import numpy as np
import pytest
from tests.evaluator.against_xla import check_text, run_text

SIZES = (2, 3, 4, 5)


def module(operation, element_type, feature):
    array, vector = f"{element_type}[2,3,4,5]", f"{element_type}[{SIZES[feature]}]"
    shapes, result = {
        "training": ([array, vector, vector], f"({array}, {vector}, {vector})"),
        "inference": ([array, *[vector] * 4], array),
        "grad": ([array, *[vector] * 3, array], f"({array}, {vector}, {vector})"),
    }[operation]
    parameters = [f"p{i} = {shape} parameter({i})" for i, shape in enumerate(shapes)]
    names = ", ".join([f"p{i}" for i in range(len(shapes))])
    body = "\n  ".join(parameters)
    return f"""HloModule m
ENTRY e {{
  {body}
  ROOT r = {result} batch-norm-{operation}({names}), epsilon=0.001, feature_index={feature}
}}"""


def arguments(operation, dtype, feature):
    rng = np.random.default_rng(feature)
    array = rng.normal(size=SIZES).astype(dtype)
    vectors = [rng.random(SIZES[feature]).astype(dtype) for _ in range(4)]
    if operation == "training":
        return [array, *vectors[:2]]
    if operation == "inference":
        return [array, *vectors]
    return [array, *vectors[:3], rng.normal(size=SIZES).astype(dtype)]


@pytest.mark.parametrize("operation", ["training", "inference", "grad"])
@pytest.mark.parametrize(
    ("element_type", "dtype", "feature", "tolerance"),
    [("f32", np.float32, 1, 1e-4), ("f64", np.float64, 3, 1e-9), ("f64", np.float64, 0, 1e-9)],
)
def test_against_xla(operation, element_type, dtype, feature, tolerance):
    given = arguments(operation, dtype, feature)
    check_text(module(operation, element_type, feature), *given, tolerance=tolerance)


def test_narrow_types_are_rounded_once():
    given = arguments("training", ml_dtypes.bfloat16, 1)
    found = run_text(module("training", "bf16", 1), *given)
    wide = run_text(module("training", "f32", 1), *[x.astype(np.float32) for x in given])
    for x, y in zip(found, wide, strict=True):
        np.testing.assert_array_equal(x, y.astype(ml_dtypes.bfloat16))
