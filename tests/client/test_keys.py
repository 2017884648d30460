"""The key of a program: whatever decides about it changes it, nothing else does."""

from dataclasses import fields, replace

import pytest

from lowtide.client.executable.keys import module_digest, program_key
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.options import Options

TEXT = """HloModule m
ENTRY main {
  x = f32[12] parameter(0)
  k = f32[12] constant({1,2,3,4,5,6,7,8,9,10,11,12})
  s = f32[] constant(2)
  b = f32[12] broadcast(s), dimensions={}
  m = f32[12] multiply(x, k)
  ROOT r = f32[12] add(m, b)
}
"""
DECIDING = {
    "stage": "fused",
    "effort": "fast",
    "threads": 3,
    "memory": 4096,
    "autotune": True,
    "memory_priority": 0.25,
}
OTHERS = {"target", "cache", "huge_pages", "deadline", "check", "isolate", "denormals"}
"""A check and denormals are about calls. The target says of itself what it is; a deadline is no
part of a program that was kept."""


def key(text: str = TEXT, environment: str = "here", **options: object) -> str:
    chosen = replace(Options(threads=2), **options)
    return program_key(module_digest(parse_hlo(text)), chosen, environment)


def test_each_option_decides_or_does_not() -> None:
    assert {x.name for x in fields(Options)} == {*DECIDING} | OTHERS


@pytest.mark.parametrize("name", DECIDING)
def test_an_option_that_decides_is_in_the_key(name) -> None:
    assert key(**{name: DECIDING[name]}) != key()


def test_equal_programs_have_equal_keys() -> None:
    assert key() == key() == key(cache=False, huge_pages=False)


@pytest.mark.parametrize(
    ("old", "new"),
    [("multiply(x, k)", "subtract(x, k)"), ("11,12}", "11,13}"), ("constant(2)", "constant(3)")],
)
def test_a_module_is_in_the_key_with_all_its_constants(old, new) -> None:
    """Also those that are not written out in the text by which modules are compared."""
    assert key(TEXT.replace(old, new)) != key()
    assert key(environment="elsewhere") != key()
