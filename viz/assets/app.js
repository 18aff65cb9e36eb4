"use strict";
// The page's state, and what changes it.

const SHOWN = 10000; // so many nodes are shown at first; the range picker brings in the others
const NARROW = 20000; // a graph of more nodes than this gets a range picker

class App {
  constructor() {
    this.step = 0;
    this.policy = data.policies[0];
    this.selected = -1;
    this.matches = [];
    this.match = -1;
    this.timer = 0;
    this.compare = false;
    this.views = [];
    this.inSight = new Uint8Array(N);
    this.low = 0;
    this.high = slices - 1;
    this.shown = (v) => slice[v] >= this.low && slice[v] <= this.high;
    for (const policy of data.policies) policy.most = policy.ready.reduce((a, b) => Math.max(a, b), 1);
    this.timeline = new Timeline(byId("timeline"), this);
    this.chart = rounds && new RoundsChart(byId("rounds"), this);
  }

  start() {
    readTheme();
    byId("facts").textContent = data.facts;
    for (const policy of ways) {
      const button = element("button", "", "policy");
      button.append(policy.name + " ", element("b", policy.grows ? policy.rounds : policy.steps));
      button.addEventListener("click", () => this.show(policy));
      policy.button = button;
      byId("policies").append(button);
    }
    fillLegend();
    fillBlame(this);
    if (N > NARROW && slices > 1) this.startRange();
    this.listen();
    this.layViews();
    this.fit();
    this.change();
  }

  // --- what can be done -------------------------------------------------------------------------------

  show(policy) {
    if (this.policy === policy) return;
    this.policy = policy;
    if (policy.grows && this.compare) return this.setCompare(false);
    if (!this.compare) this.layViews();
    this.search(byId("search").value);
    this.change();
  }

  go(step) {
    const last = this.compare ? Math.max(...data.policies.map((p) => p.steps)) : this.policy.steps;
    this.step = Math.max(0, Math.min(last, step));
    this.change();
  }

  // The next step of a type that was not free, from here or from the beginning.
  goToBlame(policy, t) {
    this.show(policy);
    for (let i = 1; i <= policy.steps; i++) {
      const b = (this.step + i) % policy.steps;
      if (!policy.free[b] && policy.type[b] === t) return this.go(b);
    }
  }

  play(on = !this.timer) {
    clearInterval(this.timer);
    this.timer = 0;
    if (on) {
      if (this.step >= this.policy.steps) this.step = 0;
      this.timer = setInterval(() => {
        this.go(this.step + 1);
        if (this.step >= this.policy.steps) this.play(false);
      }, 1000 / Number(byId("speed").value));
    }
    byId("play").setAttribute("aria-pressed", String(!!this.timer));
    byId("said").setAttribute("aria-live", this.timer ? "off" : "polite"); // nobody can listen that fast
    byId("play").textContent = this.timer ? "⏸ stop" : "▶ play";
  }

  select(v, look = false) {
    this.selected = v;
    if (v >= 0 && (look || !this.shown(v))) this.lookAt(v);
    showNode(v, this.policy, this);
    if (this.policy.grows) showDecided(this.step, this);
    this.draw();
  }

  lookAt(v) {
    if (!this.shown(v)) this.centreRange(slice[v]);
    camera.x = px[v] * PITCH;
    camera.y = py[v] * PITCH;
    camera.k = Math.max(camera.k, 0.6);
  }

  search(text) {
    this.matches = find(text, this.policy, () => true);
    this.match = -1;
    byId("found").textContent = text.trim() ? `${plural(this.matches.length, "node")} found` : "";
    this.draw();
  }

  nextMatch(way = 1) {
    if (!this.matches.length) return;
    this.match = (this.match + way + this.matches.length) % this.matches.length;
    byId("found").textContent = `${this.match + 1} of ${plural(this.matches.length, "node")}`;
    this.select(this.matches[this.match], true);
  }

  nextOfBatch(way) {
    const { policy } = this;
    const b = Math.min(this.step, policy.steps - 1);
    if (b < 0) return;
    const at = this.selected >= 0 && policy.batch[this.selected] === b ? policy.lane[this.selected] + way : 0;
    const width = policy.width[b];
    this.select(policy.nodes[policy.ptr[b] + ((at + width) % width)], true);
  }

  pan(dx, dy) {
    camera.x += dx;
    camera.y += dy;
    this.moving();
  }

  zoom(factor, x, y, view = this.views[0]) {
    const box = view.canvas.getBoundingClientRect();
    const [fx, fy] = [(x ?? box.width / 2) - box.width / 2, (y ?? box.height / 2) - box.height / 2];
    const k = Math.max(0.004, Math.min(6, camera.k * factor));
    camera.x += fx / camera.k - fx / k;
    camera.y += fy / camera.k - fy / k;
    camera.k = k;
    this.moving();
  }

  // Pack what is shown anew, in the shape of the canvas, and show all of it.
  fit() {
    const box = this.views[0].canvas.getBoundingClientRect();
    pack(this.shown, box.width / box.height);
    let [left, top, right, low] = [Infinity, Infinity, -Infinity, -Infinity];
    for (let v = 0; v < N; v++) {
      if (!this.shown(v)) continue;
      left = Math.min(left, px[v]); right = Math.max(right, px[v]);
      top = Math.min(top, py[v]); low = Math.max(low, py[v]);
    }
    if (left > right) return;
    camera.x = ((left + right) / 2) * PITCH;
    camera.y = ((top + low) / 2) * PITCH;
    camera.k = Math.min(1.6, (box.width - 40) / ((right - left + 1) * PITCH), (box.height - 60) / ((low - top + 1) * PITCH));
    this.draw();
  }

  setCompare(on) {
    this.compare = on;
    if (on && this.policy.grows) this.policy = data.policies[0];
    byId("compare").setAttribute("aria-pressed", String(on));
    this.layViews();
    this.fit();
    this.change();
  }

  setTheme() {
    const dark = getComputedStyle(document.documentElement).colorScheme === "dark" ||
      (!document.documentElement.dataset.theme && matchMedia("(prefers-color-scheme: dark)").matches);
    document.documentElement.dataset.theme = dark ? "light" : "dark";
    readTheme();
    this.change();
  }

  // --- how it is shown --------------------------------------------------------------------------------

  layViews() {
    const policies = this.compare ? data.policies : [this.policy];
    this.views = policies.map((policy) => new GraphView(policy, this));
    byId("stage").replaceChildren(...this.views.map((view) => view.figure));
  }

  // Everything that depends on the step or the policy.
  change() {
    const { policy } = this;
    const steps = this.compare ? Math.max(...data.policies.map((p) => p.steps)) : policy.steps;
    this.step = Math.min(this.step, steps);
    const slider = byId("step");
    slider.max = steps;
    slider.value = this.step;
    slider.setAttribute("aria-valuetext", sayStep(policy, this.step));
    byId("at").textContent = nameStep(policy, this.step);
    for (const id of ["schedules", "machines", "above", "ready"]) byId(id).hidden = !!policy.grows;
    byId("decisions").hidden = !policy.grows;
    for (const item of document.querySelectorAll("#legend .soft")) item.hidden = !!policy.grows;
    byId("growth").hidden = !rounds;
    for (const each of ways) each.button.setAttribute("aria-pressed", String(each === policy));
    showStep(policy, this.step, this);
    if (policy.grows) showDecided(this.step, this);
    else showMachine(policy, this.step);
    showNode(this.selected, policy, this);
    fillTable(policy);
    this.draw();
  }

  draw() {
    if (this.waiting) return;
    this.waiting = requestAnimationFrame(() => { this.waiting = 0; this.paint(false); });
  }

  // While the picture moves, what makes it slow is left out, and comes back when it rests.
  moving() {
    clearTimeout(this.rest);
    this.rest = setTimeout(() => this.draw(), 120);
    if (this.waiting) return;
    this.waiting = requestAnimationFrame(() => { this.waiting = 0; this.paint(this.slow); });
  }

  paint(hurried) {
    const before = performance.now();
    for (const view of this.views) {
      const { policy } = view, step = Math.min(this.step, policy.steps);
      view.draw(step, this.selected, this.matches.length > 3000 ? [] : this.matches.filter(this.shown), hurried);
      const where = step < policy.steps ? nameStep(policy, step) : "done";
      view.caption.textContent = `${policy.name}: ${where}`;
      view.canvas.setAttribute("aria-label", `Graph under ${policy.name}, ${where}: ${sayStep(policy, step)}`);
    }
    if (!this.policy.grows) this.timeline.draw(this.policy, this.step);
    if (this.chart) this.chart.draw(this.step);
    if (!hurried) this.slow = performance.now() - before > 10;
  }

  // --- a graph too large to show at once --------------------------------------------------------------

  startRange() {
    const box = byId("range");
    box.hidden = false;
    const counts = new Int32Array(slices);
    for (let v = 0; v < N; v++) counts[slice[v]]++;
    this.overview = element("canvas");
    this.overview.setAttribute("role", "img");
    this.overview.setAttribute("aria-label", `Overview: nodes by ${sliceName}`);
    box.append(this.overview);
    this.counts = counts;
    let sum = 0, high = 0;
    while (high < slices - 1 && sum + counts[high] <= SHOWN) sum += counts[high++];
    this.inputs = ["from", "to"].map((name, i) => {
      const label = element("label", `${name} `), input = element("input"), said = element("span");
      input.type = "range"; input.min = 0; input.max = slices - 1; input.id = `range-${name}`;
      input.addEventListener("input", () => {
        const value = Number(input.value);
        this.setRange(...(i ? [Math.min(this.low, value), value] : [value, Math.max(this.high, value)]));
      });
      label.append(input, said);
      box.append(label);
      return { input, said };
    });
    const move = (event) => {
      if (event.type === "pointermove" && !event.buttons) return;
      this.centreRange(Math.round((event.offsetX / this.overview.clientWidth) * (slices - 1)));
    };
    this.overview.addEventListener("pointerdown", move);
    this.overview.addEventListener("pointermove", move);
    this.setRange(0, Math.max(0, high - 1));
  }

  // As many slices as now, around another one.
  centreRange(middle) {
    const span = this.high - this.low;
    const low = Math.max(0, Math.min(slices - 1 - span, middle - Math.floor(span / 2)));
    this.setRange(low, low + span);
  }

  setRange(low, high) {
    this.low = low;
    this.high = high;
    if (!this.overview) return;
    this.inputs[0].input.value = low;
    this.inputs[1].input.value = high;
    let nodes = 0;
    for (let s = low; s <= high; s++) nodes += this.counts[s];
    this.inputs[0].said.textContent = `${sliceName} ${low}`;
    this.inputs[1].said.textContent = `${high}: ${plural(nodes, "node")}`;
    this.drawOverview();
    if (this.views.length) this.fit();
  }

  drawOverview() {
    const canvas = this.overview, scale = window.devicePixelRatio || 1;
    canvas.width = Math.max(1, canvas.clientWidth * scale);
    canvas.height = 56 * scale;
    const pen = canvas.getContext("2d"), wide = canvas.width / slices;
    const most = this.counts.reduce((a, b) => Math.max(a, b), 1);
    for (let s = 0; s < slices; s++) {
      pen.fillStyle = s >= this.low && s <= this.high ? theme.ink : theme.line;
      const tall = (canvas.height * this.counts[s]) / most;
      pen.fillRect(s * wide, canvas.height - tall, Math.max(1, wide - (wide > 3 ? 1 : 0)), tall);
    }
  }

  // --- events -----------------------------------------------------------------------------------------

  listen() {
    const click = (id, act) => byId(id).addEventListener("click", act);
    click("first", () => this.go(0));
    click("back", () => this.go(this.step - 1));
    click("next", () => this.go(this.step + 1));
    click("last", () => this.go(Infinity));
    click("play", () => this.play());
    click("compare", () => this.setCompare(!this.compare));
    click("theme", () => this.setTheme());
    click("help", () => byId("keys").showModal());
    byId("speed").addEventListener("change", () => { if (this.timer) this.play(true); });
    byId("step").addEventListener("input", (event) => this.go(Number(event.target.value)));
    byId("search").addEventListener("input", (event) => this.search(event.target.value));
    byId("table").addEventListener("toggle", () => fillTable(this.policy));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readTheme(); this.change(); });
    new ResizeObserver(() => { if (this.overview) this.drawOverview(); this.draw(); }).observe(document.body);
    document.addEventListener("keydown", (event) => this.key(event));
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || byId("keys").open) return;
    const inSearch = event.target === byId("search");
    if (inSearch) {
      if (event.key === "Enter") this.nextMatch(event.shiftKey ? -1 : 1);
      if (event.key === "Escape") { event.target.value = ""; this.search(""); event.target.blur(); }
      return;
    }
    if (event.target.matches("select, summary")) return;
    if (event.target.matches("input, .scroll, .machine") && /^(Arrow|Home|End|Page)/.test(event.key)) return; // its own
    const onButton = event.target.matches("button");
    const far = event.shiftKey ? 10 : 1;
    const act = {
      ArrowRight: () => this.go(this.step + far),
      ArrowLeft: () => this.go(this.step - far),
      Home: () => this.go(0),
      End: () => this.go(Infinity),
      p: () => this.show(ways[(ways.indexOf(this.policy) + 1) % ways.length]),
      r: rounds && (() => this.show(this.policy.grows ? data.policies[0] : rounds)),
      c: () => this.setCompare(!this.compare),
      n: () => this.nextOfBatch(1),
      N: () => this.nextOfBatch(-1),
      "/": () => byId("search").focus(),
      0: () => this.fit(),
      "+": () => this.zoom(1.4),
      "=": () => this.zoom(1.4),
      "-": () => this.zoom(1 / 1.4),
      t: () => this.setTheme(),
      "?": () => byId("keys").showModal(),
      Escape: () => this.select(-1),
      " ": onButton ? null : () => this.play(),
    }[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  }
}

const app = new App();
app.start();
