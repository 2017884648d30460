"""How products are cut into blocks: what is packed again, what waits, what is asked for."""

from dataclasses import replace

import pytest
from tests.codegen.cpu.contraction.products import check, plan_of

from lowtide import parse_hlo
from lowtide.codegen.cpu.contraction import choice, scheme
from lowtide.codegen.cpu.contraction.arithmetic import Arithmetic, MultiplyMethod
from lowtide.codegen.cpu.contraction.gemm import Gemm
from lowtide.codegen.cpu.contraction.geometry import geometry_of
from lowtide.codegen.cpu.contraction.phases import gemm_code
from lowtide.codegen.cpu.contraction.scheme import (
    ColumnUnits,
    ContractionScheme,
    RowUnits,
    scheme_of,
    wanted_units,
)
from lowtide.codegen.cpu.contraction.tiles import ComputingCycles, RegisterTile
from lowtide.codegen.kernel import KernelCode
from lowtide.ir import ElementType, Module
from lowtide.llvm.target import Target, host_target, restricted

TARGETS = {"native": host_target(), "avx2": restricted(host_target(), "avx2")}
FLOATS = Arithmetic(MultiplyMethod.FLOAT, ElementType.F32, ElementType.F32)


def product_text(m: int, k: int, n: int) -> str:
    """A dot of matrices m x k and k x n."""
    return (
        f"HloModule p\nENTRY e {{\n  x = f32[{m},{k}] parameter(0)\n"
        f"  y = f32[{k},{n}] parameter(1)\n"
        f"  ROOT z = f32[{m},{n}] dot(x, y), lhs_contracting_dims={{1}}, "
        "rhs_contracting_dims={0}\n}\n"
    )


def product(m: int, k: int, n: int) -> Module:
    """The module of that."""
    return parse_hlo(product_text(m, k, n))


def packed(m: int, k: int, n: int) -> ContractionScheme:
    """The blocks of a product whose operands are packed, with something behind it."""
    shape = geometry_of(product(m, k, n).entry.root)
    tile = RegisterTile(4, 3, 8)
    return scheme_of(shape, FLOATS, tile, RowUnits.ALONG_K, ColumnUnits.ALONG_COLUMNS, True)


def code_of(module: Module, target: Target) -> KernelCode:
    """The code of the product of a module."""
    plan = plan_of(module, target)
    assert plan is not None
    return plan.emit()


@pytest.mark.parametrize("sizes", [(512, 768, 3072), (512, 3072, 768), (96, 1024, 5000)])
def test_sums_that_wait_are_cut_so_that_little_is_packed_again(sizes: tuple[int, int, int]) -> None:
    m, k, n = sizes
    found = packed(m, k, n)
    assert found.keeps_sums
    assert found.sums_bytes <= scheme.SUMS_BYTES
    assert found.units >= wanted_units(found.geometry, FLOATS, 8)
    again = found.row_blocks.parts * n + found.column_blocks.parts * m
    # Blocks of sums that are square at best: both operands are packed once for a side of each.
    least = m * n * 4 / scheme.SUMS_BYTES
    even = 2 * (max(16, least) * m * n) ** 0.5
    assert again <= 1.4 * even


def test_pieces_that_two_threads_share_are_even() -> None:
    shape = geometry_of(product(8, 256, 8).entry.root)
    counts = {wanted_units(replace(shape, n=n), FLOATS, 8) for n in range(8, 9000, 40)}
    assert counts == {1, *range(2, 18, 2)}


def test_steps_that_are_one_block_leave_no_sums_to_wait() -> None:
    found = packed(512, scheme.ONE_PACKED, 1024)
    assert found.blocks.parts == 1
    assert found.sums_bytes == 0
    assert found.reuses > 1
    assert packed(512, scheme.ONE_PACKED + 8, 1024).blocks.longest * 8 <= scheme.PACKED_LONGEST


@pytest.mark.parametrize(("row", "column"), [(0.0, 0.0), (4.0, 0.0), (0.0, 4.0), (4.0, 4.0)])
def test_what_takes_long_to_compute_is_packed_seldom(row: float, column: float) -> None:
    """Several blocks of k leave nothing for a next piece: each packs what it needs."""
    shape = geometry_of(product(1024, 2048, 1024).entry.root)
    ways = (RowUnits.IN_TILES, ColumnUnits.ALONG_COLUMNS, False, ComputingCycles(row, column))
    found = scheme_of(shape, FLOATS, RegisterTile(4, 3, 8), *ways)
    assert not found.reuses
    assert found.units >= wanted_units(shape, FLOATS, 8)
    down, across = found.row_blocks.parts, found.column_blocks.parts
    assert (down > across) == (row > column)
    assert down >= 3 and across >= 3  # What scratch and registers of panels allow.


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("sizes", [(128, 600), (77, 530), (13, 700), (4, 520)])
def test_tiles_of_rows_that_are_computed_share_vectors(target: str, sizes: tuple[int, int]) -> None:
    """Rows lie across k; heights that fill no vector and rests of rows come in between."""
    m, k = sizes
    text = f"""HloModule p
fused {{
  x = f32[{k},{m}] parameter(0)
  y = f32[{k},300] parameter(1)
  z = f32[{k},{m}] tanh(x)
  ROOT d = f32[{m},300] dot(z, y), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}
}}
ENTRY e {{
  a = f32[{k},{m}] parameter(0)
  b = f32[{k},300] parameter(1)
  ROOT r = f32[{m},300] fusion(a, b), kind=kOutput, calls=fused
}}
"""
    check(text, target=TARGETS[target])


@pytest.mark.parametrize("target", TARGETS)
def test_strips_of_which_there_are_enough_share_no_sums(target: str) -> None:
    """Sums of shares would lie as far apart as results, here all in the same lines of a cache."""
    code = code_of(product(32, 512, 2048), TARGETS[target])
    assert any(x.name.startswith("strip_") for x in code.functions)
    assert [x.function for x in code.phases] == ["products"]


@pytest.mark.parametrize("target", TARGETS)
def test_few_rows_hold_columns_where_tiles_are_low(target: str) -> None:
    kernel = check(str(product(13, 300, 700)), target=TARGETS[target])
    holds = any(x.name.startswith("strip_") for x in kernel.plan.emit().functions)
    assert holds == (TARGETS[target].registers == 16)


@pytest.mark.parametrize("steps", [1024, 1000])
def test_low_tiles_pack_columns_whose_steps_fall_into_one_set(steps: int) -> None:
    code = code_of(product(32, 256, steps), TARGETS["avx2"])
    assert any(x.name.startswith("pack_") for x in code.functions) == (steps == 1024)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("n", [520, 20])
def test_what_the_end_of_a_tile_needs_is_asked_for(target: str, n: int) -> None:
    """Of arrays that lie far: a row of a tile is a short run of each."""
    text = f"""HloModule p
fused {{
  x = f32[256,130] parameter(0)
  y = f32[130,{n}] parameter(1)
  z = f32[256,{n}] parameter(2)
  d = f32[256,{n}] dot(x, y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  ROOT s = f32[256,{n}] add(d, z)
}}
ENTRY e {{
  a = f32[256,130] parameter(0)
  b = f32[130,{n}] parameter(1)
  c = f32[256,{n}] parameter(2)
  ROOT r = f32[256,{n}] fusion(a, b, c), kind=kOutput, calls=fused
}}
"""
    kernel = check(text, target=TARGETS[target], factor=2)
    products = next(x for x in kernel.plan.emit().functions if x.name == "products")
    assert ("llvm.prefetch" in products.text()) == (n == 520)


@pytest.mark.parametrize("target", sorted(TARGETS))
def test_lines_of_a_far_result_are_asked_for_before_they_are_stored(target: str) -> None:
    """A tile's rows are far apart: without it each store of a short product waits for memory."""
    for n, is_far in ((200, False), (700, True)):
        kernel = check(
            "HloModule m\n\nENTRY e {\n  x = f32[256,100] parameter(0)\n"
            f"  y = f32[100,{n}] parameter(1)\n  ROOT d = f32[256,{n}] dot(x, y), "
            "lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}\n",
            target=TARGETS[target],
            factor=2,
        )
        tiles = [x for x in kernel.plan.emit().functions if x.name.startswith("tile_")]
        assert tiles
        assert all(("llvm.prefetch" in x.text()) == is_far for x in tiles)


def test_rows_that_are_computed_are_divided_along_k_rather_than_columns_packed_again() -> None:
    """Few rows and columns, many steps: a share of the steps packs nothing that another packs."""
    shape = geometry_of(product(256, 8000, 128).entry.root)
    found = scheme_of(
        shape,
        FLOATS,
        RegisterTile(6, 2, 8),
        RowUnits.ALONG_K,
        ColumnUnits.ALONG_K,
        False,
        ComputingCycles(row=1.25),
    )
    assert found.units >= wanted_units(shape, FLOATS, 8)
    assert found.column_blocks.parts == 1
    assert found.shares.parts > found.row_blocks.parts
    sums = found.shares.parts * shape.m * shape.n
    assert scheme.SHARED_PART * sums <= (shape.m + shape.n) * shape.k


def in_place(m: int, k: int, n: int) -> ContractionScheme:
    """The blocks of a product whose rows are read where they lie."""
    shape = geometry_of(product(m, k, n).entry.root)
    tile = RegisterTile(6, 2, 8)
    found = scheme_of(shape, FLOATS, tile, RowUnits.IN_PLACE, ColumnUnits.ALONG_COLUMNS, False)
    return choice.with_rows_that_stay(found)


@pytest.mark.parametrize("sizes", [(16001, 128, 50), (9000, 260, 100), (1800, 1000, 40)])
def test_rows_that_no_cache_keeps_meet_all_panels_block_by_block(
    sizes: tuple[int, int, int],
) -> None:
    m, k, n = sizes
    found = in_place(m, k, n)
    assert found.rows_stay
    assert found.reuses == 0
    rows = max(choice.FEWEST_STAYING, choice.STAYING_BYTES // (4 * k))
    assert found.block_rows < rows + found.tile.rows
    assert found.thread_bytes <= found.one_panel_bytes


@pytest.mark.parametrize(
    "sizes", [(300, 128, 64), (9001, 128, 50), (16001, 128, 16), (9001, 3000, 64)]
)
def test_rows_that_are_near_or_needed_once_are_not_cut_for_it(sizes: tuple[int, int, int]) -> None:
    assert not in_place(*sizes).rows_stay


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("sizes", [(13001, 128, 50), (6100, 260, 100)])
def test_pieces_of_blocks_of_rows_that_stay_are_right(
    target: str, sizes: tuple[int, int, int]
) -> None:
    check(product_text(*sizes), target=TARGETS[target])


def transposed_text(m: int, k: int, n: int, *, is_along_k: bool = False) -> str:
    """The same of a matrix k x m, whose rows lie side by side; the columns may lie along k."""
    columns, inner = (f"{n},{k}", 1) if is_along_k else (f"{k},{n}", 0)
    return (
        f"HloModule p\nENTRY e {{\n  x = f32[{k},{m}] parameter(0)\n"
        f"  y = f32[{columns}] parameter(1)\n"
        f"  ROOT z = f32[{m},{n}] dot(x, y), lhs_contracting_dims={{0}}, "
        f"rhs_contracting_dims={{{inner}}}\n}}\n"
    )


@pytest.mark.parametrize(
    ("sizes", "is_along_k", "packs"),
    [
        ((700, 100, 300), False, True),
        ((990, 67, 70), False, True),
        ((500, 100, 300), False, False),  # All rows stay in a second cache.
        ((380, 170, 300), False, False),  # Steps of k are not so far apart.
        ((1600, 40, 300), False, False),  # There are few of them.
        ((700, 100, 50), False, False),  # Few columns meet the packed rows.
        ((700, 100, 300), True, False),  # Columns would be packed again for each block of rows.
        ((2100, 30, 500), True, False),
        ((900, 70, 900), True, True),
    ],
)
def test_low_tiles_pack_rows_whose_steps_are_far_apart(
    sizes: tuple[int, int, int], is_along_k: bool, packs: bool
) -> None:
    text = transposed_text(*sizes, is_along_k=is_along_k)
    kernel = check(text, target=TARGETS["avx2"])
    assert any(x in kernel.text for x in ("@pack_rows", "_pack_rows")) == packs


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("sizes", [(1030, 131, 515), (1543, 300, 97), (97, 520, 1030)])
def test_rows_that_lie_side_by_side_are_right(target: str, sizes: tuple[int, int, int]) -> None:
    check(transposed_text(*sizes), target=TARGETS[target])


def turn_of(text: str, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """Steps that are packed in turn, and panels of a piece, of a product with low tiles."""
    found = []

    def noted(gemm: Gemm) -> KernelCode:
        found.append(gemm.scheme)
        return gemm_code(gemm)

    monkeypatch.setattr("lowtide.codegen.cpu.contraction.dot.gemm_code", noted)
    check(text, target=TARGETS["avx2"])
    (scheme,) = found
    return scheme.turn, scheme.column_blocks.longest


@pytest.mark.parametrize(
    ("sizes", "panels"),
    [
        ((32, 256, 1024), 2),
        ((53, 91, 2048), 2),  # Neither rows, steps nor panels come out even.
        ((128, 259, 1024), 2),
        ((136, 259, 1024), 1),  # Many rows meet each panel.
        ((100, 291, 1032), 1),  # Steps fall into many lines.
    ],
)
def test_pairs_of_panels_are_packed_in_turn_where_steps_fall_into_few_lines(
    sizes: tuple[int, int, int], panels: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = turn_of(product_text(*sizes), monkeypatch)
    assert found == ((8, 2) if panels == 2 else (0, 1))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("sizes", [(33, 100, 1024), (70, 1021, 3072)])
def test_pairs_of_panels_are_right_with_something_behind(
    target: str, sizes: tuple[int, int, int]
) -> None:
    m, k, n = sizes
    text = (
        "HloModule p\nfused {\n"
        f"  a = f32[{m},{k}] parameter(0)\n  b = f32[{k},{n}] parameter(1)\n"
        f"  c = f32[{m},{n}] parameter(2)\n"
        f"  d = f32[{m},{n}] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}\n"
        f"  ROOT s = f32[{m},{n}] subtract(d, c)\n}}\n"
        f"ENTRY e {{\n  x = f32[{m},{k}] parameter(0)\n  y = f32[{k},{n}] parameter(1)\n"
        f"  z = f32[{m},{n}] parameter(2)\n"
        f"  ROOT f = f32[{m},{n}] fusion(x, y, z), kind=kLoop, calls=fused\n}}\n"
    )
    check(text, target=TARGETS[target])
