"""Every kind of picture by a renderer that is no browser, beside golden images; PNG and PDF as files."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from numpy.typing import NDArray

from abw.core.base.errors import AbwError
from abw.viz.data.collect import KINDS, Kind, collect
from abw.viz.data.pictures import RoundsPicture
from abw.viz.data.scene import Scene
from abw.viz.drawing.chart import Chart, Line, chart_svg
from abw.viz.drawing.draw import as_svg, export, image
from abw.viz.drawing.svg import DARK, LIGHT, Svg, document, stacked

Pixels = NDArray[np.int16]
# Dots an inch at which a unit of a drawing is a pixel.
PIXEL = 96


def pixels(png: bytes) -> Pixels:
    from PIL import Image

    return np.asarray(Image.open(io.BytesIO(png)).convert("RGB")).astype(np.int16)


def rendered(drawn: Svg) -> bytes:
    """A drawing without its letters, which look different with every machine's fonts."""
    return image(
        document(drawn).replace("<style>", "<style>text{display:none}").encode(), "png", resolution=PIXEL
    )


@pytest.mark.browser
@pytest.mark.parametrize("kind", [*KINDS, "curve"])
def test_a_second_renderer_gives_the_golden_image(
    fig1: Scene,
    rounds: RoundsPicture,
    root: Path,
    request: pytest.FixtureRequest,
    kind: Kind | Literal["curve"],
) -> None:
    if kind == "curve":
        drawn = chart_svg(Chart("loss", "epochs", "loss", (Line("train", ((1, 2.0), (2, 1.0), (3, 0.9))),)))
    elif kind == "rounds":
        drawn = as_svg(rounds)
    else:
        drawn = stacked([as_svg(picture) for picture in collect(fig1, [kind], "agenda")])
    png, path = rendered(drawn), root / "tests" / "golden" / "images" / f"{kind}.png"
    if request.config.getoption("--update-golden"):
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(png)
    found, wanted = pixels(png), pixels(path.read_bytes())
    assert found.shape == wanted.shape == (round(drawn.height), round(drawn.width), 3)
    away = np.abs(found - wanted).max(axis=2)
    assert away.mean() < 0.5 and (away > 64).mean() < 0.001  # antialiasing may differ, a shape may not
    assert len(np.unique(found.reshape(-1, 3), axis=0)) > 3  # something is drawn


@pytest.mark.browser
@pytest.mark.parametrize(("theme", "colours"), [("light", LIGHT), ("dark", DARK)])
def test_images_have_the_themes_colours_and_letters(fig1: Scene, theme: str, colours: dict[str, str]) -> None:
    pictures = collect(fig1, ["policy"], "agenda")
    found = pixels(export("", pictures, "png", theme=theme))  # type: ignore[arg-type]
    names = {name: tuple(int(paint[i : i + 2], 16) for i in (1, 3, 5)) for name, paint in colours.items()}
    assert tuple(found[0, 0]) == names["paper"]
    assert (found == names["ink"]).all(axis=2).sum() > 100  # the heading
    drawn = as_svg(pictures[0])
    assert found.shape == (2 * round(drawn.height), 2 * round(drawn.width), 3)
    assert export("", pictures, "pdf").startswith(b"%PDF-")


def test_without_the_extra_png_and_pdf_say_what_to_install(
    fig1: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "typst", None)
    for format in ("png", "pdf"):
        with pytest.raises(AbwError, match=r"\.\[images\]"):
            export("", collect(fig1, ["batches"]), format)
