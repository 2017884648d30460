"""Pages of the site that do not lie in docs/, and links that lead out of it: a hook of MkDocs.

README.md is the first page, the other documents of the root are pages too, and the reference has
the docstrings of all public names. A link to a file that is no page becomes its text.
"""

import posixpath
import re
from pathlib import Path

from mkdocs.structure.files import File

import lowtide

ROOT = Path(__file__).parents[1]
PAGES = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "ARCHITECTURE.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "CHANGELOG.md": "CHANGELOG.md",
}
"""Documents of the root, and what they are called on the site."""

LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s:#]+)(#[^)\s]*)?\)")
BLOCK = re.compile(r"(^```.*?^```)", re.DOTALL | re.MULTILINE)


def on_files(files, config):
    """Add the documents of the root and the reference to the files of the site."""
    for name, page in PAGES.items():
        text = within_site((ROOT / name).read_text(), "", set(files.src_uris))
        files.append(File.generated(config, page, content=text))
    files.append(File.generated(config, "reference.md", content=reference()))
    return files


def on_page_markdown(markdown, page, config, files):
    """Return the text of a page of docs/, with links within the site only."""
    if (ROOT / "docs" / page.file.src_uri).exists():
        return within_site(markdown, "docs", set(files.src_uris))
    return markdown


def within_site(text, folder, pages):
    """Return a text from a folder of the repository with its links as those of the site."""

    def moved(found):
        mark, label, target, anchor = found.groups()
        path = posixpath.normpath(posixpath.join(folder, target))
        page = PAGES.get(path, path.removeprefix("docs/"))
        if page in pages or page in PAGES.values():
            return f"{mark}[{label}]({page}{anchor or ''})"
        return label

    parts = BLOCK.split(text)
    plain = [x if x.startswith("```") else LINK.sub(moved, x) for x in parts]
    # Brackets behind brackets would be taken for the name of a link; there are none by name.
    return "".join([x if x.startswith("```") else x.replace("] [", r"] \[") for x in plain])


def reference():
    """Return the page with the public names, each by its docstring."""
    lines = ["# Reference", "", "What `import lowtide` has, in the order of its names."]
    for name in sorted(lowtide.__all__, key=str.lower):
        thing = getattr(lowtide, name)
        module = getattr(thing, "__module__", None)
        if isinstance(module, str) and module.startswith("lowtide"):
            lines += ["", f"::: {module}.{thing.__qualname__}"]
    return "\n".join(lines)
