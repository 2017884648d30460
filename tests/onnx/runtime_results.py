"""What ONNX Runtime gives for small models: its own results where it is installed, else recorded.

`recorded.npz` has them by the digest of the model and of the values that are fed.
`python -m tests.onnx.runtime_results` writes it anew; it takes onnxruntime.
"""

import hashlib
from pathlib import Path

import numpy as np
from tests.onnx import beside

RECORDED = Path(__file__).with_name("recorded.npz")


def results(proto, feeds):
    """Return what ONNX Runtime gives for a model."""
    key = _digest(proto, feeds)
    with np.load(RECORDED) as known:
        found = [known[x] for x in sorted(known.files) if x.startswith(f"{key}.")]
    assert found, "not recorded: python -m tests.onnx.runtime_results"
    if beside.HAS_RUNTIME:
        for x, y in zip(found, beside.runtime(proto, feeds), strict=True):
            np.testing.assert_array_equal(x, y)
    return found


def _digest(proto, feeds):
    parts = [proto.SerializeToString(deterministic=True)]
    parts += [name.encode() + feeds[name].tobytes() for name in sorted(feeds)]
    return hashlib.sha256(b"".join(parts)).hexdigest()[:24]


def record(cases):
    """Write what ONNX Runtime gives for models and what is fed."""
    made = {}
    for proto, feeds in cases:
        for number, value in enumerate(beside.runtime(proto, feeds)):
            made[f"{_digest(proto, feeds)}.{number}"] = value
    np.savez_compressed(RECORDED, **dict(sorted(made.items())))


if __name__ == "__main__":
    from tests.onnx.integer_models import CASES

    record([make() for make in CASES.values()])
