"""Faults planted in a copy of the sources, one at a time: which tests see each of them?

    python benchmarks/planted_faults.py [--layer NAME ...] [--only NAME ...] [--list] [--again]
                                        [--write FILE]

`benchmarks/faults/` has the faults. Each replaces a text that occurs once in a file of the package,
and names the tests that should fail. These run in a temporary copy of the tree, first without any
fault, where they have to pass, then with each of their faults. What was found is kept beside the
table of `--write` and serves again as long as fault, file and tests are the same. Where only some
faults or layers are planted, the rows of the others stay in the table as they are. Exit status 1
where a fault that is not said to be equivalent survives, or cannot be planted.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from compileall import compile_dir
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from platform import processor
from textwrap import fill
from time import monotonic
from typing import Final

ROOT: Final = Path(__file__).parents[1]
PACKAGE: Final = "src/lowtide"
FAULTS: Final = ROOT / "benchmarks" / "faults"
DOCUMENT: Final = ROOT / "docs" / "planted_faults.md"
COPIED: Final = ("src", "tests", "benchmarks", "docs", "examples")
LEAST_SECONDS: Final = 60.0
"""What tests may take at least, however quick they are without a fault."""
SLACK: Final = 5.0
"""A run that takes this many times as long as without a fault counts as a hang."""

CAUGHT: Final = "caught"
HANG: Final = "caught: does not end"
SURVIVED: Final = "survived"
EQUIVALENT: Final = "equivalent"
STALE: Final = "stale"
BROKEN: Final = "tests fail without it"
SEEN: Final = (CAUGHT, HANG)


@dataclass(frozen=True, slots=True)
class Fault:
    """A mistake: `find`, which occurs once in `file` of the package, is replaced by `put`.

    `tests` are files or folders, or single tests, that should fail then. `equivalent` says why no
    test can tell the difference; empty where one can.
    """

    name: str
    layer: str
    file: str
    find: str
    put: str
    tests: tuple[str, ...]
    equivalent: str = ""

    @property
    def path(self) -> str:
        """The file, from the root of the tree on."""
        return f"{PACKAGE}/{self.file}"

    def planted(self, text: str) -> str | None:
        """Return a file's text with the fault; None where the fault is stale."""
        return text.replace(self.find, self.put) if text.count(self.find) == 1 else None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a fault: a state, the first test that failed, and seconds."""

    state: str
    test: str = ""
    seconds: float = 0.0


def faults() -> list[Fault]:
    """Return all faults, by file of the table, then in its order."""
    found = []
    for path in sorted(FAULTS.glob("*.toml")):
        for row in tomllib.loads(path.read_text())["fault"]:
            row["tests"] = tuple(row["tests"])
            found.append(Fault(layer=path.stem, **row))
    return found


# -- a copy of the tree ----------------------------------------------------------------------------


class PlantedTree:
    """A copy of the tree in a temporary folder, in which tests run."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "tree"
        for name in COPIED:
            ignored = shutil.ignore_patterns("__pycache__", "*.jsonl")
            shutil.copytree(ROOT / name, self.root / name, ignore=ignored)
        for path in ROOT.iterdir():
            if path.is_file() and not path.name.startswith("."):
                shutil.copy2(path, self.root)
        shared = ROOT.parent / "shared"
        if shared.exists():
            (folder / "shared").symlink_to(shared.resolve())
        # Nothing writes byte code later: that of a fault must not outlive it.
        compile_dir(self.root / "src", quiet=1)
        compile_dir(self.root / "tests", quiet=1)
        self.clean: dict[tuple[str, ...], Outcome] = {}

    def outcome(self, fault: Fault) -> Outcome:
        """Return what the tests of a fault say of it."""
        path = self.root / fault.path
        planted = fault.planted(path.read_text()) if path.exists() else None
        if planted is None:
            return Outcome(STALE)
        clean = self._clean(fault.tests)
        if clean.state != SURVIVED:
            return Outcome(BROKEN, clean.test, clean.seconds)
        kept = path.with_suffix(".kept")
        shutil.copy2(path, kept)
        path.write_text(planted)
        try:
            found = self._run(fault.tests, max(LEAST_SECONDS, SLACK * clean.seconds))
        finally:
            kept.replace(path)
        if found.state == SURVIVED and fault.equivalent:
            return Outcome(EQUIVALENT, "", found.seconds)
        return found

    def _clean(self, tests: tuple[str, ...]) -> Outcome:
        """What tests say of the tree as it is."""
        if tests not in self.clean:
            self.clean[tests] = self._run(tests, 20 * LEAST_SECONDS)
        return self.clean[tests]

    def _run(self, tests: Sequence[str], deadline: float) -> Outcome:
        options = ("-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist")
        environment = dict(os.environ, PYTHONPATH=str(self.root / "src"))
        environment["PYTHONDONTWRITEBYTECODE"] = "1"
        begin = monotonic()
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest", *options, *tests],
            cwd=self.root,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=deadline)
        except subprocess.TimeoutExpired:
            return Outcome(HANG, "", monotonic() - begin)
        finally:
            _end(process)
        seconds = round(monotonic() - begin, 1)
        if process.returncode == 0:
            return Outcome(SURVIVED, "", seconds)
        return Outcome(CAUGHT, _failed(output, process.returncode), seconds)


def _end(process: subprocess.Popen[str]) -> None:
    """End a process with all that it started, if it still runs."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _failed(output: str, status: int) -> str:
    """The first test that failed, or how the run ended without one."""
    found = re.search(r"^(?:FAILED|ERROR) ([^\s\[]+)", output, re.MULTILINE)
    if found is not None:
        return found.group(1).removeprefix("tests/")
    if status < 0:
        return f"signal {-status}"
    raise SystemExit(f"pytest ended with {status}, but no test failed:\n{output[-2000:]}")


# -- what was found before -------------------------------------------------------------------------


class Results:
    """Outcomes by the digest of what they depend on, one a line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.known: dict[str, Outcome] = {}
        if path.exists():
            for line in path.read_text().splitlines():
                row = json.loads(line)
                digest = row.pop("digest")
                self.known[digest] = Outcome(**row)

    def add(self, digest: str, outcome: Outcome) -> None:
        """Keep an outcome."""
        self.known[digest] = outcome
        with self.path.open("a") as stream:
            stream.write(json.dumps({"digest": digest, **asdict(outcome)}) + "\n")


def digest_of(fault: Fault) -> str:
    """Return what changes with a fault, its file, or its tests."""
    digest = sha256(json.dumps(asdict(fault)).encode())
    for path in (ROOT / fault.path, *_files(fault.tests)):
        digest.update(path.read_bytes() if path.exists() else b"")
    return digest.hexdigest()


def _files(tests: Sequence[str]) -> Iterator[Path]:
    for name in tests:
        path = ROOT / name.partition("::")[0]
        yield from sorted(path.rglob("*.py")) if path.is_dir() else (path,)


# -- the table -------------------------------------------------------------------------------------


def document(
    rows: Sequence[tuple[Fault, Outcome]],
    count: int | None = None,
    places: Mapping[str, str] | None = None,
) -> str:
    """Return the table of all faults, or of those of `count` that were planted.

    `places` says on which processors those of a layer were planted, where not all on this one.
    """
    states = Counter(outcome.state for _, outcome in rows)
    caught = sum([states[x] for x in SEEN])
    head = (
        f"Of {len(rows)} faults, the tests catch {caught}; {states[EQUIVALENT]} are equivalent to "
        f"the code without them, {states[SURVIVED]} survive. Written by `python "
        "benchmarks/planted_faults.py --write docs/planted_faults.md`, a layer at a time with "
        "`--layer NAME`. Each fault is planted by itself in a copy of the tree, where only the "
        "tests that it names run, up to the first that fails; a run that does not end counts as "
        "caught. `--only NAME` plants one."
    )
    if count is not None and count > len(rows):
        head += f" {count - len(rows)} more of {FAULTS.name}/ have no row yet."
    lines = ["# Planted faults", "", fill(head, 100), ""]
    lines += ["| layer | faults | caught | equivalent | survived |", "|---|---|---|---|---|"]
    for layer in dict.fromkeys([fault.layer for fault, _ in rows]):
        found = Counter(outcome.state for fault, outcome in rows if fault.layer == layer)
        cells = [sum(found.values()), sum([found[x] for x in SEEN])]
        cells += [found[EQUIVALENT], found[SURVIVED]]
        lines.append(f"| {layer} | " + " | ".join(map(str, cells)) + " |")
    for layer in dict.fromkeys([fault.layer for fault, _ in rows]):
        place = (places or {}).get(layer) or _processor()
        lines += ["", f"## {layer}", "", f"{_ON}{place}.", ""]
        lines += ["| fault | file | outcome |", "|---|---|---|"]
        lines += [_row(fault, outcome) for fault, outcome in rows if fault.layer == layer]
    return "\n".join(lines) + "\n"


_ON: Final = "Planted on "


def merged(
    text: str, rows: Sequence[tuple[Fault, Outcome]], known: Sequence[Fault]
) -> tuple[list[tuple[Fault, Outcome]], dict[str, str]]:
    """Return the rows of a table with some of them made anew, and the processors of each layer.

    Rows of faults that are no longer known go.
    """
    outcomes, places = _earlier(text)
    for fault, outcome in rows:
        outcomes[fault.layer, fault.name] = outcome
    for layer in dict.fromkeys([fault.layer for fault, _ in rows]):
        fresh = {fault.name for fault, _ in rows}
        is_whole = all(x.name in fresh for x in known if x.layer == layer)
        before = [] if is_whole else places.get(layer, "").split(" and ")
        places[layer] = " and ".join(dict.fromkeys([*filter(None, before), _processor()]))
    every = [(x, outcomes[x.layer, x.name]) for x in known if (x.layer, x.name) in outcomes]
    return every, places


def _earlier(text: str) -> tuple[dict[tuple[str, str], Outcome], dict[str, str]]:
    """The outcomes of a table by layer and fault, and the processors of its layers."""
    outcomes: dict[tuple[str, str], Outcome] = {}
    places: dict[str, str] = {}
    layer = ""
    for line in text.splitlines():
        if line.startswith("## "):
            layer = line.removeprefix("## ")
        elif line.startswith(_ON):
            places[layer] = line.removeprefix(_ON).removesuffix(".")
        elif layer and line.startswith("| ") and not line.startswith("| fault |"):
            name, _, said = [x.strip() for x in line.strip("| ").split(" | ", 2)]
            outcomes[layer, name] = _outcome_said(said)
    return outcomes, places


def _outcome_said(said: str) -> Outcome:
    """The outcome that a row says; see `_row`."""
    if said.startswith(f"{EQUIVALENT}: "):
        return Outcome(EQUIVALENT)
    if said in (HANG, SURVIVED, STALE, BROKEN):
        return Outcome(said)
    return Outcome(CAUGHT, said.replace(" ", "::"))


def _row(fault: Fault, outcome: Outcome) -> str:
    said = outcome.test.replace("::", " ") if outcome.state == CAUGHT else outcome.state
    if outcome.state == EQUIVALENT:
        said = f"equivalent: {fault.equivalent}"
    return f"| {fault.name} | {fault.file} | {said} |"


def _processor() -> str:
    """The name of the processor, as the system has it."""
    path = Path("/proc/cpuinfo")
    found = re.search(r"model name\s*: (.*)", path.read_text()) if path.exists() else None
    return found.group(1) if found is not None else processor() or "an unknown processor"


def write(page: Path, rows: Sequence[tuple[Fault, Outcome]], known: Sequence[Fault]) -> None:
    """Write a table with some rows made anew; those of faults that were not planted stay."""
    text = page.read_text() if page.exists() else ""
    every, places = merged(text, rows, known)
    page.write_text(document(every, len(known), places))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layer", nargs="+", metavar="NAME", help="plant the faults of these only")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="plant these faults only")
    parser.add_argument("--list", action="store_true", help="list the faults, and plant none")
    parser.add_argument("--known", action="store_true", help="use earlier outcomes, and plant none")
    parser.add_argument("--again", action="store_true", help="use no earlier outcomes")
    parser.add_argument("--write", type=Path, help="write the table of all faults to this file")
    given = parser.parse_args()
    known = faults()
    if given.list:
        print("\n".join([f"{x.layer:12} {x.name:48} {x.file}" for x in known]))
        return 0
    unknown = {*(given.only or ())} - {x.name for x in known}
    if unknown:
        parser.error(f"no fault {', '.join(sorted(unknown))}; see --list")
    strange = {*(given.layer or ())} - {x.layer for x in known}
    if strange:
        parser.error(f"no layer {', '.join(sorted(strange))}; see --list")
    chosen = [x for x in known if not given.only or x.name in given.only]
    chosen = [x for x in chosen if not given.layer or x.layer in given.layer]
    results = Results((given.write or DOCUMENT).with_suffix(".jsonl"))
    if given.known:
        digests = [(fault, digest_of(fault)) for fault in chosen]
        rows = [(fault, results.known[x]) for fault, x in digests if x in results.known]
    else:
        rows = list(_outcomes(chosen, results, again=given.again))
    if given.write:
        write(given.write, rows, known)
    states = Counter(outcome.state for _, outcome in rows)
    print(", ".join([f"{count} {state}" for state, count in sorted(states.items())]))
    return int(not {*states} <= {*SEEN, EQUIVALENT})


def _outcomes(
    chosen: Sequence[Fault], results: Results, *, again: bool
) -> Iterator[tuple[Fault, Outcome]]:
    """Plant faults, and say of each what became of it."""
    with tempfile.TemporaryDirectory(prefix="planted-") as folder:
        # Files may change meanwhile: what runs is as it was in the beginning.
        digests = [digest_of(fault) for fault in chosen]
        is_known = not again and all(digest in results.known for digest in digests)
        tree = None if is_known else PlantedTree(Path(folder))
        for fault, digest in zip(chosen, digests, strict=True):
            outcome = None if again else results.known.get(digest)
            if outcome is None and tree is not None:
                outcome = tree.outcome(fault)
                results.add(digest, outcome)
                line = f"{outcome.seconds:6.1f} s  {fault.layer:12} {fault.name:48}"
                print(f"{line} {outcome.state} {outcome.test}", flush=True)
            if outcome is not None:
                yield fault, outcome


if __name__ == "__main__":
    sys.exit(main())
