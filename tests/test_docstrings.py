"""The docstring of a file begins with what the file is, not with a question."""

import ast
import re

from tests.architecture import Source, sources

QUESTION = re.compile(
    r"(?:(?:at|by|for|from|in|of|on|to|with) )?"
    r"(?:how|what|when|where|whether|which|who|whom|whose|why)\b",
    re.IGNORECASE,
)


def headline(source: Source) -> str:
    """Return the first line of the docstring of a file, "" where it has none."""
    return (ast.get_docstring(source.tree) or "").partition("\n")[0]


def test_headlines_are_no_questions() -> None:
    """Each is one sentence, which begins with a noun."""
    found = {x.name: headline(x) for x in sources()}
    assert {x: y for x, y in found.items() if not y.endswith((".", ":")) or QUESTION.match(y)} == {}


def test_what_is_a_question() -> None:
    for text in ("What is proved.", "In which order nodes run.", "Whether it fits.", "how it is"):
        assert QUESTION.match(text), text
    for text in ("Orders of nodes.", "In place updates.", "Whole numbers.", "Return what is."):
        assert not QUESTION.match(text), text
