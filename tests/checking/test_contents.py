"""The map from bytes to contents, against a dictionary of bytes."""

from hypothesis import given
from hypothesis import strategies as st

from lowtide.checking.memory import NOTHING, Contents

SIZE = 24
ranges = st.tuples(st.integers(0, SIZE - 1), st.integers(1, SIZE)).map(
    lambda x: (min(x), max(x)) if x[0] != x[1] else (x[0], x[0] + 1)
)
writes = st.lists(st.tuples(ranges, st.integers(1, 4)), max_size=12)


def written(contents, plain, todo):
    for (start, end), content in todo:
        before = contents.write(start, end, content)
        assert set(before) == set(plain[start:end])
        plain[start:end] = [content] * (end - start)


@given(writes, st.lists(ranges, min_size=1, max_size=4), writes)
def test_contents_are_those_of_the_bytes(first, saved, second):
    contents, plain = Contents(), [NOTHING] * (SIZE + 1)
    written(contents, plain, first)
    pieces = [contents.pieces(*x) for x in saved]
    kept = list(plain)
    written(contents, plain, second)
    for (start, end), part in zip(saved, pieces, strict=True):
        assert [c for a, b, c in part for _ in range(a, b)] == kept[start:end]
        contents.restore(part)
        plain[start:end] = kept[start:end]
    flat = [c for a, b, c in contents.pieces(0, SIZE + 1) for _ in range(a, b)]
    assert flat == plain


@given(ranges, ranges, st.integers(1, 3))
def test_what_is_restored_is_whole_again(value, gap, content):
    contents = Contents()
    contents.write(*value, 7)
    part = contents.pieces(*gap)
    contents.write(*gap, content)
    contents.restore(part)
    assert contents.holds(*value, 7)
    assert not contents.holds(value[0], value[1] + 1, 7)
