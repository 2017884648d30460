"""All of lowtide on a graphics processor, in ten minutes: is it right, its speed, its memory.

    python benchmarks/gpu.py [--json gpu.json] [--minutes 9]     # with a card; no other step
    python benchmarks/gpu.py --from gpu.json --write docs/gpu.md # the page, anywhere
    python benchmarks/gpu.py --only "kernels: "                  # where a program's time goes
    python benchmarks/gpu.py --target cuda:emulated              # toy sizes; times mean nothing

It needs no network and no installation of lowtide: NumPy, ml_dtypes, llvmlite, ortools and
cuda-bindings, and ptxas if there is one. With JAX for CUDA (or CuPy) the same work is timed by it.
The programs are those of `--programs FILE`, by default of `jax_corpus.py` in a folder
`shared/benchmarks` here or beside the repository; without JAX or that file, some small ones.

Our work runs in one process, theirs in another; each is ended after an error, so that a kernel that
faults, hangs or takes all memory loses one row. The JSON is written anew after each row.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SOURCES = str(HERE.parent / "src")
if SOURCES not in sys.path:  # Before any other lowtide that is installed, in children too.
    sys.path.insert(0, SOURCES)
    known = os.environ.get("PYTHONPATH", "")
    os.environ["PYTHONPATH"] = os.pathsep.join([SOURCES, known] if known else [SOURCES])

SCHEMA = "lowtide.gpu_benchmark/1"
EMULATED = "cuda:emulated"

NEEDED = ("numpy", "ml_dtypes", "llvmlite", "ortools")
"""Packages without which nothing runs."""

TOLD = (*NEEDED, "cuda-bindings", "jax", "jax-cuda13-plugin", "jax-cuda12-plugin")
"""Packages whose versions are written down."""

OLDEST_LLVMLITE = (0, 50)
"""The first whose LLVM knows the intrinsics that kernels use."""

DEADLINES = {"ours": 90.0, "theirs": 240.0}
"""Seconds that a process may compute, on all its threads, or rest, for one row."""

LAST_SECONDS = 40
"""How long the row that is running when the time is over may still take."""

COPIED = (1 << 20, 1 << 30)
"""Bytes of a copy within the device: of a toy, of a card."""


def main() -> None:
    given = options()
    if given.from_ is not None:
        document = json.loads(given.from_.read_text())
    else:
        check_packages(given.target)
        check_target(given.target)
        if given.theirs is not None and not given.theirs.is_file():
            sys.exit(f"gpu.py: --theirs: there is no file {given.theirs}")
        document = Run(given).document
    from gpu_page import is_wrong, page

    text = page(document)
    print(text)
    if given.write is not None:
        from sections import replace_section

        replace_section(given.write, f"gpu {document['device'].get('name', 'nothing')}", text)
    sys.exit(any("error" in x.get("ours", {}) or is_wrong(x) for x in document["rows"]))


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--target", default="cuda", help="cuda, or cuda:emulated")
    parser.add_argument("--json", type=Path, default=Path("gpu.json"))
    parser.add_argument("--from", dest="from_", type=Path, help="a JSON of an earlier run")
    parser.add_argument("--write", type=Path, help="a document that gets a section for the card")
    parser.add_argument("--minutes", type=float, default=9.0, help="rows begin within")
    parser.add_argument("--seconds", type=float, help="of each timing")
    parser.add_argument("--programs", type=Path)
    parser.add_argument("--no-theirs", action="store_true", help="nothing is compared with")
    parser.add_argument("--theirs", type=Path, help="their figures are those of an earlier JSON")
    parser.add_argument("--only", default="", help="parts of the names of rows, between commas")
    return parser.parse_args()


def check_packages(target: str) -> None:
    """Print in one line what is missing, and end, where nothing can run."""
    missing = [x for x in NEEDED if not installed(x)]
    if target != EMULATED and not installed("cuda-bindings"):
        missing.append("cuda-bindings")
    found = tuple([int(x) for x in installed("llvmlite").split(".")[:2] if x.isdigit()])
    if found and found < OLDEST_LLVMLITE:
        missing.append(f"llvmlite >= 0.50 (it is {installed('llvmlite')})")
    if missing:
        sys.exit(f"gpu.py: this Python lacks {', '.join(missing)}; see docs/gpu.md, On a card")


def check_target(target: str) -> None:
    """Print in one line which names there are, and end, where a target has none of them."""
    from lowtide.options import Options

    try:
        Options(target=target)
    except ValueError as error:
        sys.exit(f"gpu.py: {error}")


def installed(package: str) -> str:
    """The version of a package, "" where it is not there."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


# -- the run ---------------------------------------------------------------------------------------


@dataclass
class Side:
    """A process that is asked, and ended after an error."""

    process: Any
    deadline: float

    def ask(self, request: tuple[Any, ...]) -> dict[str, Any]:
        """Its answer, or {"error": why there is none}."""
        from asked_process import NoAnswerError

        try:
            self.process.ask(request)
            answer: dict[str, Any] = self.process.message()
        except NoAnswerError as error:
            late = {"error": f"no answer within {self.deadline:.0f} s"}
            return late if error.kind == "hang" else DIED
        except OSError as error:  # The process was gone when it was asked.
            self.process.close()
            return {"error": f"the process is gone: {error}"}
        if "error" in answer:
            self.process.close()
        return answer


DIED = {"error": "the process died"}


class TimeIsOverError(Exception):
    """The row that was running when the time was over did not end."""


def _stop(*_: object) -> None:
    raise TimeIsOverError


class Run:
    """Rows one after the other, until all are there or the time is over."""

    def __init__(self, given: argparse.Namespace) -> None:
        import gpu_ours
        import gpu_theirs
        from asked_process import AskedProcess

        self.given, self.begin = given, time.monotonic()
        self.is_toy = given.target == EMULATED
        self.seconds = given.seconds if given.seconds is not None else 0.0 if self.is_toy else 0.3
        serves = {"ours": gpu_ours.serve, "theirs": gpu_theirs.serve}
        self.ours, self.theirs = [
            Side(AskedProcess(serves[x], seconds), seconds) for x, seconds in DEADLINES.items()
        ]
        self.file = "" if self.is_toy else program_file(given.programs)
        self.earlier: dict[tuple[str, str], dict[str, Any]] = {}
        """Their figures of an earlier run, by part and name."""
        self.document: dict[str, Any] = {"schema": SCHEMA, "emulated": self.is_toy}
        self.document["packages"] = {x: installed(x) for x in TOLD}
        self.document |= {"device": {}, "others": {}, "rows": [], "not_run": []}
        signal.signal(signal.SIGALRM, _stop)
        signal.alarm(round(60 * given.minutes) + LAST_SECONDS)
        try:
            self._all()
        except TimeIsOverError:
            self.document["stopped"] = "the time was over in the middle of a row"
        finally:
            signal.alarm(0)
            self.ours.process.close()
            self.theirs.process.close()
            self._save()

    def _all(self) -> None:
        from gpu_page import told

        device = self._ours("device")
        if "error" in device:
            sys.exit(f"gpu.py: {device['error'].partition(': ')[2] or device['error']}")
        self.document["device"] = device
        self.document["others"] = self._others()
        self._save()
        for part, name, ask, ask_theirs in self._rows():
            label = f"{part}: {name}"
            if not any(x in label for x in self.given.only.split(",")):
                continue
            if time.monotonic() - self.begin > 60 * self.given.minutes:
                self.document["not_run"].append(label)
                continue
            row = {"part": part, "name": name, "ours": self._ours(*ask)}
            if ask_theirs is not None:
                known = self.earlier.get((part, name))
                row["theirs"] = known or self.theirs.ask(ask_theirs)
            self.document["rows"].append(row)
            self._save()
            print(f"{time.monotonic() - self.begin:6.0f} s  {label}: {told(row)}", file=sys.stderr)

    def _others(self) -> dict[str, Any]:
        """What there is to compare with; earlier figures are of the same card and packages."""
        if self.is_toy or self.given.no_theirs:
            return {"no_jax": "not asked"}
        if self.given.theirs is None:
            return self.theirs.ask(("device", ()))
        told = json.loads(self.given.theirs.read_text())
        for part, field in (("device", "name"), ("packages", "jax")):
            there, here = told[part].get(field), self.document[part].get(field)
            if there != here:
                sys.exit(f"gpu.py: --theirs: {part}, {field}: {there} there, {here} here")
        rows = [x for x in told["rows"] if x.get("theirs")]
        self.earlier = {(x["part"], x["name"]): x["theirs"] for x in rows}
        others: dict[str, Any] = told["others"]
        return others

    def _ours(self, what: str, *others: Any) -> dict[str, Any]:
        return self.ours.ask((what, self.given.target, others))

    def _rows(self) -> Iterator[tuple[str, str, tuple[Any, ...], tuple[Any, ...] | None]]:
        """Part, name, what ours is asked and what theirs is, the most important first."""
        seconds = self.seconds
        yield "copy", "within the device", ("copy", COPIED[not self.is_toy], seconds), None
        by = "jax" if "jax" in self.document["others"] else "cupy"
        by = by if by in self.document["others"] else ""
        yield from self._cases(False, by)
        names, file = self._programs()
        for name in names:
            yield "right", name, ("right", file, "small", name), None
        for name in self._short_first(names):
            asked = ("speed", (file, "medium", name, seconds)) if by == "jax" and file else None
            yield "programs", name, ("speed", file, "medium", name, seconds), asked
        yield from self._cases(True, by)
        for name in names:
            yield "kernels", name, ("kernels", file, "medium", name, seconds), None

    def _cases(self, is_order: bool, by: str) -> Iterator[tuple[str, str, Any, Any]]:
        from gpu_cases import cases

        for x in cases(self.is_toy):
            if (x.part == "orders") is is_order:
                label = f"{x.part}: {x.name}"
                asked = ("case", (self.is_toy, label, self.seconds, by)) if by else None
                yield x.part, x.name, ("case", self.is_toy, label, self.seconds), asked

    def _programs(self) -> tuple[Sequence[str], str]:
        """The names of the programs that there are, and the file that they are in."""
        file = self.file
        small = self._ours("names", file, "small")
        if "error" in small and file:
            self.document["programs_missing"] = small["error"]
            file = ""
            small = self._ours("names", file, "small")
        return small.get("names", ()), file

    def _short_first(self, names: Sequence[str]) -> list[str]:
        """Programs that were compiled fast, by us at a small scale and by them, ahead of others."""
        took = {
            x["name"]: x["ours"].get("compile_seconds", float("inf"))
            for x in self.document["rows"]
            if x["part"] == "right"
        }
        for (part, name), theirs in self.earlier.items():
            if part == "programs":
                took[name] = took.get(name, 0.0) + theirs.get("compile_seconds", float("inf"))
        return sorted(names, key=lambda x: took.get(x, float("inf")))

    def _save(self) -> None:
        self.document["wall_seconds"] = round(time.monotonic() - self.begin, 1)
        new = self.given.json.with_name(f".{self.given.json.name}.new")
        new.write_text(json.dumps(self.document, indent=1))
        new.replace(self.given.json)


def program_file(given: Path | None) -> str:
    """The file of the programs, "" where there is none."""
    places: Sequence[Path] = [
        HERE.parents[i] / "shared" / "benchmarks" / "jax_corpus.py" for i in (0, 1)
    ]
    if given is not None and not given.is_file():
        sys.exit(f"gpu.py: --programs: there is no file {given}")
    found = [x for x in ([given] if given else places) if x.is_file()]
    return str(found[0]) if found else ""


if __name__ == "__main__":
    main()
