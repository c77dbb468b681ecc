"""Take the screenshots in docs/reading-a-report.md: real pages in a real browser.

    python docs/make_screenshots.py

Does what that page does on the built-in digits (a few minutes), opens the reports in Chromium and
writes docs/pictures/report-*.png. Needs chromium, and playwright from the development tools.
"""

from __future__ import annotations

import io
import shutil
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

import spare

PICTURES = Path(__file__).parent / "pictures"
WIDTH = 960
#: Folder of the report, element on its page, name of the picture.
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
        spare.discover("digits", out=root / "found")
        spare.bench("digits", methods=["erm", "spare"], seeds=[0, 1, 2], out=root / "both")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": 800}, color_scheme="light")
        for report, element, name in SHOTS:
            page.goto((root / report / "report.html").as_uri())
            _save(page.locator(element).screenshot(), PICTURES / f"{name}.png")
        browser.close()


def _save(content: bytes, path: Path) -> None:
    """Write a PNG with 128 colors, enough for a page, at a third of the size."""
    picture = Image.open(io.BytesIO(content)).convert("RGB").quantize(128)
    picture.save(path, optimize=True)
    print(f"{path.name} {picture.width} x {picture.height}, {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
