// Draws rows of spans on a canvas, in the colours of the style sheet.

import { counted, isRejection, range } from "./trace.js";

const COLOURS = {
  draft: "--draft", verification: "--verification", "decode step": "--decode-step",
  prefill: "--prefill", bad: "--bad", label: "--on-span", lane: "--lane", grid: "--grid",
  ink: "--ink", soft: "--soft",
};
const WASTED = new Set(["unused", "rejected"]);
const FONT = '11px system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", sans-serif';

export class Painter {
  constructor(canvas) {
    this.canvas = canvas;
    this.pen = canvas.getContext("2d");
    this.patterns = new Map();
  }

  resize(width, height) {
    const density = devicePixelRatio || 1;
    if (this.width === width && this.height === height && this.density === density) return;
    Object.assign(this, { width, height, density });
    this.canvas.width = Math.round(width * density);
    this.canvas.height = Math.round(height * density);
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
    this.patterns.clear();
  }

  paint(rows, view) {
    this.view = view;
    this.colours = this.readColours();
    this.pen.setTransform(this.density, 0, 0, this.density, 0, 0);
    this.pen.clearRect(0, 0, this.width, this.height);
    this.pen.font = FONT;
    this.pen.textBaseline = "middle";
    const axis = rows.at(-1);
    for (const row of rows) {
      if (row.kind === "lane") this.fill("lane", 0, row.top + 2, this.width, row.height - 4);
    }
    this.paintGrid(axis);
    for (const row of rows) if (row.kind === "title") this.paintEnd(row, rows);
    for (const row of rows) {
      if (row.kind === "lane") for (const span of row.lane.spans) this.paintSpan(span, row);
      if (row.kind === "text") this.paintText(row);
      if (row.kind === "title") this.paintTitle(row);
    }
  }

  readColours() {
    const style = getComputedStyle(this.canvas);
    const read = (name) => style.getPropertyValue(name).trim();
    const colours = Object.fromEntries(Object.entries(COLOURS).map(([key, name]) => [key, read(name)]));
    if (colours.draft !== this.colours?.draft) this.patterns.clear();
    return colours;
  }

  fill(colour, x, y, width, height) {
    this.pen.fillStyle = this.colours[colour];
    this.pen.fillRect(x, y, width, height);
  }

  write(text, x, y, colour, align = "left") {
    this.pen.fillStyle = this.colours[colour];
    this.pen.textAlign = align;
    this.pen.fillText(text, x, y);
  }

  paintGrid(axis) {
    const step = niceStep(90 / this.view.scale);
    const right = this.width;
    const first = Math.max(0, Math.ceil(-this.view.x(0) / this.view.scale / step));
    for (let tick = first; this.view.x(tick * step) <= right; tick += 1) {
      const time = tick * step, x = Math.round(this.view.x(time));
      this.fill("grid", x, 0, 1, axis.top);
      const words = `${+time.toFixed(3)}`, half = this.pen.measureText(words).width / 2;
      if (x + half < right && (x > half || tick === 0)) this.write(words, Math.max(x, half + 2), axis.top + 12, "soft", "center");
    }
  }

  paintTitle({ top, height, run }) {
    const { ms, over, stats } = run.trace;
    const words = over ? `${ms.toFixed(0)} ms for ${counted(stats?.completion_tokens ?? 0)}` : "running …";
    this.write(words, 8, top + height / 2 + 1, "soft");
  }

  /** A line through all rows of a run where its text was complete. */
  paintEnd({ top, run }, rows) {
    const { ms, over } = run.trace;
    const last = rows.findLast((row) => row.run === run);
    if (over) this.fill("ink", Math.round(this.view.x(ms)), top + 6, 1, last.top + last.height - 4 - top - 6);
  }

  paintSpan(span, { top, height }) {
    const left = this.view.x(span.begin);
    const width = Math.max(1, this.view.x(span.end) - left - 0.75);
    if (left > this.width || left + width < 0) return;
    const box = [left, top + 4, width, height - 8];
    if (span.outcome === "cancelled" || span.outcome === "failed") {
      this.hatch("bad", box);
    } else if (span.kind === "draft" && span.outcome !== "running") {
      this.paintDraft(span, box);
    } else if (span.outcome === "unused") {
      this.hatch(span.kind, box);
    } else {
      this.pen.globalAlpha = span.outcome === "running" ? 0.45 : 1;
      this.fill(span.kind, ...box);
      this.pen.globalAlpha = 1;
    }
    if (isRejection(span)) {
      const cap = Math.min(5, Math.max(2, width / 4));
      this.fill("bad", left + width - cap, top + 4, cap, height - 8);
    }
    this.label(span, box);
    if (span === this.view.marked) {
      this.pen.strokeStyle = this.colours.ink;
      this.pen.lineWidth = 2;
      this.pen.strokeRect(left - 1, top + 3, width + 2, height - 6);
    }
  }

  /** Drafts that came true are filled; those after them came to nothing, or wait. */
  paintDraft(span, [left, top, width, height]) {
    const kept = span.tokens ? width * span.accepted / span.tokens : width;
    if (WASTED.has(span.outcome)) {
      this.hatch("draft", [left + kept, top, width - kept, height]);
    } else {
      this.pen.globalAlpha = 0.55;
      this.fill("draft", left + kept, top, width - kept, height);
      this.pen.globalAlpha = 1;
    }
    this.fill("draft", left, top, kept, height);
  }

  hatch(colour, [left, top, width, height]) {
    if (width <= 0) return;
    this.pen.fillStyle = this.pattern(colour);
    this.pen.fillRect(left, top, width, height);
    this.pen.strokeStyle = this.colours[colour];
    this.pen.lineWidth = 1;
    if (width > 2) this.pen.strokeRect(left + 0.5, top + 0.5, width - 1, height - 1);
  }

  pattern(colour) {
    if (!this.patterns.has(colour)) {
      const size = Math.round(6 * this.density);
      const tile = new OffscreenCanvas(size, size), pen = tile.getContext("2d");
      pen.strokeStyle = this.colours[colour];
      pen.lineWidth = 1.6 * this.density;
      for (const shift of [-size, 0, size]) {
        pen.moveTo(shift, size);
        pen.lineTo(shift + size, 0);
      }
      pen.stroke();
      const pattern = this.pen.createPattern(tile, "repeat");
      pattern.setTransform(new DOMMatrix().scale(1 / this.density));
      this.patterns.set(colour, pattern);
    }
    return this.patterns.get(colour);
  }

  /** The tokens of a span, where they fit and nothing is hatched. */
  label(span, [left, top, width, height]) {
    const whole = span.kind !== "draft" || span.accepted === span.tokens;
    if (!span.tokens || !whole || span.outcome === "unused") return;
    const words = range(span);
    if (this.pen.measureText(words).width + 8 > width) return;
    this.write(words, left + width / 2, top + height / 2 + 0.5, "label", "center");
  }

  /** How many tokens the text has, over time: the steeper, the faster. */
  paintText({ top, height, run }) {
    const { commits, ms } = run.trace;
    const base = top + height - 4, unit = (height - 10) / this.view.tokens;
    const left = Math.max(-2, this.view.x(0)), right = Math.min(this.width + 2, this.view.x(ms));
    const before = commits.findLast(({ time }) => this.view.x(time) < left);
    let level = base - (before?.total ?? 0) * unit;
    this.pen.beginPath();
    this.pen.moveTo(left, level);
    for (const { time, total } of commits) {
      const x = this.view.x(time);
      if (x < left || x > right) continue;
      this.pen.lineTo(x, level);
      level = base - total * unit;
      this.pen.lineTo(x, level);
    }
    this.pen.lineTo(right, level);
    this.pen.strokeStyle = this.colours.ink;
    this.pen.lineWidth = 1.5;
    this.pen.stroke();
    this.pen.lineTo(right, base);
    this.pen.lineTo(left, base);
    this.pen.globalAlpha = 0.12;
    this.pen.fillStyle = this.colours.ink;
    this.pen.fill();
    this.pen.globalAlpha = 1;
  }
}

/** The smallest of 1, 2, 5, 10 ... that is at least `least`. */
function niceStep(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map((digit) => digit * power).find((step) => step >= least * 0.999);
}
