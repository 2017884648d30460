"""Which loop has the lanes, and which is unrolled or tiled."""

import pytest
from tests.codegen.loops import target_of
from tests.codegen.test_loop import BODIES, kernel

from lowtide.codegen.cpu.order import lanes_for, order_of
from lowtide.codegen.domain import domains_of
from lowtide.codegen.elements.operands import bind
from lowtide.codegen.elements.outputs import outputs_of, stored
from lowtide.codegen.space import LoopSpace, groups_of
from lowtide.frontend.hlo_text import parse_hlo


def orders(name: str) -> list[tuple[tuple[int, ...], int, int | None, int | None]]:
    """For each box its loops, and which of them has the lanes, is unrolled, is tiled."""
    body, parameters = BODIES[name]
    root = parse_hlo(kernel(body, **parameters)).entry.root
    outputs = outputs_of(root)

    def visit(elements, index) -> None:
        stored(elements, outputs, bind(elements.function, root), [index], None)

    sizes = outputs[0].dimensions
    found = []
    for domain, trial in domains_of(sizes, range(len(sizes)), target_of("avx2"), visit):
        space = LoopSpace(domain.sizes, groups_of(trial, domain.sizes))
        order = order_of(trial, space.groups, space.sizes, 8)
        found.append((space.sizes, order.lane, order.unrolled, order.tiled))
    return found


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("transposed operand", [((70, 45), 1, None, 0)]),
        ("interleaved", [((53, 2), 0, 1, None)]),
        ("pairs rotated", [((180, 2), 0, 1, None)]),
        ("few columns and a row", [((77, 3), 0, 1, None)]),
        ("every other element", [((40,), 0, None, None)]),
        ("repeated", [((126, 3), 0, 1, None)]),
        (
            "concatenate of rows",
            [((36,), 0, None, None), ((117,), 0, None, None), ((36,), 0, None, None)],
        ),
        ("halves exchanged", [((5, 40), 1, None, None), ((5, 40), 1, None, None)]),
        ("rank 8 of ones", [((60,), 0, None, None)]),
        ("rows looked up, some out of range", [((11, 35), 1, None, None)]),
    ],
)
def test_orders(name: str, expected: list[object]) -> None:
    assert orders(name) == expected


def test_lanes_are_no_longer_than_a_loop_needs() -> None:
    assert [lanes_for(x, 16) for x in (1, 2, 3, 9, 16, 100)] == [0, 2, 4, 16, 16, 16]
