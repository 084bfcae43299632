"""The dashboard in a real browser, without a network: it draws, filters, answers and fits."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from bench_records import CHUNKS, FACTORS, HOSTILE, SIZES, WORKLOADS, made_up_run
from benches import dashboard

BARS = "#bars .barlayer .point"
LINES = "#curves .scatterlayer .trace"
GROWTH = "#growth .scatterlayer .trace"
GUIDES = 2  # linear, quadratic


@pytest.fixture(scope="session")
def browser(chromium: str) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    place = tmp_path_factory.mktemp("dashboard")
    (place / "records.json").write_text(json.dumps(made_up_run()), "utf-8")
    page = place / "index.html"
    assert dashboard.main([str(place / "records.json"), str(page)]) == 0
    return page.as_uri()


Open = Callable[..., Page]


@pytest.fixture
def open_page(browser: Browser, address: str) -> Iterator[Open]:
    """Open the page offline; it must ask for nothing and complain of nothing."""
    requests: list[str] = []
    complaints: list[str] = []
    contexts = []

    def open_page(where: str = address, *, width: int = 1200, **options: Any) -> Page:
        context = browser.new_context(
            viewport={"width": width, "height": 800}, offline=True, **options
        )
        contexts.append(context)
        page = context.new_page()
        page.on("request", lambda request: requests.append(request.url))
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(where)
        return drawn(page)

    yield open_page
    for context in contexts:
        context.close()
    # The page itself, and what its download button made.
    assert {re.sub(r"[#].*", "", url).partition(":")[0] for url in requests} <= {"file", "blob"}
    assert len([url for url in requests if url.startswith("file")]) == len(contexts)
    assert complaints == []


def drawn(page: Page) -> Page:
    """Wait until the last chart is drawn, which a choice does not wait for."""
    page.wait_for_selector("body[data-state=drawn]")
    return page


def count(page: Page, selector: str) -> int:
    return drawn(page).locator(selector).count()


def open_filters(page: Page) -> None:
    page.locator("#filters summary").click()


def toggle(page: Page, engine: str) -> None:
    page.locator("#engines").get_by_role("button", name=engine, exact=True).click()


def test_page_draws_a_bar_a_line_and_a_growth_curve_for_every_engine(open_page: Open) -> None:
    page = open_page()
    assert count(page, "#bars figure") == len(WORKLOADS)
    assert count(page, BARS) == len(WORKLOADS) * len(FACTORS)
    assert count(page, LINES) == len(WORKLOADS) * len(FACTORS)
    assert count(page, f"{LINES} .points path") == len(WORKLOADS) * len(FACTORS) * len(CHUNKS)
    assert count(page, GROWTH) == 3 + GUIDES
    assert count(page, f"{GROWTH} .points path") == 3 * len(SIZES)
    assert page.locator("#growth .exponents").inner_text().split("\n") == [
        "seamstream", "1.00", "hare", "1.00", "tortoise", "2.00",
    ]  # fmt: skip
    assert count(page, "#memory .barlayer .point") == 3
    # The lengths are the figures: linear, from zero.
    widths = page.evaluate(
        """() => [...document.querySelectorAll("#bars figure:first-child .barlayer .point path")]
            .map((bar) => bar.getBBox().width)"""
    )
    for width, factor in zip(widths, sorted(FACTORS.values()), strict=True):
        assert width == pytest.approx(widths[-1] * factor / 40, abs=0.5)


def test_what_was_wrong_or_lost_is_a_word_and_no_bar(open_page: Open) -> None:
    page = open_page()
    plain, fancy = page.locator("#bars figure").all()
    assert plain.locator(".annotation-text").all_text_contents() == ["wrong output"]
    assert fancy.locator(".annotation-text").all_text_contents() == ["lost events"]
    assert "mole, wrong output" in page.locator("#curves figure >> nth=0").inner_text()
    page.get_by_role("button", name="JSON", exact=True).click()
    assert "Not supported: mole" in page.locator("#bars figure").inner_text()
    assert count(page, BARS) == 3


def test_engine_filter_takes_its_bars_and_lines_away(open_page: Open) -> None:
    page = open_page()
    open_filters(page)
    before = count(page, BARS), count(page, LINES), count(page, GROWTH)
    toggle(page, "hare")
    assert (count(page, BARS), count(page, LINES), count(page, GROWTH)) == (
        before[0] - len(WORKLOADS),
        before[1] - len(WORKLOADS),
        before[2] - 1,
    )
    chip = page.locator("#engines").get_by_role("button", name="hare", exact=True)
    assert chip.get_attribute("aria-pressed") == "false"
    assert page.locator("#shown").inner_text() == "6 of 7 engines, all 3 workloads"
    # By keyboard, and the focus stays where it is.
    chip.focus()
    page.keyboard.press("Space")
    assert (count(page, BARS), count(page, LINES), count(page, GROWTH)) == before
    assert page.evaluate("document.activeElement.dataset.name") == "hare"


def test_workload_filter_and_an_empty_choice_say_what_is_left(open_page: Open) -> None:
    page = open_page()
    open_filters(page)
    page.locator("#workloads").get_by_role("button", name="fancy").click()
    assert page.locator("#bars h3").all_inner_texts() == ["plain"]
    assert page.locator("#curves h3").all_inner_texts() == ["plain"]
    page.get_by_role("button", name="None", exact=True).click()
    assert count(page, ".plot") == 0
    assert "Nothing is selected" in page.locator("#bars").inner_text()
    page.get_by_role("button", name="All engines").click()
    assert count(page, BARS) == len(FACTORS)


def test_choice_is_kept_in_the_address(open_page: Open) -> None:
    page = open_page()
    open_filters(page)
    toggle(page, "tortoise")
    page.locator("#chunk").select_option("event")
    again = open_page(page.url)
    assert count(again, BARS) == len(WORKLOADS) * (len(FACTORS) - 1)
    assert again.locator("#chunk").input_value() == "event"


def test_pointing_at_a_bar_or_a_point_shows_its_figure(open_page: Open) -> None:
    page = open_page()
    point_at(page, "#bars .barlayer .point >> nth=-1")
    shown = page.locator("#bars .hovertext")
    shown.wait_for()
    assert "tortoise" in shown.text_content()
    for text in ("2,000 ns/event", "from 1,800 ns to 2,200 ns, 5 rounds", "20× the time"):
        assert text in shown.text_content()
    point_at(page, "#growth .scatterlayer .trace:last-child .points path >> nth=-1")
    shown = page.locator("#growth .hovertext")
    shown.wait_for()
    for text in ("seamstream", "8.00 ms", "4 MB", "exponent 1.00"):
        assert text in shown.text_content()


def point_at(page: Page, selector: str) -> None:
    """Move the pointer over what lies under the layer in which plotly.js takes events."""
    found = page.locator(selector)
    found.evaluate("(element) => element.scrollIntoView({block: 'center', behavior: 'instant'})")
    box = found.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2 - 3, box["y"] + box["height"] / 2)
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)


def test_throughput_is_shown_instead_of_time(open_page: Open) -> None:
    page = open_page()
    page.locator("#measure").select_option("throughput")
    texts = drawn(page).locator("#bars .bartext").all_text_contents()
    assert texts == ["6,000 MB/s", "300 MB/s  20×"]  # the better first
    page.get_by_role("button", name="UTF-8").click()
    assert "These records have no such figures" in page.locator("#bars").inner_text()
    page.locator("#measure").select_option("cpu_time")
    assert drawn(page).locator("#bars .bartext").all_text_contents() == ["0.50 ns"]
    assert "Decoded to text" in page.locator("#bars-explain").inner_text()


def test_figures_are_also_a_table(open_page: Open) -> None:
    page = open_page()
    page.locator("details.table summary").click()
    rows = [row.all_inner_texts() for row in map(cells, page.locator("#bars-table tr").all())]
    assert rows[0] == ["Engine", *WORKLOADS]
    assert ["seamstream", "100 ns/event", "100 ns/event"] in rows
    assert ["mole", "wrong output", "lost events"] in rows
    assert len(rows) == 1 + len(FACTORS) + 1


def cells(row: Any) -> Any:
    return row.locator("th, td")


def look(page: Page) -> tuple[str, str]:
    return drawn(page).evaluate(
        """() => [getComputedStyle(document.body).backgroundColor,
                  getComputedStyle(document.querySelector("#bars .point:last-child path")).fill]"""
    )


def test_dark_colours_follow_the_system_and_the_button(open_page: Open) -> None:
    light = look(open_page(color_scheme="light"))
    page = open_page(color_scheme="dark")
    dark = look(page)
    assert dark[0] != light[0]
    assert dark[1] != light[1]
    page.locator("#theme").click()
    assert look(page) == light
    assert page.locator("#theme").get_attribute("aria-label") == "Change to dark colours"


@pytest.mark.parametrize("width", [360, 390, 768, 1400])
def test_page_fits_its_window(open_page: Open, width: int) -> None:
    page = open_page(width=width)
    open_filters(page)
    page.locator("details.table summary").click()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    # Nothing is cut off either; only tables may scroll.
    beyond = page.evaluate(
        """() => [...document.querySelectorAll("body *")]
            .filter((e) => !e.closest(".scroll, .skip"))
            .map((e) => [e.outerHTML.slice(0, 120), e.getBoundingClientRect()])
            .filter(([, box]) => box.width && box.right > document.documentElement.clientWidth + 1)
            .map(([html]) => html)"""
    )
    assert beyond == []


def test_nothing_moves_when_figures_change(open_page: Open) -> None:
    page = open_page()
    place = page.locator("#curves").bounding_box()
    page.locator("#chunk").select_option("1")
    page.locator("#scale").select_option("log")
    assert page.locator("#curves").bounding_box() == place


def test_markup_in_a_name_is_text(open_page: Open) -> None:
    page = open_page()
    open_filters(page)
    assert HOSTILE in page.locator("#engines").inner_text()
    assert HOSTILE[:20] in page.locator("#bars").inner_text()
    assert page.evaluate("window.attacked") is None
    assert count(page, "img") == 0


def test_records_can_be_downloaded(open_page: Open, tmp_path: Path) -> None:
    page = open_page()
    with page.expect_download() as download:
        page.locator("#download").click()
    download.value.save_as(tmp_path / "saved.json")
    assert dashboard.read_records(tmp_path / "saved.json") == made_up_run()


def test_work_that_nobody_can_do_is_a_note_and_no_chart(open_page: Open, tmp_path: Path) -> None:
    run = made_up_run()
    for record in run["records"]:
        if record["group"] == "sse":
            record.update(
                value=None, low=None, high=None, correct=False, verdict="unsupported", detail=""
            )
    path = tmp_path / "index.html"
    path.write_text(dashboard.render(run), "utf-8")
    page = open_page(path.as_uri())
    for place in ("#bars", "#growth", "#memory"):
        assert count(page, f"{place} figure") > 0
        assert page.locator(f"{place} .plot:visible").count() == 0
    assert "seamstream" in page.locator("#bars .note").first.inner_text()


def test_page_without_records_says_so(open_page: Open, tmp_path: Path) -> None:
    run = made_up_run()
    run["records"] = []
    path = tmp_path / "index.html"
    path.write_text(dashboard.render(run), "utf-8")
    page = open_page(path.as_uri())
    assert count(page, ".plot") == 0
    assert "These records have no such figures." in page.locator("#bars").inner_text()
