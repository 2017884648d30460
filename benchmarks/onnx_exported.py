"""Exported models beside ONNX Runtime, in turn in one process.

    python benchmarks/onnx_exported.py FOLDER [--only RE] [--target NAME] [--quick]

FOLDER has the files that `onnx_exports.py` writes. Each model runs in processes of its own, with a
cache that is empty before. Columns: milliseconds of a run on one thread; ONNX Runtime's time for
ours on one thread, by time of the processor, and on two, by the clock (above 1: ours is faster);
the greatest difference of an element as a share of the greatest element, with the second sizes too;
seconds of the processor to the first result with an empty cache, with a full one, and in ONNX
Runtime; growth of resident memory in MB meanwhile, the same three; seconds of the first result with
other sizes, and ONNX Runtime's ("-" where sizes are not free). `--quick` leaves out all but the
time on one thread and the difference.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import onnx_models
from onnx_models import feeds_of, on_threads, start, start_theirs
from onnx_real_model import RealModel

SECONDS: Final = 300
HEADER: Final = [
    "model", "ms", "speed", "2 threads", "difference", "s, empty", "full", "ONNX Runtime",
    "MB, empty", "full", "ONNX Runtime", "s, other sizes", "ONNX Runtime",
]  # fmt: skip


def model_of(path: Path) -> RealModel:
    """Return what the model of a file is fed."""
    said = json.loads(path.with_suffix(".json").read_text())
    more = {"sizes": said["sizes"], "most": said["most"], "values": said["values"]}
    return RealModel(path.stem, said["writer"], path.name, **more)


def _figures(path: Path, target: str, quick: bool) -> dict[str, Any]:
    """Return times on one and two threads, and those of other sizes."""
    model = model_of(path)
    found = on_threads(model, path, 1, target)
    if quick:
        return found
    found["two"] = on_threads(model, path, 2, target)["ms"]
    other = json.loads(path.with_suffix(".json").read_text())["other"]
    if other is not None:
        found |= _second(model, replace(model, sizes=other), path, target)
    return found


def _second(model: RealModel, other: RealModel, path: Path, target: str) -> dict[str, Any]:
    """Return the seconds of the processor of the first result with other sizes, ours and theirs."""
    import onnxruntime

    from lowtide.onnx import InferenceSession

    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads, settings.log_severity_level = 2, 3
    theirs = onnxruntime.InferenceSession(path, settings, ["CPUExecutionProvider"])
    sessions: list[Any] = [InferenceSession(path, threads=2, target=target), theirs]
    seconds, results = [], []
    for session in sessions:
        session.run(None, feeds_of(model, theirs.get_inputs()))
        feeds = feeds_of(other, theirs.get_inputs())
        begin = onnx_models._processor_time()
        results.append(session.run(None, feeds))
        seconds.append(onnx_models._processor_time() - begin)
    return {"second": seconds, "second difference": onnx_models._difference(*results)}


def _child(kind: str, path: Path, cache: str, target: str) -> dict[str, Any]:
    code = [sys.executable, __file__, str(path), "--kind", kind, "--target", target]
    found = onnx_models.answer_of(code, cache, SECONDS, 300)
    return {"error": f"{kind}: {found['error']}"} if "error" in found else found


def _row(path: Path, target: str, quick: bool) -> list[str]:
    name = f"{path.stem} ({model_of(path).version})"
    with tempfile.TemporaryDirectory() as cache:
        kinds = ("quick",) if quick else ("start", "start", "theirs", "figures")
        found = [_child(x, path, cache, target) for x in kinds]
    errors = [x["error"] for x in found if "error" in x]
    if errors:
        return [name, errors[0]]
    *starts, last = found
    own, theirs = last["ms"]
    row = [name, f"{own:.3f}", f"{theirs / own:.2f}"]
    if quick:
        return [*row, f"{last['difference']:.1e}"]
    difference = max(last["difference"], last.get("second difference", 0))
    seconds = [f"{x:.2f}" for x in last["second"]] if "second" in last else ["-", "-"]
    return [
        *row, f"{last['two'][1] / last['two'][0]:.2f}", f"{difference:.1e}",
        *[f"{x['seconds']:.2f}" for x in starts], *[f"{x['resident']:.0f}" for x in starts],
        *seconds,
    ]  # fmt: skip


def main() -> None:
    """Print a row for each model, and geometric means."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", metavar="RE")
    parser.add_argument("--target", default="native", metavar="NAME")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--kind", help=argparse.SUPPRESS)
    given = parser.parse_args()
    onnx_models.ROUND_SECONDS = 0.06
    if given.kind is not None:
        path = given.folder
        ways = {"start": start, "theirs": start_theirs}
        if given.kind in ways:
            print(json.dumps(ways[given.kind](model_of(path), path)))
        else:
            print(json.dumps(_figures(path, given.target, given.kind == "quick")))
        return
    header = [*HEADER[:3], "difference"] if given.quick else HEADER
    rows = [header, ["---"] * len(header)]
    print(*["| " + " | ".join(x) + " |" for x in rows], sep="\n")
    made = []
    paths = [x for x in sorted(given.folder.glob("*.onnx")) if x.with_suffix(".json").exists()]
    for path in paths:
        if re.search(given.only, path.stem):
            row = _row(path, given.target, given.quick)
            print("| " + " | ".join(row) + " |", flush=True)
            made += [row] if len(row) > 2 else []
    columns = [[float(row[i]) for row in made if row[i] != "-"] for i in range(1, len(header))]
    means = [math.exp(sum(math.log(max(y, 1e-9)) for y in x) / max(len(x), 1)) for x in columns]
    print("| geometric mean | " + " | ".join(f"{x:.3g}" for x in means) + " |")


if __name__ == "__main__":
    main()
