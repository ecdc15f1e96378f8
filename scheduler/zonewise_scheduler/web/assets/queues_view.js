// The tree of cohorts and queues: quotas, what is used of them, what is borrowed, and shares.

import { h, patchChildren, s } from "./dom.js";
import { count, plural, quantity, usage } from "./format.js";
import { figures, queueAddress, quotaRow, resourceLabel } from "./parts.js";

export class QueuesView {
  constructor(store, main) {
    this.store = store;
    this.figures = h("div");
    this.tree = h("div", { class: "card" });
    const swatch = (fill) => s("svg", { width: 22, height: 12, "aria-hidden": "true" }, s("rect", { class: fill, y: 2, width: 22, height: 8 }));
    const mark = (line) => s("svg", { width: 8, height: 12, "aria-hidden": "true" }, s("line", { class: line, x1: 4, x2: 4, y1: 0, y2: 12 }));
    main.append(h("div", { class: "head" }, h("h1", null, "Queues")), this.figures, this.tree,
      h("ul", { class: "legend" }, h("li", null, swatch("fill-run"), "used within the quota"), h("li", null, swatch("fill-borrow"), "borrowed"),
        h("li", null, swatch("fill-free"), "unused quota"), h("li", null, mark("line-text"), "nominal quota"), h("li", null, mark("line-bad"), "borrowing limit")));
  }

  update(dirty) {
    if (!["all", "clusterQueues", "cohorts", "localQueues"].some((name) => dirty.has(name))) return;
    const queues = [...this.store.clusterQueues.values()];
    const sum = (field) => queues.reduce((total, queue) => total + queue[field], 0);
    const borrowing = queues.filter((queue) => queue.resources.some((each) => quantity(each.borrowed) > 0)).length;
    patchChildren(this.figures, [figures([
      ["ClusterQueues", count(queues.length), `${count(queues.filter((queue) => queue.active).length)} active`],
      ["Queues that borrow", count(borrowing)],
      ["Jobs with quota", count(sum("reservingWorkloads"))],
      ["Jobs pending", count(sum("pendingWorkloads"))],
    ])]);
    const roots = [...this.store.cohorts.values()].filter((cohort) => !this.store.cohorts.has(cohort.parent));
    const lonely = queues.filter((queue) => !this.store.cohorts.has(queue.cohort));
    patchChildren(this.tree, queues.length ? [h("ul", { class: "tree" }, byName(roots).map((cohort) => this.cohort(cohort)), byName(lonely).map((queue) => this.queue(queue)))]
      : [h("p", { class: "empty" }, "There is no ClusterQueue yet.")]);
  }

  cohort(cohort) {
    const children = byName([...this.store.cohorts.values()].filter((each) => each.parent === cohort.name));
    const queues = byName([...this.store.clusterQueues.values()].filter((each) => each.cohort === cohort.name));
    return h("li", { key: `cohort ${cohort.name}` },
      h("div", { class: "cohort" }, h("b", null, cohort.name), h("span", { class: "note" }, "Cohort"),
        h("span", { class: "note" }, cohort.resources.filter((each) => quantity(each.quota) > 0).map((each) =>
          `${each.flavor} ${resourceLabel(each.resource)} ${usage(each.resource, quantity(each.used), quantity(each.quota))}`).join(" · ")), share(cohort)),
      h("ul", { class: "tree" }, children.map((each) => this.cohort(each)), queues.map((each) => this.queue(each))));
  }

  queue(queue) {
    const locals = [...this.store.localQueues.values()].filter((each) => each.clusterQueue === queue.name);
    const shown = queue.resources.filter((each) => quantity(each.nominalQuota) > 0 || quantity(each.reserved) > 0);
    return h("li", { key: `queue ${queue.name}` }, h("section", { class: "queue", "aria-label": `ClusterQueue ${queue.name}` },
      h("header", null, h("a", { href: queueAddress(queue.name) }, queue.name),
        queue.active ? null : h("span", { class: "alert" }, `not active: ${queue.message}`),
        h("span", { class: "note" }, `${plural(queue.reservingWorkloads, "job")} with quota, ${count(queue.pendingWorkloads)} pending`), share(queue),
        locals.length > 0 && h("span", { class: "note" }, "from ", locals.map((each) => `${each.namespace}/${each.name}`).slice(0, 4).join(", "), locals.length > 4 ? ` and ${locals.length - 4} more` : "")),
      shown.map(quotaRow), shown.length === 0 && h("p", { class: "note" }, "It has no quota of its own.")));
  }
}

function share(node) {
  if (!node.weightedShare && node.fairWeight === 1) return null;
  return h("span", { class: "note", title: "Borrowed share of the quota that the tree can lend, in thousandths, divided by the weight" },
    `share ${count(node.weightedShare)} ‰, weight ${count(node.fairWeight)}`);
}

const byName = (items) => items.sort((a, b) => a.name.localeCompare(b.name, "en", { numeric: true }));
