"""A store under a mask with one lane touches the bytes of one element."""

import numpy as np
import pytest
from tests.ways_to_run import run_native


@pytest.mark.parametrize("type_", ["s8", "u8", "s16", "pred"])
def test_the_rest_of_a_line_is_one_narrow_element(type_: str) -> None:
    """The updated row ends in the middle of a row; what follows it has to stay."""
    text = f"""HloModule m, input_output_alias={{ {{}}: (0, {{}}, may-alias) }}
ENTRY e {{
  whole = {type_}[4,40] parameter(0)
  wide = s32[1,17] parameter(1)
  zero = s32[] constant(0)
  narrow = {type_}[1,17] convert(wide)
  ROOT updated = {type_}[4,40] dynamic-update-slice(whole, narrow, zero, zero)
}}"""
    dtype = {"s8": np.int8, "u8": np.uint8, "s16": np.int16, "pred": np.bool_}[type_]
    whole = np.ones((4, 40), dtype)
    (result,) = run_native(text, [whole, np.zeros((1, 17), np.int32)])
    expected = whole.copy()
    expected[0, :17] = 0
    np.testing.assert_array_equal(result, expected)
