"""Packing problems in CSV: the columns of MiniMalloc, and one error with line and column."""

import random

import pytest

from lowtide.checking.packing_csv import read_packing_csv as read_plan
from lowtide.frontend.packing_csv import first_overlap, looks_like_packing, read_packing_csv
from lowtide.ir import InputError

HEADER = "id,lower,upper,size"


def read(text, **options):
    return read_packing_csv(text.encode(), "x.csv", **options)


def stretches(file):
    return list(zip(file.item, file.first, file.last, strict=True))


def test_columns_in_any_order_with_spaces_and_empty_lines():
    file = read("\ufeffsize , id,upper,lower\r\n 3,b,5,2\r\n\r\n4,a,1,0\r\n")
    assert file.ids == ("b", "a")
    assert list(file.nbytes) == [3, 4]
    assert stretches(file) == [(0, 2, 4), (1, 0, 0)]
    assert list(file.alignment) == [1, 1]
    assert list(file.with_offsets([8, 0])) == [
        "size , id,upper,lower,offset", " 3,b,5,2,8", "4,a,1,0,0",
    ]  # fmt: skip


def test_the_older_names_of_columns_include_the_end():
    file = read("buffer,start,end,size,gaps\n0,3,3,8,\n1,0,9,8,4-5 7-7\n")
    assert stretches(file) == [(0, 3, 3), (1, 0, 3), (1, 6, 6), (1, 8, 9)]


def test_gaps():
    text = f"{HEADER},gaps\na,0,9,4,3-5 5-6\nb,0,9,4,7-9 0-2\nc,0,9,4,2-4 3-8\nd,1,2,4,\n"
    assert stretches(read(text)) == [
        (0, 0, 2), (0, 6, 8), (1, 2, 6), (2, 0, 1), (2, 8, 8), (3, 1, 1),
    ]  # fmt: skip


def test_offsets_that_are_given():
    file = read(f"{HEADER},offset\na,0,9,4,8\nb,0,9,4,\nc,0,9,4,0\n")
    assert file.fixed == {0: 8, 2: 0}
    assert list(file.with_offsets([8, 4, 0]))[2] == "b,0,9,4,4"
    both = read(f"{HEADER},offset,fixed\na,0,9,4,8,\nb,0,9,4,0,4\n")
    assert both.fixed == {1: 4}
    assert list(both.with_offsets([0, 4]))[1] == "a,0,9,4,0,"


def test_alignment():
    file = read(f"{HEADER},alignment\na,0,9,4,6\nb,0,9,4,\n", alignment=4)
    assert list(file.alignment) == [12, 4]


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("", "1:1", "expected a header, found nothing"),
        ("\n id,lower,upper\n", "2:16", "no column 'size'"),
        ("id,lower,uper,size\n", "1:10", "column 'uper' is not known; did you mean 'upper'?"),
        ("id,lower,start,size\n", "1:10", "column 'start' occurs twice"),
        (f"{HEADER}\na,1,2\n", "2:6", "3 cells; expected 4"),
        (f"{HEADER}\na,1,2,3,4\n", "2:9", "5 cells; expected 4"),
        (f"{HEADER}\na,5,5,3\n", "2:5", "column 'upper': the buffer ends at or before 5"),
        (f"{HEADER}\na,5,3,3\n", "2:5", "column 'upper': the buffer ends at or before 5"),
        ("id,start,end,size\na,5,4,3\n", "2:5", "column 'end': the buffer ends before 5"),
        (f"{HEADER}\na,-1,3,3\n", "2:3", "column 'lower': expected a number from 0 as lower"),
        (f"{HEADER}\na,1,3, -3\n", "2:8", "column 'size': expected a number from 0"),
        (f"{HEADER}\na,1,3,1e3\n", "2:7", "found '1e3'"),
        (f"{HEADER}\na,1,3,²\n", "2:7", "found '²'"),
        (f"{HEADER}\na,1,3,{2**63}\n", "2:7", "below 2^62 as size"),
        (f"{HEADER}\na,1,3,{'9' * 9999}\n", "2:7", "below 2^62 as size"),
        (f"{HEADER}\na,1,3,{2**61}\nb,1,3,{2**61}\n", "3:7", "add up to 2^62 bytes or more"),
        (f"{HEADER}\na,1,3,3\n\na,1,3,3\n", "4:1", "column 'id': id 'a' is that of line 2 too"),
        (f"{HEADER},alignment\na,1,3,3,0\n", "2:9", "expected an alignment from 1"),
        (f"{HEADER},gaps\na,1,3,3,1-x\n", "2:9", "expected gaps such as 7-9, found '1-x'"),
        (f"{HEADER},gaps\na,1,3,3,0-2\n", "2:9", "a gap from 0 to 2 is not in 1 to 3"),
        (f"{HEADER},gaps\na,1,3,3,2-2\n", "2:9", "a gap from 2 to 2"),
        (f"{HEADER},gaps\na,1,3,3,1-2 2-3\n", "2:9", "the gaps leave nothing of the buffer"),
        (f"{HEADER},gaps\na,1,5,3,2-3@0:1\n", "2:9", "keeps a part of the buffer"),
        (f"{HEADER},offset\na,1,3,3,x\n", "2:9", "column 'offset': expected a number from 0"),
        (f"{HEADER},alignment,offset\na,1,3,3,2,5\n", "2:11", "5 is no multiple of"),
        (f"{HEADER},offset\na,1,3,3,{2**62 - 1}\n", "2:9", "memory ends at 2^62 bytes or more"),
        (
            f"{HEADER},offset\nq,1,9,4,4\na,1,5,3,0\nb,4,9,3,2\n",
            "4:9",
            "column 'offset': b has to lie over a of line 3",
        ),
    ],
)
def test_errors_name_line_and_column(text, place, message):
    with pytest.raises(InputError) as caught:
        read(text)
    assert str(caught.value).startswith(f"x.csv: {place}: ")
    assert message in str(caught.value)


def test_plain_files_are_read_alike_line_by_line():
    rng = random.Random(1)
    lines = [HEADER]
    for i in range(300):
        lower = rng.randrange(50)
        lines.append(f"n{i}, {lower}x,{lower + rng.randrange(1, 9)},{rng.randrange(99)}")
    slow = read("\n".join(lines).replace("x", ""), alignment=8)
    fast = read("\n".join(lines).replace("x", "").replace(" ", ""), alignment=8)
    assert fast.ids == slow.ids
    assert stretches(fast) == stretches(slow)
    for name in ("nbytes", "alignment", "fixed"):
        assert getattr(fast, name) == getattr(slow, name)


def test_text_that_is_none():
    with pytest.raises(InputError, match=r"x\.csv: 2:3: is not UTF-8 text"):
        read_packing_csv(f"{HEADER}\nab".encode() + b"\xff", "x.csv")


@pytest.mark.parametrize("seed", range(40))
def test_what_is_fixed_overlaps_where_pairs_do(seed):
    rng = random.Random(seed)
    rows = []
    for number in range(rng.randrange(1, 12)):
        first, offset = rng.randrange(20), rng.randrange(30)
        rows.append((first, first + rng.randrange(6), offset, offset + rng.randrange(1, 6), number))
    pairs = {
        (a[4], b[4])
        for a in rows
        for b in rows
        if a[4] < b[4] and a[0] <= b[1] and b[0] <= a[1] and a[2] < b[3] and b[2] < a[3]
    }
    found = first_overlap(rows)
    assert (tuple(sorted(found)) in pairs) if found else not pairs


def test_the_reader_of_plans_agrees_on_what_is_live():
    text = "id,start,end,size,gaps,alignment,fixed,offset\na,0,9,4,3-5 7-7,4,8,8\nb,0,1,4,,,,0\n"
    file, plan = read(text), read_plan(text)
    ours = [(i, first, last + 1) for i, first, last in stretches(file)]
    theirs = [(i, *x) for i, row in enumerate(plan.records) for x in row.stretches()]
    assert ours == theirs
    assert file.fixed == {0: 8}


def test_what_looks_like_a_packing():
    assert looks_like_packing(b"id,lower,upper,size\n1,2,3,4")
    assert looks_like_packing("\ufeffid, begin, end, size".encode())
    assert not looks_like_packing(b"HloModule lower, size\n")
    assert not looks_like_packing(b"\x0a\x03abc")
