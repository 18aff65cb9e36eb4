"use strict";
// The graph on canvases: one camera for all of them, and only what is in sight is drawn.

const PITCH = 40, WIDE = 30, HIGH = 20;
const EDGES = 60000, LABELS = 2500, SHAPES = 4000; // above so many in sight they are left out
const MANY = 12000; // above so many in sight, a moving picture is the last one moved

const css = (name) => getComputedStyle(document.body).getPropertyValue(name).trim();
let theme = {};
function readTheme() {
  theme = { paper: css("--paper"), ink: css("--ink"), soft: css("--soft"), line: css("--line"), bad: css("--bad") };
}

// Stripes and dots over a type's colour, as in the pictures.
const patternCache = new Map();
function patternOf(t) {
  if (patternCache.has(t)) return patternCache.get(t);
  const tile = document.createElement("canvas");
  tile.width = tile.height = 6;
  const pen = tile.getContext("2d");
  pen.fillStyle = data.colours[t];
  pen.fillRect(0, 0, 6, 6);
  pen.strokeStyle = pen.fillStyle = "rgba(255,255,255,.55)";
  pen.lineWidth = 1.2;
  const lines = { rising: [0, 6, 6, 0], falling: [0, 0, 6, 6], level: [0, 3, 6, 3], upright: [3, 0, 3, 6] };
  const kind = data.patterns[t];
  const strokes = { grid: ["level", "upright"], cross: ["rising", "falling"] }[kind] || (lines[kind] ? [kind] : []);
  for (const stroke of strokes) {
    const [a, b, c, d] = lines[stroke];
    pen.beginPath(); pen.moveTo(a, b); pen.lineTo(c, d); pen.stroke();
  }
  if (kind === "dots") { pen.beginPath(); pen.arc(3, 3, 1.3, 0, 7); pen.fill(); }
  const made = document.createElement("canvas").getContext("2d").createPattern(tile, "repeat");
  patternCache.set(t, made);
  return made;
}

const camera = { x: 0, y: 0, k: 1 };

// Where every node is now, and the boxes of the instances around them.
const px = ownX.slice(), py = ownY.slice();
const instances = instance.reduce((most, i) => Math.max(most, i), -1) + 1;
const boxWide = new Float32Array(instances), boxHigh = new Float32Array(instances);
for (let v = 0; v < N; v++) {
  boxWide[instance[v]] = Math.max(boxWide[instance[v]], ownX[v] + 2.5);
  boxHigh[instance[v]] = Math.max(boxHigh[instance[v]], ownY[v] + 2.5);
}

// Put the instances that are shown into rows, in their order, the whole about `aspect` times as wide as high.
function pack(shown, aspect) {
  const used = new Uint8Array(instances);
  for (let v = 0; v < N; v++) if (shown(v)) used[instance[v]] = 1;
  let area = 0, room = 0;
  for (let i = 0; i < instances; i++) {
    if (!used[i]) continue;
    area += boxWide[i] * boxHigh[i];
    room = Math.max(room, boxWide[i]);
  }
  room = Math.max(room, Math.sqrt(area * aspect));
  const left = new Float32Array(instances), top = new Float32Array(instances);
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
    px[v] = ownX[v] + left[instance[v]];
    py[v] = ownY[v] + top[instance[v]];
  }
  grid = gridOf(shown);
}

// Which of the shown nodes are in a rectangle: a grid over the layout, its cells as one list.
let grid = null;
function gridOf(shown) {
  const cell = 12, nodes = [];
  let right = 0, low = 0;
  for (let v = 0; v < N; v++) {
    if (!shown(v)) continue;
    nodes.push(v);
    right = Math.max(right, px[v]);
    low = Math.max(low, py[v]);
  }
  const columns = Math.floor(right / cell) + 1, rows = Math.floor(low / cell) + 1;
  const at = (v) => Math.floor(py[v] / cell) * columns + Math.floor(px[v] / cell);
  const ptr = new Int32Array(columns * rows + 1);
  for (const v of nodes) ptr[at(v) + 1]++;
  for (let i = 0; i < columns * rows; i++) ptr[i + 1] += ptr[i];
  const place = ptr.slice(), list = new Int32Array(nodes.length);
  for (const v of nodes) list[place[at(v)]++] = v;
  return { cell, columns, rows, ptr, list };
}

function nodesIn(left, top, right, low, out) {
  const clamp = (value, most) => Math.max(0, Math.min(most, Math.floor(value / grid.cell)));
  const [c0, c1] = [clamp(left, grid.columns - 1), clamp(right, grid.columns - 1)];
  const [r0, r1] = [clamp(top, grid.rows - 1), clamp(low, grid.rows - 1)];
  for (let r = r0; r <= r1; r++) {
    for (let i = grid.ptr[r * grid.columns + c0]; i < grid.ptr[r * grid.columns + c1 + 1]; i++) {
      const v = grid.list[i];
      if (px[v] >= left && px[v] <= right && py[v] >= top && py[v] <= low) out.push(v);
    }
  }
  return out;
}

class GraphView {
  constructor(policy, app) {
    this.policy = policy;
    this.app = app;
    this.figure = document.createElement("figure");
    this.figure.className = "view";
    this.canvas = document.createElement("canvas");
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "img");
    this.caption = document.createElement("figcaption");
    const zoom = document.createElement("div");
    zoom.className = "zoom";
    for (const [sign, label, act] of [["+", "Zoom in", () => app.zoom(1.4)], ["−", "Zoom out", () => app.zoom(1 / 1.4)], ["⤢", "Fit", () => app.fit()]]) {
      const button = document.createElement("button");
      button.textContent = sign;
      button.setAttribute("aria-label", label);
      button.addEventListener("click", act);
      zoom.append(button);
    }
    this.figure.append(this.canvas, this.caption, zoom);
    this.listen();
  }

  size() {
    const box = this.canvas.getBoundingClientRect(), scale = window.devicePixelRatio || 1;
    const [wide, high] = [Math.round(box.width * scale), Math.round(box.height * scale)];
    if (this.canvas.width !== wide || this.canvas.height !== high) { this.canvas.width = wide; this.canvas.height = high; }
    return { wide: box.width, high: box.height, scale };
  }

  listen() {
    const { canvas, app } = this;
    const pointers = new Map();
    let moved = 0, spread = 0;
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      pointers.set(event.pointerId, [event.offsetX, event.offsetY]);
      moved = 0; spread = 0;
      canvas.classList.add("moving");
    });
    canvas.addEventListener("pointermove", (event) => {
      const before = pointers.get(event.pointerId);
      if (!before) return;
      const [dx, dy] = [event.offsetX - before[0], event.offsetY - before[1]];
      pointers.set(event.pointerId, [event.offsetX, event.offsetY]);
      moved += Math.abs(dx) + Math.abs(dy);
      if (pointers.size === 2) { // two fingers: zoom about the middle between them
        const [[ax, ay], [bx, by]] = [...pointers.values()];
        const now = Math.hypot(ax - bx, ay - by);
        if (spread) app.zoom(now / spread, (ax + bx) / 2, (ay + by) / 2, this);
        spread = now;
      } else app.pan(-dx / camera.k, -dy / camera.k);
    });
    const end = (event) => {
      if (!pointers.delete(event.pointerId)) return;
      canvas.classList.remove("moving");
      if (moved < 5 && event.type === "pointerup") app.select(this.nodeAt(event.offsetX, event.offsetY));
    };
    canvas.addEventListener("pointerup", end);
    canvas.addEventListener("pointercancel", end);
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      app.zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0015)), event.offsetX, event.offsetY, this);
    }, { passive: false });
    canvas.addEventListener("keydown", (event) => {
      const move = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
      if (!move || event.altKey || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      event.stopPropagation();
      app.pan((move[0] * 60) / camera.k, (move[1] * 60) / camera.k);
    });
  }

  // World coordinates (pixels at zoom 1) of a point on the canvas; the camera is its middle.
  toWorld(x, y) {
    const box = this.canvas.getBoundingClientRect();
    return [(x - box.width / 2) / camera.k + camera.x, (y - box.height / 2) / camera.k + camera.y];
  }

  nodeAt(x, y) {
    const [wx, wy] = this.toWorld(x, y);
    const reach = Math.max(WIDE / 2, 8 / camera.k) / PITCH;
    let best = -1, least = Infinity;
    for (const v of nodesIn(wx / PITCH - reach, wy / PITCH - reach, wx / PITCH + reach, wy / PITCH + reach, [])) {
      if (this.hides(v, this.app.step)) continue;
      const d = (px[v] - wx / PITCH) ** 2 + (py[v] - wy / PITCH) ** 2;
      if (d < least) { least = d; best = v; }
    }
    return best;
  }

  // Of growth what comes later is not there yet.
  hides(v, step) { return this.policy.grows && this.policy.batch[v] > step; }

  draw(step, selected, matches, hurried) {
    const { wide, high, scale } = this.size();
    const pen = this.canvas.getContext("2d");
    const { policy } = this;
    const k = camera.k;
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.fillStyle = theme.paper;
    pen.fillRect(0, 0, wide, high);
    if (hurried && this.inSight > MANY) {
      const ratio = k / this.taken.k;
      pen.drawImage(this.still, (wide / 2) * (1 - ratio) + (this.taken.x - camera.x) * k,
        (high / 2) * (1 - ratio) + (this.taken.y - camera.y) * k, wide * ratio, high * ratio);
      return;
    }
    const ox = wide / 2 - camera.x * k, oy = high / 2 - camera.y * k;
    const X = (v) => px[v] * PITCH * k + ox, Y = (v) => py[v] * PITCH * k + oy;
    const margin = WIDE / PITCH;
    const there = (v) => this.app.shown(v) && !this.hides(v, step);
    const seen = nodesIn(-ox / k / PITCH - margin, -oy / k / PITCH - margin, (wide - ox) / k / PITCH + margin,
      (high - oy) / k / PITCH + margin, []).filter(there);
    this.inSight = seen.length;

    if (!hurried) this.drawEdges(pen, X, Y, seen, k, there);
    if (selected >= 0 && there(selected)) this.drawStar(pen, X, Y, selected, there);

    // nodes by state and type: few changes of colour
    const buckets = Array.from({ length: 4 * T }, () => []);
    for (const v of seen) buckets[stateOf(policy, v, step) * T + type[v]].push(v);
    const w = Math.max(2, WIDE * k), h = Math.max(2, HIGH * k);
    const round = seen.length <= SHAPES && h > 7;
    buckets.forEach((nodes, i) => {
      if (!nodes.length) return;
      const state = Math.floor(i / T), colour = data.colours[i % T];
      pen.globalAlpha = state === READY ? 0.45 : state === LATER && h < 5 ? 0.3 : 1;
      pen.fillStyle = state === LATER && h >= 5 ? theme.paper : colour;
      pen.strokeStyle = state === NOW ? theme.ink : colour;
      pen.lineWidth = state === NOW ? Math.max(1.5, Math.min(3, h / 6)) : 1;
      if (round) {
        pen.beginPath();
        for (const v of nodes) pen.roundRect(X(v) - w / 2, Y(v) - h / 2, w, h, Math.min(5, h / 4));
        pen.fill();
        pen.globalAlpha = 1;
        if (state !== DONE) pen.stroke();
      } else {
        for (const v of nodes) pen.fillRect(X(v) - w / 2, Y(v) - h / 2, w, h);
        pen.globalAlpha = 1;
        if (state === NOW || (state === LATER && h >= 5)) for (const v of nodes) pen.strokeRect(X(v) - w / 2, Y(v) - h / 2, w, h);
      }
    });
    pen.globalAlpha = 1;
    if (h > 11 && seen.length <= LABELS) this.drawLabels(pen, X, Y, seen, step, h);
    pen.lineWidth = 3;
    pen.strokeStyle = theme.bad;
    for (const v of matches.filter(there)) if (seen.length < SHAPES || h > 3) pen.strokeRect(X(v) - w / 2 - 3, Y(v) - h / 2 - 3, w + 6, h + 6);
    if (selected >= 0 && there(selected)) {
      pen.strokeStyle = theme.ink;
      pen.setLineDash([4, 3]);
      pen.strokeRect(X(selected) - w / 2 - 5, Y(selected) - h / 2 - 5, w + 10, h + 10);
      pen.setLineDash([]);
    }
    if (this.inSight > MANY) this.take();
  }

  // Keep the picture as it is now, to move it about.
  take() {
    this.still ||= document.createElement("canvas");
    this.still.width = this.canvas.width;
    this.still.height = this.canvas.height;
    this.still.getContext("2d").drawImage(this.canvas, 0, 0);
    this.taken = { ...camera };
  }

  drawEdges(pen, X, Y, seen, k, there) {
    if (k * PITCH < 2.5) return; // thinner than a hair: only grey remains
    let count = 0;
    const inSight = this.app.inSight;
    inSight.fill(0);
    for (const v of seen) inSight[v] = 1;
    pen.beginPath();
    for (const v of seen) {
      const x = X(v), y = Y(v);
      for (let i = consumers.ptr[v]; i < consumers.ptr[v + 1] && count < EDGES; i++) {
        const u = consumers.list[i];
        if (!there(u)) continue;
        pen.moveTo(x, y);
        pen.lineTo(X(u), Y(u));
        count++;
      }
      for (let i = producers.ptr[v]; i < producers.ptr[v + 1] && count < EDGES; i++) {
        const u = producers.list[i];
        if (inSight[u] || !there(u)) continue; // drawn from its other end
        pen.moveTo(X(u), Y(u));
        pen.lineTo(x, y);
        count++;
      }
    }
    pen.strokeStyle = theme.line;
    pen.globalAlpha = count > 5000 ? 0.5 : 1;
    pen.lineWidth = 1;
    pen.stroke();
    pen.globalAlpha = 1;
  }

  // What the selected node reads (full) and who reads it (dashed).
  drawStar(pen, X, Y, v, there) {
    pen.strokeStyle = theme.ink;
    pen.lineWidth = 2;
    for (const [side, dash] of [[producers, []], [consumers, [6, 4]]]) {
      pen.setLineDash(dash);
      pen.beginPath();
      for (const u of neighbours(side, v).filter(there)) { pen.moveTo(X(v), Y(v)); pen.lineTo(X(u), Y(u)); }
      pen.stroke();
    }
    pen.setLineDash([]);
  }

  drawLabels(pen, X, Y, seen, step, h) {
    pen.font = `600 ${Math.min(15, h * 0.55)}px system-ui, "DejaVu Sans", sans-serif`;
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    for (const v of seen) {
      const state = stateOf(this.policy, v, step);
      pen.fillStyle = state === DONE || state === NOW ? data.inks[type[v]] : theme.ink;
      pen.fillText(data.marks[type[v]] + (this.policy.batch[v] + (this.policy.grows ? 0 : 1)), X(v), Y(v) + 0.5);
    }
    if (this.policy.grows) this.drawChosen(pen, X, Y, seen, step, h);
  }

  // Below the nodes what was chosen there, bold in this round.
  drawChosen(pen, X, Y, seen, step, h) {
    const room = (PITCH - 4) * camera.k;
    for (const v of seen) {
      const tag = this.policy.tag.get(v);
      if (!tag || tag.round > step) continue;
      pen.font = `${tag.round === step ? "700" : "400"} ${Math.min(12, h * 0.5)}px system-ui, "DejaVu Sans", sans-serif`;
      pen.fillStyle = theme.ink;
      pen.fillText(tag.said, X(v), Y(v) + h * 0.85, room);
    }
  }
}
