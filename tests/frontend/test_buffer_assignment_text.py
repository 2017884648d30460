"""XLA's text of a buffer assignment: read back as it was written, and each way to be wrong."""

import pytest
from tests.autopsy.plans import WASTEFUL, planned

from lowtide.checking import check_plan
from lowtide.compiler import plan
from lowtide.frontend.buffer_assignment_text import read_buffer_assignment_text
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.frontend.plan_files import needs_module, plan_beside, read_plan
from lowtide.ir import InputError
from lowtide.xla.dumps.buffer_assignment import buffer_assignment_text

LOOP = """HloModule loop
body {
  s = (s32[], f32[64]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  a = f32[64] get-tuple-element(s), index=1
  one = s32[] constant(1)
  n = s32[] add(i, one)
  b = f32[64] reverse(a), dimensions={0}
  ROOT r = (s32[], f32[64]) tuple(n, b)
}
condition {
  s.1 = (s32[], f32[64]) parameter(0)
  i.1 = s32[] get-tuple-element(s.1), index=0
  most = s32[] constant(5)
  ROOT c = pred[] compare(i.1, most), direction=LT
}
ENTRY e {
  zero = s32[] constant(0)
  x = f32[64] parameter(0)
  t = (s32[], f32[64]) tuple(zero, x)
  ROOT w = (s32[], f32[64]) while(t), condition=condition, body=body
}
"""


@pytest.mark.parametrize("text", [WASTEFUL, LOOP], ids=["straight", "loop"])
def test_a_plan_is_read_back(text):
    made = plan(parse_hlo(text))
    module = parse_hlo(str(made.module))
    dumped = buffer_assignment_text(made.module, made.assignment)
    read = read_buffer_assignment_text(dumped, module)
    assert buffer_assignment_text(module, read) == dumped
    assert read.temp_bytes == made.assignment.temp_bytes
    assert check_plan(module, read) == ()


def dump():
    made = planned(WASTEFUL)
    return str(made.module), buffer_assignment_text(made.module, made.assignment)


def test_what_follows_is_left_out():
    module, text = dump()
    read = read_buffer_assignment_text(f"{text}\nTotal bytes used: 3\n", parse_hlo(module))
    assert read == read_buffer_assignment_text(text, read.values[0].instruction.parent.module)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("BufferAssignment:", "Assignment:", "expected 'BufferAssignment:'"),
        ("allocation 0:", "allocation 3:", "expected allocation 0, found 3"),
        ("offset=0", "offset=999999999", "ends behind its allocation"),
        ("(size=", "size=", "expected a value or an allocation"),
        ("parameter 0", "parameter 77", "parameters, none 77"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(old, new, message):
    module, text = dump()
    assert old in text
    with pytest.raises(InputError, match=message) as caught:
        read_buffer_assignment_text(text.replace(old, new, 1), parse_hlo(module), "plan.txt")
    assert "plan.txt:" in str(caught.value)


def test_names_that_are_not_there():
    module, text = dump()
    name = parse_hlo(module).entry.parameters[0].name
    with pytest.raises(InputError, match=f"has no instruction {name}x; did you mean {name!r}"):
        read_buffer_assignment_text(text.replace(f" {name} @", f" {name}x @"), parse_hlo(module))


def test_a_dump_directory(tmp_path):
    module, text = dump()
    file = tmp_path / "module_0001.jit_f.cpu_after_optimizations.txt"
    file.write_text(module)
    assert plan_beside(str(file)) is None
    beside = tmp_path / "module_0001.jit_f.cpu_after_optimizations-buffer-assignment.txt"
    beside.write_text(text)
    assert plan_beside(str(file)) == str(beside)
    assert needs_module(text.encode())
    found = read_plan(str(beside), parse_hlo(module))
    assert found.made_by_xla and found.assignment.allocations
    with pytest.raises(InputError, match="a plan without its module"):
        read_plan(str(beside))
