"""Attributes of typed calls as MLIR writes them."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from lowtide.host_calls.foreign.attributes import read_attributes
from lowtide.ir.errors import UnsupportedOpError

VALUES: dict[str, Any] = {
    "1.500000e+00 : f32": np.float32(1.5),
    "0x7FC00000 : f32": np.float32(math.nan),
    "0xFFF0000000000000 : f64": np.float64(-math.inf),
    "-1.000000e-30 : f64": np.float64(-1e-30),
    "1.000000e+00 : bf16": np.array(1, ml_dtypes.bfloat16),
    "3 : i64": np.int64(3),
    "3": np.int64(3),
    "3 : index": np.int64(3),
    "-3 : i8": np.int8(-3),
    "200 : ui8": np.uint8(200),
    "true": np.bool_(True),
    "false": np.bool_(False),
    '"text"': b"text",
    r'"a\22b\0A\\\C3\BC}, {"': 'a"b\n\\ü}, {'.encode(),
    '""': b"",
    "dense<[0, 1, -2]> : tensor<3xi64>": np.array([0, 1, -2]),
    "dense<[[1, 2], [3, 4]]> : tensor<2x2xi32>": np.array([1, 2, 3, 4], np.int32),
    "dense<7> : tensor<3xui8>": np.full(3, 7, np.uint8),
    "dense<> : tensor<0xi32>": np.zeros(0, np.int32),
    "dense<[1.0, 0x7F800000]> : tensor<2xf32>": np.array([1, math.inf], np.float32),
    "dense<[true, false]> : tensor<2xi1>": np.array([True, False]),
    'dense<"0x0100000002000000"> : tensor<2xi32>': np.array([1, 2], np.int32),
    "dense<(1.0,2.0)> : tensor<1xcomplex<f64>>": np.array([1 + 2j]),
    "array<i64: 1, 2>": np.array([1, 2]),
    "array<i1: true, false>": np.array([True, False]),
    "array<f32>": np.zeros(0, np.float32),
}


@pytest.mark.parametrize("text", VALUES)
def test_a_value_is_read_with_its_type(text: str) -> None:
    found = read_attributes(f'{{first = 1 : i32, it = {text}, last = "}}"}}')
    assert list(found) == ["first", "it", "last"] and found["last"] == b"}"
    expected = VALUES[text]
    if isinstance(expected, bytes):
        assert found["it"] == expected
        return
    value = found["it"]
    assert isinstance(value, np.ndarray) and value.dtype == expected.dtype
    assert value.shape == expected.shape
    np.testing.assert_array_equal(value, expected)


def test_dictionaries_nest_and_may_be_empty() -> None:
    assert read_attributes("") == read_attributes("{}") == {}
    found = read_attributes('{a = {b = {}, "c d" = {e = "f"}}}')
    assert found == {"a": {"b": {}, "c d": {"e": b"f"}}}


@pytest.mark.parametrize(
    "text",
    [
        *(
            "{a}",
            "{a = }",
            "{a = 1",
            "{a = 1} x",
            "a = 1",
            "{a = [1, 2]}",
            "{a = @b}",
            "{a = 1 : f7}",
        ),
        *("{a = dense<1> : i32}", "{a = 300 : i8}", "{a = dense<x> : tensor<1xi8>}", "{" * 40),
        "{a = " * 40,
    ],
)
def test_text_of_another_form_is_refused_with_its_place(text: str) -> None:
    with pytest.raises(UnsupportedOpError, match="attributes of the call"):
        read_attributes(text)
