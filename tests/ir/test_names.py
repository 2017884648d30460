"""Unique names: the numbers that XLA gives."""

import pytest

from lowtide.ir.names import NameUniquer, sanitize


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["add", "add", "add"], ["add", "add.1", "add.2"]),
        (["add.1", "add", "add", "add.1"], ["add.1", "add", "add.2", "add.3"]),
        (["add.0", "add"], ["add.0", "add.1"]),
        (["a.b", "a.b"], ["a.b", "a.b.1"]),
        (["x.5", "x.5", "x.5"], ["x.5", "x.0", "x.1"]),
        (["__p", "__xla_p"], ["a_p", "__xla_p"]),
        (["x." + "9" * 30], ["x." + "9" * 30]),
    ],
)
def test_numbers(names: list[str], expected: list[str]) -> None:
    uniquer = NameUniquer()
    got = [uniquer.unique(name) for name in names]
    assert got == expected
    assert len(set(got)) == len(got)


def test_numbers_are_those_of_xla() -> None:
    hlo = pytest.importorskip("jaxlib._hlo")
    from lowtide.frontend.hlo_text import parse_hlo

    names = ["add", "add.0", "x.5", "p.01", "a.b", "a.b.1", "add.2", "x"]
    computations = []
    for i in range(3):
        lines = [f"{name} = f32[] parameter({k})" for k, name in enumerate(names)]
        computations.append(f"c{i} {{\n" + "\n".join(lines) + "\n}")
    text = "HloModule m\n" + "\n".join(computations)
    assert str(parse_hlo(text)).strip() == hlo.hlo_module_from_text(text).to_string().strip()


@pytest.mark.parametrize(
    ("name", "expected"),
    [("", "name"), ("a b", "a_b"), ("1x", "_x"), ("é", "_"), ("a-b.c", "a-b.c")],
)
def test_illegal_characters_are_replaced(name: str, expected: str) -> None:
    assert sanitize(name) == expected
