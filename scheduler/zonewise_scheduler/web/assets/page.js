// Starts the page: the address selects a view, the store feeds it.

import { h, showTooltip } from "./dom.js";
import { clock } from "./format.js";
import { Store, Unauthorized } from "./store.js";
import { ClusterView } from "./cluster_view.js";
import { QueuesView } from "./queues_view.js";
import { PlanView } from "./plan_view.js";
import { JobsView } from "./jobs_view.js";
import { JobView } from "./job_view.js";
import { NodeView } from "./node_view.js";
import { startSearch } from "./search.js";

const VIEWS = { cluster: ClusterView, queues: QueuesView, plan: PlanView, jobs: JobsView, job: JobView, node: NodeView };
const TITLES = { cluster: "Cluster", queues: "Queues", plan: "Plan", jobs: "Jobs" };

const store = new Store();
const main = document.getElementById("main");
let view = null;
let loaded = false;
window.zonewise = { store };

/** Return a part of an address as text, and as it is where it is malformed, such as "%". */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function route() {
  if (!loaded) return;
  const [name = "", ...rest] = location.hash.replace(/^#\/?/, "").split("?")[0].split("/").map(decoded);
  const kind = name in VIEWS ? name : "cluster";
  const parameters = new URLSearchParams(location.hash.split("?")[1] ?? "");
  const isSame = view?.kind === kind && view?.rest === rest.join("/");
  showTooltip([], 0, 0);
  if (isSame) {
    view.navigate?.(parameters);
    return;
  }
  view?.close?.();
  main.replaceChildren();
  view = new VIEWS[kind](store, main, rest, parameters);
  view.kind = kind;
  view.rest = rest.join("/");
  for (const link of document.querySelectorAll("nav a")) {
    const tab = kind === "job" ? "jobs" : kind === "node" ? "cluster" : kind;
    if (link.dataset.view === tab) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${rest.length ? rest.at(-1) : TITLES[kind]} · zonewise`;
  view.update(new Map([["all", new Set()]]));
}

function showConnection() {
  const element = document.getElementById("connection");
  element.dataset.state = store.state;
  element.title = store.state === "live" ? "" : store.problem;
  const texts = {
    live: store.leads === false ? "live, standing by" : "live",
    lost: store.heardAt ? `connection lost; as of ${clock(store.heardAt, store.now)}, retrying` : "no connection, retrying",
    connecting: "connecting",
  };
  document.getElementById("connection-text").textContent = texts[store.state];
}

function askForToken(reason) {
  view?.close?.();
  view = null;
  loaded = false;
  if (/loopback|localhost|zonewise page/.test(reason)) {
    main.replaceChildren(h("section", { class: "card login" }, h("h1", null, "No access"), h("p", { role: "alert" }, reason)));
    return;
  }
  const input = h("input", { id: "token", type: "password", autocomplete: "off", required: true, "aria-describedby": "token-note" });
  const form = h("form", { submit: (event) => { event.preventDefault(); store.token = input.value.trim(); start(); } },
    h("label", { for: "token" }, "Bearer token"), input,
    h("button", { type: "submit" }, "Continue"));
  const note = store.token || !reason.includes("is needed") ? h("p", { class: "alert", role: "alert" }, reason) : null;
  store.token = "";
  main.replaceChildren(h("section", { class: "card login" }, h("h1", null, "This controller needs a token"), note ?? "",
    h("p", { id: "token-note" }, "A token whose user may get /zonewise/api/*, such as one of ", h("code", null, "kubectl -n zonewise create token zonewise-viewer"),
      ". It stays in this tab, until you close it."), form));
  input.focus();
}

/** Take the token of an address such as #token=..., and remove it there: the history of a browser keeps addresses. */
function takeToken() {
  const [, token] = location.hash.match(/^#token=([\w-]+)$/) ?? [];
  if (!token) return false;
  store.token = token;
  history.replaceState(null, "", location.pathname);
  return true;
}

async function start() {
  main.replaceChildren(h("p", { class: "empty" }, "Loading the cluster …"));
  try {
    await store.follow();
  } catch (error) {
    if (!(error instanceof Unauthorized)) throw error;
    askForToken(error.message);
  }
}

store.addEventListener("change", (event) => {
  if (loaded) {
    view?.update(event.detail);
  } else {
    loaded = true;
    route();
    performance.mark("zonewise-first-view");
  }
  showConnection();
});
store.addEventListener("state", showConnection);
addEventListener("hashchange", () => {
  if (takeToken()) { // the address of a new server, in the tab of the last one
    location.reload();
    return;
  }
  route();
  main.focus({ preventScroll: true });
  scrollTo(0, 0);
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => view?.update(new Map([["all", new Set()]])));
setInterval(() => view?.tick?.(), 5000);
addEventListener("beforeprint", () => view?.print?.(true));
addEventListener("afterprint", () => view?.print?.(false));
startSearch(store);
showConnection();
takeToken();
start();
