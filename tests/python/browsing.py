"""A real browser for tests of pages: skipped where there is none."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
HEADLESS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1200,900",
)


@contextmanager
def headless() -> Iterator[Any]:
    """Headless Chromium, whose console is kept."""
    webdriver = pytest.importorskip("selenium.webdriver")
    if CHROMIUM is None or DRIVER is None:
        pytest.skip("no Chromium with ChromeDriver on this machine")
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for argument in HEADLESS:
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    try:
        yield driver
    finally:
        driver.quit()


def emulate(driver: Any, width: int, scheme: str) -> None:
    """A screen of that many pixels, light or dark."""
    driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": 844, "deviceScaleFactor": 1, "mobile": width < 500},
    )
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


def drawn(driver: Any) -> list[str]:
    """Scrolls to each figure until it is drawn; their names."""
    from selenium.webdriver.support.ui import WebDriverWait

    names = [
        one.get_attribute("data-figure")
        for one in driver.find_elements("css selector", "[data-figure]")
    ]
    for name in names:
        figure = f"[data-figure='{name}']"
        driver.execute_script("document.querySelector(arguments[0]).scrollIntoView()", figure)
        WebDriverWait(driver, 20).until(
            lambda known, it=figure: known.find_elements("css selector", f"{it} svg .mark-group")
        )
    return names


CUT_OFF = """
const found = [];
for (const svg of document.querySelectorAll("[data-figure] svg.marks")) {
  const frame = svg.getBoundingClientRect();
  for (const text of svg.querySelectorAll("text")) {
    const box = text.getBoundingClientRect();
    const outside = Math.max(frame.left - box.left, box.right - frame.right,
      frame.top - box.top, box.bottom - frame.bottom);
    if (text.textContent.endsWith("…") || outside > 2) found.push(text.textContent);
  }
}
return found;
"""
"""Labels of figures that are not whole: shortened, or beyond the figure's edge."""

WITHOUT_HINT = """
return [...document.querySelectorAll(".scroll")].filter((box) => box.checkVisibility() &&
  (box.scrollWidth > box.clientWidth + 1) !== box.hasAttribute("data-more")
).map((box) => `${box.closest("section").id}: ${box.scrollWidth} in ${box.clientWidth}`);
"""
"""Boxes that scroll without saying so, or say so and do not."""

OPEN_ALL = """
for (const one of document.querySelectorAll("details")) one.open = true;
const done = arguments[0];
requestAnimationFrame(() => requestAnimationFrame(() => requestAnimationFrame(done)));
"""
"""Opens what is folded, and waits until the page has seen it."""
