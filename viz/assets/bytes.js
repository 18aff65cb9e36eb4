"use strict";
// Memory by owner: what is there throughout, in a table; the values needed while each batch runs, by type, as areas.

class MemoryChart {
  constructor(canvas, app) {
    this.canvas = canvas;
    const go = (event) => {
      if (event.type === "pointermove" && !event.buttons) return;
      app.go(Math.floor((event.offsetX - this.left) / this.column));
    };
    canvas.addEventListener("click", go);
    canvas.addEventListener("pointermove", go);
  }

  draw(policy, step) {
    const { world } = policy, own = policy.grows ? world.policies[0] : policy, { memory } = own;
    byId("memory").hidden = !memory || !!policy.grows;
    if (byId("memory").hidden) return;
    const { data, T } = world, scale = window.devicePixelRatio || 1, wide = this.canvas.parentElement.clientWidth;
    const high = 150, base = high - 22, steps = own.steps;
    memory.sums ||= sumsOf(memory.needed, T);
    const most = memory.sums.reduce((a, b) => Math.max(a, b), Math.max(1, memory.arenas));
    Object.assign(this.canvas, { width: wide * scale, height: high * scale });
    this.canvas.style.height = `${high}px`;
    const pen = this.canvas.getContext("2d");
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.font = `12px ${FONT}`;
    this.left = Math.max(pen.measureText(bytes(most)).width, pen.measureText("0 B").width) + 10;
    this.column = (wide - this.left - 8) / Math.max(1, steps);
    const y = (count) => base - ((base - 14) * count) / most;
    const below = new Float64Array(steps);
    for (let t = 0; t < T; t++) {
      pen.fillStyle = data.colours[t];
      pen.globalAlpha = 0.85;
      for (let b = 0; b < steps; b++) {
        const count = memory.needed[b * T + t];
        if (!count) continue;
        const top = y(below[b] + count);
        pen.fillRect(this.left + b * this.column, top, Math.max(0.7, this.column - (this.column > 4 ? 1 : 0)), y(below[b]) - top);
        below[b] += count;
      }
    }
    pen.globalAlpha = 1;
    pen.strokeStyle = theme.soft;
    pen.lineWidth = 1;
    pen.setLineDash([5, 4]);
    pen.beginPath(); pen.moveTo(this.left, y(memory.arenas)); pen.lineTo(wide - 8, y(memory.arenas)); pen.stroke();
    pen.setLineDash([]);
    pen.beginPath(); pen.moveTo(this.left, base + 0.5); pen.lineTo(wide - 8, base + 0.5); pen.stroke();
    pen.fillStyle = theme.ink;
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    pen.fillText(bytes(most), this.left - 6, y(most));
    pen.fillText("0 B", this.left - 6, base);
    pen.fillStyle = theme.soft;
    pen.textAlign = "left";
    pen.textBaseline = "alphabetic";
    pen.fillText(wide > 600 ? `batch 1 to ${steps}; dashed: the rows that the plan has for values, ${bytes(memory.arenas)}` : `batch 1 to ${steps}; dashed: rows of the plan`, this.left, high - 5);
    pen.strokeStyle = theme.ink;
    pen.lineWidth = 1.5;
    pen.strokeRect(this.left + Math.min(step, steps) * this.column - 0.5, 8, Math.max(3, this.column), base - 6);
    this.tell(own, Math.min(step, steps - 1));
  }

  // In words and figures, for who cannot see the areas.
  tell(policy, b) {
    const { data, T } = policy.world, { memory } = policy, { sums } = memory;
    const peak = sums.reduce((best, sum, step) => (sum > sums[best] ? step : best), 0);
    const said = `while batch ${b + 1} runs, ${bytes(sums[b] || 0)} of values are needed; most in batch ${peak + 1}: ${bytes(sums[peak] || 0)}`;
    byId("memory-said").textContent = said;
    this.canvas.setAttribute("aria-label", `Memory by type of value under ${policy.name}, ${said}`);
    const table = element("table"), head = element("tr");
    for (const name of ["owner", `in batch ${b + 1}`, "at most"]) head.append(element("th", name));
    table.append(head);
    const add = (name, now, most, colour) => {
      const row = element("tr"), cell = element("td");
      if (colour) {
        const swatch = element("span", "", "swatch");
        swatch.style.background = colour;
        cell.append(swatch);
      }
      cell.append(name);
      row.append(cell, element("td", now, "count"), element("td", most, "count"));
      table.append(row);
    };
    for (const [name, count] of memory.owners) add(name, bytes(count), bytes(count));
    data.types.forEach((name, t) => {
      let most = 0;
      for (let step = 0; step < policy.steps; step++) most = Math.max(most, memory.needed[step * T + t]);
      if (most) add(`values of ${name}`, bytes(memory.needed[b * T + t]), bytes(most), data.colours[t]);
    });
    add("rows of the plan for values", bytes(memory.arenas), bytes(memory.arenas));
    for (const [name, count] of data.process) add(`process: ${name}`, "", bytes(count));
    byId("owners").replaceChildren(table);
  }
}

function sumsOf(needed, T) {
  const sums = new Float64Array(needed.length / T);
  needed.forEach((count, i) => { sums[Math.floor(i / T)] += count; });
  return sums;
}
