"use strict";
// Schedules as lanes over time, and below them the frontier of the policy shown.

class Timeline {
  constructor(canvas, app) {
    this.canvas = canvas;
    this.app = app;
    this.lane = 58;
    this.row = 26;
    this.left = 0;
    canvas.addEventListener("click", (event) => {
      const policy = this.policyAt(event.offsetY);
      if (policy) app.show(policy);
      app.go(this.stepAt(event.offsetX));
    });
    let held = false;
    canvas.addEventListener("pointerdown", () => { held = true; });
    window.addEventListener("pointerup", () => { held = false; });
    canvas.addEventListener("pointermove", (event) => { if (held) app.go(this.stepAt(event.offsetX)); });
  }

  stepAt(x) { return Math.floor((x - this.left) / this.column); }

  policyAt(y) { return this.app.world.policies[Math.floor(y / this.lane)]; }

  draw(policy, step) {
    const { data, T } = policy.world, scale = window.devicePixelRatio || 1;
    const wide = this.canvas.parentElement.clientWidth;
    const high = data.policies.length * this.lane + T * this.row + 20;
    const key = `${wide} ${scale} ${policy.world.number} ${policy.name} ${theme.paper}`;
    if (this.key !== key) { // the still part is drawn once
      this.key = key;
      this.still = document.createElement("canvas");
      for (const canvas of [this.canvas, this.still]) { canvas.width = wide * scale; canvas.height = high * scale; }
      this.canvas.style.height = `${high}px`;
      const pen = this.still.getContext("2d");
      pen.setTransform(scale, 0, 0, scale, 0, 0);
      this.measure(pen, wide, data);
      this.drawStill(pen, wide, high, policy);
    }
    const pen = this.canvas.getContext("2d");
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.drawImage(this.still, 0, 0);
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.strokeStyle = theme.ink;
    pen.lineWidth = 1.5;
    data.policies.forEach((each, i) => {
      const x = this.left + Math.min(step, each.steps) * this.column;
      const top = i * this.lane + 14, shown = each === policy;
      pen.globalAlpha = shown ? 1 : 0.45;
      pen.strokeRect(x - 0.5, top, Math.max(3, this.column + 1), this.lane - 16);
    });
    pen.globalAlpha = 1;
    const x = this.left + Math.min(step, policy.steps) * this.column;
    pen.strokeRect(x - 0.5, data.policies.length * this.lane + 4, Math.max(3, this.column + 1), T * this.row);
    this.canvas.setAttribute("aria-label", "Schedules over time: " +
      data.policies.map((p) => `${p.name} ${plural(p.steps, "batch")}`).join(", ") + `; lower bound ${data.bound.reduce((a, b) => a + b, 0)}`);
  }

  measure(pen, wide, data) {
    pen.font = '600 12px system-ui, "DejaVu Sans", sans-serif';
    const names = [...data.types, ...data.policies.map((p) => `${p.name} ${p.steps}`)];
    this.left = Math.min(wide * 0.3, Math.max(...names.map((name) => pen.measureText(name).width)) + 14);
    const most = Math.max(1, ...data.policies.map((p) => p.steps));
    this.column = Math.min(26, (wide - this.left - 6) / (most + 1));
  }

  drawStill(pen, wide, high, shown) {
    const { data, T } = shown.world;
    pen.fillStyle = theme.paper;
    pen.fillRect(0, 0, wide, high);
    const tallest = Math.max(1, ...data.policies.flatMap((p) => p.width.reduce((a, b) => Math.max(a, b), 1)));
    const size = (count, most, room) => (count ? Math.max(1.5, (room * Math.log1p(count)) / Math.log1p(most)) : 0);
    const bar = Math.max(0.7, this.column - (this.column > 3 ? 1 : 0));
    const paint = (t) => (this.column > 4 ? patternOf(data, t) : data.colours[t]);
    data.policies.forEach((policy, i) => {
      const base = i * this.lane + this.lane - 8;
      pen.textAlign = "left";
      pen.fillStyle = theme.ink;
      pen.fillText(`${policy.name} ${policy.steps}`, 0, base - 12, this.left - 6);
      for (let b = 0; b < policy.steps; b++) {
        const x = this.left + b * this.column, tall = size(policy.width[b], tallest, this.lane - 22);
        pen.fillStyle = paint(policy.type[b]);
        pen.fillRect(x, base - tall, bar, tall);
        if (!policy.free[b]) { pen.fillStyle = theme.bad; pen.fillRect(x, base + 2, bar, 4); }
        if (this.column >= 13) {
          pen.fillStyle = theme.soft;
          pen.textAlign = "center";
          pen.fillText(data.marks[policy.type[b]], x + bar / 2, base - tall - 4);
        }
      }
    });
    const top = data.policies.length * this.lane + 4;
    pen.textAlign = "left";
    for (let t = 0; t < T; t++) {
      const base = top + (t + 1) * this.row - 2;
      let most = 1;
      for (let b = 0; b < shown.steps; b++) most = Math.max(most, shown.ready[b * T + t]);
      pen.fillStyle = theme.ink;
      pen.fillText(data.types[t], 0, base - 6, this.left - 6);
      for (let b = 0; b < shown.steps; b++) {
        const tall = size(shown.ready[b * T + t], most, this.row - 5);
        if (!tall) continue;
        const chosen = shown.type[b] === t;
        pen.globalAlpha = chosen ? 1 : 0.35;
        pen.fillStyle = chosen ? paint(t) : data.colours[t];
        pen.fillRect(this.left + b * this.column, base - tall, bar, tall);
      }
      pen.globalAlpha = 1;
      pen.fillStyle = theme.line;
      pen.fillRect(this.left, base, shown.steps * this.column, 1);
    }
    pen.fillStyle = theme.soft;
    pen.font = '11px system-ui, "DejaVu Sans", sans-serif';
    pen.fillText("red: one batch more than the lower bound", this.left, high - 4);
  }
}
