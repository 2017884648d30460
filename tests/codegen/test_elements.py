"""Elements with rules and memory of their own, as another target would hand them in."""

from importlib import import_module

import pytest

from lowtide.codegen.arrays import Array
from lowtide.codegen.cpu.vector_elements import vector_elements
from lowtide.codegen.elements.elements import ElementRule, Elements, Given
from lowtide.codegen.elements.lanes import first_lanes
from lowtide.codegen.elements.operands import bind
from lowtide.codegen.elements.scalar import ScalarMemory, scalar_elements
from lowtide.codegen.elements.table import HOMES, has_rule, rule_of
from lowtide.codegen.elements.values import Element, Mask, Request, Rule
from lowtide.codegen.indexing import Affine
from lowtide.codegen.kernel import ARGUMENTS
from lowtide.codegen.value import Value
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import ElementType, Instruction
from lowtide.ir.errors import UnsupportedOpError
from lowtide.llvm.function import Function
from lowtide.llvm.target import AARCH64

TEXT = """HloModule m

ENTRY e {
  x = f32[8] parameter(0)
  y = f32[8] parameter(1)
  ROOT z = f32[8] divide(x, y)
}
"""

SORT = """HloModule m

less {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=LT
}

ENTRY e {
  x = f32[8] parameter(0)
  ROOT y = f32[8] sort(x), dimensions={0}, to_apply=less
}
"""


class NotedMemory(ScalarMemory):
    """Memory that notes the places of loads."""

    def __init__(self) -> None:
        self.loads: list[Affine] = []

    def load(self, elements: Elements, array: Array, place: Affine, mask: Mask | None) -> Value:
        self.loads.append(place)
        return super().load(elements, array, place, mask)


def negated_only(instruction: Instruction) -> ElementRule:
    """One rule for all operations: minus the first operand."""

    def rule(elements: Elements, request: Request) -> Rule:
        found = yield Request(instruction.operands[0], request.at, request.mask, request.frame)
        (value,) = found.values
        name = elements.function.op(f"fneg float {value.name}")
        return found._replace(values=(Value((name,), value.type),))

    return rule


def test_rules_and_memory_are_those_handed_in() -> None:
    root, memory = parse_hlo(TEXT).entry.root, NotedMemory()
    fn = Function("f", ARGUMENTS)
    elements = Elements(fn, AARCH64, 0, negated_only, memory)
    place = elements.indices.variable("%begin", 8)
    bound = bind(fn, root)
    value = elements.at(root, (place,), bound.frame)
    elements.store(bound.results[0], (place,), value, None)
    assert [x.terms for x in memory.loads] == [place.terms]
    assert sum(["fneg" in x for x in fn.lines]) == 1
    assert not any("fdiv" in x for x in fn.lines)
    assert len(elements.reads) == 2 and len(elements.writes) == 1


def test_values_are_written_once_for_each_place() -> None:
    root = parse_hlo(TEXT).entry.root
    fn = Function("f", ARGUMENTS)
    elements = scalar_elements(fn, AARCH64)
    frame = bind(fn, root).frame
    place = elements.indices.variable("%begin", 8)
    first = elements.at(root, (place,), frame)
    with elements.scopes.loop(0, "%end"):
        assert elements.at(root, (place,), frame) == first
    assert sum(["fdiv" in x for x in fn.lines]) == 1
    elements.scopes.forget()
    assert elements.at(root, (place,), frame) != first


STACKED = """HloModule m

f {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  z = f32[] divide(x, y)
  u = f32[1] reshape(z)
  v = f32[] negate(z)
  w = f32[1] reshape(v)
  ROOT both = f32[2] concatenate(u, w), dimensions={0}
}

ENTRY e {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT all = f32[2] fusion(a, b), kind=kLoop, calls=f
}
"""


def test_what_pieces_have_in_common_is_computed_once() -> None:
    """Both pieces are wanted under a mask of their own; the quotient is the same under each."""
    root = parse_hlo(STACKED).entry.root
    fn = Function("f", ARGUMENTS)
    elements = scalar_elements(fn, AARCH64)
    place = elements.indices.variable("%begin", 2)
    bound = bind(fn, root)
    elements.at(bound.root, (place,), bound.frame)
    assert sum(["fdiv" in x for x in fn.lines]) == 1


ROWS = """HloModule m

f {
  a = f32[5] parameter(0)
  b = f32[5] parameter(1)
  q = f32[5] divide(a, b)
  ROOT rows = f32[5,12] broadcast(q), dimensions={0}
}

ENTRY e {
  a = f32[5] parameter(0)
  b = f32[5] parameter(1)
  ROOT all = f32[5,12] fusion(a, b), kind=kLoop, calls=f
}
"""


@pytest.mark.parametrize(("tail", "quotients"), [(first_lanes(4, 8), 1), ("%some", 2)])
def test_what_all_lanes_have_in_common_is_computed_once(tail: str, quotients: int) -> None:
    """The rest of a row wants the quotient of the row, which its whole vectors have had."""
    root = parse_hlo(ROWS).entry.root
    fn = Function("f", ARGUMENTS)
    elements = vector_elements(fn, AARCH64, 8)
    row = elements.indices.variable("%begin", 5)
    column = elements.indices.variable("%end", 4, is_lane=True)
    bound = bind(fn, root)
    elements.at(bound.root, (row, column), bound.frame)
    elements.at(bound.root, (row, column + 8), bound.frame, Mask(tail, 8, 0))
    assert sum(["fdiv" in x for x in fn.lines]) == quotients


def test_what_a_kernel_gives_for_now_goes_ahead_of_what_it_provides() -> None:
    root = parse_hlo(TEXT).entry.root
    elements = scalar_elements(Function("f", ARGUMENTS), AARCH64)

    def named(name: str) -> Given:
        return lambda at, mask: Element((Value((name,), ElementType.F32),), 0)

    elements.given[root] = named("%given")
    elements.provide(root, named("%provided"))
    frame = bind(elements.function, root).frame
    assert elements.at(root, (), frame).name == "%given"
    elements.given.pop(root)
    elements.scopes.forget()
    assert elements.at(root, (), frame).name == "%provided"


def test_an_operation_without_a_rule_is_refused() -> None:
    root = parse_hlo(SORT).entry.root
    assert not has_rule(root)
    with pytest.raises(UnsupportedOpError, match="sort"):
        rule_of(root)


def test_the_table_of_files_has_the_rules_that_they_define() -> None:
    found = {
        opcode: home
        for home in ("control", "loops", "ragged")
        for opcode in import_module(f"lowtide.codegen.elements.{home}").RULES
    }
    assert found == dict(HOMES)
