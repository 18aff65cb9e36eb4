"use strict";
// The policy as a state machine: all its states as a list, most met first, and a drawing that is as wide as the page:
// the whole of a small machine, else a state with those before and behind it.

const WHOLE = 24; // machines of so many states are drawn whole
const LISTED = 100, BESIDE = 24; // so many states are listed at once, and drawn before and behind one
const BOX = { wide: 190, high: 62, across: 14, down: 40 };
const END = -1;

class Machine {
  constructor(app) {
    this.app = app;
    this.picked = null; // the state looked at; without one the step's
    this.listed = LISTED;
    byId("states-search").addEventListener("input", () => { this.listed = LISTED; this.fillList(); });
    byId("follow").addEventListener("click", () => this.pick(null));
  }

  get states() { return this.policy.machine.states; }

  show(policy, step) {
    if (this.policy !== policy) {
      this.policy = policy;
      this.picked = null;
      this.listed = LISTED;
      this.order = this.states.map((_, s) => s).sort((a, b) => this.met(b) - this.met(a) || this.tried(b) - this.tried(a) || a - b);
      this.fillList();
    }
    const now = policy.machine.steps[Math.min(step, policy.steps - 1)];
    if (this.drawn !== policy || this.now !== now) {
      this.now = now;
      this.draw();
    }
    this.light(step < policy.steps);
  }

  pick(state) {
    this.picked = state;
    this.draw();
    this.light(this.app.step < this.policy.steps);
  }

  resize() {
    if (!this.policy || byId("machines").hidden || this.width === byId("machine").clientWidth) return;
    this.draw();
    this.light(this.app.step < this.policy.steps);
  }

  met(s) { return this.states[s].taken.reduce((sum, [, count]) => sum + count, 0); }

  tried(s) { return this.states[s].q.reduce((sum, [, , visits]) => sum + visits, 0); }

  // What is ready there, in the encoding's order, and what else the encoding says.
  name(s) {
    const { types } = this.policy.world.data, { ready, also } = this.states[s];
    return [`{${ready.map((t) => types[t]).join(", ")}}`, ...also].join(" / ");
  }

  // --- the list -----------------------------------------------------------------------------------------

  fillList() {
    const words = byId("states-search").value.trim().toLowerCase().split(/\s+/).filter(Boolean);
    const fits = (s) => words.every((word) => (/^\d+$/.test(word) ? s === Number(word) : this.name(s).toLowerCase().includes(word)));
    const found = this.order.filter(fits), { types } = this.policy.world.data;
    const items = found.slice(0, this.listed).map((s) => {
      const item = element("li"), button = element("button", "", "link");
      button.append(element("b", String(s)), ` ${this.name(s)}`);
      button.addEventListener("click", () => this.pick(s));
      const { known, chosen } = this.states[s];
      item.append(button, element("span", ` → ${types[chosen]}, met ${this.met(s)}×${known ? "" : ", unseen in training"}`, "soft"));
      return item;
    });
    if (found.length > this.listed) {
      const more = element("button", `${(found.length - this.listed).toLocaleString("en")} more`), item = element("li");
      more.addEventListener("click", () => { this.listed += 4 * LISTED; this.fillList(); });
      item.append(more);
      items.push(item);
    }
    byId("states").replaceChildren(...items);
    byId("states-found").textContent = `${plural(found.length, "state")}, most met first`;
  }

  // --- the drawing --------------------------------------------------------------------------------------

  draw() {
    const { policy, picked } = this, { machine } = policy;
    this.drawn = policy;
    this.width = byId("machine").clientWidth;
    const walked = new Set(machine.steps), whole = picked === null && walked.size <= WHOLE;
    const focus = picked ?? this.now;
    byId("machine-name").textContent = machine.learned ? "the policy as a state machine" : "the states that the policy met";
    byId("machine-said").textContent = machine.said;
    byId("follow").textContent = walked.size <= WHOLE ? "the whole machine" : "follow the step";
    byId("follow").hidden = picked === null;
    const box = byId("machine");
    box.replaceChildren();
    if (focus === undefined) return;
    const rows = whole ? this.layers() : this.around(focus);
    const place = this.lay(rows);
    const lines = this.lines(place, whole ? null : focus);
    box.append(lines);
    for (const [s, at] of place) box.append(this.box(s, at, whole ? null : focus));
    byId("about").replaceChildren(...(whole ? [] : this.about(focus)));
  }

  // The states met, by how many steps they are from the first.
  layers() {
    const { steps, source, target } = this.policy.machine, layer = new Map();
    const after = new Map();
    source.forEach((s, i) => after.set(s, [...(after.get(s) || []), target[i]]));
    for (const root of steps) {
      if (layer.has(root)) continue;
      const queue = [root];
      layer.set(root, layer.size ? Math.max(...layer.values()) + 1 : 0);
      for (const s of queue) {
        for (const next of after.get(s) || []) if (next !== END && !layer.has(next)) { layer.set(next, layer.get(s) + 1); queue.push(next); }
      }
    }
    const rows = [];
    for (const [s, row] of layer) (rows[row] ||= []).push(s);
    const last = source.some((_, i) => target[i] === END);
    return [...rows.filter(Boolean), ...(last ? [[END]] : [])];
  }

  // Before a state, itself, behind it: the likeliest first.
  around(focus) {
    const moves = this.moves(focus);
    const pick = (of) => [...of.entries()].sort((a, b) => b[1].count - a[1].count).map(([s]) => s).slice(0, BESIDE);
    const before = pick(moves.before), behind = pick(moves.behind).filter((s) => !before.includes(s));
    return [before, [focus], behind].filter((row) => row.length);
  }

  // From where to a state, and from there to where, each with its count and its likeliest type.
  moves(focus) {
    const { source, target, type, count } = this.policy.machine, before = new Map(), behind = new Map();
    const add = (to, s, i) => {
      const found = to.get(s) || { count: 0, most: 0, type: 0 };
      found.count += count[i];
      if (count[i] > found.most) Object.assign(found, { most: count[i], type: type[i] });
      to.set(s, found);
    };
    source.forEach((s, i) => {
      if (s === focus && target[i] !== focus) add(behind, target[i], i);
      if (target[i] === focus && s !== focus) add(before, s, i);
    });
    return { before, behind };
  }

  // Rows of boxes, each broken where the page ends: the left upper corner of every state.
  lay(rows) {
    const each = Math.max(1, Math.floor((this.width - 60 + BOX.across) / (BOX.wide + BOX.across))), place = new Map();
    let y = 6;
    for (const row of rows) {
      for (let i = 0; i < row.length; i += each) {
        const part = row.slice(i, i + each), left = Math.max(0, (this.width - part.length * (BOX.wide + BOX.across) + BOX.across) / 2);
        part.forEach((s, j) => place.set(s, [left + j * (BOX.wide + BOX.across), y]));
        y += BOX.high + (i + each < row.length ? 12 : BOX.down);
      }
    }
    this.height = y - BOX.down + 8;
    return place;
  }

  // Transitions as curves between the boxes: down to what is below, else around at the side. How often is said in
  // the boxes, so that no two labels can meet.
  lines(place, focus) {
    const { source, target, type, count } = this.policy.machine, { colours } = this.policy.world.data;
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("width", this.width);
    svg.setAttribute("height", this.height);
    svg.setAttribute("aria-hidden", "true");
    source.forEach((s, i) => {
      const [from, to] = [place.get(s), place.get(target[i])];
      if (!from || !to || s === target[i]) return;
      if (focus !== null && s !== focus && target[i] !== focus) return;
      const line = document.createElementNS("http://www.w3.org/2000/svg", "path");
      line.setAttribute("d", curve(from, to));
      line.setAttribute("stroke", colours[type[i]]);
      line.setAttribute("stroke-width", (1.2 + Math.min(3, Math.log2(count[i]))).toFixed(1));
      line.setAttribute("marker-end", `url(#abw-arrow-${type[i] % 8})`);
      svg.append(line);
    });
    byId("machine").style.height = `${this.height}px`;
    return svg;
  }

  box(s, [x, y], focus) {
    const { data } = this.policy.world;
    const made = element(s === END ? "div" : "button", "", "state");
    Object.assign(made.style, { left: `${x}px`, top: `${y}px`, width: `${BOX.wide}px`, height: `${BOX.high}px` });
    if (s === END) {
      made.append(element("span", "end", "set"));
      return made;
    }
    const state = this.states[s], taken = this.met(s), own = this.toItself(s);
    made.id = `state-${this.policy.name}-${s}`;
    made.classList.toggle("focus", s === focus);
    const badge = element("b", String(s), "number"), next = element("span", data.types[state.chosen], "next");
    badge.style.background = next.style.background = data.colours[state.chosen];
    badge.style.color = next.style.color = data.inks[state.chosen];
    let last = `met ${taken}×${own ? `, ↻ ${own}×` : ""}${state.known ? "" : ", unseen in training"}`;
    if (focus !== null && s !== focus) {
      const { before, behind } = this.moves(focus);
      last = [[before, "→ it"], [behind, "from it"]].filter(([side]) => side.has(s))
        .map(([side, way]) => `${way} ${side.get(s).count}×`).join(", ");
    }
    made.append(badge, element("span", this.name(s), "set"), next, element("span", last, "met"));
    made.title = `state ${s}: ${this.name(s)}, next ${data.types[state.chosen]}`;
    made.addEventListener("click", () => this.pick(s));
    return made;
  }

  toItself(s) {
    const { source, target, count } = this.policy.machine;
    return source.reduce((sum, from, i) => sum + (from === s && target[i] === s ? count[i] : 0), 0);
  }

  // All that is known of a state.
  about(s) {
    const { data } = this.policy.world, { q, taken } = this.states[s], moves = this.moves(s);
    const parts = [`state ${s}: ${this.name(s)}`, `comes from ${plural(moves.before.size, "state")}, leads to ${plural(moves.behind.size, "state")}`];
    if (moves.before.size > BESIDE || moves.behind.size > BESIDE) parts.push(`the likeliest ${BESIDE} are drawn`);
    if (taken.length) parts.push(`here: ${taken.map(([t, count]) => `${data.types[t]} ${count}×`).join(", ")}`);
    if (q.length) parts.push(`learned: ${q.map(([t, value, visits]) => `${data.types[t]} ${value.toFixed(3)} in ${plural(visits, "visit")}`).join(", ")}`);
    const found = [`${parts.join(". ")}. `], steps = this.policy.machine.steps;
    if (steps.includes(s)) {
      const go = element("button", "go to its next step", "link");
      go.addEventListener("click", () => {
        const from = this.app.step + 1, next = steps.indexOf(s, from);
        this.app.go(next < 0 ? steps.indexOf(s) : next);
      });
      found.push(go);
    }
    return found;
  }

  // The state of this step has a thick frame.
  light(running) {
    for (const each of document.querySelectorAll("#machine .now")) each.classList.remove("now");
    const found = running && byId(`state-${this.policy.name}-${this.now}`);
    if (found) found.classList.add("now");
  }
}

// From box to box, given their left upper corners.
function curve([x, y], [toX, toY]) {
  const [a, b] = [x + BOX.wide / 2, toX + BOX.wide / 2];
  if (toY > y) {
    const bend = Math.min(60, (toY - y - BOX.high) / 2 + 8);
    return `M${a} ${y + BOX.high}C${a} ${y + BOX.high + bend} ${b} ${toY - bend} ${b} ${toY - 2}`;
  }
  if (toY === y) { // beside: below both
    const low = y + BOX.high;
    return `M${a + 20} ${low}C${a + 20} ${low + 26} ${b - 20} ${low + 26} ${b - 20} ${low + 2}`;
  }
  const side = Math.max(x, toX) + BOX.wide, out = side + 26; // back: around the right side
  return `M${x + BOX.wide} ${y + BOX.high / 2}C${out} ${y + BOX.high / 2} ${out} ${toY + BOX.high / 2} ${toX + BOX.wide + 2} ${toY + BOX.high / 2}`;
}
