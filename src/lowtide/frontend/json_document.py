"""JSON text with one clear error for what is not JSON, and for values in other errors."""

from __future__ import annotations

import json
from typing import Any, Final

from lowtide.ir.errors import InputError

_LONGEST: Final = 40


def load_json(text: bytes | str, expected: str, file: str) -> Any:
    """Return the value in a text that is to hold `expected`, such as "a plan".

    Raises InputError, with line and column where there is one.
    """
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise InputError(f"not JSON: {error.msg}", file=file, position=where) from None
    except ValueError as error:
        raise InputError(f"not {expected}: {error}", file=file) from None
    except RecursionError:
        raise InputError(f"not {expected}: it nests too deeply", file=file) from None


def shown(value: object) -> str:
    """Return a value as JSON, cut where it is long."""
    text = json.dumps(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
