"""What becomes one kernel, what does not, and that it computes the same."""

import re
from typing import Any

import pytest
from tests.counting import counted
from tests.fusion.kernel_list import kernel_list
from tests.fusion.priority_cases import CASES
from tests.transforms.simplify.cases.notation import body, outside

from lowtide.frontend.hlo_text import parse_hlo
from lowtide.fusion import priority_queue
from lowtide.fusion.priority_fusion import fuse_by_priority
from lowtide.fusion.target_record import CPU_TARGET
from lowtide.ir import Instruction, Module, Opcode
from lowtide.ir.clone import clone_module
from lowtide.ops.in_place import in_place_pairs
from lowtide.testing.check_pass import assert_same_values
from lowtide.testing.check_rule import module_of
from lowtide.verifier import verify


def of_body(text: str) -> Module:
    return module_of(body(text), outside(text))


def fused(module: Module) -> Module:
    """Fuse a module; check that it computes the same, and that this settles."""
    original = clone_module(module)
    fuse_by_priority(module)
    verify(module)
    assert_same_values(original, module, seeds=1)
    assert fuse_by_priority(module) == 0
    return module


def fusions(module: Module) -> list[Instruction]:
    return [x for x in module.entry.instructions.values() if x.opcode is Opcode.FUSION]


@pytest.mark.parametrize(("name", "before", "kernels"), CASES, ids=[case[0] for case in CASES])
def test_kernels(name: str, before: str, kernels: str) -> None:
    assert kernel_list(fused(of_body(before))) == kernels


def test_what_was_put_into_the_queue_last_is_not_worked_out_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []
    for name in ("candidate", "_merge"):
        method = getattr(priority_queue._Queue, name)

        def noted(self: object, what: object, name: str = name, method: Any = method) -> Any:
            asked.append(name)
            return method(self, what)

        monkeypatch.setattr(priority_queue._Queue, name, noted)
    fuse_by_priority(of_body("x: f32[64]; y: f32[64]; s = f32[64] sine(x); a = f32[64] add(s, y)"))
    assert asked.count("_merge") == 1
    assert asked.index("_merge") == 2, "each of two kernels is looked at once"


IN_CONTROL_FLOW = """HloModule m
double { a = f32[64] parameter(0)  n = f32[64] negate(a)  e = f32[64] exponential(n)
  ROOT d = f32[64] add(e, a) }
same { ROOT a = f32[64] parameter(0) }
body {
  s = (s32[], f32[64]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[64] get-tuple-element(s), index=1
  one = s32[] constant(1)
  next = s32[] add(i, one)
  p = pred[] compare(i, one), direction=EQ
  y = f32[64] conditional(p, x, x), true_computation=double, false_computation=same
  c = f32[64] cosine(y)
  q = f32[64] multiply(c, y)
  ROOT t = (s32[], f32[64]) tuple(next, q)
}
condition {
  s = (s32[], f32[64]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT p = pred[] compare(i, n), direction=LT
}
ENTRY main {
  x = f32[64] parameter(0)
  z = s32[] constant(0)
  a = f32[64] abs(x)
  s = f32[64] sine(a)
  t = (s32[], f32[64]) tuple(z, s)
  w = (s32[], f32[64]) while(t), condition=condition, body=body
  r = f32[64] get-tuple-element(w), index=1
  v = f32[64] negate(r)
  ROOT u = f32[64] tanh(v)
}"""


def test_bodies_of_loops_and_branches_are_fused() -> None:
    assert kernel_list(fused(parse_hlo(IN_CONTROL_FLOW))) == (
        "loop(a): n e d | next | p | y | loop(y): c q | p | loop(x): a s | w | loop(r): v u"
    )


@pytest.mark.parametrize("name", ["dynamic-update-slice", "scatter"])
def test_updates_stay_in_place(name: str) -> None:
    (before,) = [x[1] for x in CASES if "with what is written" in x[0] and f"{name}(" in x[1]]
    (fusion,) = fusions(fused(of_body(before)))
    (((operand, index), output),) = in_place_pairs(fusion)
    assert (fusion.operands[operand].name, index, output) == ("x", (), ())


def test_no_more_inputs_than_streams() -> None:
    count = 2 * CPU_TARGET.most_arrays
    lines = [f"x{i}: f32[8]" for i in range(count)] + ["y0 = f32[8] negate(x0)"]
    lines += [f"y{i} = f32[8] add(y{i - 1}, x{i})" for i in range(1, count)]
    made = fusions(fused(of_body("; ".join(lines))))
    assert len(made) > 1
    assert max(len(x.operands) for x in made) <= CPU_TARGET.most_arrays


def test_no_more_members_than_registers() -> None:
    count = 3 * CPU_TARGET.most_members
    lines = ["y0: f32[8]"] + [f"y{i + 1} = f32[8] negate(y{i})" for i in range(count)]
    module = fused(of_body("; ".join(lines)))
    sizes = [len(x.called_computations[0].instructions) for x in fusions(module)]
    assert len(sizes) < 8
    assert max(sizes) <= CPU_TARGET.most_members + 1


@pytest.mark.parametrize(
    ("distance", "kernels"), [(2, "loop(x, y): c w s"), (40, "c | loop(c, y): w s")]
)
def test_a_far_reader_does_not_keep_a_large_value_alive(distance: int, kernels: str) -> None:
    lines = ["p: f32[65536]", "y0: f32[65536]", "x = f32[65536] opt-barrier(p)"]
    lines.append("c = bf16[65536] convert(x)")
    lines += [f"y{i + 1} = f32[65536] opt-barrier(y{i})" for i in range(distance)]
    lines += ["w = f32[65536] convert(c)", f"s = f32[65536] add(w, y{distance})"]
    found = kernel_list(fused(of_body("; ".join(lines))))
    assert re.sub(r"y\d+", "y", found) == kernels


def test_a_fusion_has_the_source_line_of_its_result_or_of_the_last_member_with_one() -> None:
    text = """
HloModule m

ENTRY main {
  x = f32[64,64] parameter(0)
  s = f32[64,64] sine(x), metadata={op_name="s" source_file="a.py" source_line=1}
  t = f32[64,64] tanh(s), metadata={op_name="t" source_file="a.py" source_line=2}
  ROOT u = f32[64,64] negate(t), metadata={op_name="u"}
}
"""
    for last, line in (("", 2), (' source_file="b.py" source_line=3', 3)):
        module = fused(parse_hlo(text.replace('op_name="u"', f'op_name="u"{last}')))
        (fusion,) = fusions(module)
        assert fusion.source is not None
        assert fusion.source.line == line


@pytest.mark.slow
def test_time_is_linear_in_the_operands_of_a_tuple() -> None:
    lines_of = []
    for count in (1_000, 8_000):
        lines = [f"a{i} = f32[8] exponential(x{i}); b{i} = f32[8] sine(a{i})" for i in range(count)]
        shapes = ", ".join(["f32[8]"] * count)
        names = ", ".join([f"b{i}" for i in range(count)])
        arguments = [f"x{i}: f32[8]" for i in range(count)]
        module = of_body("; ".join([*arguments, *lines, f"t = ({shapes}) tuple({names})"]))
        found, work = counted(lambda module=module: fuse_by_priority(module))
        assert found == count
        lines_of.append(work)
    assert lines_of[1] < 12 * lines_of[0]
