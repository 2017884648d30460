"""The doors through which the graph changes, and the invariants that they keep."""

import random

import pytest

from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import ElementType, Instruction, Module, Opcode, array_shape
from lowtide.ir.annotations import NO_ANNOTATIONS
from lowtide.ir.attributes import Parameter
from lowtide.ir.traversal import computation_post_order, post_order
from lowtide.verifier import verify

TEXT = """
ENTRY e {
  p = f32[] parameter(0)
  a = f32[] negate(p)
  b = f32[] add(a, a)
  c = f32[] multiply(b, a), control-predecessors={b}
  ROOT d = f32[] subtract(c, p)
}
"""


def consistent(module: Module) -> None:
    for computation in module.computations.values():
        for x in computation.instructions.values():
            assert all(x in operand.users for operand in x.operands)
            assert all(x in user.operands for user in x.users)
            assert all(x in p.control_successors for p in x.control_predecessors)
            assert all(x in s.control_predecessors for s in x.control_successors)
    verify(module)


def test_replace_all_uses_moves_users_and_root() -> None:
    module = parse_hlo(TEXT)
    known, version = module.entry.instructions, module.entry.version
    known["a"].replace_all_uses_with(known["p"])
    assert known["b"].operands == (known["p"], known["p"])
    assert list(known["p"].users) == [known["a"], known["d"], known["b"], known["c"]]
    assert module.entry.version > version
    known["d"].replace_all_uses_with(known["b"])
    assert module.entry.root is known["b"]
    consistent(module)


def test_replacing_a_value_by_its_reader_is_refused() -> None:
    known = parse_hlo(TEXT).entry.instructions
    with pytest.raises(ValueError, match="cycle"):
        known["a"].replace_all_uses_with(known["b"])


def test_replace_operand_keeps_a_user_that_still_reads() -> None:
    module = parse_hlo(TEXT)
    known = module.entry.instructions
    known["b"].replace_operand(0, known["p"])
    assert known["b"] in known["a"].users
    known["b"].replace_operand(1, known["p"])
    assert known["b"] not in known["a"].users
    consistent(module)


def test_removal_passes_control_dependencies_on() -> None:
    module = parse_hlo(TEXT)
    known = module.entry.instructions
    known["b"].add_control_predecessor(known["a"])
    known["c"].replace_operand(0, known["a"])
    with pytest.raises(ValueError, match="in use"):
        module.entry.remove(known["a"])
    module.entry.remove(known["b"])
    assert list(known["c"].control_predecessors) == [known["a"]]
    consistent(module)


def test_added_names_are_unique_in_the_module() -> None:
    module = parse_hlo(TEXT)
    shape = module.entry.root.shape
    added = module.entry.add(Opcode.NEGATE, shape, (module.entry.root,), name="a")
    assert added.name == "a.1"
    other = module.add_computation("e")
    assert other.name == "e.1"


LIKE = """
HloModule m

f {
  ROOT q = f32[4] parameter(0)
}

g {
  r = f32[4] parameter(0)
  ROOT n = f32[4] negate(r)
}

ENTRY e {
  p = f32[4] parameter(0)
  a = f32[4] negate(p)
  k = f32[4] call(a), to_apply=f, sharding={replicated}, metadata={op_name="k"}
  ROOT d = f32[4] add(k, a), control-predecessors={k}
}
"""


def test_adding_one_like_another_takes_over_all_but_what_is_given() -> None:
    module = parse_hlo(LIKE)
    known = module.entry.instructions
    made = module.entry.add_like(known["k"], (known["p"],))
    assert made.name == "k.1"
    assert made.operands == (known["p"],)
    assert list(known["p"].users) == [known["a"], made]
    assert made.called_computations == known["k"].called_computations
    assert made.annotations.sharding is not None
    assert made.metadata.op_name == "k"
    assert known["k"].position >= 0
    assert made.position == -1
    consistent(module)


def test_adding_one_like_another_takes_what_is_given_and_no_control_edges() -> None:
    module = parse_hlo(LIKE)
    known, other = module.entry.instructions, module.computations["g"]
    shape = array_shape(ElementType.F32, (2,))
    made = module.entry.add_like(
        known["k"], (), shape=shape, called_computations=(other,), annotations=NO_ANNOTATIONS
    )
    assert made.shape is shape
    assert made.called_computations == (other,)
    assert made.annotations == NO_ANNOTATIONS
    assert not module.entry.add_like(known["d"], known["d"].operands).control_predecessors
    parameter = other.add_like(other.parameters[0], (), attributes=Parameter(1))
    assert other.parameters == [other.instructions["r"], parameter]


def test_post_order_visits_control_predecessors_and_then_operands() -> None:
    rnd = random.Random(7)
    for _ in range(200):
        count = rnd.randint(2, 14)
        lines = ["n0 = f32[] parameter(0)"]
        for i in range(1, count):
            left, right = (f"n{rnd.randrange(i)}" for _ in range(2))
            control = f", control-predecessors={{n{rnd.randrange(i)}}}" * (rnd.random() < 0.2)
            lines.append(f"n{i} = f32[] add({left}, {right}){control}")
        entry = parse_hlo("ENTRY e {\n  " + "\n  ".join(lines) + "\n}").entry
        order: dict[Instruction, None] = {}
        for start in entry.instructions.values():
            if not start.users:
                _visit_after_what_it_waits_for(start, order)
        for start in entry.instructions.values():  # Only something else waits for these.
            _visit_after_what_it_waits_for(start, order)
        assert post_order(entry) == list(order)


def _visit_after_what_it_waits_for(x: Instruction, order: dict[Instruction, None]) -> None:
    for before in (*reversed(list(x.control_predecessors)), *x.operands):
        if before not in order:
            _visit_after_what_it_waits_for(before, order)
    order.setdefault(x)


def test_deep_chains_are_walked_without_recursion() -> None:
    module = parse_hlo("ENTRY e {\n  n0 = f32[] parameter(0)\n" + "".join(
        [f"  n{i} = f32[] negate(n{i - 1})\n" for i in range(1, 20_000)]) + "}\n")  # fmt: skip
    order = post_order(module.entry)
    assert [x.name for x in order] == [f"n{i}" for i in range(20_000)]
    assert computation_post_order(module) == [module.entry]
    assert str(parse_hlo(str(module))) == str(module)
