"""JAX's own tests on the platform "lowtide" and on XLA's: what passes there and not here, and why.

Each test runs once with `JAX_PLATFORMS=lowtide,cpu` and once with `cpu`. A miss is a test that
passes on XLA's platform and fails, crashes, ends late or is skipped on ours.
"""

from __future__ import annotations

import argparse
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from jax_suite_children import Event, Setting, listed, processor, run_tests, test_files
from jax_suite_expected import EXPECTED

OURS: Final = "lowtide,cpu"
THEIRS: Final = "cpu"

VERDICTS: Final = ("passed", "failed", "skipped", "late", "crashed")


@dataclass(frozen=True)
class Outcome:
    """What came of one test on one platform: the verdict, seconds, and the end of what it said."""

    verdict: str
    seconds: float
    what: str


class Results:
    """Outcomes by platform, file and test; those of a file of earlier runs are there at once."""

    def __init__(self, keep: Path | None) -> None:
        self._keep = keep
        self._found: dict[tuple[str, str, str], Outcome] = {}
        if keep and keep.exists():
            for line in keep.read_text().splitlines():
                key, outcome = json.loads(line)
                self._found[tuple(key)] = Outcome(*outcome)

    def of(self, setting: Setting, name: str) -> Outcome | None:
        """Return what came of a test, None where it did not run."""
        return self._found.get(self._key(setting, name))

    def run(self, setting: Setting, names: Sequence[str]) -> None:
        """Run the tests that did not run yet."""

        def take(events: list[Event]) -> None:
            lines = []
            for event in events:
                if event["event"] in VERDICTS:
                    key = self._key(setting, event["test"])
                    what = event.get("what", "")[-1500:]
                    outcome = Outcome(event["event"], event.get("seconds", 0.0), what)
                    self._found[key] = outcome
                    lines.append(json.dumps([key, [outcome.verdict, outcome.seconds, what]]) + "\n")
            if self._keep:
                with self._keep.open("a") as file:
                    file.writelines(lines)

        run_tests(setting, [x for x in names if self.of(setting, x) is None], take)

    def _key(self, setting: Setting, name: str) -> tuple[str, str, str]:
        width = ", 64 bits" if setting.x64 else ""
        return setting.platforms, setting.file.stem + width, name


@dataclass(frozen=True)
class FileTally:
    """What came of the tests of one file: pairs of outcomes, ours and XLA's, by test."""

    pairs: dict[str, tuple[Outcome, Outcome]]

    def count(self, side: int, *verdicts: str) -> int:
        """Return how many tests of a side, 0 for ours, ended in one of some ways."""
        return sum([x[side].verdict in verdicts for x in self.pairs.values()])

    def seconds(self, side: int) -> float:
        """Return the seconds that the tests of a side took."""
        return sum([x[side].seconds for x in self.pairs.values()])

    def misses(self) -> Iterator[tuple[str, Outcome]]:
        """Yield the tests that pass on XLA's platform and not on ours."""
        for name, (ours, theirs) in self.pairs.items():
            if theirs.verdict == "passed" and ours.verdict != "passed":
                yield name, ours

    @property
    def share(self) -> float:
        """The share of tests that pass here among those that pass on XLA's platform."""
        passing = self.count(1, "passed")
        return 1 - len(list(self.misses())) / passing if passing else 1.0


def reason_of(outcome: Outcome) -> str:
    """Return the last line of what a test said that names an error, in one short line."""
    lines = [x.strip() for x in outcome.what.strip().splitlines() if x.strip(" -^~")]
    errors = [x for x in lines if re.match(r"[\w.]*(Error|Exception|Failure|Interrupt)\b", x)]
    text = re.sub(r"/\S*/", "", (errors or lines or [""])[-1])
    return f"{outcome.verdict}: {text}"[:240]


def expected(name: str, reason: str) -> str:
    """Return why a miss is expected, an empty text where it is not."""
    for pattern, why in EXPECTED.items():
        if re.search(pattern, f"{name} {reason}"):
            return why
    return ""


# -- printing --------------------------------------------------------------------------------------

HEAD: Final = (
    "file | XLA:CPU passed | failed | skipped | seconds | lowtide passed | failed | skipped | "
    "crashed or late | seconds | of those that pass on XLA:CPU"
)


def row(name: str, x: FileTally) -> str:
    """Return one line of the table."""
    theirs = [x.count(1, "passed"), x.count(1, "failed", "late", "crashed"), x.count(1, "skipped")]
    ours = [x.count(0, "passed"), x.count(0, "failed"), x.count(0, "skipped")]
    ended = x.count(0, "late", "crashed")
    cells = [*theirs, f"{x.seconds(1):.0f}", *ours, ended, f"{x.seconds(0):.0f}"]
    return " | ".join([name, *map(str, cells), f"{100 * x.share:.1f}%"])


INTRODUCTION: Final = """\
Each file runs unedited, each test once on the platforms `lowtide,cpu` and once on `cpu`, in child
processes. The last column is the share of tests that pass here among those that pass on XLA:CPU;
what is skipped here only counts as a miss.
"""


def report(tallies: dict[str, FileTally], arguments: argparse.Namespace) -> str:
    """Return the page."""
    lines = [
        "# JAX's own tests on the platform `lowtide`",
        "",
        f"Written by `python benchmarks/jax_suite.py --every {arguments.every} "
        f"--cases {arguments.cases} --x64 {arguments.x64} --write docs/jax_suite.md` on "
        f"{processor()}, {os.cpu_count()} cores. [jax_suite_jit.md](jax_suite_jit.md) has the same "
        "tests through `lowtide.jit`.",
        "",
        *INTRODUCTION.splitlines(),
        "",
        f"| {HEAD} |",
        "|" + "---|" * (HEAD.count("|") + 1),
        *[f"| {row(name, x)} |" for name, x in tallies.items()],
    ]
    classes: dict[str, list[str]] = {}
    for name, text in misses_of(tallies):
        line = f"- `{name}`: `{text.replace('`', chr(39))}`"
        classes.setdefault(expected(name, text), []).append(line)
    for why, found in sorted(classes.items()):
        title = f"Expected: {why}" if why else "Not expected"
        lines += ["", f"## Misses: {len(found)}. {title}", "", *found]
    return "\n".join(lines) + "\n"


def misses_of(tallies: Mapping[str, FileTally]) -> list[tuple[str, str]]:
    """Return each miss and its reason."""
    return [(name, reason_of(x)) for y in tallies.values() for name, x in y.misses()]


def measure(arguments: argparse.Namespace) -> bool:
    """Run the tests and print the table; return whether every miss is expected."""
    widths = {"0": [False], "1": [True], "both": [False, True]}[arguments.x64]
    results, tallies = Results(arguments.keep), dict[str, FileTally]()
    print(HEAD, flush=True)
    for file in test_files(arguments.tests, arguments.files):
        for x64 in widths:
            ours = Setting(file, x64, arguments.cases, "xla", OURS)
            theirs = replace(ours, platforms=THEIRS)
            names = listed(theirs)[int(x64) :: arguments.every]
            results.run(theirs, names)
            results.run(ours, names)
            pairs = {x: (results.of(ours, x), results.of(theirs, x)) for x in names}
            name = file.stem + (", 64 bits" if x64 else "")
            tallies[name] = FileTally({x: (a, b) for x, (a, b) in pairs.items() if a and b})
            print(row(name, tallies[name]), flush=True)
            if arguments.write:
                arguments.write.write_text(report(tallies, arguments))
    print(report(tallies, arguments))
    return all(expected(name, reason) for name, reason in misses_of(tallies))
