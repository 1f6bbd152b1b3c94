"""Pictures of every tab for docs/images, from an app that runs: one on a desk and one on a phone, light and dark.

    python app.py --port 7860
    python -m scripts.screenshots http://127.0.0.1:7860/?project=demo

Needs a browser as the browser tests do. Nothing is clicked but tabs: start the app where its folders have short names.
"""

import io
import sys
from itertools import product
from pathlib import Path

from PIL import Image
from playwright.sync_api import ViewportSize

from tests.webui.browser import running_browser

FOLDER = Path(__file__).parents[1] / "docs" / "images" / "tabs"
SIZES: dict[str, ViewportSize] = {"desk": {"width": 1280, "height": 900}, "phone": {"width": 390, "height": 844}}
TABS = ("data", "train", "inference", "system")
NUM_COLORS = 48
STILL_MS = 1_500
"""A page that looks the same after this time is drawn and filled."""


def main(address: str) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    with running_browser() as browser:
        for (size, viewport), theme, tab in product(SIZES.items(), ("light", "dark"), TABS):
            page = browser.new_page(viewport=viewport, reduced_motion="reduce")
            page.goto(f"{address}&tab={tab}&__theme={theme}")
            page.wait_for_selector("html:not(.filling):not(.unanswered)", state="attached")
            # A page that takes long is shown before it is there.
            page.wait_for_selector(".tabitem:visible .block:visible")
            before = b""
            while (taken := page.screenshot()) != before:
                before = taken
                page.wait_for_timeout(STILL_MS)
            picture = Image.open(io.BytesIO(taken))
            # Text stays sharp at half the size of a lossy picture.
            few = picture.convert("RGB").quantize(
                NUM_COLORS, Image.Quantize.MEDIANCUT, kmeans=8, dither=Image.Dither.NONE
            )
            few.convert("RGB").save(FOLDER / f"{tab}-{size}-{theme}.webp", lossless=True, quality=100, method=6)
            page.context.close()


if __name__ == "__main__":
    main(sys.argv[1])
