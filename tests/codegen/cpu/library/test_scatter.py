"""Scatter natively and by the evaluator: dimension numbers, combiners, bounds, fusions."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.codegen.cpu.library.running import TARGETS, check

from lowtide.codegen.cpu.library.scatter import split_of
from lowtide.codegen.cpu.select import kernel_plan
from lowtide.codegen.library.scatter_form import ScatterForm
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import Opcode
from lowtide.ir.literal import DTYPES
from lowtide.llvm.target import host_target

COMBINERS = {"add": "add(a, b)", "max": "maximum(a, b)", "update": "copy(b)", "keep": "copy(a)"}


def combiner(name: str, type_: str) -> str:
    return f"""
f {{
  a = {type_}[] parameter(0)
  b = {type_}[] parameter(1)
  ROOT r = {type_}[] {COMBINERS[name]}
}}
"""


def dims(sizes) -> str:
    return ",".join(map(str, sizes))


def scatter_text(type_, operand, indices, updates, numbers, name="add", index_type="s32") -> str:
    return f"""
HloModule m
{combiner(name, type_)}
ENTRY main {{
  x = {type_}[{dims(operand)}] parameter(0)
  i = {index_type}[{dims(indices)}] parameter(1)
  u = {type_}[{dims(updates)}] parameter(2)
  ROOT s = {type_}[{dims(operand)}] scatter(x, i, u), {numbers}, to_apply=f
}}
"""


ROWS = (
    "update_window_dims={1}, inserted_window_dims={0}, "
    "scatter_dims_to_operand_dims={0}, index_vector_dim=1"
)

FORMS = [
    # operand, indices, updates, dimension numbers
    ((9, 33), (20, 1), (20, 33), ROWS),
    ((9, 33), (20,), (20, 33), ROWS),
    ((50,), (300, 1), (300,), ROWS.replace("{1}", "{}", 1)),
    (
        (6, 7, 19),
        (2, 30),
        (3, 30, 19),
        "update_window_dims={0,2}, inserted_window_dims={0}, "
        "scatter_dims_to_operand_dims={0,1}, index_vector_dim=0",
    ),
    (
        (4, 6, 20),
        (4, 5, 1),
        (4, 5, 20),
        "update_window_dims={2}, inserted_window_dims={1}, scatter_dims_to_operand_dims={1}, "
        "index_vector_dim=2, input_batching_dims={0}, scatter_indices_batching_dims={0}",
    ),
    (
        (8, 40),
        (3, 2),
        (3, 2, 17),
        "update_window_dims={1,2}, inserted_window_dims={}, "
        "scatter_dims_to_operand_dims={1,0}, index_vector_dim=1",
    ),
    ((5,), (0, 1), (0,), ROWS.replace("{1}", "{}", 1)),
]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("form", FORMS, ids=lambda x: dims(x[2]))
@pytest.mark.parametrize("name", COMBINERS)
def test_forms_and_combiners(form, name, target):
    operand, indices, updates, numbers = form
    random = np.random.default_rng(1)
    inputs = [
        random.integers(-9, 9, operand).astype(np.float32),
        random.integers(-2, max(operand) + 1, indices).astype(np.int32),
        random.integers(-9, 9, updates).astype(np.float32),
    ]
    check(scatter_text("f32", operand, indices, updates, numbers, name), inputs, target)


@pytest.mark.parametrize("index_type", ["u8", "s64", "u64"])
@pytest.mark.parametrize("type_", ["bf16", "s8", "c64", "f64", "pred"])
def test_element_types(type_, index_type):
    random = np.random.default_rng(2)
    text = scatter_text(type_, (7, 21), (40, 1), (40, 21), ROWS, "add", index_type)
    module = parse_hlo(text)
    parameters = module.entry.parameters
    inputs = [
        random.integers(0, 5, x.shape.dimensions).astype(DTYPES[x.shape.element_type])
        for x in parameters
    ]
    inputs[1] = random.integers(0, 12, (40, 1)).astype(inputs[1].dtype)
    check(text, inputs)


@pytest.mark.parametrize("start", [-1, -(2**31), 2**31 - 1, 7, 8])
def test_windows_outside_are_left_out(start):
    random = np.random.default_rng(3)
    numbers = (
        "update_window_dims={1}, inserted_window_dims={}, "
        "scatter_dims_to_operand_dims={0}, index_vector_dim=1"
    )
    inputs = [random.random(10), np.array([[start], [0]]), random.random((2, 3))]
    inputs = [inputs[0].astype("f4"), inputs[1].astype("i4"), inputs[2].astype("f4")]
    check(scatter_text("f32", (10,), (2, 1), (2, 3), numbers), inputs)


@pytest.mark.parametrize(
    ("sizes", "along_line", "several"),
    [
        (((40, 300), (100, 1), (100, 300)), True, True),
        (((5000, 40), (300, 1), (300, 40)), False, True),
        (((5000, 4), (3000, 1), (3000, 4)), False, False),
    ],
)
@pytest.mark.parametrize("target", TARGETS)
def test_pieces_together_do_the_whole(sizes, along_line, several, target):
    text = scatter_text("f32", *sizes, ROWS)
    scatter = parse_hlo(text).entry.root
    assert scatter.opcode is Opcode.SCATTER
    split = split_of(ScatterForm(scatter))
    assert (split is not None and split.units > 1) == several
    assert split is None or split.along_line == along_line
    random = np.random.default_rng(4)
    inputs = [
        random.random(sizes[0], np.float32),
        random.integers(-5, sizes[0][0] + 5, sizes[1]).astype(np.int32),
        random.random(sizes[2], np.float32),
    ]
    check(text, inputs, target)


VARIADIC = """
HloModule m

f {
  a = f32[] parameter(0)
  b = s32[] parameter(1)
  c = f32[] parameter(2)
  d = s32[] parameter(3)
  greater = pred[] compare(c, a), direction=GT
  e = f32[] select(greater, c, a)
  g = s32[] select(greater, d, b)
  ROOT r = (f32[], s32[]) tuple(e, g)
}

ENTRY main {
  x = f32[10,9] parameter(0)
  y = s32[10,9] parameter(1)
  i = s32[30,1] parameter(2)
  u = f32[30,9] parameter(3)
  v = s32[30,9] parameter(4)
  ROOT s = (f32[10,9], s32[10,9]) scatter(x, y, i, u, v), update_window_dims={1},
      inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=f
}
"""


@pytest.mark.parametrize("stage", ["input", "fused"])
def test_several_arrays_at_once(stage):
    random = np.random.default_rng(5)
    inputs = [
        random.random((10, 9), np.float32),
        random.integers(0, 9, (10, 9)).astype(np.int32),
        random.integers(0, 11, (30, 1)).astype(np.int32),
        random.random((30, 9), np.float32),
        random.integers(0, 9, (30, 9)).astype(np.int32),
    ]
    check(VARIADIC, inputs, stage=stage)


FUSED = """
HloModule m

f {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b)
}

fused {
  x = f32[12,40] parameter(0)
  i = s32[25,1] parameter(1)
  p = f32[25,40] parameter(2)
  q = f32[40] parameter(3)
  wide = f32[25,40] broadcast(q), dimensions={1}
  u = f32[25,40] multiply(p, wide)
  s = f32[12,40] scatter(START, i, u), update_window_dims={1}, inserted_window_dims={0},
      scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=f
  ROOT t = (f32[12,40], f32[25,40]) tuple(s, u)
}

ENTRY main {
  x = f32[12,40] parameter(0)
  i = s32[25,1] parameter(1)
  p = f32[25,40] parameter(2)
  q = f32[40] parameter(3)
  ROOT k = (f32[12,40], f32[25,40]) fusion(x, i, p, q), kind=kLoop, calls=fused
}
"""


@pytest.mark.parametrize("start", ["x", "y"])
@pytest.mark.parametrize("target", TARGETS)
def test_fusions_compute_what_they_write(start, target):
    text = FUSED.replace("START", start)
    if start == "y":
        text = text.replace(
            "  i = s32[25,1] parameter(1)\n  p",
            "  y = f32[12,40] negate(x)\n  i = s32[25,1] parameter(1)\n  p",
            1,
        )
    random = np.random.default_rng(6)
    inputs = [
        random.integers(-9, 9, (12, 40)).astype(np.float32),
        random.integers(-2, 14, (25, 1)).astype(np.int32),
        random.integers(-9, 9, (25, 40)).astype(np.float32),
        random.integers(-9, 9, (40,)).astype(np.float32),
    ]
    check(text, inputs, target)


@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_any_rows(data):
    rows = data.draw(st.integers(1, 6))
    width = data.draw(st.integers(1, 70))
    count = data.draw(st.integers(1, 20))
    seed = data.draw(st.integers(0, 1000))
    random = np.random.default_rng(seed)
    inputs = [
        random.integers(-9, 9, (rows, width)).astype(np.int32),
        random.integers(-1, rows + 1, (count, 1)).astype(np.int32),
        random.integers(-9, 9, (count, width)).astype(np.int32),
    ]
    check(scatter_text("s32", (rows, width), (count, 1), (count, width), ROWS), inputs)


@pytest.mark.parametrize("index_type", ["s8", "s16", "u8"])
def test_narrow_indices_of_a_long_array(index_type) -> None:
    """One below 0 lies outside, also where its bits would be a number within."""
    size = 70_000 if index_type == "s16" else 300
    numbers = ROWS.replace("{1}", "{}", 1)
    text = scatter_text("f32", (size,), (4, 1), (4,), numbers, index_type=index_type)
    dtype = DTYPES[parse_hlo(text).entry.parameters[1].shape.element_type]
    indices = np.array([[-1], [5], [-100], [7]]).astype(dtype)
    arrays = [np.zeros(size, np.float32), indices, np.arange(1, 5, dtype=np.float32)]
    for target in TARGETS:
        check(text, arrays, target)


ONE_ELEMENT = """
HloModule m

f {
  a = f32[] parameter(0)
  ROOT b = f32[] parameter(1)
}

fused {
  x = f32[7] parameter(0)
  i = s32[] parameter(1)
  p = f32[] parameter(2)
  q = f32[5] parameter(3)
  c = f32[] cosine(p)
  u = f32[] multiply(c, p)
  j = s32[1] broadcast(i), dimensions={}
  s = f32[7] scatter(x, j, u), update_window_dims={}, inserted_window_dims={0},
      scatter_dims_to_operand_dims={0}, index_vector_dim=0, to_apply=f
  c1 = f32[1] reshape(c)
  n = f32[5] negate(q)
  ROOT t = (f32[7], f32[], f32[1], f32[5]) tuple(s, c, c1, n)
}

ENTRY main {
  x = f32[7] parameter(0)
  i = s32[] parameter(1)
  p = f32[] parameter(2)
  q = f32[5] parameter(3)
  ROOT k = (f32[7], f32[], f32[1], f32[5]) fusion(x, i, p, q), kind=kLoop, calls=fused
}
"""


def test_single_values_beside_one_element_are_computed_once() -> None:
    plan = kernel_plan(parse_hlo(ONE_ELEMENT).entry.root, host_target())
    functions = [x.text() for x in plan.emit().functions]
    assert sum(["llvm.fabs.f32" in x for x in functions]) == 1
    for at in (-1, 0, 6, 7):
        inputs = [
            np.arange(7, dtype=np.float32),
            np.array(at, np.int32),
            np.array(0.25, np.float32),
            np.arange(5, dtype=np.float32),
        ]
        check(ONE_ELEMENT, inputs, tolerance=1e-6)


COMPUTED = """
HloModule m

COMBINER
fused {
  x = TYPE[SIZES] parameter(0)
  i = INDEX[BATCH,RANK] parameter(1)
  p = TYPE[BATCH] parameter(2)
  q = TYPE[9] parameter(3)
  k = s32[BATCH,1] parameter(4)
  h = s32[BATCH] reshape(k)
  four = s32[] constant(4)
  fours = s32[BATCH] broadcast(four), dimensions={}
  c = pred[BATCH] compare(h, fours), direction=LT
  one = INDEX[] constant(1)
  ones = INDEX[BATCH,RANK] broadcast(one), dimensions={}
  j = INDEX[BATCH,RANK] subtract(i, ones)
  g = TYPE[BATCH] gather(q, k), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0},
      index_vector_dim=VECTOR, slice_sizes={1}
  v0 = TYPE[BATCH] MULTIPLY(p, g)
CHOICES
  ROOT s = TYPE[SIZES] scatter(x, j, vMORE), update_window_dims={}, inserted_window_dims={INSERTED},
      scatter_dims_to_operand_dims={INSERTED}, index_vector_dim=VECTOR, to_apply=f
}

ENTRY main {
  x = TYPE[SIZES] parameter(0)
  i = INDEX[BATCH,RANK] parameter(1)
  p = TYPE[BATCH] parameter(2)
  q = TYPE[9] parameter(3)
  k = s32[BATCH,1] parameter(4)
  ROOT r = TYPE[SIZES] fusion(x, i, p, q, k), kind=kLoop, calls=fused
}
"""


CHOICE = "  v{} = TYPE[BATCH] select(c, v{}, p)"


def computed(type_, index, batch, sizes, name, more=8):
    """Return a fusion that computes the places and the updates of single elements, and inputs.

    Updates are chosen `more` times, which is arithmetic enough for vectors of gathered elements.
    """
    choices = [CHOICE.format(x + 1, x) for x in range(more)]
    text = COMPUTED.replace("CHOICES", "\n".join(choices)).replace("MORE", str(more))
    text = text.replace("COMBINER", combiner(name, type_)).replace("TYPE", type_)
    text = text.replace("INDEX", index).replace("BATCH", dims(batch)).replace("SIZES", dims(sizes))
    text = text.replace("RANK", str(len(sizes))).replace("INSERTED", dims(range(len(sizes))))
    text = text.replace("VECTOR", str(len(batch)))
    text = text.replace("MULTIPLY", "and" if type_ == "pred" else "multiply")
    random = np.random.default_rng(7)
    types = [DTYPES[x.shape.element_type] for x in parse_hlo(text).entry.parameters]
    # places below 0 are beyond the end where numbers have no sign
    inputs = [
        random.integers(0, 5, sizes).astype(types[0]),
        random.integers(0, max(sizes) + 3, (*batch, len(sizes))).astype(types[1]),
        random.integers(0, 5, batch).astype(types[2]),
        random.integers(0, 5, 9).astype(types[3]),
        random.integers(-2, 11, (*batch, 1)).astype(types[4]),
    ]
    return text, inputs


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", COMBINERS)
@pytest.mark.parametrize("batch", [(1,), (7,), (16,), (50,), (3, 37), (20, 2)], ids=dims)
@pytest.mark.parametrize("sizes", [(40,), (5, 8)], ids=dims)
def test_computed_elements(sizes, batch, name, target) -> None:
    check(*computed("f32", "s32", batch, sizes, name), target)


@pytest.mark.parametrize("index", ["u8", "s16", "s64", "u64"])
@pytest.mark.parametrize("type_", ["bf16", "f16", "s8", "u16", "c64", "f64", "c128", "pred"])
def test_computed_elements_of_all_types(type_, index) -> None:
    name = "update" if type_ == "pred" else "add"
    check(*computed(type_, index, (45,), (6, 8), name))


def test_computed_elements_are_vectors_and_plain_ones_are_not() -> None:
    text, _ = computed("f32", "s32", (50,), (40,), "add")
    (function,) = kernel_plan(parse_hlo(text).entry.root, host_target()).emit().functions
    assert "extractelement" in function.text()
    text, _ = computed("f32", "s32", (50,), (40,), "add", more=0)
    for fast in (False, True):
        features = {x for x in host_target().features if x != "serialize"}
        features |= {"avx512f", "serialize"} if fast else set()
        target = replace(host_target(), features=tuple(sorted(features)))
        (function,) = kernel_plan(parse_hlo(text).entry.root, target).emit().functions
        assert ("extractelement" in function.text()) == fast
    plain = scatter_text("f32", (40,), (50, 1), (50,), ROWS.replace("{1}", "{}", 1))
    (function,) = kernel_plan(parse_hlo(plain).entry.root, host_target()).emit().functions
    assert "extractelement" not in function.text()


BLOCKS_OF_BATCHES = """HloModule m

times {
  a = s64[] parameter(0)
  b = s64[] parameter(1)
  ROOT c = s64[] multiply(a, b)
}

fused {
  x = s64[5,9,1]{0,2,1} parameter(0)
  p = s32[9] parameter(1)
  q = s32[9] negate(p)
  u = s64[1,9]{1,0} parameter(2)
  ROOT r = s64[5,9,1]{0,2,1} scatter(x, q, u), update_window_dims={0}, inserted_window_dims={0}, \
scatter_dims_to_operand_dims={0}, input_batching_dims={1}, scatter_indices_batching_dims={0}, \
index_vector_dim=1, to_apply=times
}

ENTRY e {
  x = s64[5,9,1]{0,2,1} parameter(0)
  p = s32[9] parameter(1)
  u = s64[1,9]{1,0} parameter(2)
  ROOT f = s64[5,9,1]{0,2,1} fusion(x, p, u), kind=kCustom, calls=fused
}
"""


@pytest.mark.parametrize("target", TARGETS)
def test_blocks_whose_window_is_another_dimension_of_the_updates(target):
    random = np.random.default_rng(4)
    inputs = [
        random.integers(-9, 9, (5, 9, 1)),
        -random.integers(0, 5, 9).astype(np.int32),
        random.integers(-9, 9, (1, 9)),
    ]
    check(BLOCKS_OF_BATCHES, inputs, target)
