"""The page of results: it fetches nothing, and a real browser opens, draws and sorts it without an error."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest
from synthetic_runs import FORCED, write_run
from synthetic_runs import report as scored

from convs2s.errors import UserError
from convs2s.evaluation.compare import compare
from convs2s.evaluation.document import sections
from convs2s.evaluation.page import page
from convs2s.evaluation.plots import plots
from convs2s.evaluation.run_record import read_run
from convs2s.evaluation.svg import Series, chart

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
ATTENTION = {
    "line": 1,
    "text": "a dog runs",
    "layers": [1, 3],
    "source": ["ein", "hund", "</s>"],
    "target": ["a", "<dog>"],
    "attention": [[[0.9, 0.1, 0.0], [0.0, 0.8, 0.2]], [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]],
    "average": [[0.95, 0.05, 0.0], [0.0, 0.9, 0.1]],
}
# Clicks as a reader would, and leaves in the page what came of it.
PROBE = """
<script>
const figures = (table, n) => Array.from(table.tBodies[0].rows, row => row.cells[n].textContent);
const table = Array.from(document.querySelectorAll("table")).find(t =>
  document.getElementById(t.getAttribute("aria-labelledby")).textContent.startsWith("Table 5:"));
const column = Array.from(table.tHead.rows[0].cells).findIndex(cell => cell.textContent === "published");
const button = table.tHead.rows[0].cells[column].querySelector("button");
const before = figures(table, column);
button.click();
const up = figures(table, column);
button.click();
const found = {
  before, up, down: figures(table, column),
  sorted: table.tHead.rows[0].cells[column].getAttribute("aria-sort"),
  pictures: Array.from(document.images, image => image.naturalWidth),
  charts: Array.from(document.querySelectorAll("svg"), svg => svg.getBoundingClientRect().width > 50),
  maps: Array.from(document.querySelectorAll("table.map td"), cell => getComputedStyle(cell).backgroundColor),
  wide: document.documentElement.scrollWidth > document.documentElement.clientWidth + 1,
  links: Array.from(document.querySelectorAll("nav a"), a => document.querySelector(a.getAttribute("href")) !== null),
  errors: window.errors,
};
document.documentElement.dataset.found = JSON.stringify(found);
</script>
"""
WATCH = """<script>window.errors = []; addEventListener("error", e => window.errors.push(String(e.message)), true);
addEventListener("securitypolicyviolation", e => window.errors.push(e.blockedURI));</script>"""
# A browser under this policy reports whatever a page would fetch.
POLICY = """<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:;
style-src 'unsafe-inline'; script-src 'unsafe-inline'">"""


@pytest.fixture
def html(tmp_path: Path) -> str:
    """The page of one run with a curve, scores, attention as numbers and as a picture."""
    run = write_run(
        tmp_path / "run",
        "multi30k_bpe_de_en",
        options=FORCED,
        perplexities=[100.0 - 5 * epoch for epoch in range(16)] + [6.5],
        reports={"test": scored(bleu=37.0, bleu_tokenized=39.0)},
    )
    (run / "attention").mkdir()
    (run / "attention" / "line1.json").write_text(json.dumps(ATTENTION), "utf-8")
    picture = chart("one", "source", "target", [Series("weight", [(1, 0.95), (2, 0.05)])])
    (run / "attention" / "line2.svg").write_text(picture, "utf-8")
    comparison = compare([read_run(run)])
    return page(sections(comparison, plots(comparison)), "python scripts/compare.py")


class Reader(HTMLParser):
    """Notes what a page refers to, and whether its elements are closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.references: list[str] = []
        self.ids: list[str] = []
        self.unlabelled = 0

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        values = dict(attributes)
        if tag not in ("meta", "link", "img"):
            self.open.append(tag)
        self.references += [str(values[name]) for name in ("src", "href", "action", "data", "poster") if name in values]
        self.ids += [str(values["id"])] if "id" in values else []
        self.unlabelled += (tag == "img" and not values.get("alt")) + (tag == "svg" and not values.get("aria-label"))

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_needs_nothing_but_itself(html: str) -> None:
    """Fault: a font, script or picture from elsewhere; a name given twice; an element left open; a mute picture."""
    reader = Reader()
    reader.feed(html)
    assert reader.open == []
    assert all(reference.startswith(("#", "data:")) for reference in reader.references), reader.references
    assert not re.search(r"url\(|@import|https?://|//[a-z]+\.", html)
    assert len(set(reader.ids)) == len(reader.ids)
    assert reader.unlabelled == 0
    assert html.count("<img") == 1
    assert html.count('<table class="map"><caption>line1, ') == 3  # the average and two layers


def test_a_browser_opens_and_sorts_it(html: str, tmp_path: Path) -> None:
    """Fault: an error of script or style, a chart or picture that is not drawn, a column sorted as text."""
    browser = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if browser is None:
        pytest.skip("no Chromium is installed")
    path = tmp_path / "page.html"
    watched = html.replace("<head>", f"<head>{POLICY}{WATCH}", 1).replace("</body>", f"{PROBE}</body>", 1)
    path.write_text(watched, "utf-8")
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
    options += [f"--user-data-dir={tmp_path / 'profile'}", "--window-size=1000,800", "--virtual-time-budget=2000"]
    done = subprocess.run([browser, *options, "--dump-dom", path.as_uri()], capture_output=True, text=True, timeout=240)
    match = re.search(r'data-found="([^"]*)"', done.stdout)
    assert match, done.stderr[-2000:]
    found = json.loads(match[1].replace("&quot;", '"').replace("&amp;", "&"))
    assert found["errors"] == []
    figures = sorted(map(float, found["before"]))
    assert [float(text) for text in found["up"]] == figures
    assert [float(text) for text in found["down"]] == figures[::-1]
    assert found["sorted"] == "descending"
    assert all(width > 0 for width in found["pictures"])
    assert len(found["charts"]) > 8
    assert len(found["maps"]) == 3 * 6
    assert len(set(found["maps"])) > 4  # as dark as the weights are large
    assert all(found["charts"])
    assert found["links"]
    assert all(found["links"])
    assert not found["wide"]


def test_attention_of_another_form_is_refused(tmp_path: Path) -> None:
    """Fault: a damaged map is drawn askew or ends in a stack trace."""
    run = write_run(tmp_path / "run", "quickstart", perplexities=[5.0])
    (run / "attention").mkdir()
    for damage in ({"target": ["a"]}, {"average": None}, {"layers": [1]}):
        (run / "attention" / "line1.json").write_text(json.dumps({**ATTENTION, **damage}), "utf-8")
        comparison = compare([read_run(run)])
        with pytest.raises(UserError, match=r"line1\.json: no attention of scripts/plot_attention\.py"):
            page(sections(comparison, plots(comparison)), "c")


def test_charts_hold_their_points() -> None:
    """Fault: a point outside the axes, a logarithm of the wrong axis, a series that a screen reader does not hear."""
    svg = chart("t <&>", "x", "y", [Series("a", [(1, 1000.0), (2, 10.0), (3, 6.0)])], log=True)
    points = [tuple(map(float, found)) for found in re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)"', svg)]
    assert [x for x, _ in points] == sorted(x for x, _ in points)
    assert [y for _, y in points] == sorted(y for _, y in points)
    assert all(62 <= x <= 544 and 34 <= y <= 288 for x, y in points)
    low, middle, high = points[2][1], points[1][1], points[0][1]
    assert (middle - high) / (low - high) == pytest.approx(2.0 / 2.2218, abs=0.01)  # log 100 / log (1000 / 6)
    assert "<title>t &lt;&amp;&gt;</title>" in svg
    assert "<desc>a: 1 1000, 2 10, 3 6</desc>" in svg
    flat = chart("flat", "x", "y", [Series("a", [(1, 5.0)])])
    assert "nan" not in flat
