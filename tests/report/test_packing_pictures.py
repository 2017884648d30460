"""Pictures of packings: what is drawn where, escaping, limits, and the page's script."""

import json
import re
import shutil
import subprocess
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
from tests.support import HANG_SECONDS

from lowtide.report import packing_html as html_module
from lowtide.report import packing_svg as svg_module
from lowtide.report.packing_html import packing_html
from lowtide.report.packing_picture import (
    PackingPicture,
    coarse_profile,
    colour_classes,
    largest_rows,
    live_steps,
    ticks,
)
from lowtide.report.packing_svg import packing_svg

SVG = "{http://www.w3.org/2000/svg}"
EVIL = [
    '</script><script>alert("1")</script>',
    "a&b<c>'\"",
    "null\0 bell\a \ud800",
    "ü\u2028{{data}}",
]


def picture(rows, names=None, title="p", **options):
    """The picture of rows (buffer, first, last) of buffers of 8 bytes, one above the other."""
    table = np.array(rows, np.int64).reshape(-1, 3)
    count = int(table[:, 0].max(initial=-1)) + 1
    nbytes = np.full(count, 8)
    defaults = {
        "details": (),
        "offset": np.arange(count) * 8,
        "nbytes": nbytes,
        "height": 8 * count,
        "bound": 8,
        "profile": live_steps(nbytes[table[:, 0]], table[:, 1], table[:, 2]),
    }
    return PackingPicture(
        title,
        tuple(names or [f"b{i}" for i in range(count)]),
        item=table[:, 0],
        first=table[:, 1],
        last=table[:, 2],
        **(defaults | options),
    )


def rectangles(text):
    root = ElementTree.fromstring(text)
    (group,) = [x for x in root.iter(f"{SVG}g") if x.get("class") == "r"]
    return group.findall(f"{SVG}rect")


def data_of(page):
    (found,) = re.findall(r"^const data = (.*);$", page, re.MULTILINE)
    return json.loads(found)


def test_a_rectangle_for_each_stretch_where_it_belongs():
    found = rectangles(packing_svg(picture([(0, 0, 4), (1, 5, 9), (0, 7, 9)])))
    box = [[float(x.get(k)) for k in ("x", "y", "width", "height")] for x in found]
    (x, y, width, height), (x1, y1, width1, height1), (x2, y2, width2, _) = box
    assert x + width == x1
    assert x1 + width1 == x2 + width2
    assert width == width1
    assert width2 == pytest.approx(width * 3 / 5)
    assert (y1 + height1, y2, height) == (y, y, height1)
    titles = [x.find(f"{SVG}title").text for x in found]
    assert titles[2] == "b0\n8 bytes at 0\nlive at steps 7 to 9"


def test_profile():
    steps, live = live_steps(np.array([5, 7]), np.array([0, 2]), np.array([3, 3]))
    assert steps.tolist() == [0, 2, 4]
    assert live.tolist() == [5, 12, 0]


def test_a_coarse_profile_hides_no_peak():
    rng = np.random.default_rng(3)
    first = np.sort(rng.integers(0, 10**6, 4000) ** 3 // 10**12)
    rows = [(i, x, x + i % 7) for i, x in enumerate(first.tolist())]
    made = picture(rows)
    steps, live = coarse_profile(made, 100)
    assert len(steps) <= 100
    assert (np.diff(steps) >= 0).all()
    assert live.max() == made.profile[1].max()
    assert live[-1] == 0
    exact = np.searchsorted(made.profile[0], steps[1::2])
    assert (made.profile[1][exact] == live[1::2]).all()
    assert coarse_profile(made, 10**5)[0] is made.profile[0]


def test_names_do_no_harm():
    made = picture([(i, i, i + 1) for i in range(4)], EVIL, title=EVIL[0], details=tuple(EVIL))
    text = packing_svg(made)
    found = rectangles(text)
    assert found[0].find(f"{SVG}title").text.startswith(EVIL[0])
    assert "\0" not in text
    assert "<script" not in text
    page = packing_html(made)
    assert page.count("</script>") == 1
    page.encode()
    assert data_of(page)["names"] == [*EVIL[:2], "null? bell? \ud800", "ü?{{data}}"]


def test_same_input_same_bytes_and_colours_by_name():
    made = picture([(i, i, i + 1) for i in range(6)], ["add.1", "add.2", "dot", "1", "2", "30"])
    assert packing_svg(made) == packing_svg(made)
    assert packing_html(made) == packing_html(made)
    colours, of_buffer = colour_classes(made)
    assert of_buffer[0] == of_buffer[1] != of_buffer[2]
    assert of_buffer[3] == of_buffer[4] == of_buffer[5]
    other = picture([(0, 0, 1)], ["dot.7"])
    assert colour_classes(other)[0] == [colours[of_buffer[2]]]


def test_what_is_left_out_is_said(monkeypatch):
    made = picture([(0, 0, 9), (1, 0, 1), (2, 0, 3)], nbytes=np.array([8, 8, 0]))
    rows, said = largest_rows(made, 1)
    assert rows.tolist() == [0]
    assert said == "1 without bytes are not drawn. 1 of 2 rectangles, the smallest, left out."
    monkeypatch.setattr(svg_module, "MOST_RECTANGLES", 1)
    monkeypatch.setattr(html_module, "MOST_RECTANGLES", 1)
    text = packing_svg(made)
    assert len(rectangles(text)) == 1
    assert said in text
    assert data_of(packing_html(made))["remarks"] == said
    assert data_of(packing_html(made))["names"] == ["b0"]


def test_nothing_to_draw():
    made = picture([], height=0, bound=0)
    assert rectangles(packing_svg(made)) == []
    assert data_of(packing_html(made))["item"] == []


def test_ticks_are_round():
    assert ticks(0, 10, 11) == list(range(11))
    assert ticks(3, 101, 6) == [20, 40, 60, 80, 100]
    assert len(ticks(0, 2**62, 12)) <= 12


def test_many_buffers():
    made = picture([(i, i, i + 40) for i in range(20_000)])
    assert packing_svg(made).count("<title>") == 20_001
    assert len(packing_html(made)) < 3_000_000


BROWSER = r"""
const script = require("fs").readFileSync(0, "utf8").match(/<script>([\s\S]*)<\/script>/)[1];
const elements = {}, calls = [];
const pen = new Proxy({}, { get: (t, k) => k in t ? t[k] : (...a) => { calls.push([k, ...a]); },
  set: (t, k, v) => { t[k] = v; return true; } });
global.document = { getElementById: id => elements[id] ??= { style: {}, clientWidth: 1000,
  clientHeight: 600, value: "", on: {}, addEventListener(n, f) { this.on[n] = f; },
  getContext: () => pen } };
global.window = { on: {}, addEventListener(n, f) { this.on[n] = f; } };
(0, eval)(script);
const { canvas, tip, find, summary } = elements;
const drawn = () => calls.filter(x => x[0] === "fillRect").length;
const out = { drawn: drawn(), summary: summary.textContent };
canvas.on.mousemove({ offsetX: 110, offsetY: 430 });
out.tip = tip.textContent;
find.value = "B1"; find.on.input(); out.found = elements.found.textContent;
find.on.keydown({ key: "Enter" });
canvas.on.wheel({ preventDefault() {}, deltaY: -1, offsetX: 300, offsetY: 200 });
canvas.on.mousedown({ offsetX: 300, offsetY: 200 });
canvas.on.mousemove({ offsetX: 320, offsetY: 240 });
window.on.mouseup(); canvas.on.dblclick();
calls.length = 0; window.on.resize(); out.again = drawn();
out.odd = calls.flat().filter(x => typeof x === "number" && !Number.isFinite(x)).length;
console.log(JSON.stringify(out));
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_the_script_of_the_page(tmp_path: Path):
    program = tmp_path / "browser.js"
    program.write_text(BROWSER)
    made = picture([(0, 0, 4), (1, 5, 9), (0, 7, 9)])
    run = subprocess.run(
        ["node", str(program)],
        input=packing_html(made),
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
    )
    assert run.stderr == ""
    out = json.loads(run.stdout)
    assert out == {
        "drawn": 3,
        "again": 3,
        "odd": 0,
        "summary": made.summary,
        "tip": "b0\n8 bytes at 0\nlive at steps 0 to 4",
        "found": "1 found; Enter shows one after the other",
    }
