"""Arrays without elements, asynchronous operations, and marks for the partitioner."""

import pytest

import lowtide
from lowtide.ir.clone import clone_module
from lowtide.ir.printer import fingerprint
from lowtide.passes.registry import parse_passes
from lowtide.testing.check_pass import assert_same_values
from lowtide.verifier import verify

SUM = "sum {\np = f32[] parameter(0)\nq = f32[] parameter(1)\nROOT s = f32[] add(p, q)\n}"
SINE = "wrapped {\np = f32[4] parameter(0)\nROOT s = f32[4] sine(p)\n}"
E, Y = "e = f32[0,3] parameter(0)\n", "y = f32[2,3] parameter(1)\n"
X = "x = f32[4] parameter(0)\n"
START = "a = ((f32[4]), f32[4], s32[]) async-start(x), calls=wrapped\n"

CASES: dict[str, tuple[str, str, str, str]] = {
    "a reduction of nothing": (
        "zero-sized",
        SUM,
        f"{E}v = f32[] parameter(1)\nROOT r = f32[3] reduce(e, v), dimensions={{0}}, to_apply=sum",
        f"{E}v = f32[] parameter(1)\nROOT r = f32[3] broadcast(v), dimensions={{}}",
    ),
    "a product over nothing": (
        "zero-sized",
        "",
        f"{E}w = f32[0,5] parameter(1)\n"
        "ROOT r = f32[3,5] dot(e, w), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
        f"{E}w = f32[0,5] parameter(1)\nz = f32[] constant(0)\n"
        "ROOT r = f32[3,5] broadcast(z), dimensions={}",
    ),
    "padding around nothing": (
        "zero-sized",
        "",
        f"{E}v = f32[] parameter(1)\nROOT r = f32[2,3] pad(e, v), padding=1_1x0_0",
        f"{E}v = f32[] parameter(1)\nROOT r = f32[2,3] broadcast(v), dimensions={{}}",
    ),
    "an update with nothing": (
        "zero-sized",
        "",
        f"{E}{Y}i = s32[] constant(0)\nROOT r = f32[2,3] dynamic-update-slice(y, e, i, i)",
        "e = f32[0,3] parameter(0)\nROOT y = f32[2,3] parameter(1)",
    ),
    "nothing joined": (
        "zero-sized",
        "",
        f"{E}{Y}ROOT r = f32[4,3] concatenate(y, e, y), dimensions={{0}}",
        f"{E}{Y}ROOT r = f32[4,3] concatenate(y, y), dimensions={{0}}",
    ),
    "computed nothing": (
        "zero-sized",
        "",
        f"{E}a = f32[0,3] exponential(e)\nROOT t = f32[3,0] transpose(a), dimensions={{1,0}}",
        f"{E}ROOT t = f32[3,0] constant({{ {{}}, {{}}, {{}} }})",
    ),
    "nothing, in more rows than a text should have braces for": (
        "zero-sized",
        "",
        "ROOT i = f32[1000000000000,0] iota(), iota_dimension=0",
        "z = f32[] constant(0)\nROOT i = f32[1000000000000,0] broadcast(z), dimensions={}",
    ),
    "a call that is started and awaited": (
        "async-to-sync",
        SINE,
        f"{X}{START}u = ((f32[4]), f32[4], s32[]) async-update(a)\nROOT d = f32[4] async-done(u)",
        f"{X}ROOT s = f32[4] sine(x)",
    ),
    "a copy in two halves": (
        "async-to-sync",
        "",
        f"{X}c = (f32[4], f32[4], u32[]) copy-start(x)\nROOT d = f32[4] copy-done(c)",
        f"{X}ROOT d = f32[4] copy(x)",
    ),
    "an all-reduce in two halves": (
        "async-to-sync",
        SUM,
        f"{X}c = f32[4] all-reduce-start(x), replica_groups={{}}, to_apply=sum\n"
        "ROOT d = f32[4] all-reduce-done(c)",
        f"{X}ROOT d = f32[4] all-reduce(x), replica_groups={{}}, to_apply=sum",
    ),
    "an all-gather in two halves": (
        "async-to-sync",
        "",
        f"{X}c = (f32[4], f32[4]) all-gather-start(x), replica_groups={{}}, dimensions={{0}}\n"
        "ROOT d = f32[4] all-gather-done(c)",
        f"{X}ROOT d = f32[4] all-gather(x), replica_groups={{}}, dimensions={{0}}",
    ),
    "a permutation in two halves": (
        "async-to-sync",
        "",
        f"{X}c = (f32[4], f32[4], u32[], u32[]) collective-permute-start(x), "
        "source_target_pairs={{0,0}}\nROOT d = f32[4] collective-permute-done(c)",
        f"{X}ROOT d = f32[4] collective-permute(x), source_target_pairs={{{{0,0}}}}",
    ),
    "a start that is read in between stays": (
        "async-to-sync",
        SINE,
        f"{X}{START}b = f32[4] get-tuple-element(a), index=1\nd = f32[4] async-done(a)\n"
        "ROOT s = f32[4] add(b, d)",
        "",
    ),
    "a start with a control edge stays": (
        "async-to-sync",
        SINE,
        f"{X}n = f32[4] negate(x)\n"
        f"{START.replace('wrapped', 'wrapped, control-predecessors={n}')}"
        "d = f32[4] async-done(a)\nROOT s = f32[4] add(n, d)",
        "",
    ),
    "marks in a chain": (
        "sharding-remover",
        "",
        f'{X}y = f32[4] negate(x)\na = f32[4] custom-call(y), custom_call_target="Sharding"\n'
        'b = f32[4] custom-call(a), custom_call_target="SPMDFullToShardShape"\n'
        'c = f32[4] custom-call(b), custom_call_target="SPMDShardToFullShape"\n'
        'ROOT d = f32[4] custom-call(c), custom_call_target="xla.sdy.FuncResultSharding"',
        f"{X}ROOT y = f32[4] negate(x)",
    ),
    "other calls stay": (
        "sharding-remover",
        "",
        f'{X}ROOT a = f32[4] custom-call(x), custom_call_target="MoveToHost"',
        "",
    ),
}


@pytest.mark.parametrize(("passes", "outside", "before", "after"), CASES.values(), ids=CASES.keys())
def test_legalization(passes: str, outside: str, before: str, after: str) -> None:
    module = lowtide.parse_hlo(f"HloModule m\n{outside}\nENTRY main {{\n{before}\n}}")
    verify(module)
    original = clone_module(module)
    (step,) = parse_passes(passes)
    assert bool(step.run(module)) == bool(after)
    verify(module)
    assert step.run(module) == 0
    kept = "" if "wrapped" in outside and after else outside
    expected = lowtide.parse_hlo(f"HloModule m\n{kept}\nENTRY main {{\n{after or before}\n}}")
    if passes == "zero-sized" and "sum" in outside:
        for x in (module, expected):
            (dce,) = parse_passes("dce")
            dce.run(x)
    assert fingerprint(module) == fingerprint(expected), str(module)
    assert_same_values(original, module)


def test_marks_stay_for_several_partitions() -> None:
    text = (
        f"HloModule m, num_partitions=2\nENTRY main {{\n{X}"
        'ROOT a = f32[4] custom-call(x), custom_call_target="Sharding", sharding={replicated}\n}'
    )
    module = lowtide.parse_hlo(text)
    assert not any(step.run(module) for step in parse_passes("sharding-remover"))
