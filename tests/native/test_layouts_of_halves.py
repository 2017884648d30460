"""Operations in two halves whose second half names another layout than the first one has."""

import numpy as np
import pytest
from tests.native.comparing import compiled

from lowtide.frontend.hlo_text import parse_hlo

ROWS, COLUMNS = "f32[2,3]{1,0}", "f32[2,3]{0,1}"
ALONE = "replica_groups={{0}}"
HALVES = {
    "copy": (f"({COLUMNS}, {ROWS}, u32[]) copy-start(x)", "copy-done"),
    "copy to rows": (f"({ROWS}, {COLUMNS}, u32[]) copy-start(x)", "copy-done"),
    "all-reduce": (f"{COLUMNS} all-reduce-start(x), {ALONE}, to_apply=sum", "all-reduce-done"),
    "all-gather": (
        f"({ROWS}, {COLUMNS}) all-gather-start(x), {ALONE}, dimensions={{0}}",
        "all-gather-done",
    ),
    "collective-permute": (
        f"({ROWS}, {COLUMNS}) collective-permute-start(x), source_target_pairs={{{{0,0}}}}",
        "collective-permute-done",
    ),
}
SUM = """sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
"""


@pytest.mark.parametrize("result", [ROWS, COLUMNS])
@pytest.mark.parametrize("name", HALVES)
def test_the_second_half_is_obeyed(name, result):
    start, done = HALVES[name]
    text = (
        f"HloModule m, is_scheduled=true\n{SUM}ENTRY e {{\n  x = {ROWS} parameter(0)\n"
        f"  s = {start}\n  ROOT d = {result} {done}(s)\n}}\n"
    )
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert np.array_equal(compiled(parse_hlo(text))(x), x)
