"""Packings of intervals: against all pairs, and on packings that are right by construction."""

import random
from dataclasses import replace

import pytest
from tests.support import SHARED, needs_shared

from lowtide.checking import PackingRow, check_packing
from lowtide.checking.packing import height
from lowtide.checking.packing_csv import is_packing_csv, read_packing_csv
from lowtide.ir import InputError


def overlapping(rows, offsets):
    """All pairs that share a byte at a step."""
    taken = [
        {
            (step, y + i)
            for step in range(x.lower, x.upper)
            if not any(first <= step < last for first, last in x.gaps)
            for i in range(x.size)
        }
        for x, y in zip(rows, offsets, strict=True)
    ]
    return {
        (rows[i].id, rows[k].id)
        for i, a in enumerate(taken)
        for k, b in enumerate(taken[:i])
        if a & b
    }


@pytest.mark.parametrize("seed", range(60))
def test_it_finds_overlaps_where_all_pairs_do(seed):
    rng = random.Random(seed)
    rows, offsets = [], []
    for i in range(rng.randrange(1, 25)):
        lower = rng.randrange(30)
        upper = lower + rng.randrange(8)
        ends = [rng.randrange(lower, upper + 1) for _ in range(4)]
        gaps = ((min(ends[:2]), max(ends[:2])), (min(ends[2:]), max(ends[2:])))
        row = PackingRow(str(i), lower, upper, rng.randrange(6))
        rows.append(replace(row, gaps=gaps) if rng.random() < 0.5 else row)
        offsets.append(rng.randrange(20 + 40 * (seed % 4)))
    wanted = {frozenset(x) for x in overlapping(rows, offsets)}
    found = {frozenset(x.names) for x in check_packing(rows, offsets)}
    assert found <= wanted
    assert bool(found) == bool(wanted)


def test_the_ends_of_intervals_are_not_included():
    rows = [PackingRow("a", 0, 3, 8), PackingRow("b", 3, 5, 8)]
    assert check_packing(rows, [0, 0]) == ()
    rows[0] = PackingRow("a", 0, 4, 8)
    (found,) = check_packing(rows, [0, 7])
    assert str(found) == "overlap: a at 0 to 8 and b at 7 to 15 overlap from step 3 to 4"


def test_capacity_and_height():
    rows = [PackingRow("a", 0, 1, 8), PackingRow("b", 0, 1, 8)]
    assert height(rows, [0, 8]) == 16
    assert check_packing(rows, [0, 8], 16) == ()
    (found,) = check_packing(rows, [0, 8], 15)
    assert found.names == ("b",)
    with pytest.raises(ValueError, match="2 records, but 1 offsets"):
        check_packing(rows, [0])


@needs_shared
def test_intervals_of_the_hard_instances_one_above_the_other():
    lines = (SHARED / "minimalloc" / "A.1048576.csv").read_text().split()
    offset, out = 0, [lines[0] + ",offset"]
    for line in lines[1:]:
        out.append(f"{line},{offset}")
        offset += int(line.split(",")[3])
    packing = read_packing_csv("\n".join(out))
    records, offsets = packing.records, list(packing.offsets)
    assert height(records, offsets) == offset
    assert check_packing(records, offsets, offset) == ()
    offsets[7] -= 1
    below = [x.id for x, y in zip(records, offsets, strict=True) if y + x.size == offsets[7] + 1]
    found = check_packing(records, offsets)
    meet = records[6].lower < records[7].upper and records[7].lower < records[6].upper
    assert [set(x.names) for x in found] == ([{records[7].id, *below}] if meet else [])
    assert check_packing(records, [0] * len(records))


def test_csv_with_columns_in_another_order_and_spaces():
    packing = read_packing_csv("offset, id ,upper,lower,size\n 8,x,5,2,3\n\n0,y,9,5,1\n")
    assert packing.records == (PackingRow("x", 2, 5, 3), PackingRow("y", 5, 9, 1))
    assert packing.offsets == (8, 0)


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("", "1:1", "expected a header"),
        ("id,lower,upper,size\n", "1:20", "no column 'offset'"),
        ("id,lower,upper,size,offset,goops\n", "1:28", "column 'goops' is not known"),
        ("id,start,lower,size,offset\n", "1:10", "column 'lower' occurs twice"),
        ("id,lower,upper,size,offset,gaps\na,2,9,4,0,1-3\n", "2:11", "1 to 3 is not within"),
        ("id,lower,upper,size,offset,gaps\na,2,9,4,0,3-x\n", "2:11", "such as 7-9, found '3-x'"),
        ("id,lower,upper,size,offset,alignment\na,2,9,4,0,0\n", "2:11", "alignment from 1"),
        ("id,lower,id,size,offset\n", "1:10", "column 'id' occurs twice"),
        ("id,lower,upper,size,offset\na,0,1,2\n", "2:8", "4 cells; expected 5"),
        ("id,lower,upper,size,offset\na,0,1,2,3,4\n", "2:11", "6 cells; expected 5"),
        ("id,lower,upper,size,offset\na,0,1, x,3\n", "2:8", "expected a number from 0 as size"),
        ("id,lower,upper,size,offset\na,0,1,2,-3\n", "2:9", "found '-3'"),
        ("id,lower,upper,size,offset\na,3,1,2,3\n", "2:5", "ends before 3"),
        ("id,lower,upper,size,offset\na,0,1,2,3\na,0,1,2,9\n", "3:1", "id a is that of line 2"),
    ],
)
def test_errors_in_csv_name_line_and_column(text, place, message):
    with pytest.raises(InputError, match=message) as caught:
        read_packing_csv(text, "x.csv")
    assert str(caught.value).startswith(f"x.csv: {place}: ")


def test_csv_with_gaps_alignment_and_what_was_asked_for():
    text = (
        "buffer,start,end,size,gaps,alignment,fixed,offset\na,0,9,4,3-5 7-7,4,8,8\nb,0,1,4,,,,3\n"
    )
    packing = read_packing_csv(text)
    assert packing.records == (
        PackingRow("a", 0, 10, 4, 4, ((3, 6), (7, 8)), 8),
        PackingRow("b", 0, 2, 4),
    )
    assert list(packing.records[0].stretches()) == [(0, 3), (6, 7), (8, 10)]
    assert check_packing(packing.records, packing.offsets) == ()
    (wrong,) = check_packing(packing.records, (12, 0))
    assert str(wrong) == "bounds: a lies at offset 12; it has to lie at 8"
    (wrong,) = check_packing([replace(packing.records[0], fixed=None)], (6,))
    assert str(wrong) == "bounds: a lies at offset 6, no multiple of 4"


def test_what_looks_like_a_packing():
    assert is_packing_csv("id,lower,upper\n")
    assert not is_packing_csv('{"lower": 1, "x": 2}')
    assert not is_packing_csv("HloModule lower\n")
