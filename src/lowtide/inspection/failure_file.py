"""Files that repeat a wrong call: a script with the module, the arguments and the options."""

from __future__ import annotations

import base64
import hashlib
import io
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import fields, replace
from importlib.metadata import version
from pathlib import Path
from textwrap import wrap
from typing import Any, Final

import numpy as np

from lowtide.client.errors import SanitizerError, WrongResultError
from lowtide.client.executable.checked import CheckSubject
from lowtide.files.writing import write_text
from lowtide.inspection.reproducer import single
from lowtide.inspection.sanitizer import sanitize
from lowtide.ir import LowtideError, Module
from lowtide.ir.literal import Array, storable
from lowtide.ir.printer import COMPLETE, to_text
from lowtide.options import Options

COLUMNS: Final = 96

_NAME: Final = "FILE.py"
"""What stands for the name of the script until its bytes are known, of which it is made."""

_SCRIPT: Final = '''"""A wrong result of lowtide, to be attached to a report. It is repeated by

    python {name}

which ends with status 4 and says what is wrong, or with status 0 where nothing is any more.
Found: {found}
Made with {versions}
"""

import sys

import lowtide
from lowtide.inspection.failure_file import arrays_in
from lowtide.inspection.first_calls import repeated

OPTIONS = lowtide.Options({options})

MODULE = {module}

ARGUMENTS = """
{arguments}
"""

if __name__ == "__main__":
    wrong = repeated(lowtide.parse_hlo(MODULE), arrays_in(ARGUMENTS), OPTIONS)
    print(wrong or "nothing is wrong any more")
    sys.exit(4 if wrong else 0)
'''


def failure(
    subject: CheckSubject, arguments: Sequence[Array], error: SanitizerError
) -> WrongResultError:
    """Return the error of a wrong call, once a file that repeats it is written.

    The file lies in the folder of the process, or among temporary files where that takes none.
    """
    module, arrays, options = _least(subject, arguments, error)
    text = _script(subject, module, arrays, options, error)
    message = f"{error}; no result is returned"
    try:
        path = _written(text, module.name)
    except OSError as problem:
        where = f"{problem.filename}: {(problem.strerror or '').lower()}"
        return WrongResultError(f"{message}, and no file to repeat it ({where})", error.thunk)
    return WrongResultError(f"{message}; `python {path}` repeats it", error.thunk, path)


def _least(
    subject: CheckSubject, arguments: Sequence[Array], error: SanitizerError
) -> tuple[Module, Sequence[Array], Options]:
    """The one step at fault with its operands, if that shows the fault; else all that was given."""
    own = replace(subject.options, check="never", cache=False)
    if error.thunk and error.operands:
        alone = replace(own, stage="input", memory=None)
        module = single(subject.scheduled, error.thunk)
        operands = _distinct(subject.scheduled, error)
        if _is_wrong(module, operands, alone):
            return module, operands, alone
    return subject.given or subject.scheduled, arguments, own


def _distinct(module: Module, error: SanitizerError) -> list[Array]:
    """The arrays of each operand once, as the parameters of the step by itself."""
    instructions = [x for c in module.computations.values() for x in c.instructions.values()]
    step = next(x for x in instructions if x.name == error.thunk)
    arrays, found = iter(error.operands), {}
    for operand in step.operands:
        leaves = [x for _, x in operand.shape.leaves() if x.is_array]
        found[operand] = [next(arrays) for _ in leaves]
    return [x for arrays in found.values() for x in arrays]


def _is_wrong(module: Module, arguments: Sequence[Array], options: Options) -> bool:
    try:
        sanitize(module, arguments, options)
    except SanitizerError:
        return True
    except LowtideError:  # A step of a program may be one that cannot be compiled by itself.
        return False
    return False


def _script(
    subject: CheckSubject,
    module: Module,
    arguments: Sequence[Array],
    options: Options,
    error: SanitizerError,
) -> str:
    target = subject.program.target
    return _SCRIPT.format(
        name=_NAME,
        found=_plain(str(error)),
        versions=f"lowtide {version('lowtide')}, NumPy {np.__version__}, Python "
        f"{sys.version.split()[0]}, for {target.triple} {target.cpu}",
        options=_spelled(options),
        module=_quoted(to_text(module, COMPLETE)),
        arguments=packed(arguments),
    )


def _plain(text: str) -> str:
    """Text on one line that ends no string."""
    return text.replace("\\", "/").replace('"', "'").replace("\n", " ")


def _quoted(text: str) -> str:
    """A text as Python writes it: as it is where that is possible."""
    if (
        "'''" in text
        or "\\" in text
        or not text.isascii()
        or not text.replace("\n", "").isprintable()
    ):
        return repr(text)
    return f"'''{text}'''"


def _spelled(options: Options) -> str:
    plain = Options()
    found = [(x.name, getattr(options, x.name)) for x in fields(options)]
    return ", ".join(
        [f"{name}={value!r}" for name, value in found if value != getattr(plain, name)]
    )


def packed(arrays: Sequence[Array]) -> str:
    """Return arrays as text, for `arrays_in`; types that NumPy has not as unsigned numbers."""
    stored: dict[str, Any] = {f"in_{i}": storable(x) for i, x in enumerate(arrays)}
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in stored.items():
            content = io.BytesIO()
            np.lib.format.write_array(content, array, allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), content.getvalue())
    return "\n".join(wrap(base64.b64encode(stream.getvalue()).decode(), COLUMNS))


def arrays_in(text: str) -> list[Array]:
    """Return the arrays that `packed` made a text of."""
    with np.load(io.BytesIO(base64.b64decode(text)), allow_pickle=False) as stored:
        return [stored[f"in_{i}"] for i in range(len(stored.files))]


def _written(text: str, name: str) -> Path:
    """Write a script; equal ones have equal names."""
    safe = "".join([x if x.isascii() and x.isalnum() else "_" for x in name])[:40]
    file = f"lowtide-{safe}-{hashlib.sha256(text.encode()).hexdigest()[:8]}.py"
    text = text.replace(_NAME, file, 1)
    try:
        path = Path.cwd() / file
        write_text(path, text)
    except OSError:
        path = Path(tempfile.gettempdir()) / file
        write_text(path, text)
    return path
