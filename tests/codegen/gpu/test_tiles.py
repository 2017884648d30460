"""Tiles of operands: how many numbers come at once, and products by tiles of each shape."""

from __future__ import annotations

import re

import numpy as np
import pytest
from tests.codegen.gpu.programs import check, program_of, templates, text_of

from lowtide.codegen.gpu import ffma
from lowtide.codegen.gpu import product as products
from lowtide.codegen.gpu.product import TileSizes, product_of
from lowtide.codegen.gpu.tiles import pieces_of
from lowtide.codegen.gpu.waves import TileWay
from lowtide.emulator.warp import matrices, turned_matrices
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.llvm.named_targets import gpu_target

SIZES = TileSizes(64, 64, 32, 128, 4, 3)


def plain(type_: str, rows: int, columns: int, depth: int, result: str = "f32") -> str:
    return (
        f"  x = {type_}[{rows},{depth}] parameter(0)\n"
        f"  y = {type_}[{depth},{columns}] parameter(1)\n"
        f"  ROOT z = {result}[{rows},{columns}] dot(x, y), lhs_contracting_dims={{1}}, "
        "rhs_contracting_dims={0}\n"
    )


BATCHED = """
  x = bf16[40,3,24] parameter(0)
  y = bf16[3,40,24] parameter(1)
  ROOT z = f32[3,40,40] dot(x, y), lhs_batch_dims={1}, rhs_batch_dims={0},
    lhs_contracting_dims={2}, rhs_contracting_dims={2}
"""
SEVERAL = """
  x = bf16[4,6,5,8] parameter(0)
  y = bf16[5,8,4,12] parameter(1)
  ROOT z = f32[4,6,4,12] dot(x, y), lhs_contracting_dims={2,3}, rhs_contracting_dims={0,1}
"""
ACROSS = """
  x = bf16[8,5,64] parameter(0)
  y = bf16[5,8,48] parameter(1)
  ROOT z = f32[64,48] dot(x, y), lhs_contracting_dims={1,0}, rhs_contracting_dims={0,1}
"""
CONVOLUTION = """
  x = T[2,9,8,16] parameter(0)
  w = T[3,3,16,24] parameter(1)
  ROOT c = f32[2,9,8,24] convolution(x, w), window={size=3x3 pad=1_1x1_1 rhs_reversal=1x0},
    dim_labels=b01f_01io->b01f
"""
FEATURES_FIRST = """
  x = bf16[2,8,9,16] parameter(0)
  w = bf16[24,8,3,3] parameter(1)
  ROOT c = f32[2,24,9,16] convolution(x, w), window={size=3x3 pad=1_1x1_1},
    dim_labels=bf01_oi01->bf01
"""
COMPUTED = """
  x = bf16[48,96] parameter(0)
  y = bf16[104,40] parameter(1)
  e = bf16[48,96] exponential(x)
  t = bf16[96,48] transpose(e), dimensions={1,0}
  s = bf16[96,40] slice(y), slice={[START:END], [0:40]}
  ROOT z = f32[48,40] dot(t, s), lhs_contracting_dims={0}, rhs_contracting_dims={0}
"""
SLICED = """
  x = bf16[48,96] parameter(0)
  y = bf16[96,52] parameter(1)
  s = bf16[96,40] slice(y), slice={[0:96], [START:END]}
  ROOT z = f32[48,40] dot(x, s), lhs_contracting_dims={1}, rhs_contracting_dims={0}
"""


def fused(entry: str) -> str:
    """Return a program whose entry is one fusion of what is written."""
    lines = [x for x in entry.splitlines() if x.strip()]
    given = [re.search(r"= (\S+) parameter", x) for x in lines]
    types = [x[1] for x in given if x]
    result = next(x.split("= ")[1].split(" ")[0] for x in lines if "ROOT" in x)
    body = "\n".join(lines)
    names = [f"p{i}" for i in range(len(types))]
    head = "\n".join(
        [f"  {x} = {t} parameter({i})" for i, (x, t) in enumerate(zip(names, types, strict=True))]
    )
    return (
        f"HloModule m\n\nbody {{\n{body}\n}}\n\nENTRY e {{\n{head}\n"
        f"  ROOT f = {result} fusion({', '.join(names)}), kind=kOutput, calls=body\n}}\n"
    )


def pieces(text: str) -> list[tuple[bool, int]]:
    (entry,) = [x for x in parse_hlo(text).computations.values() if x.name == "e"]
    product = product_of(entry.root, gpu_target("cuda:sm_90"))
    assert product is not None
    found = [pieces_of(product, side, SIZES, 2) for side in (0, 1)]
    return [(x.along_depth, x.run) for x in found]


@pytest.mark.parametrize(
    ("entry", "left", "right"),
    [
        (plain("bf16", 64, 64, 64), (True, 8), (False, 8)),
        (plain("bf16", 133, 68, 76), (True, 4), (False, 4)),
        (plain("bf16", 133, 70, 66), (True, 2), (False, 2)),
        (plain("bf16", 133, 71, 65), (True, 1), (False, 1)),
        (BATCHED, (True, 8), (True, 8)),
        (SEVERAL, (True, 8), (False, 4)),
        (ACROSS, (False, 8), (False, 8)),
        (CONVOLUTION.replace("T[", "bf16["), (True, 8), (False, 8)),
    ],
)
def test_pieces_of_what_lies_in_memory(
    entry: str, left: tuple[bool, int], right: tuple[bool, int]
) -> None:
    assert pieces(text_of(entry)) == [left, right]


def test_a_window_along_the_numbers_side_by_side_is_read_one_by_one() -> None:
    left, _ = pieces(text_of(FEATURES_FIRST))
    assert left[1] == 1


@pytest.mark.parametrize(("start", "run"), [(0, 8), (8, 8), (4, 4), (2, 2), (3, 1)])
def test_pieces_of_a_slice_are_as_long_as_its_start_allows(start: int, run: int) -> None:
    entry = SLICED.replace("START", str(start)).replace("END", str(start + 40))
    _, right = pieces(fused(entry.replace("52]", "56]")))
    assert right == (False, run)


def test_pieces_of_what_is_computed_and_turned() -> None:
    """Along the rows that lie side by side in the array behind, whatever the shape says."""
    entry = COMPUTED.replace("START", "3").replace("END", "99")
    assert pieces(fused(entry)) == [(True, 8), (False, 8)]


def laid_out(type_: str, result: str, deep: tuple[int, int], sizes: tuple[int, int, int]) -> str:
    """A product of operands whose depth is the dimension that is given of each."""
    rows, columns, depth = sizes
    left = (depth, rows) if deep[0] == 0 else (rows, depth)
    right = (depth, columns) if deep[1] == 0 else (columns, depth)
    return (
        f"  x = {type_}[{left[0]},{left[1]}] parameter(0)\n"
        f"  y = {type_}[{right[0]},{right[1]}] parameter(1)\n"
        f"  ROOT z = {result}[{rows},{columns}] dot(x, y), lhs_contracting_dims={{{deep[0]}}}, "
        f"rhs_contracting_dims={{{deep[1]}}}\n"
    )


LAYOUTS = [(left, right) for left in (0, 1) for right in (0, 1)]


@pytest.mark.parametrize("sizes", [(64, 128, 192), (80, 72, 100), (67, 35, 51)])
@pytest.mark.parametrize("deep", LAYOUTS)
@pytest.mark.parametrize(
    ("type_", "result", "template"),
    [
        ("s8", "s32", "mma"),
        ("u8", "s32", "mma"),
        ("s8", "u32", "mma"),
        ("bf16", "f32", "mma"),
        ("f64", "f64", "dmma"),
        ("f32", "f32", "ffma"),
    ],
)
def test_products_of_each_type_and_layout(
    type_: str, result: str, template: str, deep: tuple[int, int], sizes: tuple[int, int, int]
) -> None:
    tolerance = {"s8": 0.0, "u8": 0.0, "bf16": 1e-5, "f64": 1e-13}.get(type_, 1e-5)
    assert templates(check(laid_out(type_, result, deep, sizes), tolerance)) == [template]


@pytest.mark.parametrize("deep", LAYOUTS)
@pytest.mark.parametrize(
    ("target", "intrinsic"), [("cuda:sm_80", "m8n8k4"), ("cuda:sm_90", "m16n8k8")]
)
def test_products_of_f64_by_the_instruction_that_there_is(
    target: str, intrinsic: str, deep: tuple[int, int]
) -> None:
    program = check(laid_out("f64", "f64", deep, (80, 72, 36)), 1e-13, target=target)
    assert any(f"{intrinsic}.row.col.f64" in x for x in program.texts)


def test_f64_has_no_tensor_cores_where_they_are_slow() -> None:
    program = program_of(laid_out("f64", "f64", (1, 0), (80, 72, 36)), "cuda:sm_86")
    assert templates(program) == ["ffma"]


RUN = {
    "rows beside each other, ends": plain("bf16", 133, 68, 76),
    "pairs": plain("f16", 66, 70, 34),
    "numbers of 8 bytes": plain("f64", 66, 70, 34, "f64"),
    "bytes": plain("s8", 66, 72, 36, "s32"),
    "batches apart": BATCHED,
    "several dimensions": SEVERAL,
    "across the depth": ACROSS,
    "convolution": CONVOLUTION.replace("T[", "bf16["),
    "convolution of f32": CONVOLUTION.replace("T[", "f32["),
    "features first": FEATURES_FIRST,
    "computed": COMPUTED.replace("START", "3").replace("END", "99"),
    "sliced at 4": SLICED.replace("START", "4").replace("END", "44"),
    "sliced at 3": SLICED.replace("START", "3").replace("END", "43"),
}


@pytest.mark.parametrize("entry", RUN.values(), ids=RUN)
def test_products_equal_the_evaluator(entry: str) -> None:
    assert set(templates(check(entry, 1e-2 if "16[" in entry else 1e-5))) & {"ffma", "mma", "dmma"}


SHAPES = {
    "square": (250, 120, 40, 2),
    "tall": (260, 60, 40, 2),
    "wide": (60, 260, 40, 2),
    "tall, three beside each other": (500, 190, 20, 6),
}
"""Rows, columns, depth, and blocks of the tiles that are made of them."""


@pytest.mark.parametrize("name", SHAPES)
def test_products_by_tiles_of_each_shape(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tile is as near to the product as one can be, where there are enough of them."""
    monkeypatch.setattr(products, "ENOUGH", 0)
    rows, columns, depth, blocks = SHAPES[name]
    program = check(plain("bf16", rows, columns, depth), 1e-2)
    (launch,) = [x for kernel in program.kernels for x in kernel.launches]
    assert launch.blocks == blocks


@pytest.mark.parametrize("way", ffma.WAYS, ids=lambda x: f"{x.sizes.rows}x{x.sizes.columns}")
def test_products_by_each_way(way: TileWay, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two tiles of each, one of them with an end, of a depth that ends within a step."""
    monkeypatch.setattr(ffma, "WAYS", (way,))
    sizes = way.sizes
    program = check(plain("f32", sizes.rows + 9, sizes.columns - 3, 2 * sizes.depth + 5))
    (launch,) = [x for kernel in program.kernels for x in kernel.launches]
    assert (launch.blocks, launch.threads) == (2, sizes.threads)


def test_small_tiles_where_there_are_few() -> None:
    program = program_of(plain("bf16", 256, 256, 64))
    (launch,) = [x for kernel in program.kernels for x in kernel.launches]
    assert launch.blocks == 16


def test_matrices_of_a_warp() -> None:
    """Each thread has a pair of a row of each of four matrices; or of a column."""
    numbers = np.arange(4 * 64, dtype=np.int16).reshape(4, 8, 8)
    for turned, function in ((False, matrices), (True, turned_matrices)):
        lanes = np.zeros((32, 10), np.int32)
        lanes[:, :4] = numbers.reshape(32, 8).view(np.int32)
        function(lanes)
        for thread in range(32):
            for i in range(4):
                matrix = numbers[i].T if turned else numbers[i]
                pair = matrix[thread // 4, 2 * (thread % 4) :][:2]
                assert lanes[thread, i : i + 1].view(np.int16).tolist() == pair.tolist()
