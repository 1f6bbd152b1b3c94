"""A real browser for tests: Debian's chromium, or the one that $XTTS_STUDIO_CHROMIUM names."""

import os
import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, Error, Page, sync_playwright

VARIABLE = "XTTS_STUDIO_CHROMIUM"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@contextmanager
def running_browser(*flags: str) -> Iterator[Browser]:
    """A browser without a window, with more flags; where none can be had, the test is skipped, and loudly."""
    path = os.environ.get(VARIABLE) or next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        skip(f"no browser: install chromium (apt-get install chromium), or name one in {VARIABLE}")
    with sync_playwright() as driver:
        try:
            # Containers run as root, where chromium's sandbox does not start.
            flags = ("--no-sandbox", "--disable-dev-shm-usage", *flags)
            browser = driver.chromium.launch(executable_path=path, args=list(flags))
        except Error as error:
            skip(f"the browser {path} does not start: {error}")
        try:
            yield browser
        finally:
            browser.close()


def open_folds(page: Page) -> None:
    """Open everything that can be opened in the tab that is shown."""
    page.wait_for_timeout(300)
    folds = page.locator("button.label-wrap:visible:not(.open)")
    for _ in range(50):
        if not folds.count():
            return
        folds.first.click()
    raise AssertionError("a fold does not open")


def skip(reason: str) -> None:
    """Skip with a line that stands out in the summary of the tests."""
    warnings.warn(f"BROWSER TESTS DID NOT RUN: {reason}", stacklevel=3)
    pytest.skip(reason)
