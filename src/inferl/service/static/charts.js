// Charts: SVG in pixels of the screen, coloured by the style sheet, as the charts of the report page are. uPlot was
// tried: its 51 kB draw on a canvas, which knows no style sheet, so that dark mode and print need code of their own.

const SVG = "http://www.w3.org/2000/svg";
const LEFT = 56, RIGHT = 14, TOP = 12, BOTTOM = 26;
const VISIBLE = 8; // times the latest width: wider bands are clipped, or they would dominate the chart
export const COLOURS = 5;

// ---- elements -------------------------------------------------------------------------------------------------------

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) if (value != null) element.setAttribute(name, value);
  element.append(...children.flat(Infinity).filter((child) => child != null));
  return element;
}
export const element = (name, attributes, ...children) => fill(document.createElement(name), attributes, children);
const svg = (name, attributes, ...children) => fill(document.createElementNS(SVG, name), attributes, children);

// ---- numbers --------------------------------------------------------------------------------------------------------

export const count = (n) => n.toLocaleString("en");
const minus = (text) => text.replace("-", "\u2212");

// An interval with as many digits as its width justifies, as `inferl.interval.brief` has it.
export function brief(estimate, lower, upper) {
  if (estimate == null) return "no answer yet";
  if (lower == null || upper == null) return `${minus(estimate.toPrecision(4))} (no bounds yet)`;
  const width = upper - lower;
  const digits = width > 0 ? Math.min(Math.max(1 - Math.floor(Math.log10(width)), 0), 12) : 4;
  return minus(`${estimate.toFixed(digits)} [${lower.toFixed(digits)}, `) + minus(`${upper.toFixed(digits)}]`);
}

export const moment = (seconds) =>
  new Date(1000 * seconds).toLocaleString(undefined, { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", second: "2-digit" });

// ---- axes -----------------------------------------------------------------------------------------------------------

function ticks(low, high, wanted) {
  const rough = (high - low) / wanted, unit = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((digit) => digit * unit).find((size) => size >= rough * 0.9) ?? 10 * unit;
  const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i++) found.push([i * step, minus((i * step).toFixed(digits))]);
  return found;
}

const short = (n) => (n >= 1e9 ? `${n / 1e9}\u2009bn` : n >= 1e6 ? `${n / 1e6}\u2009m` : count(n));
const steps = (low, high, wanted) =>
  ticks(low, high, wanted).filter(([n]) => n >= 0 && Number.isInteger(n)).map(([n]) => [n, short(+n.toPrecision(6))]);

const SECONDS = [1, 2, 5, 15, 30, 60, 120, 300, 900, 1800, 3600, 7200, 14400, 28800, 43200, 86400];
function times(low, high, wanted) {
  const rough = (high - low) / wanted;
  const step = SECONDS.find((size) => size >= rough) ?? 86400 * Math.ceil(rough / 86400);
  const text = step >= 86400 ? { day: "numeric", month: "short" } : step >= 60 ? { hour: "2-digit", minute: "2-digit" } : { hour: "2-digit", minute: "2-digit", second: "2-digit" };
  const midnight = new Date(1000 * low);
  midnight.setHours(0, 0, 0, 0);
  const found = [];
  for (let at = midnight / 1000; at <= high; at += step) if (at >= low) found.push([at, new Date(1000 * at).toLocaleString(undefined, text)]);
  return found;
}

const scale = (low, high, from, to) => (value) => from + ((value - low) / (high - low)) * (to - from);

function apart(low, high) {
  if (high > low) return [low, high];
  const reach = Math.abs(low) * 0.01 || 1;
  return [low - reach, high + reach];
}

// ---- paths ----------------------------------------------------------------------------------------------------------

const point = (x, y) => `${x.toFixed(1)} ${y.toFixed(1)}`;

function line(points) {
  let path = "", pen = "M";
  for (const [x, y] of points) {
    if (y == null) pen = "M";
    else (path += pen + point(x, y)), (pen = "L");
  }
  return path;
}

function band(points) {
  const seen = points.filter(([, low, high]) => low != null && high != null);
  if (!seen.length) return "";
  return `M${seen.map(([x, , high]) => point(x, high)).join("L")}L${seen.reverse().map(([x, low]) => point(x, low)).join("L")}Z`;
}

// ---- the estimate over time -------------------------------------------------------------------------------------------

// A chart that stays: `show` gives it new rows, and what is being read (by pointer or arrow keys) is kept.
export class OverTime {
  constructor(place, readout) {
    Object.assign(this, { place, readout, picked: null });
    new ResizeObserver(() => this.draw()).observe(place);
    place.addEventListener("pointermove", (event) => this.pick(this.nearest(event.clientX - place.getBoundingClientRect().left)));
    place.addEventListener("pointerleave", () => this.pick(null));
    place.addEventListener("blur", () => this.pick(null));
    place.addEventListener("keydown", (event) => {
      const last = (this.rows?.length ?? 0) - 1;
      const at = { ArrowLeft: (this.picked ?? last + 1) - 1, ArrowRight: (this.picked ?? last - 1) + 1, Home: 0, End: last, Escape: null }[event.key];
      if (at === undefined) return;
      event.preventDefault();
      this.pick(at === null ? null : Math.min(Math.max(at, 0), last));
    });
  }

  // rows: [time, n, failed, [[estimate, lower, upper, anytime lower, anytime upper], ...], episodes]; axis: "time" or "n";
  // span: so many seconds of the end, 0 for all; colour: of the first target, the others follow; change: when the value
  // changed (time, n); wide: whether there are anytime intervals.
  show({ rows, names, thresholds, axis, span, label, colour, change, wide }) {
    const picked = this.picked === null ? null : this.rows[this.picked];
    const begin = span && rows.length ? rows.at(-1)[0] - span : -Infinity;
    this.rows = rows.filter((row) => row[0] >= begin && row[3].length);
    Object.assign(this, { names, thresholds, axis, colour, change, wide });
    this.picked = picked && this.rows.includes(picked) ? this.rows.indexOf(picked) : null;
    this.place.setAttribute("aria-label", label);
    this.draw();
  }

  at(row) {
    return this.axis === "time" ? row[0] : row[1];
  }

  outer([, lower, upper, low, high]) {
    return this.wide ? [low, high] : [lower, upper];
  }

  nearest(across) {
    if (!this.across) return null;
    let best = null;
    this.rows.forEach((row, i) => {
      const distance = Math.abs(this.across(this.at(row)) - across);
      if (best === null || distance < best[0]) best = [distance, i];
    });
    return best?.[1] ?? null;
  }

  pick(i) {
    this.picked = i;
    this.mark();
  }

  range() {
    const seen = [];
    const latest = this.rows.at(-1)[3];
    latest.forEach((target, k) => {
      const [estimate] = target, [low, high] = this.outer(target);
      const widest = low == null || high == null ? Infinity : VISIBLE * (high - low);
      for (const row of this.rows) {
        const [lower, upper] = this.outer(row[3][k] ?? []);
        if (lower != null && upper != null && upper - lower <= widest) seen.push(lower, upper);
      }
      if (estimate != null) seen.push(estimate);
    });
    let low = Math.min(...seen), high = Math.max(...seen);
    if (!seen.length) [low, high] = [0, 1];
    for (const threshold of this.thresholds) {
      // A threshold that is near is shown as a line; one that is far away, as an arrow at the border.
      if (threshold > low - 1.5 * (high - low) && threshold < high + 1.5 * (high - low)) [low, high] = [Math.min(low, threshold), Math.max(high, threshold)];
    }
    [low, high] = apart(low, high);
    const margin = 0.06 * (high - low);
    return [low - margin, high + margin];
  }

  draw() {
    const width = this.place.clientWidth, height = Math.round(Math.min(Math.max(width * 0.56, 230), 330));
    if (!this.rows || width < 80) return;
    if (!this.rows.length) {
      this.place.replaceChildren(element("p", { class: "muted empty" }, "The chart begins with the first answer."));
      return;
    }
    const right = width - RIGHT, bottom = height - BOTTOM;
    const [first, last] = apart(this.at(this.rows[0]), this.at(this.rows.at(-1)));
    const [low, high] = this.range();
    const x = (this.across = scale(first, last, LEFT, right));
    const down = scale(low, high, bottom, TOP);
    // Far outside there is nothing to see, and some browsers draw paths of millions of pixels wrongly.
    const y = (this.down = (value) => (value == null ? null : Math.min(Math.max(down(value), -4 * height), 5 * height)));
    const across = this.axis === "time" ? times(first, last, width / 110) : steps(first, last, width / 120);
    const id = (this.id ??= `clip-${Math.random().toString(36).slice(2)}`);
    const curves = this.rows.at(-1)[3].map((_, k) => {
      const points = this.rows.map((row) => [x(this.at(row)), ...(row[3][k] ?? []).map(y)]);
      return svg("g", { class: `c${(this.colour + k) % COLOURS}` },
        svg("path", { class: "area wide", d: band(points.map(([at, , , , lower, upper]) => [at, lower, upper])) }),
        svg("path", { class: "area", d: band(points.map(([at, , lower, upper]) => [at, lower, upper])) }),
        svg("path", { class: "line", d: line(points.map(([at, estimate]) => [at, estimate])) }));
    });
    const lines = this.thresholds.map((threshold) => {
      if (threshold < low || threshold > high) {
        const top = threshold > high;
        return svg("text", { class: "threshold", x: right, y: top ? TOP + 12 : bottom - 6, "text-anchor": "end" }, `threshold ${threshold} ${top ? "↑" : "↓"}`);
      }
      // The label stands on the side where the estimate is not.
      const at = y(threshold), below = this.rows.at(-1)[3].some(([estimate]) => estimate > threshold) && at < bottom - 18;
      return svg("g", { class: "threshold" },
        svg("line", { x1: LEFT, x2: right, y1: at, y2: at }),
        svg("text", { x: right, y: below || at < TOP + 18 ? at + 14 : at - 5, "text-anchor": "end" }, `threshold ${threshold}`));
    });
    const changed = this.change?.time == null ? null : this.axis === "time" ? this.change.time : this.change.n;
    const failed = this.rows.map((row, i) => [row, this.rows[i + 1] ?? row]).filter(([row]) => row[2])
      .map(([row, next]) => `M${x(this.at(row)).toFixed(1)} ${bottom}H${Math.max(x(this.at(next)), x(this.at(row)) + 2).toFixed(1)}`);
    this.place.replaceChildren(svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" },
      svg("clipPath", { id }, svg("rect", { x: LEFT, y: TOP, width: right - LEFT, height: bottom - TOP })),
      ticks(low, high, height / 55).map(([value, text]) => [
        svg("line", { class: "grid", x1: LEFT, x2: right, y1: y(value), y2: y(value) }),
        svg("text", { x: LEFT - 8, y: y(value) + 4, "text-anchor": "end" }, text)]),
      across.map(([value, text]) => [
        svg("line", { class: "grid", x1: x(value), x2: x(value), y1: bottom, y2: bottom + 5 }),
        svg("text", { x: Math.min(x(value), width - 24), y: height - 6, "text-anchor": "middle" }, text)]),
      svg("line", { class: "grid", x1: LEFT, x2: right, y1: bottom, y2: bottom }),
      svg("g", { "clip-path": `url(#${id})` }, curves),
      failed.length ? svg("path", { class: "failed", d: failed.join("") }, svg("title", null, "a check had failed")) : null,
      lines,
      changed != null && changed >= first ? svg("line", { class: "change", x1: x(changed), x2: x(changed), y1: TOP, y2: bottom },
        svg("title", null, `the value changed by ${this.change.text}`)) : null,
      (this.cursor = svg("g", { class: "cursor", visibility: "hidden" }))));
    this.bottom = bottom;
    this.mark();
  }

  // Shows the row that is being read: a line, a dot for each target, and the numbers below the chart.
  mark() {
    const row = this.picked === null ? null : this.rows?.[this.picked];
    this.cursor?.setAttribute("visibility", row ? "visible" : "hidden");
    if (!row || !this.cursor) {
      this.readout.textContent = "";
      return;
    }
    const x = this.across(this.at(row)).toFixed(1);
    this.cursor.replaceChildren(
      svg("line", { x1: x, x2: x, y1: TOP, y2: this.bottom }),
      ...row[3].map(([estimate], k) => (estimate == null ? null : svg("circle", { class: `dot c${(this.colour + k) % COLOURS}`, cx: x, cy: this.down(estimate), r: 4 }))).filter(Boolean));
    const numbers = row[3].map((target, k) => `${this.names[k] ? `${this.names[k]}: ` : ""}${brief(target[0], ...this.outer(target))}`);
    const checks = row[2] ? `, ${row[2]} ${row[2] > 1 ? "checks" : "check"} failed` : "";
    this.readout.textContent = `${moment(row[0])}, ${count(row[1])} transitions: ${numbers.join("; ")} ${this.wide ? "anytime" : "for one look"}${checks}`;
  }
}

// ---- intervals below each other ---------------------------------------------------------------------------------------

// rows: {name, target (with its numbers), text, colour, link, faded, marks}; marks: numbers to draw as vertical lines,
// for all rows or for one. Those of one row that are far away are left out.
export function forest(place, rows, marks, label) {
  const width = Math.max(place.clientWidth, 200), narrow = width < 640;
  const room = narrow ? width : Math.round(width * 0.45);
  const numbers = rows.flatMap(({ target }) => [target.anytime_lower, target.anytime_upper, target.lower, target.upper, target.estimate]).filter((value) => value != null);
  let [low, high] = apart(Math.min(...numbers, ...marks), Math.max(...numbers, ...marks));
  if (!Number.isFinite(low)) [low, high] = [-1, 1];
  const near = rows.flatMap((row) => row.marks ?? []).filter((mark) => mark > 2 * low - high && mark < 2 * high - low);
  [low, high] = [Math.min(low, ...near), Math.max(high, ...near)];
  const x = scale(low, high, 10, room - 10);
  const reach = (lower, upper) => [lower == null ? 2 : x(lower), upper == null ? room - 2 : x(upper)];
  const picture = ({ target, colour, faded, marks: own = [] }) => {
    const [left, right] = reach(target.lower, target.upper);
    const [from, to] = target.text.anytime ? reach(target.anytime_lower, target.anytime_upper) : [left, right];
    return svg("svg", { width: room, height: 30, viewBox: `0 0 ${room} 30`, "aria-hidden": "true", class: `c${colour % COLOURS}${faded ? " faded" : ""}` },
      [...marks, ...own.filter((mark) => mark >= low && mark <= high)].map((mark) => svg("line", { class: "mark", x1: x(mark), x2: x(mark), y1: 0, y2: 30 })),
      target.text.anytime && svg("path", { class: "thin", d: `M${from} 15H${to}M${from} 10V20M${to} 10V20` }),
      svg("path", { class: "thick", d: `M${left} 15H${right}` }),
      target.estimate == null ? null : svg("circle", { class: "dot", cx: x(target.estimate), cy: 15, r: 5 }));
  };
  const axis = svg("svg", { width: room, height: 24, viewBox: `0 0 ${room} 24`, "aria-hidden": "true" },
    svg("line", { class: "grid", x1: 0, x2: room, y1: 0.5, y2: 0.5 }),
    ticks(low, high, room / 90).map(([value, text]) => [svg("line", { class: "grid", x1: x(value), x2: x(value), y1: 0, y2: 5 }), svg("text", { x: Math.min(Math.max(x(value), 14), room - 14), y: 18, "text-anchor": "middle" }, text)]));
  place.replaceChildren(element("ul", { class: `forest${narrow ? " narrow" : ""}`, "aria-label": label },
    rows.map((row) => element("li", null,
      element("span", { class: "who" }, row.link ? element("a", { href: row.link }, row.name) : row.name),
      picture(row),
      element("span", { class: "what" }, element("b", null, row.text), row.said ? ` ${row.said}` : null))),
    element("li", { class: "axis", "aria-hidden": "true" }, element("span"), axis, element("span"))));
}

// ---- bars -----------------------------------------------------------------------------------------------------------

// The distribution of the ratios of several policies: parts are [[begin, share], ...] over powers of 2.
export function histogram(place, parts, names, colour) {
  const width = Math.max(place.clientWidth, 200), height = 190, bottom = height - BOTTOM, right = width - RIGHT;
  const begins = parts[0].map(([begin]) => begin), top = 1.05 * Math.max(...parts.flat().map(([, share]) => share));
  const y = scale(0, top, bottom, TOP), step = (right - LEFT) / begins.length, bar = (0.8 * step) / parts.length;
  const every = Math.ceil(begins.length / (width / 55));
  place.setAttribute("aria-label", names.map((name, k) => `${name} ${parts[k].map(([begin, share]) => `from ${begin}: ${(100 * share).toFixed(1)}%`).join(", ")}`).join("; "));
  place.replaceChildren(svg("svg", { width, height, viewBox: `0 0 ${width} ${height}` },
    ticks(0, 100 * top, 4).map(([value, text]) => [
      svg("line", { class: "grid", x1: LEFT, x2: right, y1: y(value / 100), y2: y(value / 100) }),
      svg("text", { x: LEFT - 8, y: y(value / 100) + 4, "text-anchor": "end" }, `${text}%`)]),
    begins.map((begin, i) => (i % every ? null : svg("text", { x: LEFT + i * step, y: height - 8, "text-anchor": "middle" }, begin >= 1 || begin === 0 ? `${begin}` : `1/${1 / begin}`))),
    parts.map((part, k) => svg("g", { class: `c${(colour + k) % COLOURS}` }, part.map(([begin, share], i) =>
      svg("rect", { class: "bar", x: LEFT + i * step + 0.1 * step + k * bar, y: y(share), width: bar, height: bottom - y(share) },
        svg("title", null, `${begin} to ${begin === 0 ? 1 / 64 : 2 * begin}: ${(100 * share).toFixed(2)}% of the transitions`)))))));
}
