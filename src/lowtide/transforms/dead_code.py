"""The pass that removes what nobody reads."""

from __future__ import annotations

from typing import Final

from lowtide.passes.dead_code import remove_dead_code
from lowtide.passes.interface import Pass

PASSES: Final = (
    Pass(
        "dce",
        remove_dead_code,
        "Removes instructions that nobody reads and computations that nobody calls.",
        before="""
HloModule m

ENTRY main {
  x = f32[4] parameter(0)
  unread = f32[4] negate(x)
  ROOT sum = f32[4] add(x, x)
}
""",
        after="""
HloModule m

ENTRY main {
  x = f32[4] parameter(0)
  ROOT sum = f32[4] add(x, x)
}
""",
    ),
)
