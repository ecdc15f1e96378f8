// Elements from values. Text is always text: nothing of the cluster is parsed as HTML.

const SVG = "http://www.w3.org/2000/svg";

/** Return an element with attributes and children; null and false are left out, functions are listeners. */
export function h(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** Return an SVG element. */
export function s(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name, value);
    else if (name === "key") element.dataset.key = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  append(element, children);
  return element;
}

function append(element, children) {
  for (const child of children) {
    if (Array.isArray(child)) append(element, child);
    else if (child !== null && child !== undefined && child !== false) element.append(child);
  }
}

/** Return what stands for the element with this key in a list of new ones: patching leaves the element as it is. */
export const unchanged = (tag, key) => Object.assign(h(tag, { key }), { isUnchanged: true });

/** Bring an element to the state of a new one, with as few changes as possible: focus and selection stay. */
export function patch(old, next) {
  if (next.isUnchanged) return old;
  if (old.nodeType !== next.nodeType || old.nodeName !== next.nodeName || keyOf(old) !== keyOf(next)) {
    old.replaceWith(next);
    return next;
  }
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.data !== next.data) old.data = next.data;
    return old;
  }
  for (const { name } of [...old.attributes]) if (!next.hasAttribute(name)) old.removeAttribute(name);
  for (const { name, value } of [...next.attributes]) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  patchChildren(old, [...next.childNodes]);
  return old;
}

/** Bring the children of an element to those of a list of new ones. */
export function patchChildren(parent, next) {
  const byKey = new Map();
  for (const child of parent.childNodes) if (keyOf(child)) byKey.set(keyOf(child), child);
  let at = parent.firstChild;
  for (const child of next) {
    const known = keyOf(child) ? byKey.get(keyOf(child)) : null;
    if (known && known !== at) parent.insertBefore(known, at);
    const target = known ?? at;
    if (target && (known || !keyOf(target))) {
      const after = target.nextSibling;
      patch(target, child);
      at = after;
    } else {
      parent.insertBefore(child, at);
    }
  }
  while (at) {
    const after = at.nextSibling;
    at.remove();
    at = after;
  }
}

function keyOf(node) {
  return node.dataset?.key ?? null;
}

/** Show a text beside the pointer, or hide it where the text is empty. */
export function showTooltip(lines, x, y) {
  const tooltip = document.getElementById("tooltip");
  if (!lines.length) {
    tooltip.hidden = true;
    return;
  }
  tooltip.replaceChildren(...lines.map((line, i) => h(i ? "div" : "b", null, line)));
  tooltip.hidden = false;
  const box = tooltip.getBoundingClientRect();
  tooltip.style.left = `${Math.max(4, Math.min(x + 14, innerWidth - box.width - 8))}px`;
  tooltip.style.top = `${y + 18 + box.height > innerHeight ? Math.max(4, y - box.height - 10) : y + 18}px`;
}

/** Return a colour of the style sheet. */
export function colors() {
  const style = getComputedStyle(document.documentElement);
  return (name) => style.getPropertyValue(`--${name}`).trim();
}

/** Give a canvas the size of its content at the resolution of the screen, and return its context. */
export function sized(canvas, width, height) {
  const ratio = devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return context;
}
