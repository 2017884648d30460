"""Dots by themselves: dimension numbers, sizes, types and targets, against the evaluator."""

import itertools
import random
from dataclasses import replace

import numpy as np
import pytest
from tests.codegen import loops
from tests.codegen.cpu.contraction.products import check, inputs_of, plan_of
from tests.codegen.cpu.library import running as in_process
from tests.codegen.running import Kernel

import lowtide
from lowtide import parse_hlo
from lowtide.client.executable.anew import compile_anew
from lowtide.codegen.cpu.contraction import strip_scheme
from lowtide.codegen.cpu.contraction.dot import plan_dot
from lowtide.inspection.kernel_texts import kernel_texts
from lowtide.llvm.function import module_text
from lowtide.llvm.machine import KernelCompiler
from lowtide.llvm.target import AARCH64, Target, host_target, restricted
from lowtide.options import Options

AVX2 = restricted(host_target(), "avx2")


def without_tiles(target: Target) -> Target:
    """The same processor without registers of squares."""
    features = tuple([x for x in target.features if not x.startswith("amx")])
    return replace(target, features=features)


TARGETS = {"native": host_target(), "vectors": without_tiles(host_target()), "avx2": AVX2}

TYPES = [
    *[(x, x, x) for x in ("f32", "f64", "bf16", "f16", "s8", "u8", "s16", "u16", "s32", "u32")],
    *[(x, x, x) for x in ("s64", "u64", "c64", "c128", "pred")],
    ("bf16", "bf16", "f32"),
    ("f16", "f16", "f32"),
    ("f32", "bf16", "f32"),
    ("f32", "f64", "f64"),
    ("f8e4m3fn", "f8e4m3fn", "f32"),
    ("f8e5m2", "bf16", "bf16"),
    ("s8", "s8", "s32"),
    ("u8", "s8", "s32"),
    ("s8", "u8", "s32"),
    ("s4", "s4", "s32"),
    ("s16", "s16", "s32"),
    ("u16", "u16", "s32"),
    ("s8", "s8", "f32"),
    ("c64", "f32", "c64"),
]


def text_of(types: tuple[str, str, str], order: tuple[str, str], sizes: dict[str, int]) -> str:
    """A dot of operands whose dimensions are letters: b batch, m rows, n columns, k contracted."""
    lhs, rhs = order
    roles = {"batch": "bB", "contracting": "kK"}
    numbers = []
    for role, letters in roles.items():
        shared = [x for x in letters if x in lhs]
        for side, name in ((lhs, "lhs"), (rhs, "rhs")):
            places = ",".join([str(side.index(x)) for x in shared])
            if shared:
                numbers.append(f"{name}_{role}_dims={{{places}}}")
    result = [x for x in "bB" if x in lhs]
    result += [x for x in lhs if x in "mM"] + [x for x in rhs if x in "nN"]

    def shape(type_: str, letters: object) -> str:
        return f"{type_}[{','.join([str(sizes[x]) for x in letters])}]"  # type: ignore[attr-defined]

    a, b, c = types
    tail = "".join([f", {x}" for x in numbers])
    return f"""HloModule dots
ENTRY main {{
  a = {shape(a, lhs)} parameter(0)
  b = {shape(b, rhs)} parameter(1)
  ROOT d = {shape(c, result)} dot(a, b){tail}
}}"""


def square(types: tuple[str, str, str], m: int, n: int, k: int, order: str = "mk,kn") -> str:
    lhs, rhs = order.split(",")
    return text_of(types, (lhs, rhs), {"m": m, "n": n, "k": k, "b": 3})


DOUBLES = ("f64", "f64", "f64")
F32 = ("f32", "f32", "f32")


@pytest.mark.parametrize("lhs", ["".join(x) for x in itertools.permutations("bmk")])
def test_every_order_of_dimensions(lhs: str) -> None:
    for rhs in itertools.permutations("bkn"):
        check(text_of(F32, (lhs, "".join(rhs)), {"b": 2, "m": 5, "n": 19, "k": 21}))


def _typed() -> list[tuple[tuple[str, str, str], str]]:
    """Types with targets; without squares only those change that squares are for."""
    short = ("bf16", "s8", "u8")
    found = [(x, name) for x in TYPES for name in ("native", "avx2")]
    if TARGETS["vectors"] == TARGETS["native"]:
        return found
    return found + [(x, "vectors") for x in TYPES if x[0] in short and x[1] in short]


@pytest.mark.parametrize(("types", "target"), _typed())
def test_every_type_in_every_form(types: tuple[str, str, str], target: str) -> None:
    """Few and many rows, packed along either dimension, vectors along k, a vector as a result."""
    for m, n, k, order in (
        (3, 37, 19, "mk,kn"),
        (3, 21, 37, "mk,nk"),
        (33, 19, 20, "mk,kn"),
        (33, 18, 37, "mk,nk"),
        (47, 35, 33, "km,kn"),
        (40, 1, 50, "mk,kn"),
    ):
        check(square(types, m, n, k, order), target=TARGETS[target], factor=2)


def test_random_shapes() -> None:
    """Several dimensions of each role, some of size 1, in any order."""
    draw = random.Random(7)
    for _ in range(25):
        letters = [x for x in "bBmMnNkK" if draw.random() < 0.65]
        sizes = {x: draw.choice([1, 2, 3, 5, 8, 16, 17, 24]) for x in letters}
        lhs = [x for x in letters if x in "bBmMkK"]
        rhs = [x for x in letters if x in "bBnNkK"]
        draw.shuffle(lhs)
        draw.shuffle(rhs)
        types = draw.choice(TYPES[:5])
        target = draw.choice(list(TARGETS.values()))
        check(text_of(types, ("".join(lhs), "".join(rhs)), sizes), target=target, factor=2)


@pytest.mark.parametrize("empty", ["m", "n", "k", "b"])
def test_empty_dimensions(empty: str) -> None:
    sizes = {"b": 2, "m": 3, "n": 4, "k": 5} | {empty: 0}
    for order in (("bmk", "bkn"), ("bmk", "bnk")):
        kernel = check(text_of(F32, order, sizes))
        assert bool(kernel.phases) == (empty == "k")


@pytest.mark.parametrize(
    ("m", "n", "k", "order", "types"),
    [
        (70, 130, 1500, "mk,kn", F32),
        (130, 70, 1500, "km,nk", F32),
        (800, 40, 450, "km,kn", F32),
        (800, 40, 450, "km,kn", ("c64", "c64", "c64")),
        (60, 70, 3001, "mk,kn", ("bf16", "bf16", "bf16")),
        (130, 150, 2100, "km,kn", ("bf16", "bf16", "f32")),
        (100, 90, 900, "mk,nk", ("s8", "s8", "s32")),
    ],
)
def test_several_blocks_of_k(
    m: int, n: int, k: int, order: str, types: tuple[str, str, str]
) -> None:
    for target in TARGETS.values():
        check(square(types, m, n, k, order), target=target)


@pytest.mark.parametrize("types", [F32, ("bf16", "bf16", "bf16"), ("s32", "s32", "s32")])
@pytest.mark.parametrize("order", ["mk,kn", "mk,nk", "km,kn"])
def test_sums_are_shared_out_where_results_are_few(order: str, types: tuple[str, str, str]) -> None:
    kernel = check(square(types, 4, 10, 40_001, order), factor=3)
    assert len(kernel.phases) == 2 and kernel.plan.shared_bytes
    one = check(square(F32, 1, 1, 300_000, "mk,nk"), factor=3)
    assert one.phases[0].units > 4


@pytest.mark.parametrize("target", ["native", "avx2"])
@pytest.mark.parametrize(
    ("m", "n", "k", "types"),
    [
        (1, 1003, 301, F32),
        (2, 5003, 177, ("f32", "bf16", "f32")),
        (3, 530, 2500, ("s8", "s8", "s32")),
        (4, 9000, 61, ("bf16", "bf16", "bf16")),
        (1, 30_000, 19, F32),
        (1, 9000, 950, F32),
    ],
)
def test_large_columns_are_read_in_strips(
    m: int, n: int, k: int, types: tuple[str, str, str], target: str
) -> None:
    """Strips and shares of k that do not come out even; sums begin at 0, whatever scratch has."""
    for order in ("mk,kn", "km,kn"):
        kernel = check(square(types, m, n, k, order), target=TARGETS[target], factor=3)
        assert any(x.name.startswith("strip_") for x in kernel.plan.emit().functions)


@pytest.mark.parametrize("target", ["native", "avx2"])
@pytest.mark.parametrize(
    ("m", "n", "k", "types"),
    [
        (5, 530, 203, F32),
        (8, 1003, 301, F32),
        (9, 513, 1024, F32),
        (33, 700, 512, F32),
        (64, 129, 831, DOUBLES),
        (7, 811, 333, ("f16", "f32", "f32")),
    ],
)
def test_columns_are_held_while_rows_pass_by(
    m: int,
    n: int,
    k: int,
    types: tuple[str, str, str],
    target: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Odd rows, ends of strips that fill no vector, ends of k that are no group, rows far apart."""
    monkeypatch.setattr(strip_scheme, "HELD_LEAST_BYTES", 256 << 10)
    for order in ("mk,kn", "km,kn"):
        kernel = check(square(types, m, n, k, order), target=TARGETS[target], factor=3)
        assert any(x.name.startswith("strip_") for x in kernel.plan.emit().functions)
        assert not any(x.name.startswith("pack_rows") for x in kernel.plan.emit().functions) or (
            types[0] == "f16"
        )


@pytest.mark.parametrize("target", ["native", "avx2"])
@pytest.mark.parametrize("types", [F32, DOUBLES, ("bf16", "f32", "f32")])
def test_far_rows_are_packed_tile_by_tile(types: tuple[str, str, str], target: str) -> None:
    """Tiles of two heights in several blocks of rows and of k, which end early on all sides."""
    kernel = check(square(types, 2099, 203, 531, "km,kn"), target=TARGETS[target], factor=3)
    assert any(x.name == "pack_rows" for x in kernel.plan.emit().functions)


@pytest.mark.parametrize("target", ["native", "avx2"])
@pytest.mark.parametrize(
    ("m", "n", "k", "types"),
    [(13, 203, 901, F32), (27, 45, 333, F32), (61, 100, 517, F32), (19, 50, 777, DOUBLES)],
)
def test_rows_in_several_tiles_along_k(
    m: int, n: int, k: int, types: tuple[str, str, str], target: str
) -> None:
    """Tiles of two heights; spans and ends of k that fill no vector; rows packed or not."""
    for order in ("mk,nk", "km,nk"):
        kernel = check(square(types, m, n, k, order), target=TARGETS[target], factor=3)
        packed = any(x.name.startswith("pack_") for x in kernel.plan.emit().functions)
        assert packed == (order == "km,nk") or m > 32


def test_columns_that_a_second_cache_holds_are_packed() -> None:
    """Weights of a recurrent network, say: they are there again in the next step.

    Of few rows some targets hold them all the same.
    """
    few = strip_scheme.held_columns(host_target()).few_rows
    for m in (max(16, few + 1), 64):
        kernel = check(square(F32, m, 1024, 256), factor=3)
        assert not any(x.name.startswith("strip_") for x in kernel.plan.emit().functions)


def test_held_columns_have_work_for_threads() -> None:
    for n, k in ((256, 4096), (768, 3072), (3072, 768)):
        assert check(square(F32, 8, n, k), factor=3).phases[0].units > 1


@pytest.mark.parametrize(("m", "n", "k"), [(1, 2048, 512), (1, 3001, 768), (2, 1024, 900)])
def test_few_rows_take_no_scratch(m: int, n: int, k: int) -> None:
    """The sums of a strip lie on the stack; k is not cut where columns are."""
    kernel = check(square(F32, m, n, k), factor=3)
    assert kernel.plan.shared_bytes == kernel.plan.thread_bytes == 0
    assert kernel.phases[0].units > 1


def test_the_sums_of_shares_are_few() -> None:
    kernel = check(square(F32, 1, 768, 3072), factor=3)
    assert 0 < 128 * kernel.plan.shared_bytes <= 768 * 3072 * 4
    assert kernel.phases[0].units % 2 == 0


def test_packed_rows_take_their_own_bytes() -> None:
    """One row of 128 numbers, computed before it is multiplied, is not rounded up to a vector's."""
    text = """HloModule m
f {
  x = f32[1,128] parameter(0)
  y = f32[128,512] parameter(1)
  xx = f32[1,128] sine(x)
  ROOT d = f32[1,512] dot(xx, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
ENTRY e {
  x.1 = f32[1,128] parameter(0)
  y.1 = f32[128,512] parameter(1)
  ROOT r = f32[1,512] fusion(x.1, y.1), kind=kOutput, calls=f
}"""
    plan = check(text).plan
    assert any(x.name.startswith("pack_rows") for x in plan.emit().functions)
    assert plan.thread_bytes <= 2 * 128 * 4


PANELS = {
    "one row": (1, 5, 40),
    "one tile of rows": (5, 3, 70),
    "several tiles": (29, 4, 33),
    "blocks of k": (25, 3, 2100),
    "panels of another processor": (9, 20, 64, 8),
    "more than a second cache": (20, 40, 900),
    "rows that are packed": (90, 2, 1100),
}


@pytest.mark.parametrize("target", ["native", "avx2"])
@pytest.mark.parametrize("name", PANELS)
@pytest.mark.parametrize("lies", ["mk", "km"])
def test_columns_that_lie_in_panels_are_read_there(name: str, target: str, lies: str) -> None:
    m, panels, k, *width = PANELS[name]
    columns = width[0] if width else 16
    rows, inner = (f"{m},{k}", 1) if lies == "mk" else (f"{k},{m}", 0)
    check(
        "HloModule m\n\nENTRY e {\n"
        f"  x = f32[{rows}] parameter(0)\n  y = f32[{panels},{k},{columns}] parameter(1)\n"
        f"  ROOT d = f32[{m},{panels},{columns}] dot(x, y), "
        f"lhs_contracting_dims={{{inner}}}, rhs_contracting_dims={{1}}\n}}\n",
        target=TARGETS[target],
        factor=3,
    )


@pytest.mark.parametrize("target", ["native", "avx2"])
@pytest.mark.parametrize("name", [x for x in PANELS if "another" not in x])
@pytest.mark.parametrize("lies", ["mk", "km"])
def test_rows_that_lie_in_panels_are_taken_for_columns(name: str, target: str, lies: str) -> None:
    m, panels, k = PANELS[name]
    rows, inner = (f"{m},{k}", 1) if lies == "mk" else (f"{k},{m}", 0)
    kernel = check(
        "HloModule m\n\nENTRY e {\n"
        f"  x = f32[{panels},{k},16] parameter(0)\n  y = f32[{rows}] parameter(1)\n"
        f"  ROOT d = f32[{panels},16,{m}] dot(x, y), "
        f"lhs_contracting_dims={{1}}, rhs_contracting_dims={{{inner}}}\n}}\n",
        target=TARGETS[target],
        factor=3,
    )
    packed = [x.name for x in kernel.plan.emit().functions if x.name.startswith("pack_")]
    assert not any("columns" in x for x in packed)


@pytest.mark.parametrize("target", ["native", "avx2"])
@pytest.mark.parametrize("rows", [4, 50])
def test_columns_that_are_gathered_are_packed_once_for_all_rows(rows: int, target: str) -> None:
    text = (
        f"HloModule m\n\nENTRY e {{\n  x = f32[20,{rows}] parameter(0)\n"
        f"  y = f32[7,20,3] parameter(1)\n  ROOT d = f32[{rows},7,3] dot(x, y), "
        "lhs_contracting_dims={0}, rhs_contracting_dims={1}\n}"
    )
    plan = plan_of(parse_hlo(text), TARGETS[target])
    assert plan is not None
    names = [x.name for x in plan.emit().functions]
    assert any(x.startswith("pack") and x.endswith("columns") for x in names) == (rows == 50)
    check(text)


def test_panels_are_packed_by_no_processor_whose_vectors_they_fill() -> None:
    module = parse_hlo(
        "HloModule m\n\nENTRY e {\n  x = f32[20,64] parameter(0)\n"
        "  y = f32[4,64,16] parameter(1)\n  ROOT d = f32[20,4,16] dot(x, y), "
        "lhs_contracting_dims={1}, rhs_contracting_dims={1}\n}\n"
    )
    for name in ("native", "avx2"):
        plan = plan_of(module, TARGETS[name])
        assert plan is not None
        assert plan.thread_bytes == plan.shared_bytes == 0
        assert not any(x.name.startswith("pack_") for x in plan.emit().functions)


@pytest.mark.parametrize("target", ["native", "avx2"])
@pytest.mark.parametrize("rest", ["64,3", "48,4", "96,1", "16,7"])
def test_columns_with_k_between_them_are_vectors_where_they_lie(rest: str, target: str) -> None:
    """Dimensions that lie like one are read like one, though the last one fills no vector.

    As many as there are steps of k between them look like a panel, which no tile is as wide as.
    """
    kernel = check(
        "HloModule m\n\nENTRY e {\n  x = f32[64,29] parameter(0)\n"
        f"  y = f32[4,64,{rest}] parameter(1)\n  ROOT d = f32[29,4,{rest}] dot(x, y), "
        "lhs_contracting_dims={0}, rhs_contracting_dims={1}\n}\n",
        target=TARGETS[target],
        factor=2,
    )
    assert "masked.gather" not in kernel.text
    assert not any(x.name.startswith("tile_1x") for x in kernel.plan.emit().functions)


@pytest.mark.parametrize("m", [2, 6])
def test_strips_of_several_matrices(m: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strip_scheme, "HELD_LEAST_BYTES", 256 << 10)
    kernel = check(text_of(F32, ("bmk", "bkn"), {"b": 3, "m": m, "n": 600, "k": 500}))
    assert any(x.name.startswith("strip_") for x in kernel.plan.emit().functions)


def test_panels_that_are_asked_for_lie_inside_the_last_block() -> None:
    """Columns read as they lie in several blocks of k, with tiles that end early on all sides."""
    for n, k in ((900, 1500), (1003, 1301)):
        kernel = check(square(F32, 30, n, k))
        assert host_target().registers == 16 or "llvm.prefetch" in kernel.text


def test_one_piece_takes_the_scratch_of_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever thread runs it; on the stack, if that has room."""
    text = """HloModule m
ENTRY e {
  x = f32[49,120] parameter(0)
  y = f32[40,120] parameter(1)
  ROOT d = f32[49,40] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={1}
}"""
    plan = check(text).plan
    assert plan.shared_bytes == plan.thread_bytes == 0
    monkeypatch.setattr(Target, "stack_bytes", property(lambda target: 0))
    plan = check(text).plan
    assert plan.shared_bytes and not plan.thread_bytes


def test_pieces_and_scratch_do_not_depend_on_how_pieces_are_shared_out() -> None:
    """Each piece alone, by one thread, gives the same bits as runs of pieces by two."""
    module = parse_hlo(square(F32, 150, 200, 3000))
    plan = plan_of(module, host_target())
    assert plan is not None
    kernel = Kernel(plan, host_target())
    inputs = inputs_of(module)
    results = [np.zeros((150, 200), np.float32) for _ in range(2)]
    kernel([*inputs, results[0]])
    kernel([*inputs, results[1]], step=1)
    assert (results[0] == results[1]).all()
    assert plan.shared_bytes % 64 == 0 and plan.thread_bytes % 64 == 0


def test_nothing_is_multiplied_that_is_not_there() -> None:
    """Vectors that end early are filled with zeros, or not kept, never with what lies behind."""

    def spread(inputs: list[np.ndarray]) -> None:
        inputs[0][:, 3] = np.inf
        inputs[1][5, :] = np.nan

    for types in (F32, ("bf16", "bf16", "f32"), ("f16", "f16", "f16")):
        for m, order in ((40, "mk,kn"), (2, "mk,kn")):
            check(square(types, m, 21, 37, order), change=spread)


def test_operands_in_other_layouts() -> None:
    text = """HloModule layouts
ENTRY main {
  a = f32[40,3,30]{0,2,1} parameter(0)
  b = f32[30,50]{0,1} parameter(1)
  ROOT d = f32[40,3,50]{2,1,0} dot(a, b), lhs_contracting_dims={2}, rhs_contracting_dims={0}
}"""
    module = parse_hlo(text)
    plan = plan_of(module, host_target())
    assert plan is not None
    a, b = inputs_of(module)
    result = np.zeros((40, 3, 50), np.float32)
    lain = [np.ascontiguousarray(a.transpose(1, 2, 0)), np.ascontiguousarray(b.T)]
    Kernel(plan, host_target())([*lain, result])
    np.testing.assert_allclose(result, np.tensordot(a, b, (2, 0)), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "types", [F32, ("bf16", "bf16", "f32"), ("s8", "s8", "s32"), ("c64", "c64", "c64")]
)
def test_code_for_other_processors(types: tuple[str, str, str]) -> None:
    for order in ("mk,kn", "mk,nk", "km,kn"):
        for m in (3, 50):
            module = parse_hlo(square(types, m, 40, 30, order))
            plan = plan_dot(module.entry.root, AARCH64)
            assert plan is not None
            code = plan.emit()
            assert KernelCompiler(AARCH64).object_code(module_text(code.functions, code.globals))


def test_equal_dots_have_equal_text() -> None:
    def written(target: Target) -> str:
        plan = plan_dot(parse_hlo(square(F32, 50, 60, 70)).entry.root, target)
        assert plan is not None
        code = plan.emit()
        return module_text(code.functions, code.globals)

    assert written(AVX2) == written(AVX2)
    assert written(AVX2) != written(AARCH64)


@pytest.mark.parametrize(
    "algorithm",
    ["bf16_bf16_f32", "bf16_bf16_f32_x6", "tf32_tf32_f32", "f16_f16_f32", "f32_f32_f32"],
)
def test_algorithms_round_operands(algorithm: str) -> None:
    for m in (3, 40):
        text = square(F32, m, 30, 50)
        end = "rhs_contracting_dims={0}"
        check(text.replace(end, f"{end}, algorithm=dot_{algorithm}"))


def vectors(size: int, more: str = "") -> str:
    sides = "lhs_contracting_dims={0}, rhs_contracting_dims={0}"
    return f"""HloModule m
ENTRY main {{
  a = f32[{size}] parameter(0)
  b = f32[{size}] parameter(1)
  ROOT d = f32[] dot(a, b), {sides}{more}
}}"""


@pytest.mark.parametrize("size", [2, 8])
def test_a_sum_of_few_products_is_a_loop_of_elements(size: int) -> None:
    assert plan_of(parse_hlo(vectors(size)), host_target()) is None
    in_process.check(vectors(size), inputs_of(parse_hlo(vectors(size))), tolerance=1e-6)


@pytest.mark.parametrize("text", [vectors(9), vectors(4, ", algorithm=dot_tf32_tf32_f32")])
def test_longer_sums_and_rounded_operands_have_the_template(text: str) -> None:
    check(text)


TINY = [
    ("f32", {"b": 150, "k": 3, "n": 2}, "bk,bnk"),
    ("f32", {"b": 33, "k": 2}, "bk,bk"),
    ("f32", {"b": 70, "k": 3, "n": 3}, "bk,bnk"),
    ("f32", {"b": 37, "k": 6, "n": 2}, "bk,bnk"),
    ("f64", {"b": 41, "k": 4, "n": 3}, "bk,bnk"),
    ("f64", {"b": 19, "k": 2, "m": 3}, "bmk,bk"),
    ("s32", {"b": 40, "B": 5, "k": 2, "n": 4}, "bBk,bBnk"),
    ("c64", {"b": 50, "k": 2, "n": 2}, "bk,bnk"),
]


@pytest.mark.parametrize(("type_", "sizes", "order"), TINY)
@pytest.mark.parametrize("target", ["native", "avx2"])
def test_many_tiny_products(type_: str, sizes: dict[str, int], order: str, target: str) -> None:
    lhs, _, rhs = order.partition(",")
    text = text_of((type_, type_, type_), (lhs, rhs), sizes)
    plan = plan_of(parse_hlo(text), TARGETS[target])
    assert type_ not in ("f32", "s32") or target == "avx2" or plan is None
    in_process.check(text, inputs_of(parse_hlo(text)), tolerance=1e-5)
    loops.check(text, target)


@pytest.mark.parametrize(
    "sizes", [{"b": 150, "k": 40, "n": 2}, {"b": 3, "k": 3, "n": 2}, {"b": 150, "k": 3, "n": 9}]
)
def test_longer_fewer_and_wider_products_have_the_template(sizes: dict[str, int]) -> None:
    check(text_of(("f32", "f32", "f32"), ("bk", "bnk"), sizes))
    check(text_of(("bf16", "bf16", "bf16"), ("bk", "bnk"), sizes), factor=2)


FEW = """HloModule few

ENTRY e {{
  x = f32[{k}] parameter(0)
  y = f32[{n},{k}] parameter(1)
  ROOT z = f32[{n}] dot(x, y), lhs_contracting_dims={{0}}, rhs_contracting_dims={{1}}
}}
"""


@pytest.mark.parametrize("target", ["cpu", "cpu:avx2"])
@pytest.mark.parametrize(("n", "k"), [(4, 4), (3, 4), (4, 3)])
def test_short_rows_have_short_vectors(n: int, k: int, target: str) -> None:
    module = parse_hlo(FEW.format(n=n, k=k))
    planned = compile_anew(module, Options(target=target))
    texts = "".join([text for _, text in kernel_texts(planned)])
    assert "<4 x float>" in texts
    assert "<8 x float>" not in texts and "<16 x float>" not in texts
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal(k, np.float32), rng.standard_normal((n, k), np.float32)
    found = lowtide.compile(module, target=target, cache=False)(x, y)
    np.testing.assert_allclose(found, y @ x, rtol=1e-5)
