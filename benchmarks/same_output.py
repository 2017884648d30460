"""Whether two trees of lowtide write the same bytes: reports, plans, passes, kernels, certificates.

  python benchmarks/same_output.py record TREE -o BEFORE.json FILE_OR_FOLDER [..] [--keep FOLDER]
  python benchmarks/same_output.py compare BEFORE.json AFTER.json

`record` runs the commands of a source tree on each module and memory graph and writes a digest of
every file and of all that they print. Modules are explained, planned, and compiled with the text
after every pass and the LLVM text of every kernel, or optimized with those texts where they have no
native code; small ones also get a certificate for a budget of three quarters of their arena. Graphs
are ordered, with their certificate. Left out are `seconds`, and from LLVM text the names of
symbols. `--keep` leaves the files that the digests are of, to see what differs. `compare` prints
each difference and ends with status 1 where there is one.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

MODULE_SUFFIXES: Final = (".hlo", ".txt", ".pb")
SMALL: Final = 400
"""Modules of at most so many instructions are planned to a budget, too."""

DEADLINE: Final = "100000"
"""Seconds that searches may take: so long that only their own limits end them."""

_SYMBOL: Final = re.compile(rb"@(?!llvm\.)[A-Za-z_$.][\w$.]*")
_SECONDS: Final = re.compile(r"^(seconds|.*_seconds_measured)$")


def inputs(given: Sequence[Path]) -> Iterator[Path]:
    """Yield the modules and graphs that paths name, those in a folder sorted."""
    for path in given:
        yield from sorted(x for x in path.iterdir() if x.is_file()) if path.is_dir() else [path]


def kind_of(path: Path) -> str:
    """Return "graph", "module", or "" for another file."""
    name = path.name.removesuffix(".xz").removesuffix(".gz")
    if name.endswith(".json"):
        return "graph"
    return "module" if name.endswith(MODULE_SUFFIXES) else ""


class Recorder:
    """Digests of what a tree writes for files, by file and by what it is."""

    def __init__(self, tree: Path, keep: Path | None, only: str) -> None:
        self.tree = tree
        self.keep = keep
        self.only = only
        self.found: dict[str, dict[str, str]] = {}

    def record(self, path: Path) -> None:
        """Add the digests of what is written for one file."""
        kind = kind_of(path)
        if not kind or self.only not in path.name:
            return
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder)
            (self._module if kind == "module" else self._graph)(path, place)
            self.found[path.name] = {
                str(x.relative_to(place)): digest(x)
                for x in sorted(place.rglob("*"))
                if x.is_file()
            }
            if self.keep is not None:
                shutil.copytree(place, self.keep / path.name, dirs_exist_ok=True)
        print(f"{path.name}: {len(self.found[path.name])} files", file=sys.stderr, flush=True)

    def _module(self, path: Path, place: Path) -> None:
        report = self._json(place / "explain.json", "explain", path, "--json")
        self._json(place / "plan.json", "plan", path, "--json", "--deadline", DEADLINE)
        dumps = ["--dump-to", place / "dumps", "--dump-pass-re", ".*"]
        compiled = self._run("compile", path, *dumps, "--threads", 2)
        (place / "compile.status").write_text(f"{compiled.returncode}\n{_stable(compiled.stderr)}")
        if compiled.returncode:
            optimized = self._run("opt", path, "--stage", "scheduled", *dumps)
            (place / "optimized.txt").write_text(optimized.stdout)
        if 0 < report.get("instructions", 0) <= SMALL:
            budget = max(1, report["ladder"]["arena_bytes"] * 3 // 4)
            written = place / "budget.json"
            given = ["--budget", budget, "--deadline", DEADLINE, "-o", written]
            self._json(place / "budget_plan.json", "plan", path, "--json", *given)
            if written.exists():
                strip_seconds(written)

    def _graph(self, path: Path, place: Path) -> None:
        written = place / "order.json"
        given = ["--deadline", DEADLINE, "-o", written]
        self._json(place / "plan.json", "plan", path, "--json", *given)
        if written.exists():
            strip_seconds(written)

    def _json(self, place: Path, *command: object) -> dict[str, Any]:
        """Run a command that prints JSON; keep it without its times, and return it."""
        run = self._run(*command)
        place.write_text(run.stdout or _stable(run.stderr))
        return strip_seconds(place)

    def _run(self, *command: object) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PYTHONPATH": str(self.tree / "src"), "COLUMNS": "100"}
        words = [sys.executable, "-m", "lowtide", *map(str, command)]
        return subprocess.run(words, capture_output=True, text=True, env=environment, check=False)


def strip_seconds(path: Path) -> dict[str, Any]:
    """Take the times out of a JSON file; return the document, {} where it is none."""
    try:
        document = json.loads(path.read_text())
    except ValueError:
        return {}
    path.write_text(json.dumps(_without_seconds(document), indent=1))
    return document if isinstance(document, dict) else {}


def _without_seconds(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_seconds(x) for k, x in value.items() if not _SECONDS.match(k)}
    return [_without_seconds(x) for x in value] if isinstance(value, list) else value


def _stable(text: str) -> str:
    """An error without the names of temporary folders."""
    return re.sub(re.escape(tempfile.gettempdir()) + r"/\S+", "FOLDER", text)


def digest(path: Path) -> str:
    """Return the SHA-256 of a file; symbols of LLVM text are numbered as they come first."""
    data = path.read_bytes()
    if path.suffix == ".ll":
        names: dict[bytes, bytes] = {}
        data = _SYMBOL.sub(lambda x: names.setdefault(x[0], b"@%d" % len(names)), data)
        path.write_bytes(data)
    return hashlib.sha256(data).hexdigest()


def differences(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Return a line for each file that differs, is missing, or is new."""
    lines = []
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name, {}), after.get(name, {})
        for part in sorted(old.keys() | new.keys()):
            if old.get(part) != new.get(part):
                what = "differs" if part in old and part in new else "is in one tree only"
                lines.append(f"{name}: {part} {what}")
    return lines


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    record = commands.add_parser("record", help="digests of what a tree writes")
    record.add_argument("tree", type=Path)
    record.add_argument("files", type=Path, nargs="+")
    record.add_argument("-o", "--output", type=Path, required=True)
    record.add_argument("--keep", type=Path)
    record.add_argument("--only", default="", help="files whose names have this text")
    compare = commands.add_parser("compare", help="the differences of two records")
    compare.add_argument("before", type=Path)
    compare.add_argument("after", type=Path)
    given = parser.parse_args()
    if given.command == "record":
        recorder = Recorder(given.tree.resolve(), given.keep, given.only)
        for path in inputs(given.files):
            recorder.record(path)
            given.output.write_text(json.dumps(recorder.found, indent=1, sort_keys=True))
        return 0
    before, after = (json.loads(x.read_text()) for x in (given.before, given.after))
    lines = differences(before, after)
    print(
        "\n".join([*lines, f"{len(lines)} differences in {sum(map(len, before.values()))} files"])
    )
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main())
