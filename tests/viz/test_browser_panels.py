"""Below and beside the graph in a real browser: node, states, memory, time, several mini-batches."""

from __future__ import annotations

from pathlib import Path

import pytest

from abw.core.run.pipeline import RunOptions, run
from abw.core.spec.load import Overrides
from abw.core.store.runs import find_run
from abw.viz.data.scene import Scene, scene_of_run
from abw.viz.page import page as page_of
from tests.viz.browser import opened
from tests.viz.test_browser import WIDTHS, large, pixels, rest, text

pytestmark = pytest.mark.browser

WIDE = "document.documentElement.scrollWidth"


@pytest.fixture(scope="module")
def profiled(tmp_path_factory: pytest.TempPathFactory, root: Path) -> list[Scene]:
    """Two mini-batches of a profiled run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ABW_HOME", str(tmp_path_factory.mktemp("home")))
        patch.chdir(root)
        changes = Overrides(dims={"hidden": 8, "embed": 8}, limit=6, batch=3)
        run(Path("specs/treelstm.yaml"), changes, RunOptions(policy="agenda", profile=True))
        return [scene_of_run(find_run(None), number) for number in range(2)]


@pytest.fixture(scope="module")
def tree_page(profiled: list[Scene], tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("pages") / "trees.html"
    file.write_bytes(page_of(*profiled))
    return file


@pytest.fixture(scope="module")
def large_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("pages") / "large.html"
    file.write_bytes(page_of(large(20_000)))
    return file


def test_a_node_has_its_word_instance_and_line(tree_page: Path, root: Path) -> None:
    with opened(tree_page, 1280) as (page, _):
        page.fill("#search", "type:leaf instance:1")
        page.keyboard.press("Enter")
        said = dict(zip(*([iter(text(page, "#node dl").splitlines())] * 2), strict=False))
        line = (root / "specs/data/trees.txt").read_text().splitlines()[1]
        assert said["word"] in line.lower()
        assert said["instance"] == "1: number 1 of the data"
        assert said["line"].startswith("2 of ") and said["line"].endswith("trees.txt")
        assert "in state " in said["batch (agenda)"]
        page.fill("#search", f"word:{said['word']} line:2")
        found = int(text(page, "#found").split()[0])
        assert found >= 1
        page.fill("#search", said["word"])  # no type is called so
        assert int(text(page, "#found").split()[0]) >= found


@pytest.mark.parametrize("width", WIDTHS)
def test_states_have_the_numbers_of_the_search_and_do_not_overlap(
    lattice: Scene, tmp_path: Path, width: int
) -> None:
    file = tmp_path / "lattice.html"
    file.write_bytes(page_of(lattice))
    with opened(file, width) as (page, _):
        boxes = page.evaluate(
            """[...document.querySelectorAll('#machine .state')].map((e) => {
            const r = e.getBoundingClientRect(), number = e.querySelector('.number');
            return [e.id, r.left, r.top, r.right, r.bottom, number && number.textContent]; })"""
        )
        assert len(boxes) > 2
        for i, one in enumerate(boxes):
            assert one[5] is None or one[0] == f"state-fsm-{one[5]}"
            assert 0 <= one[1] < one[3] <= width
            for other in boxes[:i]:
                assert one[3] <= other[1] or other[3] <= one[1] or one[4] <= other[2] or other[4] <= one[2]
        now = text(page, "#machine .now .number")
        page.fill("#search", f"state:{now}")
        nodes = int(text(page, "#found").split()[0])
        assert nodes >= page.evaluate("app.policy.width[0]")
        page.fill("#states-search", now)
        assert text(page, "#states li").startswith(now)
        page.click("#states button")
        assert f"state {now}:" in text(page, ".about")
        assert page.locator("#machine .focus .number").inner_text() == now
        page.click("#follow")
        assert page.locator("#machine .focus").count() == 0
        assert page.evaluate(WIDE) <= width


def test_fifteen_hundred_states_are_explored(fig1: Scene, tmp_path: Path) -> None:
    file = tmp_path / "states.html"
    file.write_bytes(page_of(fig1))
    many = """() => { const { machine } = app.policy, S = 1500;
        machine.states = Array.from({ length: S }, (_, s) => ({ ready: [s % 3, (s + 1) % 4], also: [`n${s}`],
          chosen: s % 3, q: [[s % 3, 0.5, s]], taken: s < 40 ? [[s % 3, 40 - s]] : [], known: true }));
        machine.steps = Array.from({ length: app.policy.steps }, (_, b) => b);
        for (const key of ['source', 'target', 'type', 'count']) machine[key] = [];
        for (let s = 0; s < S; s++) for (const to of [s + 1, (s * 7) % S]) {
          machine.source.push(s); machine.target.push(to % S);
          machine.type.push(s % 3); machine.count.push(1 + (s % 9)); }
        app.machine.policy = null; app.machine.drawn = null; app.change(); }"""
    with opened(file, 1280) as (page, _):
        page.evaluate(many)
        assert text(page, "#states-found") == "1,500 states, most met first"
        assert page.locator("#states li").count() == 101
        assert text(page, "#states li").startswith("0 ")  # the one met most often
        page.click("#states li:last-child button")
        assert page.locator("#states li").count() == 501
        page.fill("#states-search", "1203")
        page.click("#states button")
        found = page.evaluate("[...document.querySelectorAll('#machine .number')].map((e) => +e.textContent)")
        before = {s for s in range(1500) if s * 7 % 1500 == 1203}
        assert set(found) == {1202, 1203, 1204, 1203 * 7 % 1500} | before
        page.click(f"#state-fsm-{1203 * 7 % 1500}")
        assert "comes from" in text(page, ".about")
        assert page.evaluate(WIDE) <= 1280


@pytest.mark.parametrize("width", WIDTHS)
def test_memory_and_time_are_there(tree_page: Path, width: int) -> None:
    with opened(tree_page, width) as (page, _):
        rest(page)
        owners = text(page, "#owners")
        for owner in ("weights", "graph, schedule and plan", "values of leaf", "process: measured"):
            assert owner in owners
        assert "while batch 1 runs" in text(page, "#memory-said")
        assert pixels(page, "#bytes") > 3 and pixels(page, "#time") > 3
        said = text(page, "#process-said")
        assert all(f"after {step} (" in said for step in ("reading", "compiling", "writing"))
        assert pixels(page, "#resident") > 3
        assert text(page, "#time-said").startswith("batch 1, leaf: ")
        assert "why threads waited" in text(page, "#reasons")
        box = page.locator("#time").bounding_box()
        page.locator("#time").scroll_into_view_if_needed()
        page.click("#time", position={"x": box["width"] - 12, "y": 40})  # the last batch's bar
        steps = page.evaluate("app.policy.steps")
        assert text(page, "#at") == f"batch {steps} of {steps}"
        page.click("#policies button:nth-child(2)")
        rest(page)
        assert "Measured was agenda" in text(page, "#time-said")
        assert page.locator("#time").is_hidden()
        assert page.evaluate(WIDE) <= width


@pytest.mark.parametrize("width", WIDTHS)
def test_mini_batches_stand_beside_each_other(tree_page: Path, width: int) -> None:
    with opened(tree_page, width) as (page, _):
        names = page.locator("#scenes button").all_inner_texts()
        assert names == ["run 1, mini-batch 0", "run 1, mini-batch 1"]
        rows = [row.split("\t") for row in text(page, "#figures").splitlines()]
        assert [row[0] for row in rows[1:4]] == ["instances", "nodes", "edges"]
        assert page.evaluate("read.length") == 1  # the second is read when it is first shown
        first = text(page, "#facts")
        page.click("#scenes button:nth-child(2)")
        assert text(page, "#facts") != first
        page.fill("#search", "type:leaf")
        page.press("#search", "Enter")
        assert "line\n4 of" in text(page, "#node").replace("\n\n", "\n")  # the second mini-batch begins there
        page.click("#beside")
        rest(page)
        assert page.locator(".view").count() == 2
        assert (
            page.locator("figcaption")
            .first.inner_text()
            .startswith("run 1, mini-batch 0, agenda: batch 1 of")
        )
        page.press("body", "m")
        assert text(page, "#facts") == first
        assert page.locator(".view").count() == 2
        assert page.evaluate(WIDE) <= width


def test_the_canvas_is_never_blank(large_page: Path) -> None:
    with opened(large_page, 1280) as (page, _):
        rest(page)
        for x, y in ((1e6, 0), (-1e6, 1e6), (0, -1e7)):
            for factor in (1, 100, 1e-6):
                page.evaluate(f"app.pan(app.views[0], {x}, {y}); app.zoom(app.views[0], {factor})")
                rest(page)
                assert page.evaluate("app.views[0].inSight") > 0
        assert pixels(page) > 1


def test_the_map_shows_where_one_is_and_leads_elsewhere(large_page: Path) -> None:
    with opened(large_page, 1280) as (page, _):
        rest(page)
        assert page.locator(".map").is_hidden()  # all is in sight
        page.evaluate("app.zoom(app.views[0], 12)")
        rest(page)
        assert page.locator(".map").is_visible()
        before = page.evaluate("({...app.world.camera})")
        box = page.locator(".map").bounding_box()
        page.mouse.click(box["x"] + 5, box["y"] + 5)
        rest(page)
        after = page.evaluate("({...app.world.camera})")
        assert after["x"] < before["x"] and after["y"] < before["y"] and after["k"] == before["k"]
        page.keyboard.press("0")
        rest(page)
        assert page.locator(".map").is_hidden()


def test_from_far_away_instances_are_bars_of_their_types(large_page: Path) -> None:
    with opened(large_page, 1280) as (page, _):
        page.keyboard.press("End")
        rest(page)
        assert page.evaluate("app.views[0].far")
        count = (
            "[0, 1, 2, 3].map((s) => app.views[0].counts.reduce((sum, c, i) => sum + (i % 4 === s) * c, 0))"
        )
        assert page.evaluate(count) == [0, 0, 0, 20_000]
        page.keyboard.press("Home")
        rest(page)
        later, ready, now, done = page.evaluate(count)
        assert done == 0 and now == page.evaluate("app.policy.width[0]") and later + ready + now == 20_000
        page.evaluate("app.zoom(app.views[0], 8)")
        rest(page)
        assert not page.evaluate("app.views[0].far")
