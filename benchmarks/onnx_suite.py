"""ONNX's own suite of backend tests on `lowtide.onnx`, in process.

    python benchmarks/onnx_suite.py run RESULTS.jsonl [--kind node] [--match REGEX]
                                        [--engine reference] [--again]
    python benchmarks/onnx_suite.py report RESULTS.jsonl [-o docs/onnx.md]

`run` leaves out cases that RESULTS has, so it can be stopped and started again; with `--again`
those that failed are run once more. Each outcome has the version of the code. `report` writes how
many cases pass, and a short reason of each that does not.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator", "real")
SECONDS = 300


def cases(kind: str) -> list[Any]:
    """Return the cases of a kind, in order of their names."""
    from onnx.backend.test.loader import load_model_tests

    return sorted(load_model_tests(kind=kind), key=lambda case: case.name)


def run_case(case: Any, engine: str) -> None:
    """Run a case with all of its data; raises what is wrong."""
    import onnx
    from onnx.backend.test.runner import Runner

    from lowtide.onnx import Backend

    model, folder = case.model, case.model_dir
    if model is None:
        file = Path(folder) / "model.onnx" if folder else Path(onnx.__file__).parents[1] / case.url
        model = onnx.load(file)
    prepared = Backend.prepare(model, engine=engine, cache=False, effort="fast", threads=1)
    if case.data_sets is not None:
        data = case.data_sets
    else:
        data = stored_data(model, folder) if folder else light_data(model, file)
    for inputs, outputs in data:
        results = prepared.run([plain(x) for x in inputs])
        outputs = [plain(x) for x in outputs]
        Runner.assert_similar_outputs(outputs, results, case.rtol, case.atol, model_dir=folder)


def light_data(model: Any, file: Path) -> list[Any]:
    """Return the input that the suite makes for a model, and the output that lies beside it."""
    from onnx.backend.test.runner import Runner

    constants = {x.name for x in model.graph.initializer}
    given = [x for x in model.graph.input if x.name not in constants]
    inputs = [Runner.generate_dummy_data(x, seed=0, name=file.stem, random=False) for x in given]
    outputs: list[Any] = []
    for i, value in enumerate(model.graph.output):
        Runner._load_proto(None, file.with_name(f"{file.stem}_output_{i}.pb"), outputs, value.type)
    return [(inputs, outputs)]


def plain(value: Any) -> Any:
    """Return a tensor of the suite as an array, anything else as it is."""
    from onnx import TensorProto, numpy_helper

    return numpy_helper.to_array(value) if isinstance(value, TensorProto) else value


def stored_data(model: Any, folder: str) -> list[Any]:
    """Return the pairs of inputs and outputs in the folder of a case."""
    import numpy as np
    from onnx.backend.test.runner import Runner

    found: list[Any] = []
    for file in sorted(Path(folder).glob("test_data_*.npz")):
        data = np.load(file, encoding="bytes")
        found.append((list(data["inputs"]), list(data["outputs"])))
    for place in sorted(Path(folder).glob("test_data_set*")):
        pair: tuple[list[Any], list[Any]] = ([], [])
        sides = ("input", model.graph.input), ("output", model.graph.output)
        for values, (side, types) in zip(pair, sides, strict=True):
            for i in range(len(list(place.glob(f"{side}_*.pb")))):
                Runner._load_proto(None, place / f"{side}_{i}.pb", values, types[i].type)
        found.append(pair)
    return found


def outcome(case: Any, engine: str) -> dict[str, Any]:
    """Return what became of a case: its reason is "" where it passed."""
    start = time.perf_counter()
    reason = ""
    try:
        signal.alarm(SECONDS)
        run_case(case, engine)
    except Exception as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        reason = f"{type(error).__name__}: {' '.join(lines)}"
    finally:
        signal.alarm(0)
    return {"name": case.name, "reason": reason, "seconds": round(time.perf_counter() - start, 3)}


def run(args: argparse.Namespace) -> None:
    def late(*_: Any) -> None:
        raise TimeoutError(f"longer than {SECONDS} s")

    signal.signal(signal.SIGALRM, late)
    from code_version import code_version

    known, code = read(args.results), code_version()
    failed = 0
    with args.results.open("a") as file:
        for kind in [args.kind] if args.kind else KINDS:
            for case in cases(kind):
                before = known.get((kind, case.name))
                if not re.search(args.match, case.name) or (
                    before and not (args.again and before["reason"])
                ):
                    continue
                found = {"kind": kind, "engine": args.engine, "version": code}
                found |= outcome(case, args.engine)
                if found["reason"]:
                    failed += 1
                    print(case.name, found["reason"][: args.width])
                file.write(json.dumps(found) + "\n")
                file.flush()
    after = read(args.results)
    passed = len([x for x in after.values() if not x["reason"]])
    print(f"{failed} failed now; {passed} of {len(after)} pass")


def read(file: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the last outcome of each case."""
    lines = file.read_text().splitlines() if file.exists() else []
    rows = [json.loads(line) for line in lines]
    return {(row["kind"], row["name"]): row for row in rows}


EXPLAINED = (
    (r"^test_bernoulli", "random numbers are not those of the reference"),
    (r"^test_loop16_seq_none$", "the suite compares no sequence of numbers without dimensions"),
)
"""Cases whose messages do not say why they fail, by their names."""

FORMS = (
    (r"there is no kernel for '([^']+)'", r"no kernel for {0}"),
    (
        r"Mismatched elements: (\d+) / (\d+).*?Max absolute difference[^:]*: ([-+.\de]+)",
        "{0} of {1} numbers are off, by at most {2}",
    ),
    (
        r"incorrect shape \(shapes (\([^)]*\)), (\([^)]*\)) mismatch\)",
        "a result of shape {0}, not {1}",
    ),
)
"""What messages come to."""


def short(row: dict[str, Any]) -> str:
    """Return why a case fails in a few words."""
    for name, why in EXPLAINED:
        if re.search(name, row["name"]):
            return why
    for pattern, text in FORMS:
        found = re.search(pattern, row["reason"])
        if found:
            return text.format(*found.groups())
    return row["reason"].partition(". ")[0]


HEADING = "## ONNX's suite of backend tests"
"""The heading of the report; what stands before it in the file stays."""


def report(args: argparse.Namespace) -> None:
    import onnx

    rows = list(read(args.results).values())
    engines = sorted({row["engine"] for row in rows})
    lines = [
        HEADING,
        "",
        f"`python benchmarks/onnx_suite.py` ran the cases of onnx {onnx.__version__} on",
        f"`lowtide.onnx`, engine {' and '.join(engines)}: native code, and nodes on the host for",
        "what has no tensor form (text, sequences, optional values, trees, random numbers, regions",
        "of images, loops whose bodies or sizes no module can have). Each case counts once, by the",
        "tolerances of the suite; none is left out. The code was that of commit",
        f"{' and '.join(sorted({row['version'] for row in rows}))}.",
        "",
        "| kind | cases | passed |",
        "|---|---|---|",
    ]
    for kind in KINDS:
        of_kind = [row for row in rows if row["kind"] == kind]
        lines.append(f"| {kind} | {len(of_kind)} | {count_passed(of_kind)} |")
    lines += [f"| all | {len(rows)} | {count_passed(rows)} |", "", "### Misses", ""]
    lines += ["| case | reason |", "|---|---|"]
    for row in rows:
        if row["reason"]:
            reason = short(row).replace("|", "\\|").replace("<", "&lt;")
            lines.append(f"| {row['name']} | {reason} |")
    text = "\n".join(lines) + "\n"
    if args.output:
        before = args.output.read_text() if args.output.exists() else ""
        args.output.write_text(before.partition(HEADING)[0] + text)
    else:
        print(text)


def count_passed(rows: list[dict[str, Any]]) -> int:
    return len([row for row in rows if not row["reason"]])


def main() -> None:
    warnings.filterwarnings("ignore")
    os.environ.setdefault("ONNX_HOME", tempfile.mkdtemp(prefix="onnx"))
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(required=True)
    runs = commands.add_parser("run")
    runs.add_argument("results", type=Path)
    runs.add_argument("--kind", choices=KINDS)
    runs.add_argument("--match", default="")
    runs.add_argument("--engine", default="native")
    runs.add_argument("--again", action="store_true")
    runs.add_argument("--width", type=int, default=160)
    runs.set_defaults(function=run)
    reports = commands.add_parser("report")
    reports.add_argument("results", type=Path)
    reports.add_argument("-o", "--output", type=Path)
    reports.set_defaults(function=report)
    args = parser.parse_args()
    args.function(args)
    sys.stdout.flush()


if __name__ == "__main__":
    main()
