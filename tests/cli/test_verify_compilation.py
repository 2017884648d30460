"""`lowtide explain --certificate` and `lowtide verify`: what no compilation can do without."""

import json

import pytest
from tests.certificate.cases import compact, signed
from tests.cli.conftest import edited
from tests.least_memory.programs import BYTES, SQUARE, dot, entry, loop_program


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "loop.hlo"
    path.write_text(loop_program())
    return path


@pytest.fixture
def certificate(lowtide, program, tmp_path):
    path = tmp_path / "loop.certificate.json"
    assert lowtide("explain", program, "--certificate", path) == 0
    assert "needs less than 1,204 B" in lowtide.out
    return path


def test_a_certificate_is_valid_and_about_its_module(lowtide, program, certificate) -> None:
    for arguments in ([certificate], [certificate, program]):
        assert lowtide("verify", *arguments) == 0
        told = "valid: no compilation needs less than 1,204 bytes beyond its arguments\n"
        assert lowtide.out == told and not lowtide.err
    assert lowtide("verify", certificate, "--json") == 0
    assert list(json.loads(lowtide.out)) == ["answer", "detail", "bound"]


def test_it_says_what_explain_says(lowtide, program, certificate) -> None:
    assert lowtide("explain", program, "--json") == 0
    document = json.loads(lowtide.out)
    bound = document["ladder"]["compilation_bound_bytes"]
    assert json.loads(certificate.read_text())["bound"] == bound == 3 * BYTES + 4
    cut = document["compilation_cut"]
    assert cut["once"] == ["products", "loops"] and cut["all_moments"]
    assert sum([x["bytes"] for x in cut["buffers"]]) == bound


def test_another_module_is_told(lowtide, program, certificate) -> None:
    other = edited(program, "constant(9)", "constant(8)")
    assert lowtide("verify", certificate, other) == 4
    assert lowtide.out.startswith(f"rejected: {other}: ")


def test_a_forged_one_is_rejected(lowtide, certificate, tmp_path) -> None:
    document = json.loads(certificate.read_text())
    document["bound"] += 1
    path = tmp_path / "forged.certificate.json"
    path.write_bytes(compact(signed(document)))
    assert lowtide("verify", path) == 4
    assert lowtide.out == "rejected: bound: 1205 is claimed, 1204 is what is proved\n"
    assert f"{path}: the certificate is rejected" in lowtide.err


def test_a_module_that_is_scheduled_has_its_kernels(lowtide, certificate, tmp_path) -> None:
    path = tmp_path / "scheduled.hlo"
    text = entry(f"  x = {SQUARE} parameter(0)\n{dot('ROOT y', 'x', 'x')}")
    path.write_text(text.replace("HloModule m", "HloModule m, is_scheduled=true"))
    for arguments in (["verify", certificate, path], ["explain", path, "--certificate", "x.json"]):
        assert lowtide(*arguments) == 1
        assert "is scheduled, so its kernels are chosen: give --reoptimize" in lowtide.err
    made = tmp_path / "y.json"
    assert lowtide("explain", path, "--reoptimize", "--certificate", made) == 0
    assert lowtide("verify", made, path, "--reoptimize") == 0


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["verify", "CERTIFICATE", "MODULE", "--budget", "1KiB"], "it is about all compilations"),
        (["verify", "CERTIFICATE", "MODULE", "--effort", "fast"], "it is about all compilations"),
        (
            ["explain", "MODULE", "--certificate", "x.json", "--what-if"],
            "--certificate goes without",
        ),
        (["explain", "MODULE", "--certificate", "/no/such/x.json"], "/no/such/x.json"),
        (["explain", "-", "--certificate", "x.json"], "not standard input"),
    ],
)
def test_what_makes_no_sense_is_told(lowtide, program, certificate, arguments, told) -> None:
    places = {"CERTIFICATE": certificate, "MODULE": program}
    assert lowtide(*[places.get(x, x) for x in arguments]) == 1
    assert told in lowtide.err and "Traceback" not in lowtide.err
