"""The page of `phrasescore-smt serve`, in Chromium."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.wait import WebDriverWait

from tests.moses_integration.serving.conftest import BASELINE, RunningServer, running

pytestmark = pytest.mark.browser
_BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="module")
def browser() -> Iterator[webdriver.Chrome]:
    program = next(filter(None, map(shutil.which, _BROWSERS)), None)
    driver = shutil.which("chromedriver")
    if program is None or driver is None:
        pytest.skip("needs Chromium and chromedriver")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    started = webdriver.Chrome(options, webdriver.ChromeService(driver))
    yield started
    started.quit()


@pytest.fixture(scope="module")
def server(in_context: Path) -> Iterator[RunningServer]:
    with running("--system", f"baseline={BASELINE}", "--system", f"ctx={in_context}") as started:
        yield started


@pytest.fixture
def page(server: RunningServer, browser: webdriver.Chrome) -> Iterator[webdriver.Chrome]:
    """The page in a window as narrow as a telephone; scripts must log no error."""
    browser.set_window_size(390, 844)
    browser.get(server.url)
    yield browser
    assert browser.get_log("browser") == []  # type: ignore[no-untyped-call]


def translate(page: webdriver.Chrome, text: str) -> list[WebElement]:
    """Type a sentence and Enter; return the buttons of the phrases of the first system."""
    WebDriverWait(page, 30).until(lambda _: page.find_element(By.ID, "prepared").is_selected())
    field = page.find_element(By.ID, "text")
    field.clear()
    field.send_keys(text, Keys.ENTER)
    WebDriverWait(page, 30).until(lambda _: page.find_element(By.ID, "status").text.startswith(("Translated", "Not")))
    return page.find_elements(By.CSS_SELECTOR, "section:first-of-type .target button")


def covered(page: webdriver.Chrome) -> list[str]:
    return [word.text for word in page.find_elements(By.CSS_SELECTOR, "section:first-of-type .source .covered")]


def test_the_keyboard_shows_what_phrases_cover_and_their_columns(page: webdriver.Chrome) -> None:
    buttons = translate(page, "the black dogs drink .")
    assert [button.text for button in buttons] == ["les chiens noirs", "drink", "."]
    assert page.find_element(By.CSS_SELECTOR, ".translation").text == "les chiens noirs drink ."
    assert covered(page) == ["the", "black", "dogs"]
    rows = [row.text for row in page.find_elements(By.CSS_SELECTOR, "section:first-of-type tr")]
    assert "source given target, lexical\n0.785" in rows
    assert [word.text for word in page.find_elements(By.CSS_SELECTOR, "section:first-of-type .unknown")] == ["drink"]
    buttons[0].send_keys(Keys.TAB)
    assert covered(page) == ["drink"]
    assert "not in the phrase table" in page.find_element(By.TAG_NAME, "section").text
    webdriver.ActionChains(page).move_to_element(buttons[2]).perform()
    assert covered(page) == ["."]


def test_a_network_in_context_shows_its_options_with_and_without_the_sentence(page: webdriver.Chrome) -> None:
    translate(page, "the letter is here .")
    baseline, ctx = page.find_elements(By.TAG_NAME, "section")
    assert "in context" not in baseline.text
    assert "in context" in ctx.text
    ctx.find_element(By.CSS_SELECTOR, ".target button").click()
    caption, options = "Probability by the network:", ctx.find_elements(By.TAG_NAME, "table")[1]
    assert options.text.startswith(caption)
    assert len(options.find_elements(By.CSS_SELECTOR, ".chosen .bar")) == 2


def test_the_list_opens(page: webdriver.Chrome) -> None:
    translate(page, "the black dogs")
    page.find_element(By.TAG_NAME, "summary").click()
    first = page.find_element(By.CSS_SELECTOR, "ol li").text
    assert first.startswith("les chiens noirs\nscore ")
    assert "TranslationModel0" in first


def test_text_is_no_markup(page: webdriver.Chrome) -> None:
    [button, *_] = translate(page, "<img/src=x/onerror=alert(1)>")
    assert button.text == "<img/src=x/onerror=alert(1)>"
    assert page.find_elements(By.TAG_NAME, "img") == []


def test_a_reason_is_shown(page: webdriver.Chrome) -> None:
    assert translate(page, "a|b") == []
    assert "has a `|`" in page.find_element(By.ID, "status").text
    # Chromium logs the status of the answer.
    assert all("status of 400" in entry["message"] for entry in page.get_log("browser"))  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_wider_than_a_telephone_and_text_is_legible(page: webdriver.Chrome, scheme: str) -> None:
    page.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    )
    page.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    )
    translate(page, "the black dogs drink " + "x" * 80)
    assert page.execute_script("return document.documentElement.scrollWidth") <= 390
    colours = page.execute_script("const s = getComputedStyle(document.body); return [s.color, s.backgroundColor]")
    brightness = [sum(map(int, colour[colour.index("(") + 1 : -1].split(",")[:3])) for colour in colours]
    assert (brightness[0] > brightness[1] + 400) if scheme == "dark" else (brightness[1] > brightness[0] + 400)
