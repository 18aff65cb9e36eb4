"""axe-core finds nothing on any kind of page, as it opens and with everything in it shown."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from abw.core.run.pipeline import RunOptions, run
from abw.core.spec.load import Overrides
from abw.core.store.runs import find_run
from abw.viz.data.scene import Scene, scene_of_run, scene_of_spec
from abw.viz.drawing.chart import curve_charts
from abw.viz.page import curves_page
from abw.viz.page import page as page_of
from tests.viz.browser import opened
from tests.viz.test_browser import large, rest

pytestmark = pytest.mark.browser

SIZES = pytest.mark.parametrize(("width", "dark"), [(1400, True), (1400, False), (390, False), (390, True)])
OPEN = "document.querySelectorAll('details').forEach((each) => { each.open = true; })"


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory, root: Path) -> Iterator[Path]:
    """A folder for pages; the workbench's own is beside it."""
    folder = tmp_path_factory.mktemp("pages")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ABW_HOME", str(folder / "home"))
        patch.chdir(root)
        yield folder


@pytest.fixture(scope="module")
def pages(here: Path) -> dict[str, Path]:
    """A page of each kind."""
    small = Overrides(dims={"hidden": 4})
    run(
        Path("specs/treelstm.yaml"),
        Overrides(dims={"hidden": 8, "embed": 8}, limit=6, batch=3),
        RunOptions(policy="agenda", profile=True),
    )
    several = [scene_of_run(find_run(None), number) for number in range(2)]
    lattice, beam = (Overrides(dims={"hidden": 4}, limit=limit) for limit in (3, 2))
    made: dict[str, list[Scene]] = {
        "graph": [scene_of_spec(Path("specs/fig1.yaml"), small, encoding="sort")],
        "policy": [scene_of_spec(Path("specs/lattice.yaml"), lattice, encoding="critical")],
        "several": several,
        "growing": [scene_of_spec(Path("specs/beam.yaml"), beam, by="agenda")],
        "large": [large(25_000)],
    }
    rows = [{"epoch": e, "loss": 1 / (e + 1), "accuracy over all": 0.1 * e, "best": None} for e in range(5)]
    charts = curve_charts("sst", {"t1": rows}, ("accuracy over all",))
    files = {name: here / f"{name}.html" for name in [*made, "training"]}
    for name, scenes in made.items():
        files[name].write_bytes(page_of(*scenes))
    command = "abw train specs/sst.yaml --epochs 5"
    files["training"].write_bytes(curves_page("sst (t1)", ("best 0.4", command), charts, rows, 4))
    return files


def faults(page: Any) -> list[str]:  # noqa: ANN401
    """What axe-core finds: each with the elements that it is found on."""
    from axe_playwright_python.sync_playwright import Axe

    rest(page)
    found = Axe().run(page).response["violations"]
    return [
        f"{one['impact']} {one['id']}: {one['help']}: {[node['html'][:90] for node in one['nodes'][:3]]}"
        for one in found
    ]


@SIZES
@pytest.mark.parametrize("kind", ["graph", "policy", "several", "growing", "large", "training"])
def test_nothing_is_found_on_a_page(pages: dict[str, Path], kind: str, width: int, dark: bool) -> None:
    with opened(pages[kind], width, dark=dark) as (page, _):
        assert faults(page) == []
        page.evaluate(OPEN)
        assert faults(page) == []


@SIZES
def test_nor_on_what_is_shown_when_asked_for(pages: dict[str, Path], width: int, dark: bool) -> None:
    with opened(pages["graph"], width, dark=dark) as (page, _):
        page.fill("#search", "type:O")
        page.press("#search", "Enter")
        page.click("#policies button:nth-child(2)")
        page.fill("#step", "2")  # a batch that is not free
        page.click("#machine .state >> nth=1")
        page.click("#compare")
        assert faults(page) == []
        page.click("#help")
        assert faults(page) == []
    with opened(pages["growing"], width, dark=dark) as (page, _):
        page.keyboard.press("r")
        page.fill("#step", "3")
        page.click("#decided li:first-child button")
        assert faults(page) == []
    with opened(pages["several"], width, dark=dark) as (page, _):
        page.click("#beside")
        page.click("#scenes button:nth-child(2)")
        assert faults(page) == []
