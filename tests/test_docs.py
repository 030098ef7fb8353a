"""The documentation's site is built as `make docs` builds it, and the pictures are drawn."""

import inspect
import re
import subprocess
import sys
from html.parser import HTMLParser

import pytest

from pages import DOCS, ROOT

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("sphinx")
    built = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--keep-going", "--quiet"]
    done = subprocess.run(
        [*command, "-d", built / "doctrees", DOCS, built / "html"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-6000:]
    return built / "html"


class Page(HTMLParser):
    """The targets and the links of a page, and what a browser would fetch for it."""

    def __init__(self, text):
        super().__init__()
        self.ids, self.links, self.fetched = set(), [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.ids.add(given.get("id"))
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag in {"script", "img"} and "src" in given:
            self.fetched.append(given["src"])
        if tag == "link" and "stylesheet" in given.get("rel", ""):
            self.fetched.append(given["href"])


@pytest.fixture(scope="module")
def pages(site):
    return {path: Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}


def test_every_link_within_the_site_leads_somewhere(site, pages):
    broken = []
    for path, page in pages.items():
        for link in page.links:
            target, _, anchor = link.partition("#")
            if re.match(r"[a-z]+:", target):
                continue
            there = (path.parent / target).resolve() if target else path
            if not there.exists() or (anchor and there in pages and anchor not in pages[there].ids):
                broken.append(f"{path.relative_to(site)}: {link}")
    assert not broken


def test_a_page_fetches_nothing_from_elsewhere(site, pages):
    assert {p.name for p in pages} >= {"index.html", "glossary.html", "hospital.html"}
    elsewhere = [url for page in pages.values() for url in page.fetched if "//" in url]
    assert not elsewhere


def test_every_public_name_is_in_the_reference(pages):
    import fedcof

    ids = set().union(*(page.ids for page in pages.values()))
    found = {i.rpartition(".")[2] for i in ids if i and i.startswith("fedcof.")}
    names = {name for name in fedcof.__all__ if inspect.isroutine(getattr(fedcof, name))}
    names |= {name for name in fedcof.__all__ if inspect.isclass(getattr(fedcof, name))}
    assert names <= found


def test_links_of_the_readme_lead_to_files():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_pictures_are_drawn(tmp_path):
    drawn = subprocess.run(
        [sys.executable, "-W", "error", DOCS / "figures" / "draw.py", tmp_path], check=False
    )
    assert drawn.returncode == 0
    assert {path.name for path in tmp_path.iterdir()} == {
        path.name for path in (DOCS / "figures").glob("*.svg")
    }
