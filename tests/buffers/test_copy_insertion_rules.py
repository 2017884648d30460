"""One small program for each rule of copy insertion; the name of the test is the reason."""

import numpy as np
import pytest
from tests.buffers import flow_rules, in_place_rules, output_rules  # noqa: F401
from tests.buffers.copy_rules import RULES
from tests.random_modules import SeededChoices, random_schedule

from lowtide.buffers.copy_insertion import insert_copies
from lowtide.evaluator import evaluate, value_leaves
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import Opcode, Schedule
from lowtide.ir.printer import COMPLETE, to_text
from lowtide.ir.traversal import fused_computations
from lowtide.testing.check_pass import seeded_arguments
from lowtide.verifier import verify


def creation_order(module):
    fused = fused_computations(module)
    computations = [x for x in module.computations.values() if x not in fused]
    return Schedule({x: tuple(x.instructions.values()) for x in computations})


def bits(module, arguments):
    leaves = value_leaves(evaluate(module, arguments))
    return [leaf.tobytes() for leaf in leaves if isinstance(leaf, np.ndarray)]


def copies_in(module):
    found = [i for c in module.computations.values() for i in c.instructions.values()]
    return sum([i.opcode is Opcode.COPY for i in found])


def inserted(module):
    """Insert copies; assert all that holds for any module, and return what was inserted."""
    arguments = seeded_arguments(module, 1)
    before, copies = bits(module, arguments), copies_in(module)
    made = insert_copies(module)
    verify(module)
    assert bits(module, arguments) == before
    assert copies_in(module) - copies == len(made.copies)
    for x in made.copies:
        assert x.copy.opcode is Opcode.COPY
        assert x.copy.parent.module is module
        assert "because" in x.reason.text()
    settled = to_text(module, COMPLETE)
    again = insert_copies(module)
    assert (again.copies, again.control_edges) == ((), ())
    assert to_text(module, COMPLETE) == settled
    return made


def reasons(made):
    return "\n".join([x.reason.text() for x in made.copies])


def stem(instruction):
    return instruction.name.partition(".")[0]


@pytest.mark.parametrize("name", RULES)
def test_in_any_order(name):
    rule = RULES[name]
    module = rule.module()
    made = inserted(module)
    assert len(made.copies) == rule.free, reasons(made)
    assert rule.xla is None or rule.free <= rule.xla
    edges = {(stem(first), stem(second)) for first, second in made.control_edges}
    assert edges >= rule.edges
    for seed in range(3):
        module.schedule = random_schedule(module, SeededChoices(seed))
        assert not insert_copies(module).copies, "the control edges allow an order that needs more"


@pytest.mark.parametrize("name", RULES)
def test_in_the_order_of_creation(name):
    rule = RULES[name]
    module = rule.module()
    module.schedule = creation_order(module)
    made = inserted(module)
    assert len(made.copies) == rule.given, reasons(made)
    assert not made.control_edges
    assert set(module.schedule.sequences) == set(creation_order(module).sequences)


def test_no_rule_is_missing():
    assert len(RULES) >= 60


ZEROS = """
HloModule m
sum {
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT s = f32[] add(p, q)
}
ENTRY main {
  i = s32[2,1] parameter(0)
  u = f32[2,3] parameter(1)
  zero = f32[] constant(0)
  zeros = f32[8,3] broadcast(zero), dimensions={}
  a = f32[8,3] scatter(zeros, i, u), update_window_dims={1}, inserted_window_dims={0},
    scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=sum
  b = f32[8,3] scatter(zeros, i, u), update_window_dims={1}, inserted_window_dims={0},
    scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=sum
  x = f32[8,3] sine(a)
  y = f32[8,3] cosine(b)
  ROOT r = f32[8,3] add(x, y)
}
"""


@pytest.mark.parametrize("is_scheduled", [False, True])
def test_an_array_of_one_number_is_made_again_instead_of_copied(is_scheduled):
    module = parse_hlo(ZEROS)
    if is_scheduled:
        module.schedule = creation_order(module)
    assert not inserted(module).copies
    made = [x for x in module.entry.instructions.values() if x.opcode is Opcode.BROADCAST]
    assert [len(x.users) for x in made] == [1, 1]
