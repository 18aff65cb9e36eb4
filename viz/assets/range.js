"use strict";
// Of a graph too large to show at once, which instances (of a single one: which layers) are shown.

const SHOWN = 10000; // so many nodes are shown at first; the range picker brings in the others
const NARROW = 20000; // a graph of more nodes than this gets a range picker

class Range {
  constructor(app) {
    this.app = app;
    this.overview = element("canvas");
    this.overview.setAttribute("role", "img");
    this.overview.setAttribute("aria-label", "Overview");
    byId("range").append(this.overview);
    this.inputs = ["from", "to"].map((name, i) => {
      const label = element("label", `${name} `), input = element("input"), said = element("span");
      input.type = "range"; input.min = 0; input.id = `range-${name}`;
      input.addEventListener("input", () => {
        const value = Number(input.value), { low, high } = app.world;
        this.set(...(i ? [Math.min(low, value), value] : [value, Math.max(high, value)]));
      });
      label.append(input, said);
      byId("range").append(label);
      return { input, said };
    });
    const move = (event) => {
      if (event.type === "pointermove" && !event.buttons) return;
      this.centre(Math.round((event.offsetX / this.overview.clientWidth) * (app.world.slices - 1)));
    };
    this.overview.addEventListener("pointerdown", move);
    this.overview.addEventListener("pointermove", move);
  }

  enter(world) {
    const { N, slices, slice, sliceName } = world;
    byId("range").hidden = !(N > NARROW && slices > 1);
    if (byId("range").hidden) return;
    this.overview.setAttribute("aria-label", `Overview: nodes by ${sliceName}`);
    for (const { input } of this.inputs) input.max = slices - 1;
    if (!world.counts) {
      world.counts = new Int32Array(slices);
      for (let v = 0; v < N; v++) world.counts[slice[v]]++;
      let sum = 0, high = 0;
      while (high < slices - 1 && sum + world.counts[high] <= SHOWN) sum += world.counts[high++];
      world.high = Math.max(0, high - 1);
    }
    this.tell();
  }

  // As many slices as now, around another one.
  centre(middle) {
    const { low, high, slices } = this.app.world, span = high - low;
    const first = Math.max(0, Math.min(slices - 1 - span, middle - Math.floor(span / 2)));
    this.set(first, first + span);
  }

  set(low, high) {
    Object.assign(this.app.world, { low, high });
    this.tell();
    this.app.fit();
  }

  tell() {
    const { world } = this.app, { low, high, counts, sliceName } = world;
    this.inputs[0].input.value = low;
    this.inputs[1].input.value = high;
    let nodes = 0;
    for (let s = low; s <= high; s++) nodes += counts[s];
    this.inputs[0].said.textContent = `${sliceName} ${low}`;
    this.inputs[1].said.textContent = `${high}: ${plural(nodes, "node")}`;
    this.draw();
  }

  draw() {
    const canvas = this.overview, { counts, slices, low, high } = this.app.world, scale = window.devicePixelRatio || 1;
    if (!counts) return;
    canvas.width = Math.max(1, canvas.clientWidth * scale);
    canvas.height = 56 * scale;
    const pen = canvas.getContext("2d"), wide = canvas.width / slices;
    const most = counts.reduce((a, b) => Math.max(a, b), 1);
    for (let s = 0; s < slices; s++) {
      pen.fillStyle = s >= low && s <= high ? theme.ink : theme.line;
      const tall = (canvas.height * counts[s]) / most;
      pen.fillRect(s * wide, canvas.height - tall, Math.max(1, wide - (wide > 3 ? 1 : 0)), tall);
    }
  }
}
