"""The screen of `lowtide explain`: a memory report in at most 24 lines."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Final, NamedTuple

from lowtide.ir.shape import HOST_MEMORY
from lowtide.report.blame import user_frame
from lowtide.report.copies import NeededCopy
from lowtide.report.donations import DonationOutcome, DonationVerdict, argument_name
from lowtide.report.drawing import Paint, bar, elide, in_lines, whole_or_short
from lowtide.report.memory import ComputationMemory, Ladder, MemoryReport, SpaceMemory
from lowtide.report.peak import CauseKind
from lowtide.report.peak_table import TableForm, peak_table, place_text, step_text
from lowtide.report.tree_text import tree_lines
from lowtide.report.units import Unit, percentage, unit_for
from lowtide.report.what_if import what_if_lines

LINES: Final = 24
WIDTH: Final = 100

_LEAST_ROWS: Final = 4
_ROWS_AROUND: Final = 3
"""The lines of the table that are no rows of it: two above, and one for what is smaller."""
_BAR_WIDTH: Final = 38
_LEAST_BAR: Final = 8
_LOOPS: Final = "In loop bodies"
_NOT_COUNTED: Final = "Not counted: Python"
_SCRATCH: Final = "scratch memory of kernels"


class _Room(NamedTuple):
    """How many lines some parts of the screen may have.

    `notes` are those of caveats, `copies` of each sentence on copies, `refused` of what is wrong
    with a donation, `causes` of the causes.
    """

    notes: int
    copies: int
    refused: int
    causes: int


_ROOMS: Final = (
    *(_Room(3, 4, 3, 3), _Room(2, 4, 3, 3), _Room(1, 4, 3, 3), _Room(0, 4, 3, 3)),
    *(_Room(0, 3, 2, 3), _Room(0, 2, 2, 2), _Room(0, 1, 1, 2), _Room(0, 0, 1, 2)),
    *(_Room(0, 0, 0, 2), _Room(0, 0, 0, 1)),
)
"""What is tried in turn until enough rows of the table fit."""
_LARGE_CONSTANT: Final = 20
"""A constant with at least one part in so many of all memory is named."""
_TINY_CAUSE: Final = 200
"""A cause of less than one part in so many is not worth a place on the screen."""


def explain_text(
    report: MemoryReport,
    *,
    width: int = WIDTH,
    color: bool = False,
    limit: int | None = None,
    by: str = "line",
) -> str:
    """Return the report for people on `width` columns, without a newline at the end.

    The screen has at most 24 lines, and as many rows of the table of buffers as fit; `limit` asks
    for that many rows, however long the screen becomes. The rows are groups `by` "line",
    "function", "scope", "op" or "cause"; by "stack" they are the tree of calls. What changes of
    the program save comes below these lines, where the report knows of any.
    """
    paint = Paint(color=color)
    screen = Screen(report, width, paint, by)
    wanted = min(_LEAST_ROWS, len(screen.peak(_LEAST_ROWS)) - _ROWS_AROUND + 1)
    for room in _ROOMS:
        head, foot = screen.head(room), screen.foot(room)
        rows = LINES - len(head) - len(foot) - _ROWS_AROUND
        if rows >= wanted or limit is not None:
            break
    rows = max(1, rows)
    table = screen.peak(rows, rows) if limit is None else screen.peak(limit)
    changes = [] if report.what_if is None else ["", *what_if_lines(report.what_if, width, paint)]
    return "\n".join([*head, *table, *foot, *changes])


def headline(report: MemoryReport, *, width: int = WIDTH, color: bool = False) -> list[str]:
    """Return the first lines of the screen: what the module needs, and how good that is."""
    screen = Screen(report, width, Paint(color=color))
    return [*screen.title(), "", *screen.ladder(_ROOMS[0])]


class Screen:
    """The parts of the screen, each as lines."""

    def __init__(self, report: MemoryReport, width: int, paint: Paint, by: str = "line") -> None:
        self.report = report
        self.width = width
        self.paint = paint
        self.by = by
        self.unit = unit_for(report.ladder.arena_bytes or report.total_bytes)

    def head(self, room: _Room) -> list[str]:
        """All above the table."""
        split = [*self.split(), *self.causes(room.causes)]
        return [*self.title(), "", *split, "", *self.ladder(room), ""]

    # -- title -----------------------------------------------------------------------------------

    def title(self) -> list[str]:
        """The name of the module, what it needs, and what is proved about that."""
        report, paint = self.report, self.paint
        count = f"   {report.instructions:,} instructions"
        whole = f"   {self.unit.text(report.total_bytes)} in all"
        name = elide(report.module, self.width - len(count + whole))
        need = f"needs {self.unit.text(report.ladder.arena_bytes)} beyond its arguments"
        proof = _proof(report.ladder, self.unit)
        if len(need) + 2 + len(proof) > self.width:
            proof = proof.replace(" of this program", "")
        return [
            paint("title", name) + paint("dim", count + whole),
            f"{paint('title', need)}; {proof}",
        ]

    # -- what the memory is split into -----------------------------------------------------------

    def split(self) -> list[str]:
        """One line with a bar for each kind of memory that there is."""
        report = self.report
        notes = {"outputs": self._aliasing()}
        parts = [
            ("arguments", "argument", report.argument_bytes),
            ("outputs", "output", report.output_bytes),
            ("constants", "constant", report.constant_bytes),
            ("temporaries", "temporary", report.temp_bytes),
        ]
        shown = [x for x in parts if x[0] != "constants" or self.unit.is_visible(x[2])]
        largest = max([nbytes for _, _, nbytes in shown])
        figures = [self.unit.text(nbytes) for _, _, nbytes in shown]
        column = max([len(figure) for figure in figures])
        room = self.width - column - 20 - max([len(note) for note in notes.values()])
        lines = []
        for (name, role, nbytes), figure in zip(shown, figures, strict=True):
            note = notes.get(name, "")
            drawn = bar(nbytes, largest, max(_LEAST_BAR, min(room, _BAR_WIDTH)))
            line = f"  {name:<11}  {figure:>{column}}  {self.paint(role, drawn)}"
            lines.append(line.rstrip() + (f"   {self.paint('dim', note)}" if note else ""))
        return [*lines, *map(self._space, report.spaces)]

    def _space(self, space: SpaceMemory) -> str:
        """What lies in another memory; the host's counts in no other figure."""
        whose = "the host's memory" if space.space == HOST_MEMORY else f"memory {space.space}"
        arguments, arena = self.unit.text(space.argument_bytes), self.unit.text(space.arena_bytes)
        return self.paint("dim", f"  in {whose}: arguments {arguments}, an arena of {arena}")

    def _aliasing(self) -> str:
        report = self.report
        if report.output_bytes * 100 < report.total_bytes:
            return ""
        if not report.alias_bytes:
            return "none overwrites an argument"
        others = report.output_bytes - report.alias_bytes
        if not others:
            return "all overwrite donated arguments"
        if not self.unit.is_visible(others):
            return f"all but {unit_for(others).text(others)} overwrite donated arguments"
        return f"{self.unit.text(report.alias_bytes)} overwrite donated arguments"

    # -- the ladder ------------------------------------------------------------------------------

    def ladder(self, room: _Room = _ROOMS[0]) -> list[str]:
        """The bound, the live bytes and the arena, and what would lower them."""
        ladder = self.report.ladder
        number = self.unit.number
        first = "=" if ladder.bound_bytes == ladder.live_bytes else "<="
        second = "=" if ladder.live_bytes == ladder.arena_bytes else "<="
        figures = (
            f"  bound {number(ladder.bound_bytes)}  {first}  live {number(ladder.live_bytes)}"
            f"  {second}  arena {number(ladder.arena_bytes)} {self.unit.name}"
        )
        judgement = quality(ladder, self.report.least_arena_bytes)
        role = "good" if judgement == "optimal" else "warn"
        if self.report.has_given_order:
            judgement = f"order as given, offsets by lowtide: {judgement}"
        lines = [f"{figures}     {self.paint(role, judgement)}"]
        if len(figures) + 5 + len(judgement) > self.width:
            lines = [figures, f"  {self.paint(role, judgement)}"]
        lines += [f"  {x}" for x in self._any_compilation()]
        donation, refused = self._donation(), self._refused_donation(room.refused)
        if donation:
            lines.append(f"  {self.paint('good', donation)}")
        lines += [f"  {self.paint('warn', x)}" for x in [*refused, *self._constant()]]
        return lines

    def _any_compilation(self) -> list[str]:
        """What is proved of all compilations, how much less they could need, and what shows it."""
        ladder, cut = self.report.ladder, self.report.compilation_cut
        least = ladder.compilation_bound_bytes
        if not least or not self.unit.is_visible(least):
            return []
        again = "" if cut is None else cut.kinds()
        text = (
            f"no compilation{again and f' without recomputation of {again}'} needs less than "
            f"{_unbroken(self.unit.text(least))}: {_possible_gain(ladder.arena_bytes, least)}"
        )
        lines = _wrapped(text, self.width - 2)
        return lines if cut is None else [*lines, cut.line(self.unit, self.width - 2)]

    def _constant(self) -> list[str]:
        """Which constant takes much of the memory, where it is read, and what to do about it."""
        largest = self.report.largest_constant
        if largest is None or largest.nbytes * _LARGE_CONSTANT < self.report.total_bytes:
            return []
        source = largest.source
        place = "" if source is None else f", read at {place_text(source)}"
        size = _unbroken(self.unit.text(largest.nbytes))
        what = f"constant {elide(largest.shape, 30)} of {size}{place}"
        advice = "make it an argument, so that it is not stored in the program as well"
        return _wrapped(f"{what}: {advice}.", self.width - 2)

    def causes(self, most: int) -> list[str]:
        """Why the memory of a call is taken, in shares of all of it: as many as go on the lines."""
        total = self.report.total_bytes
        shown = [x for x in self.report.causes if x.nbytes * _TINY_CAUSE >= total > 0]
        lines: list[str] = []
        for count in range(1, len(shown) + 1):
            parts = [
                f"{x.kind.value} {self.unit.text(x.nbytes)} ({percentage(x.nbytes, total)})"
                for x in shown[:count]
            ]
            rest = total - sum([x.nbytes for x in shown[:count]])
            if rest:
                parts.append(f"other causes {self.unit.text(rest)}")
            found = in_lines(f"  in all {self.unit.text(total)}: ", parts, self.width)
            if len(found) > most:
                break
            lines = found
        return lines

    def _donation(self) -> str:
        """Which arguments to donate, those of one name in the user's program together.

        More than waits for that at the peak is not saved there.
        """
        savings: dict[str, int] = {}
        for saving in self.report.donations:
            root = argument_name(saving.name)
            savings[root] = savings.get(root, 0) + saving.nbytes
        buffers = self.report.peak.buffers
        waiting = sum([x.nbytes for x in buffers if x.cause is CauseKind.NOT_DONATED])
        total = min(waiting, sum(savings.values()))
        if total * 100 < self.report.ladder.arena_bytes or not self.unit.is_visible(total):
            return ""
        names = sorted(savings, key=lambda name: -savings[name])
        text = ""
        for count, longest in ((3, 40), (2, 40), (1, 40), (1, 20)):
            listed = [elide(name, longest) for name in names[:count]]
            if len(names) > count:
                listed.append(f"{len(names) - count} more")
            text = f"donating {_and(listed)} saves up to {self.unit.text(total)}"
            if len(text) + 2 <= self.width:
                break
        return text

    def _refused(self) -> list[DonationOutcome]:
        """The donations that are not in place, the worst first."""
        execution = self.report.execution
        asked = () if execution is None else execution.donations_asked
        refused = [x for x in asked if x.verdict is not DonationVerdict.IN_PLACE]
        refused.sort(key=lambda x: (x.verdict is DonationVerdict.COPIED, -x.asked.nbytes))
        return refused

    def _refused_donation(self, most: int) -> list[str]:
        """Which of the arguments that are donated is not overwritten in place, and why."""
        refused = self._refused()
        if not refused:
            return []
        worst = refused[0]
        others = f" ({len(refused) - 1} more)" if len(refused) > 1 else ""
        name = elide(worst.name, max(40, self.width // 2))
        outcome = f"donating {name} has no effect{others}"
        if worst.verdict is DonationVerdict.COPIED:
            outcome = f"{name} is overwritten by a copy{others}"
        return whole_or_short(outcome, worst.reason, self.width - 2, most)

    # -- the peak --------------------------------------------------------------------------------

    def peak(self, rows: int, lines: int | None = None) -> list[str]:
        """The step at which most is needed, and the table of the buffers taken then.

        The table has `rows` rows, and fewer where they would take more than so many lines.
        """
        peak = self.report.peak
        if not peak.buffers:
            return ["No step takes memory beyond the arguments."]
        heading = self.paint("title", self._peak_line())
        form = TableForm(self.width, self.unit, self.paint, self.by)
        if self.by == "stack":
            return [heading, *tree_lines(peak, rows, form)]
        return [heading, *peak_table(peak, rows, form, lines)]

    def _peak_line(self) -> str:
        """The step and its source line, in full where that fits."""
        peak = self.report.peak
        step = f"step {step_text(peak.position)} of {self.report.steps:,}"
        line = f"At the peak, {step}: {elide(peak.instruction, 30)}"
        if peak.source is None:
            return elide(line, self.width)
        full = f"{line} ({place_text(peak.source)})"
        if len(full) <= self.width:
            return full
        return elide(f"{line} ({place_text(peak.source, function=False)})", self.width)

    # -- the foot --------------------------------------------------------------------------------

    def foot(self, room: _Room) -> list[str]:
        """What loops need, what is copied, what is not counted, and how long it took."""
        lines = self._loops()
        lines += [*self._loop_copy(room.copies), *self._other_copies(room.copies)]
        kernels = any(x.startswith(_SCRATCH) for x in self.report.caveats)
        uncounted = f"{_NOT_COUNTED}, {_SCRATCH}." if kernels else f"{_NOT_COUNTED}."
        times = f"{uncounted} {_times(self.report)}"
        last = [times] if len(times) <= self.width else [uncounted, _times(self.report)]
        notes = self._notes(room.notes)
        return ["", *lines, *[self.paint("dim", line) for line in [*notes, *last]]]

    def _loops(self) -> list[str]:
        loops = [x for x in self.report.computations if x.role == "while body"]
        if not loops:
            return []
        loops.sort(key=lambda x: (-x.ladder.arena_bytes, x.name))
        unit = unit_for(loops[0].ladder.arena_bytes)
        text = f"{_LOOPS}: {self._loop(loops[0], unit)}"
        if len(loops) == 1:
            return self._in_lines(text, *self._in_place("carried in place"))
        more = f"{len(loops) - 1} more, at most {unit.text(loops[1].ladder.arena_bytes)}"
        return self._in_lines(text, more, *self._in_place("all carried in place"))

    def _in_place(self, words: str) -> list[str]:
        """These words, where no copy of what a loop carries is needed."""
        execution = self.report.execution
        loops = () if execution is None else execution.loops
        if not loops or not all(x.in_place for x in loops):
            return []
        own = sum([x.own_bytes for x in loops])
        return [f"{words} but for own copies of {unit_for(own).text(own)}" if own else words]

    def _in_lines(self, text: str, *parts: str) -> list[str]:
        """A sentence on one line, or two where it is longer."""
        sentence = "; ".join([text, *parts])
        if len(sentence) < self.width or not parts:
            return [f"{sentence}."]
        return [f"{text};", f"{'; '.join(parts)}."]

    def _loop_copy(self, most: int) -> list[str]:
        """The largest copy that a loop makes each iteration, why, and how much the others are."""
        execution = self.report.execution
        copies = () if execution is None else execution.copies
        found = [x for x in copies if x.loops and x.is_large]
        return self._largest("Copied each iteration", found, most)

    def _other_copies(self, most: int) -> list[str]:
        """The largest copy outside of loops, why, and how much the others are."""
        execution = self.report.execution
        copies = () if execution is None else execution.copies
        found = [x for x in copies if not x.loops and x.is_large and self.unit.is_visible(x.nbytes)]
        return self._largest("Copied once", found, most)

    def _largest(self, when: str, copies: Sequence[NeededCopy], most: int) -> list[str]:
        if not copies:
            return []
        unit = unit_for(sum([x.nbytes for x in copies]))
        what = f"{when}: {unit.text(sum([x.nbytes for x in copies]))}"
        if len(copies) > 1:
            what += f" in {len(copies):,} arrays, the largest"
            what += f" {unit.text(copies[0].nbytes)}"
        reason = copies[0].reason.text()
        if any(x.reason == reason for x in self._refused()[:1]):
            return [f"{what}."] if most else []  # The reason stands above.
        return whole_or_short(what, reason, self.width, most)

    def _loop(self, loop: ComputationMemory, unit: Unit) -> str:
        name = elide(loop.caller.name, 20)
        optimal = ", optimal" if loop.ladder.optimal else ""
        figure = f"{unit.text(loop.ladder.arena_bytes)} per iteration{optimal}"
        source = user_frame(loop.caller.stack)
        if source is None or not source.file:
            return f"{name} {figure}"
        room = self.width - len(name) - len(figure) - len(_LOOPS) - 7
        return f"{name} ({elide(place_text(source, function=False), room)}) {figure}"

    def _notes(self, most: int) -> list[str]:
        """As many caveats as fit into `most` lines, from the first on."""
        caveats = self.report.caveats
        candidates = [x for x in caveats if "not counted" not in x]
        lines: list[str] = []
        for count in range(1, len(candidates) + 1):
            text = " ".join([_sentence(caveat) for caveat in candidates[:count]])
            if count < len(caveats):
                text += f" ({len(caveats) - count} more in --json)"
            wrapped = textwrap.wrap(text, self.width)
            if len(wrapped) > most:
                break
            lines = wrapped
        return lines


# -- phrases -----------------------------------------------------------------------------------


def _proof(ladder: Ladder, unit: Unit) -> str:
    if ladder.optimal:
        return "no order of this program needs less"
    if not unit.is_visible(ladder.bound_bytes):
        return "the least possible is not known"
    return f"no order of this program needs less than {unit.number(ladder.bound_bytes)}"


def quality(ladder: Ladder, least_arena_bytes: int) -> str:
    """Return how good the order and the offsets are, e.g. `order optimal, packing +0.1%`.

    No offsets need less than `least_arena_bytes`: what is live, each buffer rounded up.
    """
    packing = _above(ladder.arena_bytes, least_arena_bytes)
    order = _above(ladder.live_bytes, ladder.bound_bytes)
    if order == packing == "optimal":
        return "optimal"
    return f"order {order}, packing {packing}"


def _possible_gain(figure: int, least: int) -> str:
    """How much of a figure could be gained at most, in tenths of a percent that are not too few."""
    gain = max(figure - least, 0)
    if not gain:
        return "nothing can be gained"
    return f"at most {-(-1000 * gain // figure) / 10:.1f}% can still be gained"


def _above(figure: int, least: int) -> str:
    """How far a figure is above the least that it can be."""
    if figure <= least:
        return "optimal"
    if not least or figure > 10 * least:
        return "unproven"
    excess = 100 * (figure - least) / least
    return f"+{excess:.0f}% at most" if excess >= 10 else f"+{max(excess, 0.1):.1f}%"


def _sentence(caveat: str) -> str:
    first = caveat.split(maxsplit=1)[0]
    start = caveat[0].upper() if first.isalpha() else caveat[0]
    return f"{start}{caveat[1:]}."


def _and(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]


def _times(report: MemoryReport) -> str:
    seconds = report.seconds
    total = sum(seconds.values())
    slowest = sorted(seconds, key=lambda stage: -seconds[stage])[:2]
    parts = [f"{stage} {seconds[stage]:.1f}" for stage in slowest if seconds[stage] >= 0.05]
    shown = ", ".join(parts)
    return f"Took {total:.1f} s ({shown})." if shown else f"Took {total:.2f} s."


_JOINED: Final = "\N{NO-BREAK SPACE}"
"""In place of a space at which no line ends."""


def _unbroken(size: str) -> str:
    """Return a number and its unit so that they stand on one line."""
    return size.replace(" ", _JOINED)


def _wrapped(text: str, width: int) -> list[str]:
    """Return a text in lines, with plain spaces."""
    return [x.replace(_JOINED, " ") for x in textwrap.wrap(text, width)]
