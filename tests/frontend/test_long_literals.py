"""Literals that are read at once, and those with too few parts: every element is looked at."""

import pytest

from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir.errors import HloTextError

SIZE = 64


def constant(shape: str, literal: str) -> str:
    return f"HloModule m\nENTRY e {{\n  ROOT c = {shape} constant({literal})\n}}\n"


@pytest.mark.parametrize("place", [0, 17, SIZE - 1])
@pytest.mark.parametrize(("type_", "number"), [("s8", 128), ("s8", -129), ("u8", -1), ("u8", 256)])
def test_one_number_beyond_its_type(place, type_, number) -> None:
    """Wherever it stands in a long row, and on whichever side it is too far."""
    row = [str(i % 100) for i in range(SIZE)]
    shape = f"{type_}[{SIZE}]"
    parse_hlo(constant(shape, "{" + ", ".join(row) + "}"))
    row[place] = str(number)
    with pytest.raises(HloTextError, match=str(number)):
        parse_hlo(constant(shape, "{" + ", ".join(row) + "}"))


@pytest.mark.parametrize("literal", ["(1)", "(1, {2, 3}, 4)", "()"])
def test_a_tuple_with_another_number_of_elements(literal) -> None:
    shape = "(s32[], s32[2])"
    parse_hlo(constant(shape, "(1, {2, 3})"))
    with pytest.raises(HloTextError, match="2 elements in the tuple literal"):
        parse_hlo(constant(shape, literal))
