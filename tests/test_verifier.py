import json

import pytest
from tests.support import CONFORMANCE, CORPUS, needs_shared, read_text

from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import (
    NO_ATTRIBUTES,
    ElementType,
    HloTextError,
    InvalidModuleError,
    Layout,
    Module,
    Opcode,
    ProgramShape,
    Schedule,
    array_shape,
)
from lowtide.ir.attributes import Dimensions, Parameter
from lowtide.ir.module import BufferDonor, InputOutputAlias
from lowtide.verifier import verify

CALLEES = """
red { a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT r = f32[] add(a, b) }
neg { a = f32[4] parameter(0)
 ROOT r = f32[4] negate(a) }
twice { a = f32[4] parameter(0)
 ROOT r = f32[8] concatenate(a, a), dimensions={0} }
cond { a = f32[4] parameter(0)
 ROOT r = pred[] constant(true) }
count { a = f32[4] parameter(0)
 ROOT r = s32[] constant(1) }
cmp { a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT r = pred[] compare(a, b), direction=LT }
"""

V = "f32[4]"

BROKEN_SIGNATURES = [
    ([V, V], "f32[7] add(p0, p1)", "add: the result must be f32[4], but is f32[7]"),
    ([V, "f32[5]"], f"{V} add(p0, p1)", "differ in size: f32[4] and f32[5]"),
    (["f32[4,1]", "f32[4,3]"], "f32[4,3] add(p0, p1)", "operand 0 is never broadcast"),
    ([V, V], "s32[4] add(p0, p1)", "must be f32[4], but is s32[4]"),
    ([V], "bf16[4] copy(p0)", "copy: the result must be f32[4], but is bf16[4]"),
    (["c64[4]"], "f32[4] convert(p0)", "take real or imag first"),
    ([V], "f32[5] convert(p0)", "must have the dimensions of the operand, f32[4]"),
    (["c64[4]", "c64[4]"], "pred[4] compare(p0, p1), direction=LT", "EQ and NE only, not LT"),
    ([V], f"{V} reduce-precision(p0), exponent_bits=0, mantissa_bits=2", "exponent_bits must be"),
    ([V], "f32[4,2] broadcast(p0), dimensions={1}", "0 of f32[4] and 1 of f32[4,2] differ in size"),
    ([V], "f32[4,4] broadcast(p0), dimensions={}", "one result dimension for each of the 1 dim"),
    (["f32[4,4]"], "f32[4,4] broadcast(p0), dimensions={0,0}", "names a dimension twice"),
    ([V], "f64[4] broadcast(p0), dimensions={0}", "must have the type of f32[4]"),
    ([V], "f32[5] bitcast(p0)", "f32[4] has 16, f32[5] 20"),
    ([V], "s16[4,3] bitcast-convert(p0)", "must have dimensions {4,2}, not s16[4,3]"),
    ([V], "f32[3] slice(p0), slice={[1:5]}", "range [1:5] is not within a dimension of f32[4]"),
    ([V], "f32[3] slice(p0), slice={[1:3]}", "must be f32[2], but is f32[3]"),
    (
        [V, "s32[]"],
        "f32[5] dynamic-slice(p0, p1), dynamic_slice_sizes={5}",
        "do not fit into f32[4]",
    ),
    ([V, "f32[]"], "f32[2] dynamic-slice(p0, p1), dynamic_slice_sizes={2}", "must hold integers"),
    ([V, "f32[5]", "s32[]"], f"{V} dynamic-update-slice(p0, p1, p2)", "f32[5] does not fit"),
    ([V], "s32[3] iota(), iota_dimension=1", "iota_dimension 1 is out of range for s32[3]"),
    ([V, "f32[]"], f"{V} reduce(p0, p1), dimensions={{0}}, to_apply=neg", "must take 2 parameters"),
    ([V], f"{V} sort(p0), dimensions={{0}}, to_apply=red", "the comparator must return pred[]"),
    ([V], f"{V} sort(p0), dimensions={{1}}, to_apply=cmp", "sorted dimension 1 is out of range"),
    ([V], f"{V} while(p0), condition=count, body=neg", "the condition must return pred[]"),
    ([V], f"{V} while(p0), condition=cond, body=twice", "the body must return f32[4], not f32[8]"),
    (["f32[5]"], "f32[5] while(p0), condition=cond, body=neg", "has parameter 0 of shape f32[4]"),
    (
        ["pred[]", V],
        f"{V} conditional(p0, p1, p1), true_computation=neg, false_computation=twice",
        "branch 1 returns f32[8], branch 0 f32[4]",
    ),
    (["f32[5]"], "f32[4] fusion(p0), kind=kLoop, calls=neg", "the fused computation has parameter"),
    ([V], "f32[5] fusion(p0), kind=kLoop, calls=neg", "must be f32[4], but is f32[5]"),
    ([V], "f32[5] call(p0), to_apply=neg", "must be f32[4], but is f32[5]"),
    (
        [V],
        'f32[5] custom-call(p0), custom_call_target="x", output_to_operand_aliasing={{}: (0, {})}',
        "output_to_operand_aliasing pairs f32[5] with f32[4]",
    ),
    ([V], f"(f32[5], {V}, u32[]) copy-start(p0)", "must be (f32[4], f32[4], u32[])"),
    ([V], "token[] after-all(p0)", "operand 0 must be a token, not f32[4]"),
    (["f32[4,6]"], "f32[4,9] all-gather(p0), dimensions={1}", "must be a multiple of that of"),
    (["f32[4,6]"], "f32[4,6] all-reduce(p0), replica_groups={{0,1},{1}}, to_apply=red", "device 1"),
    (
        [V],
        f"{V} collective-permute(p0), source_target_pairs={{{{0,1}},{{0,2}}}}",
        "a source device",
    ),
    (
        ["u64[2]"],
        "(u64[3], u32[4]) rng-bit-generator(p0), algorithm=rng_philox",
        "(u64[2], numbers)",
    ),
]


def module_text(parameters, right_side):
    lines = [f" p{i} = {shape} parameter({i})\n" for i, shape in enumerate(parameters)]
    return f"HloModule m\n{CALLEES}\nENTRY e {{\n{''.join(lines)} ROOT bad = {right_side}\n}}\n"


@pytest.mark.parametrize(("parameters", "right_side", "message"), BROKEN_SIGNATURES)
def test_an_instruction_that_breaks_a_rule_is_named_with_its_place(parameters, right_side, message):
    text = module_text(parameters, right_side)
    module = parse_hlo(text)
    with pytest.raises(InvalidModuleError) as caught:
        verify(module)
    error = caught.value
    line = 1 + text[: text.index("bad =")].count("\n")
    assert message in error.message
    assert error.instruction == "bad"
    assert error.line == line
    assert str(error).startswith(f"<text>:{line}:")


ACCEPTED = [
    ([V, V], "bf16[4] add(p0, p1)"),
    (["bf16[4]", V], f"{V} add(p0, p1)"),
    ([V], f"{V} reduce-precision(p0), exponent_bits=5, mantissa_bits=2"),
    (
        ["s8[2,3]", "s8[3,4]"],
        "s32[2,4] dot(p0, p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    ),
    (["bf16[4]", "bf16[]"], "bf16[] reduce(p0, p1), dimensions={0}, to_apply=red"),
    (["f32[<=4]"], "f32[4] negate(p0)"),
    (["f32[4,2]{0,1}"], "f32[8]{0} bitcast(p0)"),
    (["f32[4]"], "s8[4,4] bitcast-convert(p0)"),
    (["f32[4,6]"], "f32[4,12] all-gather(p0), dimensions={1}, replica_groups={{0,1}}"),
    (
        [V],
        'b(f32[4]) custom-call(p0), custom_call_target="Pin", '
        "output_to_operand_aliasing={{}: (0, {})}",
    ),
    ([V], "f32[4]{0:S(5)} copy(p0)"),
]


@pytest.mark.parametrize(("parameters", "right_side"), ACCEPTED)
def test_what_xla_allows_is_allowed(parameters, right_side):
    verify(parse_hlo(module_text(parameters, right_side)))


# -- the graph ---------------------------------------------------------------------------------

CHAIN = """HloModule m
inner { q = f32[4] parameter(0)
 ROOT s = f32[4] tanh(q) }
ENTRY e { a = f32[4] parameter(0)
 b = f32[4] negate(a)
 c = f32[4] add(a, b)
 ROOT d = f32[4] call(c), to_apply=inner }
"""


def chain():
    module = parse_hlo(CHAIN)
    return module, module.entry.instructions, module.computations["inner"]


def refused(module, *words, instruction=None):
    with pytest.raises(InvalidModuleError) as caught:
        verify(module)
    for word in words:
        assert word in str(caught.value)
    if instruction is not None:
        assert caught.value.instruction == instruction


def test_a_module_without_an_entry():
    refused(Module("m"), "no entry")


def test_a_computation_without_a_root():
    module, _, _ = chain()
    module.add_computation("empty")
    refused(module, "empty", "no root")


def test_a_root_that_was_removed():
    module, at, _ = chain()
    root = at["d"]
    module.entry.root = at["c"]
    module.entry.remove(root)
    module.entry.root = root
    refused(module, "the root d is no instruction of computation e")


@pytest.mark.parametrize("numbers", [(0, 2), (1, 2), (0, 0)])
def test_parameter_numbers_with_gaps_or_repeats(numbers):
    module = Module("m")
    module.entry = module.add_computation("e")
    shape = array_shape(ElementType.F32, (2,))
    for number in numbers:
        module.entry.add(Opcode.PARAMETER, shape, (), Parameter(number))
    module.entry.root = module.entry.parameters[0]
    refused(module, "numbered 0..1 without gaps")


def test_a_name_that_occurs_in_two_computations():
    module, _, inner = chain()
    stranger = inner.root
    del inner.instructions["s"]
    stranger.name = "b"
    inner.instructions["b"] = stranger
    refused(module, "the name is taken by an instruction of computation")


def test_an_instruction_under_another_name():
    module, at, _ = chain()
    at["b"].name = "bb"
    refused(module, "it is registered as b", instruction="bb")


def test_an_operand_of_another_computation():
    module, at, inner = chain()
    at["c"].replace_operand(1, inner.root)
    refused(module, "its user c is no instruction of computation inner", instruction="s")


def test_an_operand_that_was_removed_with_the_nearest_name():
    module, at, _ = chain()
    new = module.entry.add(Opcode.NEGATE, at["a"].shape, (at["a"],), name="bb")
    at["c"].replace_operand(1, new)
    del module.entry.instructions["bb"]
    refused(
        module, "operand bb is no instruction of computation e; did you mean 'b'?", instruction="c"
    )


def test_an_operand_that_does_not_know_its_user():
    module, at, _ = chain()
    del at["b"].users[at["c"]]
    refused(module, "operand b does not list it among its users", instruction="c")


def test_a_user_that_reads_nothing():
    module, at, _ = chain()
    at["b"].users[at["d"]] = None
    refused(module, "lists d as a user, which does not read it", instruction="b")


def test_control_dependencies_known_on_one_side_only():
    module, at, _ = chain()
    at["d"].add_control_predecessor(at["a"])
    verify(module)
    at["a"].control_successors = {}
    refused(module, "control predecessor a does not list it", instruction="d")


def test_a_cycle_through_operands():
    module, at, _ = chain()
    at["b"].replace_operand(0, at["c"])
    refused(module, "it waits for itself through 2 instructions", "->")


def test_a_cycle_through_control_dependencies():
    module, at, _ = chain()
    at["a"].add_control_predecessor(at["c"])
    refused(module, "it waits for itself")


def test_operands_created_after_their_users_are_no_cycle():
    module, at, _ = chain()
    new = module.entry.add(Opcode.NEGATE, at["a"].shape, (at["a"],))
    at["b"].replace_operand(0, new)
    verify(module)


def test_the_number_and_class_of_what_an_instruction_holds():
    module, at, _ = chain()
    at["b"].set_attributes(Dimensions((0,)))
    refused(module, "the attributes must be Attributes, not Dimensions", instruction="b")
    module, at, _ = chain()
    at["b"].set_operands((at["a"], at["a"]))
    refused(module, "negate takes 1 operands, not 2", instruction="b")
    module, at, _ = chain()
    at["d"].set_called_computations(())
    refused(module, "call calls 1 computations, not 0", instruction="d")


def test_a_layout_that_is_no_permutation():
    module, at, _ = chain()
    at["b"].set_shape(at["b"].shape.with_layout(Layout((1,))))
    refused(module, "must be a permutation of 0..0", instruction="b")


def test_a_callee_that_is_not_in_the_module():
    module, _, inner = chain()
    module.remove_computation(inner)
    module.add_computation("inner2").root = module.entry.root
    other = module.computations["inner2"]
    other.root = other.add(Opcode.PARAMETER, array_shape(ElementType.F32), (), Parameter(0))
    refused(
        module, "inner is no computation of the module; did you mean 'inner2'?", instruction="d"
    )


def test_computations_that_call_each_other():
    module, _, inner = chain()
    other = module.add_computation("other")
    parameter = other.add(Opcode.PARAMETER, inner.root.shape, (), Parameter(0))
    call = module.entry.root
    other.root = other.add(Opcode.CALL, parameter.shape, (parameter,), call.attributes, (inner,))
    inner.root = inner.add(
        Opcode.CALL, parameter.shape, (inner.parameters[0],), call.attributes, (other,)
    )
    refused(module, "the call graph has a cycle among: inner, other")


def test_a_call_of_the_entry():
    module, at, _ = chain()
    at["d"].set_called_computations((module.entry,))
    refused(module, "calls the entry computation e", instruction="d")


def test_a_fused_body_that_runs_as_control_flow_as_well():
    text = CHAIN.replace("add(a, b)", "fusion(b), kind=kLoop, calls=inner")
    refused(parse_hlo(text), "inner is also called by d (call)", instruction="c")


def test_the_later_half_of_an_asynchronous_operation():
    text = """ENTRY e { p = (f32[4], f32[4], u32[]) parameter(0)
 ROOT r = f32[4] copy-done(p) }"""
    refused(parse_hlo(text), "the operand must be copy-start, not parameter", instruction="r")


# -- the module --------------------------------------------------------------------------------


def test_schedules():
    module, at, inner = chain()
    order = tuple([at[name] for name in "abcd"])
    inner_order = tuple(inner.instructions.values())
    module.schedule = Schedule({module.entry: order, inner: inner_order})
    verify(module)
    module.schedule = Schedule({module.entry: order})
    refused(module, "inner runs as control flow, but has no schedule")
    for wrong, message in (
        ((at["b"], at["a"], at["c"], at["d"]), "scheduled before a, which it waits for"),
        (order[:-1], "the schedule of e leaves it out"),
        ((*order, at["d"]), "scheduled twice"),
        ((*order, inner.root), "has s, which is not in it"),
    ):
        module.schedule = Schedule({module.entry: wrong, inner: inner_order})
        refused(module, message)
    at["b"].add_control_predecessor(at["a"])
    at["c"].add_control_predecessor(at["b"])
    module.schedule = Schedule({module.entry: order, inner: inner_order})
    verify(module)


def test_the_entry_layout():
    module, _, _ = chain()
    shape = array_shape(ElementType.F32, (4,))
    wide = array_shape(ElementType.F32, (5,))
    module.entry_layout = ProgramShape((), shape)
    refused(module, "the number of parameters is 0, that of the entry 1")
    module.entry_layout = ProgramShape((wide,), shape)
    refused(module, "declares parameter 0 as f32[5]{0}, it is f32[4]{0}")
    module.entry_layout = ProgramShape((shape,), wide)
    refused(module, "declares the result as f32[5]{0}, it is f32[4]{0}")


TUPLES = """HloModule m
ENTRY e { p = (f32[4], s32[2]) parameter(0)
 q = f32[4] parameter(1)
 x = f32[4] get-tuple-element(p), index=0
 ROOT r = (f32[4], f32[4]) tuple(x, q) }
"""


@pytest.mark.parametrize(
    ("aliases", "message"),
    [
        ([((2,), 0, (0,))], "the result (f32[4]{0}, f32[4]{0}) has no index [2]"),
        ([((0,), 2, ())], "there is no parameter 2; the entry has 2"),
        ([((0,), 0, (2,))], "has no index [2]"),
        ([((0,), 0, (1,))], "must be arrays of equal size, not f32[4]{0} and s32[2]{0}"),
        ([((), 0, ())], "must be arrays of equal size"),
        ([((0,), 0, (0,)), ((0,), 1, ())], "the output is aliased twice"),
        ([((0,), 1, ()), ((1,), 1, ())], "the parameter is aliased twice"),
        ([((0,), 0, (0,)), ((1,), 1, ())], None),
    ],
)
def test_input_output_aliases(aliases, message):
    module = parse_hlo(TUPLES)
    module.input_output_aliases = tuple([InputOutputAlias(*alias) for alias in aliases])
    if message is None:
        verify(module)
    else:
        refused(module, "input_output_alias", message)


def test_buffer_donors():
    module = parse_hlo(TUPLES)
    module.buffer_donors = (BufferDonor(0, (1,)),)
    verify(module)
    module.buffer_donors = (BufferDonor(0, (2,)),)
    refused(module, "buffer_donor: parameter 0", "has no index [2]")
    module.buffer_donors = (BufferDonor(1, ()),)
    module.input_output_aliases = (InputOutputAlias((0,), 1, ()),)
    refused(module, "buffer_donor: parameter 1 is aliased as well")


# -- size and real input -----------------------------------------------------------------------


def test_chains_are_walked_without_recursion():
    length = 20_000
    shape = array_shape(ElementType.F32, (8,))
    module = Module("m")
    module.entry = module.add_computation("e")
    last = first = module.entry.add(Opcode.PARAMETER, shape, (), Parameter(0))
    for _ in range(length):
        last = module.entry.add(Opcode.NEGATE, shape, (last,), NO_ATTRIBUTES)
    module.entry.root = last
    last.add_control_predecessor(first)
    verify(module)


@needs_shared
def test_every_real_module_is_valid():
    for path in sorted(CORPUS.iterdir()):
        verify(parse_hlo(read_text(path)))


@needs_shared
def test_nearly_all_texts_that_xla_parses_are_valid():
    """The others are examples of programs that XLA's verifier refuses."""
    lines = read_text(CONFORMANCE / "hlo_text.jsonl.xz").splitlines()
    rows = [json.loads(line) for line in lines[::20]]
    accepted = [row["text"] for row in rows if row["accepted"]]
    refused_texts = []
    for text in accepted:
        try:
            verify(parse_hlo(text))
        except HloTextError:
            continue
        except InvalidModuleError as error:
            refused_texts.append(str(error))
    assert len(refused_texts) <= len(accepted) // 50, refused_texts
