"""`lowtide verify CERTIFICATE`: the three answers, and what is taken for a certificate."""

import gzip
import json

import pytest

from lowtide.planning.certificates import certificate_text, offsets_certificate
from lowtide.planning.plans import arena_packing
from lowtide.planning.problem import TensorUsageRecord, packing_problem


@pytest.fixture
def certificate(tmp_path):
    """Return a function that writes the certificate of two buffers that live together."""

    def write(second=4):
        problem = packing_problem([TensorUsageRecord(4, 0, 1), TensorUsageRecord(4, 1, 2)])
        document = offsets_certificate(problem, arena_packing(problem, [0, second]))
        path = tmp_path / "certificate.json"
        path.write_text(certificate_text(document))
        return path

    return write


def test_a_plan_that_is_optimal(lowtide, certificate) -> None:
    assert lowtide("verify", certificate()) == 0
    assert lowtide.out == "valid and optimal: 8 bytes, and no plan is smaller\n"
    assert not lowtide.err


def test_a_plan_that_may_be_improved(lowtide, certificate) -> None:
    assert lowtide("verify", certificate(second=8)) == 2
    assert lowtide.out == "valid, bound not certified: 12 bytes; 8 are needed\n"
    assert not lowtide.err


def test_a_plan_that_is_wrong(lowtide, certificate) -> None:
    path = certificate(second=0)
    assert lowtide("verify", path) == 4
    assert lowtide.out == "rejected: buffers 0 and 1 overlap at step 1\n"
    assert f"{path}: the certificate is rejected" in lowtide.err


@pytest.mark.parametrize("second", [0, 4, 8])
def test_the_answer_as_json(lowtide, certificate, second) -> None:
    status = lowtide("verify", certificate(second), "--json")
    document = json.loads(lowtide.out)
    assert list(document) == ["answer", "detail", "size", "bound"]
    assert document["answer"] == {
        0: "valid and optimal", 2: "valid, bound not certified", 4: "rejected",
    }[status]  # fmt: skip


def test_a_compressed_certificate(lowtide, certificate) -> None:
    path = certificate()
    packed = path.with_suffix(".json.gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert lowtide("verify", packed) == 0


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("lowtide.certificate/1", "lowtide.plan/1"),
        ('"evidence"', '"evidencf"'),
        ('"height":8', '"height":7'),
        ('"height":8', '"height":8,'),
        ('"step":1', '"step":\x01'),
        ('"step":1', '"step":é'),
    ],
)
def test_damage_does_not_make_it_something_else(lowtide, certificate, old, new) -> None:
    path = certificate()
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new), encoding="latin-1")
    assert lowtide("verify", path) == 4
    assert lowtide.out.startswith("rejected: ")


def test_a_certificate_goes_alone(lowtide, certificate) -> None:
    path = certificate()
    assert lowtide("verify", path, path) == 1
    assert lowtide("verify", path, "--capacity", 9) == 1
    assert "a certificate goes without MODULE and --capacity" in lowtide.err
