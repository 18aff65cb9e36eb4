"use strict";
// The page's state, and what changes it.

class App {
  constructor() {
    this.world = worldOf(0);
    this.policy = this.world.policies[0];
    this.step = 0;
    this.selected = -1;
    this.matches = [];
    this.match = -1;
    this.timer = 0;
    this.side = ""; // what stands side by side: nothing, policies, or scenes
    this.views = [];
    this.timeline = new Timeline(byId("timeline"), this);
    this.chart = new RoundsChart(byId("rounds"), this);
    this.range = new Range(this);
    this.machine = new Machine(this);
    this.memory = new MemoryChart(byId("bytes"), this);
    this.process = new ProcessChart(byId("resident"));
    this.time = new TimeChart(byId("time"), this);
  }

  start() {
    readTheme();
    scenes.forEach((scene, number) => {
      const button = element("button", scene.dataset.name);
      button.addEventListener("click", () => this.enter(worldOf(number)));
      byId("scenes").append(button);
    });
    byId("scenes").hidden = byId("beside").hidden = byId("several").hidden = scenes.length < 2;
    if (scenes.length > 1) fillSeveral(this);
    listenToPage(this);
    this.enter(this.world);
  }

  // --- what can be done -------------------------------------------------------------------------------

  // Show another mini-batch, by the policy of the same name where it has one.
  enter(world, keep = false) {
    const { name } = this.policy;
    this.world = world;
    this.policy = world.ways.find((way) => way.name === name) || world.policies[0];
    this.selected = -1;
    fillPolicies(this);
    fillLegend(world);
    fillBlame(this);
    byId("facts").textContent = world.data.facts;
    for (const each of document.querySelectorAll("[data-scenes]")) {
      each.hidden = !each.dataset.scenes.split(" ").includes(String(world.number));
    }
    this.range.enter(world);
    if (!keep || this.side === "policies") {
      this.layViews();
      this.fit();
    }
    this.search(byId("search").value);
    this.change();
  }

  show(policy) {
    if (this.policy === policy) return;
    this.policy = policy;
    if (policy.grows && this.side === "policies") return this.setSide("");
    if (this.side !== "policies") this.layViews();
    this.search(byId("search").value);
    this.change();
  }

  go(step) {
    this.step = Math.max(0, Math.min(this.steps(), step));
    this.change();
  }

  // The most steps of all that is in view.
  steps() { return Math.max(...this.views.map((view) => view.policy.steps)); }

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

  // What was pressed in one of the views.
  pick(view, v) {
    if (view.world !== this.world) this.enter(view.world, true);
    this.select(v);
  }

  select(v, look = false) {
    this.selected = v;
    if (v >= 0 && (look || !this.world.shown(v))) this.lookAt(v);
    showNode(v, this.policy, this);
    if (this.policy.grows) showDecided(this.step, this);
    this.draw();
  }

  lookAt(v) {
    const { world } = this, { camera, layout } = world;
    if (!world.shown(v)) this.range.centre(world.slice[v]);
    camera.x = layout.px[v] * PITCH;
    camera.y = layout.py[v] * PITCH;
    camera.k = Math.max(camera.k, 0.6);
  }

  search(text) {
    this.matches = find(text, this.policy);
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

  pan(view, dx, dy) {
    view.world.camera.x += dx;
    view.world.camera.y += dy;
    this.moving();
  }

  // Never so far away that the whole is a dot, never so near that nothing is seen of it.
  zoom(view, factor, x, y) {
    const { wide, high } = view.box, { camera, layout } = view.world;
    const [fx, fy] = [(x ?? wide / 2) - wide / 2, (y ?? high / 2) - high / 2];
    const k = Math.max(layout.whole(view.box).k / 2, Math.min(6, camera.k * factor));
    camera.x += fx / camera.k - fx / k;
    camera.y += fy / camera.k - fy / k;
    camera.k = k;
    this.moving();
  }

  // Pack what is shown anew, in the shape of the canvas, and show all of it.
  fit() {
    for (const view of this.views) {
      const box = view.size(), { layout, camera } = view.world;
      layout.pack(box.wide / box.high);
      Object.assign(camera, layout.whole(box));
    }
    this.draw();
  }

  setSide(side) {
    this.side = side;
    if (side === "policies" && this.policy.grows) this.policy = this.world.policies[0];
    byId("compare").setAttribute("aria-pressed", String(side === "policies"));
    byId("beside").setAttribute("aria-pressed", String(side === "scenes"));
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
    let policies = [this.policy];
    if (this.side === "policies") policies = this.world.policies;
    if (this.side === "scenes") {
      policies = scenes.map((_, number) => worldOf(number)).map((world) => world.ways.find((way) => way.name === this.policy.name) || world.policies[0]);
    }
    this.views = policies.map((policy) => new GraphView(policy, this));
    byId("stage").replaceChildren(...this.views.map((view) => view.figure));
  }

  // Everything that depends on the step or the policy.
  change() {
    const { policy, world } = this;
    const steps = this.steps();
    this.step = Math.min(this.step, steps);
    const slider = byId("step");
    slider.max = steps;
    slider.value = this.step;
    slider.setAttribute("aria-valuetext", sayStep(policy, this.step));
    byId("at").textContent = nameStep(policy, this.step);
    for (const id of ["schedules", "machines", "above", "ready"]) byId(id).hidden = !!policy.grows;
    byId("decisions").hidden = !policy.grows;
    for (const item of document.querySelectorAll("#legend .soft")) item.hidden = !!policy.grows;
    byId("growth").hidden = !world.rounds;
    for (const each of world.ways) each.button.setAttribute("aria-pressed", String(each === policy));
    [...byId("scenes").children].forEach((button, i) => button.setAttribute("aria-pressed", String(i === world.number)));
    showStep(policy, this.step, this);
    if (policy.grows) showDecided(this.step, this);
    else this.machine.show(policy, this.step);
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
    this.waiting = requestAnimationFrame(() => { this.waiting = 0; this.paint(this.slow, true); });
  }

  paint(hurried, graphsOnly = false) {
    const before = performance.now();
    for (const view of this.views) {
      const { policy, world } = view, step = Math.min(this.step, policy.steps), own = world === this.world;
      const matches = own && this.matches.length <= 3000 ? this.matches : [];
      view.draw(step, own ? this.selected : -1, matches, hurried);
      if (graphsOnly) continue;
      const where = step < policy.steps ? nameStep(policy, step) : "done";
      const whose = this.side === "scenes" ? `${scenes[world.number].dataset.name}, ` : "";
      view.caption.textContent = `${whose}${policy.name}: ${where}`;
      view.canvas.setAttribute("aria-label", `Graph under ${whose}${policy.name}, ${where}: ${sayStep(policy, step)}`);
    }
    if (!hurried) this.slow = performance.now() - before > 10;
    if (graphsOnly) return;
    if (!this.policy.grows) this.timeline.draw(this.policy, this.step);
    if (this.world.rounds) this.chart.draw(this.world.rounds, this.step);
    this.memory.draw(this.policy, this.step);
    this.process.draw(this.world);
    this.time.draw(this.policy, this.step);
  }
}
