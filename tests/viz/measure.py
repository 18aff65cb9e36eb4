"""How long a frame takes while one zooms: `python -m tests.viz.measure [NODES]`, with the page's own timer.

Goes from the whole graph into it and back, a fortieth nearer a frame, and prints the median and the 95th
percentile of frames in milliseconds (a display's frame is 16.7), and how long the scripts take of a frame,
everything drawn.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np

from abw.viz.page import page as page_of
from tests.viz.browser import opened
from tests.viz.test_browser import large

FRAMES = """() => new Promise((done) => {
  const found = [], view = app.views[0]; let last = performance.now(), turn = 0;
  const tick = (now) => {
    found.push([now - last, view.inSight, view.far]); last = now;
    app.zoom(view, turn++ < 160 ? 1.025 : 1 / 1.025);
    if (found.length <= 320) requestAnimationFrame(tick); else done(found.slice(2));
  };
  requestAnimationFrame(tick); })"""
FULL = """() => Array.from({ length: 20 }, () => {
  const begin = performance.now(); app.paint(false); return performance.now() - begin; })"""


def main(nodes: int) -> None:
    """Measure a page of so many nodes."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "large.html"
        file.write_bytes(page_of(large(nodes)))
        with opened(file, 1280) as (page, _):
            if not page.evaluate("document.getElementById('range').hidden"):
                page.fill("#range-to", page.get_attribute("#range-to", "max"))
            edges, size = page.evaluate("app.world.source.length"), file.stat().st_size / 1e6
            print(f"{nodes} nodes, {edges} edges, {size:.1f} MB")
            page.wait_for_timeout(1500)
            frames = page.evaluate(FRAMES)
            for far in (True, False):
                took = [each[0] for each in frames if each[2] == far]
                seen = [each[1] for each in frames if each[2] == far]
                if took:
                    print(
                        f"{'instances as bars' if far else 'nodes'}, {min(seen):,} to {max(seen):,} seen: "
                        f"{len(took)} frames, median {np.median(took):.1f} ms, 95 % "
                        f"{np.percentile(took, 95):.1f}"
                    )
            for zoom in (1, 4, 8):
                page.evaluate(f"app.fit(); app.zoom(app.views[0], {zoom})")
                page.wait_for_timeout(500)
                full, seen = page.evaluate(FULL), page.evaluate("app.views[0].inSight")
                print(f"{seen:>7,} in sight: scripts {np.median(full):.1f} ms, all of the page drawn")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20_000)
