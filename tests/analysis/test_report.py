"""The report in a real browser: Debian's chromium and chromium-driver."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rlcb.analysis.compare import Comparison
from rlcb.analysis.groups import named_group
from rlcb.analysis.report import write_report
from tests.analysis.conftest import MakeRun

needs_chromium = pytest.mark.skipif(
    not (shutil.which("chromium") and shutil.which("chromedriver")),
    reason="needs a browser: apt-get install chromium chromium-driver",
)


@pytest.fixture
def page(make_run: MakeRun, tmp_path: Path) -> Path:
    scores = {"train": 8.0, "test": 6.5}
    sequential = [make_run(f"s{seed}", settings={"env.seed": seed}, evaluation=scores) for seed in (1, 2, 3)]
    parallel = [make_run(f"p{s}", mode="parallel", settings={"env.seed": s}, evaluation=scores) for s in (1, 2, 3)]
    maze = make_run("m", algo="impala", settings={"env.name": "maze"}, evaluation=scores)
    groups = [named_group("PPO Sequential", sequential), named_group("PPO Parallel", parallel)]
    write_report(Comparison([*groups, named_group("IMPALA </script> & co", [maze])]), tmp_path / "report.html")
    return tmp_path / "report.html"


@pytest.fixture
def browser() -> Iterator[Any]:
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    options.binary_location = str(shutil.which("chromium"))
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(str(shutil.which("chromedriver"))))
    driver.set_page_load_timeout(60)
    yield driver
    driver.quit()


def test_nothing_comes_from_the_network(page: Path) -> None:
    text = page.read_text()
    for tag in ("<link", "<img", "<script", "<video"):
        for part in text.split(tag)[1:]:
            assert "http" not in part.partition(">")[0], f"{tag}{part[:80]}"


@needs_chromium
@pytest.mark.parametrize("width", [360, 1600])
def test_it_renders(page: Path, browser: Any, width: int) -> None:
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500},
    )
    browser.get(page.as_uri())
    assert browser.execute_script("return document.body.dataset.drawn") == "yes"
    charts = browser.execute_script(
        "return [...document.querySelectorAll('.chart')].map(c => c.querySelectorAll('svg').length)"
    )
    assert len(charts) == 9
    assert all(charts)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    assert [entry for entry in browser.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")] == []


@needs_chromium
def test_dark_and_light(page: Path, browser: Any) -> None:
    seen = {}
    for scheme in ("light", "dark"):
        features = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", features)
        browser.get(page.as_uri())
        paper = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
        ink = browser.execute_script("return document.querySelector('.chart .xtick text').style.fill")
        seen[scheme] = (paper, ink)
    assert seen["light"] != seen["dark"]
    assert seen["light"][1] != seen["dark"][1], "charts change with the page"


@needs_chromium
def test_hover_shows_values(page: Path, browser: Any) -> None:
    from selenium.webdriver import ActionChains
    from selenium.webdriver.common.by import By

    browser.set_window_size(1400, 900)
    browser.get(page.as_uri())
    bar = browser.find_element(By.CSS_SELECTOR, "#speed .bars .point")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", bar)
    ActionChains(browser).move_to_element(bar).pause(0.5).perform()
    shown = browser.execute_script(
        "return [...document.querySelectorAll('#speed .hovertext')].map(t => t.textContent).join(' ')"
    )
    assert "PPO Sequential" in shown
    assert "100" in shown
