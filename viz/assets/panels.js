"use strict";
// What stands beside the graph: this step, the machine's state, one node, the table. Text goes in as text only.

const byId = (id) => document.getElementById(id);
function element(name, content = "", className = "") {
  const made = document.createElement(name);
  if (content !== "") made.textContent = content;
  if (className) made.className = className;
  return made;
}

function showStep(policy, step, app) {
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

let lit = null;
function showMachine(policy, step) {
  for (const each of byId("machine").children) each.hidden = each.dataset.policy !== policy.name;
  if (lit) lit.classList.remove("now");
  lit = null;
  const state = policy.machine && policy.machine.steps[step];
  if (state === undefined) return;
  lit = byId(`state-${policy.name}-${state}`);
  if (!lit) return;
  lit.classList.add("now");
  const box = byId("machine"), room = box.getBoundingClientRect(), place = lit.getBoundingClientRect();
  if (place.left < room.left || place.right > room.right) box.scrollLeft += place.left - room.left - room.width / 2;
  if (place.top < room.top || place.bottom > room.bottom) box.scrollTop += place.top - room.top - room.height / 2;
}

function showNode(v, policy, app) {
  const box = byId("node");
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
  add("instance", String(instance[v]));
  add("vertex", String(vertex[v]));
  if (data.growth) aboutVertex(v, add);
  for (const each of data.policies) {
    const b = each.batch[v];
    add(`batch (${each.name})`, `${b + 1} of ${each.steps}, with ${plural(each.width[b] - 1, "other")}; ready since step ${each.since[v] + 1}`);
  }
  add("reads", ...links(producers));
  add("read by", ...links(consumers));
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

// Which type costs how many batches too many under which policy; a number leads to the next of them.
function fillBlame(app) {
  const table = element("table"), head = element("tr");
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
  byId("blame").append(table);
}

// Every step of the policy shown, for those who read rather than look; filled when it is opened.
function fillTable(policy) {
  const box = byId("table");
  if (!box.open || box.dataset.policy === policy.name) return;
  box.dataset.policy = policy.name;
  if (policy.grows) return box.querySelector("div").replaceChildren(roundsTable());
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

function fillLegend() {
  data.types.forEach((name, t) => {
    const item = element("li"), swatch = element("canvas");
    swatch.width = 18; swatch.height = 14;
    const pen = swatch.getContext("2d");
    pen.fillStyle = patternOf(t);
    pen.fillRect(0, 0, 18, 14);
    const count = type.reduce((sum, u) => sum + (u === t), 0);
    const said = data.marks[t] === name ? name : `${data.marks[t]} ${name}`;
    item.append(swatch, ` ${said} (${count.toLocaleString("en")}, bound ${data.bound[t]})`);
    byId("legend").append(item);
  });
  for (const text of ["outlined: waiting", "pale: ready", "thick edge: this batch", "full: done"]) byId("legend").append(element("li", text, "soft"));
}
