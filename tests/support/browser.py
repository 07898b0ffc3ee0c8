"""A real browser for tests: what its pages look like, measured inside of the page.

Without a browser a test is skipped, with the reason; RLI_REQUIRE_ALL=1 makes that a failure.
"""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

_BROWSERS: Final = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
_THEMES: Final = {"dark": "0", "light": "1"}
_SECONDS: Final = 60


def measured(page: Path, script: str, *, theme: str, width: int) -> Any:
    """What a function of JavaScript returns, once a browser has drawn the page.

    Args:
        page: of HTML; a copy without its policy, which forbids scripts, is drawn.
        script: a function without arguments; its value becomes JSON.
        theme: that the reader prefers, "light" or "dark".
        width: of the window, in pixels.
    """
    command = next(filter(None, map(shutil.which, _BROWSERS)), None)
    if command is None:
        pytest.skip("no browser: apt-get install chromium-headless-shell")
    drawn = page.with_suffix(f".{theme}-{width}.html")
    body = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page.read_text("utf-8"))
    ran = f"<pre id=measured></pre><script>measured.textContent = JSON.stringify(({script})())</script>"
    drawn.write_text(body.replace("</body>", f"{ran}</body>"), "utf-8")
    flags = [
        "--no-sandbox",
        "--disable-gpu",
        f"--blink-settings=preferredColorScheme={_THEMES[theme]}",
        f"--window-size={width},2000",
    ]
    done = subprocess.run(
        [command, *flags, f"--user-data-dir={page.parent / 'browser'}", "--dump-dom", drawn.as_uri()],
        capture_output=True,
        text=True,
        check=True,
        timeout=_SECONDS,
    )
    found = re.search(r'<pre id="measured">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found is not None, done.stderr
    return json.loads(html.unescape(found[1]))
