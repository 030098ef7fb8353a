import re
from html.parser import HTMLParser

import pytest
from typer.testing import CliRunner

from fedcof.cli import app

pytestmark = pytest.mark.slow

SECTIONS = {"table1", "table_shrinkage", "participation", "tab-scatter", "table_severe"}


class Page(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def all(self, tag):
        return [attrs for name, attrs in self.tags if name == tag]


def report(runs, folder, *options):
    result = CliRunner().invoke(app, ["report", str(runs), "-o", str(folder), *options])
    assert result.exit_code == 0, result.output
    return folder / "report.html"


@pytest.fixture(scope="module")
def text(runs, tmp_path_factory):
    return report(runs, tmp_path_factory.mktemp("page")).read_text()


def test_every_experiment_has_its_section_and_its_place_in_the_navigation(text):
    page = Page(text)
    assert {attrs["id"] for attrs in page.all("section")} == SECTIONS
    links = {attrs["href"] for attrs in page.all("a")}
    assert {f"#{name}" for name in SECTIONS} <= links


def test_page_needs_nothing_from_elsewhere(text):
    page = Page(text)
    assert not page.all("script")
    references = re.findall(r'(?:src|href|xlink:href)="([^"]*)"|url\(([^)]*)\)', text)
    for reference in (a or b for a, b in references):
        assert reference.startswith(("#", "data:")), reference
    assert "@import" not in text


def test_tables_can_be_read_by_ear_and_scrolled_by_key(text):
    page = Page(text)
    assert len(page.all("table")) == len(page.all("caption")) == len(SECTIONS)  # rounds have two
    regions = [attrs for attrs in page.all("div") if attrs.get("role") == "region"]
    assert all(attrs["tabindex"] == "0" for attrs in regions)
    assert {attrs.get("scope") for attrs in page.all("th")} == {"col", "row"}


def test_figures_say_in_words_what_they_show(text):
    page = Page(text)
    figures = [attrs for attrs in page.all("svg") if attrs["role"] == "img"]
    assert len(figures) == len(page.all("figcaption")) >= 4
    assert all(attrs["aria-label"] for attrs in figures)


def test_navigation_has_titles_and_not_ids(text):
    links = re.findall(r'<li><a href="#[^"]*">([^<]*)</a>', text)
    assert "Shrinkage from 0 to 10" in links
    assert not SECTIONS & set(links)


def test_figures_come_with_their_data(text):
    downloads = [attrs for attrs in Page(text).all("a") if "download" in attrs]
    assert len(downloads) == text.count("<figcaption>")
    assert downloads[0]["href"].startswith("data:text/csv;charset=utf-8,method%2Csent_mb%2C")


def test_own_data_is_called_by_its_name_and_nothing_is_said_of_a_paper(text):
    assert "<h1>FedCOF on images</h1>" in re.sub(r"images\d+", "images", text)
    titles = re.findall(r'<th scope="col"[^>]*>([^<]*)</th>', text)
    assert "accuracy (%)" in titles
    assert "paper" not in titles
    assert "paper" not in text.lower()


def test_classes_have_their_names(text):
    assert {"blue", "green", "red"} <= set(re.findall(r">(\w+)</text>", text))


def test_no_id_is_there_twice(text):
    ids = [attrs["id"] for _, attrs in Page(text).tags if "id" in attrs]
    assert len(ids) == len(set(ids))


def test_what_was_not_run_is_said_with_the_reason(text):
    assert "Not run" in text
    assert "imagenet-r" in text


def test_same_runs_give_the_same_page(runs, text, tmp_path):
    assert report(runs, tmp_path).read_text() == text


def test_files_for_a_paper(runs, tmp_path):
    report(runs, tmp_path, "--paper")
    names = {path.name for path in (tmp_path / "paper").iterdir()}
    assert {"table1.tex", "table1-0.pdf", "table1-0.csv", "table_shrinkage-0.pdf"} <= names
    pdfs = [path.read_bytes() for path in (tmp_path / "paper").glob("*.pdf")]
    assert all(pdf.startswith(b"%PDF") and b"/Type3" not in pdf for pdf in pdfs)
    assert (tmp_path / "paper" / "table1-0.csv").read_text().startswith("method,sent_mb,accuracy,")


def test_name_of_a_data_set_cannot_bring_markup_into_the_page(runs, tmp_path):
    folder = tmp_path / "evil"
    folder.mkdir()
    rows = (runs / "results.jsonl").read_text()
    (folder / "results.jsonl").write_text(re.sub(r"folder:[^\"]*", "<script>x</script>", rows))
    text = report(folder, tmp_path).read_text()
    assert "<script>" not in text
    assert "&lt;script&gt;" in text


def test_folder_without_results_is_an_error_in_words(tmp_path):
    result = CliRunner().invoke(app, ["report", str(tmp_path), "-o", str(tmp_path / "page")])
    assert result.exit_code == 1
    assert "results.jsonl" in result.output
    assert "fedcof reproduce" in result.output.replace("\n", " ")
