"""The report in a real browser: from a file, with no network, by mouse and by keyboard."""

from __future__ import annotations

import io
import itertools
import shutil

import numpy as np
import pytest
from PIL import Image

from spare.models.small import small_cnn
from spare.report.saliency_panels import Pictured
from spare.report.write import write_comparison_of, write_report
from tests.report.test_page import HOSTILE, folder_of, page_at

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        pytest.skip("there is no chromium on this machine: install it to test reports in a browser")
    api = pytest.importorskip("playwright.sync_api")
    with api.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield running
        running.close()


@pytest.fixture
def opened(browser, tmp_path):
    """Opens a report; whatever goes wrong in it, or asks for the network, fails the test."""
    troubles = []
    contexts = []

    def open_(path=None, width=1100, scheme="light", **more):
        if path is None:
            task = folder_of(tmp_path / f"found{len(contexts)}", **more)
            networks = {"early": small_cnn(len(task.class_names), size=8)}
            path = page_at(tmp_path / f"found{len(contexts)}", Pictured(task, networks))
        context = browser.new_context(
            viewport={"width": width, "height": 800}, color_scheme=scheme, offline=True
        )
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: troubles.append(message.text))
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("dialog", lambda dialog: troubles.append(dialog.message))
        page.on(
            "request",
            lambda request: (
                None if request.url.startswith(("file:", "data:")) else troubles.append(request.url)
            ),
        )
        page.goto(path.as_uri())
        return page

    yield open_
    for context in contexts:
        context.close()
    assert troubles == []


def test_pointing_at_an_example_shows_its_picture_and_number(opened):
    page = opened()
    dot = page.locator(".scatter .dot.c1").first
    dot.scroll_into_view_if_needed()
    assert page.locator("#tip").is_hidden()
    dot.hover(force=True)
    tip = page.locator("#tip")
    assert tip.is_visible()
    assert "cluster 2" in tip.inner_text()
    shot = Image.open(io.BytesIO(tip.locator(".thumb").screenshot()))
    assert np.asarray(shot.convert("RGB")).std() > 10  # a picture of noise, not an empty square
    page.mouse.move(2, 2)
    assert tip.is_hidden()


def test_the_keyboard_does_what_the_mouse_does(opened):
    page = opened()
    chart = page.locator(".scatter").first
    chart.focus()
    page.keyboard.press("ArrowRight")
    first = page.locator("#tip").inner_text()
    page.keyboard.press("ArrowRight")
    assert page.locator("#tip").inner_text() != first
    assert page.locator(".dot.on").count() == 1
    page.keyboard.press("Escape")
    assert page.locator("#tip").is_hidden()
    # Every chart, table and link can be reached.
    page.keyboard.press("Home")
    reached = set()
    page.locator("body").click(position={"x": 1, "y": 1})
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.tagName.toLowerCase()"))
    assert {"a", "button", "svg", "div", "pre"} <= reached


def test_tables_are_sorted_both_ways(opened):
    page = opened()
    table = page.locator("#classes table")

    def column(number):
        return [float(t) for t in table.locator(f"tbody td:nth-child({number})").all_inner_texts()]

    head = table.locator("th", has_text="examples")
    head.get_by_role("button").click()
    assert column(3) == sorted(column(3))
    assert head.get_attribute("aria-sort") == "ascending"
    head.get_by_role("button").click()
    assert column(3) == sorted(column(3), reverse=True)
    table.locator("th", has_text="mistaken for").get_by_role("button").click()
    assert head.get_attribute("aria-sort") is None


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1400])
def test_it_fits_the_screen_and_is_not_blank(opened, width, scheme):
    page = opened(width=width, scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    pixels = np.asarray(Image.open(io.BytesIO(page.screenshot())).convert("L"))
    assert pixels.std() > 5
    assert (np.median(pixels) > 128) == (scheme == "light")


#: WCAG's contrast of every text with what is behind it; background pictures aside.
CONTRAST = """() => {
  const rgb = (text) => (text.match(/[\\d.]+/g) || [0, 0, 0, 0]).map(Number);
  const over = (top, under) => {
    const a = top.length > 3 ? top[3] : 1;
    return [0, 1, 2].map((i) => top[i] * a + under[i] * (1 - a));
  };
  const light = (c) => {
    const [r, g, b] = c.map((v) => v / 255)
      .map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    const chain = [];
    for (let e = element; e; e = e.parentElement)
      chain.unshift(rgb(getComputedStyle(e).backgroundColor));
    return chain.reduce((under, top) => over(top, under), [255, 255, 255]);
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim()) continue;
    if (element.closest("script, style, #tip, .skip")) continue;
    const style = getComputedStyle(element);
    const under = behind(element);
    const ink = over(rgb(element.closest("svg") ? style.fill : style.color), under);
    const [a, b] = [light(ink), light(under)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) found.push([walker.currentNode.textContent.trim().slice(0, 30), ratio]);
  }
  return found;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_and_everything_has_a_name(opened, scheme):
    page = opened(scheme=scheme)
    assert page.evaluate(CONTRAST) == []
    unnamed = page.evaluate(
        """() => [...document.querySelectorAll("svg, [role=img], [role=region], button, a")]
            .filter((e) => !(e.getAttribute("aria-label") || e.textContent.trim()))
            .map((e) => e.outerHTML.slice(0, 80))"""
    )
    assert unnamed == []
    levels = page.evaluate("[...document.querySelectorAll('h1,h2,h3')].map((e) => +e.tagName[1])")
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(b - a <= 1 for a, b in itertools.pairwise(levels))


def test_hostile_names_run_nothing(opened):
    page = opened(classes=HOSTILE, command=HOSTILE[0])
    page.locator(".scatter .dot").first.hover(force=True)
    assert page.locator("main img").count() == 0
    assert page.evaluate("document.scripts.length") == 2


def test_hundreds_of_classes_open_quickly_enough_to_sort(opened):
    page = opened(classes=[f"class {i}" for i in range(300)], n=12)
    page.locator("#classes th", has_text="right").first.get_by_role("button").click()
    assert page.locator("#classes tbody tr").count() == 600


@pytest.fixture
def pages(digits_bench, tmp_path):
    """The pages of real runs, as `spare demo`, `spare bench` and `spare compare` make them."""
    folders = [digits_bench / "erm-seed0", digits_bench / "spare-seed0"]
    return {
        "run": write_report(folders[1]),
        "plain run": write_report(folders[0]),
        "bench": write_report(digits_bench),
        "comparison": write_comparison_of(folders, tmp_path),
    }


def test_pages_of_real_runs_show_pictures_and_fit_everywhere(opened, pages):
    for path in pages.values():
        page = opened(path, width=360, scheme="dark")
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        assert page.evaluate(CONTRAST) == []
        tile = page.locator(".tile").nth(1)
        tile.scroll_into_view_if_needed()
        seen = np.asarray(Image.open(io.BytesIO(tile.screenshot())).convert("RGB"))
        assert seen.std() > 10
        assert np.ptp(seen.reshape(-1, 3).astype(int), axis=0).max() > 100  # red beside blue


def test_the_report_of_a_real_run_shows_an_example_when_it_is_pointed_at(opened, pages):
    page = opened(pages["run"])
    dot = page.locator(".scatter .dot.c1").first
    dot.scroll_into_view_if_needed()
    dot.hover(force=True)
    tip = page.locator("#tip")
    assert "predicted" in tip.inner_text()
    shot = np.asarray(Image.open(io.BytesIO(tip.locator(".thumb").screenshot())).convert("RGB"))
    assert shot.std() > 10
    heads = page.locator("#scores th", has_text="right % before")
    heads.first.get_by_role("button").click()
    assert heads.first.get_attribute("aria-sort") == "ascending"
