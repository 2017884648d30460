"""Screens in notebooks: the text of a terminal as HTML."""

from __future__ import annotations

from html import escape

from lowtide.report.drawing import harmless


def notebook_html(text: str) -> str:
    """Return the text of a screen as HTML in which its columns stay; names from files do nothing.

    Colours and light or dark are those of the notebook.
    """
    style = "line-height: 1.3; overflow-x: auto; white-space: pre"
    return f'<pre style="{style}">{escape(harmless(text))}</pre>'
