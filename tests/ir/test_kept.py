"""Results that are kept with a computation, and the collector while graphs change."""

import gc
from collections.abc import Callable

import pytest

from lowtide.builder import Builder
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import Computation, Opcode
from lowtide.ir.garbage_collection import without_collection
from lowtide.ir.kept import forget_kept, kept
from lowtide.ir.traversal import post_order

TEXT = "HloModule m\n\nENTRY main {\n  x = f32[4] parameter(0)\n  ROOT y = f32[4] sine(x)\n}\n"


def test_results_hold_until_the_computation_changes() -> None:
    module = parse_hlo(TEXT)
    computation = module.entry
    runs: list[str] = []

    def sizes(key: str) -> int:
        def count() -> int:
            runs.append(key)
            return len(computation.instructions)

        return kept(computation, key, count)

    assert [sizes("a"), sizes("a"), sizes("b")] == [2, 2, 2]
    assert runs == ["a", "b"]
    builder = Builder.inside(computation, lambda _: None)
    builder.emit(computation.root.opcode, [builder.value(computation.root)])
    assert [sizes("a"), sizes("a")] == [3, 3]
    assert runs == ["a", "b", "a"]
    forget_kept(module)
    assert sizes("a") == 3
    assert runs == ["a", "b", "a", "a"]


CHANGES: dict[str, Callable[[Computation], object]] = {
    "add": lambda c: c.add(Opcode.SINE, c.root.shape, (c.root,)),
    "add_like": lambda c: c.add_like(c.root, c.root.operands),
    "append": lambda c: c.append("z", Opcode.SINE, c.root.shape, (c.root,)),
    "remove": lambda c: c.remove(c.instructions["unread"]),
    "reorder": lambda c: c.reorder(list(c.instructions.values())[::-1]),
    "root": lambda c: setattr(c, "root", c.instructions["unread"]),
    "touch": Computation.touch,
    "users": lambda c: c.parameters[0].replace_all_uses_with(c.instructions["zero"]),
    "operand": lambda c: c.root.replace_operand(0, c.instructions["zero"]),
    "operands": lambda c: c.root.set_operands((c.instructions["zero"],)),
    "shape": lambda c: c.root.set_shape(c.root.shape),
    "attributes": lambda c: c.root.set_attributes(c.root.attributes),
    "callees": lambda c: c.root.set_called_computations(()),
    "annotations": lambda c: c.root.set_annotations(c.root.annotations),
    "control edge": lambda c: c.root.add_control_predecessor(c.parameters[0]),
    "dropped edges": lambda c: c.root.drop_control_predecessors(c.parameters),
}
"""What changes a computation, by each of the doors."""

DOORS = """
HloModule m

ENTRY main {
  x = f32[4] parameter(0)
  zero = f32[4] constant({0, 0, 0, 0})
  unread = f32[4] negate(x)
  ROOT y = f32[4] sine(x)
}
"""


@pytest.mark.parametrize("what", CHANGES)
def test_every_door_ends_what_is_kept(what: str) -> None:
    computation = parse_hlo(DOORS).entry
    runs: list[str] = []
    assert kept(computation, "a", lambda: runs.append(what)) is None
    CHANGES[what](computation)
    assert kept(computation, "a", lambda: runs.append(what)) is None
    assert runs == [what, what]


def test_the_order_of_a_computation_is_kept_and_each_caller_has_its_own() -> None:
    computation = parse_hlo(TEXT).entry
    first = post_order(computation)
    first.clear()
    assert post_order(computation) == list(computation.instructions.values())
    added = computation.append("z", Opcode.SINE, computation.root.shape, (computation.root,))
    assert post_order(computation)[-1] is added


def test_what_was_made_without_the_collector_is_old() -> None:
    assert gc.isenabled()
    with without_collection():
        made: list[list[int]] = [[] for _ in range(50_000)]
        assert gc.get_count()[0] > len(made)
    assert gc.isenabled()
    assert gc.get_count()[0] < len(made)
    assert not gc.get_freeze_count()
