// The plan as a Gantt chart: running jobs up to their deadline, reservations, and forecasts with their interval.

import { colors, h, s, showTooltip, sized } from "./dom.js";
import { ages, clock, date, duration, plural, relative, state, timeZone, when } from "./format.js";
import { choice, jobAddress, PagedTable, RUNNING, selection } from "./parts.js";

const ROW = 24;
const AXIS = 34;
const FIRST_STARTS = 10;
const SPANS = { 6: "6 h", 24: "24 h", 72: "3 days", 168: "7 days" };
const STEPS = [900, 1800, 3600, 7200, 14400, 21600, 43200, 86400];

export class PlanView {
  constructor(store, main, _rest, parameters) {
    this.store = store;
    this.queue = parameters.get("queue") ?? "";
    this.span = "24";
    this.mode = "chart";
    this.focused = null;
    this.rows = [];
    this.canvas = h("canvas", {
      tabindex: 0, role: "application", "aria-roledescription": "Gantt chart", "aria-label": "Running and planned jobs", "aria-describedby": "plan-help plan-focus",
      mousemove: (event) => this.hover(event), mouseleave: () => showTooltip([], 0, 0), click: (event) => this.click(event), keydown: (event) => this.key(event),
      focus: () => { if (!this.focused) this.focus(this.rows.findIndex((row) => row.job)); },
    });
    this.canvas.style.position = "sticky";
    this.canvas.style.top = "0";
    this.spacer = h("div");
    this.chart = h("div", { class: "map card plan" }, this.canvas, this.spacer);
    this.chart.addEventListener("scroll", () => this.draw(), { passive: true });
    this.tools = h("div", { class: "tools" });
    this.note = h("p", { class: "note" });
    this.announcement = h("p", { id: "plan-focus", class: "hidden", "aria-live": "polite" });
    this.body = h("div");
    const swatch = (...parts) => s("svg", { width: 34, height: 14, "aria-hidden": "true" }, parts);
    this.legend = h("ul", { class: "legend" },
      h("li", null, swatch(s("rect", { class: "fill-run", y: 2, width: 34, height: 10, rx: 2 })), "runs, up to its deadline"),
      h("li", null, swatch(s("rect", { class: "fill-run", y: 2, width: 22, height: 10, rx: 2 }), s("path", { class: "line-strong fill-none", d: "M24 3L30 7L24 11" })), "runs, without a walltime"),
      h("li", null, swatch(s("rect", { class: "fill-stop", y: 2, width: 34, height: 10, rx: 2 })), "is being stopped"),
      h("li", null, swatch(s("rect", { class: "fill-none line-reserve", x: 1, y: 3, width: 32, height: 9, rx: 2, "stroke-dasharray": "4 2", "stroke-width": 1.6 })), "reserved start, with its walltime"),
      h("li", null, swatch(s("path", { class: "line-forecast", "stroke-width": 1.8, d: "M2 7H32M2 3V11M32 3V11" }), s("path", { class: "fill-forecast", d: "M14 7L18 3L22 7L18 11Z" })), "forecast start: earliest, likely, latest"));
    main.append(h("div", { class: "head" }, h("h1", null, "Plan"), this.note, this.tools),
      h("p", { id: "plan-help", class: "hidden" }, "Up and down select a job, Enter opens it. Choose Table for a list."), this.announcement, this.body);
    this.list = new PagedTable("Jobs that run or have a planned start", [
      ["Job", "wrap", (job) => job.job, (job) => h("a", { href: jobAddress(job.key) }, job.job)],
      ["Queue", "medium", (job) => job.clusterQueue, (job) => job.clusterQueue],
      ["State", "medium", (job) => job.state, (job) => state(job.state)],
      ["Start", "", (job) => job.startedAt ?? job.reservedStart ?? job.likely, (job) => (job.startedAt !== null ? when(job.startedAt, store.now) : job.reservedStart !== null ? h("span", null, "reserved ", when(job.reservedStart, store.now)) : "–")],
      ["Forecast", "wide", (job) => job.likely, (job) => (job.earliest === null ? "–" : `${clock(job.earliest, store.now)} – ${job.latest === null ? "unknown" : clock(job.latest, store.now)}, likely ${job.likely === null ? "unknown" : clock(job.likely, store.now)}`)],
      ["Ends at the latest", "", (job) => job.deadline, (job) => when(job.deadline ?? end(job), store.now)],
    ], () => this.showTable(), (job) => ages([job.startedAt ?? job.reservedStart, job.deadline ?? end(job)], store.now));
    this.resize = new ResizeObserver(() => this.draw());
    this.resize.observe(this.chart);
    addEventListener("resize", this.fit = () => { this.setHeight(); this.draw(); });
    this.show();
  }

  close() {
    this.resize.disconnect();
    removeEventListener("resize", this.fit);
  }

  show() {
    this.body.replaceChildren(...(this.mode === "chart" ? [this.chart, this.legend] : [this.list.element]));
    this.setHeight();
  }

  setHeight() {
    this.chart.style.height = `${Math.max(260, innerHeight - 210)}px`;
  }

  print(begins) {
    if (begins) [this.shownMode, this.mode, this.list.size] = [this.mode, "table", 500];
    else [this.mode, this.list.size] = [this.shownMode, 100];
    this.show();
    this.update(new Map([["all", new Set()]]));
  }

  update(dirty) {
    if (dirty.has("all") || dirty.has("clusterQueues")) this.showTools();
    if (!dirty.has("all") && !dirty.has("workloads")) return;
    this.collect();
    if (this.mode === "chart") this.draw();
    else this.showTable();
  }

  tick() {
    if (this.mode === "chart") this.draw();
  }

  showTools() {
    const again = () => { this.update(new Map([["all", new Set()]])); };
    const queues = [...this.store.clusterQueues.keys()].sort().map((name) => [name, name]);
    this.tools.replaceChildren(
      ...selection("plan-queue", "Queue", [["", "all"], ...queues], this.queue, (value) => { this.queue = value; this.chart.scrollTop = 0; again(); }),
      choice("Time", SPANS, this.span, (value) => { this.span = value; again(); }),
      choice("Form", { chart: "Chart", table: "Table" }, this.mode, (value) => { this.mode = value; this.show(); again(); }));
  }

  /** Collect the rows: a heading for each queue, the first planned starts, what runs, and the other planned starts. */
  collect() {
    const groups = new Map();
    let [running, planned] = [0, 0];
    for (const job of this.store.workloads.values()) {
      const runs = RUNNING.has(job.state);
      if (!runs && job.reservedStart === null && job.earliest === null && job.likely === null) continue;
      if (this.queue && job.clusterQueue !== this.queue) continue;
      if (runs) running += 1;
      else planned += 1;
      if (!groups.has(job.clusterQueue)) groups.set(job.clusterQueue, []);
      groups.get(job.clusterQueue).push(job);
    }
    this.rows = [];
    for (const name of [...groups.keys()].sort()) {
      const jobs = groups.get(name).sort((a, b) => order(a) - order(b) || (a.key < b.key ? -1 : 1));
      const [runs, starts] = [jobs.filter((job) => RUNNING.has(job.state)), jobs.filter((job) => !RUNNING.has(job.state))];
      this.rows.push({ heading: name, text: `${name || "no queue"} · ${plural(runs.length, "job")} with quota, ${starts.length} with a planned start` });
      for (const job of [...starts.slice(0, FIRST_STARTS), ...runs, ...starts.slice(FIRST_STARTS)]) this.rows.push({ job });
    }
    this.note.textContent = `${plural(running, "job")} ${running === 1 ? "runs" : "run"}, ${planned} with a reserved or forecast start`;
    this.spacer.style.height = `${Math.max(0, AXIS + this.rows.length * ROW - (this.chart.clientHeight - 34))}px`;
    if (this.focused && !this.rows.some((row) => row.job?.key === this.focused)) this.focused = null;
  }

  draw() {
    if (this.mode !== "chart" || !this.chart.isConnected || !this.chart.clientWidth) return;
    const [width, height] = [this.chart.clientWidth - 36, Math.max(100, this.chart.clientHeight - 34)];
    this.spacer.style.height = `${Math.max(0, AXIS + this.rows.length * ROW - height)}px`;
    const context = sized(this.canvas, width, height);
    const paint = colors();
    const now = this.store.now;
    const span = Number(this.span) * 3600;
    this.label = Math.min(230, Math.max(130, width * 0.3));
    this.from = now - span * 0.2;
    this.scale = (width - this.label) / span;
    this.first = Math.floor(this.chart.scrollTop / ROW);
    const shift = this.chart.scrollTop % ROW;
    context.clearRect(0, 0, width, height);
    context.textBaseline = "middle";
    context.fillStyle = paint("muted");
    if (!this.rows.length) {
      context.font = '15px system-ui, "DejaVu Sans", sans-serif';
      context.fillText("No job runs, and none has a planned start.", 0, 60);
      return;
    }
    context.font = '12px system-ui, "DejaVu Sans", sans-serif';
    context.fillText(`Times in ${timeZone(now)}`, 0, 12);
    const ticks = this.ticks(span, width);
    for (const { at, x } of ticks) {
      context.fillStyle = paint("line");
      context.fillRect(x, AXIS - 6, 1, height);
    }
    context.save();
    context.beginPath();
    context.rect(0, AXIS, width, height);
    context.clip();
    const last = Math.min(this.rows.length, this.first + Math.ceil(height / ROW) + 1);
    const x = this.x(now);
    context.fillStyle = paint("bad");
    context.fillRect(x - 0.75, AXIS - 8, 1.5, height);
    for (let i = this.first; i < last; i++) this.drawRow(context, paint, this.rows[i], AXIS + (i - this.first) * ROW - shift, width, now);
    context.restore();
    context.font = '12px system-ui, "DejaVu Sans", sans-serif';
    for (const { at, x: tickX, isDay } of ticks) {
      context.fillStyle = paint(isDay ? "text" : "muted");
      const text = isDay ? date(at) : clock(at, at);
      const size = context.measureText(text).width;
      if (Math.abs(tickX - x) > size / 2 + 24 && tickX - size / 2 > this.label - 10 && tickX + size / 2 < width) context.fillText(text, tickX - size / 2, 12);
    }
    context.fillStyle = paint("bad");
    context.font = '600 12px system-ui, "DejaVu Sans", sans-serif';
    context.fillText("now", x - 13, 12);
  }

  x(at) {
    return this.label + (at - this.from) * this.scale;
  }

  ticks(span, width) {
    const step = STEPS.find((each) => (each * (width - this.label)) / span > 78) ?? STEPS.at(-1);
    const offset = new Date(this.from * 1000).getTimezoneOffset() * 60;
    const ticks = [];
    for (let at = Math.ceil((this.from - offset) / step) * step + offset; at < this.from + span; at += step) {
      const date = new Date(at * 1000);
      ticks.push({ at, x: Math.round(this.x(at)), isDay: date.getHours() === 0 && date.getMinutes() === 0 });
    }
    return ticks;
  }

  drawRow(context, paint, row, y, width, now) {
    if (row.heading !== undefined) {
      context.fillStyle = paint("text");
      context.font = '600 13px system-ui, "DejaVu Sans", sans-serif';
      context.fillText(shortened(context, row.text, width - 8), 0, y + ROW / 2 + 2);
      return;
    }
    const { job } = row;
    const middle = y + ROW / 2;
    if (job.key === this.focused) {
      context.fillStyle = paint("free");
      context.fillRect(0, y, width, ROW);
    }
    context.fillStyle = paint("text");
    context.font = '12.5px system-ui, "DejaVu Sans", sans-serif';
    context.save();
    context.beginPath();
    context.rect(0, y, this.label - 8, ROW);
    context.clip();
    context.fillText(shortened(context, job.job, this.label - 20), 8, middle);
    context.restore();
    context.save();
    context.beginPath();
    context.rect(this.label, y, width - this.label, ROW);
    context.clip();
    if (RUNNING.has(job.state)) this.drawRun(context, paint, job, middle, width, now);
    else this.drawPlanned(context, paint, job, middle, width);
    context.restore();
  }

  drawRun(context, paint, job, middle, width, now) {
    const begin = this.x(job.startedAt ?? now);
    const stop = job.deadline === null ? this.x(now) + 26 : this.x(Math.max(job.deadline, now));
    context.fillStyle = paint(job.state === "Stopping" ? "stop" : "run");
    rounded(context, begin, middle - 8, Math.max(3, stop - begin), 16);
    context.fill();
    if (job.deadline === null) {
      context.strokeStyle = paint("line-strong");
      context.lineWidth = 1.5;
      context.beginPath();
      context.moveTo(stop + 3, middle - 5);
      context.lineTo(stop + 9, middle);
      context.lineTo(stop + 3, middle + 5);
      context.stroke();
    }
    const text = size(job);
    const left = Math.max(begin, this.label) + 6;
    const space = Math.min(stop, width) - left;
    context.font = '11.5px system-ui, "DejaVu Sans", sans-serif';
    if (context.measureText(text).width < space - 4) {
      context.fillStyle = paint("run-text");
      context.fillText(text, left, middle + 0.5);
    }
  }

  drawPlanned(context, paint, job, middle, width) {
    if (job.reservedStart !== null) {
      const begin = this.x(job.reservedStart);
      const stop = job.walltime === null ? begin + 40 : this.x(job.reservedStart + job.walltime);
      context.strokeStyle = paint("reserve");
      context.lineWidth = 1.6;
      context.setLineDash([5, 3]);
      rounded(context, begin, middle - 8, Math.max(4, stop - begin), 16);
      context.stroke();
      context.setLineDash([]);
      context.font = '11.5px system-ui, "DejaVu Sans", sans-serif';
      context.fillStyle = paint("text");
      const text = size(job);
      const left = Math.max(begin, this.label) + 6;
      if (job.likely === null && context.measureText(text).width < Math.min(stop, width) - left - 4) context.fillText(text, left, middle + 0.5);
    }
    const times = [job.earliest, job.likely, job.latest];
    if (times.every((at) => at === null)) return;
    const [earliest, latest] = [this.x(job.earliest ?? job.likely), job.latest === null ? width + 20 : this.x(job.latest)];
    context.strokeStyle = context.fillStyle = paint("forecast");
    context.lineWidth = 1.8;
    context.beginPath();
    context.moveTo(earliest, middle);
    context.lineTo(latest, middle);
    for (const x of [earliest, latest]) {
      context.moveTo(x, middle - 4);
      context.lineTo(x, middle + 4);
    }
    context.stroke();
    if (job.likely === null) return;
    const x = this.x(job.likely);
    context.beginPath();
    context.moveTo(x - 5, middle);
    context.lineTo(x, middle - 5);
    context.lineTo(x + 5, middle);
    context.lineTo(x, middle + 5);
    context.fill();
  }

  rowAt(event) {
    const y = event.clientY - this.canvas.getBoundingClientRect().top - AXIS;
    return y < 0 ? -1 : Math.floor((y + this.chart.scrollTop) / ROW);
  }

  hover(event) {
    const job = this.rows[this.rowAt(event)]?.job;
    this.canvas.style.cursor = job ? "pointer" : "";
    showTooltip(job ? this.describe(job) : [], event.clientX, event.clientY);
  }

  describe(job) {
    const now = this.store.now;
    const time = (at) => `${clock(at, now)} (${relative(at, now)})`;
    return [job.job, `${job.state} in ${job.clusterQueue}, ${size(job)}`,
      job.startedAt !== null && `started ${time(job.startedAt)}`,
      job.deadline !== null && `ends at the latest ${time(job.deadline)}`,
      job.startedAt !== null && job.deadline === null && "declares no walltime",
      job.reservedStart !== null && `start reserved: ${time(job.reservedStart)}`,
      job.earliest !== null && `forecast start: ${clock(job.earliest, now)} to ${job.latest === null ? "an unknown time" : clock(job.latest, now)}`,
      job.likely !== null && `likely ${time(job.likely)}`,
      job.walltime !== null && `walltime ${duration(job.walltime)}`].filter(Boolean);
  }

  click(event) {
    const job = this.rows[this.rowAt(event)]?.job;
    if (job) location.hash = jobAddress(job.key);
  }

  key(event) {
    const index = this.rows.findIndex((row) => row.job?.key === this.focused);
    if (event.key === "Enter" && this.focused) { location.hash = jobAddress(this.focused); return; }
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 15, PageUp: -15, Home: -Infinity, End: Infinity }[event.key];
    if (!step) return;
    event.preventDefault();
    let target = Math.max(0, Math.min(this.rows.length - 1, index + step));
    while (this.rows[target] && !this.rows[target].job) target += step < 0 && target > 0 ? -1 : 1;
    this.focus(target);
  }

  focus(index) {
    const job = this.rows[index]?.job;
    if (!job) return;
    this.focused = job.key;
    const [top, height] = [index * ROW, this.canvas.clientHeight - AXIS];
    if (top < this.chart.scrollTop) this.chart.scrollTop = top - ROW;
    else if (top + ROW > this.chart.scrollTop + height) this.chart.scrollTop = top + 2 * ROW - height;
    this.announcement.textContent = this.describe(job).join(", ");
    this.draw();
  }

  showTable() {
    this.list.show(this.rows.map((row) => row.job).filter(Boolean));
  }
}

const end = (job) => (job.walltime === null || job.reservedStart === null ? null : job.reservedStart + job.walltime);
const order = (job) => (RUNNING.has(job.state) ? job.deadline : job.reservedStart ?? job.likely) ?? Infinity;
const size = (job) => `${plural(job.pods, "pod")}${job.gpus ? `, ${plural(job.gpus, "GPU")}` : ""}`;

/** Leave out the middle of a text that is too wide: names differ in their ends. */
function shortened(context, text, space) {
  let length = text.length;
  let short = text;
  for (let width = context.measureText(short).width; width > space && length > 3; width = context.measureText(short).width) {
    length = Math.min(length - 1, Math.floor((length * space) / width));
    const last = Math.floor(length / 2);
    short = `${text.slice(0, Math.max(1, length - last - 1))}…${text.slice(-last)}`;
  }
  return short;
}

function rounded(context, x, y, width, height) {
  context.beginPath();
  context.roundRect(x, y, width, height, 3);
}
