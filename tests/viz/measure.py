"""How long a frame takes while one zooms: `python -m tests.viz.measure [NODES]`, with the page's own timer.

Goes from the whole graph into it and back, a fortieth nearer a frame, and prints the median and the 95th
percentile of frames in milliseconds (a display's frame is 16.7), how many came in time, and the processor
time of all of Chromium's processes for one, beside that of a frame in which one rectangle is drawn, which is
what a canvas costs without a GPU. At last how long the scripts take of a frame, everything drawn.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections import defaultdict
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
EMPTY = """() => new Promise((done) => {
  const pen = app.views[0].canvas.getContext('2d'); let turn = 0;
  const tick = () => {
    pen.fillRect(turn++, 10, 50, 50);
    if (turn < 322) requestAnimationFrame(tick); else done();
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
            before = processor_seconds()
            page.evaluate(EMPTY)
            between = processor_seconds()
            frames = page.evaluate(FRAMES)
            empty, full = (between - before) / 322, (processor_seconds() - between) / 322
            took = [each[0] for each in frames]
            print(
                f"{len(took)} frames, {np.mean(np.less(took, 18)):.0%} in time; "
                f"processor time of one {1e3 * full:.1f} ms, of an empty one {1e3 * empty:.1f} ms"
            )
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


def processor_seconds() -> float:
    """What the browser's processes have taken so far, all that this process began (Linux)."""
    children, ticks = defaultdict(list), {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            said = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # gone meanwhile
            continue
        children[int(said[1])].append(int(folder.name))
        ticks[int(folder.name)] = int(said[11]) + int(said[12])
    found = children[os.getpid()]
    for process in found:
        found += children[process]
    return sum(ticks[process] for process in found) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20_000)
