"""An operation whose row says its factors is split by all that split; nothing else knows it."""

import re
from dataclasses import replace

import pytest
from tests.architecture import PACKAGE
from tests.spmd.equal_results import partitioned_text

from lowtide.fitting.dimensions import SpecializedError
from lowtide.fitting.resizing import ResizableModule
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.fusion.access import access_of
from lowtide.ir import Opcode
from lowtide.ops.factors import computing, record
from lowtide.ops.factors.record import FactorDraft
from lowtide.ops.table import TABLE
from lowtide.spmd.wire import wire_traffic
from lowtide.transforms.memory.split.alignments import Alignment, alignments

TEXT = """HloModule m, num_partitions=4,
    allow_spmd_sharding_propagation_to_output={true}
ENTRY e {
  x = f32[8,1,12] parameter(0), sharding={devices=[4,1,1]<=[4]}
  ROOT t = (f32[8,1,3], s32[8,1,3]) topk(x), k=3, largest=true
}
"""
ONE = """HloModule m
ENTRY e {
  x = f32[8,1] parameter(0)
  ROOT r = f32[8,1] reverse(x), dimensions={1}
}
"""


def rows(x, operands, results):
    """The factors of what works on the rows of matrices one by one."""
    draft = FactorDraft.of(operands, results)
    draft.join(operands[0].dimensions[0], {0: 0}, dict.fromkeys(range(len(results)), 0))
    return draft.done(why="a row")


def put(monkeypatch, opcode, factors):
    """Give the row of an opcode a function among those of the table, or none."""
    name = "" if factors is None else "computing.rows"
    monkeypatch.setattr(computing, "rows", factors, raising=False)
    monkeypatch.setattr(record, "TABLE", {**TABLE, opcode: replace(TABLE[opcode], factors=name)})


def test_without_factors_all_is_whole(monkeypatch):
    put(monkeypatch, Opcode.TOPK, None)
    module = parse_hlo(TEXT)
    assert "all-gather" in wire_traffic(partitioned_text(TEXT).module).collectives
    assert alignments(module.entry.root, {}) == ()
    with pytest.raises(SpecializedError):
        ResizableModule(module, [(0, 0, 0)]).at(24)


def test_with_factors_each_stage_splits_it(monkeypatch):
    put(monkeypatch, Opcode.TOPK, rows)
    module = parse_hlo(TEXT)
    assert not wire_traffic(partitioned_text(TEXT).module).collectives
    assert alignments(module.entry.root, {}) == (Alignment(0, (0,)),)
    grown = ResizableModule(module, [(0, 0, 0)]).at(24)
    assert [s.dimensions for s in grown.entry.root.shape.tuple_shapes] == [(24, 1, 3)] * 2


def test_with_factors_fusion_knows_what_is_read(monkeypatch):
    x = parse_hlo(ONE).entry.root
    put(monkeypatch, Opcode.REVERSE, None)
    assert access_of(x, 0) is None
    put(monkeypatch, Opcode.REVERSE, rows)
    assert access_of(x, 0) == (0, -1)


READERS = {
    "fusion/access.py": set(),
    "fitting/made_sizes.py": set(),
    "spmd/factor_axes.py": {"ADD", "AND", "MAXIMUM", "MINIMUM", "MULTIPLY", "OR"},
    "transforms/memory/split/alignments.py": {
        *("CUSTOM_CALL", "GET_TUPLE_ELEMENT", "IOTA", "OPTIMIZATION_BARRIER")
    },
}
"""Files that take dimensions from the table, with the opcodes that they name: reductions that
combine terms, values that are no arrays of one kind, and numbers that grow."""


@pytest.mark.parametrize("file", READERS)
def test_readers_of_factors_name_no_other_operations(file):
    text = (PACKAGE / file).read_text()
    assert set(re.findall(r"Opcode\.([A-Z_0-9]+)", text)) == READERS[file]
    assert "lowtide.ops.factors" in text


TAKEN_APART = {
    *("ops/contraction.py", "ops/dot_roles.py", "codegen/elements/ragged.py"),
    *("transforms/layout/dot_dimensions.py", "transforms/simplify/dot.py"),
    "transforms/simplify/convolution.py",
}
"""Files that take apart the dimension numbers of a dot: to check or to change them."""

WITHOUT_ITS_CODE = ("evaluator/", "checking/", "ir/", "frontend/")
"""Rooms that say what a dot is, or judge the others, and share no code with them."""


def test_roles_of_a_dots_dimensions_stand_in_one_room():
    files = [path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py")]
    numbers = re.compile(r"\.[lr]hs_(batch|contracting)\b")
    found = {file for file in files if numbers.search((PACKAGE / file).read_text())}
    assert {file for file in found if not file.startswith(WITHOUT_ITS_CODE)} == TAKEN_APART
