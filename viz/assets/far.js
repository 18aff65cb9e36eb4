"use strict";
// The graph from far away: of each instance (of a single one, each cell of a grid) a box with a bar for each type,
// as wide as there are many nodes of it, as full as they are done. And the map of the whole in a corner.

// How many nodes of each group, type and state there are at a step: counts[(group * T + type) * 4 + state].
function countFar(view, step) {
  const { policy, world } = view, { layout, T, type } = world;
  const key = `${policy.name} ${step} ${layout.version}`;
  if (view.countedAt !== key) {
    view.countedAt = key;
    view.counts = new Uint32Array(layout.groups.length * T * 4);
    for (const v of layout.nodes) {
      if (view.hides(v, step)) continue;
      view.counts[(layout.group[v] * T + type[v]) * 4 + stateOf(policy, v, step)]++;
    }
  }
  return view.counts;
}

function drawFar(pen, view, step, ox, oy, hurried) {
  const { world: { layout, T, data, camera: { k } }, box: { wide, high } } = view;
  const counts = countFar(view, step), unit = PITCH * k, gap = layout.instances > 1 ? 0.6 : 0, boxes = [];
  layout.groups.forEach((group, g) => {
    const x = (group.x - 0.5) * unit + ox, y = (group.y - 0.5) * unit + oy;
    const w = Math.max(1.5, (group.right - group.x + 1 + gap) * unit), h = Math.max(1.5, (group.low - group.y + 1 + gap) * unit);
    if (x > wide || y > high || x + w < 0 || y + h < 0) return;
    const title = group.name && w > 84 && h > 44 ? 16 : 0;
    boxes.push({ g, group, x, y, w, h, title, at: x });
  });
  pen.fillStyle = theme.faint;
  for (const { x, y, w, h } of boxes) if (w > 5 && h > 5) pen.fillRect(x, y, w, h);
  for (let t = 0; t < T; t++) drawBars(pen, counts, t, T, data, boxes, hurried);
  pen.strokeStyle = theme.line;
  pen.lineWidth = 1;
  pen.beginPath();
  for (const { x, y, w, h } of boxes) if (w > 8 && h > 8) pen.rect(x, y, w, h);
  pen.stroke();
  pen.font = `600 11px ${FONT}`;
  pen.textAlign = "left";
  pen.textBaseline = "middle";
  pen.fillStyle = theme.ink;
  for (const { group, x, y, w, title } of boxes) if (title) pen.fillText(group.name, x + 4, y + title / 2 + 1, w - 8);
}

// A type's bar in every box, behind those of the types before it: done from below, what is executed now above that,
// then what is ready, pale. Colours are set once a type and state: that is what takes long.
function drawBars(pen, counts, t, T, data, boxes, hurried) {
  const bars = [];
  for (const box of boxes) {
    const at = (box.g * T + t) * 4, total = counts[at] + counts[at + 1] + counts[at + 2] + counts[at + 3];
    if (!total) continue;
    const w = (box.w * total) / box.group.count, top = box.y + box.title, tall = box.h - box.title;
    bars.push({ at, total, x: box.at, w, top, tall, low: top + tall });
    box.at += w;
  }
  pen.fillStyle = data.colours[t];
  for (const [state, alpha] of [[DONE, 1], [NOW, 1], [READY, 0.45], [LATER, 0.15]]) {
    pen.globalAlpha = alpha;
    if (state === NOW) pen.beginPath();
    for (const bar of bars) {
      const tall = (bar.tall * counts[bar.at + state]) / bar.total;
      if (!tall) continue;
      bar.low -= tall;
      pen.fillRect(bar.x, bar.low, bar.w, tall);
      if (state === NOW && bar.w > 3) pen.rect(bar.x + 0.75, bar.low + 0.75, bar.w - 1.5, Math.max(0.5, tall - 1.5));
    }
    if (state !== NOW) continue;
    pen.strokeStyle = theme.ink;
    pen.lineWidth = 1.5;
    pen.stroke();
  }
  pen.globalAlpha = 1;
  if (hurried) return;
  pen.font = `600 11px ${FONT}`;
  pen.textAlign = "center";
  pen.textBaseline = "middle";
  pen.lineWidth = 3;
  pen.strokeStyle = theme.paper;
  pen.fillStyle = theme.ink;
  for (const { x, w, top, tall, total } of bars) {
    const said = `${data.marks[t]} ${total}`;
    if (w <= 12 + 6.5 * said.length || tall <= 20) continue;
    pen.strokeText(said, x + w / 2, top + tall / 2);
    pen.fillText(said, x + w / 2, top + tall / 2);
  }
}

// The whole in a corner, with a frame around what is in sight; pressed or dragged, the camera goes there.
class Minimap {
  constructor(view) {
    this.view = view;
    this.canvas = element("canvas", "", "map");
    this.canvas.setAttribute("aria-hidden", "true"); // the keyboard pans the graph itself
    this.canvas.hidden = true;
    const go = (event) => {
      if (event.type === "pointermove" && !event.buttons) return;
      event.preventDefault();
      const { camera } = view.world;
      camera.x = (event.offsetX / this.scale + this.box.left - 0.5) * PITCH;
      camera.y = (event.offsetY / this.scale + this.box.top - 0.5) * PITCH;
      view.app.moving();
    };
    this.canvas.addEventListener("pointerdown", go);
    this.canvas.addEventListener("pointermove", go);
  }

  draw() {
    const { view, canvas } = this, { layout, camera } = view.world;
    this.box = layout.box;
    const { left, top, right, low } = layout.box;
    const [w, h] = [view.box.wide / camera.k / PITCH, view.box.high / camera.k / PITCH];
    const [x, y] = [camera.x / PITCH - w / 2, camera.y / PITCH - h / 2];
    const all = x <= left && y <= top && x + w >= right && y + h >= low;
    canvas.hidden = all;
    if (all) return;
    const [room, tall] = view.box.wide < 500 ? [96, 72] : [160, 110];
    this.scale = Math.min(room / (right - left + 1), tall / (low - top + 1));
    const size = [Math.max(12, Math.round((right - left + 1) * this.scale)), Math.max(12, Math.round((low - top + 1) * this.scale))];
    const ratio = window.devicePixelRatio || 1;
    this.drawStill(size, ratio);
    if (canvas.width !== size[0] * ratio || canvas.height !== size[1] * ratio) {
      [canvas.width, canvas.height] = size.map((length) => length * ratio);
      [canvas.style.width, canvas.style.height] = size.map((length) => `${length}px`);
    }
    const pen = canvas.getContext("2d");
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.drawImage(this.still, 0, 0);
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.strokeStyle = theme.ink;
    pen.lineWidth = 1.5;
    pen.strokeRect((x - left + 0.5) * this.scale, (y - top + 0.5) * this.scale, w * this.scale, h * this.scale);
  }

  // The nodes as dots, drawn once.
  drawStill(size, ratio) {
    const { layout, data, type } = this.view.world, key = `${size} ${ratio} ${layout.version} ${theme.paper}`;
    if (this.key === key) return;
    this.key = key;
    this.still = document.createElement("canvas");
    [this.still.width, this.still.height] = size.map((length) => length * ratio);
    const pen = this.still.getContext("2d"), dot = Math.max(1, 0.7 * this.scale * ratio);
    pen.fillStyle = theme.paper;
    pen.fillRect(0, 0, this.still.width, this.still.height);
    const { left, top } = layout.box, unit = this.scale * ratio;
    for (const v of layout.nodes) {
      pen.fillStyle = data.colours[type[v]];
      pen.fillRect((layout.px[v] - left + 0.5) * unit - dot / 2, (layout.py[v] - top + 0.5) * unit - dot / 2, dot, dot);
    }
  }
}
