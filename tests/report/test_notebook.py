"""What objects are called in a notebook and at a prompt."""

from tests.autopsy.plans import WASTEFUL, planned

import lowtide
from lowtide.report.drawing import notebook_html

TEXT = """HloModule <script>
ENTRY e {
  x = f32[1000] parameter(0)
  ROOT y = f32[1000] negate(x)
}
"""


def test_names_of_strangers_are_text():
    html = notebook_html("<script>\x1b[31m\u202e a  b")
    assert "<script>" not in html and "\x1b" not in html and "\u202e" not in html
    assert html.startswith("<pre") and "a  b" in html


def test_reports_say_in_a_line_what_they_are():
    module = lowtide.parse_hlo(TEXT.replace("<script>", "m"))
    report = lowtide.explain(module)
    assert repr(report) == (
        "<MemoryReport m: 4,000 B beyond its arguments (bound 4,000), 8,000 B in all>"
    )
    assert "in all 8,000 B" in report._repr_html_()
    diff = lowtide.diff(module, planned(WASTEFUL).module)
    assert repr(diff).startswith("<MemoryDiff m and wasteful have next to nothing in common")
    assert "<pre" in diff._repr_html_()


def test_executables_say_what_they_need():
    program = lowtide.compile(lowtide.parse_hlo(TEXT.replace("<script>", "m")), cache=False)
    assert repr(program) == "<Executable m: 4,000 bytes beyond its arguments, 8,000 in all>"
    assert program._repr_html_() == f"<code>&lt;{repr(program)[1:-1]}&gt;</code>"
