"""Take the pictures of reports in docs/pictures: real flights in a real browser, in light, in dark and as wide as a phone.

    make flights && python docs/code/reports.py build/flights.csv

Needs the developers' environment and a chromium on this machine. Noise is drawn anew, so that counts differ a little each time.
"""

import io
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

import dphist as dp

FOLDER = Path(__file__).parents[1] / "pictures"
MOST_BYTES = 150_000


def reports(flights: Path, folder: Path) -> None:
    """Destinations, weeks, and airlines at their airports, by the aircraft that flew."""
    budget: dict[str, Any] = {"unit": "tailnum", "epsilon": 1.0, "delta": 1e-8}
    source = str(flights)
    dp.release(source, by="dest", intervals=0.95, total=True, **budget).report(folder / "report.html")
    week = "week=CAST(date_trunc('week', CAST(time_hour AS TIMESTAMP)) AS DATE)"
    dp.release(source, by=week, max_groups=20, intervals=0.95, **budget).report(folder / "report-weeks.html")
    dp.release(source, by=["carrier", "origin"], max_groups=3, total=True, **budget).report(
        folder / "report-two-keys.html"
    )


def take(browser: Browser, page: Path, name: str, width: int, height: int, *, dark: bool = False) -> None:
    """The top of a page as a picture of few colours, which is all that it has."""
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light")
    tab = context.new_page()
    tab.goto(page.as_uri())
    image = Image.open(io.BytesIO(tab.screenshot())).convert("RGB").quantize(128, dither=Image.Dither.NONE)
    context.close()
    target = FOLDER / name
    image.save(target, optimize=True)
    print(f"{target.name}: {target.stat().st_size:,} bytes")
    if target.stat().st_size > MOST_BYTES:
        raise SystemExit(f"{name} is too large")


def main(flights: Path) -> None:
    """Make the reports in a folder of their own, and take their pictures."""
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        folder = Path(name)
        reports(flights, folder)
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        take(browser, folder / "report.html", "report.png", 1000, 1180)
        take(browser, folder / "report.html", "report-dark.png", 1000, 1180, dark=True)
        take(browser, folder / "report.html", "report-phone.png", 360, 1180)
        take(browser, folder / "report-weeks.html", "report-weeks.png", 1000, 1000)
        take(browser, folder / "report-two-keys.html", "report-two-keys.png", 1000, 1180)
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "build/flights.csv"))
