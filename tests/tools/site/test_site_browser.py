"""The site in a browser, as a reader goes through it: on a phone and a desk, light and dark.

It needs the site (``make site``), Playwright with axe, and a Chromium; CONTRIBUTING.md says how to
run it. Nothing comes from the network: the pages are opened as files, and the browser is offline.
"""

import shutil
from pathlib import Path

import pytest

SITE = Path(__file__).resolve().parents[3] / "build/site/html"
BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
SIZES = {"phone": (390, 844), "desk": (1400, 900)}
PAGES = (
    "index.html",
    "lessons/00_your_picture_your_kernel.html", "lessons/02_an_image_from_its_svd.html",
    "lessons/05_shared_memory.html",
    "glossary.html", "simulator.html", "command_line.html", "kernels.html",
    "figures.html", "figures/h200-reconstruct.html",
    "figures/timelines.html",
    "interfaces/course.html", "interfaces/course.kernels.transpose.html", "search.html",
)  # fmt: skip

RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice", "experimental"]

playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="no Chromium here"),
    pytest.mark.skipif(not (SITE / "index.html").exists(), reason="no site; run `make site`"),
]


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as tools:
        started = tools.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture(
    params=[(size, scheme) for size in SIZES for scheme in ("light", "dark")], ids="-".join
)
def page(request, browser):
    size, scheme = request.param
    width, height = SIZES[size]
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=scheme, offline=True
    )
    made = context.new_page()
    made.asked, made.broken, made.scheme = [], [], scheme
    made.on("request", lambda asked: made.asked.append(asked.url))
    made.on("pageerror", lambda error: made.broken.append(str(error)))
    yield made
    context.close()
    assert [url for url in made.asked if not url.startswith(("file:", "data:", "blob:"))] == []
    # what a search quotes is not there for pages that are files
    assert [error for error in made.broken if error != "Failed to fetch"] == []


def open_page(page, name):
    page.goto((SITE / name).as_uri())


def test_from_the_index_to_an_answer_a_term_and_a_search(page):
    open_page(page, "index.html")
    assert page.locator("html").get_attribute("data-theme") == page.scheme
    page.locator("article").get_by_role("link", name="05 Shared memory").click()
    assert page.locator("article h1").inner_text().startswith("05 Shared memory")

    answer = page.locator("details.hide:has(summary:has-text('Show an answer'))").first
    written = answer.locator("pre").first
    assert not written.is_visible()
    answer.locator("summary").click()
    assert "buffer[count - 1 - t]" in written.inner_text() and written.is_visible()
    assert "SOLUTION" not in page.locator("article").inner_text()

    page.locator("a.site-term", has_text="banks").first.click()
    page.wait_for_url("**/glossary.html#term-bank")
    assert page.locator("dt#term-bank").inner_text().startswith("bank")

    page.locator("button.search-button__button, button[aria-label='Search']").locator(
        "visible=true"
    ).first.click()
    page.locator("input[type=search]").locator("visible=true").fill("halo")
    page.keyboard.press("Enter")
    found = page.locator("#search-results ul.search a[href*='05_shared_memory']").first
    found.wait_for(timeout=20_000)
    found.click()
    assert page.locator("article h1").inner_text().startswith("05 Shared memory")


@pytest.mark.parametrize("name", PAGES)
def test_nobody_is_kept_out(page, name):
    """No page is wider than its window, axe-core finds nothing, and the focus is seen."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="no axe-core here")
    open_page(page, name)
    page.emulate_media(reduced_motion="reduce")
    assert page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0
    faults = [
        (fault["id"], [node["html"][:200] for node in fault["nodes"]][:3])
        for fault in axe.Axe().run(page, options={"runOnly": RULES}).response["violations"]
    ]
    assert faults == []
    page.evaluate("scrollTo(0, 0)")
    for _ in range(4):
        page.keyboard.press("Tab")
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
