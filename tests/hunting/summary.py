"""The summary of a hunt as a section of a document: how much ran, what was found and reached."""

from __future__ import annotations

from collections import Counter
from typing import Final

from tests.hunting.cells import Cell
from tests.hunting.coverage import apart, never_lie
from tests.hunting.family import family
from tests.hunting.state import HuntState

_TITLES: Final = {
    "type": "opcode x element type",
    "layout": "opcode x kind of layout",
    "update": "update in place x reader of the target",
    "layer": "operations that belong together x element type",
    "fused": "opcode x opcode that it is fused with",
}
_MOST_NAMED: Final = 12
_MOST_SILENT: Final = 12


def summary(name: str, state: HuntState) -> str:
    """Return the section of a family: counts, judges, findings, coverage, what was not reached."""
    return "\n".join(
        [
            f"### {name.capitalize()}",
            "",
            *_counts(state),
            "",
            *_findings(state),
            "",
            *_coverage(name, state),
            "",
            *_silence(state),
        ]
    )


def _counts(state: HuntState) -> list[str]:
    last = max(state.last.values(), default=state.first_seed - 1)
    return [
        f"- cases judged: {state.cases:,}, in {state.seconds / 3600:.1f} hours of wall time; "
        f"{state.refused:,} drafts were not valid",
        f"- seeds since the last finding: {state.next_seed - 1 - last:,} of "
        f"{state.next_seed - state.first_seed:,} from {state.first_seed:,} on",
        "- asked: " + ", ".join([f"{k} {v:,}" for k, v in sorted(state.judged.items())]),
    ]


def _findings(state: HuntState) -> list[str]:
    lines = ["| finding | cases | last seed | today |", "|---|--:|--:|---|"]
    for signature, count in sorted(state.findings.items(), key=lambda x: (-x[1], x[0])):
        text = signature.replace("|", "/").replace("<", "&lt;")
        today = "no longer" if signature in state.ended else "differs"
        lines.append(f"| {text} | {count:,} | {state.last[signature]:,} | {today} |")
    return lines if state.findings else ["No findings."]


def _coverage(name: str, state: HuntState) -> list[str]:
    lines = ["| table | cells reached | possible | least often |", "|---|--:|--:|--:|"]
    missing: list[str] = []
    for table, cells in family(name).tables.items():
        counts = [state.counts.reached[_normal(x)] for x in cells]
        reached = sum([1 for x in counts if x])
        title = _TITLES.get(table, table)
        lines.append(f"| {title} | {reached:,} | {len(cells):,} | {min(counts):,} |")
        never = [x for x, n in zip(cells, counts, strict=True) if not n]
        if never:
            missing += ["", f"Never reached of {title}: {_named(state, never)}."]
    if "layout" in family(name).tables:
        named = ", ".join([f"{x[1]} / {x[2]}" for x in never_lie()])
        why = "an operation has one array that can lie otherwise, or no meaning without elements"
        missing += ["", f"No layouts, since {why}: {named}."]
    if "fused" in family(name).tables:
        for reason, count in sorted(apart().items()):
            missing += ["", f"No pairs to fuse are {count:,} more: {reason}."]
    return [*lines, *missing]


def _normal(cell: Cell) -> Cell:
    return (cell[0], *sorted(cell[1:])) if cell[0] == "fused" else cell


def _named(state: HuntState, cells: list[Cell]) -> str:
    words = [f"{x[1]} / {x[2]} (asked {state.counts.asked[x]} times)" for x in cells[:_MOST_NAMED]]
    more = len(cells) - len(words)
    return ", ".join(words) + (f", and {more} more" if more > 0 else "")


def _silence(state: HuntState) -> list[str]:
    reasons: Counter[str] = Counter()
    for reason, count in state.silent.items():
        if not reason.startswith("refused"):
            reasons[reason] += count
    if not reasons:
        return []
    lines = ["| judge that said nothing, and why | cases |", "|---|--:|"]
    for reason, count in reasons.most_common(_MOST_SILENT):
        text = reason.replace("|", "/").replace("<", "&lt;")
        lines.append(f"| {text} | {count:,} |")
    return lines
