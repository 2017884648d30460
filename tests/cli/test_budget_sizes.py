"""Sizes on the command line that are none: one line that says what one looks like."""

import json

import pytest

from lowtide import Options, compile, deserialize, explain, parse_hlo
from lowtide.ir.errors import InputError
from lowtide.ir.sizes import SizeError


@pytest.mark.parametrize(
    "size", ["0.5B", "1.5", "-1MB", "1e3MB", "MiB", "", "NaN", "inf", "9" * 30]
)
@pytest.mark.parametrize(
    "command",
    [("plan", "--budget"), ("plan", "--capacity"), ("compile", "--memory"), ("run", "--memory")],
)
def test_what_is_no_size(lowtide, small, command, size):
    assert lowtide(command[0], small, command[1], size) == 1
    assert "such as 512MiB, 1.5GB or 123, found" in lowtide.err
    assert lowtide.err.count("\n") == 1 and not lowtide.out


def test_a_size_may_have_a_space(lowtide, small):
    assert lowtide("plan", small, "--budget", "1 MiB", "--json") == 0
    assert json.loads(lowtide.out)["budget"]["bytes"] == 1 << 20


CHAIN = """HloModule chain

ENTRY main {
  a = f32[64,64] parameter(0)
  b = f32[64,64] dot(a, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  c = f32[64,64] dot(b, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  d = f32[64,64] dot(c, c), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  e = f32[64,64] dot(d, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT f = f32[64,64] dot(e, c), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""
"""It keeps b and c for later: 4 products of 16 KiB, or 3 where one of them runs again."""

WHOLE, SHARE = 4 * 16384, 4 * 16384 * 4 // 5


@pytest.fixture
def chain(tmp_path):
    """Return the file of a program of which a product runs again at 80% of its memory."""
    path = tmp_path / "chain.hlo"
    path.write_text(CHAIN)
    return path


def test_a_share_is_one_of_the_plan_without_a_budget(lowtide, chain):
    assert explain(parse_hlo(CHAIN)).ladder.arena_bytes == WHOLE
    assert lowtide("plan", chain, "--budget", "80%", "--json") == 0
    document = json.loads(lowtide.out)
    assert document["budget"]["bytes"] == SHARE
    assert document["ladder"]["arena_bytes"] == 3 * 16384
    assert lowtide("plan", chain, "--memory", SHARE, "--json") == 0
    assert json.loads(lowtide.out)["budget"] == document["budget"]
    assert lowtide("plan", chain, "--budget", "100%", "--json") == 0
    assert json.loads(lowtide.out)["budget"]["bytes"] == WHOLE


@pytest.mark.parametrize("options", [(), ("--arena",), ("--sanitize",)])
def test_programs_run_within_a_share(lowtide, chain, options):
    assert lowtide("run", chain, "--memory", "80%", *options) == 0
    assert "arena of 49,152 bytes" in lowtide.out
    assert lowtide("run", chain, "--memory", "40%", *options) == 2
    assert f"more than the {WHOLE * 2 // 5:,} that it may use" in lowtide.err


def test_what_a_share_cannot_be_one_of(lowtide, chain, tmp_path):
    assert lowtide("run", chain, "--arena", "--order", "dfs", "--memory", "80%") == 1
    assert "80% is a share of lowtide's own plan; with --plan or --order" in lowtide.err
    assert lowtide("compile", chain, "-o", tmp_path / "made") == 0
    assert lowtide("run", tmp_path / "made", "--memory", "80%") == 1
    assert "a memory of 80% is a share of the plan without a budget" in lowtide.err
    with pytest.raises(SizeError, match="expected a size"):
        explain(parse_hlo(CHAIN), devices=2, memory="80%")


def test_every_way_to_compile_takes_a_share(lowtide, chain, tmp_path):
    assert lowtide("compile", chain, "--memory", "80%", "--json", "-o", tmp_path / "made") == 0
    assert json.loads(lowtide.out)["memory"]["budget"]["bytes"] == SHARE
    assert lowtide("compile", chain, "--memory", "80%", "--dump-to", tmp_path / "dump") == 0
    module = parse_hlo(CHAIN)
    made = compile(module, memory="80%")
    assert made.memory["budget"]["bytes"] == SHARE
    assert compile(module, memory="80.0%").making.was_cached
    assert compile(module, memory="100%").arena_bytes == WHOLE
    assert explain(module, memory="80%").ladder.arena_bytes == 3 * 16384
    with pytest.raises(InputError, match="is not known of a compiled program"):
        deserialize(tmp_path / "made", Options(memory="80%"))


def test_a_certificate_of_a_share(lowtide, chain, tmp_path):
    certificate = tmp_path / "chain.certificate.json"
    assert lowtide("plan", chain, "--budget", "80%", "-o", certificate) == 0
    assert lowtide("verify", certificate, chain, "--budget", "80%") in (0, 2)
    assert lowtide.out.startswith("valid")
    assert lowtide("verify", certificate, chain, "--budget", "90%") == 4
    assert f"a budget of {SHARE:,} bytes, not of {WHOLE * 9 // 10:,}" in lowtide.out
