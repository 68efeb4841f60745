"""The page in a real headless Chromium, on the running server."""

import json
import struct
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from dsi_ray.experiments.bench.prompts import held_out_code
from tests.serving.browser import NAMES, Browser, Page, find_browser

EXECUTABLE = find_browser()
PROMPT = held_out_code(1)[0]
RUNNING = "!document.getElementById('stop').hidden"
READY = "document.getElementById('stop').hidden"
COLOURS = "(name) => getComputedStyle(document.body).getPropertyValue(name).trim()"

pytestmark = pytest.mark.skipif(
    EXECUTABLE is None,
    reason=f"no browser: install one of {', '.join(NAMES)}, or set DSI_RAY_BROWSER",
)

WATCH = f"""(() => {{
    window.seen = {{ texts: new Set(), lanesWhileRunning: 0 }};
    new MutationObserver(() => {{
        const text = document.querySelector("#texts pre")?.textContent ?? "";
        if ({RUNNING}) seen.texts.add(text);
    }}).observe(document.getElementById("texts"), {{
        childList: true, subtree: true, characterData: true,
    }});
    new MutationObserver(() => {{
        const lanes = document.querySelectorAll("#names .row-lane").length;
        if ({RUNNING}) seen.lanesWhileRunning = Math.max(seen.lanesWhileRunning, lanes);
    }}).observe(document.getElementById("names"), {{ childList: true }});
}})()"""

PAINTED = f"""((name) => {{
    const canvas = document.getElementById("canvas"), pen = canvas.getContext("2d");
    const colour = ({COLOURS})(name).match(/[0-9a-f]{{2}}/g).map((part) => parseInt(part, 16));
    const {{ data }} = pen.getImageData(0, 0, canvas.width, canvas.height);
    for (let i = 0; i < data.length; i += 4)
        if (colour.every((value, k) => data[i + k] === value)) return true;
    return false;
}})"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    assert EXECUTABLE is not None
    with Browser(EXECUTABLE) as browser:
        yield browser


@pytest.fixture
def page(browser: Browser, url: str) -> Iterator[Page]:
    """The page on a desktop, once it knows the model. It must not complain about anything."""
    with browser.page() as page:
        page.show(1280, 900)
        page.open(f"{url}/")
        page.wait_for("document.getElementById('model').textContent === 'demo'")
        yield page
        assert page.problems == []


def fill(page: Page, field: str, text: str) -> None:
    page.click(f"#{field}")
    page.type(text)


def generate(page: Page, prompt: str, max_tokens: int = 128) -> None:
    fill(page, "prompt", prompt)
    fill(page, "max-tokens", str(max_tokens))
    page.click("#generate")


def lanes(page: Page) -> list[str]:
    names: list[str] = page.evaluate(
        "[...document.querySelectorAll('#names .row-lane')].map((lane) => lane.textContent)"
    )
    return names


def width_of(picture: Path) -> int:
    """A PNG's width in pixels."""
    width: int = struct.unpack(">I", picture.read_bytes()[16:20])[0]
    return width


def test_a_prompt_gives_text_and_lanes_and_a_comparison(
    page: Page, http: httpx.Client, tmp_path: Path
) -> None:
    page.evaluate(WATCH)
    generate(page, PROMPT)
    page.wait_for(READY)
    body = {"model": "demo", "prompt": PROMPT, "max_tokens": 128, "temperature": 0}
    whole = http.post("/v1/completions", json=body)
    text = PROMPT + whole.json()["choices"][0]["text"]
    assert page.evaluate("document.querySelector('#texts pre').textContent") == text
    assert page.evaluate("seen.texts.size") > 3, "the text came at once, not as a stream"
    assert page.evaluate("seen.lanesWhileRunning") == 2, "the lanes came only at the end"
    assert lanes(page) == ["drafter-0", "target-0"]
    assert page.evaluate(f"{PAINTED}('--draft') && {PAINTED}('--verification')")
    assert "Tokens per second" in page.text("#figures")

    page.click("#compare")
    page.wait_for(READY)
    assert lanes(page) == ["drafter-0", "target-0", "target-0"]
    assert page.evaluate(f"{PAINTED}('--decode-step')")
    assert page.text("#status").startswith("The same text, ")
    assert "DSI beside non-SI" in page.text("#figures")
    for width, height in ((1280, 900), (390, 844)):
        for scheme in ("light", "dark"):
            page.show(width, height, scheme)
            assert page.evaluate("document.documentElement.scrollWidth") == width
            picture = tmp_path / f"page-{width}-{scheme}.png"
            page.screenshot(picture)
            assert width_of(picture) == 2 * width


@pytest.mark.parametrize("algorithm", ["si", "non-si"])
def test_the_algorithm_is_chosen(page: Page, algorithm: str) -> None:
    page.evaluate(f"document.querySelector('input[value={algorithm}]').click()")
    generate(page, PROMPT, 24)
    page.wait_for(READY)
    assert ("drafter-0" in lanes(page)) == (algorithm == "si")
    assert page.evaluate("document.getElementById('compare').disabled") == (algorithm == "non-si")


def test_the_keyboard_reaches_everything(page: Page) -> None:
    generate(page, PROMPT, 24)
    page.wait_for(READY)
    page.evaluate("document.getElementById('viewport').focus()")
    page.press("ArrowRight")
    assert page.text("#detail").startswith("drafter-0: draft, token")
    page.press("ArrowDown")
    assert page.text("#detail").startswith("target-0: decode step, token 1")
    spacer = "document.getElementById('spacer').offsetWidth"
    fitting = page.evaluate(spacer)
    page.press("+")
    page.wait_for(f"{spacer} > {fitting}")
    page.press("0")
    page.wait_for(f"{spacer} === {fitting}")


FOLLOW = """(async (prompt) => {
    const api = await import("/static/api.js");
    const { readTrace } = await import("/static/trace.js");
    const request = { model: "demo", prompt, max_tokens: 100, ignore_eos: true };
    let id, followed = null;
    const look = async () => {
        followed = readTrace(await api.trace(id, "", followed?.settledUs), followed);
    };
    for await (const chunk of api.complete(request, "")) {
        id = chunk.id;
        await look();
    }
    while ((await (await fetch("/health")).json()).groups[0].tasks) await look();
    await look();
    const whole = readTrace(await api.trace(id, ""));
    const sorted = ({ lanes, commits }) => JSON.stringify([
        lanes.map(({ name, spans }) => [name, spans.map((span) => JSON.stringify(span)).sort()]),
        commits,
    ]);
    return [sorted(followed), sorted(whole)];
})"""


def test_a_trace_that_was_followed_is_the_whole_trace(page: Page) -> None:
    followed, whole = page.evaluate(f"{FOLLOW}({json.dumps(PROMPT)})")
    assert json.loads(followed) == json.loads(whole)


def test_what_is_typed_stays_text(page: Page) -> None:
    prompt = "# <img src=x onerror=alert(1)> <b>bold</b>\n"
    generate(page, prompt, 4)
    page.wait_for(READY)
    assert page.evaluate("document.querySelector('#texts pre').textContent").startswith(prompt)
    assert page.evaluate("document.querySelectorAll('#texts b, #texts img').length") == 0


CLICK = """document.addEventListener("DOMContentLoaded", () => {
    document.getElementById("%s").click();
})"""


@pytest.mark.parametrize(("button", "texts"), [("generate", 1), ("compare", 2)])
def test_a_click_counts_from_the_first_moment(
    browser: Browser, url: str, button: str, texts: int
) -> None:
    """The page's scripts have run by then, and the model's name is still under way."""
    with browser.page() as page:
        page.call("Page.addScriptToEvaluateOnNewDocument", source=CLICK % button)
        page.open(f"{url}/")
        page.wait_for(f"{READY} && document.querySelectorAll('#texts pre').length === {texts}")
        assert page.problems == []


def test_a_refusal_is_shown_and_over_with_the_next_request(page: Page) -> None:
    generate(page, PROMPT, 10**6)
    page.wait_for("!document.getElementById('error').hidden")
    assert "the context holds" in page.text("#error")
    page.problems.clear()  # the browser itself notes every answer of 400
    generate(page, PROMPT, 4)
    page.wait_for(f"{READY} && document.getElementById('error').hidden")


def test_a_request_is_stopped(page: Page, http: httpx.Client) -> None:
    generate(page, "x = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,", 900)
    page.wait_for("document.querySelector('#texts pre')?.textContent.length > 90")
    page.click("#stop")
    page.wait_for(READY)
    assert page.text("#status") == "Stopped."
    assert page.evaluate("document.querySelector('#texts pre').textContent.length") < 3000
