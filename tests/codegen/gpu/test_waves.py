"""Tiles and parts of products: what the busiest multiprocessor has to do decides."""

from __future__ import annotations

from math import prod

import pytest
from tests.codegen.gpu.programs import text_of
from tests.codegen.gpu.test_tiles import laid_out

from lowtide.codegen.gpu.ffma import WAYS, ways_of
from lowtide.codegen.gpu.product import GpuProduct, product_of
from lowtide.codegen.gpu.waves import best_way
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.llvm.named_targets import gpu_target


def product(rows: int, columns: int, depth: int) -> GpuProduct:
    module = parse_hlo(text_of(laid_out("f32", "f32", (1, 0), (rows, columns, depth))))
    found = product_of(module.computations["e"].root, gpu_target("cuda:sm_90"))
    assert found is not None
    return found


def test_large_products_have_the_fastest_tiles_and_no_parts() -> None:
    fastest = max(WAYS, key=lambda x: x.products)
    assert best_way(product(8192, 8192, 512), WAYS) == (fastest.sizes, 1)


@pytest.mark.parametrize("sizes", [(64, 64, 8192), (512, 512, 4096), (100, 300, 2048)])
def test_few_tiles_and_a_long_depth_have_parts(sizes: tuple[int, int, int]) -> None:
    tiles, parts = best_way(product(*sizes), WAYS)
    assert parts > 1
    assert -(-sizes[2] // tiles.depth) % parts == 0


@pytest.mark.parametrize("sizes", [(1024, 1024, 1024), (300, 200, 700), (2304, 640, 96)])
def test_no_other_way_takes_less(sizes: tuple[int, int, int]) -> None:
    """Of all ways with any number of whole equal parts."""
    given = product(*sizes)
    tiles, parts = best_way(given, WAYS)
    (way,) = [x for x in WAYS if x.sizes is tiles]
    chosen = way.cycles(given, parts)
    for other in WAYS:
        steps = -(-prod(given.layout.depth) // other.sizes.depth)
        for number in range(1, steps // 4 + 1):
            if steps % number == 0:
                assert other.cycles(given, number) >= chosen


def test_blocks_in_turn_take_longer() -> None:
    """One block more than there is room for at once takes a turn of its own."""
    (way,) = [x for x in WAYS if (x.sizes.rows, x.sizes.columns) == (128, 256)]
    one = way.cycles(product(128 * 132, 256, 512), 1)
    assert way.cycles(product(128 * 133, 256, 512), 1) == 2 * one


COMPUTED = """
HloModule m

made {
  x = f32[1024,1024] parameter(0)
  y = f32[1024,1024] parameter(1)
  e = f32[1024,1024] exponential(x)
  ROOT d = f32[1024,1024] dot(e, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}

ENTRY e {
  x = f32[1024,1024] parameter(0)
  y = f32[1024,1024] parameter(1)
  ROOT f = f32[1024,1024] fusion(x, y), kind=kLoop, calls=made
}
"""


def test_what_is_computed_is_brought_by_many_threads() -> None:
    plain = product(1024, 1024, 1024)
    assert min([x.sizes.threads for x in ways_of(plain)]) == 64
    made = product_of(parse_hlo(COMPUTED).entry.root, gpu_target("cuda:sm_90"))
    assert made is not None
    assert {x.sizes.threads for x in ways_of(made)} == {256}


def sum_of_arrays(count: int) -> GpuProduct:
    """A product of the sum of so many arrays with another one."""
    shape = "f32[1024,1024]"
    arrays = [f"  x{i} = {shape} parameter({i})" for i in range(count + 1)]
    sums = [
        f"  a{i} = {shape} add({f'a{i - 1}' if i > 1 else 'x0'}, x{i})" for i in range(1, count)
    ]
    product = (
        f"  ROOT d = {shape} dot(a{count - 1}, x{count}), "
        "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    )
    names = ", ".join([f"x{i}" for i in range(count + 1)])
    whole = f"  ROOT f = {shape} fusion({names}), kind=kLoop, calls=made"
    lines = ["HloModule m", "made {", *arrays, *sums, product, "}"]
    lines += ["ENTRY e {", *arrays, whole, "}"]
    found = product_of(parse_hlo("\n".join(lines)).entry.root, gpu_target("cuda:sm_90"))
    assert found is not None
    return found


@pytest.mark.parametrize(("count", "most"), [(4, 128), (20, 64)])
def test_threads_that_compute_from_many_arrays_have_fewer_sums(count: int, most: int) -> None:
    sizes = [x.sizes for x in ways_of(sum_of_arrays(count))]
    assert max([x.rows * x.columns // x.threads for x in sizes]) == most
