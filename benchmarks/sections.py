"""Parts of documents that benchmarks write."""

from __future__ import annotations

from pathlib import Path


def replace_section(document: Path, name: str, text: str) -> None:
    """Put text between the lines that mark a section of a document, at its end if it has none.

    The file is written under another name and renamed.
    """
    begin, end = f"<!-- begin {name} -->\n", f"<!-- end {name} -->\n"
    known = document.read_text() if document.exists() else ""
    if begin not in known:
        known = f"{known.rstrip()}\n\n{begin}{end}".lstrip()
    before, rest = known.split(begin, 1)
    _, after = rest.split(end, 1)
    written = document.with_name(f".{document.name}.new")
    written.write_text(f"{before}{begin}{text.rstrip()}\n{end}{after}")
    written.replace(document)
