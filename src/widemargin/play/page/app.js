// Main script of the page. Only one request is pending at a time; changes made meanwhile are sent
// once its response has arrived, so that the picture keeps up with dragging.

import { COLOURS, markPath, readLandscape, strokePaths } from "./drawing.js";
import { PRESETS } from "./presets.js";

const $ = (id) => document.getElementById(id);
const canvas = $("canvas"), context = canvas.getContext("2d");
const RADIUS = 6, REACH = 14; // in CSS pixels: radius of a marker, and distance at which a click selects it

const state = { points: [], machine: "", params: {}, active: 0, chosen: -1 };
let machines = new Map(), limits = { points: 0, classes: 0, extent: 1 }, sides = {};
let picture = null, underWay = false, stale = false, dragging = false;
let notice = ""; // shown until the next user action

// ---- coordinates of plane and canvas ----------------------------------------------------------

const side = () => canvas.clientWidth;
const toCanvas = ([x, y]) => [((x + limits.extent) / (2 * limits.extent)) * side(), ((limits.extent - y) / (2 * limits.extent)) * side()];
const inside = (v) => Math.round(Math.max(-limits.extent, Math.min(limits.extent, v)) * 1e4) / 1e4;
function toPlane(event) {
  const box = canvas.getBoundingClientRect();
  const u = (event.clientX - box.left) / box.width, v = (event.clientY - box.top) / box.height;
  return [inside((2 * u - 1) * limits.extent), inside((1 - 2 * v) * limits.extent)];
}

// ---- requests to the server---------------------------------------------------------------------

function question() {
  const shown = Object.fromEntries(visibleControls().map((c) => [c.name, state.params[state.machine][c.name]]));
  return { points: state.points, machine: state.machine, params: shown };
}

async function ask(path, body) {
  const response = await fetch(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.error || response.statusText);
  return answer;
}

async function refresh() {
  draw();
  if (underWay) { stale = true; return; }
  const used = new Set(state.points.map((p) => p[2]));
  if (used.size < 2) {
    picture = null;
    draw();
    tell({ problem: "Add points of two classes." });
    return;
  }
  underWay = true;
  const asked = JSON.stringify(question());
  const started = performance.now();
  const patience = setTimeout(() => { $("status").textContent = "One moment: its first fit after installation takes some seconds."; }, 1500);
  try {
    const answer = await ask("api/picture", JSON.parse(asked));
    const levels = machines.get(JSON.parse(asked).machine).dashes ? [-1, 0, 1] : [0];
    picture = answer.problem ? null : { ...answer, ...readLandscape(answer, sides, planeColour(), levels) };
    draw();
    tell(answer);
    if (picture && !picture.leave_one_out) askLeftOut(asked);
    if (!answer.problem) canvas.dataset.milliseconds = (performance.now() - started).toFixed(1);
  } catch (error) {
    picture = null;
    draw();
    tell({ problem: error instanceof TypeError ? "The server does not answer: was it stopped?" : error.message });
  }
  clearTimeout(patience);
  canvas.dataset.pictures = Number(canvas.dataset.pictures || 0) + 1;
  underWay = false;
  if (stale) { stale = false; refresh(); }
}

// Slow leave-one-out is requested once the points stop changing, one request at a time.
let restTimer = 0, leavingOut = false;
function askLeftOut(asked) {
  clearTimeout(restTimer);
  restTimer = setTimeout(async () => {
    if (asked !== JSON.stringify(question())) return;
    if (underWay || leavingOut) { askLeftOut(asked); return; }
    leavingOut = true;
    try {
      const found = await ask("api/left_out", JSON.parse(asked));
      if (picture && !underWay && asked === JSON.stringify(question())) { picture.leave_one_out = found; draw(); tell(picture); }
    } catch (error) { say(error.message); }
    leavingOut = false;
  }, 150);
}

// ---- drawing -----------------------------------------------------------------------------------

const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
function planeColour() {
  const hex = style("--plane");
  return [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
}

function draw() {
  const ratio = window.devicePixelRatio || 1, size = side();
  if (canvas.width !== Math.round(size * ratio)) canvas.width = canvas.height = Math.round(size * ratio);
  context.setTransform(canvas.width / size, 0, 0, canvas.height / size, 0, 0);
  context.clearRect(0, 0, size, size);
  if (picture) drawSurface(size);
  state.points.forEach(drawPoint);
}

function drawSurface(size) {
  context.imageSmoothingEnabled = true;
  context.drawImage(picture.sheet, 0, 0, size, size);
  context.strokeStyle = style("--ink");
  for (const { level, n, paths } of picture.lines) {
    context.lineWidth = level === 0 ? 2 : 1.2;
    context.setLineDash(level === 0 ? [] : [5, 4]);
    strokePaths(context, paths, n, size);
  }
  context.setLineDash([]);
}

function drawPoint(point, i) {
  const [x, y] = toCanvas(point);
  const strength = picture && picture.strength && picture.strength.length === state.points.length ? picture.strength[i] : 0;
  const wrong = picture && picture.leave_one_out && picture.leave_one_out.rows && picture.leave_one_out.rows.includes(i);
  if (strength > 1e-3) {
    context.beginPath();
    context.arc(x, y, RADIUS + 3 + 9 * Math.sqrt(strength), 0, 2 * Math.PI);
    context.strokeStyle = style("--ink");
    context.lineWidth = 1.3;
    context.stroke();
  }
  if (wrong) { // below the marker, which shows the class
    const r = RADIUS + 6;
    context.strokeStyle = style("--ink");
    context.lineWidth = 2.5;
    context.beginPath();
    context.moveTo(x - r, y - r); context.lineTo(x + r, y + r);
    context.moveTo(x + r, y - r); context.lineTo(x - r, y + r);
    context.stroke();
  }
  const mark = markPath(point[2], x, y, RADIUS), chosen = i === state.chosen && document.activeElement === canvas;
  context.fillStyle = COLOURS[point[2]];
  context.fill(mark);
  context.strokeStyle = style(chosen ? "--ink" : "--rim");
  context.lineWidth = chosen ? 3 : 1.5;
  context.stroke(mark);
}

// ---- results panel -----------------------------------------------------------------------------

function say(text) {
  notice = text;
  $("status").textContent = text;
}

function tell(answer) {
  const text = (id, first, second = "") => {
    $(id).replaceChildren(first);
    if (second) $(id).append(Object.assign(document.createElement("small"), { textContent: second }));
  };
  const { dashes } = machines.get(state.machine);
  $("status").textContent = answer.problem || notice;
  $("notes").hidden = !(answer.notes && answer.notes.length);
  $("notes").textContent = (answer.notes || []).join(" ");
  $("legend-margin").hidden = !dashes || Boolean(answer.landscape && answer.landscape.winner);
  $("legend-margin").querySelector("span").textContent = dashes;
  if (answer.problem) {
    for (const id of ["loo", "certificate", "support", "time"]) text(id, "–");
    return;
  }
  const left = answer.leave_one_out, n = state.points.length;
  const estimates = { exact: "an estimate: some fits did not converge", "10-fold": "an estimate by 10-fold cross-validation" };
  if (left && left.rows) {
    const how = left.exact ? `${left.kind}: as if trained without each point` : estimates[left.method];
    text("loo", `${left.rows.length} of ${n} wrong`, how || "an estimate, by linear response");
  }
  else text("loo", "–", left ? left.problem : "computed once the points stop changing …");
  const proof = answer.certificate;
  if (proof.problem) text("certificate", "none", proof.problem);
  else text("certificate", proof.relative_gap > 0 ? `gap ${proof.relative_gap.toExponential(1)}` : "gap 0",
    proof.converged ? "proved upper bound on the distance to the optimum" : "not converged");
  if (answer.strength) text("support", `${answer.strength.filter((s) => s > 1e-3).length} of ${n} points`);
  else text("support", "–", "no coefficients per point");
  text("time", `${Math.round(answer.milliseconds)} ms`, "for fit and picture");
}

// ---- estimators and their controls -------------------------------------------------------------

const round3 = (v) => Number(v.toPrecision(3));
const setting = (c, v) => Math.min(c.high, Math.max(c.low, c.whole ? Math.round(v) : round3(v)));
function visibleControls() {
  const params = state.params[state.machine];
  return machines.get(state.machine).controls.filter((c) => !(c.name === "gamma" && params.kernel === "linear"));
}

const toSlider = (c, v) => c.log ? Math.log(v / c.low) / Math.log(c.high / c.low) : (v - c.low) / (c.high - c.low);
const fromSlider = (c, t) => c.log ? c.low * Math.pow(c.high / c.low, t) : c.low + t * (c.high - c.low);

function showControls() {
  const machine = machines.get(state.machine), params = state.params[state.machine];
  $("machine").value = state.machine;
  $("words").textContent = machine.words;
  $("controls").replaceChildren(...visibleControls().map((c) => control(c, params)));
}

function control(c, params) {
  const box = document.createElement("div");
  box.className = "control";
  const label = document.createElement("label");
  label.append(c.label);
  const id = `control-${c.name}`;
  label.htmlFor = id;
  const help = Object.assign(document.createElement("small"), { textContent: c.help, id: `${id}-help` });
  let input;
  if (c.kind === "choice") {
    input = document.createElement("select");
    for (const [value, name] of Object.entries(c.options)) input.append(new Option(name, value));
    input.value = params[c.name];
    input.addEventListener("change", () => { params[c.name] = input.value; showControls(); refresh(); $(id).focus(); });
  } else {
    const output = Object.assign(document.createElement("output"), { textContent: round3(params[c.name]) });
    output.htmlFor = id;
    label.append(output);
    input = Object.assign(document.createElement("input"), { type: "range", min: 0, max: 1, step: 0.005, value: toSlider(c, params[c.name]) });
    input.setAttribute("aria-valuetext", String(round3(params[c.name])));
    input.addEventListener("input", () => {
      params[c.name] = setting(c, fromSlider(c, Number(input.value)));
      output.textContent = params[c.name];
      input.setAttribute("aria-valuetext", String(params[c.name]));
      refresh();
    });
  }
  input.id = id;
  input.setAttribute("aria-describedby", help.id);
  box.append(label, input, help);
  return box;
}

// ---- editing of points -------------------------------------------------------------------------

function nearest(event) {
  const box = canvas.getBoundingClientRect();
  let best = -1, reach = REACH;
  state.points.forEach((point, i) => {
    const [x, y] = toCanvas(point);
    const distance = Math.hypot(event.clientX - box.left - x, event.clientY - box.top - y);
    if (distance < reach) { best = i; reach = distance; }
  });
  return best;
}

function addPoint(x, y) {
  if (state.points.length >= limits.points) {
    say(`There is room for ${limits.points} points.`);
    return -1;
  }
  ownPoints();
  state.points.push([x, y, state.active]);
  return state.points.length - 1;
}

function removePoint(i) {
  if (i < 0) return;
  ownPoints();
  state.points.splice(i, 1);
  state.chosen = -1;
  remember();
  refresh();
}

function movePoint(i, x, y) {
  ownPoints();
  state.points[i] = [inside(x), inside(y), state.points[i][2]];
}

// Edited points are not an example any more: deselect it, so that all can be chosen again.
const ownPoints = () => { $("preset").value = ""; };

canvas.addEventListener("pointerdown", (event) => {
  if (event.button !== 0) return;
  const found = nearest(event);
  state.chosen = found >= 0 ? found : addPoint(...toPlane(event));
  dragging = state.chosen >= 0;
  canvas.setPointerCapture(event.pointerId);
  refresh();
});
canvas.addEventListener("pointermove", (event) => {
  if (!dragging) { canvas.style.cursor = nearest(event) >= 0 ? "grab" : "crosshair"; return; }
  canvas.style.cursor = "grabbing";
  const [x, y] = toPlane(event);
  movePoint(state.chosen, x, y);
  refresh();
});
for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, () => { dragging = false; remember(); });
canvas.addEventListener("contextmenu", (event) => { event.preventDefault(); removePoint(nearest(event)); });
canvas.addEventListener("dblclick", (event) => removePoint(nearest(event)));
canvas.addEventListener("focus", draw);
canvas.addEventListener("blur", draw);

canvas.addEventListener("keydown", (event) => {
  const step = event.shiftKey ? 0.2 : 0.05;
  const moves = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, step], ArrowDown: [0, -step] };
  const n = state.points.length;
  if (event.key in moves && state.chosen >= 0) {
    const [x, y] = state.points[state.chosen], [dx, dy] = moves[event.key];
    movePoint(state.chosen, x + dx, y + dy);
  } else if ((event.key === "PageDown" || event.key === "PageUp") && n > 0) {
    state.chosen = (state.chosen + (event.key === "PageDown" ? 1 : -1) + n) % n;
    const [x, y, k] = state.points[state.chosen];
    say(`Point ${state.chosen + 1} of ${n}: class ${k + 1} at ${x.toFixed(2)}, ${y.toFixed(2)}.`);
    draw();
    event.preventDefault();
    return;
  } else if (event.key === "Delete" || event.key === "Backspace") {
    removePoint(state.chosen);
    event.preventDefault();
    return;
  } else if (event.key === "n" || event.key === "N") {
    state.chosen = addPoint(0, 0);
  } else {
    return;
  }
  event.preventDefault();
  remember();
  refresh();
});

// ---- state in the address (URL) ----------------------------------------------------------------

function encode() {
  const kept = { p: state.points.map(([x, y, k]) => [Math.round(x * 1e3), Math.round(y * 1e3), k]), m: state.machine, s: question().params };
  return btoa(JSON.stringify(kept)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}
const remember = () => history.replaceState(null, "", `#${encode()}`);

function decode(text) {
  try {
    const kept = JSON.parse(atob(text.replaceAll("-", "+").replaceAll("_", "/")));
    const points = kept.p.slice(0, limits.points).map(([x, y, k]) => [inside(x / 1e3), inside(y / 1e3), k]);
    const good = points.every(([x, y, k]) => Number.isFinite(x) && Number.isFinite(y) && Number.isInteger(k) && k >= 0 && k < limits.classes);
    return good && machines.has(kept.m) ? { points, machine: kept.m, params: kept.s || {} } : null;
  } catch {
    return null;
  }
}

function take({ points, machine, params }) {
  state.points = points.map((p) => [inside(p[0]), inside(p[1]), p[2]]);
  state.machine = machine;
  for (const c of machines.get(machine).controls) {
    const value = params[c.name];
    state.params[machine][c.name] = c.start;
    if (c.kind === "choice" ? value in c.options : Number.isFinite(value)) state.params[machine][c.name] = c.kind === "choice" ? value : setting(c, value);
  }
  state.chosen = -1;
  showControls();
  refresh();
}

// ---- start -------------------------------------------------------------------------------------

function showClasses() {
  const svg = "http://www.w3.org/2000/svg";
  const shapes = ["M12 4a8 8 0 1 0 .01 0z", "M5 5h14v14H5z", "M12 3l9.5 16.5h-19z", "M12 2l10 10-10 10L2 12z", "M12 3l9 6.6-3.4 10.4H6.4L3 9.6z"];
  $("classes").replaceChildren(...COLOURS.slice(0, limits.classes).map((colour, k) => {
    const button = Object.assign(document.createElement("button"), { type: "button", className: "class-button" });
    button.setAttribute("role", "radio");
    button.setAttribute("aria-label", `class ${k + 1}`);
    const drawing = document.createElementNS(svg, "svg"), path = document.createElementNS(svg, "path");
    drawing.setAttribute("viewBox", "0 0 24 24");
    path.setAttribute("d", shapes[k]);
    path.setAttribute("fill", colour);
    drawing.append(path);
    button.append(drawing);
    button.addEventListener("click", () => choose(k));
    button.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (step) { event.preventDefault(); choose((state.active + step + limits.classes) % limits.classes, true); }
    });
    return button;
  }));
  choose(0);
}

function choose(k, focus = false) {
  state.active = k;
  [...$("classes").children].forEach((button, i) => {
    button.setAttribute("aria-checked", String(i === k));
    button.tabIndex = i === k ? 0 : -1;
    if (focus && i === k) button.focus();
  });
}

async function copy(text, done) {
  try { await navigator.clipboard.writeText(text); say(done); }
  catch { say("The browser does not let this page copy: the address bar has the link."); }
}

$("machine").addEventListener("change", () => { state.machine = $("machine").value; showControls(); remember(); refresh(); });
$("controls").addEventListener("change", remember);
$("preset").addEventListener("change", () => { take(PRESETS[Number($("preset").value)]); remember(); });
$("clear").addEventListener("click", () => { ownPoints(); state.points = []; state.chosen = -1; remember(); refresh(); });
$("share").addEventListener("click", () => { remember(); copy(location.href, "Link copied. Others open it with: widemargin play 'LINK'"); });
$("export").addEventListener("click", async () => {
  try {
    $("code").textContent = (await ask("api/code", question())).code;
    $("code-dialog").showModal();
  } catch (error) { say(error.message); }
});
$("copy-code").addEventListener("click", () => copy($("code").textContent, "Code copied."));
$("close-code").addEventListener("click", () => $("code-dialog").close());
window.addEventListener("resize", draw);
window.addEventListener("hashchange", showShared);
for (const name of ["pointerdown", "keydown"]) document.addEventListener(name, () => { notice = ""; }, { capture: true });
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", refresh);

// Show the state in the address, or the first example; report an invalid address.
function showShared() {
  const shared = location.hash.slice(1), kept = decode(shared);
  if (shared && !kept) say("The link could not be read; this is the first example.");
  ownPoints();
  if (!kept) $("preset").value = "0";
  take(kept || PRESETS[0]);
}

async function start() {
  const known = await (await fetch("api/catalogue")).json();
  ({ limits, sides } = known);
  machines = new Map(known.machines.map((m) => [m.name, m]));
  for (const m of known.machines) {
    state.params[m.name] = Object.fromEntries(m.controls.map((c) => [c.name, c.start]));
    $("machine").append(new Option(m.title, m.name));
  }
  $("preset").append(Object.assign(new Option("own points", ""), { hidden: true }));
  PRESETS.forEach((preset, i) => $("preset").append(new Option(preset.name, i)));
  showClasses();
  showShared();
}

start().catch((error) => { $("status").textContent = `The page could not start: ${error.message}`; });
