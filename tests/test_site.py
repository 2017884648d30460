"""The site of the documents: its pages, and that no link on it leads nowhere."""

import re
import subprocess
import sys
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).parents[1]
ELSEWHERE = {"index.md", "reference.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"}
"""Pages that the hook makes."""


def test_pages_that_the_menu_names_are_there():
    listed = re.findall(
        r"^ +- (?:\w+: )?(\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE
    )
    assert len(listed) == len(set(listed)) > 20
    assert [x for x in listed if x not in ELSEWHERE and not (ROOT / "docs" / x).exists()] == []


class Links(HTMLParser):
    """The targets of links of a page, and the names that links may lead to."""

    def __init__(self) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.names: set[str] = set()

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.targets += [x for x in (given.get("href"), given.get("src")) if x]
        self.names |= {x for x in (given.get("id"), given.get("name")) if x}


@pytest.mark.slow
def test_links_of_the_site_lead_somewhere(tmp_path):
    for name in ("mkdocs", "mkdocstrings"):
        if find_spec(name) is None:
            pytest.skip(f"needs {name}: pip install -e '.[docs]'")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    pages = {}
    for path in sorted(tmp_path.rglob("*.html")):
        pages[path] = Links()
        pages[path].feed(path.read_text())
    broken = [
        f"{path.name}: {target}"
        for path, links in pages.items()
        if path.name != "404.html"
        for target in links.targets
        if not leads_somewhere(path, target, pages)
    ]
    assert broken == []
    reference = pages[tmp_path / "reference.html"].names
    assert {"lowtide.api.explain", "lowtide.api.fit"} <= reference


def leads_somewhere(page: Path, target: str, pages: dict[Path, Links]) -> bool:
    parts = urlsplit(target)
    if parts.scheme or parts.netloc:
        return True
    found = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    found = found / "index.html" if found.is_dir() else found
    if not found.exists():
        return False
    return not parts.fragment or found not in pages or parts.fragment in pages[found].names
