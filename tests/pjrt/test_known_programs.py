"""What was compiled by another process runs again without a module, and nothing else does."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("jax")

SCRIPT = """
import json, os, sys
import jax, jax.numpy as jnp, numpy as np
from functools import partial

jax.devices()
import lowtide.pjrt.programs as programs
met, calls = [], []
keys_of, known_program = programs.keys_of, programs.known_program

def keys(form, code, *given):
    found = keys_of(form, code, *given)
    if b"custom_call" in code:
        calls.append(found is None)
    return found

def known(keys):
    found = known_program(keys)
    met.append(found is not None)
    return found

programs.keys_of, programs.known_program = keys, known

def told(results):
    rooms = {x.split(".")[1] for x in sys.modules if x.startswith("lowtide.")}
    flat = [np.asarray(x).tolist() for x in jax.tree.leaves(results)]
    return json.dumps({"met": met, "calls": calls, "rooms": sorted(rooms), "results": flat})
"""

PROGRAM = """
@partial(jax.jit, donate_argnums=1)
def f(x, y, n):
    return {"a": jnp.tanh(x) @ y.T + 1, "b": y * 2, "c": n + jnp.uint8(3), "d": jnp.sum(x) > 0}

x = jax.device_put(np.arange(6, dtype=np.float32).reshape(2, 3) / 10)
y = jax.device_put(np.ones((2, 3), np.float32))
found = f(x, y, np.uint8(4))
again = f(x + 0, found["b"], np.uint8(5))
print(told([found["a"], again, y.is_deleted(), found["b"].is_deleted()]))
"""

ORDERED = """
from jax.experimental.layout import Format, Layout
home = jax.sharding.SingleDeviceSharding(jax.devices()[0])
turned = Format(Layout((1, 0)), home)
f = jax.jit(lambda x: x * 2 + jnp.arange(3.0), in_shardings=turned, out_shardings=turned)
x = jax.device_put(np.arange(6, dtype=np.float32).reshape(2, 3), turned)
y = f(x)
print(told([y, y.format.layout.major_to_minor, np.asarray(f.lower(x).compile()(x))]))
"""

CALLS = """
f = jax.jit(lambda x: jax.pure_callback(lambda x: x + 1, jax.ShapeDtypeStruct((3,), np.float32), x))
print(told(f(np.ones(3, np.float32))))
"""


def run(script: str, cache: Path, **more: str) -> dict[str, Any]:
    environment = {**os.environ, "JAX_PLATFORMS": "lowtide", "LOWTIDE_CACHE": str(cache), **more}
    command = [sys.executable, "-c", SCRIPT + script]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


Kept = Callable[..., tuple[Path, dict[str, Any]]]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    """A function that copies into a folder what a process that ran `PROGRAM` keeps.

    It returns the copy, and what the process told. One process runs for each text of options.
    """

    @cache
    def made(options: str) -> tuple[Path, dict[str, Any]]:
        folder = tmp_path_factory.mktemp("kept")
        return folder, run(PROGRAM, folder, LOWTIDE_OPTIONS=options)

    def copied(folder: Path, options: str = "") -> tuple[Path, dict[str, Any]]:
        source, told = made(options)
        return Path(shutil.copytree(source, folder / "kept")), told

    return copied


@pytest.mark.parametrize("script", [PROGRAM, ORDERED], ids=["donated", "ordered"])
def test_the_second_process_needs_no_module(tmp_path: Path, script: str) -> None:
    first, second = (run(script, tmp_path) for _ in range(2))
    assert not any(first["met"])
    assert second["met"]
    assert all(second["met"])
    assert second["results"] == first["results"]
    assert {"frontend", "ops", "compiler"} <= set(first["rooms"])
    assert not {"frontend", "ops", "compiler", "passes"} & set(second["rooms"])


@pytest.mark.parametrize("before", ["# a line\n", "\n" * 7, "if True:\n    pass\n"])
def test_a_program_from_other_lines_is_the_same(tmp_path: Path, kept: Kept, before: str) -> None:
    folder, first = kept(tmp_path)
    second = run(before + PROGRAM, folder)
    assert not any(first["met"])
    assert all(second["met"])
    assert second["results"] == first["results"]
    assert not {"frontend", "ops", "compiler", "passes"} & set(second["rooms"])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("+ 1,", "+ 2,"),
        ("tanh", "sin"),
        ("np.arange(6", "np.arange(1, 7"),
        ("donate_argnums=1", ""),
    ],
)
def test_a_program_that_was_edited_is_another(
    tmp_path: Path, kept: Kept, old: str, new: str
) -> None:
    assert old in PROGRAM
    folder, _ = kept(tmp_path)
    edited = PROGRAM.replace(old, new)
    found = run(edited, folder)
    assert found["results"] == run(edited, tmp_path / "other")["results"]
    assert all(found["met"]) == ("arange" in old)  # Values of arguments are none of a program.


@pytest.mark.parametrize(
    "options", ["effort=fast", "threads=1", "memory=1GiB", "check=first", "target=avx2"]
)
def test_other_options_are_another_program(tmp_path: Path, kept: Kept, options: str) -> None:
    folder, _ = kept(tmp_path, "threads=2")
    found = run(PROGRAM, folder, LOWTIDE_OPTIONS=options)
    assert not any(found["met"])


def test_nothing_is_known_without_a_cache(tmp_path: Path) -> None:
    for _ in range(2):
        found = run(PROGRAM, tmp_path, LOWTIDE_OPTIONS="cache=false")
        assert not any(found["met"])


def test_calls_are_looked_at_in_each_process(tmp_path: Path) -> None:
    for _ in range(2):
        found = run(CALLS, tmp_path)
        assert found["calls"] == [True]
        assert found["results"] == [[2, 2, 2]]


@pytest.mark.parametrize("kind", ["programs", "plugin"])
def test_what_is_lost_or_damaged_is_made_again(tmp_path: Path, kept: Kept, kind: str) -> None:
    folder, first = kept(tmp_path)
    for number, path in enumerate(sorted((folder / kind).glob("*/*"))):
        if number % 2:
            path.unlink()
        else:
            path.write_bytes(path.read_bytes()[:-3] + b"abc")
    second = run(PROGRAM, folder)
    assert not any(second["met"])
    third = run(PROGRAM, folder)
    assert all(third["met"])
    assert first["results"] == second["results"] == third["results"]
