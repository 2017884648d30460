"""The page of a plan: one file without a network, small, in which names of strangers are text."""

import json
import re
import shutil
import subprocess
import zlib
from base64 import b64decode
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from tests.support import EXAMPLES, HANG_SECONDS

import lowtide
from lowtide.compiler import PlanOptions, plan
from lowtide.compiler.picture import picture_of
from lowtide.report.memory_markdown import memory_markdown
from lowtide.report.plan_page import PlanPicture, plan_html
from lowtide.whatif.search import what_if

DATA = re.compile(r'const DATA = "([A-Za-z0-9+/=]*)";')
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")

HOSTILE = """HloModule m

ENTRY e {
  x = f32[64,64]{1,0} parameter(0), metadata={op_name="</script><script>document.title='no'</script>"}
  y = f32[64,64]{1,0} tanh(x), metadata={op_name="a\u202e<img src=x onerror=alert(1)>" source_file="<b>\\001{{data}}.py" source_line=3}
  ROOT z = f32[64,64]{1,0} dot(y, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="jit(f)/</script><i>"}
}
"""  # noqa: E501


class Tags(HTMLParser):
    """The tags of a page, with their attributes, and all text outside of scripts and styles."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "input"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("script", "style"):
            self.text += data


def data_of(page: str) -> dict[str, Any]:
    (packed,) = DATA.findall(page)
    found: dict[str, Any] = json.loads(zlib.decompress(b64decode(packed)))
    return found


def picture(source: str | Path, stage: str = "scheduled") -> PlanPicture:
    module = lowtide.read(source) if isinstance(source, Path) else lowtide.parse_hlo(source)
    return picture_of(plan(module, PlanOptions(stage)))


@pytest.fixture(scope="module")
def cnn() -> PlanPicture:
    found = what_if(lowtide.read(EXAMPLES / "mnist_cnn.hlo.xz"))
    return picture_of(found)


def test_the_page_has_the_plan(cnn: PlanPicture) -> None:
    page = plan_html([cnn], cnn.report.module, str(cnn.report))
    (drawn,) = data_of(page)["plans"]
    assert len(drawn["steps"]) == cnn.report.steps == len(drawn["live"])
    assert max(drawn["live"]) == cnn.report.ladder.live_bytes + cnn.report.alias_bytes
    assert drawn["bound"] == cnn.report.ladder.bound_bytes + cnn.report.alias_bytes
    arena = cnn.report.ladder.arena_bytes
    ends = [a + b for a, b in zip(drawn["offset"], drawn["bytes"], strict=True) if a >= 0]
    assert max(ends) == drawn["arena"] == arena
    held = dict.fromkeys(range(len(drawn["steps"])), 0)
    for first, last, nbytes in zip(drawn["first"], drawn["last"], drawn["bytes"], strict=True):
        for step in range(first, last + 1):
            held[step] += nbytes
    assert list(held.values()) == drawn["live"]


def test_the_page_needs_no_network_and_no_script_for_its_tables(cnn: PlanPicture) -> None:
    page = plan_html([cnn], cnn.report.module, str(cnn.report))
    tags = Tags(page)
    assert not tags.open or tags.open == []
    for _, attributes in tags.tags:
        assert not {"src", "href", "action", "onclick", "onload"} & set(attributes)
    assert "http:" not in page and "https:" not in page and "@import" not in page
    (policy,) = [a["content"] for t, a in tags.tags if "http-equiv" in a]
    assert policy is not None and policy.startswith("default-src 'none'")
    assert cnn.report.what_if is not None
    first = cnn.report.what_if.changes[0]
    assert first.name in tags.text and f"{first.saved_bytes:,}" in tags.text
    assert all(x.kind.value in tags.text for x in cnn.report.causes)
    assert page == plan_html([cnn], cnn.report.module, str(cnn.report))


def test_inputs_have_labels(cnn: PlanPicture) -> None:
    tags = Tags(plan_html([cnn], "m", "")).tags
    labels = {a["for"] for t, a in tags if t == "label" and "for" in a}
    for tag, attributes in tags:
        if tag == "input" and attributes["type"] != "checkbox":
            assert attributes["id"] in labels
    assert [a["lang"] for t, a in tags if t == "html"] == ["en"]


def test_names_of_strangers_are_text() -> None:
    found = picture(HOSTILE, "input")
    page = plan_html([found], "<script>x</script>\u202e{{data}}", "<b>\x1b[31m</b>")
    tags = Tags(page)
    assert len([t for t, _ in tags.tags if t == "script"]) == 1
    assert not [t for t, _ in tags.tags if t in ("b", "img")]
    assert "\u202e" not in page and "\x1b" not in page
    strings = data_of(page)["strings"]
    assert any("<b>" in x for x in strings) and any("</script>" in x for x in strings)
    assert not any("\u202e" in x or "\001" in x for x in strings)
    assert "{{data}}" in tags.text


def test_sixty_thousand_instructions_take_less_than_a_megabyte() -> None:
    count = 20_000
    lines = ["HloModule big", "", "ENTRY e {", "  v0 = f32[64]{0} parameter(0)"]
    for i in range(count):
        place = f'source_file="m.py" source_line={i % 900}'
        about = f'metadata={{op_name="jit(f)/layer_{i // 10}/tanh" {place}}}'
        lines.append(f"  tanh.{i}.a = f32[64]{{0}} tanh(v{i}), {about}")
        lines.append(f"  sine.{i}.b = f32[64]{{0}} sine(v{i}), {about}")
        lines.append(f"  v{i + 1} = f32[64]{{0}} add(tanh.{i}.a, sine.{i}.b), {about}")
    lines += [f"  ROOT r = f32[64]{{0}} negate(v{count})", "}", ""]
    found = picture("\n".join(lines), "input")
    assert len(found.steps) > 3 * count
    page = plan_html([found], "big", str(found.report))
    assert len(page.encode()) < 1_000_000


def test_markdown_escapes_names_and_sums_to_the_peak(cnn: PlanPicture) -> None:
    text = memory_markdown(cnn.report)
    assert "What if:" in text and "saved for the backward pass" in text
    rows = [x for x in text.splitlines() if x.startswith("| ")]
    assert len({x.replace("\\|", "").count("|") for x in rows}) == 2
    hostile = memory_markdown(picture(HOSTILE, "input").report)
    assert "<img" not in hostile and "\u202e" not in hostile


def test_plans_have_a_repr() -> None:
    found = plan(lowtide.parse_hlo(HOSTILE), PlanOptions("input"))
    assert repr(found).startswith("<ModulePlan m: ")
    assert "<pre" in found._repr_html_()


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium to show the page in")
@pytest.mark.parametrize("count", [1, 2])
def test_a_browser_shows_it(count: int, tmp_path: Path, cnn: PlanPicture) -> None:
    assert CHROMIUM is not None
    pictures = [cnn, picture(HOSTILE, "input")][:count]
    path = tmp_path / "page.html"
    path.write_text(plan_html(pictures, "two <plans>", "summary"))
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]
    profile = f"--user-data-dir={tmp_path / 'profile'}"
    run = subprocess.run(
        [*command, profile, "--virtual-time-budget=8000", path.as_uri()],
        capture_output=True,
        timeout=HANG_SECONDS,
        check=True,
    )
    shown = run.stdout.decode()
    total = sum([len(x.buffers) for x in pictures])
    assert f'data-ready="{total}"' in shown
    assert shown.count("<canvas") == count and shown.count('class="flame"') == count
    assert "<title>two &lt;plans&gt;</title>" in shown
    rows = re.search(r'id="rows" role="status">(\d+) buffers', shown)
    step = max(range(cnn.report.steps), key=lambda i: cnn.live_bytes[i])
    taken = [x for x in cnn.buffers if x.first <= step <= x.last]
    assert rows is not None and int(rows[1]) >= len(taken) > 0
