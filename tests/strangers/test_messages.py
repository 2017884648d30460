"""Changes of messages, and what is left where a process dies."""

import random

import pytest
from tests.strangers.hunt import ASKED, Hunt
from tests.strangers.messages import change_of_field, fields_of, written
from tests.strangers.readers import READERS, Reader


@pytest.mark.parametrize("seed", range(40))
def test_a_changed_message_is_a_message(seed) -> None:
    """Of fields within fields the lengths stay right, whatever is changed."""
    rng = random.Random(seed)
    inner = written([(1, 0, 7), (2, 2, b"words"), (3, 5, b"abcd")])
    data = written([(1, 2, inner), (4, 2, inner * 2), (9, 0, 2**64 - 1), (5, 1, b"12345678")])
    assert fields_of(data) is not None
    assert written(fields_of(data)) == data
    for _ in range(20):
        data = change_of_field(rng, data, [data])
        if not data:
            break
        assert fields_of(data) is not None
        assert written(fields_of(data)) == data


@pytest.mark.parametrize("data", [b"\x08", b"\x0a\x05abc", b"\x0b", b"\x00\x01", b"\x0d12"])
def test_what_is_no_message_has_no_fields(data) -> None:
    assert fields_of(data) is None


def test_the_last_input_is_left_where_the_process_dies(monkeypatch, tmp_path) -> None:
    """A reader that ends its process is found by the input that it was asked last."""

    def dies(data, folder):
        raise SystemExit(9)

    monkeypatch.setitem(READERS, "bad", Reader(lambda: iter([b"deadly"]), dies))
    hunt = Hunt("bad", tmp_path, random.Random(0))
    hunt.run(seconds=60, inputs=1)
    assert (tmp_path / ASKED).read_bytes() == b"deadly"
