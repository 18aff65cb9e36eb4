"use strict";
// What the page shows, as arrays, and what follows from it. Nothing here touches what is on the screen.

// Of each node its consumers or producers: list.slice(ptr[v], ptr[v + 1]).
function adjacency(nodes, from, to) {
  const ptr = new Int32Array(nodes + 1);
  for (const v of from) ptr[v + 1]++;
  for (let v = 0; v < nodes; v++) ptr[v + 1] += ptr[v];
  const place = ptr.slice();
  const list = new Int32Array(from.length);
  from.forEach((v, e) => { list[place[v]++] = to[e]; });
  return { ptr, list };
}
const neighbours = (side, v) => side.list.subarray(side.ptr[v], side.ptr[v + 1]);

// One mini-batch with its schedules.
class World {
  constructor(number, data) {
    this.number = number;
    this.data = data;
    this.N = data.graph.type.length;
    this.T = data.types.length;
    this.type = Uint16Array.from(data.graph.type);
    this.instance = Int32Array.from(data.graph.instance);
    this.vertex = Int32Array.from(data.graph.vertex);
    this.source = Int32Array.from(data.graph.source);
    this.target = Int32Array.from(data.graph.target);
    this.slice = data.graph.layer ? Int32Array.from(data.graph.layer) : this.instance;
    this.sliceName = data.graph.layer ? "layer" : "instance";
    this.slices = this.slice.reduce((most, s) => Math.max(most, s), -1) + 1;
    this.consumers = adjacency(this.N, this.source, this.target);
    this.producers = adjacency(this.N, this.target, this.source);
    this.low = 0; // what is shown: slices from low to high
    this.high = this.slices - 1;
    this.shown = (v) => this.slice[v] >= this.low && this.slice[v] <= this.high;
    this.policies = data.policies;
    for (const policy of data.policies) prepare(policy, this);
    this.rounds = data.growth ? roundsOf(this) : null;
    this.ways = this.rounds ? [...this.policies, this.rounds] : this.policies;
    this.layout = new Layout(this);
    this.camera = { x: 0, y: 0, k: 1 };
  }
}

// Every policy gets: ptr (B + 1), batch and lane of each node, and the step from which each is ready.
function prepare(policy, world) {
  const { N, source, target } = world, steps = policy.type.length;
  policy.world = world;
  policy.steps = steps;
  policy.most = policy.ready.reduce((a, b) => Math.max(a, b), 1);
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
  if (policy.rounds) { // nobody knows of a node before its round
    const { node } = world.data.growth, begins = [];
    node.forEach((round, v) => { begins[round] = Math.min(begins[round] ?? steps, policy.batch[v]); });
    node.forEach((round, v) => { policy.since[v] = begins[round]; });
  }
  for (let e = 0; e < source.length; e++) {
    const ready = policy.batch[source[e]] + 1;
    if (ready > policy.since[target[e]]) policy.since[target[e]] = ready;
  }
}

// The mini-batches of the page; each is read when it is first shown.
const scenes = [...document.querySelectorAll("script.scene")];
const read = [];
const worldOf = (number) => (read[number] ||= new World(number, JSON.parse(scenes[number].textContent)));

const [MADE, KEPT, ENDED, WON, GIVEN_UP] = [0, 1, 2, 3, 4]; // what became of a choice
const LATER = 0, READY = 1, NOW = 2, DONE = 3;
function stateOf(policy, v, step) {
  const b = policy.batch[v];
  return b < step ? DONE : b === step ? NOW : policy.since[v] <= step ? READY : LATER;
}

const plural = (count, word) => `${count.toLocaleString("en")} ${word}${count === 1 ? "" : word.endsWith("h") ? "es" : "s"}`;

// Bytes and seconds with three digits and a unit that fits.
function inUnits(value, units, size) {
  let unit = 0;
  while (Math.abs(value) >= size && unit < units.length - 1) { value /= size; unit++; }
  return `${Number(value.toPrecision(3)).toLocaleString("en")} ${units[unit]}`;
}
const bytes = (count) => inUnits(count, ["B", "kB", "MB", "GB", "TB"], 1000);
const micros = (count) => inUnits(count, ["µs", "ms", "s"], 1000);

// A step in words, for eyes and for screen readers.
function sayStep(policy, step) {
  const { data, N, T } = policy.world;
  if (policy.grows) return sayRound(policy, step);
  if (step >= policy.steps) return `All ${plural(N, "node")} are executed, in ${plural(policy.steps, "batch")}.`;
  const t = policy.type[step];
  const ready = data.types.map((name, u) => [name, policy.ready[step * T + u]]).filter((pair) => pair[1] > 0);
  const rest = ready.length - 6;
  if (rest > 0) ready.sort((a, b) => b[1] - a[1]).length = 6;
  const late = policy.late[step];
  const free = late ? `Not free: ${plural(late, `critical node`)} of ${data.types[t]} ${late === 1 ? "comes" : "come"} later.` : "Free: the lower bound needs this batch.";
  return `Batch ${step + 1} of ${policy.steps}: ${plural(policy.width[step], "node")} of ${data.types[t]}. ` +
    `${data.growth && !policy.rounds ? "Ready, if all were decided" : "Ready"}: ${ready.map(([name, count]) => `${name} ${count}`).join(", ")}${rest > 0 ? ` and ${plural(rest, "other type")}` : ""}. ${free}`;
}

// Nodes that a search means: a number, key:value pairs, part of a type's name, or else a word of the data; all must hold.
function find(text, policy) {
  const { world } = policy, { data, N, type, instance, vertex } = world;
  const words = text.trim().toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return [];
  const fields = data.vertices ? data.vertices.fields : [];
  const has = (field, value) => {
    const said = field.words && field.words.map((word) => word.toLowerCase() === value);
    return (v) => {
      const found = field.of[world.vertex[v]];
      return said ? !!said[found] : found !== undefined && found >= 0 && String(found) === value;
    };
  };
  const tests = words.map((word) => {
    const [key, value] = word.includes(":") ? word.split(/:(.*)/s) : ["", word];
    if (key === "instance") return (v) => instance[v] === Number(value);
    if (key === "batch") return (v) => policy.batch[v] === Number(value) - 1;
    if (key === "round") return (v) => !!data.growth && data.growth.node[v] === Number(value);
    if (key === "vertex") return (v) => vertex[v] === Number(value);
    if (key === "line") return (v) => !!data.vertices && data.vertices.lines[instance[v]] === Number(value);
    if (key === "state") return (v) => !!policy.machine && policy.machine.steps[policy.batch[v]] === Number(value);
    if (key === "node" || (!key && /^#?\d+$/.test(value))) return (v) => v === Number(value.replace("#", ""));
    const named = fields.filter((field) => field.of && field.name.toLowerCase() === key);
    if (named.length) return has(named[0], value);
    const kinds = data.types.map((name) => name.toLowerCase().includes(value));
    if (key || kinds.includes(true)) return (v) => kinds[type[v]];
    const any = fields.filter((field) => field.words).map((field) => has(field, value));
    return (v) => any.some((test) => test(v));
  });
  const found = [];
  for (let v = 0; v < N; v++) if (tests.every((test) => test(v))) found.push(v);
  return found;
}
