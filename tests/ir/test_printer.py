"""The forms of text: canonical, complete, short, and the fingerprint."""

from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir.printer import COMPLETE, SHORT, fingerprint, to_text

TEXT = """HloModule {module}

{add} {{
  {a} = f32[] parameter(0)
  {b} = f32[] parameter(1)
  ROOT {s} = f32[] add({a}, {b})
}}

ENTRY {main} {{
  {c} = f32[12] constant({{1,2,3,4,5,6,7,8,9,10,11,12}}), metadata={{op_name="{c}"}}
  {z} = f32[] constant({zero})
  ROOT {r} = f32[] reduce({c}, {z}), dimensions={{0}}, to_apply={add}
}}
"""
NAMES = dict.fromkeys(("module", "add", "a", "b", "s", "main", "c", "z", "r"))


def text(prefix: str, zero: str = "0") -> str:
    return TEXT.format(zero=zero, **{name: prefix + name for name in NAMES})


def test_canonical_text_elides_large_constants_and_complete_text_does_not() -> None:
    module = parse_hlo(text(""))
    assert "constant({...})" in str(module)
    complete = to_text(module, COMPLETE)
    assert "constant({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12})" in complete
    assert to_text(parse_hlo(complete), COMPLETE) == complete


def test_short_text_has_neither_metadata_nor_layouts() -> None:
    short = to_text(parse_hlo(text("")), SHORT)
    assert "metadata" not in short
    assert "{0}" not in short.replace("dimensions={0}", "")


def test_fingerprint_ignores_names_and_metadata_only() -> None:
    assert fingerprint(parse_hlo(text("x_"))) == fingerprint(parse_hlo(text("other.")))
    assert fingerprint(parse_hlo(text("x_", "1"))) != fingerprint(parse_hlo(text("x_")))


def test_order_of_control_predecessors_and_operands() -> None:
    module = parse_hlo(
        "ENTRY e {\n  p = f32[] parameter(0)\n  q = f32[] parameter(1)\n  r = f32[] parameter(2)\n"
        "  s = f32[] negate(p), control-predecessors={r, q}\n  ROOT t = f32[] add(s, r)\n}\n"
    )
    lines = [line.split()[0] for line in str(module).splitlines() if " = " in line]
    assert lines == ["%r", "%q", "%p", "%s", "ROOT"] or lines == ["%q", "%r", "%p", "%s", "ROOT"]
    assert str(parse_hlo(str(module))) == str(module)
