"""Products that share an operand, before and after."""

import pytest

import lowtide
from lowtide.ir.clone import clone_module
from lowtide.ir.printer import fingerprint
from lowtide.passes.registry import parse_passes
from lowtide.testing.check_pass import assert_same_values
from lowtide.verifier import verify

ROW = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"


def slices(*ranges: tuple[int, int]) -> str:
    """Products of x with slices of w, and the tuple of them."""
    lines = ["x = f32[8,16] parameter(0)", "w = f32[16,12] parameter(1)"]
    names, shapes = [], []
    for i, (start, limit) in enumerate(ranges):
        n = limit - start
        lines.append(f"w{i} = f32[16,{n}] slice(w), slice={{[0:16], [{start}:{limit}]}}")
        lines.append(f"y{i} = f32[8,{n}] dot(x, w{i}), {ROW}")
        names.append(f"y{i}")
        shapes.append(f"f32[8,{n}]")
    return "\n".join([*lines, f"ROOT r = ({', '.join(shapes)}) tuple({', '.join(names)})"])


CASES: dict[str, tuple[str, str]] = {
    "all of an array in any order": (
        slices((8, 12), (0, 3), (3, 8)),
        "x = f32[8,16] parameter(0)\nw = f32[16,12] parameter(1)\n"
        f"y = f32[8,12] dot(x, w), {ROW}\n"
        "y0 = f32[8,4] slice(y), slice={[0:8], [8:12]}\n"
        "y1 = f32[8,3] slice(y), slice={[0:8], [0:3]}\n"
        "y2 = f32[8,5] slice(y), slice={[0:8], [3:8]}\n"
        "ROOT r = (f32[8,4], f32[8,3], f32[8,5]) tuple(y0, y1, y2)",
    ),
    "neighbours that are not all": (
        slices((1, 3), (3, 8)),
        "x = f32[8,16] parameter(0)\nw = f32[16,12] parameter(1)\n"
        "s = f32[16,7] slice(w), slice={[0:16], [1:8]}\n"
        f"y = f32[8,7] dot(x, s), {ROW}\n"
        "y0 = f32[8,2] slice(y), slice={[0:8], [0:2]}\n"
        "y1 = f32[8,5] slice(y), slice={[0:8], [2:7]}\n"
        "ROOT r = (f32[8,2], f32[8,5]) tuple(y0, y1)",
    ),
    "slices with a gap": (slices((0, 3), (4, 8)), ""),
    "slices that overlap": (slices((0, 4), (3, 8)), ""),
    "the left operands": (
        "x = f32[16,8] parameter(0)\nw = f32[6,16] parameter(1)\n"
        "a = f32[2,16] slice(w), slice={[0:2], [0:16]}\n"
        "b = f32[4,16] slice(w), slice={[2:6], [0:16]}\n"
        f"p = f32[2,8] dot(a, x), {ROW}\nq = f32[4,8] dot(b, x), {ROW}\n"
        "ROOT r = (f32[2,8], f32[4,8]) tuple(p, q)",
        "x = f32[16,8] parameter(0)\nw = f32[6,16] parameter(1)\n"
        f"y = f32[6,8] dot(w, x), {ROW}\n"
        "p = f32[2,8] slice(y), slice={[0:2], [0:8]}\nq = f32[4,8] slice(y), slice={[2:6], [0:8]}\n"
        "ROOT r = (f32[2,8], f32[4,8]) tuple(p, q)",
    ),
    "a large operand with batches and small others": (
        "x = f32[2,512,64] parameter(0)\nu = f32[2,64,2] parameter(1)\n"
        "v = f32[2,64,3] parameter(2)\n"
        "p = f32[2,512,2] dot(x, u), lhs_batch_dims={0}, rhs_batch_dims={0}, "
        "lhs_contracting_dims={2}, rhs_contracting_dims={1}\n"
        "q = f32[2,512,3] dot(x, v), lhs_batch_dims={0}, rhs_batch_dims={0}, "
        "lhs_contracting_dims={2}, rhs_contracting_dims={1}\n"
        "ROOT r = (f32[2,512,2], f32[2,512,3]) tuple(p, q)",
        "x = f32[2,512,64] parameter(0)\nu = f32[2,64,2] parameter(1)\n"
        "v = f32[2,64,3] parameter(2)\n"
        "uv = f32[2,64,5] concatenate(u, v), dimensions={2}\n"
        "y = f32[2,512,5] dot(x, uv), lhs_batch_dims={0}, rhs_batch_dims={0}, "
        "lhs_contracting_dims={2}, rhs_contracting_dims={1}\n"
        "p = f32[2,512,2] slice(y), slice={[0:2], [0:512], [0:2]}\n"
        "q = f32[2,512,3] slice(y), slice={[0:2], [0:512], [2:5]}\n"
        "ROOT r = (f32[2,512,2], f32[2,512,3]) tuple(p, q)",
    ),
    "others that are not small": (
        "x = f32[8,16] parameter(0)\nu = f32[16,8] parameter(1)\nv = f32[16,8] parameter(2)\n"
        f"p = f32[8,8] dot(x, u), {ROW}\nq = f32[8,8] dot(x, v), {ROW}\n"
        "ROOT r = (f32[8,8], f32[8,8]) tuple(p, q)",
        "",
    ),
    "one that depends on the other": (
        "x = f32[64,64] parameter(0)\nu = f32[64,2] parameter(1)\n"
        f"p = f32[64,2] dot(x, u), {ROW}\nq = f32[64,2] dot(x, p), {ROW}\n"
        "ROOT r = (f32[64,2], f32[64,2]) tuple(p, q)",
        "",
    ),
    "contractions that differ": (
        "x = f32[16,16] parameter(0)\nw = f32[16,2] parameter(1)\n"
        "a = f32[16,1] slice(w), slice={[0:16], [0:1]}\n"
        "b = f32[16,1] slice(w), slice={[0:16], [1:2]}\n"
        f"p = f32[16,1] dot(x, a), {ROW}\n"
        "q = f32[16,1] dot(x, b), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n"
        "ROOT r = (f32[16,1], f32[16,1]) tuple(p, q)",
        "",
    ),
}


@pytest.mark.parametrize(("before", "after"), CASES.values(), ids=CASES.keys())
def test_merging(before: str, after: str) -> None:
    module = lowtide.parse_hlo(f"HloModule m\nENTRY main {{\n{before}\n}}")
    verify(module)
    original = clone_module(module)
    (step,) = parse_passes("dot-merger")
    assert bool(step.run(module)) == bool(after)
    verify(module)
    assert step.run(module) == 0
    expected = lowtide.parse_hlo(f"HloModule m\nENTRY main {{\n{after or before}\n}}")
    assert fingerprint(module) == fingerprint(expected), str(module)
    assert_same_values(original, module)
