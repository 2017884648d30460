"""Drafts decide without writing: what they count is what the written program sends."""

import pytest
from tests.spmd.test_random_modules import random_module

from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import Instruction, Module
from lowtide.spmd import drafts
from lowtide.spmd.annotations import read_annotations
from lowtide.spmd.cells import ArrayCells
from lowtide.spmd.drafts import Draft, Task, cheapest, first_draft
from lowtide.spmd.flattening import flattened
from lowtide.spmd.wire import wire_traffic
from lowtide.spmd.writing import written

LOOP = """HloModule m, num_partitions=4
condition {
  s = (s32[], f32[8,8], f32[8,8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(5)
  ROOT c = pred[] compare(i, n), direction=LT
}
body {
  s = (s32[], f32[8,8], f32[8,8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[8,8] get-tuple-element(s), index=1
  w = f32[8,8] get-tuple-element(s), index=2
  y = f32[8,8] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT r = (s32[], f32[8,8], f32[8,8]) tuple(j, y, w)
}
ENTRY e {
  x = f32[8,8] parameter(0), sharding={devices=[1,4]<=[4]}
  w = f32[8,8] parameter(1), sharding={devices=[4,1]<=[4]}
  zero = s32[] constant(0)
  s = (s32[], f32[8,8], f32[8,8]) tuple(zero, x, w)
  l = (s32[], f32[8,8], f32[8,8]) while(s), condition=condition, body=body
  ROOT y = f32[8,8] get-tuple-element(l), index=1
}
"""
ROWS = """HloModule m, num_partitions=4
max {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] maximum(a, b)
}
ENTRY e {
  x = f32[16,6] parameter(0), sharding={devices=[4,1]<=[4]}
  low = f32[] constant(-1)
  ROOT y = f32[16,6] reduce-window(x, low), window={size=3x1 pad=1_1x0_0}, to_apply=max
}
"""
BITS = """HloModule m, num_partitions=2
ENTRY e {
  x = s4[6,5] parameter(0), sharding={devices=[2,1]<=[2]}
  p = pred[6,5] parameter(1), sharding={devices=[2,1]<=[2]}
  a = s4[6,5] negate(x), sharding={replicated}
  b = pred[6,5] not(p), sharding={replicated}
  ROOT r = (s4[6,5], pred[6,5]) tuple(a, b)
}
"""
FIRST = """HloModule m, num_partitions=4
first {
  a = f32[] parameter(0)
  i = s32[] parameter(1)
  b = f32[] parameter(2)
  j = s32[] parameter(3)
  less = pred[] compare(a, b), direction=GE
  x = f32[] select(less, a, b)
  k = s32[] select(less, i, j)
  ROOT r = (f32[], s32[]) tuple(x, k)
}
ENTRY e {
  x = f32[64] parameter(0), sharding={devices=[4]<=[4]}
  i = s32[64] iota(), iota_dimension=0
  low = f32[] constant(-inf)
  zero = s32[] constant(0)
  ROOT y = (f32[], s32[]) reduce(x, i, low, zero), dimensions={0}, to_apply=first
}
"""


def drafted(module: Module) -> list[tuple[Task, Draft]]:
    """Return the first draft and the cheapest one, for the task that they are of."""
    source = flattened(module)
    task = Task(source, read_annotations(source))
    return [(task, first_draft(task)), (task, cheapest(task))]


def check(module: Module) -> int:
    """Return the bytes that the cheapest draft sends; each counts those of what is written."""
    pairs = drafted(module)
    for task, draft in pairs:
        made = written(task, draft)
        assert wire_traffic(made).wire_bytes == draft.sent_bytes
        assert str(written(task, draft)) == str(made)
    return pairs[-1][1].sent_bytes


@pytest.mark.parametrize("text", [LOOP, ROWS, BITS, FIRST], ids=["loop", "rows", "bits", "first"])
def test_a_draft_counts_what_the_written_program_sends(text: str) -> None:
    assert check(parse_hlo(text)) > 0


@pytest.mark.parametrize("seed", range(40))
def test_drafts_of_random_modules_count_what_is_sent(seed: int) -> None:
    check(random_module(seed))


def test_deciding_makes_no_instruction(monkeypatch: pytest.MonkeyPatch) -> None:
    source = flattened(parse_hlo(LOOP))
    task = Task(source, read_annotations(source))
    made: list[Instruction] = []
    begin = Instruction.__init__

    def counting(self: Instruction, *arguments: object, **named: object) -> None:
        made.append(self)
        begin(self, *arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(Instruction, "__init__", counting)
    draft = cheapest(task)
    assert not made
    written(task, draft)
    assert made


@pytest.mark.parametrize("seed", [103, 142])
def test_what_starts_much_dearer_is_not_drafted_further(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of other tilings of a parameter the first draft decides whether there are more."""
    source = flattened(random_module(seed))
    task = Task(source, read_annotations(source))
    costs: list[tuple[ArrayCells, float]] = []
    decide = drafts._draft

    def counting(task: Task, cells: ArrayCells, *rest: object) -> Draft:
        found = decide(task, cells, *rest)  # type: ignore[arg-type]
        costs.append((cells, found.cost))
        return found

    monkeypatch.setattr(drafts, "_draft", counting)
    cheapest(task)
    base, first = costs[0]
    others = {id(cells): cells for cells, _ in costs if cells is not base}
    dearer = 0
    for cells in others.values():
        own = [cost for x, cost in costs if x is cells]
        if own[0] > 1.5 * first:
            dearer += 1
            assert len(own) == 1
    assert dearer
