"""Classic simplifications of whole modules, by all passes of the simplified stage.

Bodies are in the notation of the cases of rules. What comes out has to be exactly what is written
here, and to compute the same bits for infinities, NaNs and zeros of both signs.
"""

import pytest
from tests.transforms.simplify.cases.notation import body, outside

from lowtide.compiler.stages import pipeline
from lowtide.evaluator import evaluate
from lowtide.ir.clone import clone_module
from lowtide.ir.printer import fingerprint
from lowtide.passes import run_pipeline
from lowtide.passes.dead_code import remove_dead_code
from lowtide.passes.instrumentation import Checking
from lowtide.testing.check_pass import assert_same_values
from lowtide.testing.check_rule import bits, leaves, module_of, special_arguments
from lowtide.verifier import verify

CASES = (
    # -- elements in another order
    (
        "reshape of reshape",
        "x: f32[4,6]; a = f32[24] reshape(x); b = f32[2,12] reshape(a)",
        "x: f32[4,6]; b = f32[2,12] reshape(x)",
    ),
    ("reshape and back", "x: f32[4,6]; a = f32[24] reshape(x); b = f32[4,6] reshape(a)", "x"),
    (
        "transpose of transpose",
        "x: f32[2,3,4]; a = f32[4,2,3] transpose(x), dimensions={2,0,1}; "
        "b = f32[3,4,2] transpose(a), dimensions={2,0,1}",
        "x: f32[2,3,4]; b = f32[3,4,2] transpose(x), dimensions={1,2,0}",
    ),
    (
        "transpose that moves sizes of 1",
        "x: f32[1,4,6]; a = f32[4,1,6] transpose(x), dimensions={1,0,2}",
        "x: f32[1,4,6]; a = f32[4,1,6] reshape(x)",
    ),
    (
        "transposes into dot",
        "x: f32[3,4]; y: f32[5,3]; a = f32[4,3] transpose(x), dimensions={1,0}; "
        "b = f32[3,5] transpose(y), dimensions={1,0}; "
        "c = f32[4,5] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        "x: f32[3,4]; y: f32[5,3]; "
        "c = f32[4,5] dot(x, y), lhs_contracting_dims={0}, rhs_contracting_dims={1}",
    ),
    (
        "transpose out of dot",
        "x: f32[4,3]; y: f32[3,5]; "
        "a = f32[4,5] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}; "
        "b = f32[5,4] transpose(a), dimensions={1,0}",
        "x: f32[4,3]; y: f32[3,5]; "
        "b = f32[5,4] dot(y, x), lhs_contracting_dims={0}, rhs_contracting_dims={1}",
    ),
    (
        "transposes that meet behind a sum",
        "x: f32[4,6]; y: f32[4,6]; a = f32[6,4] transpose(x), dimensions={1,0}; "
        "b = f32[6,4] transpose(y), dimensions={1,0}; c = f32[6,4] add(a, b); "
        "d = f32[4,6] transpose(c), dimensions={1,0}",
        "x: f32[4,6]; y: f32[4,6]; c = f32[4,6] add(x, y)",
    ),
    (
        "reverse of reverse",
        "x: f32[4,6]; a = f32[4,6] reverse(x), dimensions={0,1}; "
        "b = f32[4,6] reverse(a), dimensions={0}",
        "x: f32[4,6]; b = f32[4,6] reverse(x), dimensions={1}",
    ),
    # -- elements repeated
    (
        "broadcast of broadcast",
        "x: f32[3]; a = f32[3,4] broadcast(x), dimensions={0}; "
        "b = f32[2,3,4] broadcast(a), dimensions={1,2}",
        "x: f32[3]; b = f32[2,3,4] broadcast(x), dimensions={1}",
    ),
    (
        "broadcast of added sizes of 1",
        "x: f32[4]; a = f32[1,4] reshape(x); b = f32[3,1,4] broadcast(a), dimensions={1,2}",
        "x: f32[4]; b = f32[3,1,4] broadcast(x), dimensions={2}",
    ),
    (
        "work on broadcasts",
        "x: f32[4]; y: f32[4]; a = f32[4,6] broadcast(x), dimensions={0}; "
        "b = f32[4,6] broadcast(y), dimensions={0}; c = f32[4,6] multiply(a, b)",
        "x: f32[4]; y: f32[4]; a = f32[4] multiply(x, y); "
        "c = f32[4,6] broadcast(a), dimensions={0}",
    ),
    (
        "concatenate of one array",
        "x: f32[1,4]; a = f32[3,4] concatenate(x, x, x), dimensions={0}",
        "x: f32[1,4]; a = f32[4] reshape(x); b = f32[3,4] broadcast(a), dimensions={1}",
    ),
    (
        "iota of two dimensions, turned",
        "a = s32[4,6] iota(), iota_dimension=0; b = s32[6,4] transpose(a), dimensions={1,0}",
        "a = s32[4] iota(), iota_dimension=0; b = s32[6,4] broadcast(a), dimensions={1}",
    ),
    (
        "iota of another type",
        "a = s32[8] iota(), iota_dimension=0; b = f32[8] convert(a)",
        "b = f32[8] iota(), iota_dimension=0",
    ),
    # -- numbers
    ("times 0", "x: s32[4]; c: s32[4] = 0; a = s32[4] multiply(x, c)", "x: s32[4]; a: s32[4] = 0"),
    ("times 0.0 stays", "x: f32[4]; c: f32[4] = 0; a = f32[4] multiply(x, c)", None),
    ("plus 0.0 stays", "x: f32[4]; c: f32[4] = 0; a = f32[4] add(x, c)", None),
    ("minus itself stays", "x: f32[4]; a = f32[4] subtract(x, x)", None),
    ("over 1", "x: f32[4]; c: f32[4] = 1; a = f32[4] divide(x, c)", "x"),
    (
        "sums of constants",
        "x: s32[4]; c: s32[4] = 3; d: s32[4] = 4; a = s32[4] add(c, x); b = s32[4] add(d, a)",
        "x: s32[4]; c: s32[4] = 7; a = s32[4] add(x, c)",
    ),
    (
        "common factor",
        "x: s32[4]; y: s32[4]; z: s32[4]; a = s32[4] multiply(x, y); b = s32[4] multiply(z, x); "
        "c = s32[4] add(a, b)",
        "x: s32[4]; y: s32[4]; z: s32[4]; a = s32[4] add(y, z); c = s32[4] multiply(a, x)",
    ),
    (
        "power of 2",
        "x: f32[4]; c: f32[4] = 2; a = f32[4] power(x, c)",
        "x: f32[4]; a = f32[4] multiply(x, x)",
    ),
    (
        "power of 1/2",
        "x: f32[4]; c: f32[4] = 0.5; a = f32[4] power(x, c)",
        "x: f32[4]; d: f32[4] = -inf; p = pred[4] compare(x, d), direction=EQ; e: f32[4] = inf; "
        "r = f32[4] sqrt(x); z: f32[4] = 0; s = f32[4] add(r, z); a = f32[4] select(p, e, s)",
    ),
    (
        "power of -1",
        "x: f32[4]; c: f32[4] = -1; a = f32[4] power(x, c)",
        "x: f32[4]; c: f32[4] = 1; a = f32[4] divide(c, x)",
    ),
    (
        "1 over root",
        "x: f32[4]; c: f32[4] = 1; a = f32[4] sqrt(x); b = f32[4] divide(c, a)",
        "x: f32[4]; a = f32[4] rsqrt(x)",
    ),
    (
        "over 8",
        "x: f32[4]; c: f32[4] = 8; a = f32[4] divide(x, c)",
        "x: f32[4]; c: f32[4] = 0.125; a = f32[4] multiply(x, c)",
    ),
    (
        "remainder of 8",
        "x: u32[4]; c: u32[4] = 8; a = u32[4] remainder(x, c)",
        "x: u32[4]; c: u32[4] = 7; a = u32[4] and(x, c)",
    ),
    # -- choices
    ("select of equals", "p: pred[4]; x: f32[4]; a = f32[4] select(p, x, x)", "p: pred[4]; x"),
    (
        "select by not",
        "p: pred[4]; x: f32[4]; y: f32[4]; q = pred[4] not(p); a = f32[4] select(q, x, y)",
        "p: pred[4]; x: f32[4]; y: f32[4]; a = f32[4] select(p, y, x)",
    ),
    (
        "comparison of selected constants",
        "p: pred[4]; c: s32[4] = 5; d: s32[4] = 7; s = s32[4] select(p, c, d); "
        "a = pred[4] compare(d, s), direction=NE",
        "p: pred[4]; ROOT p",
    ),
    (
        "constant first in comparison",
        "x: s32[4]; c: s32[4] = 3; a = pred[4] compare(c, x), direction=LT",
        "x: s32[4]; c: s32[4] = 3; a = pred[4] compare(x, c), direction=GT",
    ),
    (
        "less or equal",
        "x: f32[4]; y: f32[4]; p = pred[4] compare(x, y), direction=LT; "
        "q = pred[4] compare(x, y), direction=EQ; a = pred[4] or(p, q)",
        "x: f32[4]; y: f32[4]; a = pred[4] compare(x, y), direction=LE",
    ),
    (
        "not less stays",
        "x: f32[4]; y: f32[4]; p = pred[4] compare(x, y), direction=LT; a = pred[4] not(p)",
        None,
    ),
    (
        "clamp of clamp",
        "x: s32[4]; c: s32[] = 0; d: s32[] = 9; a = s32[4] clamp(c, x, d); "
        "b = s32[4] clamp(c, a, d)",
        "x: s32[4]; c: s32[] = 0; d: s32[] = 9; b = s32[4] clamp(c, x, d)",
    ),
    # -- parts of arrays
    (
        "slice of slice",
        "x: f32[10]; a = f32[6] slice(x), slice={[2:8]}; b = f32[3] slice(a), slice={[1:4]}",
        "x: f32[10]; b = f32[3] slice(x), slice={[3:6]}",
    ),
    (
        "slice of concatenate",
        "x: f32[4]; y: f32[6]; a = f32[10] concatenate(x, y), dimensions={0}; "
        "b = f32[3] slice(a), slice={[5:8]}",
        "x: f32[4]; y: f32[6]; b = f32[3] slice(y), slice={[1:4]}",
    ),
    (
        "slice of pad",
        "x: f32[10]; z: f32[]; a = f32[14] pad(x, z), padding=2_2; "
        "b = f32[4] slice(a), slice={[4:8]}",
        "x: f32[10]; z: f32[]; b = f32[4] slice(x), slice={[2:6]}",
    ),
    (
        "slice of work",
        "x: bf16[8]; a = f32[8] convert(x); b = f32[8] negate(a); "
        "c = f32[2] slice(b), slice={[2:4]}",
        "x: bf16[8]; a = bf16[2] slice(x), slice={[2:4]}; b = f32[2] convert(a); "
        "c = f32[2] negate(b)",
    ),
    (
        "slices put together",
        "x: f32[8]; a = f32[3] slice(x), slice={[0:3]}; b = f32[5] slice(x), slice={[3:8]}; "
        "c = f32[8] concatenate(a, b), dimensions={0}",
        "x: f32[8]; ROOT x",
    ),
    (
        "concatenate of concatenate",
        "x: f32[8]; y: f32[2]; z: f32[0]; a = f32[10] concatenate(x, y), dimensions={0}; "
        "b = f32[20] concatenate(a, z, a), dimensions={0}",
        "x: f32[8]; y: f32[2]; z: f32[0]; a = f32[10] concatenate(x, y), dimensions={0}; "
        "b = f32[2,10] broadcast(a), dimensions={1}; c = f32[20] reshape(b)",
    ),
    (
        "pad of pad",
        "x: f32[4]; z: f32[] = 0; a = f32[6] pad(x, z), padding=1_1; "
        "b = f32[9] pad(a, z), padding=0_3",
        "x: f32[4]; z: f32[] = 0; b = f32[9] pad(x, z), padding=1_4",
    ),
    (
        "dynamic slice at a constant",
        "x: f32[8,4]; i: s32[] = 9; z: s32[] = 0; "
        "a = f32[3,4] dynamic-slice(x, i, z), dynamic_slice_sizes={3,4}",
        "x: f32[8,4]; a = f32[3,4] slice(x), slice={[5:8],[0:4]}",
    ),
    (
        "update of everything",
        "x: f32[8,4]; y: f32[8,4]; i: s32[]; a = f32[8,4] dynamic-update-slice(x, y, i, i)",
        "x: f32[8,4]; y: f32[8,4]; i: s32[]; ROOT y",
    ),
    (
        "update with what is there",
        "x: f32[8]; i: s32[]; a = f32[2] dynamic-slice(x, i), dynamic_slice_sizes={2}; "
        "b = f32[8] dynamic-update-slice(x, a, i)",
        "x: f32[8]; i: s32[]; ROOT x",
    ),
    (
        "update of zeros",
        "x: f32[3]; z: f32[8] = 0; i: s32[] = 2; a = f32[8] dynamic-update-slice(z, x, i)",
        "x: f32[3]; z: f32[] = 0; a = f32[8] pad(x, z), padding=2_3",
    ),
    (
        "gather at one place",
        "x: f32[8,4]; i: s32[1] = 2; a = f32[1,4] gather(x, i), offset_dims={0,1}, "
        "collapsed_slice_dims={}, start_index_map={0}, index_vector_dim=0, slice_sizes={1,4}",
        "x: f32[8,4]; a = f32[1,4] slice(x), slice={[2:3],[0:4]}",
    ),
    # -- types
    ("wider and back", "x: bf16[4]; a = f32[4] convert(x); b = bf16[4] convert(a)", "x"),
    ("narrower and back stays", "x: f32[4]; a = bf16[4] convert(x); b = f32[4] convert(a)", None),
    (
        "wider twice",
        "x: s8[4]; a = s16[4] convert(x); b = s32[4] convert(a)",
        "x: s8[4]; b = s32[4] convert(x)",
    ),
    # -- reductions
    (
        "greatest of a broadcast",
        "x: f32[4]; z: f32[] = -inf; a = f32[4,8] broadcast(x), dimensions={0}; "
        "b = f32[4] reduce(a, z), dimensions={1}, to_apply=maximum_f32",
        "x",
    ),
    (
        "sum of a broadcast",
        "x: s32[4]; z: s32[] = 0; a = s32[4,8] broadcast(x), dimensions={0}; "
        "b = s32[4] reduce(a, z), dimensions={1}, to_apply=add_s32",
        "x: s32[4]; c: s32[4] = 8; b = s32[4] multiply(x, c)",
    ),
    (
        "reduce of reduce",
        "x: s32[4,6,3]; z: s32[] = 0; a = s32[4,6] reduce(x, z), dimensions={2}, to_apply=add_s32; "
        "b = s32[4] reduce(a, z), dimensions={1}, to_apply=add_s32",
        "x: s32[4,6,3]; z: s32[] = 0; b = s32[4] reduce(x, z), dimensions={1,2}, to_apply=add_s32",
    ),
    (
        "reduce of transpose",
        "x: s32[4,6,3]; z: s32[] = 0; a = s32[3,6,4] transpose(x), dimensions={2,1,0}; "
        "b = s32[6] reduce(a, z), dimensions={0,2}, to_apply=add_s32",
        "x: s32[4,6,3]; z: s32[] = 0; b = s32[6] reduce(x, z), dimensions={0,2}, to_apply=add_s32",
    ),
    (
        "reduce of reshape",
        "x: s32[4,6]; z: s32[] = 0; a = s32[2,2,6] reshape(x); "
        "b = s32[2,2] reduce(a, z), dimensions={2}, to_apply=add_s32",
        "x: s32[4,6]; z: s32[] = 0; a = s32[4] reduce(x, z), dimensions={1}, to_apply=add_s32; "
        "b = s32[2,2] reshape(a)",
    ),
    (
        "padding into a window",
        "x: f32[6]; z: f32[] = -inf; a = f32[8] pad(x, z), padding=1_1; "
        "b = f32[6] reduce-window(a, z), window={size=3}, to_apply=maximum_f32",
        "x: f32[6]; z: f32[] = -inf; "
        "b = f32[6] reduce-window(x, z), window={size=3 pad=1_1}, to_apply=maximum_f32",
    ),
    # -- products
    (
        "convolution of size 1",
        "x: f32[2,4,4,3]; k: f32[1,1,3,5]; c = f32[2,4,4,5] convolution(x, k), "
        "window={size=1x1}, dim_labels=b01f_01io->b01f",
        "x: f32[2,4,4,3]; k: f32[1,1,3,5]; a = f32[3,5] reshape(k); "
        "c = f32[2,4,4,5] dot(x, a), lhs_contracting_dims={3}, rhs_contracting_dims={0}",
    ),
    (
        "slice of dot",
        "x: f32[4,6]; y: f32[6,3]; "
        "a = f32[4,3] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}; "
        "b = f32[1,3] slice(a), slice={[1:2],[0:3]}",
        "x: f32[4,6]; y: f32[6,3]; a = f32[1,6] slice(x), slice={[1:2],[0:6]}; "
        "b = f32[1,3] dot(a, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    ),
    # -- tuples, sorting
    (
        "element of tuple",
        "x: f32[4]; y: f32[4]; t = (f32[4], f32[4]) tuple(x, y); "
        "a = f32[4] get-tuple-element(t), index=1; b = f32[4] negate(a)",
        "x: f32[4]; y: f32[4]; b = f32[4] negate(y)",
    ),
    (
        "sort along size 1",
        "x: f32[1,6]; a = f32[1,6] sort(x), dimensions={0}, to_apply=less_of_one",
        "x: f32[1,6]; ROOT x",
    ),
)
"""A name, a body before, and after: None where it stays, `x` where that parameter is left."""


def expected(before: str, after: str | None) -> str:
    """Return the body after: that before where it stays, and with parameters declared once."""
    if after is None:
        return before
    declared = [part.strip() for part in before.split(";") if ":" in part and "=" not in part]
    if after.split(";")[-1].strip() == "x":
        return "; ".join([*declared, "ROOT x"])
    return after


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("before", "after"), [x[1:] for x in CASES], ids=[x[0] for x in CASES])
def test_classics(before: str, after: str | None) -> None:
    text = expected(before, after)
    module = module_of(body(before), outside(before))
    original = clone_module(module)
    changes = run_pipeline(module, pipeline("simplified"), [Checking(verify)])
    assert after is not None or not changes
    wanted = module_of(body(text), outside(f"{before};{text}"))
    for each in (wanted, module):
        remove_dead_code(each)
    assert fingerprint(module) == fingerprint(wanted), f"got\n{module}\nwanted\n{wanted}"
    if "dot" in text or "power" in before:
        assert_same_values(original, module)
        return
    for seed in range(2):
        arguments = special_arguments(original, seed)
        found, correct = [leaves(evaluate(x, arguments)) for x in (module, original)]
        assert [bits(x) for x in found] == [bits(x) for x in correct]
