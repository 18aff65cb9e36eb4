"use strict";
// Growth, round by round: a way to step like a policy's, but nodes appear with the round that computes them.

const ROUND_LINES = 60; // so many decisions of a round are listed

function roundsOf(world) {
  const g = world.data.growth, R = g.growing.length, { N } = world;
  const batch = Int32Array.from(g.node), steps = R + (g.nodes[R + 1] ? 2 : 1);
  const width = g.nodes.slice(0, steps), ptr = new Int32Array(steps + 1);
  width.forEach((count, b) => { ptr[b + 1] = ptr[b] + count; });
  const place = ptr.slice(), nodes = new Int32Array(N), lane = new Int32Array(N);
  for (let v = 0; v < N; v++) { lane[v] = place[batch[v]] - ptr[batch[v]]; nodes[place[batch[v]]++] = v; }
  // the last node of each vertex stands for it; its choices by number
  const node = new Int32Array(g.kind.length).fill(-1);
  for (let v = 0; v < N; v++) node[world.vertex[v]] = v;
  const choices = g.kind.map(() => []), made = Array.from({ length: R + 2 }, () => []);
  g.said.forEach((_, c) => { choices[g.at[c]].push(c); made[g.made[c]].push(c); });
  const tag = new Map(); // what is written below a vertex's node: what was chosen there
  choices.forEach((list, u) => {
    const kept = list.filter((c) => g.fate[c] !== GIVEN_UP);
    const said = kept.length ? kept.map((c) => g.chosen[c] || "–").join(", ") : "✕";
    if (list.length && node[u] >= 0) tag.set(node[u], { said: said.length > 14 ? said.slice(0, 13) + "…" : said, round: g.made[list[0]] });
  });
  return { world, name: "rounds", grows: true, rounds: R, steps, ptr, batch, lane, nodes, width, since: batch, node, choices, made, tag };
}

// Where a step is: `batch 3 of 20`, `round 3 of 20`.
function nameStep(way, step) {
  if (!way.grows) return step < way.steps ? `batch ${step + 1} of ${way.steps}` : `done: ${plural(way.steps, "batch")}`;
  if (step === 0) return "before growth";
  if (step <= way.rounds) return `round ${step} of ${way.rounds}`;
  return step < way.steps ? "after growth" : `done: ${plural(way.rounds, "round")}`;
}

const vertexName = (g, u) => `${g.kinds[g.kind[u]]} ${g.index[u]}`;

function cameIn(rounds, step) {
  const g = rounds.world.data.growth, row = step >= 1 && step <= rounds.rounds ? g.came[step - 1] : [];
  return g.grown.map((name, k) => [name, row[k] || 0]).filter((pair) => pair[1]).map(([name, count]) => `${name} ${count}`).join(", ");
}

// A round in words, for eyes and for screen readers.
function sayRound(rounds, step) {
  const g = rounds.world.data.growth, R = rounds.rounds;
  if (step >= rounds.steps || (step > R && !rounds.width[step])) return `Grown in ${plural(R, "round")}. ${g.cut}`;
  if (step === 0) return `Before growth: ${plural(rounds.width[0], "node")} of what is given.`;
  if (step > R) return `After growth: ${plural(rounds.width[step], "node")}. ${g.cut}`;
  const growing = g.growing[step - 1], came = cameIn(rounds, step);
  return `Round ${step} of ${R}: ${growing} of ${plural(g.instances, "instance")} ${growing === 1 ? "grows" : "grow"}. ` +
    `${came ? `New: ${came}. ` : ""}${plural(rounds.width[step], "node")} computed, ${plural(rounds.made[step].length, "decision")} made.`;
}

// The decisions of a round, those of the selected node's instance first; each leads to its vertex.
function showDecided(step, app) {
  const { world } = app, { rounds } = world, g = world.data.growth, list = [...(rounds.made[step] || [])];
  const own = app.selected >= 0 ? world.instance[app.selected] : -1;
  if (own >= 0) list.sort((a, b) => (g.of[g.at[b]] === own) - (g.of[g.at[a]] === own) || a - b);
  const items = list.slice(0, ROUND_LINES).map((c) => {
    const item = element("li", "", g.fate[c] === GIVEN_UP ? "soft" : g.fate[c] === WON ? "won" : ""), u = g.at[c];
    const name = `instance ${g.of[u]}, ${vertexName(g, u)}`;
    if (rounds.node[u] >= 0) {
      const link = element("button", name, "link");
      link.addEventListener("click", () => app.select(rounds.node[u], true));
      item.append(link);
    } else item.append(name);
    item.append(" ", element("span", g.said[c]));
    return item;
  });
  if (!items.length) items.push(element("li", "Nothing was decided.", "soft"));
  if (list.length > ROUND_LINES) items.push(element("li", `… ${list.length - ROUND_LINES} more: abw viz --rounds --json has all`, "soft"));
  if (g.left) items.push(element("li", `${g.left} choices of later rounds are not in this page: --batch makes mini-batches smaller`, "soft"));
  byId("decided").replaceChildren(...items);
}

// What is known of a node's vertex: when it came, what was decided there.
function aboutGrowth(world, v, add) {
  const { rounds } = world, g = world.data.growth, u = world.vertex[v];
  add("at", vertexName(g, u));
  add("came", g.round[u] ? `in round ${g.round[u]} of ${rounds.rounds}` : "given");
  for (const c of rounds.choices[u]) add("decided", g.said[c]);
}

function roundsTable(rounds) {
  const g = rounds.world.data.growth, table = element("table"), head = element("tr");
  table.append(element("caption", plural(rounds.rounds, "round")));
  for (const name of ["round", "growing", "new", "nodes", "decided"]) head.append(element("th", name));
  table.append(head);
  for (let r = 1; r <= Math.min(rounds.rounds, 2000); r++) {
    const row = element("tr"), made = rounds.made[r];
    const said = made.slice(0, 8).map((c) => `${g.of[g.at[c]]}: ${g.said[c]}`).join("; ") + (made.length > 8 ? `; … ${made.length - 8} more` : "");
    for (const value of [r, g.growing[r - 1], cameIn(rounds, r), rounds.width[r], said]) row.append(element("td", value));
    table.append(row);
  }
  return table;
}

// Bars: in how many instances each round had something to do, and what came to be.
class RoundsChart {
  constructor(canvas, app) {
    this.canvas = canvas;
    this.app = app;
    const go = (event) => {
      const { rounds } = app.world;
      app.show(rounds);
      app.go(Math.max(1, Math.min(rounds.rounds, Math.floor((event.offsetX - this.left) / this.column) + 1)));
    };
    canvas.addEventListener("click", go);
    canvas.addEventListener("pointermove", (event) => { if (event.buttons) go(event); });
  }

  draw(rounds, step) {
    const { data } = rounds.world, g = data.growth, scale = window.devicePixelRatio || 1;
    const rows = [["growing", g.growing], ...g.grown.map((name, k) => [`new ${name}`, g.came.map((row) => row[k])])];
    const wide = this.canvas.parentElement.clientWidth, tall = 34, high = rows.length * tall + 22;
    Object.assign(this.canvas, { width: wide * scale, height: high * scale });
    this.canvas.style.height = `${high}px`;
    const pen = this.canvas.getContext("2d");
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.font = '600 12px system-ui, "DejaVu Sans", sans-serif';
    this.left = Math.min(wide * 0.3, Math.max(...rows.map(([name]) => pen.measureText(name).width)) + 14);
    this.column = Math.min(26, (wide - this.left - 6) / rounds.rounds);
    const bar = Math.max(0.7, this.column - (this.column > 3 ? 1 : 0));
    rows.forEach(([name, counts], i) => {
      const base = (i + 1) * tall - 4, most = counts.reduce((a, b) => Math.max(a, b), 1);
      pen.fillStyle = theme.ink;
      pen.fillText(name, 0, base - 10, this.left - 6);
      pen.fillStyle = i ? theme.soft : data.colours[0];
      counts.forEach((count, r) => {
        const size = count ? Math.max(1.5, ((tall - 8) * count) / most) : 0;
        pen.fillRect(this.left + r * this.column, base - size, bar, size);
      });
      pen.fillStyle = theme.line;
      pen.fillRect(this.left, base, rounds.rounds * this.column, 1);
    });
    pen.fillStyle = theme.soft;
    pen.font = '11px system-ui, "DejaVu Sans", sans-serif';
    pen.fillText(`round 1 to ${rounds.rounds}; at most ${g.growing.reduce((a, b) => Math.max(a, b), 0)} of ${plural(g.instances, "instance")}`, this.left, high - 5);
    if (this.app.policy !== rounds || step < 1 || step > rounds.rounds) return;
    pen.strokeStyle = theme.ink;
    pen.lineWidth = 1.5;
    pen.strokeRect(this.left + (step - 1) * this.column - 0.5, 2, Math.max(3, this.column + 1), rows.length * tall - 4);
  }
}
