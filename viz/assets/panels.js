"use strict";
// What stands beside the graph: this step, one node, the tables. Text goes in as text only.

const byId = (id) => document.getElementById(id);
function element(name, content = "", className = "") {
  const made = document.createElement(name);
  if (content !== "") made.textContent = content;
  if (className) made.className = className;
  return made;
}

function showStep(policy, step, app) {
  const { data, type, T } = policy.world;
  const head = `under ${policy.name}, before batch ${Math.min(step + 1, policy.steps)}`;
  byId("stepname").textContent = policy.grows ? nameStep(policy, step) : head;
  const said = byId("said"), behind = step < policy.steps && !policy.grows ? policy.behind[step] : -1;
  said.textContent = sayStep(policy, step);
  if (policy.grows) return;
  if (behind >= 0) {
    const link = element("button", `node ${behind} (${data.types[type[behind]]})`, "link bad");
    link.addEventListener("click", () => app.select(behind, true));
    said.append(" The last of them comes behind ", link, ".");
  }
  const box = byId("ready");
  const rows = [];
  for (let t = 0; t < T; t++) {
    const ready = step < policy.steps ? policy.ready[step * T + t] : 0;
    if (!ready && T > 12) continue;
    const chosen = step < policy.steps && policy.type[step] === t ? " chosen" : "";
    const rail = element("div", "", "rail"), fill = element("div", "", "fill" + chosen);
    fill.style.width = `${(100 * Math.log1p(ready)) / Math.log1p(policy.most)}%`;
    fill.style.background = data.colours[t];
    rail.append(fill);
    rows.push(element("span", data.types[t], "name" + chosen), rail, element("span", ready));
  }
  box.replaceChildren(...rows);
}

function showNode(v, policy, app) {
  const box = byId("node"), { world } = app, { data, type, instance, vertex } = world;
  if (v < 0) {
    box.replaceChildren(element("p", "Click a node, search, or press n for the nodes of this step.", "soft"));
    return;
  }
  const list = element("dl");
  const add = (name, ...parts) => {
    const value = element("dd");
    value.append(...parts);
    list.append(element("dt", name), value);
  };
  const links = (side) => {
    const all = [...neighbours(side, v)];
    const parts = all.slice(0, 24).map((u) => {
      const link = element("button", `${u} ${data.types[type[u]]}`, "link");
      link.addEventListener("click", () => app.select(u, true));
      return link;
    });
    if (all.length > 24) parts.push(`… ${all.length} in all`);
    return parts.length ? parts : ["none"];
  };
  add("node", String(v));
  add("type", data.types[type[v]]);
  if (data.graph.equal && data.graph.equal[v] > 1) add("stands for", `${data.graph.equal[v]} equal nodes`);
  if (data.vertices) aboutVertex(world, v, add);
  else {
    add("instance", String(instance[v]));
    add("vertex", String(vertex[v]));
  }
  if (data.growth) aboutGrowth(world, v, add);
  for (const each of data.policies) {
    const b = each.batch[v];
    const state = each.machine ? `; in state ${each.machine.steps[b]}` : "";
    add(`batch (${each.name})`, `${b + 1} of ${each.steps}, with ${plural(each.width[b] - 1, "other")}; ready since step ${each.since[v] + 1}${state}`);
  }
  add("reads", ...links(world.producers));
  add("read by", ...links(world.consumers));
  if (policy.base) {
    const rows = data.outputs[type[v]].map(([name, arena], o) =>
      `${name}: arena ${arena}, row ${policy.base[policy.batch[v] * data.width + o] + policy.lane[v]}`);
    add("in memory", rows.join("; ") || "nowhere");
  }
  for (const kept of data.values) {
    const row = kept.node.indexOf(v);
    if (row >= 0) add(`value ${kept.name}`, kept.values[row].join(" ") + (kept.cut ? " …" : ""));
  }
  box.replaceChildren(list);
}

// Of a node's vertex what the data says: its word and other fields, its instance, and the line where that begins.
function aboutVertex(world, v, add) {
  const known = world.data.vertices, row = world.vertex[v], i = world.instance[v];
  for (const field of known.fields) {
    if (field.rows) {
      const at = field.vertex.indexOf(row);
      if (at >= 0) add(field.name, field.rows[at].join(" ") + (field.cut ? " …" : ""));
      continue;
    }
    const found = field.of[row];
    if (found >= 0) add(field.name, field.words ? field.words[found] : String(found));
  }
  const name = known.names && known.names[i] !== "" ? ` (${known.names[i]})` : "";
  add("instance", `${i}${name}: number ${known.numbers[i]} of the data`);
  add("line", `${known.lines[i]} of ${known.source}`);
  add("vertex", `${world.vertex[v]}, ${known.kinds[known.kind[row]]}`);
}

// Which type costs how many batches too many under which policy; a number leads to the next of them.
function fillBlame(app) {
  const { data, T } = app.world, table = element("table"), head = element("tr");
  head.append(element("th", "type"), ...data.policies.map((policy) => element("th", policy.name)));
  table.append(head);
  const counts = data.policies.map((policy) => {
    const sums = new Int32Array(T);
    policy.free.forEach((free, b) => { if (!free) sums[policy.type[b]]++; });
    return sums;
  });
  for (let t = 0; t < T; t++) {
    if (!counts.some((sums) => sums[t])) continue;
    const row = element("tr");
    row.append(element("td", data.types[t]));
    data.policies.forEach((policy, i) => {
      const cell = element("td", "", "count");
      if (counts[i][t]) {
        const link = element("button", counts[i][t], "link bad");
        link.setAttribute("aria-label", `${policy.name}: ${plural(counts[i][t], "batch")} of ${data.types[t]}; go to the next`);
        link.addEventListener("click", () => app.goToBlame(policy, t));
        cell.append(link);
      } else cell.append("0");
      row.append(cell);
    });
    table.append(row);
  }
  const last = element("tr");
  last.append(element("td", "all"), ...counts.map((sums) => element("td", sums.reduce((a, b) => a + b, 0), "count")));
  table.append(last);
  byId("blame").replaceChildren(table);
}

// Every step of the policy shown, for those who read rather than look; filled when it is opened.
function fillTable(policy) {
  const box = byId("table"), { data, T } = policy.world, key = `${policy.world.number} ${policy.name}`;
  if (!box.open || box.dataset.policy === key) return;
  box.dataset.policy = key;
  if (policy.grows) return box.querySelector("div").replaceChildren(roundsTable(policy));
  const table = element("table"), head = element("tr");
  table.append(element("caption", `${policy.name}: ${plural(policy.steps, "batch")}`));
  for (const name of ["batch", "type", "nodes", "free", "state", ...data.types.map((t) => `ready ${t}`)]) head.append(element("th", name));
  table.append(head);
  const most = Math.min(policy.steps, 2000);
  for (let b = 0; b < most; b++) {
    const row = element("tr");
    const state = policy.machine ? policy.machine.steps[b] : "";
    for (const value of [b + 1, data.types[policy.type[b]], policy.width[b], policy.free[b] ? "yes" : "no", state]) row.append(element("td", value));
    for (let t = 0; t < T; t++) row.append(element("td", policy.ready[b * T + t], "count"));
    table.append(row);
  }
  const parts = [table];
  if (most < policy.steps) parts.push(element("p", `… ${policy.steps - most} more: abw viz --frontier --json has all`, "soft"));
  box.querySelector("div").replaceChildren(...parts);
}

function fillLegend({ data, type }) {
  const items = data.types.map((name, t) => {
    const item = element("li"), swatch = element("canvas");
    swatch.width = 18; swatch.height = 14;
    const pen = swatch.getContext("2d");
    pen.fillStyle = patternOf(data, t);
    pen.fillRect(0, 0, 18, 14);
    const count = type.reduce((sum, u) => sum + (u === t), 0);
    const said = data.marks[t] === name ? name : `${data.marks[t]} ${name}`;
    item.append(swatch, ` ${said} (${count.toLocaleString("en")}, bound ${data.bound[t]})`);
    return item;
  });
  const words = ["outlined: waiting", "pale: ready", "thick edge: this batch", "full: done"];
  byId("legend").replaceChildren(...items, ...words.map((text) => element("li", text, "soft")));
}

function fillPolicies(app) {
  byId("policies").replaceChildren(...app.world.ways.map((way) => {
    const button = element("button", "", "policy");
    button.append(way.name + " ", element("b", way.grows ? way.rounds : way.steps));
    button.addEventListener("click", () => app.show(way));
    return (way.button = button);
  }));
}

// The mini-batches of the page in figures; a name leads to one.
function fillSeveral(app) {
  const table = element("table"), head = element("tr");
  const figures = scenes.map((scene) => new Map(JSON.parse(scene.dataset.figures)));
  head.append(element("td"));
  scenes.forEach((scene, number) => {
    const cell = element("th"), link = element("button", scene.dataset.name, "link");
    link.addEventListener("click", () => app.enter(worldOf(number), app.side === "scenes"));
    cell.append(link);
    head.append(cell);
  });
  table.append(head);
  for (const name of new Set(figures.flatMap((found) => [...found.keys()]))) {
    const row = element("tr");
    row.append(element("td", name), ...figures.map((found) => element("td", found.get(name) ?? "–", "count")));
    table.append(row);
  }
  byId("figures").replaceChildren(table);
}
