"""XLA as the judge of HLO texts, in a process of its own, which bad text may end."""

import base64
import json
import subprocess
import sys
from dataclasses import dataclass
from types import TracebackType

_SERVER = """
import base64, json, sys
from jaxlib import _hlo

for line in sys.stdin:
    try:
        module = _hlo.hlo_module_from_text(json.loads(line))
        text = module.to_string()
        proto = base64.b64encode(module.as_serialized_hlo_module_proto()).decode()
        answer = [text, proto, ""]
    except Exception as error:
        answer = ["", "", str(error) or "error"]
    print(json.dumps(answer), flush=True)
"""


@dataclass(frozen=True)
class Verdict:
    """What XLA says of a text: its print and its HloModuleProto, or the error.

    `crashed` where the text ended XLA's process, which is no verdict.
    """

    text: str = ""
    proto: bytes = b""
    error: str = ""
    crashed: bool = False

    @property
    def accepted(self) -> bool:
        return not self.error and not self.crashed


class Judge:
    """A process with XLA's parser, started anew when a text ends it; a context manager."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> "Judge":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop()

    def ask(self, text: str) -> Verdict:
        """Return the verdict on one text."""
        process = self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps(text) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            self._stop()
            return Verdict(crashed=True)
        printed, proto, failure = json.loads(line)
        return Verdict(printed, base64.b64decode(proto), failure)

    def _started(self) -> "subprocess.Popen[str]":
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _SERVER],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        return self._process

    def _stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None
