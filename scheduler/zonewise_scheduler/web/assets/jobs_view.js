// All jobs: filtered, ordered, a page at a time.

import { h } from "./dom.js";
import { ages, count, cpus, state, when } from "./format.js";
import { jobAddress, PagedTable, selection, startOf } from "./parts.js";

export class JobsView {
  constructor(store, main, _rest, parameters) {
    this.store = store;
    this.tools = h("div", { class: "tools" });
    this.list = new PagedTable("Jobs", [
      ["Job", "wrap", (job) => job.job, (job) => h("a", { href: jobAddress(job.key) }, job.job)],
      ["Namespace", "wide", (job) => job.key, (job) => job.key.split("/")[0]],
      ["User", "wide", (job) => job.user, (job) => job.user || "–"],
      ["Queue", "medium", (job) => job.clusterQueue, (job) => job.clusterQueue || job.localQueue],
      ["State", "", (job) => job.state, (job) => state(job.state)],
      ["Position", "number medium", (job) => job.position || (job.state === "Pending" ? 1e6 : null), (job) => (job.position || (job.state === "Pending" ? "> 20" : "–"))],
      ["Reason", "wide", (job) => job.reason, (job) => job.reason || "–"],
      ["Pods", "number wide", (job) => job.pods, (job) => count(job.pods)],
      ["GPUs", "number medium", (job) => job.gpus, (job) => (job.gpus ? count(job.gpus) : "–")],
      ["CPUs", "number wide", (job) => job.cpus, (job) => cpus(job.cpus)],
      ["Priority", "number wide", (job) => job.priority, (job) => job.priority],
      ["Submitted", "wide", (job) => job.createdAt, (job) => when(job.createdAt, store.now)],
      ["Start", "", (job) => job.startedAt ?? job.reservedStart ?? job.likely, (job) => startOf(job, store.now)],
    ], () => this.showTable(), (job) => ages([job.createdAt, job.startedAt ?? job.reservedStart ?? job.likely], store.now));
    main.append(h("div", { class: "head" }, h("h1", null, "Jobs"), this.tools), this.list.element);
    this.navigate(parameters);
  }

  navigate(parameters) {
    this.queue = parameters.get("queue") ?? "";
    this.state = parameters.get("state") ?? "";
    this.list.page = 0;
    if (this.list.element.isConnected) this.update(new Map([["all", new Set()]]));
  }

  update(dirty) {
    if (dirty.has("all")) this.showTools();
    if (dirty.has("all") || dirty.has("workloads")) this.showTable();
  }

  print(begins) {
    this.list.size = begins ? 500 : 100;
    this.showTable();
  }

  showTools() {
    const set = (field) => (value) => {
      const parameters = new URLSearchParams(Object.entries({ queue: this.queue, state: this.state, [field]: value }).filter(([, each]) => each));
      history.replaceState(null, "", `#/jobs${parameters.size ? `?${parameters}` : ""}`);
      this.navigate(parameters);
    };
    const names = [...this.store.clusterQueues.keys()].sort();
    if (this.queue && !names.includes(this.queue)) names.push(this.queue);
    const states = ["Pending", "Admitted", "Reserved", "Stopping", "Inadmissible"];
    this.tools.replaceChildren(
      ...selection("job-queue", "Queue", [["", "all"], ...names.map((name) => [name, name])], this.queue, set("queue")),
      ...selection("job-state", "State", [["", "all"], ...states.map((name) => [name, name])], this.state, set("state")));
  }

  showTable() {
    const jobs = [];
    for (const job of this.store.workloads.values()) {
      if (this.queue && job.clusterQueue !== this.queue && job.localQueue !== this.queue) continue;
      if (this.state && job.state !== this.state) continue;
      jobs.push(job);
    }
    this.list.show(jobs);
  }
}
