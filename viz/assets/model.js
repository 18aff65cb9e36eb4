"use strict";
// What the page shows, as arrays, and what follows from it. Nothing here touches the document.

const data = JSON.parse(document.getElementById("data").textContent);
const N = data.graph.type.length;
const T = data.types.length;
const type = Uint16Array.from(data.graph.type);
const instance = Int32Array.from(data.graph.instance);
const vertex = Int32Array.from(data.graph.vertex);
const source = Int32Array.from(data.graph.source);
const target = Int32Array.from(data.graph.target);
const ownX = Float32Array.from(data.graph.x); // within the instance
const ownY = Float32Array.from(data.graph.y);
const slice = data.graph.layer ? Int32Array.from(data.graph.layer) : instance;
const sliceName = data.graph.layer ? "layer" : "instance";
const slices = slice.reduce((most, s) => Math.max(most, s), -1) + 1;

// consumers and producers of v: list.slice(ptr[v], ptr[v + 1])
function adjacency(from, to) {
  const ptr = new Int32Array(N + 1);
  for (const v of from) ptr[v + 1]++;
  for (let v = 0; v < N; v++) ptr[v + 1] += ptr[v];
  const place = ptr.slice();
  const list = new Int32Array(from.length);
  from.forEach((v, e) => { list[place[v]++] = to[e]; });
  return { ptr, list };
}
const consumers = adjacency(source, target);
const producers = adjacency(target, source);
const neighbours = (side, v) => side.list.subarray(side.ptr[v], side.ptr[v + 1]);

// Every policy gets: ptr (B + 1), batch and lane of each node, and the step from which each is ready.
for (const policy of data.policies) {
  const steps = policy.type.length;
  policy.steps = steps;
  policy.ptr = new Int32Array(steps + 1);
  policy.width.forEach((width, b) => { policy.ptr[b + 1] = policy.ptr[b] + width; });
  policy.batch = new Int32Array(N);
  policy.lane = new Int32Array(N);
  for (let b = 0; b < steps; b++) {
    for (let i = policy.ptr[b]; i < policy.ptr[b + 1]; i++) {
      policy.batch[policy.nodes[i]] = b;
      policy.lane[policy.nodes[i]] = i - policy.ptr[b];
    }
  }
  policy.free = policy.late.map((late) => !late);
  policy.since = new Int32Array(N);
  for (let e = 0; e < source.length; e++) {
    const ready = policy.batch[source[e]] + 1;
    if (ready > policy.since[target[e]]) policy.since[target[e]] = ready;
  }
}

const [MADE, KEPT, ENDED, WON, GIVEN_UP] = [0, 1, 2, 3, 4]; // what became of a choice
const LATER = 0, READY = 1, NOW = 2, DONE = 3;
function stateOf(policy, v, step) {
  const b = policy.batch[v];
  return b < step ? DONE : b === step ? NOW : policy.since[v] <= step ? READY : LATER;
}

const plural = (count, word) => `${count.toLocaleString("en")} ${word}${count === 1 ? "" : word.endsWith("h") ? "es" : "s"}`;

// A step in words, for eyes and for screen readers.
function sayStep(policy, step) {
  if (policy.grows) return sayRound(step);
  if (step >= policy.steps) return `All ${plural(N, "node")} are executed, in ${plural(policy.steps, "batch")}.`;
  const t = policy.type[step];
  const ready = data.types.map((name, u) => [name, policy.ready[step * T + u]]).filter((pair) => pair[1] > 0);
  const rest = ready.length - 6;
  if (rest > 0) ready.sort((a, b) => b[1] - a[1]).length = 6;
  const late = policy.late[step];
  const free = late ? `Not free: ${plural(late, `critical node`)} of ${data.types[t]} ${late === 1 ? "comes" : "come"} later.` : "Free.";
  return `Batch ${step + 1} of ${policy.steps}: ${plural(policy.width[step], "node")} of ${data.types[t]}. ` +
    `Ready: ${ready.map(([name, count]) => `${name} ${count}`).join(", ")}${rest > 0 ? ` and ${plural(rest, "other type")}` : ""}. ${free}`;
}

// Nodes that a search means: a number, key:value pairs, or part of a type's name; all words must hold.
function find(text, policy, shown) {
  const words = text.trim().toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return [];
  const tests = words.map((word) => {
    const [key, value] = word.includes(":") ? word.split(/:(.*)/s) : ["", word];
    if (key === "instance") return (v) => instance[v] === Number(value);
    if (key === "batch") return (v) => policy.batch[v] === Number(value) - 1;
    if (key === "round") return (v) => !!data.growth && data.growth.node[v] === Number(value);
    if (key === "vertex") return (v) => vertex[v] === Number(value);
    if (key === "state") return (v) => !!policy.machine && policy.machine.steps[policy.batch[v]] === Number(value);
    if (key === "node" || (!key && /^#?\d+$/.test(value))) return (v) => v === Number(value.replace("#", ""));
    const kinds = data.types.map((name) => name.toLowerCase().includes(value));
    return (v) => kinds[type[v]];
  });
  const found = [];
  for (let v = 0; v < N; v++) if (shown(v) && tests.every((test) => test(v))) found.push(v);
  return found;
}
