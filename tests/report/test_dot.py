"""Drawings of modules are DOT, with a node for each instruction and an edge for each operand."""

import re
from pathlib import Path

import pytest
from tests.support import EXAMPLES

import lowtide
from lowtide.analysis.call_graph import executed_computations
from lowtide.ir import Module
from lowtide.report.dot import dot_text, quoted

STRING = r'"(?:[^"\\\n]|\\.)*"'
WORD = rf"(?:{STRING}|\w+)"
LIST = rf"(?: \[{WORD}={WORD}(?:, {WORD}={WORD})*\])?"
STATEMENTS = {
    "node": re.compile(rf"(n\d+|node|edge)({LIST});"),
    "edge": re.compile(rf"(n\d+) -> (n\d+)({LIST});"),
    "setting": re.compile(rf"(\w+)=({WORD});"),
    "open": re.compile(rf"(digraph|subgraph) ({WORD}) \{{"),
    "close": re.compile(r"\}"),
    "comment": re.compile(r"//.*"),
}
"""The part of DOT's grammar that drawings use, a statement per line."""


def parsed(text: str) -> dict[str, list[re.Match[str]]]:
    """Return the statements of a drawing by kind; raises AssertionError for what is not DOT."""
    found: dict[str, list[re.Match[str]]] = {kind: [] for kind in STATEMENTS}
    depth = 0
    for line in text.splitlines():
        matches = {k: m for k, p in STATEMENTS.items() if (m := p.fullmatch(line.strip()))}
        assert len(matches) == 1, line
        ((kind, match),) = matches.items()
        found[kind].append(match)
        depth += (kind == "open") - (kind == "close")
        assert depth >= 0
        assert depth <= 2
    assert depth == 0
    return found


def drawn(module: Module) -> list[re.Match[str]]:
    return [x for x in parsed(dot_text(module))["node"] if x[1].startswith("n") and x[1] != "node"]


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.xz")), ids=lambda x: x.name)
def test_all_that_runs_is_drawn(path: Path) -> None:
    module = lowtide.read(path)
    found = parsed(dot_text(module))
    computations = executed_computations(module.entry)
    instructions = [x for c in computations for x in c.instructions.values()]
    nodes = [x[1] for x in drawn(module)]
    assert sorted(nodes) == sorted([f"n{i}" for i in range(len(instructions))])
    assert len(found["open"]) == len(computations)
    data = [x for x in found["edge"] if "style" not in x[3]]
    assert len(data) == sum([len(x.operands) for x in instructions])
    assert {x[1] for x in found["edge"]} | {x[2] for x in found["edge"]} <= set(nodes)


SMALL = """
HloModule m

sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}

inside {
  a = f32[8,1000] parameter(0)
  p = f32[8,1000] multiply(a, a)
  q = f32[8,1000] multiply(p, a)
  ROOT n = f32[8,1000] negate(q)
}

less { c = (s32[], f32[8,1000]) parameter(0)
  ROOT never = pred[] constant(false) }

body { ROOT c = (s32[], f32[8,1000]) parameter(0) }

ENTRY main {
  x = f32[8,1000] parameter(0)
  zero = f32[] constant(0)
  i = s32[] constant(0)
  f = f32[8,1000] fusion(x), kind=kLoop, calls=inside
  t = (s32[], f32[8,1000]) tuple(i, f)
  w = (s32[], f32[8,1000]) while(t), condition=less, body=body, control-predecessors={zero}
  y = f32[8,1000] get-tuple-element(w), index=1
  ROOT r = f32[8] reduce(y, zero), dimensions={1}, to_apply=sum
}
"""


def test_labels_say_what_is_computed_and_how_large_it_is() -> None:
    module = lowtide.parse_hlo(SMALL)
    text = dot_text(module)
    assert r'[label="f\nfusion kLoop\nf32[8,1000]  32.0 KB\nmultiply x2, negate"' in text
    assert r'[label="r\nreduce\nf32[8]  32 B\nadd"' in text
    assert r'[label="x\nparameter 0\nf32[8,1000]  32.0 KB", fillcolor="#cfe2f3"]' in text
    edges = [x[0] for x in parsed(text)["edge"]]
    assert sum(["lhead=cluster_" in x for x in edges]) == 2
    assert sum(['label="while body"' in x for x in edges]) == 1
    assert sum(["style=dotted" in x for x in edges]) == 1
    assert sum(['label="32.0 KB"' in x for x in edges]) == 5


def test_names_cannot_leave_their_quotes() -> None:
    assert quoted('a"b\\c\nd\0') == '"a\\"b\\\\c\\nd?"'
    module = lowtide.parse_hlo(SMALL)
    module.name = 'a"; b [label="\\'
    assert parsed(dot_text(module))["open"][0][2] == r'"a\"; b [label=\"\\"'
