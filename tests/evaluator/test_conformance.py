"""The evaluator against the recorded results of XLA:CPU."""

import importlib.util

from tests.support import CONFORMANCE, needs_shared
from tests.ways_to_run import run

SAMPLE = 250


def recorded():
    spec = importlib.util.spec_from_file_location("execute", CONFORMANCE / "execute.py")
    execute = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(execute)
    index, outputs = execute.load(CONFORMANCE / "execution.npz")
    texts = execute.texts(CONFORMANCE / "hlo_text.jsonl.xz")
    text = {record["id"]: record["text"] for record in texts}
    items = [x for x in index["items"] if x["status"] == "ok" and x["id"] in text]
    items.sort(key=lambda item: item["seed"])
    return execute, items, text, outputs


@needs_shared
def test_a_sample_of_recorded_programs():
    execute, items, text, outputs = recorded()
    wrong = []
    for item in [x for x in items[:SAMPLE] if "while(" not in text[x["id"]]]:
        inputs = execute.inputs(item["inputs"], item["seed"], item["low"])
        reason = execute.mismatch(run(text[item["id"]], inputs), outputs(item), item["outputs"])
        if reason:
            wrong.append((item["id"], reason))
    assert len(wrong) <= SAMPLE // 100, wrong
