"""Pipelines run passes in turn, repeat what has not settled, and tell observers."""

import pytest

import lowtide
from lowtide.ir import Module
from lowtide.passes import Fixpoint, Pass, PassError, run_pipeline
from lowtide.passes.instrumentation import BrokenPassError, Checking, Dumping, PassesUntil, Timing
from lowtide.passes.registry import passes

TEXT = """
HloModule m

ENTRY main {
  x = f32[4] parameter(0)
  a = f32[4] negate(x)
  b = f32[4] negate(x)
  unread = f32[4] abs(b)
  ROOT sum = f32[4] add(a, b)
}
"""


def count_down(module: Module) -> int:
    """Rename the module until its name has no letters left but one."""
    if len(module.name) == 1:
        return 0
    module.name = module.name[:-1]
    return 1


SHORTER = Pass("shorter", count_down, "", "", "")


def test_a_fixpoint_ends_where_every_pass_has_nothing_to_do() -> None:
    module = lowtide.parse_hlo(TEXT.replace("HloModule m", "HloModule mmmm"))
    timing = Timing()
    steps = [Fixpoint("all", (passes()["cse"], SHORTER, passes()["dce"]))]
    assert run_pipeline(module, steps, [timing]) == 3 + 1 + 1
    assert {name: (x.runs, x.changes) for name, x in timing.passes.items()} == {
        "cse": (4, 1),
        "shorter": (4, 3),
        "dce": (3, 1),
    }


def test_passes_until_stops_in_the_middle_of_a_fixpoint() -> None:
    module = lowtide.parse_hlo(TEXT.replace("HloModule m", "HloModule mmmm"))
    until = PassesUntil(2)
    run_pipeline(module, [Fixpoint("all", (SHORTER,))], [until])
    assert module.name == "mm"
    assert until.last is SHORTER


def test_a_pass_that_breaks_the_module_is_named() -> None:
    def loosen(module: Module) -> int:
        root = module.entry.root
        root.set_operands(root.operands[:1])
        return 1

    module = lowtide.parse_hlo(TEXT)
    steps = [passes()["dce"], Pass("loosen", loosen, "", "", "")]
    with pytest.raises(BrokenPassError, match=r"pass loosen .*--passes-until 1"):
        run_pipeline(module, steps, [Checking(lowtide.verify)])


@pytest.mark.parametrize("claim", [0, 1])
def test_a_pass_that_miscounts_is_named(claim: int) -> None:
    def miscount(module: Module) -> int:
        if not claim:
            module.name += "x"
        return claim

    with pytest.raises(BrokenPassError, match=f"says that it made {claim} changes"):
        step = Pass("miscount", miscount, "", "", "")
        run_pipeline(lowtide.parse_hlo(TEXT), [step], [Checking(lowtide.verify)])


def test_dumps_have_the_names_of_xla_and_parse_back() -> None:
    files: dict[str, str] = {}
    dumping = Dumping(files.__setitem__, "c|d")
    steps = [passes()["cse"], SHORTER, passes()["dce"], passes()["dce"]]
    run_pipeline(lowtide.parse_hlo(TEXT), steps, [dumping])
    assert list(files) == [
        "module_0001.m.before_optimizations.txt",
        "module_0001.m.0001.after_cse.txt",
        "module_0001.m.0003.after_dce.txt",
        "module_0001.m.after_optimizations.txt",
    ]
    for text in files.values():
        lowtide.verify(lowtide.parse_hlo(text))
    with pytest.raises(PassError, match="no regular expression"):
        Dumping(files.__setitem__, "(")
