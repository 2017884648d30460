"""Forms of HLO text that are rare, and what XLA's parser makes of them."""

import pytest

from lowtide.frontend.hlo_proto import read_hlo_proto, write_hlo_module_with_config
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import HloTextError
from lowtide.ir.attributes import Async, Infeed
from lowtide.ir.clone import clone_module
from lowtide.ir.printer import COMPLETE, to_text

CALLEE = "f {\n  a = s32[2] parameter(0)\n  ROOT b = s32[2] negate(a)\n}\n"


def entry(*lines: str, header: str = "HloModule m\n", before: str = "") -> str:
    return f"{header}{before}ENTRY e {{\n" + "\n".join(lines) + "\n}\n"


def line_of(text: str, name: str) -> str:
    """Return the printed line of an instruction; the module survives text and protobuf."""
    module = parse_hlo(text)
    printed = to_text(module, COMPLETE)
    assert to_text(parse_hlo(printed), COMPLETE) == printed
    assert to_text(read_hlo_proto(write_hlo_module_with_config(module)), COMPLETE) == printed
    (line,) = [x.strip() for x in printed.splitlines() if f"%{name} = " in x]
    return line.removeprefix("ROOT ")


ADD = "add {\n  x = s32[] parameter(0)\n  y = s32[] parameter(1)\n  ROOT s = s32[] add(x, y)\n}\n"


def test_the_sum_across_replicas_of_old_texts_is_an_all_reduce() -> None:
    line = "ROOT r = s32[2] cross-replica-sum(p), replica_groups={{0,1}}, to_apply=add"
    text = entry("p = s32[2] parameter(0)", line, before=ADD)
    assert line_of(text, "r") == (
        "%r = s32[2]{0} all-reduce(%p), replica_groups={{0,1}}, to_apply=%add"
    )
    with pytest.raises(HloTextError, match="all-reduce needs the computations to_apply"):
        parse_hlo(text.replace(", to_apply=add", ""))


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("s4[2]{0:E(4)}", "s4[2]{0}"),
        ("f32[2]{0:T(8)L(16)E(4)S(1)}", "f32[2]{0:T(8)L(16)S(1)}"),
        ("f32[2]{0:M(16)}", "f32[2]{0:M(16)}"),
        ("f32[]{:L(32)}", "f32[]"),
        ("f32[]{:M(16)}", "f32[]"),
        ("f32[]{:L(32)S(1)}", "f32[]{:L(32)S(1)}"),
        ("f32[]{:T(256)M(16)}", "f32[]{:T(256)M(16)}"),
    ],
)
def test_a_constant_has_the_layout_that_literals_keep(written: str, kept: str) -> None:
    value = "{1,2}" if "[2]" in written else "1"
    line = line_of(entry(f"ROOT c = {written} constant({value})"), "c")
    assert line.startswith(f"%c = {kept} constant")


def test_a_complex_number_whose_real_part_is_nan_is_all_nan() -> None:
    line = line_of(entry("ROOT c = c64[3] constant({(nan,1), (-nan,1), (inf,nan)})"), "c")
    assert line.endswith("constant({(nan, nan), (-nan, -nan), (inf, nan)})")


@pytest.mark.parametrize("data", [b"\xff", b"\xc3\xa4", b"plain", b"a\nb"])
def test_configurations_are_bytes(data: bytes) -> None:
    written = "".join([f"\\{byte:03o}" for byte in data])
    text = entry(
        "t = token[] after-all()",
        f'ROOT i = (s32[], token[]) infeed(t), infeed_config="{written}", '
        f'metadata={{op_name="i" metadata_payload="{written}"}}',
    )
    root = parse_hlo(text).entry.root
    assert root.attributes_as(Infeed).config == root.metadata.payload == data
    line_of(text, "i")


@pytest.mark.parametrize(
    "padding", ['"x"', '"0_1x"', '"a_b"', '"1"', '"1_2_-3"', f'"0_{"9" * 20}"']
)
def test_bad_padding_is_an_error_in_its_place(padding: str) -> None:
    with pytest.raises(HloTextError) as raised:
        parse_hlo(
            entry(
                "p = s32[2] parameter(0)",
                "z = s32[] constant(0)",
                f"ROOT q = s32[3] pad(p, z), padding={padding}",
            )
        )
    assert raised.value.line == 5


def test_a_comparison_without_operands_is_an_error() -> None:
    with pytest.raises(HloTextError, match="compare"):
        parse_hlo(entry("ROOT g = pred[] compare(), direction=LT"))


def test_replication_has_an_entry_for_each_array() -> None:
    good = "ROOT p = (s32[], s32[]) parameter(0), parameter_replication={true,false}"
    line_of(entry(good), "p")
    with pytest.raises(HloTextError, match="2 entries, the shape 1"):
        parse_hlo(entry("ROOT p = s32[] parameter(0), parameter_replication={true,false}"))


def test_sharding_of_a_line_fits_its_own_shape() -> None:
    call = 'custom-call(), custom_call_target="f", sharding={replicated}'
    lines = [f"a{i} = {shape} {call}" for i, shape in enumerate(("(s32[], s32[])", "s32[]") * 3)]
    printed = str(parse_hlo(entry(*lines))).splitlines()
    found = [x.partition("sharding=")[2] for x in printed if "sharding=" in x]
    assert found == ["{{replicated}, {replicated}}", "{replicated}"] * 3


def test_an_element_has_the_origin_of_what_was_put_into_the_tuple() -> None:
    lines = [
        'a = s32[2] parameter(0), origin={{"x"}}',
        "b = s32[2] parameter(1)",
        "t = (s32[2], s32[2]) tuple(a, b)",
        "g = s32[2] get-tuple-element(t), index=0",
        "h = s32[2] get-tuple-element(t), index=1",
        "k = s32[2] get-tuple-element(t), index=0",
        "ROOT r = (s32[2], s32[2], s32[2]) tuple(g, h, k)",
    ]
    text = entry(*lines)
    assert line_of(text, "g").endswith('index=0, origin={{"x"}}')
    assert line_of(text, "h").endswith("index=1")
    assert line_of(text, "k").endswith('index=0, origin={{"x"}}')


@pytest.mark.parametrize(
    ("written", "printed"),
    [("ä", "ä"), ("\\303\\244", "ä"), ("a'b", "a'b"), ('a\\"b', 'a\\"b'), ("\\033[2J", "\\033[2J")],
)
def test_names_for_people_are_printed_as_they_are(written: str, printed: str) -> None:
    line = line_of(
        entry(
            f'ROOT p = s32[] parameter(0), origin={{{{"{written}"}}}}, '
            f'metadata={{scheduling_name="{written}"}}'
        ),
        "p",
    )
    assert f'origin={{{{"{printed}"}}}}' in line
    assert f'scheduling_name="{printed}"' in line


@pytest.mark.parametrize(
    "header",
    ["replica_count=2", "num_partitions=2", "alias_passthrough_params=true",
     "allow_spmd_sharding_propagation_to_output={false}"],
)  # fmt: skip
def test_layouts_of_callers_are_row_major_where_the_header_configures(header: str) -> None:
    text = entry(
        "p = s32[2,3]{0,1} parameter(0)",
        "ROOT n = s32[2,3]{0,1:T(8)S(5)} negate(p)",
        header=f"HloModule m, {header}\n",
    )
    layouts = "{(s32[2,3]{1,0})->s32[2,3]{1,0:T(8)S(5)}}"
    assert f"entry_computation_layout={layouts}" in str(parse_hlo(text))
    plain = text.replace(header, "replica_count=1")
    layouts = "{(s32[2,3]{0,1})->s32[2,3]{0,1:T(8)S(5)}}"
    assert f"entry_computation_layout={layouts}" in str(parse_hlo(plain))


# -- order and names of computations ---------------------------------------------------------------

SCALARS = "{name} {{\n  p = s32[] parameter(0)\n  ROOT {name}.r = s32[] negate(p)\n}}\n"


def order_of(text: str) -> list[str]:
    """Return the names of computations, as they stand in the print; which is read as it is."""
    printed = str(parse_hlo(text))
    assert str(parse_hlo(printed)) == printed
    assert str(clone_module(parse_hlo(text))) == printed
    heads = [x.removeprefix("ENTRY ") for x in printed.splitlines() if x.endswith("{")]
    return [x.split()[0].lstrip("%") for x in heads]


def test_computations_stand_as_their_callers_were_created() -> None:
    before = "".join([SCALARS.format(name=x) for x in "abc"])
    lines = (
        "x = s32[] parameter(0)", "late = s32[] call(x), to_apply=b",
        "early = s32[] call(x), to_apply=a", "ROOT t = (s32[], s32[]) tuple(early, late)",
    )  # fmt: skip
    assert order_of(entry(*lines, before=before)) == ["c", "b", "a", "e"]


def test_what_one_instruction_calls_twice_stands_where_it_is_called_last() -> None:
    before = "".join([SCALARS.format(name=x) for x in "ab"])
    branches = "i = s32[] conditional(x, x, x, x), branch_computations={a, b, a}"
    assert order_of(entry("x = s32[] parameter(0)", branches, before=before)) == ["b", "a", "e"]


def test_other_names_do_not_move_beside_sugar() -> None:
    text = entry(
        "negate.1 = s32[2] parameter(1)",
        "ROOT main = s32[2] parameter(0)",
        f"s = {START} negate-start(main)",
        "d = s32[2] negate-done(s)",
    )
    assert line_of(text, "negate.1") == "%negate.1 = s32[2]{0} parameter(1)"


def test_a_module_without_a_header_is_named_after_its_entry_as_printed() -> None:
    text = "ENTRY add.007 {\n  ROOT p = s32[] parameter(0)\n}\n"
    assert parse_hlo(text).name == "module_add.7"


@pytest.mark.parametrize("other", ["call(p), to_apply=f", "fusion(p), kind=kLoop, calls=f"])
def test_what_is_called_elsewhere_too_is_no_sugar(other: str) -> None:
    text = entry(
        "p = s32[2] parameter(0)",
        f"o = s32[2] {other}",
        f"s = {START} async-start(p), calls=f",
        "d = s32[2] async-done(s)",
        "ROOT t = (s32[2], s32[2]) tuple(o, d)",
        before=CALLEE,
    )
    assert "calls=%f" in line_of(text, "s")


@pytest.mark.parametrize("said", ["", ', async_execution_thread="w"'])
def test_a_start_says_the_thread_of_all_that_is_called(said: str) -> None:
    outer = (
        "g {\n  c = s32[2] parameter(0)\n  x = s32[2] negate(c)\n"
        '  ROOT d = s32[2] call(x), to_apply=f\n}, execution_thread="host"\n'
    )
    text = entry(
        "p = s32[2] parameter(0)",
        f"s = {START} async-start(p), calls=g{said}",
        "ROOT d = s32[2] async-done(s)",
        before=CALLEE.rstrip() + ', execution_thread="host"\n' + outer,
    )
    module = parse_hlo(text)
    wanted = "w" if said else "main"
    assert {module.computations[x].execution_thread for x in "fg"} == {wanted}


def test_an_instruction_by_itself_has_row_major_arguments_and_results() -> None:
    text = "p = s16[2,3]{0,1:T(8)} parameter(0)"
    layouts = "{(s16[2,3]{1,0:T(8)})->s16[2,3]{1,0:T(8)}}"
    assert f"entry_computation_layout={layouts}" in str(parse_hlo(text))


# -- values ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "printed"),
    [
        ("f32[] constant(-.5)", "-0.5"),
        ("f32[] constant(-.5e1)", "-5"),
        ("s8[] constant(18446744073709551615)", "-1"),
        ("s32[2] constant({1, 18446744073709551614})", "{1, -2}"),
        ("u64[] constant(-1)", "18446744073709551615"),
        ("c64[] constant((1, nan(0x400000)))", "(1, nan)"),
        ("c64[1] constant({(-nan(0x400000), -.5)})", "{(-nan, -nan)}"),
        ("c128[] constant((nan(0x400000), 2))", "(nan(0x400000), nan(0x400000))"),
    ],
)
def test_numbers_as_xla_reads_them(written: str, printed: str) -> None:
    assert line_of(entry(f"ROOT c = {written}"), "c").endswith(f"constant({printed})")


@pytest.mark.parametrize(
    "written",
    ["f32[] constant(.5)", "s8[] constant(255)", "u8[] constant(18446744073709551615)",
     "s64[] constant(18446744073709551616)", "c64[] constant((.5, 1))"],
)  # fmt: skip
def test_numbers_that_xla_does_not_read(written: str) -> None:
    with pytest.raises(HloTextError) as raised:
        parse_hlo(entry(f"ROOT c = {written}"))
    assert raised.value.line == 3


@pytest.mark.parametrize("written", ['{{"x"}}', '{{"" {0}}}', '{{""}}', '{({""}, {"y"})}'])
def test_an_origin_without_a_name_is_none(written: str) -> None:
    line = line_of(entry(f"ROOT p = (s32[], s32[]) parameter(0), origin={written}"), "p")
    named = written.replace('{"" {0}}', "{}").replace('{""}', "{}")
    assert f"origin={named}" in line


def test_statistics_may_point_nowhere() -> None:
    line = line_of(entry("ROOT p = s32[] parameter(0), statistics={visualizing_index=-1,a=1}"), "p")
    assert "visualizing_index=-1" in line


# -- asynchronous forms ----------------------------------------------------------------------------

START = "((s32[2]), s32[2], u32[])"


@pytest.mark.parametrize(
    "start",
    [
        "negate-start(p)",
        "call-start(p), to_apply=%f",
        'custom-call-start(p), custom_call_target="g"',
        "fusion-start(p), kind=kLoop, calls=%f",
        "copy-done-start(p)",
    ],
)
def test_aliasing_of_a_start_is_kept(start: str) -> None:
    aliasing = "output_to_operand_aliasing={{}: (0, {})}"
    done = start.partition("(")[0].replace("-start", "-done")
    text = entry(
        "p = s32[2] parameter(0)", f"s = {START} {start}, {aliasing}",
        f"ROOT d = s32[2] {done}(s)", before=CALLEE,
    )  # fmt: skip
    assert aliasing in line_of(text, "s")


def test_what_a_start_wraps_runs_on_its_thread_inner_starts_too() -> None:
    inner = (
        f"g {{\n  a = s32[2] parameter(0)\n  s = {START} negate-start(a)\n"
        "  ROOT d = s32[2] negate-done(s)\n}\n"
    )
    text = entry(
        "p = s32[2] parameter(0)",
        f'o = {START} call-start(p), to_apply=g, async_execution_thread="w"',
        "ROOT d = s32[2] call-done(o)",
        before=inner,
    )
    assert 'async_execution_thread="w"' in line_of(text, "s")
    module = parse_hlo(text)
    asynchronous = [
        x.attributes.execution_thread
        for computation in module.computations.values()
        for x in computation.instructions.values()
        if isinstance(x.attributes, Async)
    ]
    assert asynchronous == ["w"] * 4


def test_sharding_of_what_is_wrapped_is_not_lost_in_sugar() -> None:
    callee = "f {\n  a = s32[2] parameter(0)\n  ROOT b = s32[2] negate(a), sharding={manual}\n}\n"
    text = entry(
        "p = s32[2] parameter(0)",
        f"s = {START} async-start(p), calls=f",
        "ROOT d = s32[2] async-done(s)",
        before=callee,
    )
    assert line_of(text, "s").endswith("async-start(%p), calls=%f")
    assert "sharding={manual}" in line_of(text, "b")


def test_no_name_changes_when_printed_text_is_read() -> None:
    other = "g {\n  a = s32[2] parameter(0)\n  ROOT negate = s32[2] negate(a)\n}\n"
    inner = (
        f"h {{\n  a = s32[2] parameter(0)\n  s = {START} negate-start(a)\n"
        "  ROOT d = s32[2] negate-done(s)\n}\n"
    )
    text = entry(
        "p = s32[2] parameter(0)",
        "x = s32[2] call(p), to_apply=h",
        "ROOT y = s32[2] call(x), to_apply=g",
        before=other + inner,
    )
    line_of(text, "y")


@pytest.mark.parametrize("levels", ["", "D(D,C)"])
def test_no_layout_has_a_physical_shape(levels: str) -> None:
    layout = f"{{1,0:{levels}P((s32[4]{{0}},s32[2]{{0}}))}}"
    with pytest.raises(HloTextError, match="a physical shape belongs to sparse layouts only"):
        parse_hlo(entry(f"ROOT p = f32[4,8]{layout} parameter(0)"))
