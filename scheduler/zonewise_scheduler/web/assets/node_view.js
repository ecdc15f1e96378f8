// One node with its zones, and what runs on it.

import { h, patchChildren } from "./dom.js";
import { state } from "./format.js";
import { nodeDetails } from "./parts.js";

export class NodeView {
  constructor(store, main, [name]) {
    this.store = store;
    this.name = name;
    this.main = h("div");
    main.append(this.main);
  }

  update(dirty) {
    if (!dirty.has("all") && !dirty.get("nodes")?.has(this.name) && !dirty.has("workloads")) return;
    const node = this.store.nodes.get(this.name);
    patchChildren(this.main, [
      h("div", { class: "head" }, h("h1", null, this.name), node && state(node.state), h("p", { class: "note" }, "Node ", h("a", { href: `#/cluster?node=${encodeURIComponent(this.name)}` }, "on the map"))),
      node ? h("section", { class: "card" }, nodeDetails(this.store, node, { ends: true })) : h("p", { class: "card" }, `There is no node ${this.name}.`),
    ]);
  }
}
