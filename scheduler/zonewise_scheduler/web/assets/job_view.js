// One job: why it waits or where it runs, what it requests, and what has happened to it.

import { h, patchChildren } from "./dom.js";
import { amount, count, cpus, duration, plural, quantity, seconds, state, timeZone, when } from "./format.js";
import { endOf, jobAddress, nodeAddress, queueAddress, resourceLabel } from "./parts.js";

const PAUSE = 5000; // milliseconds between two questions for the explanation
const REFRESH = 30000; // of a job that waits: its explanation changes with other jobs
const MAX_NODES = 200;
const OPENING = /^((needs|flavor|most capacity|on node|has to|would|waits for|is|could|cannot|starts) |\S+\/\S+ is before it )/;

export class JobView {
  constructor(store, main, rest) {
    this.store = store;
    this.key_ = rest.join("/");
    this.details = null;
    this.problem = "";
    this.main = h("div");
    main.append(this.main);
    this.load();
  }

  close() {
    this.closed = true;
  }

  update(dirty) {
    if (!dirty.has("all") && !dirty.get("workloads")?.has(this.key_) && !dirty.has("nodes")) return;
    if (dirty.get("workloads")?.has(this.key_)) this.loadIn(PAUSE);
    this.show();
  }

  tick() {
    if (performance.now() >= this.loadAt) this.load();
    this.show();
  }

  loadIn(milliseconds) {
    this.loadAt = Math.min(this.loadAt, performance.now() + milliseconds);
  }

  async load() {
    this.loadAt = Infinity;
    try {
      this.details = await (await this.store.fetch(`workloads/${this.key_.split("/").map(encodeURIComponent).join("/")}`)).json();
      this.problem = "";
      if (this.details.explanation) this.loadIn(REFRESH);
    } catch (error) {
      if (error.status !== 429) this.problem = error.status === 404 ? `The queue has no Workload ${this.key_}: it is deleted, or its name is different.` : error.message;
      if (error.status !== 404) this.loadIn(PAUSE);
    }
    if (!this.closed) this.show();
  }

  show() {
    const { now } = this.store;
    const job = this.store.workloads.get(this.key_);
    const { details } = this;
    const [namespace, name] = this.key_.split("/");
    const current = job?.state ?? details?.state ?? "";
    patchChildren(this.main, [
      h("div", { class: "head" }, h("h1", null, job?.job ?? details?.job?.name ?? name), current && state(job ? current : details?.state === "Finished" ? "Finished" : "not in the queue"),
        h("p", { class: "note" }, `${job?.kind || details?.job?.kind || "Workload"} in namespace ${namespace}`)),
      this.problem && !job && h("p", { class: "card" }, this.problem),
      job && this.why(job, details),
      h("div", { class: "split" },
        h("div", null,
          job && h("section", { class: "card" }, h("h2", null, `Times in ${timeZone(now)}`), this.times(job, now)),
          details?.explanation && this.shortages(details.explanation),
          job && this.places(job)),
        h("aside", null,
          job && h("section", { class: "card" }, h("h2", null, "Requests of all pods together"), h("dl", { class: "facts" },
            h("dt", null, "Pods"), h("dd", null, count(job.pods)),
            h("dt", null, "GPUs"), h("dd", null, job.gpus ? count(job.gpus) : "none"),
            h("dt", null, "CPUs"), h("dd", null, cpus(job.cpus)),
            h("dt", null, "Memory"), h("dd", null, job.memory ? amount("memory", job.memory) : "none"),
            h("dt", null, "Walltime"), h("dd", null, job.walltime === null ? "declares none" : duration(job.walltime)),
            h("dt", null, "Priority"), h("dd", null, job.priority),
            h("dt", null, "Queue"), h("dd", null, h("a", { href: queueAddress(job.clusterQueue || job.localQueue) }, job.clusterQueue || job.localQueue), job.clusterQueue && job.localQueue !== job.clusterQueue ? ` by ${job.localQueue}` : ""),
            job.user && [h("dt", null, "User"), h("dd", null, job.user)],
            h("dt", null, "Workload"), h("dd", null, h("code", null, name)))),
          details?.history && h("section", { class: "card" }, h("h2", null, "History"), this.history(details.history, now)))),
    ].filter(Boolean));
  }

  why(job, details) {
    if (job.startedAt !== null) return null;
    const message = details?.message ?? "";
    const place = details?.position ?? job.position;
    return h("section", { class: "card why" }, h("h2", null, `Why it waits${job.reason ? `: ${job.reason}` : ""}`),
      message ? h("ul", null, messageClauses(message).map((part) => h("li", null, part))) : h("p", null, details ? "It was submitted a moment ago." : "…"),
      place > 0 && h("p", { class: "note" }, `Position ${place} in ${job.clusterQueue}.`));
  }

  times(job, now) {
    const byReservation = (at) => (job.reservedStart === null ? at : Math.min(at ?? Infinity, job.reservedStart));
    return h("dl", { class: "facts" },
      h("dt", null, "Submitted"), h("dd", null, when(job.createdAt, now)),
      job.startedAt !== null && [h("dt", null, "Started"), h("dd", null, when(job.startedAt, now))],
      job.startedAt !== null && [h("dt", null, "Ends at the latest"), h("dd", null, endOf(job, now))],
      job.startedAt === null && [h("dt", null, "Reserved start"), h("dd", null, when(job.reservedStart, now, "none"), job.reservedStart !== null && " at the latest")],
      job.startedAt === null && [h("dt", null, "Likely start"), h("dd", null, when(job.likely === null ? null : byReservation(job.likely), now))],
      job.earliest !== null && [h("dt", null, "Between"), h("dd", null, when(byReservation(job.earliest), now), " and ", when(byReservation(job.latest), now, "an unknown time"))]);
  }

  shortages(explanation) {
    const links = (title, keys) => keys?.length > 0 && h("p", null, `${title}: `, keys.slice(0, 12).map((key, i) => [i ? ", " : "", h("a", { href: jobAddress(key) }, this.store.workloads.get(key)?.job ?? key)]), keys.length > 12 ? ` and ${keys.length - 12} more` : "");
    if (!explanation.shortages.length && !explanation.waitsFor.length && !explanation.preempts.length) return null;
    return h("section", { class: "card" }, h("h2", null, "Shortages"),
      explanation.shortages.length > 0 && h("div", { class: "scroll" }, h("table", null,
        h("thead", null, h("tr", null, ["Resource", "Flavor", "Requested", "Available", "Limit", "Limit of"].map((each, i) => h("th", { scope: "col", class: i > 1 && i < 5 ? "number" : null }, each)))),
        h("tbody", null, explanation.shortages.map((each) => h("tr", null, h("th", { scope: "row" }, resourceLabel(each.resource)), h("td", null, each.flavor),
          [each.requested, each.available, each.limit].map((value) => h("td", { class: "number" }, amount(each.resource, quantity(value)))), h("td", null, each.limitOf)))))),
      links("Waits for the end of", explanation.waitsFor), links("Would preempt", explanation.preempts));
  }

  places(job) {
    const names = [...(this.store.nodesOf.get(this.key_) ?? [])].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
    if (!names.length) return null;
    const rows = names.slice(0, MAX_NODES).map((name) => [this.store.nodes.get(name), this.store.nodes.get(name).runs.find(([key]) => key === this.key_)]);
    return h("section", { class: "card" }, h("h2", null, `Runs on ${plural(names.length, "node")}`),
      h("div", { class: "scroll" }, h("table", null,
        h("thead", null, h("tr", null, ["Node", "In", "Pods", "GPUs", "CPUs", "Zones"].map((each, i) => h("th", { scope: "col", class: i > 1 && i < 5 ? "number" : null }, each)))),
        h("tbody", null, rows.map(([node, [, pods, milli, gpus, zones]]) => h("tr", { key: node.key }, h("th", { scope: "row" }, h("a", { href: nodeAddress(node.key) }, node.key)),
          h("td", null, node.domains.join(" › ") || "–"), h("td", { class: "number" }, pods), h("td", { class: "number" }, gpus || "–"), h("td", { class: "number" }, cpus(milli)),
          h("td", null, zones.length ? zones.join(", ") : "unknown")))))),
      names.length > MAX_NODES && h("p", { class: "note" }, `and ${names.length - MAX_NODES} more`));
  }

  history(entries, now) {
    return h("ol", { class: "history" }, [...entries].reverse().map((entry) => h("li", { class: entry.warning ? "warning" : null },
      h("strong", null, entry.reason), when(seconds(entry.at), now), entry.message && h("p", null, entry.message))));
  }
}

/** Return the clauses of a message: what is needed stands with what there is; client/message_clauses.py does the same. */
export function messageClauses(message) {
  const clauses = [];
  for (const part of message.split("; ")) {
    const continues = part.startsWith("excluded: ") || ((clauses.at(-1) ?? "").includes("needs ") && !OPENING.test(part));
    if (continues && clauses.length) clauses.push(`${clauses.pop()}; ${part}`);
    else clauses.push(part);
  }
  return clauses;
}
