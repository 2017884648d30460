"""Programs of XLA's tests run natively, against what XLA computed for them."""

import importlib.util
import sys

from tests.support import CONFORMANCE, needs_shared

from lowtide.ir.errors import UnsupportedOpError
from lowtide.testing.native import run_native

pytestmark = needs_shared

SAMPLE = 60
"""How many programs are run of those that come first in the order of their seeds."""


def recorded():
    """The module that reads the record."""
    name = "conformance_execute"
    spec = importlib.util.spec_from_file_location(name, CONFORMANCE / "execute.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def outcomes(limit: int) -> tuple[int, list[str]]:
    """Return how many programs agree, and why each other one does not."""
    record = recorded()
    index, outputs = record.load(CONFORMANCE / "execution.npz")
    texts = {x["id"]: x["text"] for x in record.texts(CONFORMANCE / "hlo_text.jsonl.xz")}
    items = [x for x in index["items"] if x["status"] == "ok"]
    passed, failed = 0, []
    for item in sorted(items, key=lambda x: x["seed"])[:limit]:
        given = record.inputs(item["inputs"], item["seed"], item["low"])
        try:
            got = run_native(texts[item["id"]], given)
        except UnsupportedOpError as error:
            failed.append(f"{item['id']}: {error}")
            continue
        reason = record.mismatch(got, outputs(item), item["outputs"])
        if reason is None:
            passed += 1
        else:
            failed.append(f"{item['id']}: {reason}")
    return passed, failed


def test_nearly_all_of_a_sample_agree():
    passed, failed = outcomes(SAMPLE)
    assert passed >= 0.97 * SAMPLE, "\n".join(failed)
