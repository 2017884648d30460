"""Halves that are shuffled as floats: LLVM 22 for x86-64 had taken them for groups of floats."""

import numpy as np
import pytest
from tests.native.comparing import compiled, flat, reference

SHAPES = [(rows, columns) for columns in (2, 3, 4) for rows in (3, 4, 9, 10, 18, 20, 33)]


def text_of(rows: int, columns: int, step: str) -> str:
    """Return a step on columns, from a place known in the call on, of two arrays."""
    part, whole = f"f16[{rows},{columns}]", f"f16[{rows},{2 * columns}]"
    given = [f"a = {whole} parameter(0)", f"b = {whole} parameter(1)", "s = s32[] parameter(2)"]
    cut = f"s), dynamic_slice_sizes={{{rows},{columns}}}"
    lines = [
        *given,
        "z = s32[] constant(0)",
        f"x = {part} dynamic-slice(a, z, {cut}",
        f"y = {part} dynamic-slice(b, z, {cut}",
        f"ROOT r = {part} {step}",
    ]
    call = [*given, f"ROOT r = {part} fusion(a, b, s), kind=kLoop, calls=f"]
    return "\n".join(["HloModule m", "f {", *lines, "}", "ENTRY e {", *call, "}"])


@pytest.mark.parametrize("target", ["native", "avx2"])
@pytest.mark.parametrize("step", ["maximum(x, y)", "minimum(x, y)", "add(x, y)", "abs(x)"])
def test_parts_of_columns(step: str, target: str) -> None:
    draw = np.random.default_rng(0)
    for rows, columns in SHAPES:
        text, sizes = text_of(rows, columns, step), (2, rows, 2 * columns)
        program = compiled(text, threads=1, target=target)
        arrays = draw.integers(-3, 4, sizes).astype(np.float16)
        for start in (0, 1):
            given = [*arrays, np.int32(start)]
            (found,), (right,) = flat(program(*given)), flat(reference(text, given))
            np.testing.assert_array_equal(found, right, err_msg=f"{rows} x {columns}")
