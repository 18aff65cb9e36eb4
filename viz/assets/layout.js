"use strict";
// Where every node of a mini-batch is: instances packed in rows, and a grid over them to find what is somewhere.

const PITCH = 40, WIDE = 30, HIGH = 20; // pixels at zoom 1: from node to node, and a node
const CELL = 12; // so many nodes' places a side has a cell of the grid

class Layout {
  constructor(world) {
    const { instance, N } = world;
    this.world = world;
    this.ownX = Float32Array.from(world.data.graph.x); // within the instance
    this.ownY = Float32Array.from(world.data.graph.y);
    this.px = this.ownX.slice();
    this.py = this.ownY.slice();
    this.instances = instance.reduce((most, i) => Math.max(most, i), -1) + 1;
    this.boxWide = new Float32Array(this.instances);
    this.boxHigh = new Float32Array(this.instances);
    this.left = new Float32Array(this.instances);
    this.top = new Float32Array(this.instances);
    for (let v = 0; v < N; v++) {
      this.boxWide[instance[v]] = Math.max(this.boxWide[instance[v]], this.ownX[v] + 2.5);
      this.boxHigh[instance[v]] = Math.max(this.boxHigh[instance[v]], this.ownY[v] + 2.5);
    }
    this.version = 0;
  }

  // Put the instances that are shown into rows, in their order, the whole about `aspect` times as wide as high.
  pack(aspect) {
    const { world: { N, instance, shown }, instances, boxWide, boxHigh, left, top } = this;
    const used = new Uint8Array(instances);
    for (let v = 0; v < N; v++) if (shown(v)) used[instance[v]] = 1;
    let area = 0, room = 0;
    for (let i = 0; i < instances; i++) {
      if (!used[i]) continue;
      area += boxWide[i] * boxHigh[i];
      room = Math.max(room, boxWide[i]);
    }
    room = Math.max(room, Math.sqrt(area * aspect));
    let x = 0, y = 0, tallest = 0;
    for (let i = 0; i < instances; i++) {
      if (!used[i]) continue;
      if (x > 0 && x + boxWide[i] > room) { y += tallest; x = tallest = 0; }
      left[i] = x;
      top[i] = y;
      x += boxWide[i];
      tallest = Math.max(tallest, boxHigh[i]);
    }
    for (let v = 0; v < N; v++) {
      this.px[v] = this.ownX[v] + left[instance[v]];
      this.py[v] = this.ownY[v] + top[instance[v]];
    }
    this.index();
    this.gather();
    this.version++;
  }

  // The shown nodes by the grid's cells, as one list; and the box around all of them.
  index() {
    const { world: { N, shown }, px, py } = this, nodes = [];
    const box = { left: Infinity, top: Infinity, right: -Infinity, low: -Infinity };
    for (let v = 0; v < N; v++) {
      if (!shown(v)) continue;
      nodes.push(v);
      box.left = Math.min(box.left, px[v]); box.right = Math.max(box.right, px[v]);
      box.top = Math.min(box.top, py[v]); box.low = Math.max(box.low, py[v]);
    }
    this.box = nodes.length ? box : { left: 0, top: 0, right: 0, low: 0 };
    this.nodes = nodes;
    this.columns = Math.floor(this.box.right / CELL) + 1;
    this.rows = Math.floor(this.box.low / CELL) + 1;
    const at = (v) => Math.floor(py[v] / CELL) * this.columns + Math.floor(px[v] / CELL);
    this.ptr = new Int32Array(this.columns * this.rows + 1);
    for (const v of nodes) this.ptr[at(v) + 1]++;
    for (let i = 0; i < this.columns * this.rows; i++) this.ptr[i + 1] += this.ptr[i];
    const place = this.ptr.slice();
    this.list = new Int32Array(nodes.length);
    for (const v of nodes) this.list[place[at(v)]++] = v;
  }

  // What is drawn as one from far away: instances, or cells of the grid where there is but one instance.
  gather() {
    const { world: { N, instance, shown }, px, py } = this;
    const whole = this.instances > 1, number = new Map(), groups = [];
    this.group = new Int32Array(N).fill(-1);
    for (let v = 0; v < N; v++) {
      if (!shown(v)) continue;
      const key = whole ? instance[v] : Math.floor(py[v] / CELL) * this.columns + Math.floor(px[v] / CELL);
      let g = number.get(key);
      if (g === undefined) {
        g = groups.length;
        number.set(key, g);
        const [x, y] = whole ? [this.left[key], this.top[key]] : [(key % this.columns) * CELL, Math.floor(key / this.columns) * CELL];
        groups.push({ name: whole ? `instance ${key}` : "", x, y, right: x, low: y, count: 0 });
      }
      this.group[v] = g;
      const box = groups[g];
      box.right = Math.max(box.right, px[v]);
      box.low = Math.max(box.low, py[v]);
      box.count++;
    }
    this.groups = groups;
  }

  // The shown nodes of a rectangle.
  within(left, top, right, low) {
    const { px, py, ptr, list, columns } = this, out = [];
    const clamp = (value, most) => Math.max(0, Math.min(most, Math.floor(value / CELL)));
    const [c0, c1] = [clamp(left, columns - 1), clamp(right, columns - 1)];
    const [r0, r1] = [clamp(top, this.rows - 1), clamp(low, this.rows - 1)];
    for (let r = r0; r <= r1; r++) {
      for (let i = ptr[r * columns + c0]; i < ptr[r * columns + c1 + 1]; i++) {
        const v = list[i];
        if (px[v] >= left && px[v] <= right && py[v] >= top && py[v] <= low) out.push(v);
      }
    }
    return out;
  }

  // The shown node nearest to a place, of those that pass a test; -1 for none.
  nearest(x, y, passes) {
    let best = -1, least = Infinity;
    for (const v of this.nodes) {
      const d = (this.px[v] - x) ** 2 + (this.py[v] - y) ** 2;
      if (d < least && passes(v)) { least = d; best = v; }
    }
    return best;
  }

  // The camera that shows all of it on a canvas.
  whole({ wide, high }) {
    const { left, right, top, low } = this.box;
    return {
      x: ((left + right) / 2) * PITCH,
      y: ((top + low) / 2) * PITCH,
      k: Math.min(1.6, (wide - 40) / ((right - left + 1) * PITCH), (high - 60) / ((low - top + 1) * PITCH)),
    };
  }
}
