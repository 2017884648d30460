"""Kernels of loops give what the evaluator does, and touch no byte outside of their arrays."""

import pytest
from tests.codegen.loops import TARGETS, as_fusion, check, target_of
from tests.random_modules import Recipe, random_module
from tests.random_modules.recipe import COMMON_TYPES

from lowtide.codegen.cpu.loop import plan_loop
from lowtide.codegen.elements.operands import members
from lowtide.codegen.elements.table import has_rule
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import ElementType as E
from lowtide.llvm.function import module_text
from lowtide.llvm.machine import KernelCompiler
from lowtide.ops.in_place import in_place_pairs


def kernel(body: str, shape: str = "", **parameters: str) -> str:
    """A module whose entry is one fusion; the last line of the body is its root."""
    lines = [f"  {name} = {x} parameter({i})" for i, (name, x) in enumerate(parameters.items())]
    *steps, root = [x.strip() for x in body.strip().splitlines()]
    shape = shape or root.split("= ")[1].split(" ")[0]
    text = "\n".join(
        ["HloModule m", "f {", *lines, *steps, f"ROOT {root}", "}", "ENTRY e {", *lines]
    )
    return (
        f"{text}\n  ROOT all = {shape} fusion({', '.join(parameters)}), kind=kLoop, calls=f\n}}\n"
    )


def order(*dimensions: int) -> str:
    return "{" + ",".join(map(str, dimensions)) + "}"


TYPES = ("pred", "s4", "s8", "bf16", "f16", "f8e4m3fn", "s32", "f32", "s64", "f64", "c64", "c128")

TRANSPOSES = [
    ((37, 41), (1, 0)),
    ((64, 48), (1, 0)),
    ((5, 12), (1, 0)),
    ((200, 3), (1, 0)),
    ((3, 200), (1, 0)),
    ((2, 17, 33), (0, 2, 1)),
    ((19, 5, 23), (2, 1, 0)),
    ((4, 6, 3, 20), (0, 2, 1, 3)),
    ((3, 2, 2, 5, 2, 1, 3, 2), (7, 3, 0, 5, 2, 6, 1, 4)),
]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("type_", TYPES)
def test_transposes_of_all_widths(type_: str, target: str) -> None:
    for sizes, permutation in TRANSPOSES if type_ in ("f32", "s8") else TRANSPOSES[::3]:
        given = f"{type_}[{','.join(map(str, sizes))}]"
        taken = f"{type_}[{','.join([str(sizes[p]) for p in permutation])}]"
        text = f"y = {taken} transpose(x), dimensions={order(*permutation)}"
        check(kernel(text, x=given), target)


BODIES = {
    "transposed operand": (
        """b = f32[70,45] transpose(y), dimensions={1,0}
        z = f32[70,45] add(x, b)""",
        {"x": "f32[70,45]", "y": "f32[45,70]"},
    ),
    "transposed operands of two widths": (
        """a = s8[36,80] transpose(x), dimensions={1,0}
        b = f32[36,80] convert(a)
        c = f32[36,80] transpose(y), dimensions={1,0}
        z = f32[36,80] multiply(b, c)""",
        {"x": "s8[80,36]", "y": "f32[80,36]"},
    ),
    "transposed and reversed": (
        """a = f32[33,40] transpose(x), dimensions={1,0}
        z = f32[33,40] reverse(a), dimensions={1}""",
        {"x": "f32[40,33]"},
    ),
    "too many tiles for the stack": (
        """a = f32[33,20] transpose(x0), dimensions={1,0}
        b = f32[33,20] transpose(x1), dimensions={1,0}
        c = f32[33,20] transpose(x2), dimensions={1,0}
        d = f32[33,20] transpose(x3), dimensions={1,0}
        e = f32[33,20] transpose(x4), dimensions={1,0}
        g = f32[33,20] transpose(x5), dimensions={1,0}
        h = f32[33,20] transpose(x6), dimensions={1,0}
        i = f32[33,20] transpose(x7), dimensions={1,0}
        j = f32[33,20] transpose(x8), dimensions={1,0}
        ab = f32[33,20] add(a, b)
        cd = f32[33,20] multiply(c, d)
        eg = f32[33,20] subtract(e, g)
        hi = f32[33,20] maximum(h, i)
        abcd = f32[33,20] add(ab, cd)
        eghi = f32[33,20] add(eg, hi)
        most = f32[33,20] add(abcd, eghi)
        z = f32[33,20] add(most, j)""",
        {f"x{i}": "f32[20,33]" for i in range(9)},
    ),
    "rolled by an amount that is not known": (
        """c = f32[7,90] concatenate(x, x), dimensions={1}
        o = s32[] constant(0)
        z = f32[7,45] dynamic-slice(c, o, i), dynamic_slice_sizes={7,45}""",
        {"x": "f32[7,45]", "i": "s32[]"},
    ),
    "bytes rolled, three times over": (
        """c = u8[111] concatenate(x, x, x), dimensions={0}
        z = u8[70] dynamic-slice(c, i), dynamic_slice_sizes={70}""",
        {"x": "u8[37]", "i": "s64[]"},
    ),
    **{
        f"{rows} short rows that share {what}": (
            f"""b = f32[{rows},{size}] broadcast(y), dimensions={{1}}
            c = f32[{rows},{size}] broadcast(w), dimensions={{0}}
            d = f32[{rows},{size}] multiply(x, b)
            z = f32[{rows},{size}] subtract(d, c)""",
            {"x": f"f32[{rows},{size}]", "y": f"f32[{size}]", "w": f"f32[{rows}]"},
        )
        for rows, size, what in (
            (24, 12, "a vector"),
            (9, 21, "two vectors"),
            (14, 5, "half a vector"),
            (7, 37, "three vectors"),
        )
    },
    "rows of matrices": (
        """b = f64[5,8,6] broadcast(y), dimensions={0,1}
        c = f64[5,8,6] broadcast(w), dimensions={0,2}
        d = f64[5,8,6] multiply(b, c)
        z = f64[5,8,6] subtract(x, d)""",
        {"x": "f64[5,8,6]", "y": "f64[5,8]", "w": "f64[5,6]"},
    ),
    "interleaved": (
        """a = f32[53,1] reshape(x)
        b = f32[53,1] reshape(y)
        z = f32[53,2] concatenate(a, b), dimensions={1}""",
        {"x": "f32[53]", "y": "f32[53]"},
    ),
    "interleaved predicates": (
        """a = pred[53,1] reshape(x)
        b = pred[53,1] reshape(y)
        c = pred[53,3] concatenate(a, b, a), dimensions={1}
        z = pred[53,3] not(c)""",
        {"x": "pred[53]", "y": "pred[53]"},
    ),
    "pairs rotated": (
        """a = f32[9,20,1] slice(x), slice={[0:9], [0:20], [0:1]}
        b = f32[9,20,1] slice(x), slice={[0:9], [0:20], [1:2]}
        c = f32[9,20,1] negate(b)
        d = f32[9,20,2] concatenate(c, a), dimensions={2}
        z = f32[9,40] reshape(d)""",
        {"x": "f32[9,20,2]"},
    ),
    "few columns and a row": (
        """b = f32[77,3] broadcast(y), dimensions={1}
        z = f32[77,3] multiply(x, b)""",
        {"x": "f32[77,3]", "y": "f32[3]"},
    ),
    "every other element": (
        """a = f32[40] slice(x), slice={[0:80:2]}
        b = f32[40] slice(x), slice={[1:81:2]}
        z = f32[40] subtract(a, b)""",
        {"x": "f32[81]"},
    ),
    "every third element, backwards": (
        """a = f32[27] slice(x), slice={[0:79:3]}
        z = f32[27] reverse(a), dimensions={0}""",
        {"x": "f32[79]"},
    ),
    "backwards": ("z = bf16[5,35] reverse(x), dimensions={1}", {"x": "bf16[5,35]"}),
    "repeated": (
        """b = f32[6,21,3] broadcast(x), dimensions={0,1}
        z = f32[6,63] reshape(b)""",
        {"x": "f32[6,21]"},
    ),
    "tiled": (
        """b = f32[3,10,2,7] broadcast(x), dimensions={1,3}
        z = f32[30,14] reshape(b)""",
        {"x": "f32[10,7]"},
    ),
    "reshaped to sizes without common factors": (
        """b = f32[6,4] broadcast(x), dimensions={0}
        z = f32[8,3] reshape(b)""",
        {"x": "f32[6]"},
    ),
    "patches": (
        """a = f32[2,3,4,3,4,3] reshape(x)
        b = f32[2,3,3,4,4,3] transpose(a), dimensions={0,1,3,2,4,5}
        z = f32[2,9,48] reshape(b)""",
        {"x": "f32[2,12,12,3]"},
    ),
    "concatenate of long and short pieces": (
        "z = f32[3,150] concatenate(x, y, x, w), dimensions={1}",
        {"x": "f32[3,40]", "y": "f32[3,69]", "w": "f32[3,1]"},
    ),
    "concatenate of rows": (
        "z = f32[21,9] concatenate(x, y, x), dimensions={0}",
        {"x": "f32[4,9]", "y": "f32[13,9]"},
    ),
    "pad with negative edges": (
        "z = f32[9,40] pad(x, v), padding=2_-1x-3_4",
        {"x": "f32[8,39]", "v": "f32[]"},
    ),
    "pad within": ("z = f32[3,44] pad(x, v), padding=0_0x1_2_1", {"x": "f32[3,21]", "v": "f32[]"}),
    "pad within, by two, and cut": (
        "z = f32[30] pad(x, v), padding=-2_-2_2",
        {"x": "f32[12]", "v": "f32[]"},
    ),
    "halves exchanged": (
        """a = f32[5,40] slice(x), slice={[0:5], [40:80]}
        b = f32[5,40] slice(x), slice={[0:5], [0:40]}
        c = f32[5,40] negate(a)
        z = f32[5,80] concatenate(c, b), dimensions={1}""",
        {"x": "f32[5,80]"},
    ),
    "iota of all kinds": (
        """a = s32[7,45] iota(), iota_dimension=1
        b = s64[7,45] iota(), iota_dimension=0
        c = s32[7,45] convert(b)
        d = s32[7,45] subtract(a, c)
        e = u8[7,45] iota(), iota_dimension=1
        g = s32[7,45] convert(e)
        h = s32[7,45] add(d, g)
        z = s32[7,45] multiply(h, x)""",
        {"x": "s32[7,45]"},
    ),
    "triangle": (
        """a = s32[40,40] iota(), iota_dimension=0
        b = s32[40,40] iota(), iota_dimension=1
        c = pred[40,40] compare(a, b), direction=GE
        v = f32[] constant(-1)
        w = f32[40,40] broadcast(v), dimensions={}
        z = f32[40,40] select(c, x, w)""",
        {"x": "f32[40,40]"},
    ),
    "rows looked up, some out of range": (
        "z = f32[11,35] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, "
        "start_index_map={0}, index_vector_dim=1, slice_sizes={1,35}",
        {"x": "f32[4,35]", "i": "s32[11]"},
    ),
    "columns looked up": (
        "z = f32[5,37] gather(x, i), offset_dims={0}, collapsed_slice_dims={1}, "
        "start_index_map={1}, index_vector_dim=1, slice_sizes={5,1}",
        {"x": "f32[5,4]", "i": "u8[37]"},
    ),
    "part of an array from somewhere on": (
        "z = bf16[3,20] dynamic-slice(x, i, j), dynamic_slice_sizes={3,20}",
        {"x": "bf16[5,33]", "i": "s32[]", "j": "s64[]"},
    ),
    "scalars": ("z = f32[] add(x, y)", {"x": "f32[]", "y": "f32[]"}),
    "nothing": ("z = f32[3,0] negate(x)", {"x": "f32[3,0]"}),
    "padding around nothing": (
        """e = f32[1,0] reshape(x)
        z = f32[4,4] pad(e, v), padding=1_2x2_2""",
        {"x": "f32[3,0,5]", "v": "f32[]"},
    ),
    "rank 8 of ones": ("z = f32[1,1,3,1,1,20,1,1] reshape(x)", {"x": "f32[60]"}),
    "other layouts": (
        "z = f32[18,35]{0,1} add(x, y)",
        {"x": "f32[18,35]{0,1}", "y": "f32[18,35]{1,0}"},
    ),
    "constants in another layout": (
        """c = f32[2,3]{0,1} constant({{1,2,3},{4,5,6}})
        z = f32[2,3]{0,1} add(x, c)""",
        {"x": "f32[2,3]{0,1}"},
    ),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", BODIES)
def test_bodies(name: str, target: str) -> None:
    body, parameters = BODIES[name]
    check(kernel(body, **parameters), target, seed=len(name))


def test_several_results_of_different_sizes_and_layouts() -> None:
    body = """a = f32[20,33] negate(x)
    b = f32[33,20] transpose(x), dimensions={1,0}
    c = f32[20,33]{0,1} abs(x)
    z = (f32[20,33], f32[33,20], f32[20,33]{0,1}) tuple(a, b, c)"""
    shape = "(f32[20,33], f32[33,20], f32[20,33]{0,1})"
    for target in TARGETS:
        check(kernel(body, shape, x="f32[20,33]"), target)


def test_an_update_in_place_writes_only_its_part() -> None:
    body = """u = f32[3,20] negate(y)
    z = f32[9,45] dynamic-update-slice(x, u, i, j)"""
    text = kernel(body, x="f32[9,45]", y="f32[3,20]", i="s32[]", j="s32[]")
    for target in TARGETS:
        for seed in range(4):
            check(text, target, seed=seed)


def test_results_larger_than_caches_are_stored_past_them_where_they_are_aligned() -> None:
    body = """b = f32[1024,2048] transpose(y), dimensions={1,0}
    z = f32[1024,2048] subtract(x, b)"""
    text = kernel(body, x="f32[1024,2048]", y="f32[2048,1024]")
    check(text, cuts=5)
    code = plan_loop(parse_hlo(text).entry.root, target_of("native")).emit()
    assert "nontemporal" in module_text(code.functions, code.globals)


def test_pieces_do_not_depend_on_anything_but_shapes_and_cover_all() -> None:
    text = kernel("z = f32[300,1000] negate(x)", x="f32[300,1000]")
    root = parse_hlo(text).entry.root
    first, second = [plan_loop(root, target_of("native")).emit() for _ in range(2)]
    assert first.phases == second.phases
    assert 8 <= first.phases[0].units <= 64
    texts = [module_text(x.functions, x.globals) for x in (first, second)]
    assert texts[0] == texts[1]


def concatenated(axis: int, type_: str, *parts: str) -> str:
    """Two parts of 40 x 70 computed from x and y, side by side along an axis."""
    sizes = ["80,70", "40,140"][axis]
    body = f"""a = {type_}[40,70] {parts[0]}
    b = {type_}[40,70] {parts[1]}
    z = {type_}[{sizes}] concatenate(a, b), dimensions={{{axis}}}"""
    return kernel(body, x=f"{type_}[40,70]", y=f"{type_}[40,70]")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("type_", ["f32", "s8", "f64"])
def test_parts_that_read_the_same_are_one_loop(type_: str, axis: int, target: str) -> None:
    text = concatenated(axis, type_, "add(x, y)", "subtract(x, y)")
    check(text, target)
    code = plan_loop(parse_hlo(text).entry.root, target_of(target)).emit()
    assert [x.name for x in code.functions] == ["loop0_0"]


@pytest.mark.parametrize("axis", [0, 1])
def test_parts_that_read_nothing_in_common_are_loops_of_their_own(axis: int) -> None:
    text = concatenated(axis, "f32", "negate(x)", "negate(y)")
    check(text)
    code = plan_loop(parse_hlo(text).entry.root, target_of("native")).emit()
    assert {x.name for x in code.functions} >= {"loop0_0", "loop0_1"}


def test_components_of_vectors_are_read_once_for_all_results() -> None:
    """The cross product of rows that lie one after the other, as three rows."""
    steps = [
        f"{n}{i} = f32[1,90] slice({n}t), slice={{[{i}:{i + 1}], [0:90]}}"
        for n in "xy"
        for i in range(3)
    ]
    for i, (j, k) in enumerate([(1, 2), (2, 0), (0, 1)]):
        steps += [
            f"p{i} = f32[1,90] multiply(x{j}, y{k})",
            f"q{i} = f32[1,90] multiply(x{k}, y{j})",
            f"r{i} = f32[1,90] subtract(p{i}, q{i})",
        ]
    turned = [f"{n}t = f32[3,90] transpose({n}), dimensions={{1,0}}" for n in "xy"]
    root = "z = f32[3,90] concatenate(r0, r1, r2), dimensions={0}"
    text = kernel("\n".join([*turned, *steps, root]), x="f32[90,3]", y="f32[90,3]")
    for target in TARGETS:
        check(text, target)
        code = plan_loop(parse_hlo(text).entry.root, target_of(target)).emit()
        assert len(code.functions) == 1


@pytest.mark.parametrize("name", [x for x in BODIES if x != "nothing"])
def test_objects_for_other_processors(name: str) -> None:
    body, parameters = BODIES[name]
    root = parse_hlo(kernel(body, **parameters)).entry.root
    code = plan_loop(root, target_of("aarch64")).emit()
    machine = KernelCompiler(target_of("aarch64"))
    assert machine.object_code(module_text(code.functions, code.globals))


FAMILIES = ("elementwise", "data movement", "indexing")


def random_fusion(seed: int) -> str | None:
    """A fusion of random operations, None where loops do not run it by itself."""
    recipe = Recipe(
        FAMILIES if seed % 3 else FAMILIES[1:2],
        max_instructions=6,
        max_size=(6, 20, 40)[seed % 3],
        element_types=COMMON_TYPES if seed % 4 else (E.F32, E.BF16),
        aliases=False,
        layouts=seed % 3 == 1,
    )
    module = random_module(seed, recipe)
    shapes = [x.shape for x in module.entry.instructions.values() if x.shape.is_array]
    if not module.entry.parameters or sum([x.element_count for x in shapes]) > 300_000:
        return None
    text = as_fusion(module)
    root = parse_hlo(text).entry.root
    if in_place_pairs(root) or not all(has_rule(x) for x in members(root)):
        return None
    return text


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("start", range(0, 120, 40))
def test_random_fusions(start: int, target: str) -> None:
    texts = [random_fusion(seed) for seed in range(start, start + 40)]
    assert len([x for x in texts if x is not None]) > 20
    for number, text in enumerate(texts):
        if text is not None:
            check(text, target, seed=number, cuts=1 + number % 4)


@pytest.mark.parametrize(("rows", "size", "expected"), [(24, 12, 4), (9, 21, 3), (7, 12, 1)])
def test_short_rows_are_computed_several_at_a_time(rows: int, size: int, expected: int) -> None:
    """Rows of matrices, each with a factor of its own, minus a multiple of one row."""
    array = f"f32[50,{rows},{size}]"
    body = f"""b = {array} broadcast(y), dimensions={{0,1}}
    c = {array} broadcast(w), dimensions={{0,2}}
    d = {array} multiply(b, c)
    z = {array} subtract(x, d)"""
    text = kernel(body, x=array, y=f"f32[50,{rows}]", w=f"f32[50,{size}]")
    target = target_of("native")
    (function,) = plan_loop(parse_hlo(text).entry.root, target).emit().functions
    lines = function.text().splitlines()
    count = sum(["masked.store" in x or "store <" in x for x in lines])
    lanes = target.vector_bytes // 4
    assert count == expected * (size > lanes) + expected or lanes != 16
