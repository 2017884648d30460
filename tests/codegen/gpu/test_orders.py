"""Sorts and what is made by them on the emulator: the bits of the evaluator."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tests.codegen.gpu.programs import TARGET, flat, templates

from lowtide.backends.build import build
from lowtide.backends.gpu import GpuBackend
from lowtide.codegen.gpu import networks, record_sorts
from lowtide.emulator.device import on_emulated_device
from lowtide.evaluator import evaluate
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.runtime.gpu.program import GpuProgram

RANDOM = np.random.default_rng(0)


@pytest.fixture
def small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles of a quarter of the size, which the emulator takes less time for."""
    monkeypatch.setattr(networks, "LONGEST", 512)


def same(text: str, *arguments: np.ndarray) -> GpuProgram:
    """Return the program of a module whose results on the emulator are the evaluator's bits."""
    program = build(parse_hlo(text), GpuBackend(TARGET)).program
    mine, theirs = on_emulated_device(program)(*arguments), evaluate(parse_hlo(text), arguments)
    for one, other in zip(flat(mine), flat(theirs), strict=True):
        assert one.tobytes() == other.tobytes()
    return program


def comparator(types: list[str], body: str) -> str:
    given = "".join(
        [
            f"  a{i} = {x}[] parameter({2 * i})\n  b{i} = {x}[] parameter({2 * i + 1})\n"
            for i, x in enumerate(types)
        ]
    )
    return f"HloModule m\n\ncompared {{\n{given}{body}}}\n\n"


def sort_text(types: list[str], sizes: tuple[int, ...], dimension: int, body: str) -> str:
    shapes = [f"{x}[{','.join(map(str, sizes))}]" for x in types]
    given = "".join([f"  x{i} = {x} parameter({i})\n" for i, x in enumerate(shapes)])
    names = ", ".join([f"x{i}" for i in range(len(types))])
    result = shapes[0] if len(shapes) == 1 else f"({', '.join(shapes)})"
    return (
        f"{comparator(types, body)}ENTRY e {{\n{given}  ROOT s = {result} sort({names}), "
        f"dimensions={{{dimension}}}, is_stable=true, to_apply=compared\n}}\n"
    )


def floats(sizes: tuple[int, ...], type_: Any = np.float32) -> np.ndarray:
    """Numbers of which many are equal, with zeros of both signs, infinities and NaNs."""
    found = RANDOM.integers(-5, 5, sizes).astype(type_)
    for step, value in ((7, np.nan), (11, -0.0), (13, np.inf), (17, -np.inf)):
        found.ravel()[step // 3 :: step] = value
    return found


def integers(sizes: tuple[int, ...], type_: Any = np.int32) -> np.ndarray:
    return RANDOM.integers(0, 9, sizes).astype(type_)


TOTAL = "  ROOT r = pred[] compare(a0, b0), direction=LT, type=TOTALORDER\n"
DOWN = "  ROOT r = pred[] compare(a0, b0), direction=GT\n"
TWO_KEYS = """  l = pred[] compare(a1, b1), direction=LT
  e = pred[] compare(a1, b1), direction=EQ
  k = pred[] compare(a0, b0), direction=GT
  n = pred[] and(e, k)
  ROOT r = pred[] or(l, n)
"""


@pytest.mark.parametrize(
    ("sizes", "dimension"),
    [((5, 300), 1), ((1, 2), 1), ((90, 9), 0), ((3, 5, 7), 1), ((2, 512), 1), ((1050, 2), 0)],
)
@pytest.mark.usefixtures("small_tiles")
def test_sorts_are_stable_and_have_the_order_of_floats(
    sizes: tuple[int, ...], dimension: int
) -> None:
    for body in (TOTAL, DOWN):
        text = sort_text(["f32", "s32"], sizes, dimension, body)
        program = same(text, floats(sizes), RANDOM.integers(0, 1 << 30, sizes, np.int32))
        assert templates(program) == ["sorts"]


@pytest.mark.usefixtures("small_tiles")
def test_long_rows_are_sorted_in_tiles_that_are_merged() -> None:
    text = sort_text(["f32", "s8"], (2, 1601), 1, TOTAL)
    program = same(text, floats((2, 1601)), integers((2, 1601), np.int8))
    (kernel,) = program.kernels
    assert [x.blocks for x in kernel.launches] == [8, 8, 8, 13, 13, 13, 13]
    text = sort_text(["f64"], (1025,), 0, TOTAL)
    assert templates(same(text, floats((1025,), np.float64))) == ["sorts"]


@pytest.mark.parametrize("short_places", [1 << 16, 1])
@pytest.mark.parametrize(
    "types", [["f32"], ["f32", "s8"], ["s64"], ["f32", "f64"], ["bf16", "pred"], ["s32", "c64"]]
)
@pytest.mark.usefixtures("small_tiles")
def test_long_rows_are_sorted_where_they_lie(
    types: list[str], short_places: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_sorts, "SHORT_PLACES", short_places)
    kinds = {"f32": np.float32, "s8": np.int8, "s64": np.int64, "f64": np.float64}
    kinds |= {"bf16": ml_dtypes.bfloat16, "pred": np.bool_, "s32": np.int32, "c64": np.complex64}
    text = sort_text(types, (3, 1201), 1, DOWN)
    for i, type_ in enumerate(types):
        text = text.replace(
            f"  x{i} = {type_}[3,1201] parameter({i})\n",
            f"  y{i} = {type_}[3,1201] parameter({i})\n  x{i} = {type_}[3,1201] reverse(y{i}), "
            "dimensions={1}\n",
        )
    program = same(text, *[integers((3, 1201), kinds[x]) for x in types])
    (sort,) = [x for x in program.thunks if program.kernels[x.kernel].template == "sorts"]
    assert sort.reads == sort.writes
    bits = 16 if short_places > 1 else 32
    padded = 3 * 3 * 512
    assert 2 * padded * bits // 8 <= sort.scratch.nbytes <= 2 * (padded * bits // 8 + 128)


def test_tiles_of_the_whole_size() -> None:
    text = sort_text(["f32"], (1, 2100), 1, TOTAL)
    (kernel,) = same(text, floats((1, 2100))).kernels
    assert [x.threads for x in kernel.launches[:2]] == [512, 256]


@pytest.mark.parametrize(
    ("types", "body"),
    [
        (["s64"], DOWN),
        (["u8", "f64"], TWO_KEYS),
        (["f64", "f64"], TWO_KEYS),
        (["pred"], DOWN),
        (["s32"], DOWN.replace("GT", "LE")),
        (["s32"], "  ROOT r = pred[] constant(true)\n"),
    ],
)
def test_comparators_of_any_form(types: list[str], body: str) -> None:
    kinds = {"s64": np.int64, "u8": np.uint8, "f64": np.float64, "pred": np.bool_, "s32": np.int32}
    given = [integers((3, 150), kinds[x]) for x in types]
    assert templates(same(sort_text(types, (3, 150), 1, body), *given)) == ["sorts"]


def test_a_comparator_without_keys_has_no_template_for_long_rows() -> None:
    text = sort_text(["f64", "f64"], (2100,), 0, TWO_KEYS)
    given = integers((2100,), np.float64), integers((2100,), np.float64)
    assert templates(same(text, *given)) == ["units"]


@pytest.mark.parametrize(
    ("sizes", "k", "rounds"),
    [((5, 300), 7, 1), ((40, 8), 2, 1), ((2, 2100), 64, 2), ((1250,), 250, 3), ((1250,), 3, 2)],
)
@pytest.mark.usefixtures("small_tiles")
def test_the_first_of_rows_are_kept_in_rounds(sizes: tuple[int, ...], k: int, rounds: int) -> None:
    for type_, kind, largest in (("f32", np.float32, "true"), ("f64", np.float64, "false")):
        given = ",".join(map(str, sizes))
        kept = ",".join(map(str, (*sizes[:-1], k)))
        text = (
            f"HloModule m\n\nENTRY e {{\n  x = {type_}[{given}] parameter(0)\n  ROOT t = "
            f"({type_}[{kept}], s32[{kept}]) topk(x), k={k}, largest={largest}\n}}\n"
        )
        (kernel,) = same(text, floats(sizes, kind)).kernels
        assert (kernel.template, len(kernel.launches)) == ("topk", rounds)


@pytest.mark.usefixtures("small_tiles")
def test_many_of_a_row_are_the_start_of_all_in_order() -> None:
    text = (
        "HloModule m\n\nENTRY e {\n  x = s32[2,750] parameter(0)\n"
        "  ROOT t = (s32[2,375], s32[2,375]) topk(x), k=375, largest=true\n}\n"
    )
    assert templates(same(text, integers((2, 750)))) == ["topk"]


# -- scatters --------------------------------------------------------------------------------------


def scatter_text(entry: str, type_: str, combined: str) -> str:
    return (
        f"HloModule m\n\ncombined {{\n  a = {type_}[] parameter(0)\n  b = {type_}[] parameter(1)\n"
        f"  ROOT r = {type_}[] {combined}\n}}\n\nENTRY e {{\n{entry}}}\n"
    )


def normal(*sizes: int) -> np.ndarray:
    return RANDOM.normal(size=sizes).astype(np.float32)


def places(least: int, most: int, *sizes: int) -> np.ndarray:
    return RANDOM.integers(least, most, sizes, np.int32)


ROWS = """  x = f32[50,7] parameter(0)
  i = s32[300,1] parameter(1)
  u = f32[300,7] parameter(2)
  ROOT s = f32[50,7] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0}, \
scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=combined
"""


@pytest.mark.parametrize(
    "combined", ["add(a, b)", "multiply(a, b)", "minimum(a, b)", "subtract(b, a)", "copy(b)"]
)
def test_updates_of_a_row_are_combined_in_their_order(combined: str) -> None:
    given = normal(50, 7), places(-3, 55, 300, 1), normal(300, 7)
    program = same(scatter_text(ROWS, "f32", combined), *given)
    assert templates(program) == ["points", "scatters"]
    given = normal(50, 7), places(3, 4, 300, 1), normal(300, 7)
    same(scatter_text(ROWS, "f32", combined), *given)


SINGLE = """  x = f32[4,30] parameter(0)
  i = s32[4,700,1] parameter(1)
  u = f32[4,700] parameter(2)
  v = f32[4,700] multiply(u, u)
  ROOT s = f32[4,30] scatter(x, i, v), update_window_dims={}, inserted_window_dims={1}, \
input_batching_dims={0}, scatter_indices_batching_dims={0}, scatter_dims_to_operand_dims={1}, \
index_vector_dim=2, to_apply=combined
"""


def test_single_elements_of_batches_are_combined_in_their_order() -> None:
    given = normal(4, 30), places(-2, 32, 4, 700, 1), normal(4, 700)
    program = same(scatter_text(SINGLE, "f32", "add(a, b)"), *given)
    assert "scatters" in templates(program)


WINDOWS = """  x = f32[40,9] parameter(0)
  i = s32[{n},2] parameter(1)
  u = f32[{n},3,4] parameter(2)
  ROOT s = f32[40,9] scatter(x, i, u), update_window_dims={{1,2}}, inserted_window_dims={{}}, \
scatter_dims_to_operand_dims={{0,1}}, index_vector_dim=1, to_apply=combined
"""


@pytest.mark.parametrize(("count", "template"), [(1, "scatters"), (20, "scatters"), (100, "units")])
def test_windows_that_overlap(count: int, template: str) -> None:
    given = normal(40, 9), places(-1, 8, count, 2), normal(count, 3, 4)
    program = same(scatter_text(WINDOWS.format(n=count), "f32", "add(a, b)"), *given)
    assert templates(program) == ["points", template]


def test_windows_that_are_unlike_are_not_sorted() -> None:
    text = scatter_text(ROWS, "f32", "add(a, b)").replace(
        "index_vector_dim=1,", "index_vector_dim=1, unique_indices=true,"
    )
    given = normal(50, 7), RANDOM.permutation(300)[:, None].astype(np.int32), normal(300, 7)
    kernel = same(text, *given).kernels[-1]
    assert kernel.template == "scatters" and len(kernel.launches) == 1


@pytest.mark.parametrize("algorithm", ["rng_three_fry", "rng_philox"])
@pytest.mark.parametrize("bits", ["u32[1000]", "u64[7]", "u8[3,5]", "u32[4,6]"])
def test_random_bits_are_those_of_the_evaluator(algorithm: str, bits: str) -> None:
    text = (
        "HloModule m\n\nENTRY e {\n  s = u64[2] parameter(0)\n"
        f"  ROOT r = (u64[2], {bits}) rng-bit-generator(s), algorithm={algorithm}\n}}\n"
    )
    state = np.array([7, (1 << 64) - 2], np.uint64)
    assert templates(same(text, state)) == ["random bits"]


def test_records_of_many_rows_and_windows_have_64_bits() -> None:
    entry = """  x = s8[2100000] parameter(0)
  i = s32[1100,1] parameter(1)
  u = s8[1100] parameter(2)
  ROOT s = s8[2100000] scatter(x, i, u), update_window_dims={}, inserted_window_dims={0}, \
scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=combined
"""
    x, u = (RANDOM.integers(-9, 9, n).astype(np.int8) for n in (2_100_000, 1100))
    i = places(-2, 2_100_001, 1100, 1)
    i[::3] = 7
    program = same(scatter_text(entry, "s8", "subtract(a, b)"), x, i, u)
    assert templates(program) == ["points", "scatters"]
