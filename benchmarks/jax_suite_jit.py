"""JAX's own tests with `lowtide.jit` for `jax.jit`: wrong results, errors, what is missing.

Every N-th test of each file runs, with at most `--cases` cases of each that JAX generates. Results
of lowtide are compared with those of XLA for the same lowered module; a test that fails is run
again with `jax.jit`, and counts where it passes then.
"""

from __future__ import annotations

import argparse
import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from jax_suite_children import Setting, listed, processor, run_tests, test_files

OPERATION: Final = re.compile(r"(?:^|: )([a-z][\w-]*) \(%[^)]*\): (.*?)(?:;|$)")
TARGET: Final = re.compile(r'target "([^"]+)"')


@dataclass
class Tally:
    """What happened in the tests of one file."""

    tests: int = 0
    passed: int = 0
    skipped: int = 0
    calls: int = 0
    wrong: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    crashed: list[str] = field(default_factory=list)
    late: list[str] = field(default_factory=list)
    unsupported: Counter[str] = field(default_factory=Counter)
    parameters: Counter[str] = field(default_factory=Counter)

    @property
    def missing(self) -> int:
        """Calls that lowtide refused."""
        return sum(self.unsupported.values())

    @property
    def share(self) -> float:
        """The share of calls that lowtide refused."""
        return self.missing / max(self.calls + self.missing, 1)


def reason_of(message: str) -> str:
    """Return which operation is missing, and why, without what differs from call to call."""
    target = TARGET.search(message)
    if target:
        return f"custom-call {target[1]}"
    found = OPERATION.search(message)
    text = f"{found[1]}: {found[2]}" if found else message
    return re.sub(r"\d+", "n", text)[:110]


def tally_of(setting: Setting, names: Sequence[str], events: Iterable[dict[str, Any]]) -> Tally:
    """Return the tally of one file; tests that failed run again with `jax.jit`."""
    tally, suspects = Tally(tests=len(names)), []
    kinds: dict[str, list[str]] = {
        "wrong": tally.wrong,
        "foreign": tally.foreign,
        "crashed": tally.crashed,
        "late": tally.late,
    }
    for x in events:
        event = x["event"]
        tally.calls += event == "call"
        tally.passed += event == "passed"
        tally.skipped += event == "skipped"
        if event in kinds:
            kinds[event].append(f"{x['test']}: {x.get('what', '')}")
        elif event == "unsupported":
            tally.unsupported[reason_of(x["what"])] += 1
        elif event == "parameters":
            tally.parameters[x["what"]] += 1
        elif event == "failed":
            suspects.append(x)
    plain = replace(setting, through="xla")
    again = run_tests(plain, [x["test"] for x in suspects]) if suspects else []
    fine = {x["test"] for x in again if x["event"] in ("passed", "skipped")}
    for x in suspects:
        if x["test"] in fine:
            last = x["what"].strip().splitlines()[-1:]
            tally.failed.append(f"{x['test']}: {' '.join(last)[:200]}")
    return tally


# -- printing --------------------------------------------------------------------------------------


def row(name: str, x: Tally) -> str:
    """Return one line of the table."""
    cells = [x.tests, x.calls, len(x.wrong), len(x.foreign), len(x.crashed) + len(x.late)]
    shares = [f"{x.missing} ({100 * x.share:.1f}%)", len(x.failed)]
    return " | ".join([name, *map(str, cells), *map(str, shares)])


HEAD: Final = (
    "file | tests | calls | wrong results | other errors | crashed or late | unsupported | "
    "fail by lowtide only"
)


INTRODUCTION: Final = """\
Each file runs unedited with `jax.jit` replaced: what is called outside of JAX's traces is compiled
by lowtide and by XLA from one lowered module, and the results are compared. `other errors` are
exceptions of lowtide that are no `UnsupportedOpError`; `unsupported` are calls that it refused; the
last column has tests that pass with `jax.jit` and not here.
"""


def report(tallies: dict[str, Tally], arguments: argparse.Namespace) -> str:
    """Return the page."""
    whole = Counter[str]()
    for x in tallies.values():
        whole += x.unsupported
    calls = sum([x.calls + x.missing for x in tallies.values()])
    lines = [
        "# JAX's own tests through `lowtide.jit`",
        "",
        f"Written by `python benchmarks/jax_suite.py --through jit --every {arguments.every} "
        f"--cases {arguments.cases} --x64 {arguments.x64} --write docs/jax_suite_jit.md` on "
        f"{processor()}, {os.cpu_count()} cores.",
        "",
        *INTRODUCTION.splitlines(),
        "",
        f"| {HEAD} |",
        "|" + "---|" * (HEAD.count("|") + 1),
        *[f"| {row(name, x)} |" for name, x in tallies.items()],
        "",
        "## Unsupported, by operation",
        "",
        "| operation | calls | share of all calls |",
        "|---|---|---|",
        *[
            f"| {name.replace('|', '/')} | {count} | {100 * count / max(calls, 1):.2f}% |"
            for name, count in whole.most_common()
        ],
    ]
    for title in ("wrong", "foreign", "crashed", "late", "failed"):
        found = [y for x in tallies.values() for y in getattr(x, title)]
        if found:
            lines += ["", f"## {TITLES[title]}", "", *[f"- `{y[:300]}`" for y in found]]
    return "\n".join(lines) + "\n"


TITLES: Final = {
    "wrong": "Wrong results",
    "foreign": "Other errors",
    "crashed": "Crashed",
    "late": "Late",
    "failed": "Fail by lowtide only",
}


def measure(arguments: argparse.Namespace) -> bool:
    """Run the tests and print the table; return True: what fails is listed there."""
    widths = {"0": [False], "1": [True], "both": [False, True]}[arguments.x64]
    tallies: dict[str, Tally] = {}
    print(HEAD, flush=True)
    for file in test_files(arguments.tests, arguments.files):
        for x64 in widths:
            setting = Setting(file, x64, arguments.cases, "jit", "cpu")
            names = listed(setting)[int(x64) :: arguments.every]
            events = run_tests(setting, names)
            if arguments.keep:
                with arguments.keep.open("a") as keep:
                    keep.writelines([json.dumps(x) + "\n" for x in events])
            name = file.stem + (", 64 bits" if x64 else "")
            tallies[name] = tally_of(setting, names, events)
            print(row(name, tallies[name]), flush=True)
            if arguments.write:
                arguments.write.write_text(report(tallies, arguments))
    print(report(tallies, arguments))
    return True
