"""A page shown by Chromium without a window, with a script that runs in it once it is ready."""

import json
import os
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path
from typing import Any

from tests.support import HANG_SECONDS

ROOT = Path(__file__).parents[2]
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars")

_RUN = """<script>
window.addEventListener("error", e => { document.body.dataset.failed = e.message; });
(async () => {
  const began = performance.now();
  while (document.body.dataset.ready === undefined) await new Promise(done => setTimeout(done, 5));
  const at = id => document.getElementById(id);
  let found;
  try { found = await (async () => { SCRIPT })(); } catch (error) { found = { failed: String(error) }; }
  document.body.dataset.found = JSON.stringify(found);
})();
</script>"""  # noqa: E501


def axe_core() -> Path | None:
    """Return the script of axe-core: what AXE_CORE names, or what npm put into this checkout."""
    named = os.environ.get("AXE_CORE")
    path = Path(named) if named else ROOT / "node_modules" / "axe-core" / "axe.min.js"
    return path if path.is_file() else None


def shown(page: str, script: str, folder: Path, *flags: str, before: str = "") -> Any:
    """Return what a script returns in a page, as JSON; it may `await`, and has `at(id)`.

    `before` is another script, which is loaded first. An error of any script of the page is raised.
    """
    assert CHROMIUM is not None
    harmless = before.replace("</script", "<\\/script")
    first = f"<script>{harmless}</script>" if before else ""
    path = folder / "page.html"
    path.write_text(page.replace("</body>", first + _RUN.replace("SCRIPT", script) + "</body>"))
    profile = f"--user-data-dir={folder / 'profile'}"
    command = [CHROMIUM, *FLAGS, *flags, profile, "--dump-dom", "--virtual-time-budget=60000"]
    run = subprocess.run(
        [*command, path.as_uri()], capture_output=True, timeout=HANG_SECONDS, check=True
    )
    dom = run.stdout.decode()
    failed = re.search(r'data-failed="([^"]*)"', dom)
    assert failed is None, unescape(failed[1]) if failed else ""
    found = re.search(r'data-found="([^"]*)"', dom)
    assert found is not None, "the page did not get ready"
    value = json.loads(unescape(found[1]))
    assert not (isinstance(value, dict) and "failed" in value), value
    return value


def picture(page: Path, to: Path, width: int, height: int, folder: Path, *flags: str) -> None:
    """Write a picture of a page at a width and a height, in pixels."""
    assert CHROMIUM is not None
    size = f"--window-size={width},{height}"
    profile = f"--user-data-dir={folder / 'profile'}"
    command = [CHROMIUM, *FLAGS, *flags, profile, size, f"--screenshot={to}"]
    wait = "--virtual-time-budget=20000"
    subprocess.run(
        [*command, wait, page.as_uri()], capture_output=True, timeout=HANG_SECONDS, check=True
    )
