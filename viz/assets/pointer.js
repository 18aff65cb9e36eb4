"use strict";
// Pointers, wheel and arrow keys on a graph's canvas.

function listenTo(view) {
  const { canvas, app } = view;
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
      if (spread) app.zoom(view, now / spread, (ax + bx) / 2, (ay + by) / 2);
      spread = now;
    } else {
      const { k } = view.world.camera;
      app.pan(view, -dx / k, -dy / k);
    }
  });
  const end = (event) => {
    if (!pointers.delete(event.pointerId)) return;
    canvas.classList.remove("moving");
    if (moved < 5 && event.type === "pointerup") app.pick(view, view.nodeAt(event.offsetX, event.offsetY));
  };
  canvas.addEventListener("pointerup", end);
  canvas.addEventListener("pointercancel", end);
  // the wheel alone is the page's; a pinch on a touchpad comes as a wheel with Ctrl
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return view.hint.animate([{ opacity: 1 }, { opacity: 1, offset: 0.7 }, { opacity: 0 }], 1500);
    event.preventDefault();
    app.zoom(view, Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0015)), event.offsetX, event.offsetY);
  }, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    const move = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (!move || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    event.stopPropagation();
    const { k } = view.world.camera;
    app.pan(view, (move[0] * 60) / k, (move[1] * 60) / k);
  });
}
