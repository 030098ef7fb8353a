"""The page in a real browser; without one the tests are skipped, with CI=true they fail."""

import html
import os
import re
import shutil
import subprocess

import pytest
from PIL import Image
from runs_of_federations import write_run
from typer.testing import CliRunner

from fedcof.cli import app

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--enable-logging=stderr",
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        CHROMIUM is None and os.environ.get("CI") != "true",
        reason="there is no Chromium to open the page in",
    ),
]

PROBE = """
<iframe style="width: {width}px; height: 900px; border: 0" srcdoc="{page}"></iframe>
<output></output>
<script>
  const frame = document.querySelector("iframe");
  frame.addEventListener("load", () => {{
    const page = frame.contentDocument, root = page.documentElement;
    const seen = selector => [...page.querySelectorAll(selector)].filter(
      one => one.getBoundingClientRect().width > 50 && one.getBoundingClientRect().height > 50
    ).length;
    document.querySelector("output").textContent =
      `overflow=${{root.scrollWidth - root.clientWidth}} figures=${{seen("figure svg")}} `
      + `tables=${{seen("table")}} `;
  }});
</script>
"""


def chromium(profile, *options):
    assert CHROMIUM, "there is no Chromium to open the page in; with CI=true it has to be installed"
    done = subprocess.run(
        [CHROMIUM, *FLAGS, f"--user-data-dir={profile}", *options],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert "CONSOLE" not in done.stderr, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def page(runs, tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    assert CliRunner().invoke(app, ["report", str(runs), "-o", str(folder)]).exit_code == 0
    return folder / "report.html"


@pytest.fixture(scope="module")
def run_page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    write_run(folder)
    assert CliRunner().invoke(app, ["report", str(folder), "-o", str(folder)]).exit_code == 0
    return folder / "report.html"


@pytest.mark.parametrize("width", [360, 1280])
def test_page_of_a_run_shows_its_tables_and_does_not_scroll_sideways(run_page, width, tmp_path):
    probe = tmp_path / "probe.html"
    probe.write_text(PROBE.format(width=width, page=html.escape(run_page.read_text())))
    dom = chromium(tmp_path / "profile", "--dump-dom", probe.as_uri())
    found = dict(re.findall(r"(overflow|figures|tables)=(-?\d+)", dom.split("<output>")[1]))
    assert (found["overflow"], found["figures"]) == ("0", "2")
    assert int(found["tables"]) == 8


@pytest.mark.parametrize("width", [360, 1280])
def test_page_shows_tables_and_figures_and_does_not_scroll_sideways(page, width, tmp_path):
    probe = tmp_path / "probe.html"
    probe.write_text(PROBE.format(width=width, page=html.escape(page.read_text())))
    dom = chromium(tmp_path / "profile", "--dump-dom", probe.as_uri())
    found = dict(re.findall(r"(overflow|figures|tables)=(-?\d+)", dom.split("<output>")[1]))
    assert found["overflow"] == "0"
    assert int(found["tables"]) == 5
    assert int(found["figures"]) >= 4


@pytest.mark.parametrize("width", [500, 1280])
def test_screenshot_is_not_blank(page, width, tmp_path):
    shot = tmp_path / "shot.png"
    options = (f"--screenshot={shot}", f"--window-size={width},1000", page.as_uri())
    chromium(tmp_path / "profile", *options)
    with Image.open(shot) as image:
        assert image.width == width
        assert len(image.convert("RGB").getcolors(10**7)) > 50
