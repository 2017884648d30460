"""Real dumps of XLA: taken apart, and compared before and after a change of one line."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support import HANG_SECONDS

pytest.importorskip("jax")

PROGRAM = """import jax, jax.numpy as jnp

def loss(weights, x):
    for i, w in enumerate(weights):
        with jax.named_scope(f"layer{i}"):
            h = x @ w
            x = jnp.tanh(h)
    return (x**2).sum()

specs = [jax.ShapeDtypeStruct((128, 128), "float32")] * 4, jax.ShapeDtypeStruct((1024, 128), "float32")
jax.jit(jax.grad(loss)).lower(*specs).compile()
"""  # noqa: E501
CHANGED = PROGRAM.replace("jnp.tanh(h)", "jnp.sin(jnp.tanh(h))")
LINE = 1 + PROGRAM.split("\n").index("            x = jnp.tanh(h)")


@pytest.fixture(scope="module")
def dumps(tmp_path_factory) -> list[Path]:
    """The dump directories of the program and of the one with a changed line."""
    found = []
    for name, text in (("before", PROGRAM), ("after", CHANGED)):
        folder = tmp_path_factory.mktemp(name)
        (folder / "net.py").write_text(text)
        flags = {"XLA_FLAGS": f"--xla_dump_to={folder / 'dump'}", "JAX_PLATFORMS": "cpu"}
        environment = {**os.environ, **flags}
        subprocess.run(
            [sys.executable, "net.py"],
            cwd=folder,
            env=environment,
            check=True,
            timeout=HANG_SECONDS,
        )
        found.append(folder / "dump")
    return found


def test_the_plan_in_a_dump_directory_is_taken_apart(lowtide_command, dumps):
    assert lowtide_command("explain", dumps[0], "--no-compile") == 0
    assert "the plan takes" in lowtide_command.out
    assert "optimal" not in lowtide_command.out
    assert len(lowtide_command.out.splitlines()) <= 24
    assert "taking apart XLA's plan" in lowtide_command.err
    assert lowtide_command("explain", dumps[0], "--no-compile", "--json") == 0
    document = json.loads(lowtide_command.out)
    assert sum([x["bytes"] for x in document["causes"]]) == document["total_bytes"]
    assert document["autopsy"]["alternatives"]["plan"] == document["ladder"]["arena_bytes"]


def test_without_its_plan_the_offsets_are_said_to_be_ours(lowtide_command, dumps, tmp_path):
    (module,) = dumps[0].glob("*cpu_after_optimizations.txt")
    (tmp_path / module.name).write_text(module.read_text())
    assert lowtide_command("explain", tmp_path) == 0
    assert "order as given, offsets by lowtide:" in lowtide_command.out
    assert "XLA's own plan is not in this directory" in lowtide_command.err


def test_the_first_line_names_the_line_that_was_changed(lowtide_command, dumps):
    assert lowtide_command("diff", *dumps) == 0
    first = lowtide_command.out.split("\n")[0]
    assert first.startswith("peak +") and f"net.py:{LINE} in loss" in first
    assert lowtide_command("diff", *reversed(dumps)) == 0
    first = lowtide_command.out.split("\n")[0]
    assert first.startswith("peak -") and f"net.py:{LINE} in loss" in first


def test_the_gate_names_the_line_that_was_changed(lowtide_command, dumps, tmp_path):
    gate, program = tmp_path / "peaks.toml", tmp_path / "dump"
    gate.write_text('[peaks.net]\nmodule = "dump"\n')
    program.symlink_to(dumps[0])
    assert lowtide_command("check", gate, "--update") == 0
    program.unlink()
    program.symlink_to(dumps[1])
    assert lowtide_command("check", gate) == 2
    rose = next(x for x in lowtide_command.out.split("\n") if x.lstrip().startswith("peak +"))
    assert f"net.py:{LINE} in loss" in rose


ORDERED = """import jax, jax.numpy as jnp

def pairs(x, y):
    counts = []
    for i in range(4):
        for j in range(4):
            counts.append(jnp.bincount(x[i] * 4 + y[j], length=16))
    return jnp.stack(counts)

specs = [jax.ShapeDtypeStruct((4, 100_000), "int32")] * 2
jax.jit(pairs).lower(*specs).compile()
"""


def test_one_program_under_two_configurations_of_xla(lowtide_command, tmp_path):
    folders = []
    for name, flag in (
        ("a", ""),
        ("b", " --xla_cpu_scheduler_type=CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED"),
    ):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "count.py").write_text(ORDERED)
        flags = f"--xla_dump_to={folder / 'dump'}{flag}"
        environment = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
        subprocess.run(
            [sys.executable, "count.py"],
            cwd=folder,
            env=environment,
            check=True,
            timeout=HANG_SECONDS,
        )
        folders.append(folder / "dump")
    assert lowtide_command("diff", *folders) == 0
    first = " ".join(lowtide_command.out.partition("\n\n")[0].split())
    assert first.startswith("peak -") and "count.py:7 in pairs" in first
    assert lowtide_command("diff", *reversed(folders)) == 0
    first = " ".join(lowtide_command.out.partition("\n\n")[0].split())
    assert first.startswith("peak +") and "count.py:7 in pairs" in first
