"""``python -m loadtest`` from end to end."""

import json
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from loadtest.cli import app
from loadtest.record import read_records
from loadtest.summary import Summary, read_summary


def loadtest(*arguments: str) -> Result:
    """Runs the command."""
    return CliRunner().invoke(app, arguments)


def test_it_is_a_module_that_can_be_run() -> None:
    command = [sys.executable, "-m", "loadtest", "run", "--help"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (result.returncode, "smoke" in result.stdout) == (0, True)


def test_only_chaos_needs_the_openai_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    code = "import sys; sys.modules['openai'] = None; import loadtest.cli"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    result = loadtest("chaos")
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert "pip install openai" in result.stderr


@pytest.fixture(scope="module")
def sweep(fake_url: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run with two points, in one of which every request fails."""
    folder = tmp_path_factory.mktemp("runs") / "sweep"
    prompts = folder.with_suffix(".txt")
    prompts.write_text("fine\nbusy\n")
    result = loadtest(
        *("run", "poisson", f"--url={fake_url}/v1", f"--out={folder}", "--set=warm_up=0"),
        *("--set=load.rate=200", "--set=load.duration_s=null", "--set=load.requests=8"),
        f"--set=prompts={{kind: file, path: {prompts}}}",
        "--set=sweep={parameter: max_tokens, values: [4, 9]}",
    )
    assert result.exit_code == 0, result.stderr
    assert "max_tokens 9" in result.stdout
    return folder


def test_a_line_for_each_request(sweep: Path) -> None:
    records = read_records(sweep / "requests.jsonl")
    assert [record.point for record in records].count("max_tokens 4") == 8
    assert {record.error for record in records} == {None, "http_503"}
    tokens = {r.completion_tokens for r in records if r.point == "max_tokens 9" and not r.error}
    assert tokens == {9}


def test_summary(sweep: Path) -> None:
    summary = read_summary(sweep)
    assert (summary.target.model, summary.target.version) == ("fake", {"version": "1.2.3"})
    assert {"python", "cores", "versions", "commit", "started"} <= summary.environment.keys()
    for point, tokens in zip(summary.points, (4, 9), strict=True):
        figures = point.figures
        assert (figures.requests, figures.errors) == (8, {"http_503": 4})
        assert figures.completion_tokens == 4 * tokens
        assert figures.retry_after_s is not None and figures.retry_after_s.mean == 7
        # The server counts two forwards a token, of this window alone.
        assert point.server.target_forwards == 2 * figures.completion_tokens
        assert point.server.target_forwards_per_token == 2
        assert point.server.sp_utilisation is None


class _Page(HTMLParser):
    """Collects what a page would load, and counts its figures."""

    def __init__(self) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.figures = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.figures += tag == "svg"
        for name, value in attrs:
            if name in ("src", "href", "xlink:href") and value and not value.startswith("#"):
                self.loads.append(value)


def test_the_page_needs_nothing_else(sweep: Path) -> None:
    page = _Page()
    text = (sweep / "report.html").read_text()
    page.feed(text)
    assert page.loads == []
    assert page.figures >= 8
    assert "http_503" in text and "not reported by this server" in text


def test_report_gives_the_same_figures_again(sweep: Path) -> None:
    summary, page = (sweep / "summary.json").read_text(), (sweep / "report.html").read_text()
    result = loadtest("report", str(sweep))
    assert result.exit_code == 0, result.stderr
    assert (sweep / "summary.json").read_text() == summary
    assert (sweep / "report.html").read_text() == page


def test_compare(sweep: Path, tmp_path: Path) -> None:
    old = read_summary(sweep)
    point = old.points[1]
    doubled = point.figures.model_copy(update={"requests_per_s": 2 * point.figures.requests_per_s})
    new = Summary(
        name="faster",
        scenario=old.scenario.model_copy(update={"seed": 5}),
        target=old.target,
        environment={},
        points=[point.model_copy(update={"figures": doubled})],
    )
    (tmp_path / "summary.json").write_text(new.model_dump_json())
    result = loadtest("compare", str(sweep), str(tmp_path))
    assert result.exit_code == 0, result.stderr
    lines = [line.split() for line in result.stdout.splitlines()]
    assert [line[-1] for line in lines if line[:1] == ["requests/s"]] == ["2.000"]
    assert "seed: 0 | 5" in result.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "nothing-of-that-name"),
        ("run", "smoke", "--set", "load.kind=other"),
        ("run", "smoke", "--set", "novalue"),
        ("run", "smoke", "--url=http://127.0.0.1:9", "--wait=0"),
        ("compare", ".", "."),
    ],
)
def test_errors_are_one_line(arguments: tuple[str, ...], tmp_path: Path) -> None:
    out = ("--out", str(tmp_path / "out")) if arguments[0] == "run" else ()
    result = loadtest(*arguments, *out)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")
    assert len(result.stderr.splitlines()) == 1


def test_a_run_in_which_everything_fails_is_a_result(fake_url: str, tmp_path: Path) -> None:
    prompts = tmp_path / "prompts.json"
    prompts.write_text(json.dumps(["cut"]))
    result = loadtest(
        *("run", "smoke", f"--url={fake_url}", f"--out={tmp_path}", "--set=warm_up=0"),
        f"--set=prompts={{kind: file, path: {prompts}}}",
    )
    assert result.exit_code == 0, result.stderr
    figures = read_summary(tmp_path).points[0].figures
    assert (figures.errors, figures.e2e_ms) == ({"broken_stream": 10}, None)
    assert figures.goodput is not None and figures.goodput.share == 0
    assert "broken_stream" in (tmp_path / "report.html").read_text()


def test_a_failing_warm_up_stops_the_run(fake_url: str, tmp_path: Path) -> None:
    prompts = tmp_path / "prompts.json"
    prompts.write_text(json.dumps(["busy"]))
    result = loadtest(
        *("run", "smoke", f"--url={fake_url}", f"--out={tmp_path / 'out'}"),
        f"--set=prompts={{kind: file, path: {prompts}}}",
    )
    assert (result.exit_code, "http_503" in result.stderr) == (2, True)
