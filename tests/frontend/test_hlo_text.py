"""HLO text: agreement with XLA on recorded texts, the two paths of the parser, and errors."""

import json
import lzma
from pathlib import Path

import pytest
from tests.support import CONFORMANCE, CORPUS, EXAMPLES, needs_shared, read_text

from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import HloTextError, Module
from lowtide.ir.attributes import Compare, Constant, CustomCall, Dot, Fusion, Parameter
from lowtide.ir.printer import COMPLETE, to_text

SMALL = """HloModule m, entry_computation_layout={(f32[2]{0})->f32[2]{0}}

ENTRY %main (p: f32[2]) -> f32[2] {
  %p = f32[2]{0} parameter(0)
  ROOT %n = f32[2]{0} negate(%p)
}
"""


def in_entry(*lines: str) -> str:
    return "HloModule m\nENTRY main {\n" + "\n".join(lines) + "\n}\n"


def parse_both(text: str) -> Module:
    """Parse by the general parser and with the fast path, which must agree."""
    general = parse_hlo(text, fast=False)
    fast = parse_hlo(text)
    assert to_text(fast, COMPLETE) == to_text(general, COMPLETE)
    assert describe(fast) == describe(general)
    return fast


def describe(module: Module) -> list[object]:
    return [
        (c.name, i.name, i.id, i.opcode, i.shape, i.attributes, i.annotations, i.metadata,
         i.position, [x.name for x in i.operands], [x.name for x in i.control_predecessors])
        for c in module.computations.values()
        for i in c.instructions.values()
    ]  # fmt: skip


def records() -> list[dict[str, object]]:
    with lzma.open(CONFORMANCE / "hlo_text.jsonl.xz", "rt") as lines:
        return [json.loads(line) for line in lines]


@needs_shared
def test_agrees_with_xla_on_recorded_texts() -> None:
    accepted = accepted_too = rejected = rejected_too = printed = same = 0
    for record in records():
        text = str(record["text"])
        try:
            module = parse_hlo(text)
        except HloTextError as error:
            assert error.line >= 1
            assert error.column >= 1
            accepted += bool(record["accepted"])
            rejected_too += record["class_"] == "negative_test"
            rejected += record["class_"] == "negative_test"
            continue
        if not record["accepted"]:
            rejected += record["class_"] == "negative_test"
            continue
        accepted += 1
        accepted_too += 1
        ours = str(module)
        assert str(parse_hlo(ours)) == ours, record["id"]
        if record["canonical"] is not None:
            printed += 1
            same += ours.strip() == str(record["canonical"]).strip()
    assert accepted_too == accepted
    assert rejected_too >= 0.9 * rejected
    assert same >= 0.995 * printed


@needs_shared
def test_fast_and_general_path_agree_on_recorded_texts() -> None:
    for record in records()[::40]:
        if record["accepted"]:
            parse_both(str(record["text"]))


@needs_shared
@pytest.mark.slow
def test_fast_and_general_path_agree_on_more_recorded_texts() -> None:
    for record in records()[::3]:
        if record["accepted"]:
            parse_both(str(record["text"]))


def real_modules() -> list[Path]:
    paths = [*CORPUS.glob("*.xz"), *EXAMPLES.glob("*.xz")]
    return sorted(paths, key=lambda path: path.stat().st_size)


@pytest.mark.parametrize("path", real_modules()[:12], ids=lambda path: path.name)
def test_real_modules_print_as_xla_prints_them(path: Path) -> None:
    hlo = pytest.importorskip("jaxlib._hlo")
    text = read_text(path)
    ours = str(parse_both(text))
    assert str(parse_hlo(ours)) == ours
    if path.parent == CORPUS:
        assert ours.strip() == hlo.hlo_module_from_text(text).to_string().strip()


@pytest.mark.slow
@pytest.mark.parametrize("path", real_modules()[12:], ids=lambda path: path.name)
def test_large_modules_print_as_xla_prints_them(path: Path) -> None:
    test_real_modules_print_as_xla_prints_them(path)


@needs_shared
@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(CORPUS.glob("*.xz")), ids=lambda path: path.name)
def test_xla_prints_our_text_as_we_do(path: Path) -> None:
    hlo = pytest.importorskip("jaxlib._hlo")
    ours = str(parse_hlo(read_text(path)))
    assert hlo.hlo_module_from_text(ours).to_string().strip() == ours.strip()


# -- forms of text -----------------------------------------------------------------------------


def test_a_second_line_of_a_known_form_takes_the_fast_path() -> None:
    lines = [f"%n{i} = f32[2]{{0}} negate(%{'p' if i == 0 else f'n{i - 1}'})" for i in range(3)]
    module = parse_both(in_entry("%p = f32[2]{0} parameter(0)", *lines))
    assert [i.name for i in module.entry.instructions.values()] == ["p", "n0", "n1", "n2"]


@pytest.mark.parametrize(
    "tail",
    [
        " }",
        ",\n  sharding={replicated} }",
        "\n  , sharding={replicated} }",
        " // a comment\n }",
        " /* a comment\n of two lines */ }",
        ', metadata={op_name="a } b" stack_frame_id=3} }',
        ', frontend_attributes={a=", metadata={op_name=\\"x\\"}"} }',
    ],
)
def test_odd_line_ends_do_not_confuse_the_fast_path(tail: str) -> None:
    body = "p = f32[2] parameter(0)\n  n = f32[2] negate(p)\n  ROOT m = f32[2] negate(n)"
    text = "".join([f"c{i} {{ {body}{tail}\n" for i in range(3)])
    assert len(parse_both(text).computations) == 3


def test_headerless_text_takes_the_last_computation_as_entry() -> None:
    module = parse_both("a { ROOT p = f32[] parameter(0) }\nb { ROOT q = s32[] parameter(0) }\n")
    assert module.entry.name == "b"
    assert module.name == "module_b"


def test_single_instruction_invents_its_operands() -> None:
    module = parse_hlo("f32[2,4] dot(f32[2,3], f32[3,4] w), lhs_contracting_dims={1}, "
                       "rhs_contracting_dims={0}")  # fmt: skip
    assert [p.shape.dimensions for p in module.entry.parameters] == [(2, 3), (3, 4)]
    assert module.entry.parameters[1].name == "w"


@pytest.mark.parametrize(
    "operands",
    [
        "f32[] a, f32[], b",
        "f32[], a, b",
        "a,, b",
        "a, b, f32[]",
        "a, (f32[4]{0}, pred[]), b,",
        ",a,b",
    ],
)
def test_a_shape_alone_and_nothing_between_commas_are_passed_over(operands: str) -> None:
    x, y = "a = f32[] parameter(0)", "b = f32[] parameter(1)"
    module = parse_hlo(in_entry(x, y, f"ROOT c = f32[] add({operands})"))
    assert [z.name for z in module.entry.root.operands] == ["a", "b"]


def test_a_shape_alone_is_no_operand() -> None:
    with pytest.raises(HloTextError, match="add takes 2 operands, found 1"):
        parse_hlo(in_entry("a = f32[] parameter(0)", "ROOT c = f32[] add(a, f32[])"))


def test_typed_attributes() -> None:
    module = parse_both(
        in_entry(
            "a = bf16[2,3] parameter(0)",
            "b = bf16[3,4] parameter(1)",
            "d = f32[2,4] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
            "operand_precision={highest,default}",
            "c = f32[] constant(-1.5)",
            "e = f32[2,4] broadcast(c), dimensions={}",
            "ROOT f = pred[2,4] compare(d, e), direction=LT, type=TOTALORDER",
        )
    )
    known = module.entry.instructions
    assert known["b"].attributes_as(Parameter).number == 1
    assert known["d"].attributes_as(Dot).dimensions.lhs_contracting == (1,)
    assert [p.value for p in known["d"].attributes_as(Dot).precision.operand_precision] == [
        "highest",
        "default",
    ]
    assert known["c"].attributes_as(Constant).literal.array == -1.5
    assert known["f"].attributes_as(Compare).type == "TOTALORDER"
    with pytest.raises(TypeError, match="not Fusion"):
        known["f"].attributes_as(Fusion)


@pytest.mark.parametrize(
    ("numbers", "order", "type_"),
    [
        ("f32", "TOTAL", "TOTALORDER"),
        ("bf16", "PARTIAL", "FLOAT"),
        ("c64", "PARTIAL", "FLOAT"),
        ("s32", "TOTAL", "SIGNED"),
        ("u8", "TOTAL", "UNSIGNED"),
        ("pred", "TOTAL", "UNSIGNED"),
    ],
)
def test_orders_of_comparisons_in_newer_texts(numbers: str, order: str, type_: str) -> None:
    line = f"ROOT c = pred[] compare(a, a), direction=EQ, order={order}"
    module = parse_hlo(in_entry(f"a = {numbers}[] parameter(0)", line))
    assert module.entry.instructions["c"].attributes_as(Compare).type == type_


def test_an_order_of_comparisons_that_is_not_there() -> None:
    line = "ROOT c = pred[] compare(a, a), direction=EQ, order=WEAK"
    with pytest.raises(HloTextError, match="unknown comparison order 'WEAK'"):
        parse_hlo(in_entry("a = f32[] parameter(0)", line))


def test_called_computations_and_sugar() -> None:
    module = parse_both(
        "HloModule m\n"
        "ENTRY e {\n  p = f32[8] parameter(0)\n"
        "  s = ((f32[8]), f32[8], u32[]) custom-call-start(p), custom_call_target=\"t\", "
        "async_execution_thread=\"host\"\n"
        "  ROOT d = f32[8] custom-call-done(s)\n}\n"
    )  # fmt: skip
    start = module.entry.instructions["s"]
    wrapped = start.called_computations[0]
    assert wrapped.execution_thread == "host"
    assert wrapped.root.attributes_as(CustomCall).target == "t"
    assert "custom-call-start(%p)" in str(module)


@pytest.mark.parametrize(
    "config", ['"{"', '"}{"', '"{}"', '"{a}{b}"', '"{\\"}"', '"{a"', '{a="}"}', '{"k": {"l": "{"}}']
)
def test_strings_that_look_like_dictionaries_come_back(config: str) -> None:
    module = parse_hlo(in_entry(f"ROOT p = f32[] parameter(0), backend_config={config}"))
    again = parse_hlo(str(module))
    assert str(again) == str(module)
    assert again.entry.root.annotations == module.entry.root.annotations


# -- errors ------------------------------------------------------------------------------------

ERRORS = [
    (SMALL.replace("negate", "negat"), 5, 23, "unknown opcode 'negat'; did you mean 'negate'?"),
    (SMALL.replace("(%p)", "(%q)"), 5, 30, "no instruction 'q' before this one"),
    (SMALL.replace("%n = f32", "%n = f33"), 5, 13, "unknown element type 'f33'"),
    (SMALL.replace("f32[2]{0} negate", "f32[-2]{0} negate"), 5, 17, "size -2"),
    (SMALL.replace("f32[2]{0} negate", "f32[2]{1} negate"), 5, 13, "each dimension number once"),
    (SMALL.replace("(%p)\n", "(%p), sharding={repliated}\n"), 5, 45, "expected replicated"),
    (SMALL.replace("(%p)\n", "(%p), shrading={replicated}\n"), 5, 35, "did you mean 'sharding'"),
    (SMALL.replace("(%p)\n", "(%p, %p)\n"), 5, 23, "negate takes 1 operands, found 2"),
    (SMALL[:-2], 6, 1, "expected the name of an instruction"),
    (SMALL.replace("-> f32[2] {", "-> f32[3] {"), 3, 7, "the signature of main says f32[3]"),
    (SMALL.replace("ROOT %n", "%p"), 5, 3, "instruction 'p' is defined twice"),
    (SMALL.replace("HloModule m,", "HloModule m, is_scheduld=true,"), 1, 14, "'is_scheduled'"),
    (SMALL.replace("parameter(0)", "parameter(1)"), 4, 3, "parameter number 0 is missing"),
    ("HloModule m\n", 2, 1, "expected a computation"),
    ("", 1, 1, "expected a module, a computation, or an instruction"),
    (in_entry('ROOT p = f32[] parameter(0), metadata={op_name="x'), 3, 48, "not closed"),
    (in_entry("ROOT c = s8[] constant(128)"), 3, 24, "out of the range of s8, [-128, 127]"),
    (in_entry("ROOT c = f32[2] constant({1,2,3})"), 3, 31, "expected 2 elements here"),
    (in_entry("p = f32[4] parameter(0)", "ROOT r = f32[5] reshape(p)"), 4, 17, "reshape of"),
    (in_entry("ROOT r = (f32[2]) tuple()"), 3, 19, "a tuple of 0 operands"),
]


@pytest.mark.parametrize(("text", "line", "column", "message"), ERRORS)
def test_errors_name_the_place_and_the_expectation(
    text: str, line: int, column: int, message: str
) -> None:
    with pytest.raises(HloTextError) as caught:
        parse_hlo(text, "model.hlo")
    error = caught.value
    assert message in str(error)
    assert (error.line, error.column) == (line, column)
    assert str(error).startswith(f"model.hlo:{line}:{column}: ")
    shown, caret = error.excerpt.splitlines()
    assert len(shown) < 120
    assert caret.strip() == "^"


HOSTILE = {
    "nested shapes": "ROOT p = " + "(" * 50_000,
    "nested operands": "ROOT p = f32[] " + "negate(f32[] " * 20_000,
    "nested computations": "ROOT c = f32[] call(), to_apply=" + "{ ROOT a = f32[] call(), "
    "to_apply=" * 5_000,
    "nested shardings": "ROOT p = f32[] parameter(0), sharding=" + "{" * 50_000,
    "many devices": "ROOT p = f32[8] parameter(0), sharding={devices=[9,1000000007]"
    "<=[1000000007,9]T(1,0) last_tile_dim_replicate}",
    "huge mesh": "ROOT p = f32[] all-gather(), dimensions={0}, "
    "replica_groups=mesh['a'=99999999,'b'=99999999]{'a'}",
    "huge dimensions": "ROOT p = f32[9223372036854775807,9223372036854775807] parameter(0)",
    "huge number": "ROOT p = f32[" + "9" * 1_000_000 + "] parameter(0)",
    "huge constant": "ROOT p = f32[100000000000] constant(1)",
    "open dictionary": "ROOT p = f32[2] custom-call(), backend_config=" + "{" * 200_000,
    "open string": 'ROOT p = f32[] parameter(0), metadata={op_name="' + "\\'" * 500_000,
    "long line": "ROOT p = f32[] add(" + "a" * 5_000_000 + ")",
    "open comment": "/*" * 100_000,
    "long tuple": "ROOT p = (" + "f32[]," * 1_100_000 + " tuple(",
    "repeated field": 'ROOT p = f32[] parameter(0), metadata={op_name="'
    + "a" * 1_000_000 + '"' + " source_line=1" * 10_000 + "}",
    "surrogate": 'ROOT p = f32[] parameter(0), metadata={op_name="\ud800"}',
    "null byte": "ROOT p\0 = f32[] parameter(0)",
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_ends_in_one_error(name: str) -> None:
    with pytest.raises(HloTextError) as caught:
        parse_hlo(in_entry(HOSTILE[name]))
    assert len(str(caught.value)) < 1000
