"""Pages in a real Chromium without a window: what moves, sorts and finds, and that nothing leaves the page."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from graphcollab import report
from graphcollab.analysis import Benefit
from tests.report.page.found import compared

pytestmark = pytest.mark.slow

webdriver = pytest.importorskip("selenium.webdriver", reason="there is no selenium to drive a browser with")
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.support.ui import WebDriverWait  # noqa: E402

CHROMIUM, DRIVER = shutil.which("chromium") or shutil.which("google-chrome"), shutil.which("chromedriver")
ARGUMENTS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1280,900")
DRAWN = "return document.documentElement.dataset.sorted === 'yes' && [...document.images].every(x => x.complete)"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if not (CHROMIUM and DRIVER):
        pytest.skip("there is no chromium and chromedriver: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for argument in ARGUMENTS:
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture
def opened(browser: Any, written: Path) -> Any:
    _open(browser, written)
    return browser


def _open(browser: Any, path: Path) -> None:
    for kind in ("browser", "performance"):
        browser.get_log(kind)  # forget what was before
    browser.get(path.as_uri())
    WebDriverWait(browser, 60).until(lambda b: b.execute_script(DRAWN))


def _requests(browser: Any) -> set[str]:
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    return {m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"}


def _set(browser: Any, field: Any, value: str) -> None:
    browser.execute_script(
        "arguments[0].value = arguments[1]; arguments[0].dispatchEvent(new Event('input', {bubbles: true}))",
        field,
        value,
    )


def _column(table: Any, n: int) -> list[str]:
    rows = table.find_elements(By.CSS_SELECTOR, "tbody tr")
    return [row.find_elements(By.CSS_SELECTOR, "th, td")[n].text for row in rows]


def test_nothing_is_red_and_nothing_leaves_the_page(opened: Any, written: Path) -> None:
    assert [entry for entry in opened.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")] == []
    away = {url for url in _requests(opened) if not url.startswith(("data:", "blob:"))}
    assert away == {written.as_uri()}


def test_tables_sort_by_number(opened: Any) -> None:
    table = opened.find_element(By.CSS_SELECTOR, "#sites table.table")
    title = table.find_elements(By.CSS_SELECTOR, "thead th")[2]
    for step in ("ascending", "descending"):
        title.click()
        WebDriverWait(opened, 10).until(lambda b, step=step: title.get_attribute("aria-sort") == step)
        values = [float(cell.split()[0]) for cell in _column(table, 2)]
        assert values == sorted(values, reverse=step == "descending")


def test_many_nodes_are_found_by_name(browser: Any, tmp_path: Path) -> None:
    _open(browser, report.page(compared([f"clinic {k}" for k in range(120)], rounds=2, seeds=1), tmp_path / "p.html"))
    table = browser.find_element(By.CSS_SELECTOR, "#sites > .wide")
    assert len(_column(table, 0)) == 25  # of a page
    _set(browser, table.find_element(By.CSS_SELECTOR, ".dt-search input"), "clinic 117")
    WebDriverWait(browser, 10).until(lambda b: _column(table, 0) == ["clinic 117"])
    _set(browser, table.find_element(By.CSS_SELECTOR, ".dt-search input"), "")
    browser.execute_script("dispatchEvent(new Event('beforeprint'))")
    WebDriverWait(browser, 10).until(lambda b: len(_column(table, 0)) == 120)  # on paper there are no pages to turn


def test_a_benefit_is_drawn(browser: Any, found_benefit: Benefit, tmp_path: Path) -> None:
    _open(browser, report.page(found_benefit, tmp_path / "benefit.html"))
    widths = browser.execute_script("return [...document.images].map(x => x.naturalWidth)")
    assert len(widths) == 2
    assert all(widths)
    assert [entry for entry in browser.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")] == []


@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_fits_its_width(opened: Any, width: int) -> None:
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    opened.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        assert opened.execute_script("return document.documentElement.scrollWidth") <= width
    finally:
        opened.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_names_do_not_break_within_a_word(browser: Any, tmp_path: Path) -> None:
    names = ["switzerland", "hungary", "long beach", "a" * 60]
    _open(browser, report.page(compared(names, rounds=2, seeds=1), tmp_path / "p.html"))
    size = {"width": 390, "height": 900, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    lines = (
        "const found = {}; for (const x of document.querySelectorAll('#sites > .wide tbody th')) {"
        "const r = document.createRange(); r.selectNodeContents(x);"
        "found[x.textContent] = [r.getClientRects().length, x.offsetWidth]; } return found"
    )
    try:
        found = browser.execute_script(lines)
        assert (found["switzerland"][0], found["hungary"][0]) == (1, 1)
        assert found["long beach"][0] <= 2
        assert found["a" * 60][1] <= 195  # the column leaves half of the width to numbers
        assert browser.execute_script("return document.documentElement.scrollWidth") <= 390
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_charts_have_words_for_who_does_not_see_them(opened: Any) -> None:
    told = "return [...document.querySelectorAll('.chart')].map(x => x.alt)"
    labels = opened.execute_script(told)
    assert len(labels) == 3
    assert all(labels)


def test_a_browser_needs_no_mouse(opened: Any) -> None:
    told = (
        "const a = document.activeElement; return [a.tagName.toLowerCase(), a.type || '', "
        "getComputedStyle(a).outlineStyle, a.closest('th') ? 'th' : '']"
    )
    opened.execute_script("document.body.focus(); scrollTo(0, 0)")
    reached = []
    for _ in range(120):
        opened.switch_to.active_element.send_keys(Keys.TAB)
        reached.append(tuple(opened.execute_script(told)))
        if reached[-1][0] == "body":
            break
    assert [one for one in reached if one[0] != "body" and one[2] == "none"] == []  # where the focus is, is seen
    kinds = {(tag, kind) for tag, kind, *_ in reached}
    assert {("a", ""), ("summary", "")} <= kinds
    assert any(one[3] == "th" for one in reached)  # titles by which tables are sorted


def test_on_paper_nothing_is_cut_or_hidden(browser: Any, tmp_path: Path) -> None:
    _open(browser, report.page(compared([f"clinic {k}" for k in range(60)], rounds=2, seeds=1), tmp_path / "p.html"))
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    size = {"width": 720, "height": 1000, "deviceScaleFactor": 1, "mobile": False}  # A4 without its margins
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        browser.execute_script("dispatchEvent(new Event('beforeprint'))")
        rows = "return document.querySelectorAll('#sites > .wide tbody tr').length"
        WebDriverWait(browser, 10).until(lambda b: b.execute_script(rows) == 60)
        wide = "return [...document.querySelectorAll('section > .wide')].map(x => x.querySelector('table').offsetWidth)"
        assert all(width <= 720 for width in browser.execute_script(wide))
        seen = "return [...document.querySelectorAll('input, select, nav, button')].filter(x => x.offsetParent).length"
        assert browser.execute_script(seen) == 0
        handled = "return [...document.querySelectorAll('.handled')].map(x => x.offsetParent === null)"
        assert browser.execute_script(handled) == [True]
        browser.execute_script("dispatchEvent(new Event('afterprint'))")
        WebDriverWait(browser, 10).until(lambda b: b.execute_script(rows) == 25)
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_colors_follow_the_reader(opened: Any) -> None:
    found = {}
    for mode in ("light", "dark"):
        feature = {"name": "prefers-color-scheme", "value": mode}
        opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
        found[mode] = opened.execute_script("return getComputedStyle(document.body).backgroundColor")
    opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    assert found["light"] != found["dark"]


def test_the_numbers_behind_a_chart_unfold(opened: Any) -> None:
    details = opened.find_element(By.CSS_SELECTOR, "#curves details")
    assert not details.find_element(By.TAG_NAME, "table").is_displayed()
    details.find_element(By.TAG_NAME, "summary").send_keys(Keys.ENTER)
    assert details.find_element(By.TAG_NAME, "table").is_displayed()
