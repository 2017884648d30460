"""Bytes of arrays whose elements are packed: the last byte may be full in part."""

import pytest

from lowtide.frontend.hlo_text import parse_hlo


@pytest.mark.parametrize(
    ("shape", "nbytes"),
    [
        ("s4[3]{0:E(4)}", 2),
        ("s4[4]{0:E(4)}", 2),
        ("u4[1]{0:E(4)}", 1),
        ("u2[5]{0:E(2)}", 2),
        ("s4[3]", 3),
        ("s4[0]{0:E(4)}", 0),
    ],
)
def test_bytes_are_rounded_up(shape, nbytes) -> None:
    (parameter,) = parse_hlo(f"ENTRY e {{ ROOT x = {shape} parameter(0) }}").entry.parameters
    assert parameter.shape.nbytes == nbytes
