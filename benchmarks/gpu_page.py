"""The page of a run of `gpu.py`."""

from __future__ import annotations

from collections.abc import Iterator
from math import exp, log
from typing import Any

Row = dict[str, Any]


def page(document: Row) -> str:
    """Return the section of a document, in Markdown."""
    rows, device = document["rows"], document["device"]
    lines = [*_head(document), ""]
    copy = next((x["ours"] for x in rows if x["part"] == "copy" and "seconds" in x["ours"]), None)
    rate = copy["bytes"] / copy["seconds"] if copy else 0.0
    if copy:
        lines += [f"A copy within the device: {rate / 1e9:,.0f} GB/s, read and written.", ""]
    for part, make in _TABLES.items():
        mine = [x for x in rows if x["part"] == part]
        if mine:
            lines += [*make(mine, rate), ""]
    lines += _troubles(document)
    assert device or not rows
    return "\n".join(lines).rstrip()


def _head(document: Row) -> list[str]:
    device, others = document["device"], document["others"]
    size = device.get("bytes", 0) / 1e9
    lines = [f"{device.get('name', 'no device')}: {device.get('target', '')}, {size:,.0f} GB"]
    if document["emulated"]:
        lines[0] = "An emulated device, at toy sizes: **no time here means anything**."
    told = {**{k: v for k, v in document["packages"].items() if v}, "ptxas": device.get("ptxas")}
    lines.append("; ".join([f"{k} {v}" for k, v in told.items() if v]))
    if "cuda" in device:
        lines.append(f"Driver for CUDA {device['cuda']}, {device['multiprocessors']} processors.")
    for name in ("jax", "cupy"):
        found = others.get(name) or others.get(f"no_{name}", "not there")
        lines += [f"{name}: {found}"]
    return [f"- {x}" for x in lines]


def _time(side: Row | None) -> str:
    if not side:
        return ""
    if "seconds" in side:
        return f"{side['seconds'] * 1e3:,.3f}"
    return "refused" if "refused" in side else "error" if "error" in side else ""


def _ratio(row: Row, what: str) -> float | None:
    """Theirs over ours, None where one is not known."""
    ours, theirs = row["ours"].get(what), row.get("theirs", {}).get(what)
    return theirs / ours if ours and theirs else None


def _apart(row: Row) -> str:
    ours = row["ours"]
    found = ours.get("apart")
    if not isinstance(found, float):
        return "" if found is None else "?"
    return f"{found:.1e}" if found <= ours["allowed"] else f"**{found:.1e}**"


def _mean(rows: list[Row], what: str) -> str:
    found = [x for x in [_ratio(row, what) for row in rows] if x]
    if not found:
        return "nothing to compare with"
    mean = exp(sum([log(x) for x in found]) / len(found))
    return f"geometric mean {mean:.2f}, least {min(found):.2f}, of {len(found)}"


def _measured(rows: list[Row], rate: float) -> Iterator[str]:
    """Work with its bytes and operations."""
    yield "| work | ours ms | GB/s | of a copy | TFLOP/s | theirs ms | theirs over ours | apart |"
    yield "|---|--:|--:|--:|--:|--:|--:|--:|"
    for row in rows:
        ours, ratio = row["ours"], _ratio(row, "seconds")
        seconds = ours.get("seconds")
        speed = ours["bytes"] / seconds if seconds else 0.0
        work = ours["operations"] / seconds / 1e12 if seconds and ours["operations"] else 0.0
        cells = [
            row["name"],
            _time(ours),
            f"{speed / 1e9:,.0f}" if speed else "",
            f"{speed / rate:.2f}" if speed and rate else "",
            f"{work:,.2f}" if work else "",
            _time(row.get("theirs")),
            f"{ratio:.2f}" if ratio else "",
            _apart(row),
        ]
        yield f"| {' | '.join(cells)} |"


def _right(rows: list[Row], _: float) -> Iterator[str]:
    """Small programs beside the evaluator."""
    good = [x for x in rows if "apart" in x["ours"] and x["ours"]["apart"] <= x["ours"]["allowed"]]
    kernels = sum([x["ours"]["kernels"] for x in good])
    yield (
        f"{len(good)} of {len(rows)} small programs, {kernels:,} kernels, equal the evaluator "
        "within their tolerances."
    )


def _programs(rows: list[Row], _: float) -> Iterator[str]:
    """Programs beside `jax.jit`."""
    yield f"Speed beside `jax.jit`: {_mean(rows, 'seconds')}. "
    memory = _mean(rows, "memory_bytes")
    yield f"Memory beyond arguments, XLA:GPU's over ours: {memory}."
    yield ""
    yield (
        "| program | ours ms | theirs ms | speed | compile s | theirs s | MB | theirs MB | apart |"
    )
    yield "|---|--:|--:|--:|--:|--:|--:|--:|--:|"
    for row in rows:
        sides = row["ours"], row.get("theirs", {})
        ratio = _ratio(row, "seconds")
        compiling = [f"{x['compile_seconds']:.2f}" if "seconds" in x else "" for x in sides]
        memory_of = [f"{x['memory_bytes'] / 1e6:,.1f}" if "seconds" in x else "" for x in sides]
        cells = [row["name"], *[_time(x) for x in sides], f"{ratio:.2f}" if ratio else ""]
        yield f"| {' | '.join([*cells, *compiling, *memory_of, _apart(row)])} |"


def _kernels(rows: list[Row], _: float) -> Iterator[str]:
    """Programs beside their kernels, each run by itself."""
    yield (
        "| program | ms | in one stream, ms | its kernels one by one, ms | host, ms | launches | "
        "the longest | ms of it |"
    )
    yield "|---|--:|--:|--:|--:|--:|---|--:|"
    for row in rows:
        ours = row["ours"]
        if not ours.get("top"):
            continue
        first = ours["top"][0]
        cells = [
            row["name"],
            _time(ours),
            f"{ours['one_stream_seconds'] * 1e3:,.3f}",
            f"{ours['kernel_seconds'] * 1e3:,.3f}",
            f"{ours['host_seconds'] * 1e3:,.3f}",
            f"{ours['launches']:,}",
            f"{first['template']}: {first['name']}",
            f"{first['launches'] * first['seconds'] * 1e3:,.3f}",
        ]
        yield f"| {' | '.join(cells)} |"


_TABLES = {
    "bandwidth": _measured,
    "products": _measured,
    "orders": _measured,
    "right": _right,
    "programs": _programs,
    "kernels": _kernels,
}


def _troubles(document: Row) -> list[str]:
    """What failed, was refused, or was not run."""
    found = []
    for row in document["rows"]:
        for side in ("ours", "theirs"):
            given = row.get(side, {})
            said = given.get("error") or given.get("refused")
            label = f"{row['part']}, {row['name']}"
            if said:
                found.append(f"- {label}, {side}: {said}")
            if isinstance(given.get("apart"), float) and not given["apart"] <= given["allowed"]:
                first = f"; first kernel: {given['first']}" if given.get("first") else ""
                found.append(f"- {label}: {given['apart']:.2g} apart{first}")
    if document["not_run"]:
        found.append(f"- not run, the time was over: {', '.join(document['not_run'])}")
    if "stopped" in document:
        found.append(f"- {document['stopped']}; rows behind it are missing")
    if "programs_missing" in document:
        found.append(f"- the programs of JAX are not there: {document['programs_missing']}")
    return found


def is_wrong(row: Row) -> bool:
    """Whether a row's results are further off than they may be."""
    ours = row.get("ours", {})
    return isinstance(ours.get("apart"), float) and not ours["apart"] <= ours["allowed"]


def told(row: Row) -> str:
    """A row in a few words."""
    ours, theirs = row["ours"], row.get("theirs", {})
    if "error" in ours or "refused" in ours:
        return str(ours.get("error") or ours["refused"])
    if "top" in ours:
        return "\n    ".join(profile_lines(ours, ours["seconds"], 5))
    words = [f"{ours['seconds'] * 1e3:.3f} ms"] if "seconds" in ours else []
    words += [f"theirs {theirs['seconds'] * 1e3:.3f} ms"] if "seconds" in theirs else []
    words += [f"theirs: {theirs['error']}"] if "error" in theirs else []
    words += [f"{ours['apart']:.2g} apart"] if isinstance(ours.get("apart"), float) else []
    words += ["WRONG", str(ours.get("first", ""))] if is_wrong(row) else []
    return ", ".join(words) or "right"


def profile_lines(found: Row, seconds: float, count: int) -> list[str]:
    """The first steps of a profile as text, after a line that sums it up."""
    whole = found["kernel_seconds"]
    said = [
        f"{found['steps']} steps, {found['launches']} launches: {whole * 1e3:.3f} ms alone, "
        f"{seconds * 1e3:.3f} ms as a program, {found['one_stream_seconds'] * 1e3:.3f} ms in one "
        f"stream, {found['host_seconds'] * 1e6:.0f} us of the host"
    ]
    for x in found["top"][:count]:
        total = x["launches"] * x["seconds"]
        grid = "+".join([f"{blocks}x{threads}" for blocks, threads in x["grid"]])
        rate = x["bytes"] / x["seconds"] / 1e9
        work = f" {x['operations'] / x['seconds'] / 1e12:.1f} TF" if x["operations"] else ""
        said.append(
            f"{x['template']:>7} {x['name'][:34]:34} {grid:>12} {x['launches']:4} x "
            f"{x['seconds'] * 1e6:8.1f} us {total / whole:4.0%} {rate:6.0f} GB/s{work}"
        )
    return said
