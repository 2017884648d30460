"""The screen of explain: it fits, its figures add up, and it says what is proved."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from tests.analysis.random_modules import RandomModule
from tests.support import CORPUS, EXAMPLES

from lowtide.compiler import PlanOptions, explain
from lowtide.frontend.files import read
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.report.drawing import bar, elide, elide_qualified, elide_start, to_ascii
from lowtide.report.grouping import GROUPINGS
from lowtide.report.memory import DonationSaving, Ladder
from lowtide.report.peak import CauseKind
from lowtide.report.text import LINES, _possible_gain, _unbroken, _wrapped, explain_text, quality
from lowtide.report.units import percentage, unit_for

STEP = """HloModule step, input_output_alias={ {0}: (0, {}, may-alias) }

ENTRY main {
  w = f32[4000000] parameter(0)
  x = f32[4000000] parameter(1)
  g = f32[4000000] multiply(w, x), metadata={source_file="/a/b/step.py" source_line=7}
  h = f32[4000000] reverse(g), dimensions={0}, metadata={source_file="/a/b/step.py" source_line=8}
  n = f32[4000000] subtract(w, h), metadata={source_file="/a/b/step.py" source_line=9}
  ROOT r = (f32[4000000], f32[4000000]) tuple(n, g)
}
"""
WHOLE_MODULES = [*sorted(EXAMPLES.glob("*.xz")), *sorted(CORPUS.glob("*.xz"))]
SMALL_MODULES = [path for path in WHOLE_MODULES if path.stat().st_size < 50_000]


def step_report():
    return explain(parse_hlo(STEP), PlanOptions("input"))


def check_screen(text: str, width: int) -> None:
    lines = text.split("\n")
    assert len(lines) <= LINES
    assert max([len(line) for line in lines]) <= width
    assert not [line for line in lines if line != line.rstrip()]
    assert "\x1b" not in text


@pytest.mark.parametrize("path", SMALL_MODULES, ids=lambda path: path.name.split(".hlo")[0])
def test_real_modules_fit(path: Path):
    check_whole(path)


@pytest.mark.slow
@pytest.mark.parametrize("path", WHOLE_MODULES, ids=lambda path: path.name.split(".hlo")[0])
def test_all_real_modules_fit(path: Path):
    check_whole(path)


def check_whole(path: Path) -> None:
    report = explain(read(path), PlanOptions("input"))
    for width in (80, 100, 140):
        for by in (*GROUPINGS, "stack"):
            check_screen(explain_text(report, width=width, by=by), width)
        check_screen(explain_text(report.in_all_frames(), width=width), width)
    for width in (80, 100):
        text = explain_text(report, width=width)
        check_screen(text, width)
        check_table_adds_up(report, text)
    assert str(report) == explain_text(report)


def check_table_adds_up(report, text: str) -> None:
    """The rows of the table sum to all bytes of the peak, but for rounding."""
    lines = text.split("\n")
    start = next(i for i, line in enumerate(lines) if " share " in line)
    unit = lines[start].split()[0]
    scale = {"B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}[unit]
    rows = [row for row in lines[start + 1 : lines.index("", start)] if "%" in row]
    shown = [row.split()[0] for row in rows]
    total = sum([float(x.replace(",", "")) for x in shown if not x.startswith("<")]) * scale
    exact = sum([buffer.nbytes for buffer in report.peak.buffers])
    assert abs(total - exact) <= len(rows) * 0.06 * scale


def test_the_screen_of_a_small_step():
    text = explain_text(step_report())
    check_screen(text, 100)
    assert text.startswith("step   6 instructions   ")
    assert re.search(r"arguments +32\.0 MB +█", text)
    assert "16.0 MB overwrite donated arguments" in text
    assert re.search(r"step \d of 6: h \(step\.py:8\)", text)
    assert "donated arguments" in text
    assert "/a/b" not in text
    assert "Not optimized yet" in text


def test_limit_gives_rows_and_colour_changes_no_letter():
    report = step_report()
    rows = len(explain_text(report).split("\n"))
    assert len(explain_text(report, limit=1).split("\n")) < rows
    colored = explain_text(report, color=True)
    assert "\x1b[" in colored
    assert re.sub(r"\x1b\[[\d;]*m", "", colored) == explain_text(report)


def test_what_is_proved():
    report = step_report()
    optimal = replace(report, ladder=Ladder(32_000_000, 32_000_000, 32_000_000))
    assert "32.0 MB beyond its arguments; no order of this program needs less\n" in str(optimal)
    loose = replace(report, ladder=Ladder(8_000_000, 32_000_000, 32_000_000))
    assert "no order of this program needs less than 8.0\n" in str(loose)
    unknown = replace(report, ladder=Ladder(4, 32_000_000, 32_000_000))
    assert "the least possible is not known" in str(unknown)


@pytest.mark.parametrize(
    ("ladder", "least", "text"),
    [
        (Ladder(128, 128, 128), 128, "optimal"),
        (Ladder(100, 100, 128), 128, "optimal"),
        (Ladder(100, 100, 128), 64, "order optimal, packing +100% at most"),
        (Ladder(10_000, 10_000, 10_500), 10_000, "order optimal, packing +5.0%"),
        (Ladder(10_000, 11_000, 11_000), 11_000, "order +10% at most, packing optimal"),
        (Ladder(100_000, 100_001, 100_001), 100_001, "order +0.1%, packing optimal"),
        (Ladder(100, 100_000, 200_000), 100_000, "order unproven, packing +100% at most"),
        (Ladder(0, 0, 0), 0, "optimal"),
    ],
)
def test_quality(ladder, least, text):
    assert quality(ladder, least) == text


def test_offsets_are_optimal_only_where_none_can_be_better():
    reports = [
        explain(parse_hlo(RandomModule(seed, 30).text()), PlanOptions("input"))
        for seed in range(54)
    ]
    best = [x.ladder.arena_bytes == x.least_arena_bytes for x in reports]
    assert 0 < sum(best) < len(best)
    for report, is_best in zip(reports, best, strict=True):
        assert report.ladder.live_bytes <= report.least_arena_bytes <= report.ladder.arena_bytes
        assert ("packing +" in str(report)) != is_best


def test_outputs_all_overwrite_arguments_only_where_all_do():
    text = STEP.replace("ROOT r = (f32[4000000], f32[4000000]) tuple(n, g)",
                        "ROOT r = (f32[4000000], f32[3]) tuple(n, s)")  # fmt: skip
    text = text.replace("  n =", "  s = f32[3] slice(g), slice={[0:3]}\n  n =")
    assert "all but 12 B overwrite donated arguments" in str(
        explain(parse_hlo(text), PlanOptions("input"))
    )
    text = text.replace("(f32[4000000], f32[3]) tuple(n, s)", "(f32[4000000]) tuple(n)")
    assert "all overwrite donated arguments" in str(explain(parse_hlo(text), PlanOptions("input")))


def test_donations_of_one_argument_are_one():
    savings = (
        DonationSaving(0, "state.params['w']", 1, 9_000_000),
        DonationSaving(1, "state.params['b']", 1, 3_000_000),
        DonationSaving(2, "ema['w']", 1, 4_000_000),
    )
    report = step_report()

    def screen(nbytes: int, cause: CauseKind) -> str:
        first = replace(report.peak.buffers[0], nbytes=nbytes, cause=cause)
        peak = replace(report.peak, buffers=(first,))
        return str(replace(report, donations=savings, peak=peak))

    waits = CauseKind.NOT_DONATED
    assert "donating state and ema saves up to 16.0 MB" in screen(17_000_000, waits)
    assert "donating state and ema saves up to 8.0 MB" in screen(8_000_000, waits)
    assert "donating" not in screen(17_000_000, CauseKind.OUTPUTS)


def test_programs_that_do_nothing():
    text = str(
        explain(
            parse_hlo("HloModule id\nENTRY e { ROOT p = f32[2] parameter(0) }"),
            PlanOptions("input"),
        )
    )
    check_screen(text, 100)
    empty = str(
        explain(parse_hlo("HloModule none\nENTRY e { ROOT t = () tuple() }"), PlanOptions("input"))
    )
    check_screen(empty, 100)
    assert "No step takes memory" in empty


def test_names_of_any_length_fit():
    name = "n" * 300
    text = STEP.replace("HloModule step", f"HloModule {name}").replace(" h", f" {name}h")
    text = text.replace("step.py", f"{name}.py")
    report = explain(parse_hlo(text), PlanOptions("input"))
    for width in (80, 100):
        check_screen(explain_text(report, width=width), width)


# -- pieces ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("main", "nbytes", "text"),
    [
        (0, 0, "0 B"),
        (9_999, 9_999, "9,999 B"),
        (10_000, 9_999, "10.0 KB"),
        (2_531_700_000, 2_531_700_000, "2,531.7 MB"),
        (2_531_700_000, 49_999, "<0.1 MB"),
        (2_531_700_000, 50_000, "0.1 MB"),
        (73_436_353_112, 825_759_744, "0.83 GB"),
        (10**14, 10**14, "100.00 TB"),
    ],
)
def test_units(main, nbytes, text):
    assert unit_for(main).text(nbytes) == text


def test_percentages():
    assert [percentage(x, 1000) for x in (0, 1, 4, 5, 500, 1000)] == [
        "0%", "<1%", "<1%", "1%", "50%", "100%",
    ]  # fmt: skip
    assert percentage(0, 0) == "0%"


def test_bars():
    assert bar(0, 8, 4) == ""
    assert bar(1, 10**12, 4) == "▏"
    assert bar(8, 8, 4) == "████"
    assert bar(3, 8, 1) == "▍"
    assert to_ascii("█▍ é…") == "#| ?~"


def test_eliding():
    assert elide("abcdefgh", 5) == "ab…gh"
    assert elide("abcdefgh", 8) == "abcdefgh"
    assert elide("abcdefgh", 1) == "…"
    assert elide_start("abcdefgh", 4) == "…fgh"
    assert elide_qualified("Layer.attention", 12) == "attention"
    assert elide_qualified("Layer.attention", 5) == "atte…"
    assert elide_qualified("abc", 0) == ""


@pytest.mark.parametrize(
    ("figure", "least", "words"),
    [
        (1000, 1000, "nothing can be gained"),
        (1000, 1001, "nothing can be gained"),
        (1000, 999, "at most 0.1% can still be gained"),
        (10_000, 9_999, "at most 0.1% can still be gained"),
        (1000, 990, "at most 1.0% can still be gained"),
        (10_000, 9_899, "at most 1.1% can still be gained"),
        (1000, 500, "at most 50.0% can still be gained"),
        (1 << 40, 1, "at most 100.0% can still be gained"),
        (1, 1, "nothing can be gained"),
    ],
)
def test_what_could_be_saved_is_never_told_too_small(figure: int, least: int, words: str) -> None:
    assert _possible_gain(figure, least) == words


def test_a_size_stands_on_one_line() -> None:
    for width in range(20, 60):
        lines = _wrapped(f"no compilation needs less than {_unbroken('1,451.8 MB')}", width)
        assert any("1,451.8 MB" in x for x in lines)
        assert all(len(x) <= width for x in lines)
