"""`lowtide plan` and `lowtide explain` of graphs of NNVM, MXNet and Relay's graph executor."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from lowtide.cli.plan_request import PlanRequest
    from lowtide.frontend.nnvm.document import NnvmDocument
    from lowtide.nnvm.plans import NnvmComparison, NnvmSettings

SCHEMA: Final = "lowtide.nnvm/1"


def is_nnvm(path: str) -> bool:
    """Return whether a file is a graph of NNVM: its fields tell. Unreadable files are none."""
    from lowtide.frontend.compressed import first_bytes, read_bytes
    from lowtide.frontend.file_kinds import HEAD_BYTES, begins_like_nnvm, looks_like_nnvm
    from lowtide.ir.errors import LowtideError

    if not Path(path).is_file():
        return False
    try:
        with Path(path).open("rb") as stream:
            head = first_bytes(stream, HEAD_BYTES)
            if head and not head.isspace() and not begins_like_nnvm(head):
                return False  # Most are large modules, which are read once only.
            stream.seek(0)
            return looks_like_nnvm(read_bytes(stream, path))
    except (OSError, LowtideError):
        return False


def settings_of(
    document: NnvmDocument, variant: str | None, match_range: int | None, *, in_place: bool
) -> NnvmSettings:
    """Return the options of the algorithm: those given, else those that NNVM's variables say.

    Raises UsageError for unknown ones.
    """
    from lowtide.cli.exit_codes import UsageError
    from lowtide.nnvm.plans import NnvmSettings, variant_of
    from lowtide.options import variables_of
    from lowtide.planning.nnvm import Variant, options_from
    from lowtide.suggestions import nearest

    known = [x.value for x in Variant]
    if variant is not None and variant not in known:
        shown = ", ".join(known)
        raise UsageError(f"--variant: no {variant!r}{nearest(variant, known)}; there are: {shown}")
    try:
        found = options_from(variables_of("NNVM_"))
    except ValueError as error:
        raise UsageError(str(error)) from None
    return NnvmSettings(
        variant or variant_of(document),
        found["match_range"] if match_range is None else match_range,
        found["auto_search_match_range"] and match_range is None,
        found["num_temp"],
        in_place,
    )


def plan_nnvm(
    path: str,
    request: PlanRequest,
    variant: str | None = None,
    match_range: int | None = None,
    *,
    in_place: bool = True,
) -> None:
    """Plan a graph, say what it came to, and write the graph with its storage ids.

    Raises InputError for a malformed file and for shapes that are missing, UsageError for options.
    """
    from lowtide.cli import console
    from lowtide.cli.plan_request import effort_named
    from lowtide.cli.progress import progress
    from lowtide.nnvm.plans import plan_both

    document = read_document(path)
    settings = settings_of(document, variant, match_range, in_place=in_place)
    with progress(f"planning {path}"):
        found = plan_both(document, settings, effort_named(request.effort))
    if request.output is not None:
        text = json.dumps(_annotated(found), indent=1) + "\n"
        console.write_file(request.output, lambda stream: stream.write(text.encode()))
    if request.json:
        console.write_json(_document(found))
        return
    console.write("\n".join(_lines(found, request.limit)))


def read_document(path: str) -> NnvmDocument:
    """Return the graph in a file, with all shapes; raises InputError."""
    from lowtide.cli.shapes import given_shapes
    from lowtide.frontend.compressed import read_bytes
    from lowtide.frontend.nnvm.document import read_nnvm
    from lowtide.frontend.nnvm.module import with_shapes

    with Path(path).open("rb") as stream:
        found = read_nnvm(read_bytes(stream, path), path)
    return with_shapes(found, given_shapes())


def _annotated(found: NnvmComparison) -> dict[str, Any]:
    """The graph as its executor takes it, with the storage ids, shapes and types of all entries."""
    content = dict(found.document.content)
    attributes = dict(content.get("attrs", {}))
    attributes["storage_id"] = ["list_int", list(found.storage)]
    attributes["shape"] = ["list_shape", [list(x or ()) for x in found.document.shapes]]
    attributes["dltype"] = ["list_str", [x or "float32" for x in found.document.types]]
    rows = [x.first for x in found.document.nodes]
    content["node_row_ptr"] = [*rows, found.document.entry_count]
    return {**content, "attrs": attributes}


def _document(found: NnvmComparison) -> dict[str, Any]:
    settings, order = found.settings, found.found
    return {
        "schema": SCHEMA,
        "graph": found.document.file,
        "nodes": len(found.document.nodes),
        "entries": found.document.entry_count,
        "variant": settings.variant,
        "match_range": found.planned.match_range,
        "in_place": settings.in_place,
        "storage_id": list(found.storage),
        "inplace_index": list(found.planned.inplace_index),
        "storage_bytes": list(found.block_bytes),
        "bytes": found.bytes,
        "not_allocated": found.planned.not_allocated,
        "arena_bytes": found.arena_bytes,
        "live_bytes": found.live_bytes,
        "peak_bytes": order.peak_bytes,
        "bound_bytes": order.bound_bytes,
        "optimal": order.is_optimal,
        "unknown_operations": list(found.unknown),
    }


def _lines(found: NnvmComparison, limit: int) -> list[str]:
    settings, order, document = found.settings, found.found, found.document
    operations = sum(x.op is not None for x in document.nodes)
    taken = sum(x >= 0 for x in found.planned.inplace_index)
    lines = [
        f"{document.file}: {operations:,} operations, {document.entry_count:,} entries",
        f"  {settings.variant:<8} {found.bytes:>16,} bytes in {len(found.block_bytes):,} blocks, "
        f"match range {found.planned.match_range}, {taken:,} in place",
        f"  arena    {found.arena_bytes:>16,} bytes, ours in the order of the file",
        f"  live     {found.live_bytes:>16,} bytes at once in that order",
        f"  order    {order.peak_bytes:>16,} bytes live in the best order found",
        f"  bound    {order.bound_bytes:>16,} bytes, which no order goes below",
    ]
    if found.unknown:
        lines.append(f"  unknown  {', '.join(found.unknown)}: taken to overwrite nothing")
    return [*lines, *_largest(found, limit)]


def _largest(found: NnvmComparison, limit: int) -> list[str]:
    """The largest blocks, and the entries that lie in each."""
    document = found.document
    inside: dict[int, list[str]] = {}
    for node in document.nodes:
        for i in range(node.count if node.op is not None else 0):
            label = node.name if node.count == 1 else f"{node.name}:{i}"
            inside.setdefault(found.planned.storage_id[node.first + i], []).append(label)
    blocks = zip(sorted(inside), found.block_bytes, strict=True)
    ranked = sorted(blocks, key=lambda x: (-x[1], x[0]))[:limit]
    return ["", *[f"  block {x:<5} {y:>14,}  {_shown(inside[x])}" for x, y in ranked]]


def _shown(names: list[str]) -> str:
    kept = ", ".join(names[:4])
    return f"{kept} and {len(names) - 4} more" if len(names) > 4 else kept
