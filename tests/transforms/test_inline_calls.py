"""Which calls are written out, and what comes along."""

import lowtide
from lowtide.ir import Module, Opcode
from lowtide.ir.clone import clone_module
from lowtide.ir.metadata import SourceLocation
from lowtide.passes.registry import parse_passes
from lowtide.testing.check_pass import assert_same_values
from lowtide.verifier import verify


def layer(name: str, count: int, opcode: str = "sine") -> str:
    """A computation of some instructions one after the other."""
    lines = [f"y{i + 1} = f32[4] {opcode}(y{i})" for i in range(count - 1)]
    return "\n".join(
        [
            f"{name} {{",
            "y0 = f32[4] parameter(0)",
            *lines,
            f"ROOT r = f32[4] {opcode}(y{count - 1})",
            "}",
        ]
    )


def calls(outside: str, *names: str) -> str:
    """Calls one after the other."""
    lines = ["x0 = f32[4] parameter(0)"]
    lines += [f"x{i + 1} = f32[4] call(x{i}), to_apply={name}" for i, name in enumerate(names)]
    lines[-1] = f"ROOT {lines[-1]}"
    return "\n".join(["HloModule m", outside, "ENTRY main {", *lines, "}"])


def inlined(text: str, options: str = "") -> Module:
    module = lowtide.parse_hlo(text)
    verify(module)
    original = clone_module(module)
    (step,) = parse_passes(f"inline{options}")
    step.run(module)
    verify(module)
    assert step.run(module) == 0
    assert_same_values(original, module)
    return module


def count(module: Module, opcode: Opcode) -> int:
    return sum(
        [x.opcode is opcode for c in module.computations.values() for x in c.instructions.values()]
    )


def test_what_is_called_once_is_inlined_however_large() -> None:
    module = inlined(calls(layer("f", 500), "f"), "{small=1,light=1}")
    assert list(module.computations) == ["main"]
    assert len(module.entry.instructions) == 501


def test_a_layer_stays_called_and_small_ones_do_not() -> None:
    sort = (
        layer("f", 40)
        .replace("sine(y3)", "copy(d)")
        .replace(
            "y4 =",
            "d = f32[4] dot(y3, m), lhs_contracting_dims={0}, rhs_contracting_dims={0}\ny4 =",
        )
        .replace("y1 =", "m = f32[4,4] broadcast(y0), dimensions={0}\ny1 =")
    )
    module = inlined(calls(f"{sort}\n{layer('g', 3)}", "f", "g", "f", "g", "f"))
    assert count(module, Opcode.CALL) == 3
    assert len(module.computations) == 2


def test_light_computations_fuse_with_their_surroundings() -> None:
    names = ["f", "g"] * 2
    text = calls(f"{layer('f', 40)}\n{layer('g', 40)}\n{layer('h', 200)}", *names, "h")
    assert count(inlined(text), Opcode.CALL) == 0
    assert count(inlined(text, "{light=10}"), Opcode.CALL) == 4


def test_nested_calls_are_inlined_from_within() -> None:
    outer = (
        "g {\nq = f32[4] parameter(0)\na = f32[4] call(q), to_apply=f\n"
        "ROOT b = f32[4] call(a), to_apply=f\n}"
    )
    module = inlined(calls(f"{layer('f', 2)}\n{outer}", "g"))
    assert list(module.computations) == ["main"]
    assert len(module.entry.instructions) == 5


def test_a_budget_bounds_growth_and_settles() -> None:
    module = inlined(calls(layer("f", 30), *["f"] * 20), "{growth=2.0}")
    assert module.instruction_count <= 2 * (20 + 1 + 31)
    assert 'frontend_attributes={inlineable="false"}' in str(module)
    assert count(module, Opcode.CALL) > 10


def test_who_says_so_keeps_a_call() -> None:
    text = calls(layer("f", 2), "f").replace(
        "to_apply=f", 'to_apply=f, frontend_attributes={inlineable="false"}'
    )
    assert count(inlined(text), Opcode.CALL) == 1


def test_control_edges_and_side_effects() -> None:
    edge = (
        calls(layer("f", 2), "f")
        .replace("ROOT x1 =", "early = f32[4] cosine(x0)\nROOT x1 =")
        .replace("to_apply=f", "to_apply=f, control-predecessors={early}")
    )
    assert count(inlined(edge), Opcode.CALL) == 1
    inner = (
        layer("f", 3)
        .replace("y2 =", "e = f32[4] cosine(y0)\ny2 =")
        .replace("sine(y1)", "sine(y1), control-predecessors={e}")
    )
    module = inlined(calls(inner, "f"))
    assert count(module, Opcode.CALL) == 0
    assert "control-predecessors" in str(module)


def test_sources_and_shardings_come_along() -> None:
    body = (
        'f {\np = f32[4] parameter(0)\na = f32[4] sine(p), metadata={op_name="in"}\n'
        "ROOT b = f32[4] negate(a)\n}"
    )
    text = calls(body, "f").replace(
        "to_apply=f", 'to_apply=f, sharding={replicated}, metadata={op_name="call"}'
    )
    module = inlined(text)
    sine, negate = list(module.entry.instructions.values())[1:]
    assert sine.metadata.op_name == "call/in"
    assert negate.metadata.op_name == "call"
    assert str(negate.annotations.sharding) == "{replicated}"


def test_what_has_no_source_line_gets_that_of_the_call() -> None:
    own = 'metadata={op_name="jit(f)/own" source_file="own.py" source_line=3}'
    body = (
        'f {\np = f32[4] parameter(0)\na = f32[4] sine(p), metadata={op_name="max"}\n'
        f"ROOT b = f32[4] negate(a), {own}\n}}"
    )
    text = calls(body, "f").replace(
        "to_apply=f",
        'to_apply=f, metadata={op_name="jit(f)/relu" source_file="call.py" source_line=7}',
    )
    found = [
        (x.metadata.op_name, x.source)
        for x in inlined(text).entry.instructions.values()
        if x.opcode is not Opcode.PARAMETER
    ]
    assert found == [
        ("jit(f)/relu/max", SourceLocation("call.py", 7)),
        ("jit(f)/own", SourceLocation("own.py", 3)),
    ]


def test_copies_of_fusions_have_bodies_of_their_own() -> None:
    fused = (
        "fused {\nq = f32[4] parameter(0)\nROOT s = f32[4] sine(q)\n}\n"
        "f {\np = f32[4] parameter(0)\nROOT a = f32[4] fusion(p), kind=kLoop, calls=fused\n}"
    )
    module = inlined(calls(fused, "f", "f", "f"))
    bodies = [
        x.called_computations[0]
        for x in module.entry.instructions.values()
        if x.called_computations
    ]
    assert len(set(bodies)) == 3


def test_an_argument_of_another_layout_is_taken_where_that_does_not_matter() -> None:
    body = "f {\np = f32[2,3]{1,0} parameter(0)\nROOT a = f32[2,3]{1,0} sine(p)\n}"
    text = (
        f"HloModule m\n{body}\nENTRY main {{\nx = f32[3,2]{{1,0}} parameter(0)\n"
        "t = f32[2,3]{0,1} transpose(x), dimensions={1,0}\n"
        "ROOT y = f32[2,3]{1,0} call(t), to_apply=f\n}"
    )
    assert count(inlined(text), Opcode.CALL) == 0
    stays = text.replace("sine(p)", "bitcast(p)")
    module = lowtide.parse_hlo(stays)
    assert not any(step.run(module) for step in parse_passes("inline"))


def test_what_a_call_returns_keeps_its_layout() -> None:
    """A callee that returns its parameter hands on the layout of that, not of the argument."""
    text = """
HloModule m
same {
  ROOT p = f32[2,3]{1,0} parameter(0)
}
ENTRY main {
  x = f32[2,3]{0,1} parameter(0)
  ROOT c = f32[2,3]{1,0} call(x), to_apply=same
}
"""
    module = lowtide.parse_hlo(text)
    before = module.entry.root.shape
    (step,) = parse_passes("inline")
    step.run(module)
    verify(module)
    assert module.entry.root.shape is before
