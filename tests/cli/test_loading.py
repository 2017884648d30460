"""What commands load: what a module on one device does not need stays where it is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

MODULE = Path(__file__).parents[2] / "examples" / "mlp.hlo.xz"

SCRIPT = """
import sys

from lowtide.cli.main import main

try:
    main()
except SystemExit:
    pass
print(*[x for x in sys.modules if x.startswith("lowtide.")], sep="\\n", file=sys.stderr)
"""

UNUSED = ("spmd", "frontend.hlo_proto", "frontend.nnvm", "frontend.tflite", "client.gpu")


@pytest.mark.parametrize("command", ["explain", "run"])
def test_a_module_of_one_device_loads_no_readers_of_others(command: str) -> None:
    made = subprocess.run(
        [sys.executable, "-c", SCRIPT, command, str(MODULE)],
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = [x.removeprefix("lowtide.") for x in made.stderr.splitlines()]
    assert "ir.module" in loaded
    assert [x for x in loaded if x.startswith(UNUSED)] == []
