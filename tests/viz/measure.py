"""How long a frame of panning takes: `python -m tests.viz.measure [NODES]`, with the page's own timer.

Prints, for the whole graph in sight and for a part of it, the median and the 95th percentile of 120 frames
in milliseconds (a display's frame is 16.7), and how long the scripts take of a frame, everything drawn.
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
  const times = []; let last = performance.now();
  const tick = (now) => {
    times.push(now - last); last = now;
    app.pan(app.views[0], 6, 3);
    if (times.length <= 120) requestAnimationFrame(tick); else done(times.slice(1));
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
            for zoom in (1, 3):
                page.evaluate(f"app.zoom(app.views[0], {zoom})")
                page.wait_for_timeout(1500)
                frames, full = page.evaluate(FRAMES), page.evaluate(FULL)
                print(
                    f"{page.evaluate('app.views[0].inSight'):>7} in sight: frame {np.median(frames):.1f} ms "
                    f"(95 % {np.percentile(frames, 95):.1f}); scripts, all drawn: {np.median(full):.1f} ms"
                )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
