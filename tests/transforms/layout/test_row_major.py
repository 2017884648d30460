"""Row-major layouts, with copies where arguments have others."""

import pytest
from tests.random_modules import MEMORY, random_module

from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import Opcode
from lowtide.testing.check_pass import check_pass
from lowtide.transforms.layout.row_major import make_row_major

TWO_READERS = """HloModule m, entry_computation_layout={(f32[2,3]{0,1})->f32[2,3]{1,0}}
ENTRY main {
  x = f32[2,3]{0,1} parameter(0)
  c = f32[2,3]{1,0} copy(x)
  n = f32[2,3]{0,1} negate(x)
  ROOT s = f32[2,3]{1,0} add(c, n)
}
"""


def test_a_copy_of_an_argument_serves_all_who_read_it() -> None:
    module = check_pass(lambda x: bool(make_row_major(x)), TWO_READERS, evaluate=True)
    copies = [x for x in module.entry.instructions.values() if x.opcode is Opcode.COPY]
    assert [x.operands[0].name for x in copies] == ["x"]
    check_pass(lambda x: bool(make_row_major(x)), str(module), changed=False)


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_it_settles(first: int) -> None:
    for seed in range(first, first + 20):
        module = random_module(seed, MEMORY)
        module.schedule = None
        make_row_major(module)
        text = str(module)
        assert make_row_major(module) == 0
        assert str(module) == text


def test_a_copy_that_is_row_major_stays() -> None:
    text = TWO_READERS.replace("n = f32[2,3]{0,1} negate(x)", "n = f32[2,3]{1,0} negate(c)")
    module = parse_hlo(text)
    assert make_row_major(module) == 0
    assert str(module) == str(parse_hlo(text))
