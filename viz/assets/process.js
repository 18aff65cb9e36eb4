"use strict";
// What the run's process held, a bar a mark: after reading, compiling, each mini-batch, writing.

class ProcessChart {
  constructor(canvas) { this.canvas = canvas; }

  draw(world) {
    const { resident, number } = world.data;
    byId("process").hidden = !resident.length;
    if (!resident.length) return;
    const scale = window.devicePixelRatio || 1, wide = this.canvas.parentElement.clientWidth, high = 110, base = high - 22;
    const most = resident.reduce((best, mark) => Math.max(best, mark.resident_bytes), 1);
    Object.assign(this.canvas, { width: wide * scale, height: high * scale });
    this.canvas.style.height = `${high}px`;
    const pen = this.canvas.getContext("2d");
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.font = `12px ${FONT}`;
    const left = pen.measureText(bytes(most)).width + 10, column = Math.min(90, (wide - left - 8) / resident.length);
    resident.forEach((mark, i) => {
      const tall = ((base - 14) * mark.resident_bytes) / most, own = mark.mini_batch === number;
      pen.fillStyle = mark.mini_batch === null ? theme.soft : "#0072b2";
      pen.fillRect(left + i * column, base - tall, Math.max(0.7, column - (column > 4 ? 1 : 0)), tall);
      if (!own) return;
      pen.strokeStyle = theme.ink;
      pen.lineWidth = 1.5;
      pen.strokeRect(left + i * column, base - tall, Math.max(3, column - 1), tall);
    });
    pen.fillStyle = theme.ink;
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    pen.fillText(bytes(most), left - 6, 14);
    pen.fillText("0 B", left - 6, base);
    pen.fillStyle = theme.soft;
    pen.textAlign = "left";
    pen.textBaseline = "alphabetic";
    pen.fillText("grey: steps of the run; blue: mini-batches, this one framed", left, high - 5);
    const top = resident.find((mark) => mark.resident_bytes === most);
    const name = (mark) => (mark.mini_batch === null ? mark.name : `${mark.name} ${mark.mini_batch}`);
    const steps = resident.filter((mark) => mark.mini_batch === null);
    const said = `the process held ${steps.map((mark) => `${bytes(mark.resident_bytes)} after ${name(mark)} (${micros(1e6 * mark.seconds)})`).join(", ")}; most after ${name(top)}: ${bytes(most)}`;
    byId("process-said").textContent = said;
    this.canvas.setAttribute("aria-label", `Memory of the process over the run: ${said}`);
  }
}
