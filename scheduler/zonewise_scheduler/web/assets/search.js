// Search of jobs, nodes and queues by a part of their names (the pattern "combobox" of ARIA).

import { h } from "./dom.js";
import { jobAddress, nodeAddress, queueAddress } from "./parts.js";

const MOST = 12;

/** Return [kind, name, note, address] of what matches, exact names and beginnings first. */
export function find(store, text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return [];
  const matches = [];
  const add = (kind, name, note, address) => {
    const full = `${name} ${note}`.toLowerCase();
    if (!words.every((word) => full.includes(word))) return;
    const lower = name.toLowerCase();
    matches.push([lower === words[0] ? 0 : lower.startsWith(words[0]) ? 1 : 2, kind, name, note, address]);
  };
  for (const queue of store.clusterQueues.values()) add("queue", queue.name, "ClusterQueue", queueAddress(queue.name));
  for (const node of store.nodes.values()) add("node", node.key, node.state, nodeAddress(node.key));
  for (const job of store.workloads.values()) add("job", job.job, `${job.key.split("/")[0]} ${job.state}`, jobAddress(job.key));
  return matches.sort((a, b) => a[0] - b[0]).slice(0, MOST).map((match) => match.slice(1));
}

export function startSearch(store) {
  const input = document.getElementById("query");
  const list = document.getElementById("matches");
  let matches = [];
  let selected = -1;

  function show() {
    list.replaceChildren(...matches.map(([kind, name, note], i) => h("li", { id: `match-${i}`, role: "option", "aria-selected": String(i === selected),
      mousedown: (event) => { event.preventDefault(); open(i); } }, h("span", { class: "kind" }, kind), h("span", { class: "name" }, name), h("span", { class: "kind" }, note))));
    if (!matches.length && input.value.trim()) list.replaceChildren(h("li", { role: "option", "aria-disabled": "true", "aria-selected": "false" }, "nothing matches"));
    list.hidden = !input.value.trim() || document.activeElement !== input;
    input.setAttribute("aria-expanded", String(!list.hidden));
    if (selected >= 0) input.setAttribute("aria-activedescendant", `match-${selected}`);
    else input.removeAttribute("aria-activedescendant");
  }

  function open(i) {
    const match = matches[i];
    if (!match) return;
    location.hash = match[3];
    input.value = "";
    matches = [];
    input.blur();
    show();
  }

  input.addEventListener("input", () => { matches = find(store, input.value); selected = matches.length ? 0 : -1; show(); });
  input.addEventListener("focus", () => { matches = find(store, input.value); show(); });
  input.addEventListener("blur", show);
  input.addEventListener("keydown", (event) => {
    if (event.key === "Escape") { input.value = ""; matches = []; show(); input.blur(); }
    else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (matches.length) selected = (selected + (event.key === "ArrowDown" ? 1 : matches.length - 1) + matches.length) % matches.length;
      show();
    }
  });
  document.getElementById("search").addEventListener("submit", (event) => { event.preventDefault(); open(Math.max(0, selected)); });
  addEventListener("keydown", (event) => {
    const isTyping = event.target.closest?.("input, select, textarea");
    if (event.key === "/" && !isTyping && !event.ctrlKey && !event.metaKey) { event.preventDefault(); input.focus(); }
  });
}
