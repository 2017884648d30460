"""Select-and-scatter on the emulator beside the evaluator."""

from __future__ import annotations

import pytest
from tests.codegen.gpu.programs import check, templates


@pytest.mark.parametrize(
    ("sizes", "places", "window"),
    [
        ("8,8", "4,4", "size=2x2 stride=2x2"),
        ("2,9,9,3", "2,5,5,3", "size=1x3x3x1 stride=1x2x2x1 pad=0_0x1_1x1_1x0_0"),
        ("40", "38", "size=3"),
        ("9", "3", "size=2 pad=0_4 stride=5"),
        ("400,5", "200,5", "size=2x1 stride=2x1"),
    ],
)
def test_elements_add_up_what_windows_that_selected_them_have(
    sizes: str, places: str, window: str
) -> None:
    program = check(f"""
  x = f32[{sizes}] parameter(0)
  u = f32[{places}] parameter(1)
  z = f32[] constant(0.5)
  ROOT s = f32[{sizes}] select-and-scatter(x, u, z), window={{{window}}}, select=ge, scatter=add
""")
    assert templates(program) == ["selections"]
