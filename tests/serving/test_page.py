"""The page in a real headless Chromium, on the running server."""

import json
import os
import re
import shutil
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from dsi_ray.experiments.bench.prompts import held_out_code

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
EXECUTABLE = os.environ.get("DSI_RAY_BROWSER") or next(filter(None, map(shutil.which, NAMES)), None)
TIMEOUT_MS = 50_000
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
PROMPT = held_out_code(1)[0]
RUNNING = "!document.getElementById('stop').hidden"
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
def browser(url: str) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        # Nobody's sandbox is there for root.
        browser = playwright.chromium.launch(executable_path=EXECUTABLE, args=["--no-sandbox"])
        yield browser
        browser.close()


@contextmanager
def tab(browser: Browser) -> Iterator[tuple[Page, list[str]]]:
    """A new tab, and what goes wrong in it, such as a forbidden script."""
    problems: list[str] = []
    page = browser.new_page(device_scale_factor=2, viewport={"width": 1280, "height": 900})
    page.set_default_timeout(TIMEOUT_MS)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda said: problems.append(said.text) if said.type == "error" else None)
    yield page, problems
    page.close()


@pytest.fixture
def page(browser: Browser, url: str) -> Iterator[Page]:
    """The page on a desktop, once it knows the model. It must not complain about anything."""
    with tab(browser) as (page, problems):
        page.goto(f"{url}/")
        expect(page.locator("#model")).to_have_text("demo", timeout=TIMEOUT_MS)
        yield page
        # The browser itself notes every answer of 400.
        assert [problem for problem in problems if "status of 400" not in problem] == []


def wait_until_ready(page: Page) -> None:
    expect(page.locator("#stop")).to_be_hidden(timeout=TIMEOUT_MS)


def generate(page: Page, prompt: str, max_tokens: int = 128) -> None:
    page.fill("#prompt", prompt)
    page.fill("#max-tokens", str(max_tokens))
    page.click("#generate")


def lanes(page: Page) -> list[str]:
    return page.locator("#names .row-lane").all_text_contents()


def width_of(picture: bytes) -> int:
    """A PNG's width in pixels."""
    width: int = struct.unpack(">I", picture[16:20])[0]
    return width


def test_a_prompt_gives_text_and_lanes_and_a_comparison(page: Page, http: httpx.Client) -> None:
    page.evaluate(WATCH)
    generate(page, PROMPT)
    wait_until_ready(page)
    body = {"model": "demo", "prompt": PROMPT, "max_tokens": 128, "temperature": 0}
    whole = http.post("/v1/completions", json=body)
    text = PROMPT + whole.json()["choices"][0]["text"]
    assert page.text_content("#texts pre") == text
    assert page.evaluate("seen.texts.size") > 3, "the text came at once, not as a stream"
    assert page.evaluate("seen.lanesWhileRunning") == 2, "the lanes came only at the end"
    assert lanes(page) == ["drafter-0", "target-0"]
    assert page.evaluate(f"{PAINTED}('--draft') && {PAINTED}('--verification')")
    assert "Tokens per second" in page.inner_text("#figures")

    page.click("#compare")
    wait_until_ready(page)
    assert lanes(page) == ["drafter-0", "target-0", "target-0"]
    assert page.evaluate(f"{PAINTED}('--decode-step')")
    assert page.inner_text("#status").startswith("The same text, ")
    assert "DSI beside non-SI" in page.inner_text("#figures")
    for width, height in ((1280, 900), (390, 844)):
        for scheme in SCHEMES:
            page.set_viewport_size({"width": width, "height": height})
            page.emulate_media(color_scheme=scheme)
            assert page.evaluate("document.documentElement.scrollWidth") == width
            assert width_of(page.screenshot(full_page=True)) == 2 * width


@pytest.mark.parametrize("algorithm", ["si", "non-si"])
def test_the_algorithm_is_chosen(page: Page, algorithm: str) -> None:
    page.locator(f"input[value={algorithm}]").check(force=True)
    generate(page, PROMPT, 24)
    wait_until_ready(page)
    assert ("drafter-0" in lanes(page)) == (algorithm == "si")
    assert page.is_disabled("#compare") == (algorithm == "non-si")


def test_the_keyboard_reaches_everything(page: Page) -> None:
    generate(page, PROMPT, 24)
    wait_until_ready(page)
    page.focus("#viewport")
    page.keyboard.press("ArrowRight")
    assert page.inner_text("#detail").startswith("drafter-0: draft, token")
    page.keyboard.press("ArrowDown")
    assert page.inner_text("#detail").startswith("target-0: decode step, token 1")
    spacer = page.locator("#spacer")
    width = "(element) => getComputedStyle(element).width"
    fitting = spacer.evaluate(width)
    page.keyboard.press("+")
    expect(spacer).not_to_have_css("width", fitting)
    assert float(spacer.evaluate(width).removesuffix("px")) > float(fitting.removesuffix("px"))
    page.keyboard.press("0")
    expect(spacer).to_have_css("width", fitting)


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
    wait_until_ready(page)
    assert page.text_content("#texts pre").startswith(prompt)
    expect(page.locator("#texts b, #texts img")).to_have_count(0)


CLICK = """document.addEventListener("DOMContentLoaded", () => {
    document.getElementById("%s").click();
})"""


@pytest.mark.parametrize(("button", "texts"), [("generate", 1), ("compare", 2)])
def test_a_click_counts_from_the_first_moment(
    browser: Browser, url: str, button: str, texts: int
) -> None:
    """The page's scripts have run by then, and the model's name is still under way."""
    with tab(browser) as (page, problems):
        page.add_init_script(CLICK % button)
        page.goto(f"{url}/")
        expect(page.locator("#texts pre")).to_have_count(texts, timeout=TIMEOUT_MS)
        wait_until_ready(page)
        assert problems == []


def test_a_refusal_is_shown_and_over_with_the_next_request(page: Page) -> None:
    generate(page, PROMPT, 10**6)
    expect(page.locator("#error")).to_contain_text("the context holds", timeout=TIMEOUT_MS)
    generate(page, PROMPT, 4)
    wait_until_ready(page)
    expect(page.locator("#error")).to_be_hidden()


def test_a_request_is_stopped(page: Page, http: httpx.Client) -> None:
    generate(page, "x = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,", 900)
    long = re.compile(".{91}", re.DOTALL)
    expect(page.locator("#texts pre")).to_have_text(long, timeout=TIMEOUT_MS)
    page.click("#stop")
    wait_until_ready(page)
    assert page.inner_text("#status") == "Stopped."
    assert len(page.locator("#texts pre").inner_text()) < 3000
