// The cluster as the controller has it: all rows once, then what changes, pushed.
//
// A lost connection is opened again with the last version, so nothing is missed, and nothing is sent twice. Events of
// one frame are applied together. A proxy may hold the events back: then all rows are got again from time to time. A tab
// that is not seen closes its connection after a while: browsers have six for one server, whatever the number of tabs.
// The token stays in this tab (sessionStorage), and goes nowhere but to this server: in a header of its own, since the
// API server's proxy has Authorization for itself.

const TOKEN = "zonewise-token";
const MAX_PAUSE = 15000;
const SILENCE = 30000;
const UNSEEN = 20000;
const PARTS = ["nodes", "workloads", "clusterQueues", "cohorts", "localQueues", "status"];

export class Unauthorized extends Error {}

export class Store extends EventTarget {
  constructor() {
    super();
    for (const name of PARTS) this[name] = new Map();
    this.nodesOf = new Map();
    this.version = null;
    this.levels = [];
    this.offset = 0;
    this.state = "connecting";
    this.problem = "";
    this.heardAt = 0;
    this.updates = 0;
    this.silence = SILENCE;
    this.columns = {};
    this.dirty = new Map();
  }

  /** Seconds since 1970 by the controller's clock. */
  get now() {
    return Date.now() / 1000 + this.offset;
  }

  /** Whether the controller leads; undefined: it is not known. */
  get leads() {
    return this.status.get("leads");
  }

  set token(token) {
    if (token) sessionStorage.setItem(TOKEN, token);
    else sessionStorage.removeItem(TOKEN);
  }

  get token() {
    return sessionStorage.getItem(TOKEN) ?? "";
  }

  /** Return the response of the read API. Throws Unauthorized, and Error with the server's sentence. */
  async fetch(path, options = {}) {
    const headers = { ...options.headers };
    if (this.token) headers["X-Zonewise-Token"] = this.token;
    const response = await fetch(`../api/v1/${path}`, { ...options, headers, credentials: "omit", cache: "no-cache" });
    if (response.status === 401 || response.status === 403) throw new Unauthorized((await response.text()).trim());
    if (!response.ok) throw Object.assign(new Error((await response.text()).trim() || `status ${response.status}`), { status: response.status });
    return response;
  }

  /** Follow the cluster for ever. Throws Unauthorized. */
  async follow() {
    let pause = 500;
    for (;;) {
      const began = performance.now();
      try {
        if (this.version === null) await this.load();
        await this.listen();
      } catch (error) {
        if (error instanceof Unauthorized) throw error;
        this.problem = error.message;
      }
      this.setState(document.hidden ? "connecting" : "lost");
      pause = performance.now() - began > 5000 ? 500 : Math.min(pause * 2, MAX_PAUSE);
      await this.wait(pause * (0.5 + Math.random() / 2));
    }
  }

  /** Wait for a time and until the tab is seen; the network's return ends the time. */
  wait(milliseconds) {
    return new Promise((wake) => {
      let isDue = false;
      const controller = new AbortController();
      const look = () => {
        if (!isDue || document.hidden) return;
        clearTimeout(timer);
        controller.abort();
        wake();
      };
      const due = () => { isDue = true; look(); };
      const timer = setTimeout(due, milliseconds);
      addEventListener("online", due, { signal: controller.signal });
      addEventListener("pageshow", due, { signal: controller.signal });
      document.addEventListener("visibilitychange", due, { signal: controller.signal });
    });
  }

  /** Get all rows. */
  async load() {
    const body = await (await this.fetch("cluster")).json();
    this.columns = body.columns;
    this.index = Object.fromEntries(Object.entries(body.columns).map(([name, all]) => [name, Object.fromEntries(all.map((key, i) => [key, i]))]));
    this.levels = body.levels;
    this.heardAt = this.now;
    for (const name of PARTS) {
      if (this[name].size) this.dirty.set(name, new Set(this[name].keys()));
      this[name].clear();
    }
    this.nodesOf.clear();
    this.apply(body);
  }

  /** Take the events of one connection until it ends. */
  async listen() {
    const abort = new AbortController();
    let timer = setTimeout(() => {
      this.version = null;
      abort.abort(new Error("no event arrived: a proxy may hold them back"));
    }, this.silence);
    let unseen;
    addEventListener("pagehide", () => abort.abort(), { signal: abort.signal });
    document.addEventListener("visibilitychange", () => {
      clearTimeout(unseen);
      if (document.hidden) unseen = setTimeout(() => abort.abort(), UNSEEN);
    }, { signal: abort.signal });
    try {
      const response = await this.fetch("cluster/events", { headers: { "Last-Event-ID": this.version }, signal: abort.signal });
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      this.setState("live");
      let text = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) return;
        clearTimeout(timer);
        timer = setTimeout(() => abort.abort(), this.silence);
        this.heardAt = this.now;
        text += value;
        const events = text.split("\n\n");
        text = events.pop();
        for (const event of events) await this.take(event);
      }
    } finally {
      clearTimeout(timer);
      clearTimeout(unseen);
      abort.abort();
    }
  }

  async take(event) {
    const fields = {};
    for (const line of event.split("\n")) {
      const colon = line.indexOf(":");
      if (colon > 0) fields[line.slice(0, colon)] = line.slice(colon + 1).trimStart();
    }
    if (fields.event === "reset") await this.load();
    else if (fields.event === "changes") this.apply(JSON.parse(fields.data));
    else if (fields.event === "clock") this.setClock(JSON.parse(fields.data).at);
  }

  /** Take the controller's time: what is shown of jobs and nodes depends on it. */
  setClock(at) {
    this.offset = at - Date.now() / 1000;
    for (const name of ["nodes", "workloads"]) {
      if (!this.dirty.has(name)) this.dirty.set(name, new Set());
    }
    this.notify();
  }

  apply({ version, tables }) {
    this.version = version;
    this.updates += 1;
    for (const [name, { set, gone }] of Object.entries(tables)) {
      const rows = this[name];
      if (!rows) continue;
      if (!this.dirty.has(name)) this.dirty.set(name, new Set());
      const changed = this.dirty.get(name);
      for (const key of gone) {
        if (name === "nodes") this.unlink(key);
        rows.delete(key);
        changed.add(key);
      }
      for (const [key, row] of Object.entries(set)) {
        const value = name === "nodes" || name === "workloads" ? this.object(name, key, row) : row;
        if (name === "nodes") this.link(key, value);
        rows.set(key, value);
        changed.add(key);
      }
    }
    this.notify();
  }

  /** Tell the view what has changed, once in a frame. */
  notify() {
    if (this.frame !== undefined) return;
    const tell = () => {
      this.frame = undefined;
      const dirty = this.dirty;
      this.dirty = new Map();
      this.dispatchEvent(new CustomEvent("change", { detail: dirty }));
    };
    this.frame = document.hidden ? setTimeout(tell, 200) : requestAnimationFrame(tell);
  }

  object(table, key, row) {
    const value = { key };
    const columns = this.columns[table];
    for (let i = 0; i < columns.length; i++) value[columns[i]] = row[i];
    return value;
  }

  /** Keep the nodes of each workload. */
  link(key, node) {
    this.unlink(key);
    for (const [workload] of node.runs) {
      if (!workload) continue;
      if (!this.nodesOf.has(workload)) this.nodesOf.set(workload, new Set());
      this.nodesOf.get(workload).add(key);
    }
  }

  unlink(key) {
    for (const [workload] of this.nodes.get(key)?.runs ?? []) {
      const nodes = this.nodesOf.get(workload);
      nodes?.delete(key);
      if (nodes?.size === 0) this.nodesOf.delete(workload);
    }
  }

  setState(state) {
    if (this.state === state) return;
    this.state = state;
    this.dispatchEvent(new Event("state"));
  }
}
