"""The page in a real browser: `pytest -m browser` (needs playwright and Chromium)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from abw.core.graph.dag import Dag, build_dag
from abw.core.policy.registry import get_policy
from abw.core.run.pipeline import RunOptions, run
from abw.core.spec.load import Overrides
from abw.core.store.runs import StoredRun, find_run
from abw.viz.data.scene import Scene, scene_of_run, scene_of_spec
from abw.viz.page import page as page_of
from tests.viz.browser import opened

pytestmark = pytest.mark.browser

WIDTHS = (1280, 390)


@pytest.fixture
def fig1_page(fig1: Scene, tmp_path: Path) -> Path:
    file = tmp_path / "fig1.html"
    file.write_bytes(page_of(fig1))
    return file


@pytest.fixture
def lattice_page(lattice: Scene, tmp_path: Path) -> Path:
    file = tmp_path / "lattice.html"
    file.write_bytes(page_of(lattice))
    return file


def large(nodes: int) -> Scene:
    """Instances of 50 nodes with about two edges a node."""
    rng = np.random.default_rng(0)
    target = np.repeat(np.arange(nodes, dtype=np.int32), 3)
    source = (target - rng.integers(1, 12, len(target))).astype(np.int32)
    inside = (source >= 0) & (source // 50 == target // 50)
    dag: Dag = build_dag(
        ("a", "b", "c"), rng.integers(0, 3, nodes).astype(np.int32), source[inside], target[inside]
    )
    number = np.arange(nodes, dtype=np.int32)
    schedules = {name: get_policy(name).schedule(dag) for name in ("sufficient", "agenda")}
    return Scene("large", "large", 0, 1, dag, number // 50, number, schedules, None)


def text(page: Any, css: str) -> str:  # noqa: ANN401 - playwright is not there when types are checked
    return str(page.inner_text(css))


def pixels(page: Any, css: str = ".view canvas") -> int:  # noqa: ANN401
    """How many different colours a canvas shows."""
    return int(
        page.evaluate(
            """(css) => { const c = document.querySelector(css);
            const d = new Uint32Array(c.getContext('2d').getImageData(0, 0, c.width, c.height).data.buffer);
            return new Set(d).size; }""",
            css,
        )
    )


def rest(page: Any) -> None:  # noqa: ANN401
    """Wait for the next two frames."""
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


@pytest.mark.parametrize("width", WIDTHS)
def test_stepping_moves_everything(fig1_page: Path, width: int) -> None:
    with opened(fig1_page, width) as (page, _):
        assert text(page, "#at") == "batch 1 of 6"
        assert pixels(page) > 4
        for _ in range(3):
            page.click("#next")
        assert text(page, "#at") == "batch 4 of 6"
        assert "1 node of I" in text(page, "#said")
        assert "Ready: I 1, O 6" in text(page, "#said")
        assert page.evaluate("document.querySelector('.state.now').id") == "state-fsm-1"
        page.keyboard.press("End")
        assert text(page, "#at") == "done: 6 batches"
        page.keyboard.press("Home")
        assert text(page, "#at") == "batch 1 of 6"
        page.fill("#step", "4")
        assert "7 nodes of O" in text(page, "#said")
        # nothing is wider than the window
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_controls_leave_a_telephone_its_screen(lattice_page: Path) -> None:
    with opened(lattice_page, 390, 844) as (page, _):
        assert page.evaluate("document.querySelector('.stage').getBoundingClientRect().top") < 200
        assert page.evaluate("document.querySelector('.bar').offsetHeight") < 130
        page.click("#policies button:last-child")
        assert "agenda" in page.inner_text("#policies [aria-pressed=true]")


def test_the_machine_is_called_what_it_is(fig1_page: Path) -> None:
    with opened(fig1_page, 1280) as (page, _):
        assert text(page, "#machine-name") == "the policy as a state machine"
        page.click("#policies button:nth-child(2)")
        assert text(page, "#machine-name") == "the states that the policy met"
        assert "the policy is a rule" in text(page, "#machine-said")


def test_play_runs_to_the_end_and_stops(fig1_page: Path) -> None:
    with opened(fig1_page, 1280) as (page, _):
        page.select_option("#speed", "60")
        page.click("#play")
        page.locator("#at", has_text="done").wait_for(timeout=10_000)
        assert page.get_attribute("#play", "aria-pressed") == "false"


@pytest.mark.parametrize("width", WIDTHS)
def test_policies_are_switched_and_stand_side_by_side(fig1_page: Path, width: int) -> None:
    with opened(fig1_page, width) as (page, _):
        page.click("#policies button:nth-child(2)")
        assert text(page, "#at") == "batch 1 of 9"
        page.fill("#step", "2")
        assert "Not free" in text(page, "#said")
        assert page.locator("#machine .now").get_attribute("id").startswith("state-depth-")
        page.click("#compare")
        rest(page)
        assert page.locator(".view").count() == 3
        assert page.locator("figcaption").all_inner_texts() == [
            "fsm: batch 3 of 6", "depth: batch 3 of 9", "agenda: batch 3 of 7",
        ]  # fmt: skip
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_type_to_blame_is_named_and_leads_to_its_batches(fig1_page: Path) -> None:
    with opened(fig1_page, 1280) as (page, _):
        rows = [row.split() for row in text(page, "#blame").splitlines()]
        assert rows == [["type", "fsm", "depth", "agenda"], ["O", "0", "3", "1"], ["all", "0", "3", "1"]]
        found = []
        for _ in range(4):
            page.click("#blame button >> nth=0")
            found.append(text(page, "#at"))
            assert "of O" in text(page, "#said")
            assert "Not free" in text(page, "#said")
            behind = text(page, "#said button").split()[1]
            page.click("#said button")  # what the late nodes come behind
            assert text(page, "#node").split()[:2] == ["node", behind]
        assert found == [f"batch {b} of 9" for b in (3, 5, 7, 3)]


def test_search_finds_and_goes_there(lattice_page: Path) -> None:
    with opened(lattice_page, 1280) as (page, _):
        page.keyboard.press("/")
        page.keyboard.type("word")
        named = "(t) => app.world.data.types[t] === 'word'"
        words = int(page.evaluate(f"[...app.world.type].filter({named}).length"))
        assert text(page, "#found") == f"{words} nodes found"
        page.keyboard.press("Enter")
        assert text(page, "#found") == f"1 of {words} nodes"
        assert "word" in text(page, "#node")
        page.fill("#search", "type:char instance:1 batch:1")
        assert text(page, "#found") == "1 node found"
        page.fill("#search", "nothing of the kind")
        assert text(page, "#found") == "0 nodes found"


def test_a_click_tells_all_about_a_node(fig1_page: Path) -> None:
    with opened(fig1_page, 1280) as (page, _):
        rest(page)
        x, y = page.evaluate(
            """() => { const { world } = app, { camera, layout: { px, py } } = world;
            const v = world.type.indexOf(world.data.types.indexOf('R'));
            const box = document.querySelector('.view canvas').getBoundingClientRect();
            return [box.left + box.width / 2 + (px[v] * PITCH - camera.x) * camera.k,
                    box.top + box.height / 2 + (py[v] * PITCH - camera.y) * camera.k]; }"""
        )
        page.mouse.click(x, y)
        said = text(page, "#node")
        assert "R" in said
        assert "6 of 6" in said
        assert "arena" in said
        page.click("#node .link >> nth=0")
        assert "O" in text(page, "#node")
        page.keyboard.press("Escape")
        assert "Click a node" in text(page, "#node")


def test_values_that_a_run_kept_are_shown(fig1_run: StoredRun, tmp_path: Path) -> None:
    scene = scene_of_run(fig1_run)
    file = tmp_path / "run.html"
    file.write_bytes(page_of(scene))
    with opened(file, 1280) as (page, _):
        page.fill("#search", "R")
        page.keyboard.press("Enter")
        said = text(page, "#node")
        assert all(f"{value:.4g}" in said for value in scene.kept[0].values[0])


def test_one_instance_alone_is_cut_by_layers(tmp_path: Path) -> None:
    scene = large(30_000)
    whole = replace(scene, instance=np.zeros(30_000, np.int32))
    file = tmp_path / "one.html"
    file.write_bytes(page_of(whole))
    with opened(file, 1280) as (page, _):
        rest(page)
        assert text(page, "#range").split()[:3] == ["from", "layer", "0"]
        assert 0 < page.evaluate("app.views[0].inSight") <= 10_000


def test_nodes_can_be_walked_by_keyboard(fig1_page: Path) -> None:
    with opened(fig1_page, 1280) as (page, _):
        found = []
        for _ in range(5):
            page.keyboard.press("n")
            found.append(text(page, "#node").split()[1])
        assert len(set(found)) == 4  # the four leaves of the first batch, then the first again
        assert found[0] == found[4]


def test_zoom_pan_and_fit(fig1_page: Path) -> None:
    with opened(fig1_page, 1280) as (page, _):
        rest(page)
        start = page.evaluate("({...app.world.camera})")
        page.hover(".view canvas")
        page.mouse.wheel(0, -300)
        rest(page)
        assert page.evaluate("({...app.world.camera})") == start  # the wheel alone is the page's
        page.keyboard.down("Control")
        page.mouse.wheel(0, -300)
        page.keyboard.up("Control")
        page.mouse.down()
        page.mouse.move(300, 300)
        page.mouse.up()
        moved = page.evaluate("({...app.world.camera})")
        assert moved["k"] > start["k"]
        assert moved["x"] != start["x"]
        page.focus(".view canvas")
        page.keyboard.press("ArrowRight")
        assert page.evaluate("app.world.camera.x") > moved["x"]
        assert text(page, "#at") == "batch 1 of 6"  # on the graph, arrows pan
        page.keyboard.press("0")
        assert page.evaluate("({...app.world.camera})") == start


def test_dark_and_light(fig1_page: Path) -> None:
    with opened(fig1_page, 1280, dark=True) as (page, _):
        paper = "getComputedStyle(document.body).backgroundColor"
        dark = page.evaluate(paper)
        page.keyboard.press("t")
        light = page.evaluate(paper)
        assert (dark, light) == ("rgb(22, 25, 29)", "rgb(255, 255, 255)")
        page.keyboard.press("t")
        assert page.evaluate(paper) == dark


def test_what_a_screen_reader_meets(fig1_page: Path) -> None:
    with opened(fig1_page, 1280) as (page, _):
        unnamed = page.evaluate(
            """[...document.querySelectorAll('button, input, select, canvas')].filter((e) =>
            !(e.getAttribute('aria-label') || e.textContent.trim())
            && !e.closest('.legend, label, [aria-hidden=true]')).length"""
        )
        assert unnamed == 0
        assert "Graph under fsm, batch 1 of 6" in page.get_attribute(".view canvas", "aria-label")
        page.click("#table summary")
        assert page.locator("#table tr").count() == 7
        assert page.evaluate("new Set([...document.querySelectorAll('[id]')].map((e) => e.id)).size") == (
            page.locator("[id]").count()
        )


def test_hostile_names_do_nothing(fig1: Scene, tmp_path: Path) -> None:
    bad = "</script><img src=x onerror=window.hacked=1><script>window.hacked=1</script>"
    types = tuple(bad + name for name in fig1.dag.types)
    hostile = replace(fig1, title=bad, dag=replace(fig1.dag, types=types), learned=None, graph=None)
    file = tmp_path / "hostile.html"
    file.write_bytes(page_of(hostile))
    with opened(file, 1280) as (page, _):
        page.click("#table summary")
        page.click("#next")
        page.keyboard.press("n")
        assert page.evaluate("window.hacked === undefined")
        assert text(page, "h1") == bad
        assert page.locator("img").count() == 0


def test_ten_thousand_nodes_are_all_there(tmp_path: Path) -> None:
    file = tmp_path / "large.html"
    file.write_bytes(page_of(large(10_000)))
    with opened(file, 1280) as (page, _):
        rest(page)
        assert page.evaluate("app.views[0].inSight") == 10_000
        assert page.evaluate("document.getElementById('range').hidden")
        boxes = page.evaluate(
            """() => { const { world } = app, { N, instance, layout: { px, py, instances } } = world;
            const all = Array.from({ length: instances }, () => [1e9, 1e9, -1, -1]);
            for (let v = 0; v < N; v++) { const b = all[instance[v]];
              b[0] = Math.min(b[0], px[v]); b[1] = Math.min(b[1], py[v]);
              b[2] = Math.max(b[2], px[v]); b[3] = Math.max(b[3], py[v]); }
            return all; }"""
        )
        for i, one in enumerate(boxes):
            for other in boxes[:i]:
                beside = one[2] + 1 <= other[0] or other[2] + 1 <= one[0]
                assert beside or one[3] + 1 <= other[1] or other[3] + 1 <= one[1]
        right, low = (max(box[side] for box in boxes) for side in (2, 3))
        assert 1 < right / low < 3  # about the shape of the canvas


@pytest.mark.parametrize("width", WIDTHS)
def test_a_hundred_thousand_nodes_open_with_a_range(tmp_path: Path, width: int) -> None:
    file = tmp_path / "large.html"
    file.write_bytes(page_of(large(100_000)))
    with opened(file, width) as (page, _):
        rest(page)
        assert page.evaluate("app.views[0].inSight") == 10_000
        assert " ".join(text(page, "#range").split()) == "from instance 0 to 199: 10,000 nodes"
        page.fill("#range-to", "1999")
        rest(page)
        assert page.evaluate("app.views[0].inSight") == 100_000
        page.fill("#range-to", "5")
        page.keyboard.press("/")
        page.keyboard.type("99999")
        page.keyboard.press("Enter")  # goes there, though it was out of range
        assert page.evaluate("app.world.shown(99999)")
        assert text(page, "#node").split()[:2] == ["node", "99999"]
        assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.fixture
def beam_page(home: Path, tmp_path: Path) -> Path:
    file = tmp_path / "beam.html"
    changes = Overrides(dims={"hidden": 4}, limit=2)
    file.write_bytes(page_of(scene_of_spec(Path("specs/beam.yaml"), changes, by="agenda")))
    return file


NODES_IN_SIGHT = "app.views[0].inSight"


@pytest.mark.parametrize("width", WIDTHS)
def test_rounds_are_stepped_through(beam_page: Path, width: int) -> None:
    with opened(beam_page, width) as (page, _):
        assert text(page, "#policies button:last-child") == "rounds 20"
        page.keyboard.press("r")
        rest(page)
        assert text(page, "#at") == "before growth"
        given = page.evaluate(NODES_IN_SIGHT)
        assert given == page.evaluate("app.world.data.growth.nodes[0]")
        assert "Nothing was decided" in text(page, "#decided")
        page.click("#next")
        rest(page)
        assert text(page, "#at") == "round 1 of 20"
        assert page.evaluate(NODES_IN_SIGHT) == given + 4  # a decoder and a score of two instances
        assert "2 of 2 instances grow. New: step 2. 4 nodes computed, 8 decisions made" in text(page, "#said")
        assert page.locator("#decided li").count() == 8
        assert page.locator("#decided li.won").count() == 2
        assert "instance 0, step 0 next = " in text(page, "#decided li").replace("\n", " ")
        page.keyboard.press("End")
        rest(page)
        assert text(page, "#at") == "done: 20 rounds"
        assert page.evaluate(NODES_IN_SIGHT) == page.evaluate("app.world.N")
        page.keyboard.press("Home")
        page.fill("#step", "3")
        assert text(page, "#at") == "round 3 of 20"
        assert page.locator("#schedules").is_hidden()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.keyboard.press("r")
        assert text(page, "#at").startswith("batch 4 of")
        assert page.locator("#schedules").is_visible() and page.locator("#decisions").is_hidden()


def test_a_vertex_tells_what_was_decided_there(beam_page: Path) -> None:
    with opened(beam_page, 1280) as (page, _):
        page.click("#policies button:last-child")
        page.click(
            "#rounds", position={"x": page.evaluate("app.chart.left + 2.5 * app.chart.column"), "y": 10}
        )
        assert text(page, "#at") == "round 3 of 20"
        first = text(page, "#decided li:first-child span")
        page.click("#decided li:first-child button")
        said = text(page, "#node")
        assert "in round 3 of 20" in said and first in said
        page.fill("#search", "type:score round:2 instance:1")
        assert text(page, "#found") == "4 nodes found"
        page.press("#search", "Enter")
        page.keyboard.press("Escape")
        assert text(page, "#decided li:first-child").startswith("instance 1")
        page.click("#table summary")
        rest(page)
        assert page.locator("#table tr").count() == 21
        page.click("#compare")
        rest(page)
        assert page.locator(".view").count() == 2
        assert text(page, "#at").startswith("batch")
        page.click("#policies button:last-child")
        rest(page)
        assert page.locator(".view").count() == 1


def test_a_model_that_does_not_grow_has_no_rounds(fig1_page: Path) -> None:
    with opened(fig1_page, 1280) as (page, _):
        page.keyboard.press("r")
        assert text(page, "#at") == "batch 1 of 6"
        assert page.locator("#growth").is_hidden()


def test_a_node_is_ready_from_its_round_on(home: Path, tmp_path: Path) -> None:
    run(
        Path("specs/beam.yaml"),
        Overrides(dims={"hidden": 4}, limit=2),
        RunOptions(policy="agenda"),
    )
    file = tmp_path / "run.html"
    file.write_bytes(page_of(scene_of_run(find_run(None))))
    with opened(file, 1280) as (page, _):
        rounds, policies = page.evaluate(
            "[app.world.data.growth.node, "
            "app.world.data.policies.map((p) => [p.rounds, [...p.since ?? []], [...p.batch ?? []]])]"
        )
        own, since, batch = policies[0]
        assert own
        begins = {r: min(b for b, of in zip(batch, rounds, strict=True) if of == r) for r in set(rounds)}
        assert len(begins) > 3
        for r, ready, b in zip(rounds, since, batch, strict=True):
            assert begins[r] <= ready <= b
        assert "Ready:" in text(page, "#said")
        assert "round by round" in page.content()
        page.click("#policies button:nth-child(2)")  # of the graph in the end
        assert "Ready, if all were decided:" in text(page, "#said")
