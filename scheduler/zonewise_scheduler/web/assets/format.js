// Amounts and times as people read them. An unknown value is "unknown", never 0.

import { h } from "./dom.js";

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
const MULTIPLES = { n: 1e-9, u: 1e-6, m: 1e-3, "": 1, k: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15, E: 1e18,
  Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40, Pi: 2 ** 50, Ei: 2 ** 60 };
const NUMBER = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const CLOCK = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const DAY = new Intl.DateTimeFormat(undefined, { weekday: "short", day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const DATE = new Intl.DateTimeFormat(undefined, { weekday: "short", day: "numeric", month: "short" });
const ZONE = new Intl.DateTimeFormat(undefined, { timeZoneName: "short" });
const FULL = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "long" });

export const count = (value) => (value === null || value === undefined ? "unknown" : NUMBER.format(value));
export const cpus = (milli) => (milli === null || milli === undefined ? "unknown" : NUMBER.format(milli / 1000));
export const percent = (part, whole) => (whole > 0 ? `${Math.round((100 * part) / whole)} %` : "–");
export const plural = (value, noun) => `${count(value)} ${noun}${value === 1 ? "" : "s"}`;

/** Return a number of bytes in the largest unit that leaves at least 1. */
export function bytes(value) {
  if (value === null || value === undefined) return "unknown";
  let index = 0;
  while (value >= 1024 && index < UNITS.length - 1) {
    value /= 1024;
    index += 1;
  }
  return `${NUMBER.format(value)} ${UNITS[index]}`;
}

/** Return the number of a quantity of Kubernetes; null: none. */
export function quantity(text) {
  const match = /^([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)([a-zA-Z]*)$/.exec(text ?? "");
  return match && match[2] in MULTIPLES ? Number(match[1]) * MULTIPLES[match[2]] : null;
}

/** Return an amount of a resource; the largest 64-bit integer, of milli-CPUs or units, means that it is unlimited. */
export function amount(resource, value) {
  if (value === null || value >= (resource === "cpu" ? 2 ** 63 / 1000 : 2 ** 63)) return "unlimited";
  return resource === "memory" || resource.startsWith("hugepages-") || resource === "ephemeral-storage" ? bytes(value) : count(value);
}

/** Return "16 of 32" of what is used of a quota. */
export function usage(resource, used, quota) {
  const whole = amount(resource, quota);
  return whole === "unlimited" ? `${amount(resource, used)}, unlimited` : `${amount(resource, used)} of ${whole}`;
}

/** Return "3 h 20 min" of seconds. */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "unknown";
  const value = Math.max(0, Math.round(seconds));
  if (value < 60) return `${value} s`;
  if (value < 3600) return `${Math.floor(value / 60)} min`;
  const [hours, minutes] = [Math.floor(value / 3600), Math.floor((value % 3600) / 60)];
  if (hours < 48) return minutes ? `${hours} h ${minutes} min` : `${hours} h`;
  const days = Math.floor(hours / 24);
  return hours % 24 ? `${days} d ${hours % 24} h` : `${days} d`;
}

/** Return "in 5 min" or "5 min ago". */
export function relative(at, now) {
  if (Math.abs(at - now) < 5) return "now";
  return at > now ? `in ${duration(at - now)}` : `${duration(now - at)} ago`;
}

/** Return what changes as time goes on where times are shown: while it is the same, so are the shown texts. */
export function ages(times, now) {
  const texts = times.map((at) => (at === null || at === undefined ? "" : relative(at, now)));
  return [new Date(now * 1000).toDateString(), ...texts].join();
}

/** Return a time of the day, with the date where it is of another day. */
export function clock(at, now) {
  const time = new Date(at * 1000);
  return (time.toDateString() === new Date(now * 1000).toDateString() ? CLOCK : DAY).format(time);
}

/** Return the short name of the time zone of all shown times, such as "CET". */
export const timeZone = (at) => ZONE.formatToParts(new Date(at * 1000)).find((part) => part.type === "timeZoneName").value;

/** Return a day. */
export const date = (at) => DATE.format(new Date(at * 1000));

/** Return an element with a local time and how far it is. */
export function when(at, now, unknown = "unknown") {
  if (at === null || at === undefined) return h("span", { class: "ago" }, unknown);
  const time = new Date(at * 1000);
  return h("time", { datetime: time.toISOString(), title: FULL.format(time) }, clock(at, now), " ",
    h("span", { class: "ago" }, `(${relative(at, now)})`));
}

/** Return seconds since 1970 of a time of the API; null: unknown. */
export function seconds(text) {
  const at = Date.parse(text ?? "");
  return Number.isNaN(at) ? null : at / 1000;
}

/** Return the state of something, as a word with a mark of its own shape. */
export function state(value) {
  return h("span", { class: "state", "data-state": value }, value);
}
