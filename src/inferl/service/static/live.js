// The page: what the stream says, put into the elements of index.html. Nothing here computes a statistic.

import { COLOURS, OverTime, count, element, forest, histogram, moment } from "./charts.js";
import { Stream } from "./stream.js";

const KEY = "inferl read token";
const LAMPS = { green: "✓", amber: "?", red: "✕", grey: "–" };
const find = (id) => document.getElementById(id);
const choice = () => document.querySelector("[name=axis]:checked").value;

const experiments = new Map(); // name -> Experiment, in the order of the server
let differences = null, reference = null, stream = null, due = false;

// ---- small things ---------------------------------------------------------------------------------------------------

// Sets a text only if it is another one: screen readers, selections and the browser's layout are left alone.
function say(place, text) {
  if (place.textContent !== text) place.textContent = text;
}

function light(place, colour) {
  place.classList.remove("green", "amber", "red", "grey");
  place.classList.add(colour);
}

const percent = (level) => `${+(100 * level).toPrecision(6)}%`;
const several = (n, one, more = `${one}s`) => `${count(n)} ${n === 1 ? one : more}`;

// What is said of a target: by the anytime interval, or, of a window, by that for one look.
const said = ({ text }) => bounded(text.anytime ?? text.pointwise);
const bounded = (text) => text.replace(" [-inf, inf]", " (no bounds yet)");

const decided = ({ is, threshold }) => (is === "open" ? `${threshold} not decided` : `${is} ${threshold}`);

function split(text) {
  const cut = text.search(/ [[(]/);
  return cut < 0 ? [text, ""] : [text.slice(0, cut), text.slice(cut + 1)];
}

function time(seconds) {
  if (seconds < 1) return "under 1 second";
  if (seconds < 120) return several(Math.round(seconds), "second");
  if (seconds < 7200) return several(Math.round(seconds / 60), "minute");
  return several(Math.round(seconds / 3600), "hour");
}

// ---- an experiment --------------------------------------------------------------------------------------------------

class Experiment {
  constructor(name, columns) {
    Object.assign(this, { name, colour: 0, rows: [] });
    this.place = find("experiment").content.cloneNode(true).firstElementChild;
    this.place.id = `experiment-${name}`;
    this.place.setAttribute("aria-label", name);
    this.part = (selector) => this.place.querySelector(selector);
    say(this.part(".title"), name);
    say(this.part(".words"), "No answer yet. Send rows, one a line:");
    say(this.part(".begin"), [`curl ${new URL(`v1/experiments/${name}/transitions`, location.href)}`, "-H 'Inferl-Client: curl' -H 'Inferl-Sequence: 1'",
      "-H 'Content-Type: application/x-ndjson'", ...(sessionStorage.getItem(KEY) ? ["-H 'Authorization: Bearer TOKEN-TO-WRITE'"] : []), "--data-binary @- <<'END'"].join(" \\\n  ")
      + `\n{${columns.map((column) => `${JSON.stringify(column)}: ...`).join(", ")}}\nEND`);
    this.chart = new OverTime(this.part(".over-time"), this.part(".readout"));
    this.part(".ratios").addEventListener("toggle", () => this.drawRatios());
  }

  take({ snapshot, history, thresholds }) {
    this.now = snapshot;
    this.rows = history.begin ? [...history.rows] : [...this.rows, ...history.rows];
    this.drawn = false;
  }

  rates(content) {
    this.latest = content;
    this.drawRates();
  }

  drawRates() {
    const { rows_per_second, lag_rows, lag_seconds, bad_rows, failure } = this.latest ?? { rows_per_second: 0, lag_rows: 0 };
    const behind = lag_rows ? `${several(lag_rows, "row")}, ${time(lag_seconds)}` : "nothing";
    const shown = [["Transitions", count(this.now?.n ?? 0)], ["Episodes completed", count(this.now?.episodes ?? 0)],
      ["Rows a second", rows_per_second >= 10 ? count(Math.round(rows_per_second)) : (+rows_per_second.toPrecision(2)).toString()],
      ["Not yet evaluated", behind]];
    if (bad_rows) shown.push(["Rows left out", count(bad_rows)]);
    if (this.now?.window) shown.splice(1, 0, ["In the window", count(this.now.window.n)]);
    const text = JSON.stringify(shown);
    if (text !== this.ratesShown) {
      this.part(".rates").replaceChildren(...shown.map(([what, much]) => element("div", null, element("dt", null, what), element("dd", null, much))));
      this.ratesShown = text;
    }
    const place = this.part(".failure");
    place.hidden = !failure;
    say(place, failure ? `The evaluation has stopped: ${failure}` : "");
    this.place.classList.toggle("stopped", !!failure);
  }

  // By how much and when the value changed, as far as the history tells.
  changed() {
    const { change } = this.now;
    const text = `The value changed by ${change.text}, about ${several(change.ago, change.unit === "episodes" ? "episode" : "transition")} ago`;
    const when = change.time != null ? ` (about ${moment(change.time)})` : this.rows.length ? ` (before ${moment(this.rows[0][0])})` : "";
    return `${text}${when}${change.within ? "" : ": before the window"}.`;
  }

  // The class of the colour of its k-th target.
  shade(k) {
    return `c${(this.colour + k) % COLOURS}`;
  }

  draw(colour) {
    const { now } = this;
    this.drawn &&= colour === this.colour;
    this.colour = colour;
    if (!now) return;
    if (!this.drawn) {
      this.drawAnswers();
      this.drawChecks();
      this.drawRatios();
      this.drawFacts();
      this.drawRates();
      this.drawn = true;
    }
    const names = now.targets.map((target) => target.name), answers = now.targets.map((target) => `${target.name} ${said(target)}`);
    this.chart.show({
      rows: this.rows, names, thresholds: now.thresholds, axis: choice(), span: +find("span").value, colour,
      change: now.change, wide: now.decided_by === "anytime",
      label: `${this.name}: the estimate with its ${percent(now.level)} intervals ${choice() === "time" ? "over time" : "over transitions"}; now ${answers.join(", ")}. The arrow keys read earlier values.`,
    });
    const legend = names.length > 1 ? names.map((name, k) => element("li", { class: this.shade(k) }, name))
      : [element("li", { class: `${this.shade(0)} of-line` }, "estimate"), element("li", { class: `${this.shade(0)} of-one` }, `${percent(now.level)}, one look`)];
    if (names.length === 1 && now.decided_by === "anytime") legend.push(element("li", { class: `${this.shade(0)} of-wide` }, `${percent(now.level)}, at all times (anytime)`));
    if (now.change) legend.push(element("li", { class: "of-change" }, "the value changed"));
    if (this.rows.some(([, , failed]) => failed)) legend.push(element("li", { class: "of-failed" }, "a check had failed"));
    this.part(".legend").replaceChildren(...legend);
  }

  drawAnswers() {
    const { now } = this, many = now.targets.length > 1;
    this.part(".begin").hidden = true;
    this.part(".answers").replaceChildren(...now.targets.map((target, k) => {
      const [estimate, bounds] = split(said(target)), [, once] = split(bounded(target.text.pointwise));
      const about = target.text.anytime ? `anytime${once.startsWith("[") ? `; for one look ${once}` : ""}` : "for one look: a window has no anytime interval";
      return element("div", { class: `answer ${now.verdict.light}` },
        target.name ? element("div", { class: `name ${this.shade(k)}` }, many ? element("span", { class: "swatch", "aria-hidden": "true" }) : null, target.name) : null,
        element("div", { class: "estimate" }, estimate),
        element("div", { class: "bounds" }, bounds),
        element("div", { class: "muted" }, `${percent(now.level)} ${about}`));
    }));
    say(this.part(".verdict"), now.verdict.text);
    light(this.part(".verdict"), now.verdict.light);
    const [only] = now.targets;
    const subject = now.estimand.replace(/^./, (letter) => letter.toUpperCase());
    const text = now.verdict.light === "red" ? `While a check fails, the interval may miss ${now.estimand}.`
      : !only || many ? subject && `The estimand is ${now.estimand}.`
      : (only.text.anytime ? only.anytime_lower ?? only.anytime_upper : only.lower ?? only.upper) == null ? `${subject} has no bounds yet.`
      : `${subject}${subject.includes(",") ? "," : ""} lies between ${split(said(only))[1].slice(1, -1).replace(", ", " and ")}, with ${percent(now.level)} confidence, ${only.text.anytime ? "however often you look" : "if you look once"}.`;
    say(this.part(".words"), text || "");
    say(this.part(".changed"), now.change ? this.changed() : "");
    this.part(".changed").hidden = !now.change;
    const failed = now.checks.some((check) => check.status === "failed");
    this.part(".decisions").replaceChildren(...now.targets.flatMap((target) => target.decisions.map((decision) => {
      const who = target.name ? `${target.name}: ` : "";
      const text = decision.is === "open" ? `${who}not known yet whether above or below ${decision.threshold}${failed ? " (nothing is decided while a check fails)" : ""}`
        : `${who}${decision.is} ${decision.threshold}${now.decided_by === "anytime" ? "" : ", if you look once"}`;
      return element("li", { class: decision.is }, element("span", { class: "sign", "aria-hidden": "true" }, { above: "▲", below: "▼", open: "…" }[decision.is]), text);
    })), ...now.differences.map((apart) => element("li", { class: "policies" }, element("b", null, apart.name), `: ${said(apart)}, same data`)));
  }

  drawChecks() {
    const text = JSON.stringify(this.now.checks);
    if (text === this.checksShown) return;
    this.checksShown = text;
    const items = this.now.checks.map((check) => [check, element("li", { class: check.light },
      element("div", { class: "lamp", "aria-hidden": "true" }, LAMPS[check.light]),
      element("div", null,
        element("p", { class: "question" }, check.question),
        element("p", null, element("b", null, check.status.replace(/^./, (letter) => letter.toUpperCase())), element("span", { class: "muted" }, ` (${check.name})`), `: ${check.message}.`),
        check.remedy ? element("p", { class: "todo" }, element("b", null, "What to do:"), ` ${check.remedy}.`) : null))]);
    const order = { failed: 0, "not available": 1 };
    const open = items.filter(([check]) => check.status !== "passed").sort(([one], [other]) => order[one.status] - order[other.status]);
    const passed = items.filter(([check]) => check.status === "passed");
    this.part(".not-passed").replaceChildren(...open.map(([, item]) => item));
    this.part(".passed ul").replaceChildren(...passed.map(([, item]) => item));
    this.part(".passed").hidden = !passed.length;
    say(this.part(".passed summary"), `${several(passed.length, "check")} passed`);
  }

  drawRatios() {
    const { ratios } = this.now ?? {};
    const place = this.part(".ratios");
    place.hidden = !ratios?.length;
    if (place.hidden || !place.open) return;
    const names = ratios.map((ratio) => ratio.policy || "all transitions"), shown = (value, digits) => (value == null ? "–" : (+value.toPrecision(digits)).toString());
    histogram(place.querySelector(".plot"), ratios.map((ratio) => ratio.tails), names, this.colour);
    const lines = [["mean ratio (1 if the propensities are right)", (ratio) => shown(ratio.mean, 3)], ["largest ratio", (ratio) => shown(ratio.largest, 4)],
      ["its share of the total weight", (ratio) => percent(+(ratio.largest_share ?? 0).toFixed(4))], ["effective sample size", (ratio) => percent(+(ratio.effective ?? 0).toFixed(3))]];
    place.querySelector("table").replaceChildren(
      ...(ratios.length > 1 ? [element("tr", null, element("td"), ...names.map((name, k) => element("th", { scope: "col", class: this.shade(k) }, element("span", { class: "swatch", "aria-hidden": "true" }), name)))] : []),
      ...lines.map(([what, value]) => element("tr", null, element("th", { scope: "row" }, what), ...ratios.map((ratio) => element("td", null, value(ratio))))));
  }

  drawFacts() {
    this.part(".data").hidden = false;
    const facts = { ...this.now.facts, "snapshot": moment(this.now.time) };
    this.part(".facts").replaceChildren(...Object.entries(facts).map(([name, value]) => element("tr", null, element("th", { scope: "row" }, name), element("td", null, `${value}`))));
  }
}

// ---- all of them ----------------------------------------------------------------------------------------------------

function drawOverview() {
  const shown = [...experiments.values()].filter(({ now }) => now?.targets.length);
  find("overview").hidden = experiments.size < 2 || !shown.length;
  if (find("overview").hidden) return;
  // Values of other estimands or discounts are no use on one axis.
  const groups = new Map();
  for (const one of shown) {
    const [low, high] = one.now.discounts, kind = `${one.now.estimand}${low != null && low === high ? `, discount ${low}` : ""}`;
    groups.set(kind, [...(groups.get(kind) ?? []), ...one.now.targets.map((target, k) => ({
      name: target.name ? `${one.name}: ${target.name}` : one.name, target, text: said(target), colour: one.colour + k, marks: one.now.thresholds,
      link: `#experiment-${one.name}`, faded: one.now.verdict.light === "red",
      said: [target.text.anytime ? "" : "for one look", ...target.decisions.map(decided), { red: "a check failed", grey: "gathering data" }[one.now.verdict.light]].filter(Boolean).join(", "),
    }))]);
  }
  const places = [...groups.keys()].map((kind) => element("div", null, groups.size > 1 ? element("h3", null, kind.replace(/^./, (letter) => letter.toUpperCase())) : null, element("div")));
  find("side-by-side").replaceChildren(...places);
  places.forEach((place, i) => forest(place.lastChild, [...groups.values()][i], [], "Estimates with their intervals"));
  if (!differences) return;
  const apart = differences.of.flatMap((found) => {
    if (found.error) return [{ name: found.of, error: found.error }];
    return found.targets.map((target, k) => ({
      name: target.name ? `${found.of}: ${target.name}` : found.of, target, text: said(target),
      said: `${found.verdict[k]}${found.decided_by === "anytime" || found.notes.length ? "" : ", if you look once"}`,
      colour: (experiments.get(found.of)?.colour ?? 0) + k, faded: found.notes.length > 0,
    }));
  });
  const known = apart.filter(({ error }) => !error);
  if (known.length) forest(find("differences"), known, [0], `Each experiment minus ${differences.reference}`);
  else find("differences").replaceChildren();
  find("differences").append(...apart.filter(({ error }) => error).map(({ name, error }) => element("p", { class: "muted" }, `${name}: no comparison; ${error}.`)));
}

function draw() {
  due = false;
  let colour = 0;
  for (const one of experiments.values()) {
    one.draw(colour);
    colour += Math.max(one.now?.targets.length ?? 0, 1);
  }
  drawOverview();
}

// Once before the next picture of the screen, however many events arrive; never while the page cannot be seen.
function soon() {
  if (!due) requestAnimationFrame(draw);
  due = true;
}

const receive = {
  hello({ names, columns, version }) {
    say(find("about"), `inferl ${version}.`);
    for (const [name, one] of experiments) if (!names.includes(name)) one.place.remove(), experiments.delete(name);
    for (const name of names) if (!experiments.has(name)) experiments.set(name, new Experiment(name, columns[name]));
    find("experiments").replaceChildren(...names.map((name) => experiments.get(name).place));
    if (!names.includes(reference)) reference = names[0];
    find("reference").replaceChildren(...names.map((name) => element("option", null, name)));
    find("reference").value = reference;
    find("login").hidden = true;
    document.querySelector("main").hidden = false;
    find("forget").hidden = !sessionStorage.getItem(KEY);
  },
  experiment(content) {
    experiments.get(content.snapshot.name)?.take(content);
    soon();
  },
  rates(content) {
    for (const [name, rates] of Object.entries(content)) experiments.get(name)?.rates(rates);
  },
  differences(content) {
    differences = content;
    soon();
  },
};

// ---- the connection -------------------------------------------------------------------------------------------------

function tell(state, wait) {
  const place = find("connection");
  const texts = { connecting: "connecting", live: "live", lost: "not connected: the numbers are old", refused: "a token is needed" };
  place.dataset.state = state;
  say(place.querySelector(".said"), texts[state]);
  place.title = wait ? `next try in ${time(wait / 1000)}` : "";
  document.body.classList.toggle("old", state === "lost");
  if (state !== "refused") return;
  const given = sessionStorage.getItem(KEY);
  sessionStorage.removeItem(KEY);
  document.querySelector("main").hidden = true;
  find("login").hidden = false;
  say(document.querySelector(".wrong"), given ? "The server does not know this token, or does not let it read." : "");
  find("token").focus();
}

function connect() {
  stream?.stop();
  const url = () => `v1/events${reference ? `?reference=${encodeURIComponent(reference)}` : ""}`;
  stream = new Stream(url, sessionStorage.getItem(KEY), (event, data) => receive[event]?.(data), tell);
}

find("login").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem(KEY, find("token").value.trim());
  find("token").value = "";
  connect();
});
find("forget").addEventListener("click", () => {
  sessionStorage.removeItem(KEY);
  location.reload();
});
find("reference").addEventListener("change", () => {
  reference = find("reference").value;
  connect();
});
find("axes").addEventListener("change", soon);
new ResizeObserver(soon).observe(document.body);
connect();
