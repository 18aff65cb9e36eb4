"use strict";
// Buttons and keys.

function listenToPage(app) {
  const click = (id, act) => byId(id).addEventListener("click", act);
  click("first", () => app.go(0));
  click("back", () => app.go(app.step - 1));
  click("next", () => app.go(app.step + 1));
  click("last", () => app.go(Infinity));
  click("play", () => app.play());
  click("compare", () => app.setSide(app.side === "policies" ? "" : "policies"));
  click("beside", () => app.setSide(app.side === "scenes" ? "" : "scenes"));
  click("theme", () => app.setTheme());
  click("help", () => byId("keys").showModal());
  byId("speed").addEventListener("change", () => { if (app.timer) app.play(true); });
  byId("step").addEventListener("input", (event) => app.go(Number(event.target.value)));
  byId("search").addEventListener("input", (event) => app.search(event.target.value));
  byId("table").addEventListener("toggle", () => fillTable(app.policy));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readTheme(); app.change(); });
  new ResizeObserver(() => { app.range.draw(); app.machine.resize(); app.draw(); }).observe(document.body);
  document.addEventListener("keydown", (event) => pressed(app, event));
}

function pressed(app, event) {
  if (event.ctrlKey || event.metaKey || event.altKey || byId("keys").open) return;
  if (event.target === byId("search")) {
    if (event.key === "Enter") app.nextMatch(event.shiftKey ? -1 : 1);
    if (event.key === "Escape") { event.target.value = ""; app.search(""); event.target.blur(); }
    return;
  }
  if (event.target.matches("select, summary, input[type=search]")) return;
  if (event.target.matches("input, .scroll") && /^(Arrow|Home|End|Page)/.test(event.key)) return; // its own
  const onButton = event.target.matches("button");
  const far = event.shiftKey ? 10 : 1;
  const { ways, rounds, policies } = app.world;
  const view = app.views.find((each) => each.world === app.world);
  const act = {
    ArrowRight: () => app.go(app.step + far),
    ArrowLeft: () => app.go(app.step - far),
    Home: () => app.go(0),
    End: () => app.go(Infinity),
    p: () => app.show(ways[(ways.indexOf(app.policy) + 1) % ways.length]),
    r: rounds && (() => app.show(app.policy.grows ? policies[0] : rounds)),
    c: () => app.setSide(app.side === "policies" ? "" : "policies"),
    m: scenes.length > 1 && (() => app.enter(worldOf((app.world.number + 1) % scenes.length), app.side === "scenes")),
    b: scenes.length > 1 && (() => app.setSide(app.side === "scenes" ? "" : "scenes")),
    n: () => app.nextOfBatch(1),
    N: () => app.nextOfBatch(-1),
    "/": () => byId("search").focus(),
    0: () => app.fit(),
    "+": () => app.zoom(view, 1.4),
    "=": () => app.zoom(view, 1.4),
    "-": () => app.zoom(view, 1 / 1.4),
    t: () => app.setTheme(),
    "?": () => byId("keys").showModal(),
    Escape: () => app.select(-1),
    " ": onButton ? null : () => app.play(),
  }[event.key];
  if (!act) return;
  event.preventDefault();
  act();
}

const app = new App();
app.start();
