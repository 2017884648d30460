"""Copies where a value is handed on in another layout."""

from __future__ import annotations

from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import Instruction, Module, Opcode
from lowtide.transforms.layout.handed_on import obey_layouts
from lowtide.verifier import verify

CALL = """HloModule m, is_scheduled=true
callee {
  a = f32[2,3]{0,1} parameter(0)
  ROOT n = f32[2,3]{0,1} negate(a)
}
ENTRY e {
  x = f32[2,3]{1,0} parameter(0)
  ROOT c = f32[2,3]{1,0} call(x), to_apply=callee
}
"""


def test_copies_stand_before_and_behind_a_call() -> None:
    module = parse_hlo(CALL)
    assert obey_layouts(module) == 2
    verify(module)
    assert module.schedule is not None
    found = [x.opcode for x in module.schedule.sequence(module.entry)]
    assert found == [Opcode.PARAMETER, Opcode.COPY, Opcode.CALL, Opcode.COPY]
    assert str(module.entry.root.shape) == "f32[2,3]{1,0}"


def test_nothing_changes_where_layouts_agree() -> None:
    module = parse_hlo(CALL)
    obey_layouts(module)
    before = str(module)
    assert obey_layouts(module) == 0
    assert str(module) == before


def test_what_nobody_reads_needs_no_copy_behind() -> None:
    last = "to_apply=callee\n"
    text = CALL.replace("ROOT c", "c").replace(last, f"{last}  ROOT r = f32[] constant(0)\n")
    module = parse_hlo(text)
    obey_layouts(module)
    verify(module)
    assert not [x for x in module.entry.instructions.values() if x.operands == (call_of(module),)]


def call_of(module: Module) -> Instruction:
    """Return the call in the entry."""
    return next(x for x in module.entry.instructions.values() if x.opcode is Opcode.CALL)
