"""Inference against XLA's parser, which infers the shapes that a text leaves out."""

import pytest

from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import ElementType, Opcode, array_shape
from lowtide.ir.attributes import NO_ATTRIBUTES, Dimensions, Dot, DotDimensions, Slice
from lowtide.ir.errors import CannotInferError, ShapeError
from lowtide.ops.checks import higher_precision
from lowtide.ops.infer import infer_omitted_shape, infer_shape

COLUMNS = "f32[2,3]{0,1}"
ROWS = "f32[2,3]{1,0}"

CALLEES = """
red { a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT r = f32[] add(a, b) }
red2 { a = f32[] parameter(0)
 b = s32[] parameter(1)
 c = f32[] parameter(2)
 d = s32[] parameter(3)
 ROOT r = (f32[], s32[]) tuple(a, b) }
red1 { a = f32[] parameter(0)
 b = f32[] parameter(1)
 c = f32[] add(a, b)
 ROOT r = (f32[]) tuple(c) }
cmp { a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT r = pred[] compare(a, b), direction=LT }
neg { a = f32[] parameter(0)
 ROOT r = f32[] negate(a) }
cond { x = f32[4]{0:S(1)} parameter(0)
 ROOT r = pred[] constant(0) }
body { x = f32[4]{0} parameter(0)
 ROOT r = f32[4]{0:T(4)} copy(x) }
step { c = s32[] parameter(0)
 x = f32[4]{0} parameter(1)
 ROOT r = (f32[4]{0}, s32[]) tuple(x, c) }
"""

GATHER = "offset_dims={1,2}, collapsed_slice_dims={0}, start_index_map={0,1}, index_vector_dim=1"
SCATTER = (
    "update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
    "index_vector_dim=1"
)
MATRICES = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
BATCHED = (
    "lhs_contracting_dims={2}, rhs_contracting_dims={1}, lhs_batch_dims={0}, rhs_batch_dims={0}"
)
RAGGED = (
    "lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0}"
)

INFERRED = [
    ([COLUMNS, ROWS], "add(p0, p1)"),
    (["f32[2,3]{0,1:S(1)}", COLUMNS], "add(p0, p1)"),
    (["s4[2,3]{0,1:E(4)}", "s4[2,3]"], "add(p0, p1)"),
    (["f32[2,3]", "f32[2,1]"], "add(p0, p1)"),
    (["f32[2,1]{0,1}", COLUMNS], "add(p0, p1)"),
    (["f32[]", COLUMNS], "add(p0, p1)"),
    (["bf16[2,3]", "f32[2,3]"], "add(p0, p1)"),
    (["f32[<=2,3]", "f32[2,3]"], "add(p0, p1)"),
    (["f32[?,3]", "f32[2,3]"], "add(p0, p1)"),
    (["f32[?,3]", "f32[<=2,3]"], "add(p0, p1)"),
    (["f32[?,3]", "f32[1,3]"], "add(p0, p1)"),
    ([COLUMNS, COLUMNS], "compare(p0, p1), direction=LT"),
    (["s4[3]{0:E(4)}", "s4[3]{0:E(4)}"], "compare(p0, p1), direction=LT"),
    (["pred[2,3]{0,1}", ROWS, COLUMNS], "select(p0, p1, p2)"),
    (["pred[]", COLUMNS, ROWS], "select(p0, p1, p2)"),
    (["pred[2,3]", "bf16[2,3]", "f32[2,3]"], "select(p0, p1, p2)"),
    (["f32[]", COLUMNS, ROWS], "clamp(p0, p1, p2)"),
    (["bf16[]", "f32[3]", "f32[]"], "clamp(p0, p1, p2)"),
    ([ROWS, COLUMNS], "complex(p0, p1)"),
    (["c64[2,3]{0,1}"], "real(p0)"),
    ([COLUMNS], "imag(p0)"),
    (["c128[2,3]{0,1}"], "abs(p0)"),
    ([COLUMNS], "is-finite(p0)"),
    (["(f32[2]{0:S(1)})"], "copy(p0)"),
    (["f32[2]", "token[]"], "add-dependency(p0, p1)"),
    (["(f32[2]{0:S(1)}, f32[])"], "get-tuple-element(p0), index=0"),
    ([COLUMNS, ROWS], "tuple(p0, p1)"),
    ([], "tuple()"),
    ([COLUMNS, COLUMNS], "concatenate(p0, p1), dimensions={0}"),
    (["f32[<=2]", "f32[3]"], "concatenate(p0, p1), dimensions={0}"),
    (["f32[?]", "f32[3]"], "concatenate(p0, p1), dimensions={0}"),
    (["f32[?,3]", "f32[2,3]"], "concatenate(p0, p1), dimensions={1}"),
    (["f32[2,3,4]{0,1,2:S(1)}"], "transpose(p0), dimensions={1,2,0}"),
    (["f32[2,<=3,4]"], "transpose(p0), dimensions={1,2,0}"),
    (["f32[2,3]{0,1:T(2,128)}"], "transpose(p0), dimensions={1,0}"),
    ([COLUMNS], "reverse(p0), dimensions={0}"),
    ([COLUMNS, "f32[]"], "pad(p0, p1), padding=1_2_3x0_-1"),
    (["f32[<=2,?]", "f32[]"], "pad(p0, p1), padding=1_2_1x0_0"),
    (["f32[0]", "f32[]"], "pad(p0, p1), padding=1_1_2"),
    (["f32[]"], "broadcast(p0), dimensions={}"),
    (["f32[3]"], "broadcast(p0), dimensions={1}"),
    (["f32[3,4]{0,1}"], "broadcast(p0), dimensions={5,6}"),
    ([COLUMNS, "f32[3,4]{0,1}"], f"dot(p0, p1), {MATRICES}"),
    (["s8[2,3]", "f32[3,4]"], f"dot(p0, p1), {MATRICES}"),
    (["f8e4m3fn[2,3]", "f8e5m2[3,4]"], f"dot(p0, p1), {MATRICES}"),
    (["s8[2,3]", "u8[3,4]"], f"dot(p0, p1), {MATRICES}"),
    (["f32[<=7,2,3]", "f32[7,3,4]"], f"dot(p0, p1), {BATCHED}"),
    (["f32[11,5]", "f32[3,5,7]", "s32[3]"], f"ragged-dot(p0, p1, p2), {RAGGED}"),
    (["f32[2,3]", "f32[3,4]", "f32[3,2]", "f32[2,1]"], f"scaled-dot(p0, p1, p2, p3), {MATRICES}"),
    (
        ["f32[1,8,8,3]", "f32[3,3,3,5]"],
        "convolution(p0, p1), window={size=3x3 stride=2x1 pad=1_1x0_0}, dim_labels=b01f_01io->bf01",
    ),
    (
        ["f32[1,8,8,3]", "f32[3,3,3,5]"],
        "convolution(p0, p1), window={size=3x3 lhs_dilate=2x2 rhs_dilate=2x1}, "
        "dim_labels=b01f_01io->b01f",
    ),
    (
        ["f32[1,2,?,4]", "f32[3,3,2,6]"],
        "convolution(p0, p1), window={size=3x3}, feature_group_count=2, dim_labels=b01f_01io->b01f",
    ),
    (
        ["bf16[4,8,8,3]", "f32[3,3,3,6]"],
        "convolution(p0, p1), window={size=3x3}, batch_group_count=2, dim_labels=b01f_01io->b01f",
    ),
    (["f32[2,3,4]{0,1,2}", "f32[]"], "reduce(p0, p1), dimensions={1}, to_apply=red"),
    (["bf16[2,3]", "bf16[]"], "reduce(p0, p1), dimensions={0}, to_apply=red"),
    ([COLUMNS, "f32[]"], "reduce(p0, p1), dimensions={1}, to_apply=red1"),
    (
        [COLUMNS, "s32[2,3]", "f32[]", "s32[]"],
        "reduce(p0, p1, p2, p3), dimensions={0}, to_apply=red2",
    ),
    (
        [COLUMNS, "f32[]"],
        "reduce-window(p0, p1), window={size=2x2 pad=1_0x0_1 stride=2x1 lhs_dilate=2x1}, "
        "to_apply=red",
    ),
    ([COLUMNS, "f32[]"], "reduce-window(p0, p1), window={size=3x4}, to_apply=red"),
    (
        ["f32[4,4]{0,1}", "f32[2,2]", "f32[]"],
        "select-and-scatter(p0, p1, p2), window={size=2x2 stride=2x2}, select=cmp, scatter=red",
    ),
    ([COLUMNS, ROWS], "map(p0, p1), dimensions={0,1}, to_apply=cmp"),
    (["bf16[2]"], "map(p0), dimensions={0}, to_apply=neg"),
    ([COLUMNS, "s32[2,3]"], "sort(p0, p1), dimensions={0}, to_apply=cmp"),
    (["f32[2,5]{0,1}"], "topk(p0), k=2"),
    (["f32[4]{0:S(1)}"], "call(p0), to_apply=body"),
    (["f32[4]"], "while(p0), condition=cond, body=body"),
    (
        ["pred[]", "f32[4]", "f32[4]"],
        "conditional(p0, p1, p2), true_computation=body, false_computation=body",
    ),
    (["f32[6,4]", "s32[]"], "scan(p0, p1), dimensions={0}, num_carries=1, to_apply=step"),
    (["f32[4,6]", "s32[]"], "scan(p0, p1), dimensions={1}, num_carries=1, to_apply=step"),
    (["f32[10,20,30]{0,1,2}", "s32[5,2]"], f"gather(p0, p1), {GATHER}, slice_sizes={{1,4,30}}"),
    (["f32[10,<=20,30]", "s32[<=5,2]"], f"gather(p0, p1), {GATHER}, slice_sizes={{1,20,30}}"),
    (
        ["f32[3,20]", "s32[3,5,1]"],
        "gather(p0, p1), offset_dims={}, collapsed_slice_dims={1}, start_index_map={1}, "
        "index_vector_dim=2, slice_sizes={1,1}, operand_batching_dims={0}, "
        "start_indices_batching_dims={0}",
    ),
    (
        ["f32[10,20]{0,1}", "s32[10,20]", "s32[5,1]", "f32[5,20]", "s32[5,20]"],
        f"scatter(p0, p1, p2, p3, p4), {SCATTER}, to_apply=red2",
    ),
    (["f32[4,8]{0,1}"], "fft(p0), fft_type=RFFT, fft_length={8}"),
    (["c64[4,5]{0,1}"], "fft(p0), fft_type=IRFFT, fft_length={8}"),
    (["c64[4,0]"], "fft(p0), fft_type=IRFFT, fft_length={0}"),
    (["f32[4,4]{0,1}"], "cholesky(p0), lower=true"),
    (
        ["f32[4,4]", "f32[4,2]{0,1}"],
        "triangular-solve(p0, p1), left_side=true, transpose_a=NO_TRANSPOSE",
    ),
    (
        ["f32[4,5,<=6]{0,1,2}", "f32[<=6]", "f32[<=6]"],
        "batch-norm-training(p0, p1, p2), epsilon=0.1, feature_index=2",
    ),
    (
        ["f32[4,6]{0,1}", "f32[6]", "f32[6]", "f32[6]", "f32[4,6]"],
        "batch-norm-grad(p0, p1, p2, p3, p4), epsilon=0.1, feature_index=1",
    ),
    ([COLUMNS], "get-dimension-size(p0), dimensions={0}"),
    ([COLUMNS, "s32[]"], "set-dimension-size(p0, p1), dimensions={0}"),
    (["token[]", "token[]"], "after-all(p0, p1)"),
    ([], "partition-id()"),
    ([COLUMNS], 'domain(p0), domain={kind="sharding", entry={replicated}, exit={replicated}}'),
]


def module_text(parameters: list[str], right_side: str) -> str:
    lines = [f" p{i} = {shape} parameter({i})\n" for i, shape in enumerate(parameters)]
    return f"HloModule m\n{CALLEES}\nENTRY e {{\n{''.join(lines)} ROOT r = {right_side}\n}}\n"


@pytest.mark.parametrize(("parameters", "right_side"), INFERRED)
def test_an_omitted_shape_is_inferred_as_by_xla_layout_included(parameters, right_side):
    pytest.importorskip("jaxlib")
    from jaxlib import _hlo

    text = module_text(parameters, right_side)
    root = parse_hlo(_hlo.hlo_module_from_text(text).to_string()).entry.root
    inferred = infer_omitted_shape(
        root.opcode,
        [operand.shape for operand in root.operands],
        root.attributes,
        [callee.program_shape for callee in root.called_computations],
    )
    assert inferred is root.shape


REJECTED = [
    (["f32[2,3]", "f32[3,2]"], "add(p0, p1)", "differ in size: f32[2,3] and f32[3,2]"),
    (["f32[2]", "f32[2,3]"], "add(p0, p1)", "differ in rank"),
    (["f32[2]", "s32[2]"], "add(p0, p1)", "differ in type: f32[2] and s32[2]"),
    (["pred[2]", "pred[2]"], "subtract(p0, p1)", "integral or floating or complex, not pred[2]"),
    (["s32[2]"], "cosine(p0)", "floating or complex, not s32[2]"),
    (["(f32[2])"], "negate(p0)", "must be an array, not (f32[2])"),
    (["s32[2]", "f32[2]", "f32[2]"], "select(p0, p1, p2)", "operand 0 must be pred"),
    (["f16[2]", "f16[2]"], "complex(p0, p1)", "must be f32 or f64"),
    (["f32[2,3]"], "transpose(p0), dimensions={1,1}", "must be a permutation"),
    (["f32[2,3]"], "reverse(p0), dimensions={2}", "2 is out of range for f32[2,3]"),
    (["f32[2]", "f32[]"], "pad(p0, p1), padding=-3_0", "takes more than 2 elements"),
    (["f32[2,3]", "f32[4,4]"], f"dot(p0, p1), {MATRICES}", "differ in size"),
    (["f32[3]"], "concatenate(p0), dimensions={1}", "out of range"),
    (["f32[2,3]", "f32[]"], "reduce(p0, p1), dimensions={0}, to_apply=neg", "must take 2 param"),
    (["s32[2]", "f32[]"], "reduce(p0, p1), dimensions={0}, to_apply=red", "type of s32[2]"),
    (["f32[2,3]", "f32[]"], "reduce-window(p0, p1), window={size=2}, to_apply=red", "2 dimensions"),
    (["f32[5]"], "while(p0), condition=cond, body=body", "the condition has parameter 0"),
    (["f32[2]"], "call(p0), to_apply=neg", "to_apply has parameter 0 of shape f32[]"),
    (["f32[3,4]"], "cholesky(p0)", "square matrices, not f32[3,4]"),
    (["c64[4]"], "topk(p0), k=2", "elements that have an order, not c64[4]"),
    (["f32[4,5]"], "fft(p0), fft_type=FFT, fft_length={5}", "needs a complex operand"),
    (
        ["f32[10,20,30]", "s32[5,2]"],
        f"gather(p0, p1), {GATHER}, slice_sizes={{1,21,30}}",
        "slice sizes {1,21,30} do not fit",
    ),
    (
        ["f32[10,20]", "s32[5,1]", "f32[6,20]"],
        f"scatter(p0, p1, p2), {SCATTER}, to_apply=red",
        "does not match the indices s32[5,1]",
    ),
]


@pytest.mark.parametrize(("parameters", "right_side", "message"), REJECTED)
def test_what_does_not_fit_is_refused_with_both_sides_named(parameters, right_side, message):
    declared = module_text(parameters, f"f32[1] {right_side}")
    root = parse_hlo(declared).entry.root
    with pytest.raises(ShapeError) as caught:
        infer_shape(
            root.opcode,
            [operand.shape for operand in root.operands],
            root.attributes,
            [callee.program_shape for callee in root.called_computations],
        )
    assert message in str(caught.value)


def test_free_choices_cannot_be_inferred():
    shape = array_shape(ElementType.F32, (2,))
    with pytest.raises(CannotInferError, match="convert"):
        infer_shape(Opcode.CONVERT, [shape], NO_ATTRIBUTES)


def test_text_must_state_what_xla_does_not_infer():
    shape = array_shape(ElementType.F32, (9,))
    attributes = Slice((1,), (8,), (3,))
    assert str(infer_shape(Opcode.SLICE, [shape], attributes)) == "f32[3]{0}"
    with pytest.raises(CannotInferError, match="slice"):
        infer_omitted_shape(Opcode.SLICE, [shape], attributes)


@pytest.mark.parametrize(
    ("opcode", "count", "attributes"),
    [
        (Opcode.ADD, 3, NO_ATTRIBUTES),
        (Opcode.DOT, 1, Dot(DotDimensions())),
        (Opcode.REVERSE, 0, Dimensions(())),
    ],
)
def test_the_number_of_operands_is_checked(opcode, count, attributes):
    shape = array_shape(ElementType.F32)
    with pytest.raises(ShapeError, match=f"operands, not {count}"):
        infer_omitted_shape(opcode, [shape] * count, attributes)


ARRAY_TYPES = [element_type for element_type in ElementType if element_type.is_array]


def test_the_higher_precision_is_symmetric_and_transitive():
    """A fold of types in any order gives one result, so that it is an order."""
    for a in ARRAY_TYPES:
        assert higher_precision(a, a) is a
        for b in ARRAY_TYPES:
            best = higher_precision(a, b)
            assert best in (a, b)
            for c in ARRAY_TYPES:
                left = higher_precision(best, c)
                assert left is higher_precision(a, higher_precision(b, c))
