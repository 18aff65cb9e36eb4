"use strict";
// The graph on a canvas: only what is in sight is drawn; from far away, instances as bars of their types.

const EDGES = 60000, LABELS = 2500, SHAPES = 4000; // above so many in sight they are left out
const NODES = 1500, SMALL = 6, LEAST = 2.5; // more nodes, lower than SMALL pixels, or any lower than LEAST: from far away

const css = (name) => getComputedStyle(document.body).getPropertyValue(name).trim();
let theme = {};
function readTheme() {
  theme = { paper: css("--paper"), ink: css("--ink"), soft: css("--soft"), line: css("--line"), bad: css("--bad"), faint: css("--faint") };
}
const FONT = 'system-ui, "DejaVu Sans", sans-serif';

// Stripes and dots over a type's colour, as in the pictures.
const patternCache = new Map();
function patternOf(data, t) {
  const colour = data.colours[t], kind = data.patterns[t], key = `${colour} ${kind}`;
  if (patternCache.has(key)) return patternCache.get(key);
  const tile = document.createElement("canvas");
  tile.width = tile.height = 6;
  const pen = tile.getContext("2d");
  pen.fillStyle = colour;
  pen.fillRect(0, 0, 6, 6);
  pen.strokeStyle = pen.fillStyle = "rgba(255,255,255,.55)";
  pen.lineWidth = 1.2;
  const lines = { rising: [0, 6, 6, 0], falling: [0, 0, 6, 6], level: [0, 3, 6, 3], upright: [3, 0, 3, 6] };
  const strokes = { grid: ["level", "upright"], cross: ["rising", "falling"] }[kind] || (lines[kind] ? [kind] : []);
  for (const stroke of strokes) {
    const [a, b, c, d] = lines[stroke];
    pen.beginPath(); pen.moveTo(a, b); pen.lineTo(c, d); pen.stroke();
  }
  if (kind === "dots") { pen.beginPath(); pen.arc(3, 3, 1.3, 0, 7); pen.fill(); }
  const made = document.createElement("canvas").getContext("2d").createPattern(tile, "repeat");
  patternCache.set(key, made);
  return made;
}

// A canvas as large as it is shown, in the screen's own pixels.
function sized(canvas) {
  const box = canvas.getBoundingClientRect(), scale = window.devicePixelRatio || 1;
  const [wide, high] = [Math.round(box.width * scale), Math.round(box.height * scale)];
  if (canvas.width !== wide || canvas.height !== high) { canvas.width = wide; canvas.height = high; }
  return { wide: box.width, high: box.height, scale };
}

class GraphView {
  constructor(policy, app) {
    this.policy = policy;
    this.world = policy.world;
    this.app = app;
    this.inSight = 0;
    this.figure = element("figure", "", "view");
    this.canvas = element("canvas");
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "img");
    this.caption = element("figcaption");
    this.hint = element("div", "Ctrl and the wheel zoom", "hint");
    this.hint.setAttribute("aria-hidden", "true");
    this.map = new Minimap(this);
    const zoom = element("div", "", "zoom");
    for (const [sign, label, act] of [["+", "Zoom in", () => app.zoom(this, 1.4)], ["−", "Zoom out", () => app.zoom(this, 1 / 1.4)], ["⤢", "Fit", () => app.fit()]]) {
      const button = element("button", sign);
      button.setAttribute("aria-label", label);
      button.addEventListener("click", act);
      zoom.append(button);
    }
    this.figure.append(this.canvas, this.caption, this.map.canvas, this.hint, zoom);
    listenTo(this);
  }

  size() { return (this.box = sized(this.canvas)); }

  // World coordinates (pixels at zoom 1) of a point on the canvas; the camera is its middle.
  toWorld(x, y) {
    const { camera } = this.world, { wide, high } = this.box;
    return [(x - wide / 2) / camera.k + camera.x, (y - high / 2) / camera.k + camera.y];
  }

  nodeAt(x, y) {
    const { layout, camera } = this.world, [wx, wy] = this.toWorld(x, y);
    const reach = Math.max(WIDE / 2, 8 / camera.k) / PITCH;
    let best = -1, least = Infinity;
    for (const v of layout.within(wx / PITCH - reach, wy / PITCH - reach, wx / PITCH + reach, wy / PITCH + reach)) {
      if (this.hides(v, this.app.step)) continue;
      const d = (layout.px[v] - wx / PITCH) ** 2 + (layout.py[v] - wy / PITCH) ** 2;
      if (d < least) { least = d; best = v; }
    }
    return best;
  }

  // Of growth what comes later is not there yet.
  hides(v, step) { return this.policy.grows && this.policy.batch[v] > step; }

  // The nodes in sight.
  seen(there) {
    const { layout, camera: { x, y, k } } = this.world, { wide, high } = this.box;
    const [w, h] = [wide / k / 2 / PITCH, high / k / 2 / PITCH], margin = WIDE / PITCH / 2;
    const [cx, cy] = [x / PITCH, y / PITCH];
    return layout.within(cx - w - margin, cy - h - margin, cx + w + margin, cy + h + margin).filter(there);
  }

  // Something is always in sight: else the camera moves to where the nearest node just is.
  found(there) {
    const seen = this.seen(there);
    if (seen.length) return seen;
    const { layout, camera } = this.world, { wide, high } = this.box;
    const v = layout.nearest(camera.x / PITCH, camera.y / PITCH, there);
    if (v < 0) return seen;
    const room = (size) => Math.max(0, size / 2 - 30) / camera.k;
    const pull = (at, to, reach) => Math.min(to + reach, Math.max(to - reach, at));
    camera.x = pull(camera.x, layout.px[v] * PITCH, room(wide));
    camera.y = pull(camera.y, layout.py[v] * PITCH, room(high));
    return this.seen(there);
  }

  draw(step, selected, matches, hurried) {
    const { wide, high, scale } = this.size();
    const pen = this.canvas.getContext("2d");
    const { world, policy } = this, { layout, camera } = world;
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.fillStyle = theme.paper;
    pen.fillRect(0, 0, wide, high);
    const there = (v) => world.shown(v) && !this.hides(v, step);
    const seen = this.found(there), k = camera.k;
    const ox = wide / 2 - camera.x * k, oy = high / 2 - camera.y * k;
    const X = (v) => layout.px[v] * PITCH * k + ox, Y = (v) => layout.py[v] * PITCH * k + oy;
    this.inSight = seen.length;
    const w = Math.max(2, WIDE * k), h = Math.max(2, HIGH * k);
    this.far = HIGH * k < LEAST || (seen.length > NODES && HIGH * k < SMALL);
    if (this.far) drawFar(pen, this, step, ox, oy, hurried);
    else {
      if (!hurried) this.drawEdges(pen, X, Y, seen, k, there);
      if (selected >= 0 && there(selected)) this.drawStar(pen, X, Y, selected, there);
      this.drawNodes(pen, X, Y, seen, step, w, h);
      if (h > 11 && seen.length <= LABELS) this.drawLabels(pen, X, Y, seen, step, h);
    }
    pen.lineWidth = 3;
    pen.strokeStyle = theme.bad;
    for (const v of matches.filter(there)) pen.strokeRect(X(v) - w / 2 - 3, Y(v) - h / 2 - 3, w + 6, h + 6);
    if (selected >= 0 && there(selected)) {
      pen.lineWidth = 2;
      pen.strokeStyle = theme.ink;
      pen.setLineDash([4, 3]);
      pen.strokeRect(X(selected) - w / 2 - 5, Y(selected) - h / 2 - 5, w + 10, h + 10);
      pen.setLineDash([]);
    }
    this.map.draw();
  }

  // Nodes by state and type: few changes of colour.
  drawNodes(pen, X, Y, seen, step, w, h) {
    const { policy, world: { T, type, data } } = this;
    const buckets = Array.from({ length: 4 * T }, () => []);
    for (const v of seen) buckets[stateOf(policy, v, step) * T + type[v]].push(v);
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
  }

  drawEdges(pen, X, Y, seen, k, there) {
    if (k * PITCH < 2.5) return; // thinner than a hair: only grey remains
    const { consumers, producers, N } = this.world;
    let count = 0;
    const inSight = (this.marked ||= new Uint8Array(N));
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
    for (const [side, dash] of [[this.world.producers, []], [this.world.consumers, [6, 4]]]) {
      pen.setLineDash(dash);
      pen.beginPath();
      for (const u of neighbours(side, v).filter(there)) { pen.moveTo(X(v), Y(v)); pen.lineTo(X(u), Y(u)); }
      pen.stroke();
    }
    pen.setLineDash([]);
  }

  drawLabels(pen, X, Y, seen, step, h) {
    const { policy, world: { data, type } } = this;
    pen.font = `600 ${Math.min(15, h * 0.55)}px ${FONT}`;
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    for (const v of seen) {
      const state = stateOf(policy, v, step);
      pen.fillStyle = state === DONE || state === NOW ? data.inks[type[v]] : theme.ink;
      pen.fillText(data.marks[type[v]] + (policy.batch[v] + (policy.grows ? 0 : 1)), X(v), Y(v) + 0.5);
    }
    if (policy.grows) this.drawChosen(pen, X, Y, seen, step, h);
  }

  // Below the nodes what was chosen there, bold in this round.
  drawChosen(pen, X, Y, seen, step, h) {
    const room = (PITCH - 4) * this.world.camera.k;
    for (const v of seen) {
      const tag = this.policy.tag.get(v);
      if (!tag || tag.round > step) continue;
      pen.font = `${tag.round === step ? "700" : "400"} ${Math.min(12, h * 0.5)}px ${FONT}`;
      pen.fillStyle = theme.ink;
      pen.fillText(tag.said, X(v), Y(v) + h * 0.85, room);
    }
  }
}
