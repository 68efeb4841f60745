// The timeline: runs above one another on one time scale, a lane a server.

import { Painter } from "./painter.js";
import { describe } from "./trace.js";

const TITLE = 28, LANE = 30, TEXT = 34, AXIS = 24, GAP = 10;
const PAD = 6;
const MOST_ZOOM = 400;
const FOLLOWED = 0.75; // where in the view the newest work is put

export class Timeline {
  /** `show` is given a span in words, or nothing. */
  constructor(elements, show) {
    this.viewport = elements.viewport;
    this.spacer = elements.spacer;
    this.names = elements.names;
    this.painter = new Painter(elements.canvas);
    this.show = show;
    this.runs = [];
    this.zoom = 1;
    this.newest = 0;
    this.selected = null;
    this.pointed = null;
    this.scheduled = false;
    this.listen();
  }

  listen() {
    const redraw = () => this.draw();
    new ResizeObserver(redraw).observe(this.viewport);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
    this.viewport.addEventListener("scroll", redraw);
    this.viewport.addEventListener("keydown", (event) => this.key(event));
    this.viewport.addEventListener("pointermove", (event) => this.point(event));
    this.viewport.addEventListener("pointerdown", (event) => this.point(event));
    this.viewport.addEventListener("pointerleave", () => this.tell(this.pointed = null));
    this.viewport.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      this.zoomBy(Math.exp(-event.deltaY / 200), event.offsetX);
    }, { passive: false });
  }

  /** Shows these runs, from the top down, from now on. */
  set(runs) {
    this.runs = runs;
    this.selected = this.pointed = null;
    this.zoom = 1;
    this.newest = 0;
    this.viewport.scrollLeft = 0;
    this.draw();
  }

  /** Draws with the next frame; cheap to call. */
  draw() {
    if (this.scheduled) return;
    this.scheduled = true;
    requestAnimationFrame(() => {
      this.scheduled = false;
      this.paint();
    });
  }

  /** Zooms around a point of the view, by default its middle. */
  zoomBy(factor, x = this.viewport.clientWidth / 2) {
    const time = this.time(x);
    this.zoom = Math.min(MOST_ZOOM, Math.max(1, this.zoom * factor));
    this.layOut();
    this.viewport.scrollLeft += this.x(time) - x;
    this.draw();
  }

  fit() {
    this.zoomBy(0);
  }

  get scale() {
    return this.zoom * (this.viewport.clientWidth - 2 * PAD) / this.extent;
  }

  x(time) {
    return PAD + time * this.scale - this.viewport.scrollLeft;
  }

  time(x) {
    return (x - PAD + this.viewport.scrollLeft) / this.scale;
  }

  /** Milliseconds from the left to the right end. It grows in steps while a run goes on. */
  get extent() {
    const ms = Math.max(1, ...this.runs.map((run) => run.trace?.ms ?? 0));
    return this.growing ? 1.25 ** Math.ceil(Math.log(ms) / Math.log(1.25)) : ms;
  }

  get growing() {
    return this.runs.some((run) => !run.over);
  }

  /** The rows of all runs with what is known of them. */
  get rows() {
    const rows = [];
    let top = 0;
    const add = (kind, height, run, lane = null) => {
      rows.push({ kind, top, height, run, lane });
      top += height;
    };
    for (const run of this.runs.filter((run) => run.trace)) {
      if (top) top += GAP;
      add("title", TITLE, run);
      for (const lane of run.trace.lanes) add("lane", LANE, run, lane);
      add("text", TEXT, run);
    }
    add("axis", AXIS, null);
    return rows;
  }

  layOut() {
    const rows = this.rows;
    const { top, height } = rows.at(-1);
    const wide = this.zoom > 1 ? 2 * PAD + this.scale * this.extent : this.viewport.clientWidth;
    this.spacer.style.width = `${wide}px`;
    this.spacer.style.height = `${top + height}px`;
    this.painter.resize(this.viewport.clientWidth, top + height);
    return rows;
  }

  paint() {
    if (!this.viewport.clientWidth) return;
    const rows = this.layOut();
    this.follow();
    this.selected = renewed(this.selected, rows);
    this.pointed = renewed(this.pointed, rows);
    this.nameRows(rows);
    this.painter.paint(rows, {
      x: (time) => this.x(time),
      scale: this.scale,
      extent: this.extent,
      tokens: Math.max(1, ...this.runs.map((run) => run.trace?.commits.at(-1)?.total ?? 0)),
      marked: this.selected?.span ?? this.pointed?.span,
    });
  }

  /** Keeps the newest work of a running request in view, if it was. */
  follow() {
    const room = this.viewport.clientWidth, before = this.newest;
    this.newest = this.runs.at(-1)?.trace?.ms ?? 0;
    if (!this.growing || this.x(before) > room || this.x(this.newest) <= room) return;
    this.viewport.scrollLeft += this.x(this.newest) - room * FOLLOWED;
  }

  /** The names beside the lanes are text of the page, for everybody to read. */
  nameRows(rows) {
    const labels = rows.map(({ kind, run, lane, top, height }, index) => {
      const label = document.createElement("div");
      const words = { title: run?.name, lane: lane?.name, text: "tokens", axis: "ms" };
      label.textContent = words[kind];
      label.className = `row-${kind}`;
      label.style.height = `${height}px`;
      label.style.marginTop = `${index && top > rows[index - 1].top + rows[index - 1].height ? GAP : 0}px`;
      label.classList.toggle("current", lane !== null && lane === this.selected?.lane);
      return label;
    });
    this.names.replaceChildren(...labels);
  }

  point(event) {
    const y = event.clientY - this.viewport.getBoundingClientRect().top;
    const x = event.clientX - this.viewport.getBoundingClientRect().left;
    const row = this.rows.find(({ top, height }) => top <= y && y < top + height);
    const time = this.time(x);
    const slack = 2 / this.scale;
    const span = row?.lane?.spans.find((s) => s.begin - slack <= time && time <= s.end + slack);
    if (span === this.pointed?.span) return;
    this.pointed = span ? { ...row, span } : null;
    this.selected = null;
    this.tell(this.pointed);
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const actions = {
      "ArrowRight": () => this.step(1), "ArrowLeft": () => this.step(-1),
      "ArrowDown": () => this.change(1), "ArrowUp": () => this.change(-1),
      "+": () => this.zoomBy(1.5), "=": () => this.zoomBy(1.5), "-": () => this.zoomBy(1 / 1.5),
      "0": () => this.fit(), "Escape": () => this.select(null),
    };
    if (!(event.key in actions)) return;
    event.preventDefault();
    actions[event.key]();
  }

  /** The rows where something can be selected. */
  get places() {
    return this.rows.filter(({ lane }) => lane?.spans.length);
  }

  /** Goes to the next or the previous span of a lane. */
  step(direction) {
    const { run, lane } = this.selected ?? this.places[0] ?? {};
    if (!lane) return;
    const from = lane.spans.indexOf(this.selected?.span);
    const index = Math.min(lane.spans.length - 1, Math.max(0, from + direction));
    this.select({ run, lane, span: lane.spans[index] });
  }

  /** Goes to the span of another lane that is nearest in time. */
  change(direction) {
    const places = this.places;
    const from = places.findIndex(({ lane }) => lane === this.selected?.lane);
    const { run, lane } = places[Math.min(places.length - 1, Math.max(0, from + direction))] ?? {};
    if (!lane) return;
    const time = this.selected?.span.begin ?? this.time(0);
    this.select({ run, lane, span: lane.spans.find((span) => span.end > time) ?? lane.spans.at(-1) });
  }

  select(place) {
    this.selected = place;
    this.tell(place);
    if (place === null) return;
    const left = this.x(place.span.begin), right = this.x(place.span.end);
    const room = this.viewport.clientWidth;
    if (left < 0 || right > room) this.viewport.scrollLeft += (left + right) / 2 - room / 2;
  }

  tell(place) {
    this.show(place ? describe(place.lane.name, place.span) : "");
    this.draw();
  }
}

/** The same place in the newest trace of its run; null where it is no more. */
function renewed(place, rows) {
  const row = rows.find(({ run, lane }) => lane && run === place?.run && lane.name === place.lane.name);
  const span = row?.lane.spans.find(({ begin }) => begin === place.span.begin);
  return span ? { ...row, span } : null;
}
