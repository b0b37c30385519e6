"""The page at `/` in a real browser: typed into, sent, read, and never a place for markup."""

import asyncio
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.server import Server

pytest.importorskip("websockets", reason="the browser is driven over a websocket")
from browser import CHROMIUM, Browser

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")

CONTROL = 2
MARKUP = "<img src=x onerror=\"document.title='broken'\">"


@pytest.fixture(scope="module")
def server(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The trained model with a label that is markup."""
    folder = Path(shutil.copytree(trained / "model", tmp_path_factory.mktemp("served") / "model"))
    config = json.loads((folder / "config.json").read_text())
    config["tasks"]["mood"]["labels"] = ["negative", MARKUP]
    (folder / "config.json").write_text(json.dumps(config))
    with Server(folder, OMP_NUM_THREADS="1") as server:
        yield server


def test_a_sentence_and_a_pair_are_typed_sent_and_answered(server: Server) -> None:
    async def drive() -> None:
        async with Browser() as page:
            await page.open(server.url)
            assert await page.until("document.getElementById('about').textContent") == "mood · alike · tags"
            await page.type("the film is very good")
            await page.press("Enter", CONTROL)
            await page.until("document.querySelectorAll('[data-task]').length === 2")
            answer = "document.querySelector('[data-task=mood]')"
            names = await page.look(f"[...{answer}.querySelectorAll('.name')].map((e) => e.textContent)")
            assert names == ["negative", MARKUP]
            assert await page.look(f"{answer}.querySelectorAll('.bar').length") == 2
            assert "%" in await page.look(f"{answer}.querySelector('strong').textContent")
            assert await page.look("document.querySelectorAll('img').length") == 0
            assert await page.look("document.title") == "polytask"
            assert "ms in the server" in await page.look("document.getElementById('took').textContent")
            assert "the film is very good" in await page.look(
                "document.getElementById('snippet').textContent"
            )

            await page.look("document.getElementById('double').click()")
            await page.look("document.getElementById('b').focus()")
            await page.type("it's <b>good</b>")
            await page.look("document.getElementById('ask').click()")
            await page.until(
                "document.querySelector('[data-task=alike]')?.textContent.includes('regression')"
            )
            shown = await page.look("document.getElementById('snippet').textContent")
            assert "it'\\''s <b>good</b>" in shown
            await page.look("document.getElementById('python').click()")
            shown = await page.look("document.getElementById('snippet').textContent")
            compile(shown, "snippet", "exec")
            assert "requests.post(" in shown

            await page.look("document.getElementById('b').value = ''; document.getElementById('ask').click()")
            said = await page.until("document.getElementById('problem').textContent")
            assert said == "pair.1 should have 1 to 20,000 characters. Found 0."
            assert all(url.startswith(server.url) for url in page.requested)
            assert [text for text in page.complaints if "422" not in text] == []

    asyncio.run(drive())


@pytest.mark.parametrize("width", [320, 1200])
def test_nothing_is_cut_off_on_a_narrow_or_wide_screen(server: Server, width: int) -> None:
    async def drive() -> None:
        async with Browser() as page:
            await page.open(server.url, width, 700, dark=width == 320)
            await page.until("document.getElementById('about').textContent")
            await page.type("x" * 500)
            await page.press("Enter", CONTROL)
            await page.until("document.querySelector('[data-task=mood]') !== null")
            assert await page.look("document.documentElement.scrollWidth") <= width
            assert page.complaints == []

    asyncio.run(drive())


def test_a_server_with_a_token_asks_for_it(trained: Path) -> None:
    async def drive(url: str) -> None:
        async with Browser() as page:
            await page.open(url)
            assert "token" in await page.until("document.getElementById('problem').textContent")
            await page.until("document.activeElement.id === 'secret'")
            await page.type("abc")
            await page.press("Tab")
            await page.until("document.getElementById('about').textContent")
            assert await page.look("document.getElementById('problem').hidden")
            assert "abc" not in await page.look("document.getElementById('snippet').textContent")

    with Server(trained, POLYTASK_TOKEN="abc", OMP_NUM_THREADS="1") as server:
        asyncio.run(drive(server.url))
