"""The algebraic simplifier: the rules of all families, applied until none fits."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Final

from lowtide.ir import Computation, Module
from lowtide.passes.interface import Pass
from lowtide.passes.rewriting import Rule, rewrite


@cache
def rules() -> tuple[Rule, ...]:
    """Return the rules of all files of this folder, those of one file in their order."""
    package = import_module(__package__)
    files = sorted([info.name for info in iter_modules(package.__path__)])
    return tuple(
        [
            rule
            for file in files
            for rule in getattr(import_module(f"{__package__}.{file}"), "RULES", ())
        ]
    )


def simplify(module: Module, *, fast_math: bool = False) -> int:
    """Apply all rules until none fits; return how many times one did.

    Values stay the same to the last bit, but for NaNs and where HLO leaves it open: in the order of
    a reduction and the accuracy of powers. `fast_math` lets rules in which may round otherwise,
    lose the sign of a zero, or take no number for an infinity or NaN.
    """
    chosen = [x for x in rules() if x.exact or fast_math]
    changes = 0
    seen: dict[Computation, int] = {}
    # A rule looks further than the neighbours of what changed: what it missed fits another time.
    while waiting := [x for x in module.computations.values() if seen.get(x) != x.version]:
        seen.update({x: x.version for x in waiting})
        fired = rewrite(module, chosen, waiting).total()
        changes += fired
        if not fired:  # Versions move where rules make something in vain, too.
            break
    return changes


PASSES: Final = (
    Pass(
        "algsimp",
        simplify,
        "Simplifies by the rules of algebra.",
        before="""
HloModule m

ENTRY main {
  x = s32[4] parameter(0)
  zero = s32[] constant(0)
  zeros = s32[4] broadcast(zero), dimensions={}
  ROOT sum = s32[4] add(zeros, x)
}
""",
        after="""
HloModule m

ENTRY main {
  ROOT x = s32[4] parameter(0)
}
""",
        meanings=(("fast_math", "also rules that may round otherwise, and assume finite numbers"),),
    ),
)
