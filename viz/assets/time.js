"use strict";
// Time, where a run noted it: what each batch took, what each thread did when, and why threads waited.

const AROUND = 12; // so many batches before and behind the step are seen from near
const BARS = 64, ROW = 22;

class TimeChart {
  constructor(canvas, app) {
    this.canvas = canvas;
    this.parts = [];
    canvas.addEventListener("click", (event) => {
      const { offsetX: x, offsetY: y } = event;
      const hit = this.parts.find((part) => x >= part.x && x <= part.x + part.w && y >= part.y && y <= part.y + part.h);
      if (hit) app.go(hit.batch);
    });
  }

  draw(policy, step) {
    const { world } = policy, own = world.policies[0], { times } = own;
    byId("times").hidden = !!policy.grows || (!times && !world.data.timeless);
    if (byId("times").hidden) return;
    const there = !!times && policy === own;
    for (const id of ["time", "waits", "reasons"]) byId(id).hidden = !there;
    if (!there) {
      byId("time-said").textContent = times ? `Measured was ${own.name}, by which the run went.` : world.data.timeless;
      return;
    }
    if (this.world !== world) {
      this.world = world;
      fillReasons(own);
    }
    const scale = window.devicePixelRatio || 1, wide = this.canvas.parentElement.clientWidth;
    const strip = times.threads * ROW + 24, high = BARS + 30 + 2 * strip + 18;
    Object.assign(this.canvas, { width: wide * scale, height: high * scale });
    this.canvas.style.height = `${high}px`;
    const pen = this.canvas.getContext("2d");
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.textBaseline = "middle";
    this.parts = [];
    this.left = 76;
    this.bars(pen, own, step, wide);
    const last = Math.max(1e-3, times.end);
    this.strip(pen, own, step, wide, BARS + 36, 0, last, `all: ${micros(last)}`);
    const near = times.batch.map((b, i) => i).filter((i) => Math.abs(times.batch[i] - Math.min(step, own.steps - 1)) <= AROUND);
    if (near.length) {
      const from = near.reduce((least, i) => Math.min(least, times.start[i]), Infinity);
      const to = near.reduce((most, i) => Math.max(most, times.start[i] + times.took[i]), 0);
      this.strip(pen, own, step, wide, BARS + 36 + strip, from, to, `around batch ${Math.min(step, own.steps - 1) + 1}: ${micros(to - from)}`);
    }
    this.tell(own, Math.min(step, own.steps - 1));
  }

  // What each batch took, of all threads together.
  bars(pen, policy, step, wide) {
    const { times, world: { data } } = policy, most = times.busy.reduce((a, b) => Math.max(a, b), 1e-3);
    const column = (wide - this.left - 8) / Math.max(1, policy.steps), base = BARS + 6;
    pen.font = `12px ${FONT}`;
    pen.textAlign = "left";
    pen.fillStyle = theme.ink;
    pen.fillText(micros(most), 0, 12, this.left - 6);
    pen.fillText("a batch", 0, base - 8, this.left - 6);
    times.busy.forEach((took, b) => {
      const tall = Math.max(took ? 1 : 0, ((BARS - 4) * took) / most), x = this.left + b * column;
      pen.fillStyle = data.colours[policy.type[b]];
      pen.fillRect(x, base - tall, Math.max(0.7, column - (column > 4 ? 1 : 0)), tall);
      this.parts.push({ x, y: 0, w: column, h: BARS + 8, batch: b });
    });
    pen.fillStyle = theme.line;
    pen.fillRect(this.left, base, wide - this.left - 8, 1);
    pen.strokeStyle = theme.ink;
    pen.lineWidth = 1.5;
    if (step < policy.steps) pen.strokeRect(this.left + step * column - 0.5, 2, Math.max(3, column), BARS + 6);
  }

  // Of each thread its batches from one moment to another; hatched where it waited.
  strip(pen, policy, step, wide, top, from, to, said) {
    const { times, world: { data } } = policy, unit = (wide - this.left - 8) / Math.max(1e-3, to - from);
    const X = (at) => this.left + (at - from) * unit;
    pen.save();
    pen.font = `12px ${FONT}`;
    pen.textAlign = "left";
    pen.fillStyle = theme.soft;
    pen.fillText(said, this.left, top + 6);
    pen.fillStyle = theme.ink;
    for (let thread = 0; thread < times.threads; thread++) pen.fillText(`thread ${thread}`, 0, top + 16 + (thread + 0.5) * ROW, this.left - 6);
    pen.beginPath();
    pen.rect(this.left, top, wide - this.left - 8, times.threads * ROW + 20);
    pen.clip();
    pen.strokeStyle = theme.soft;
    pen.lineWidth = 1;
    const { waits } = times;
    waits.thread.forEach((thread, i) => {
      const x = X(waits.start[i]), w = waits.took[i] * unit, y = top + 16 + thread * ROW + ROW / 2 - 0.5;
      if (w < 2 || x > wide || x + w < this.left) return;
      pen.beginPath(); pen.setLineDash([2, 3]); pen.moveTo(x, y); pen.lineTo(x + w, y); pen.stroke();
    });
    pen.setLineDash([]);
    times.thread.forEach((thread, i) => {
      const x = X(times.start[i]), w = Math.max(0.6, times.took[i] * unit), b = times.batch[i], y = top + 16 + thread * ROW;
      if (x > wide || x + w < this.left) return;
      pen.fillStyle = data.colours[policy.type[b]];
      pen.fillRect(x, y + 2, w, ROW - 4);
      if (b === step) { pen.strokeStyle = theme.ink; pen.lineWidth = 2; pen.strokeRect(x, y + 1, Math.max(2, w), ROW - 2); }
      const mark = `${data.marks[policy.type[b]]}${b + 1}`;
      pen.font = `600 11px ${FONT}`;
      if (w > 7 * mark.length + 6) {
        pen.fillStyle = data.inks[policy.type[b]];
        pen.textAlign = "center";
        pen.fillText(mark, Math.max(x, this.left) + Math.min(w, wide - x) / 2, y + ROW / 2);
      }
      this.parts.push({ x, y, w: Math.max(3, w), h: ROW, batch: b });
    });
    pen.restore();
  }

  // This batch in words, with the waiting that came of it.
  tell(policy, b) {
    const { times, world: { data } } = policy, own = times.batch.map((_, i) => i).filter((i) => times.batch[i] === b);
    const { waits } = times, rows = own.reduce((sum, i) => sum + times.rows[i], 0);
    const share = own.map((i) => times.share[i]).filter((part) => part !== null);
    const parts = own.map((i) => `${micros(times.took[i])} on thread ${times.thread[i]}`);
    let said = `batch ${b + 1}, ${data.types[policy.type[b]]}: ${parts.join(", ") || "not noted"}`;
    if (share.length) said += `, at best ${Math.round(100 * Math.max(...share))} % of a core's peak`;
    const behind = waits.batch.map((_, i) => i).filter((i) => waits.batch[i] === b && waits.took[i] >= 0.05);
    const list = behind.slice(0, 6).map((i) => `thread ${waits.thread[i]} ${micros(waits.took[i])} (${times.reasons[waits.why[i]]})`);
    byId("time-said").textContent = `${said}.`;
    byId("waits").textContent = list.length ? `Because of it waited: ${list.join("; ")}${behind.length > 6 ? "; …" : ""}.` : "Nobody waited for it.";
    this.canvas.setAttribute("aria-label", `Time by batch and thread: ${said}; ${plural(rows, "row")}`);
  }
}

// What threads waited for in all, and what types took.
function fillReasons(policy) {
  const { times, world: { data } } = policy;
  const waits = element("table"), head = element("tr");
  for (const name of ["why threads waited", "in all", ...Array.from({ length: times.threads }, (_, thread) => `thread ${thread}`)]) head.append(element("th", name));
  waits.append(head);
  times.reasons.forEach((reason, why) => {
    const sums = new Float64Array(times.threads);
    times.waits.why.forEach((each, i) => { if (each === why) sums[times.waits.thread[i]] += times.waits.took[i]; });
    const all = sums.reduce((a, b) => a + b, 0), row = element("tr");
    if (!all) return;
    row.append(element("td", reason), ...[all, ...sums].map((sum) => element("td", micros(sum), "count")));
    waits.append(row);
  });
  const types = element("table"), names = element("tr");
  for (const name of ["type", "batches", "took", "of all"]) names.append(element("th", name));
  types.append(names);
  const whole = times.busy.reduce((a, b) => a + b, 0) || 1;
  data.types.forEach((name, t) => {
    let count = 0, took = 0;
    policy.type.forEach((u, b) => { if (u === t) { count++; took += times.busy[b]; } });
    const row = element("tr");
    if (!count) return;
    row.append(element("td", name), ...[count, micros(took), `${Math.round((100 * took) / whole)} %`].map((said) => element("td", said, "count")));
    types.append(row);
  });
  byId("reasons").replaceChildren(types, waits);
}
