"""The page in a real browser: what a user does with it works, and all can use it."""

import time
from pathlib import Path
from typing import Any

import pytest
from tests.report.browser import CHROMIUM, axe_core, shown
from tests.support import CORPUS, EXAMPLES, needs_shared

import lowtide
from lowtide.compiler import PlanOptions, plan
from lowtide.compiler.picture import picture_of
from lowtide.report.plan_page import PlanPicture, plan_html
from lowtide.search.effort import Effort, SearchOptions

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")
AXE = axe_core()
LEAST_WIDTH = 500
"""Chromium makes no narrower window."""
SERIOUS = ("serious", "critical")

ACT = """
const canvas = document.querySelector("canvas"), box = canvas.getBoundingClientRect(), said = {};
const point = (type, x, y, more) => canvas.dispatchEvent(new PointerEvent(type,
  { clientX: box.left + x, clientY: box.top + y, pointerId: 1, bubbles: true, ...more }));
canvas.setPointerCapture = () => {};
for (let y = 300; y > 10 && at("tip").style.display !== "block"; y -= 5)
  for (let x = 80; x < box.width - 10 && at("tip").style.display !== "block"; x += 9) {
    point("pointermove", x, y); said.x = x; said.y = y; }
said.hover = at("tip").textContent;
point("pointerdown", said.x, said.y); point("pointerup", said.x, said.y);
said.chosen = at("about").textContent;
const seen = () => canvas.toDataURL();
let last = seen();
const changes = act => { act(); const now = seen(), differs = now !== last; last = now; return differs; };
said.wheel = changes(() => canvas.dispatchEvent(new WheelEvent("wheel", { deltaY: -100, bubbles: true,
  cancelable: true, clientX: box.left + 300, clientY: box.top + 100 })));
const press = key => canvas.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
said.all = changes(() => press("0"));
said.plus = changes(() => press("+"));
said.left = changes(() => press("ArrowRight"));
press("0"); last = seen();
said.next = changes(() => press("PageDown"));
said.about = at("about").textContent;
const rows = () => at("body").rows.length;
said.rows = rows();
at("only").click();
said.whole = rows();
at("find").value = "zzz"; at("find").dispatchEvent(new Event("input"));
said.none = at("found").textContent + " " + rows();
at("find").value = "f32"; at("find").dispatchEvent(new Event("input"));
said.some = rows();
const where = at("where").textContent;
at("step").value = 0; at("step").dispatchEvent(new Event("input"));
said.moved = at("where").textContent !== where;
const column = () => [...at("body").rows].map(row => Number(row.querySelector(".number").textContent.replace(/,/g, "")));
said.sorted = column();
document.querySelector("#head button").click();
said.reversed = column();
said.wide = Math.max(...[...document.querySelectorAll("canvas, .flame, .bar, #about, table")]
  .filter(x => !x.closest(".scroll")).map(x => x.getBoundingClientRect().right)) - document.documentElement.clientWidth;
said.width = document.documentElement.clientWidth;
return said;
"""  # noqa: E501


def drawn(path: Path, stage: str = "scheduled") -> PlanPicture:
    options = PlanOptions(stage, search=SearchOptions(Effort.FAST))
    return picture_of(plan(lowtide.read(path), options))


@pytest.fixture(scope="module")
def cnn() -> PlanPicture:
    return drawn(EXAMPLES / "mnist_cnn.hlo.xz")


@pytest.fixture(scope="module")
def plain() -> PlanPicture:
    return drawn(EXAMPLES / "mnist_cnn.hlo.xz", "input")


def html(*pictures: PlanPicture) -> str:
    return plan_html(pictures, "a page", str(pictures[0].report))


@pytest.mark.parametrize("width", [1280, 420])
def test_hover_search_zoom_sort_and_keys(width: int, cnn: PlanPicture, tmp_path: Path) -> None:
    said = shown(html(cnn), ACT, tmp_path, f"--window-size={width},900")
    assert " bytes at " in said["hover"] and said["chosen"] == said["hover"]
    assert said["wheel"] and said["all"] and said["plus"] and said["left"] and said["moved"]
    assert said["next"] and said["about"] != said["chosen"]
    assert 0 < said["rows"] < said["whole"]
    assert said["none"].startswith("0 found") and said["none"].endswith(" 0")
    assert 0 < said["some"] <= said["whole"]
    assert said["sorted"] == sorted(said["sorted"], reverse=True)
    assert said["reversed"] == said["sorted"][::-1]
    assert said["wide"] <= 0, "the page is wider than the window"
    assert said["width"] <= max(width, LEAST_WIDTH)


COMPARE = """
const panels = [...document.querySelectorAll("canvas")], texts = () => panels.map(x => x.toDataURL());
const before = texts();
panels[0].dispatchEvent(new KeyboardEvent("keydown", { key: "+", bubbles: true, cancelable: true }));
const zoomed = texts();
at("step").value = 0; at("step").dispatchEvent(new Event("input"));
const moved = texts(), where = at("where").textContent;
at("find").value = "zzz"; at("find").dispatchEvent(new Event("input"));
const differ = (a, b) => a.map((x, i) => x !== b[i]);
return { zoomed: differ(before, zoomed), moved: differ(zoomed, moved), found: differ(moved, texts()), where };
"""  # noqa: E501


def test_two_plans_move_together(cnn: PlanPicture, plain: PlanPicture, tmp_path: Path) -> None:
    said = shown(html(cnn, plain), COMPARE, tmp_path, "--window-size=1280,900")
    assert said["zoomed"] == said["moved"] == said["found"] == [True, True]
    steps = [f"1 of {len(x.steps):,}" for x in (cnn, plain)]
    assert all(x in said["where"] for x in steps)


CHECK = """
const found = await axe.run(document, { resultTypes: ["violations"] });
return found.violations.map(x => [x.impact, x.id, x.nodes.length, x.nodes[0].html.slice(0, 200),
  (x.nodes[0].any[0] || {}).message || ""]);
"""


@pytest.mark.skipif(AXE is None, reason="axe-core is not here: npm install axe-core, or AXE_CORE")
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1280, 420])
def test_nothing_stands_in_the_way_of_anyone(
    width: int, dark: bool, cnn: PlanPicture, plain: PlanPicture, tmp_path: Path
) -> None:
    assert AXE is not None
    flags = [f"--window-size={width},900", *(["--force-dark-mode"] if dark else [])]
    if dark:
        flags.append("--blink-settings=preferredColorScheme=0")
    found = shown(html(cnn, plain), CHECK, tmp_path, *flags, before=AXE.read_text())
    bad: list[Any] = [x for x in found if x[0] in SERIOUS]
    assert not bad, bad


@pytest.mark.slow
@needs_shared
def test_the_largest_module_loads_within_two_seconds(tmp_path: Path) -> None:
    largest = max(sorted(CORPUS.glob("*.xz")), key=lambda path: path.stat().st_size)
    page = html(drawn(largest))
    assert len(page) < 1_000_000
    milliseconds = shown(page, "return performance.now() - began;", tmp_path)
    start = time.perf_counter()
    shown("<html><body data-ready='0'></body></html>", "return 1;", tmp_path)
    empty = time.perf_counter() - start
    start = time.perf_counter()
    shown(page, "return 1;", tmp_path)
    assert time.perf_counter() - start - empty < 2.0
    assert milliseconds < 2000
