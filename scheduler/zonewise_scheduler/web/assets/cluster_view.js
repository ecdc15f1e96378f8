// The cluster as racks, nodes and zones. A tile is a node, a column in it is a zone, filled from below by what is used.

import { colors, h, patchChildren, s, showTooltip, sized } from "./dom.js";
import { bytes, count, cpus, percent, state } from "./format.js";
import { choice, figures, meter, nodeAddress, nodeDetails, PagedTable, RUNNING, selection } from "./parts.js";

const GAP = 2;
const RACK_GAP = 10;
const LABEL = 15;
const MAX_TILE = 88;
const NAMED_TILE = 64; // from this size on, the name of a node fits below its tile
const NAME = 15;
const MIN_TILE = 7;
const LOOSE_RACK = 32; // nodes of a group where no label names racks
const METRICS = { gpus: "GPUs", cpus: "CPUs", memory: "Memory" };
const SLOTS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8f7ae5", "#999933"]; // Okabe and Ito

const collator = new Intl.Collator("en", { numeric: true });

export class ClusterView {
  constructor(store, main, _rest, parameters) {
    this.store = store;
    this.mode = parameters.get("show") === "table" ? "table" : "map";
    this.metric = "gpus";
    this.tiles = new Map();
    this.order = [];
    this.focused = parameters.get("node");
    this.canvas = h("canvas", {
      tabindex: 0, role: "application", "aria-roledescription": "map of nodes", "aria-label": "Nodes of the cluster",
      "aria-describedby": "map-help", mousemove: (event) => this.hover(event), mouseleave: () => showTooltip([], 0, 0),
      click: (event) => this.click(event), dblclick: (event) => this.open(event), keydown: (event) => this.key(event),
      focus: () => this.focusNode(this.focused ?? this.order[0]?.name),
    });
    this.figures = h("div");
    this.tools = h("div", { class: "tools" });
    this.note = h("p", { class: "note" });
    this.map = h("div", { class: "map card" }, this.canvas);
    this.legend = h("ul", { class: "legend" });
    this.panel = h("aside", { class: "card panel", "aria-label": "Selected node", "aria-live": "polite" });
    this.help = h("p", { id: "map-help", class: "hidden" }, "Arrow keys move between nodes, Home and End go to the first and last one, Enter opens a node. Choose Table for a list.");
    this.body = h("div");
    main.append(h("div", { class: "head" }, h("h1", null, "Cluster"), this.note, this.tools), this.figures, this.help, this.body);
    this.list = new PagedTable("Nodes", [
      ["Node", "wrap", (node) => node.key, (node) => h("a", { href: nodeAddress(node.key) }, node.key)],
      ["In", "wide", (node) => node.domains.join("/"), (node) => node.domains.join(" › ") || "–"],
      ["State", "", (node) => node.state, (node) => state(node.state)],
      ["GPUs used", "number", (node) => node.gpusUsed, (node) => (node.gpus ? `${node.gpusUsed} of ${node.gpus}` : "–")],
      ["CPUs requested", "number medium", (node) => node.cpusUsed, (node) => `${cpus(node.cpusUsed)} of ${cpus(node.cpus)}`],
      ["Memory requested", "number medium", (node) => node.memoryUsed, (node) => `${bytes(node.memoryUsed)} of ${bytes(node.memory)}`],
      ["Free by zone (GPUs)", "wide", null, (node) => (node.zones.length ? node.zones.map((zone) => zone[4]).join(" + ") : "unknown")],
      ["Jobs", "number wide", (node) => node.runs.length, (node) => count(node.runs.length)],
    ], () => this.showTable());
    this.resize = new ResizeObserver(() => { if (this.layoutWidth !== this.width()) this.draw(true); });
    this.resize.observe(main);
    this.show();
  }

  close() {
    this.resize.disconnect();
    showTooltip([], 0, 0);
  }

  show() {
    this.layoutWidth = null;
    if (this.mode === "map") this.body.replaceChildren(h("div", { class: "split" }, h("div", null, this.map, this.legend), this.panel));
    else this.body.replaceChildren(this.list.element);
  }

  update(dirty) {
    const isAll = dirty.has("all");
    if (isAll || dirty.has("nodes") || dirty.has("workloads")) this.showFigures();
    if (isAll) this.showTools();
    const changed = dirty.get("nodes");
    if (this.mode === "table") {
      if (isAll || changed) this.showTable();
      return;
    }
    const isRestructured = isAll || [...(changed ?? [])].some((name) => this.isRestructured(name));
    if (isRestructured) this.draw(true);
    else if (this.metric === "queue" && (changed || dirty.has("workloads"))) this.draw(false);
    else if (changed) this.drawTiles([...changed]);
    if (isAll || changed?.has(this.focused)) this.showPanel();
  }

  isRestructured(name) {
    const [tile, node] = [this.tiles.get(name), this.store.nodes.get(name)];
    return !tile || !node || tile.domains !== node.domains.join("\n");
  }

  // --- figures and controls

  showFigures() {
    const total = { cpus: 0, cpusUsed: 0, memory: 0, memoryUsed: 0, gpus: 0, gpusUsed: 0, ready: 0 };
    for (const node of this.store.nodes.values()) {
      for (const name of ["cpus", "cpusUsed", "memory", "memoryUsed", "gpus", "gpusUsed"]) total[name] += node[name] ?? 0;
      total.ready += node.state === "Ready";
    }
    let [running, pending] = [0, 0];
    for (const job of this.store.workloads.values()) {
      if (RUNNING.has(job.state)) running += 1;
      else pending += 1;
    }
    const size = this.store.nodes.size;
    patchChildren(this.figures, [figures([
      ["Nodes ready", count(total.ready), `of ${count(size)}`, total.ready, size],
      ["GPUs used", percent(total.gpusUsed, total.gpus), `${count(total.gpusUsed)} of ${count(total.gpus)}`, total.gpusUsed, total.gpus],
      ["CPUs requested", percent(total.cpusUsed, total.cpus), `${cpus(total.cpusUsed)} of ${cpus(total.cpus)}`, total.cpusUsed, total.cpus],
      ["Memory requested", percent(total.memoryUsed, total.memory), `of ${bytes(total.memory)}`, total.memoryUsed, total.memory],
      ["Jobs running", count(running)],
      ["Jobs pending", count(pending)],
    ])]);
  }

  showTools() {
    const metrics = [...Object.entries(METRICS).map(([value, label]) => [value, `${label} used`]), ["queue", "GPUs by queue"]];
    this.tools.replaceChildren(
      ...selection("metric", "Colour", metrics, this.metric, (value) => { this.metric = value; this.draw(false); this.showLegend(); }),
      choice("Form", { map: "Map", table: "Table" }, this.mode, (value) => { this.mode = value; this.show(); this.update(new Map([["all", new Set()]])); }));
    this.showLegend();
  }

  showLegend() {
    const box = (fill, extra) => s("svg", { width: 14, height: 14, "aria-hidden": "true" }, s("rect", { class: "fill-free", width: 14, height: 14, rx: 2 }), s("rect", { class: fill, y: extra?.y ?? 0, width: 14, height: 14 - (extra?.y ?? 0) }));
    const item = (picture, text) => h("li", null, picture, text);
    const states = [
      item(s("svg", { width: 14, height: 14, "aria-hidden": "true" }, s("rect", { class: "fill-free", width: 14, height: 14, rx: 2 }), s("path", { class: "line-bad", d: "M2 2L12 12M12 2L2 12" })), "not ready"),
      item(s("svg", { width: 14, height: 14, "aria-hidden": "true" }, s("rect", { class: "fill-free", width: 14, height: 14, rx: 2 }), s("path", { class: "line-bad", d: "M2 12L12 2" })), "cordoned"),
    ];
    if (this.metric === "queue") {
      const names = this.queueNames();
      this.legend.replaceChildren(...[...names.slice(0, SLOTS.length).map((name, i) => item(s("svg", { width: 14, height: 14, "aria-hidden": "true" }, s("rect", { fill: SLOTS[i], width: 14, height: 14, rx: 2 })), name)),
        names.length > SLOTS.length && item(box("fill-other"), "other queues"), item(box("fill-none"), "none"), ...states].filter(Boolean));
      return;
    }
    this.legend.replaceChildren(...[h("li", null, "A column is a zone:"), item(box("fill-none"), "free"),
      item(box("fill-1", { y: 10 }), "up to 25 %"), item(box("fill-2", { y: 7 }), "50 %"), item(box("fill-3", { y: 3 }), "75 %"), item(box("fill-4"), "100 % used"),
      this.metric === "gpus" && item(s("svg", { width: 14, height: 14, "aria-hidden": "true" }, s("rect", { class: "fill-none line-free", x: 1, y: 1, width: 12, height: 12 })), "has no GPUs"), ...states].filter(Boolean));
  }

  queueNames() {
    return [...this.store.clusterQueues.keys()].sort();
  }

  // --- the map

  width() {
    return this.map.clientWidth - 36;
  }

  layout() {
    const groups = new Map();
    const loose = [];
    const names = [...this.store.nodes.keys()].sort(collator.compare);
    for (const name of names) {
      const { domains } = this.store.nodes.get(name);
      if (!domains.length) { loose.push(name); continue; }
      const [group, rack] = [domains.slice(0, -1).join(" › "), domains.at(-1)];
      if (!groups.has(group)) groups.set(group, new Map());
      const racks = groups.get(group);
      if (!racks.has(rack)) racks.set(rack, []);
      racks.get(rack).push(name);
    }
    for (let i = 0; i < loose.length; i += LOOSE_RACK) {
      if (!groups.has("no rack")) groups.set("no rack", new Map());
      groups.get("no rack").set(`${loose[i]} …`, loose.slice(i, i + LOOSE_RACK));
    }
    const ordered = [...groups].sort(([x], [y]) => collator.compare(x, y)).map(([group, racks]) =>
      [group, [...racks].sort(([x], [y]) => collator.compare(x, y))]);
    const width = this.width();
    const limit = Math.max(innerHeight - 330, 320);
    let best = null;
    for (let tile = MAX_TILE; tile >= MIN_TILE; tile -= 1) {
      for (const fold of [1, 2, 4]) {
        const height = this.place(ordered, width, tile, fold, null, null);
        if (!best || height < best.height) best = { tile, fold, height };
      }
      if (best.height <= limit) break;
    }
    const [items, labels] = [[], []];
    this.place(ordered, width, best.tile, best.fold, items, labels);
    return { ...best, items, labels, width };
  }

  /**
   * Place groups side by side, and the racks of each in `fold` lines or more; return the height.
   * Tiles and labels go into `items` and `labels`, unless these are null.
   */
  place(groups, width, tile, fold, items, labels) {
    const step = tile + GAP;
    const gap = Math.max(GAP + 2, Math.round(tile * 0.45));
    const label = tile >= 12 ? LABEL : 0;
    const rowStep = step + (tile >= NAMED_TILE ? NAME : 0);
    let [x, y, lineHeight] = [0, 0, 0];
    for (const [group, racks] of groups) {
      const sizes = racks.map(([, names]) => this.rackSize(names.length, step, rowStep));
      const widest = Math.max(...sizes.map((size) => size.width)) + gap;
      const perLine = Math.max(1, Math.min(Math.ceil(racks.length / fold), Math.floor((width + gap) / widest)));
      const groupWidth = Math.min(perLine, racks.length) * widest - gap;
      if (x > 0 && x + groupWidth > width) [x, y, lineHeight] = [0, y + lineHeight + RACK_GAP, 0];
      if (group) labels?.push({ text: group, x, y: y + 11, bold: true, width: groupWidth });
      let top = y + (group ? LABEL + 2 : 0);
      for (let i = 0; i < racks.length; i += perLine) {
        const line = racks.slice(i, i + perLine);
        line.forEach(([rack, names], j) => {
          if (!items) return;
          const left = x + j * widest;
          if (label) labels.push({ text: rack, x: left, y: top + 10, width: widest - gap });
          const { columns } = sizes[i + j];
          names.forEach((name, k) => {
            const [tileX, tileY] = [left + (k % columns) * step, top + label + Math.floor(k / columns) * rowStep];
            items.push({ name, size: tile, x: tileX, y: tileY });
            if (rowStep > step) labels.push({ text: name, x: tileX, y: tileY + tile + 12, width: tile });
          });
        });
        top += label + Math.max(...sizes.slice(i, i + perLine).map((size) => size.height)) + (i + perLine < racks.length ? gap : 0);
      }
      lineHeight = Math.max(lineHeight, top - y);
      x += groupWidth + gap + RACK_GAP;
    }
    return y + lineHeight;
  }

  rackSize(size, step, rowStep) {
    const least = Math.max(1, Math.ceil(Math.sqrt(size)));
    let columns = least;
    while (columns < 2 * least && size % columns) columns += 1;
    if (size % columns) columns = Math.ceil(Math.sqrt(size * 1.3));
    return { columns, width: Math.min(columns, size) * step - GAP, height: Math.ceil(size / columns) * rowStep - GAP };
  }

  draw(anew) {
    if (anew || this.layoutWidth === null) {
      this.layoutWidth = this.width();
      this.plan = this.layout();
      this.order = this.plan.items;
      this.tiles = new Map(this.order.map((item, i) => [item.name, Object.assign(item, { index: i, domains: this.store.nodes.get(item.name).domains.join("\n") })]));
      if (!this.tiles.has(this.focused)) this.focused = null;
      this.note.textContent = this.order.length ? "" : "There is no node yet.";
      this.showPanel();
    }
    this.paint = colors();
    this.slots = new Map(this.queueNames().map((name, i) => [name, SLOTS[i] ?? this.paint("other")]));
    const context = sized(this.canvas, this.plan.width, this.plan.height + 4);
    context.clearRect(0, 0, this.plan.width, this.plan.height + 4);
    const [muted, text] = [this.paint("muted"), this.paint("text")];
    for (const label of this.plan.labels) {
      context.font = `${label.bold ? "600 12px" : "10.5px"} system-ui, "DejaVu Sans", sans-serif`;
      context.fillStyle = label.bold ? text : muted;
      context.fillText(fit(context, label.text, label.width), label.x, label.y);
    }
    this.shades = ["free", "used-1", "used-2", "used-3", "used-4", "bad", "text", "surface", "line"].map(this.paint);
    for (const item of this.order) this.drawTile(context, item);
    this.drawFocus(context);
  }

  drawTiles(names) {
    const context = this.canvas.getContext("2d");
    for (const name of names) this.drawTile(context, this.tiles.get(name));
    this.drawFocus(context);
  }

  drawTile(context, { name, x, y, size }) {
    const node = this.store.nodes.get(name);
    const [free, , , , , bad, , surface] = this.shades;
    context.fillStyle = surface;
    context.fillRect(x - 2, y - 2, size + 4, size + 4);
    if (this.metric === "gpus" && !node.gpus) {
      context.strokeStyle = this.shades[8];
      context.lineWidth = 1.5;
      context.strokeRect(x + 0.75, y + 0.75, size - 1.5, size - 1.5);
      this.drawState(context, node, x, y, size, bad);
      return;
    }
    if (this.metric === "queue") {
      context.fillStyle = free;
      context.fillRect(x, y, size, size);
      this.drawQueue(context, node, x, y, size);
    } else this.drawZones(context, this.parts(node), x, y, size, free);
    this.drawState(context, node, x, y, size, bad);
  }

  /** Draw a column for each zone, with a gap between them where there is space. */
  drawZones(context, parts, x, y, size, free) {
    const width = size / parts.length;
    parts.forEach((part, i) => {
      const inset = i && width > 3 ? 1 : 0;
      const left = x + i * width + inset;
      context.fillStyle = free;
      context.fillRect(left, y, width - inset, size);
      if (!(part > 0)) return;
      context.fillStyle = this.shades[Math.min(4, Math.ceil(part * 4))];
      const height = Math.max(2, Math.round(size * Math.min(1, part)));
      context.fillRect(left, y + size - height, width - inset, height);
    });
  }

  drawState(context, node, x, y, size, bad) {
    if (node.state === "Ready") return;
    context.beginPath();
    context.moveTo(x + 1.5, y + size - 1.5);
    context.lineTo(x + size - 1.5, y + 1.5);
    if (node.state !== "Unschedulable") { context.moveTo(x + 1.5, y + 1.5); context.lineTo(x + size - 1.5, y + size - 1.5); }
    context.strokeStyle = this.shades[7];
    context.lineWidth = 4;
    context.stroke();
    context.strokeStyle = bad;
    context.lineWidth = 2;
    context.stroke();
  }

  drawFocus(context) {
    const item = this.tiles.get(this.focused);
    if (!item) return;
    context.strokeStyle = this.shades[6];
    context.lineWidth = 2;
    context.strokeRect(item.x - 1, item.y - 1, item.size + 2, item.size + 2);
  }

  drawQueue(context, node, x, y, size) {
    const sums = new Map();
    for (const [key, , milli, gpus] of node.runs) {
      const queue = this.store.workloads.get(key)?.clusterQueue;
      if (queue) sums.set(queue, (sums.get(queue) ?? 0) + (node.gpus ? gpus / node.gpus : milli / node.cpus));
    }
    let top = y + size;
    for (const [queue, part] of [...sums].sort(([a], [b]) => (a < b ? -1 : 1))) {
      const height = Math.min(size * part, top - y);
      context.fillStyle = this.slots.get(queue) ?? this.paint("other");
      context.fillRect(x, top - height, size, height);
      top -= height;
    }
  }

  /** Return what part of each zone is used; of the node alone where its zones do not tell. */
  parts(node) {
    const total = node[this.metric];
    if (!total) return this.metric === "gpus" ? [] : [0];
    const columns = { gpus: [3, 4], cpus: [1, 2], memory: [5, 6] }[this.metric];
    const zones = node.zones.filter((zone) => zone[columns[0]]);
    if (!zones.length || zones.some((zone) => zone[columns[1]] === null)) return [node[`${this.metric}Used`] / total];
    return zones.map((zone) => 1 - zone[columns[1]] / zone[columns[0]]);
  }

  // --- pointer and keyboard

  at(event) {
    const box = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    return this.order.find((item) => x >= item.x - 1 && x < item.x + item.size + 1 && y >= item.y - 1 && y < item.y + item.size + 1);
  }

  hover(event) {
    const item = this.at(event);
    this.canvas.style.cursor = item ? "pointer" : "";
    showTooltip(item ? this.describe(this.store.nodes.get(item.name)) : [], event.clientX, event.clientY);
  }

  describe(node) {
    return [node.key, node.domains.join(" › "), node.state === "Ready" ? null : node.state,
      node.gpus ? `GPUs: ${node.gpusUsed} of ${node.gpus} used${node.zones.length > 1 ? `; free by zone: ${node.zones.map((zone) => zone[4]).join(" + ")}` : ""}` : "no GPUs",
      `CPUs: ${cpus(node.cpusUsed)} of ${cpus(node.cpus)} requested`,
      ...node.runs.slice(0, 4).map(([key, pods]) => `${this.store.workloads.get(key)?.job ?? (key || "outside the queue")}: ${pods} pod${pods > 1 ? "s" : ""}`),
      node.runs.length > 4 ? `and ${node.runs.length - 4} more` : null].filter(Boolean);
  }

  click(event) {
    const item = this.at(event);
    if (item) this.focusNode(item.name);
  }

  open(event) {
    const item = this.at(event);
    if (item) location.hash = nodeAddress(item.name);
  }

  key(event) {
    const current = this.tiles.get(this.focused) ?? this.order[0];
    if (!current || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Enter") { location.hash = nodeAddress(current.name); return; }
    const next = { ArrowRight: () => this.order[current.index + 1], ArrowLeft: () => this.order[current.index - 1],
      ArrowDown: () => this.nearest(current, 1), ArrowUp: () => this.nearest(current, -1),
      Home: () => this.order[0], End: () => this.order.at(-1) }[event.key];
    if (!next) return;
    event.preventDefault();
    const item = next();
    if (item) this.focusNode(item.name);
  }

  nearest(current, direction) {
    let best = null;
    let bestDistance = Infinity;
    for (const item of this.order) {
      const distance = (item.y - current.y) * direction * 3 + Math.abs(item.x - current.x) * 4;
      if ((item.y - current.y) * direction > 0 && distance < bestDistance) [best, bestDistance] = [item, distance];
    }
    return best;
  }

  focusNode(name) {
    if (!name) return;
    const previous = this.focused;
    this.focused = name;
    this.drawTiles([previous, name].filter((each) => this.tiles.has(each)));
    const item = this.tiles.get(name);
    const box = this.canvas.getBoundingClientRect();
    if (box.top + item.y < 70 || box.top + item.y + item.size > innerHeight) scrollBy(0, box.top + item.y - innerHeight / 2);
    this.showPanel();
  }

  showPanel() {
    const node = this.store.nodes.get(this.focused);
    patchChildren(this.panel, node
      ? [h("h2", { key: node.key }, h("a", { href: nodeAddress(node.key) }, node.key)), ...nodeDetails(this.store, node)].flat().filter(Boolean)
      : [h("h2", null, "A node"), h("p", { class: "note" }, "Point at a tile, or select it by click or arrow keys, to see its zones and what runs on it."), ...this.busiest()]);
  }

  busiest() {
    const rows = [...this.store.clusterQueues.keys()].map((name) => [name, 0]);
    const sums = new Map(rows);
    let total = 0;
    for (const node of this.store.nodes.values()) {
      total += node.gpus ?? 0;
      for (const [key, , , gpus] of node.runs) {
        const queue = this.store.workloads.get(key)?.clusterQueue;
        if (queue) sums.set(queue, (sums.get(queue) ?? 0) + gpus);
      }
    }
    const ordered = [...sums].sort(([, a], [, b]) => b - a).slice(0, 8);
    if (!total || !ordered.length) return [];
    return [h("h2", null, "GPUs by queue"), h("table", null, h("tbody", null, ordered.map(([name, gpus]) => h("tr", null,
      h("th", { scope: "row" }, h("a", { href: `#/jobs?queue=${encodeURIComponent(name)}` }, name)), h("td", { class: "number" }, count(gpus)), h("td", { class: "bar-cell" }, meter(gpus, total))))))];
  }

  showTable() {
    this.list.show([...this.store.nodes.values()].sort((a, b) => collator.compare(a.key, b.key)));
  }
}

function fit(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let length = Math.max(1, Math.floor((text.length * width) / context.measureText(text).width) - 1);
  while (length > 1 && context.measureText(`${text.slice(-length)}`).width > width) length -= 1;
  return length < 2 ? "" : text.slice(-length);
}
