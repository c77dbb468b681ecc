"""Take the pictures of docs/reading-a-report.md: real pages, in a real browser.

    python docs/make_screenshots.py

Runs the page's own commands on the embedded digits (some minutes), opens what they wrote in
Chromium and writes docs/pictures/report-*.png. Needs chromium, and playwright of the dev tools.
"""

from __future__ import annotations

import io
import shutil
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

from spare.report.write import remake_report
from spare.runs.discover import discover
from spare.runs.grid import bench

PICTURES = Path(__file__).parent / "pictures"
WIDTH = 960
#: Of which page, which part of it, is shown under which name.
SHOTS = (
    ("found", "#summary", "report-summary"),
    ("found", "#attributes", "report-attributes"),
    ("found", "#class-0", "report-class"),
    ("found", "#looking", "report-looking"),
    ("both", "#methods", "report-bench"),
)


def main() -> None:
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))))
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        root = Path(folder)
        discover("digits", 0, root / "found")
        bench("digits", ["erm", "spare"], [0, 1, 2], root / "both")
        remake_report(root / "both")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": 800}, color_scheme="light")
        for name, part, shot in SHOTS:
            page.goto((root / name / "report.html").as_uri())
            _save(page.locator(part).screenshot(), PICTURES / f"{shot}.png")
        browser.close()


def _save(content: bytes, path: Path) -> None:
    """With as few colours as a page has: a third of the size."""
    picture = Image.open(io.BytesIO(content)).convert("RGB").quantize(128)
    picture.save(path, optimize=True)
    print(f"{path.name} {picture.width} x {picture.height}, {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
