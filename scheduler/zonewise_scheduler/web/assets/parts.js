// Parts that several views show.

import { h, patchChildren, s, unchanged } from "./dom.js";
import { amount, bytes, count, cpus, plural, quantity, state, usage, when } from "./format.js";

export const RUNNING = new Set(["Admitted", "Reserved", "Stopping"]);

/** Return the address of a job's page, of a Workload's key. */
export const jobAddress = (key) => `#/job/${key.split("/").map(encodeURIComponent).join("/")}`;
export const nodeAddress = (name) => `#/node/${encodeURIComponent(name)}`;
export const queueAddress = (name) => `#/jobs?queue=${encodeURIComponent(name)}`;

/** Return a bar: a part of a whole. */
export function meter(part, whole, fill = "fill-run") {
  const width = whole > 0 ? Math.min(100, (100 * part) / whole) : 0;
  return s("svg", { class: "meter", viewBox: "0 0 100 7", preserveAspectRatio: "none", "aria-hidden": "true" },
    s("rect", { class: "fill-free", width: 100, height: 7, rx: 1 }),
    s("rect", { class: fill, width, height: 7, rx: 1 }));
}

/** Return a group of figures: [term, value, note, part, whole] each. */
export function figures(items) {
  return h("dl", { class: "figures" }, items.map(([term, value, note, part, whole]) =>
    h("div", { class: "figure" }, h("dt", null, term), h("dd", null, value, note ? h("small", null, ` ${note}`) : null,
      whole ? meter(part, whole) : null))));
}

/** Return buttons of which one is pressed: {value: label}. */
export function choice(label, values, current, select) {
  return h("span", { class: "group", role: "group", "aria-label": label }, Object.entries(values).map(([value, text]) =>
    h("button", { type: "button", "aria-pressed": String(value === current), click: () => select(value) }, text)));
}

/** Return a list to select from: [[value, label]]. */
export function selection(id, label, values, current, select) {
  return [h("label", { for: id }, label), h("select", { id, change: (event) => select(event.target.value) },
    values.map(([value, text]) => h("option", { value, selected: value === current }, text)))];
}

export const resourceLabel = (resource) => ({ cpu: "CPUs", memory: "memory" })[resource] ?? resource;

/** Return the bar of one quota: what is used within it and beyond it. */
export function quotaRow(each) {
  const [nominal, used] = [quantity(each.nominalQuota ?? each.quota), quantity(each.reserved ?? each.used)];
  const limit = each.borrowingLimit === null || each.borrowingLimit === undefined ? null : nominal + quantity(each.borrowingLimit);
  const scale = Math.max(nominal ?? 0, used ?? 0, limit ?? 0, 1) * 1.02;
  const at = (value) => (100 * value) / scale;
  const borrowed = Math.max(0, used - nominal);
  const text = `${usage(each.resource, used, nominal)}${borrowed ? `, borrows ${amount(each.resource, borrowed)}` : ""}`;
  return h("div", { class: "quota" },
    h("span", { class: "label", title: `${each.flavor} / ${each.resource}` }, `${each.flavor} · ${resourceLabel(each.resource)}`),
    s("svg", { viewBox: "0 0 100 12", preserveAspectRatio: "none", "aria-hidden": "true" },
      s("rect", { class: "fill-free", y: 2, width: at(nominal), height: 8 }),
      s("rect", { class: "fill-run", y: 2, width: at(Math.min(used, nominal)), height: 8 }),
      borrowed > 0 && s("rect", { class: "fill-borrow", x: at(nominal), y: 2, width: at(borrowed), height: 8 }),
      s("line", { class: "line-text", x1: at(nominal), x2: at(nominal), y1: 0, y2: 12, "vector-effect": "non-scaling-stroke" }),
      limit !== null && s("line", { class: "line-bad", x1: at(limit), x2: at(limit), y1: 0, y2: 12, "vector-effect": "non-scaling-stroke" })),
    h("span", null, text));
}

/** Return the details of a node. */
export function nodeDetails(store, node, { ends = false } = {}) {
  const unknownZones = node.zones.length === 0;
  return [
    h("dl", { class: "facts" },
      h("dt", null, "State"), h("dd", null, state(node.state)),
      node.domains.length > 0 && [h("dt", null, "In"), h("dd", null, node.domains.join(" › "))],
      h("dt", null, "GPUs"), h("dd", null, node.gpus ? `${node.gpusUsed} of ${node.gpus} used` : "none"),
      h("dt", null, "CPUs"), h("dd", null, `${cpus(node.cpusUsed)} of ${cpus(node.cpus)} requested`),
      h("dt", null, "Memory"), h("dd", null, `${bytes(node.memoryUsed)} of ${bytes(node.memory)} requested`),
      h("dt", null, "Pods"), h("dd", null, `${count(node.podsUsed)} of ${count(node.pods)}`)),
    h("h2", { class: "spaced" }, "Zones"),
    unknownZones ? h("p", { class: "note" }, "The zones of this node are not reported.") :
      h("div", { class: "scroll" }, h("table", null,
        h("thead", null, h("tr", null, ["Free in zone", "GPUs", "", "CPUs", "Memory"].map((name, i) => h("th", { scope: "col", class: i && name ? "number" : null }, name)))),
        h("tbody", null, node.zones.map(([zone, all, free, gpus, freeGpus, memory, freeMemory]) => h("tr", null,
          h("th", { scope: "row" }, zone),
          h("td", { class: "number" }, gpus ? `${freeGpus} of ${gpus}` : "–"),
          h("td", null, gpus > 0 && gpus <= 16 && squares(gpus - freeGpus, gpus)),
          h("td", { class: "number" }, free === null ? "shared" : `${free} of ${all}`),
          h("td", { class: "number" }, memory === null ? "not by zone" : `${bytes(freeMemory)}`)))))),
    h("h2", null, "Runs"),
    runsTable(store, node, ends),
  ];
}

/** Return a square for each GPU: filled ones are used. */
function squares(used, all) {
  return s("svg", { width: 11 * all, height: 10, "aria-hidden": "true", class: "squares" }, Array.from({ length: all }, (_, i) =>
    s("rect", { class: i < used ? "fill-run" : "fill-none line-strong", x: 11 * i + 0.5, y: 0.5, width: 8, height: 8, rx: 1.5 })));
}

/** Return what runs on a node; with `ends`, also when each job ends at the latest. */
function runsTable(store, node, ends) {
  if (!node.runs.length) return h("p", { class: "note" }, "Nothing.");
  const names = ["Job", "Pods", "GPUs", "CPUs", "Zones", ...(ends ? ["Ends at the latest"] : [])];
  return h("div", { class: "scroll" }, h("table", null,
    h("thead", null, h("tr", null, names.map((name, i) => h("th", { scope: "col", class: i && i < 4 ? "number" : null }, name)))),
    h("tbody", null, node.runs.map(([key, pods, milli, gpus, zones]) => h("tr", null,
      h("th", { scope: "row", class: "wrap" }, key ? h("a", { href: jobAddress(key) }, store.workloads.get(key)?.job ?? key.split("/")[1]) : "outside the queue"),
      h("td", { class: "number" }, pods), h("td", { class: "number" }, gpus || "–"), h("td", { class: "number" }, cpus(milli)),
      h("td", null, zones.length ? zones.join(", ") : "unknown"),
      ends && h("td", null, store.workloads.has(key) ? endOf(store.workloads.get(key), store.now) : "unknown"))))));
}

/** Return the start of a workload as a sentence part: it runs, is reserved, is forecast, or unknown. */
export function startOf(job, now) {
  if (job.startedAt !== null) return when(job.startedAt, now);
  if (job.reservedStart !== null) return h("span", null, "reserved: ", when(job.reservedStart, now));
  if (job.likely !== null) return h("span", null, "likely: ", when(job.likely, now));
  return h("span", { class: "ago" }, "unknown");
}

/** Return the latest end of a running job, or why it is unknown. */
export function endOf(job, now) {
  if (job.deadline !== null && job.deadline <= now) return h("span", { class: "ago" }, "unknown: it runs longer than it declares");
  return when(job.deadline, now, "unknown: it declares no walltime");
}

/** A table of items with keys that is sorted by a column, and shown a page at a time. A changed item is a new object. */
export class PagedTable {
  /**
   * columns: [name, class, value for the order, cell]; the classes "wide" and "medium" hide a column in narrow windows.
   * age: what of an item's cells changes as time goes on.
   */
  constructor(caption, columns, render, age = () => "") {
    Object.assign(this, { caption, columns, render, age, size: 100, page: 0, by: null, descending: false });
    this.element = h("div", { class: "card" });
    this.rows = new Map();
  }

  show(items) {
    const sorted = [...items];
    if (this.by !== null) {
      const value = this.columns[this.by][2];
      const order = this.descending ? -1 : 1;
      sorted.sort((a, b) => { const [x, y] = [value(a), value(b)]; return x === y ? 0 : x === null ? 1 : y === null ? -1 : x < y ? -order : order; });
    }
    const pages = Math.max(1, Math.ceil(sorted.length / this.size));
    this.page = Math.min(this.page, pages - 1);
    const shown = sorted.slice(this.page * this.size, (this.page + 1) * this.size);
    const turn = (by) => () => { this.page += by; this.render(); };
    const old = this.rows;
    this.rows = new Map(shown.map((item) => [item.key, [item, this.age(item)]]));
    patchChildren(this.element, [h("div", { class: "scroll" }, h("table", null,
      h("caption", null, `${this.caption}: ${plural(sorted.length, "row")}`, h("span", { class: "narrow" }, "; a wider window has more columns")),
      h("thead", null, h("tr", null, this.columns.map(([name, kind, value], i) => h("th", {
        scope: "col", class: kind, "aria-sort": this.by === i ? (this.descending ? "descending" : "ascending") : null },
      value ? h("button", { type: "button", click: () => { this.descending = this.by === i && !this.descending; this.by = i; this.render(); } },
        name, this.by === i ? (this.descending ? " ↓" : " ↑") : "") : name)))),
      h("tbody", null, shown.map((item) => (this.rows.get(item.key).every((each, i) => each === old.get(item.key)?.[i])
        ? unchanged("tr", item.key) : this.row(item)))))),
    pages > 1 && h("p", { class: "pages" },
      h("button", { type: "button", disabled: this.page === 0, click: turn(-1) }, "Previous"),
      `page ${this.page + 1} of ${pages}`,
      h("button", { type: "button", disabled: this.page === pages - 1, click: turn(1) }, "Next"))].filter(Boolean));
  }

  row(item) {
    return h("tr", { key: item.key }, this.columns.map(([, kind, , cell], i) =>
      h(i ? "td" : "th", { class: kind, scope: i ? null : "row" }, cell(item))));
  }
}
