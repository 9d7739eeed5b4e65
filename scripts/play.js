"use strict";
const token = new URLSearchParams(location.search).get("token") || "";
const $ = id => document.getElementById(id);
const KEYS = {ArrowUp: "forward", w: "forward", ArrowLeft: "left", a: "left", ArrowRight: "right", d: "right", " ": "stop"};
const REPEAT_MS = 110, FRAME_MS = 130, MOST_WAITING = 3;
const LEAST_M = 10, MARGIN_M = 4; // of the plan that is shown around a walk

async function ask(path, sent) {
  const options = {headers: {"X-Token": token}};
  if (sent) {
    Object.assign(options, {method: "POST", body: JSON.stringify(sent)});
    options.headers["Content-Type"] = "application/json";
  }
  let answer, content;
  try {
    answer = await fetch(path, options);
    content = await answer.json();
  } catch {
    throw new Error("scripts/play.py does not answer: is it still running?");
  }
  if (!answer.ok) throw new Error(content.error);
  return content;
}

function complain(error) {
  $("error").textContent = error.message;
  $("error").hidden = false;
  clearTimeout(complain.timer);
  complain.timer = setTimeout(() => { $("error").hidden = true; }, 5000);
}

function made(tag, text, className) {
  const element = document.createElement(tag);
  if (text) element.textContent = text;
  if (className) element.className = className;
  return element;
}

// ---- walking

let state = {phase: "none"}, busy = false, waiting = [], lastSent = 0, film = null;

function show(next) {
  const before = state.phase;
  state = next;
  const onStage = ["ready", "walking", "answering"];
  for (const phase of [...onStage, "answered", "done"]) $(phase).hidden = phase !== state.phase;
  $("stage").hidden = !onStage.includes(state.phase);
  $("question").textContent = state.question || "";
  $("status").textContent = `${state.saved} walked, ${state.left} to go`;
  $("limit").textContent = state.limit;
  $("view").classList.toggle("bumped", state.phase === "walking" && state.bumped);
  $("note").hidden = !(state.phase === "walking" && state.bumped);
  if (!$("note").hidden) $("note").textContent = "something is in the way";
  if (state.frame) showFrame(state.frame);
  if (state.phase === "walking") {
    const left = state.limit - state.step;
    $("left").textContent = `${left} of ${state.limit} actions left`;
    $("meter").style.width = `${100 * left / state.limit}%`;
  }
  if (state.phase === before) return;
  clearInterval(film);
  waiting = [];
  if (state.phase === "ready") getReady();
  if (state.phase === "answering") listAnswers();
  if (state.phase === "answered") giveFeedback();
}

function showFrame(url) {
  $("frame").src = url;
  $("frame").hidden = false;
  $("blank").hidden = true;
}

async function getReady() {
  const {question} = state;
  $("frame").hidden = true;
  $("blank").hidden = false;
  $("blank").textContent = "You will see the house from here.";
  $("came").textContent = "You begin somewhere in the house.";
  $("begin").focus({preventScroll: true});
  const frames = [], isOver = () => state.phase !== "ready" || state.question !== question;
  let at = 0, num = 1;
  while (frames.length < num) {
    const part = await ask(`/history?first=${frames.length}`).catch(() => ({num: 0}));
    if (!part.num || isOver()) return;
    num = part.num;
    frames.push(...part.frames);
    if (frames.length > part.frames.length) continue;
    $("came").textContent = `The film shows how you came here (${num} actions).`;
    $("note").hidden = false;
    const turn = () => {
      showFrame(frames[at]);
      $("note").textContent = `on the way here, ${at + 1} of ${num}`;
      if (at + 1 < frames.length || frames.length === num) at = (at + 1) % num;
    };
    turn();
    film = setInterval(turn, FRAME_MS);
  }
}

function listAnswers() {
  $("ended").textContent = (state.step === state.limit ? "You have used up all actions. " : "") + "What is the answer?";
  $("find").value = "";
  const list = (place, answers) => place.replaceChildren(...answers.map(answer => {
    const button = made("button", answer);
    button.dataset.answer = answer;
    button.addEventListener("click", () => send("/answer", {answer}));
    return button;
  }));
  list($("answers"), state.answers);
  list($("other-answers"), state.other_answers);
  $("more").hidden = !state.other_answers.length;
  $("more").open = false;
  if (matchMedia("(hover: hover)").matches) $("find").focus(); // not on a phone, whose keyboard would cover the answers
}

async function giveFeedback() {
  const said = made("b", state.correct ? "Right: " : "Not right: ", state.correct ? "correct" : "wrong");
  const truth = state.correct ? `the answer is ${state.answer}.` : `you said ${state.predicted}, the answer is ${state.answer}.`;
  $("verdict").replaceChildren(said, truth + (state.seen ? "" : " It was not in sight where you stopped."));
  $("next").focus({preventScroll: true});
  await openWalk(state.row, "own");
}

$("find").addEventListener("input", () => {
  const wanted = $("find").value.trim().toLowerCase();
  for (const button of document.querySelectorAll("[data-answer]")) button.hidden = !button.textContent.includes(wanted);
  $("more").open = Boolean(wanted);
});
$("find").addEventListener("keydown", event => {
  const left = [...document.querySelectorAll("[data-answer]")].filter(button => !button.hidden);
  if (event.key === "Enter" && left.length === 1) left[0].click();
});

async function send(path, sent) {
  if (busy) return;
  busy = true;
  try {
    show(await ask(path, sent));
  } catch (error) {
    complain(error);
    waiting = [];
    await ask("/state").then(show).catch(() => {});
  } finally {
    busy = false;
  }
}

async function act(action) {
  if (state.phase !== "walking" || waiting.length >= MOST_WAITING) return;
  waiting.push(action);
  while (!busy && waiting.length && state.phase === "walking") await send("/act", {action: waiting.shift(), step: state.step});
}

const keyOf = event => event.key.length === 1 ? event.key.toLowerCase() : event.key;

document.addEventListener("keydown", event => {
  if (event.ctrlKey || event.altKey || event.metaKey || $("help").open) return;
  const isTyping = event.target.type === "search" || event.target.tagName === "SELECT";
  if (event.key === "?" && !isTyping) return $("help").showModal();
  if (!$("replay").hidden) return isTyping || replayKey(event);
  if (event.key === "Enter" && !event.repeat && ["ready", "answered"].includes(state.phase)) {
    event.preventDefault();
    send(state.phase === "ready" ? "/begin" : "/next", {});
  } else if (state.phase === "answered") {
    replayKey(event);
  } else if (state.phase === "walking" && keyOf(event) in KEYS) {
    event.preventDefault();
    const action = KEYS[keyOf(event)], now = performance.now();
    if (event.repeat && (action === "stop" || busy || now - lastSent < REPEAT_MS)) return;
    lastSent = now;
    act(action);
  }
});
$("begin").addEventListener("click", () => send("/begin", {}));
$("next").addEventListener("click", () => send("/next", {}));
for (const button of document.querySelectorAll("[data-action]")) {
  const {action} = button.dataset;
  let held = null;
  const release = () => { clearInterval(held); button.blur(); };
  if (action !== "stop") {
    button.addEventListener("pointerdown", event => {
      if (event.button) return;
      act(action);
      clearInterval(held);
      held = setInterval(() => { if (!busy) act(action); }, REPEAT_MS);
    });
    for (const end of ["pointerup", "pointercancel", "pointerleave"]) button.addEventListener(end, release);
    button.addEventListener("contextmenu", event => event.preventDefault());
  }
  button.addEventListener("click", event => { if (action === "stop" || !event.detail) act(action); button.blur(); });
}
$("open-help").addEventListener("click", () => $("help").showModal());

// ---- the list of replays; the address holds what is chosen

const CHOICES = ["agent", "spawn", "question_type"], FILTERS = [...CHOICES, "wrong", "words"];
let chosen = new URLSearchParams(), walk = null;

function address(changes) {
  const next = new URLSearchParams(chosen);
  for (const [name, value] of Object.entries(changes)) {
    if (value === "" || value === false || value === 0) next.delete(name);
    else next.set(name, value === true ? 1 : value);
  }
  next.set("tab", "replay");
  return `#${next}`;
}

async function list() {
  const query = new URLSearchParams([...FILTERS, "page"].filter(name => chosen.has(name)).map(name => [name, chosen.get(name)]));
  const turn = list.turn = (list.turn || 0) + 1;
  let found;
  try {
    found = await ask(`/rows?${query}`);
  } catch (error) { return complain(error); }
  if (turn !== list.turn) return;  // asked again since: this answer is of other choices
  for (const name of CHOICES) {
    const options = found.choices[name].map(value => new Option(value.replaceAll("_", " "), value));
    $(name).replaceChildren(new Option(`every ${name.replaceAll("_", " ")}`, ""), ...options);
    $(name).value = chosen.get(name) || "";
  }
  $("wrong").checked = chosen.has("wrong");
  if (document.activeElement !== $("words")) $("words").value = chosen.get("words") || "";
  $("rows").replaceChildren(...found.rows.map(row => {
    const link = made("a", row.question), facts = made("small", `${row.agent}, ${row.spawn}, ${row.num_steps} actions: `);
    link.href = address({row: String(row.row)});
    link.dataset.row = row.row;
    facts.append(made("span", row.predicted ?? "no answer", row.correct ? "correct" : "wrong"));
    link.append(facts);
    return link;
  }));
  const page = Number(chosen.get("page") || 0), first = page * found.on_a_page;
  if (!found.fit) {
    const none = query.size ? "No walk is like that." : "No walks yet. Walk one, or start with --run and a run's folder.";
    $("rows").append(made("div", none, "empty"));
  }
  $("rows").scrollTop = 0;
  $("page").textContent = found.fit ? `${first + 1} to ${first + found.rows.length} of ${found.fit}` : "";
  $("before").disabled = page === 0;
  $("after").disabled = first + found.on_a_page >= found.fit;
  $("before").onclick = () => { location.hash = address({page: page - 1}); };
  $("after").onclick = () => { location.hash = address({page: page + 1}); };
  markRow();
}

function markRow() {
  for (const link of $("rows").querySelectorAll("a")) link.setAttribute("aria-current", link.dataset.row === chosen.get("row"));
}

function filter(name, value) {
  history.replaceState(null, "", address({[name]: value, page: 0}));
  route();
}
for (const name of CHOICES) $(name).addEventListener("change", () => filter(name, $(name).value));
$("wrong").addEventListener("change", () => filter("wrong", $("wrong").checked));
$("words").addEventListener("input", () => {
  clearTimeout(filter.timer);
  filter.timer = setTimeout(() => filter("words", $("words").value), 150);
});

function route() {
  const before = chosen;
  chosen = new URLSearchParams(location.hash.slice(1));
  const isReplay = chosen.get("tab") === "replay";
  $("walk").hidden = isReplay;
  $("replay").hidden = !isReplay;
  $("tab-walk").setAttribute("aria-selected", !isReplay);
  $("tab-replay").setAttribute("aria-selected", isReplay);
  pause();
  if (!isReplay) {
    if (state.phase === "answered") openWalk(state.row, "own");
    return;
  }
  const differs = name => before.get(name) !== chosen.get(name);
  if (["tab", "page", ...FILTERS].some(differs)) list();
  markRow();
  $("choose").hidden = chosen.has("row");
  if (!chosen.has("row")) $("viewer").hidden = true;
  else if (differs("row") || walk?.folder !== "run") openWalk(Number(chosen.get("row")), "run");
}
addEventListener("hashchange", route);

// ---- one walk, step by step

let at = 0, player = null, isNear = true, sensor = "rgb", frames = {};

async function openWalk(row, folder) {
  pause();
  const turn = openWalk.turn = (openWalk.turn || 0) + 1;
  let opened;
  try {
    opened = await ask(`/replay?row=${row}&folder=${folder}`);
  } catch (error) { return complain(error); }
  if (turn !== openWalk.turn) return;
  walk = {...opened, folder};
  frames = {rgb: [], depth: []};
  $(folder === "own" ? "own-walk" : "run-walk").append($("viewer"));
  $("viewer").hidden = false;
  $("asked").textContent = walk.question;
  $("link").href = `#${new URLSearchParams({tab: "replay", row})}`;
  const metres = value => value === null || value === undefined ? "?" : `${value.toFixed(1)} m`;
  const said = made("b", walk.predicted ?? "nothing", walk.correct ? "correct" : "wrong");
  const who = [`${walk.agent}, ${walk.spawn}. Answered `, said, walk.correct ? ". " : ` (right: ${walk.answer}). `];
  $("facts").replaceChildren(...(folder === "own" ? [] : who), `${metres(walk.d_0)} from the target at first, ${metres(walk.d_T)} at the end${walk.stop ? "" : ", did not stop"}.`);
  drawPlan();
  drawStrip();
  $("slider").max = walk.poses.length - 1;
  seek(0);
  if (folder === "run" && matchMedia("(max-width: 1000px)").matches) $("viewer").scrollIntoView({behavior: "smooth"});
  load(0);
}

// Asks for the views around a step, then for all that are missing, some at a time.
async function load(step) {
  const of = walk, kind = sensor, known = frames[kind];
  if (known.loading) { known.wanted = step; return; }
  known.loading = true;
  try {
    let first = step;
    while (of === walk && kind === sensor && first >= 0) {
      const part = await ask(`/frames?row=${of.row}&folder=${of.folder}&first=${first}&sensor=${kind}`);
      part.forEach((frame, n) => { known[first + n] = frame; });
      if (of === walk && kind === sensor && (!$("seen").src || known.shown !== at)) showView();
      const isMissing = known.wanted !== undefined && !known[known.wanted];
      first = isMissing ? known.wanted : of.poses.findIndex((_, n) => !known[n]);
      known.wanted = undefined;
    }
  } catch (error) {
    complain(error);
  } finally {
    known.loading = false;
  }
}

function showView() {
  const known = frames[sensor];
  if (known[at]) {
    $("seen").src = known[at];
    known.shown = at;
  } else {
    load(at);
  }
}

function shape(name, attributes, parent) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (parent) parent.append(element);
  return element;
}

const corners = points => points.map(([x, z]) => `${x},${z}`).join(" ");
const onPlan = poses => poses.map(([x, , z]) => [x, z]);

function shownBox() {
  const [left, top, width, height] = walk.plan.box, whole = [left - .3, top - .3, width + .6, height + .6];
  const [xs, zs] = [0, 2].map(axis => walk.poses.concat(walk.shortest || []).map(pose => pose[axis]));
  const [x, z] = [xs, zs].map(values => (Math.min(...values) + Math.max(...values)) / 2);
  const side = Math.max(LEAST_M, Math.max(...xs) - Math.min(...xs) + MARGIN_M, Math.max(...zs) - Math.min(...zs) + MARGIN_M);
  if (!isNear || side >= Math.max(width, height)) return whole;
  // Inside the house, as there is nothing to see beside it.
  const inside = (middle, low, size) => side >= size ? low + size / 2 : Math.max(low + side / 2, Math.min(low + size - side / 2, middle));
  return [inside(x, whole[0], whole[2]) - side / 2, inside(z, whole[1], whole[3]) - side / 2, side, side];
}

const EDGES = {wall: ["#333", 1.6], opening: ["#f6f4ef", 2], window: ["#8cc7ee", 2], entrance: ["#8a5a2b", 2]};

function drawPlan() {
  const {plan} = walk, box = shownBox(), side = Math.max(box[2], box[3]), pixel = side / 400;
  const svg = shape("svg", {viewBox: box.join(" "), id: "map"});
  for (const {outline} of plan.regions) shape("polygon", {points: corners(outline), fill: "#f6f4ef"}, svg);
  const drawn = [...plan.things].sort((a, b) => a.target - b.target);
  for (const {name, outline, color, asked, target} of drawn.filter(thing => !thing.target)) draw(name, outline, color, asked, target);
  for (const {kind, ends} of [...plan.edges].sort((a, b) => (b.kind === "wall") - (a.kind === "wall"))) {
    const [stroke, wide] = EDGES[kind], [[x1, y1], [x2, y2]] = ends;
    shape("line", {x1, y1, x2, y2, stroke, "stroke-width": wide * pixel, class: kind}, svg);
  }
  for (const {name, outline, color, asked, target} of drawn.filter(thing => thing.target)) draw(name, outline, color, asked, target);
  function draw(name, outline, fill, asked, target) {
    const line = target ? {stroke: "#e00", "stroke-width": 2.5 * pixel, class: "target"} : {stroke: "#5558", "stroke-width": .4 * pixel};
    shape("title", {}, shape("polygon", {points: corners(outline), fill, "fill-opacity": asked ? .9 : .5, ...line}, svg)).textContent = name;
  }
  const line = {fill: "none", "stroke-linejoin": "round", "stroke-linecap": "round", "stroke-width": 2.5 * pixel};
  if (walk.shortest) shape("polyline", {...line, id: "shortest", points: corners(onPlan(walk.shortest)), stroke: "#2e8b57", "stroke-dasharray": `${2 * pixel} ${5 * pixel}`}, svg);
  shape("polyline", {...line, points: corners(onPlan(walk.poses)), stroke: "#c0392b", "stroke-opacity": .28}, svg);
  shape("polyline", {...line, id: "walked", stroke: "#c0392b"}, svg);
  nameRegions(svg, box, 13 * pixel);
  const [x, , z] = walk.poses[0], size = 7 * pixel;
  shape("circle", {cx: x, cy: z, r: size * .55, fill: "#fff", stroke: "#c0392b", "stroke-width": 2 * pixel}, svg);
  const here = shape("g", {id: "here"}, svg);
  shape("path", {d: "M0 0 L-3.2 -3.6 A4.8 4.8 0 0 1 3.2 -3.6 Z", transform: `scale(${size})`, fill: "#c0392b", "fill-opacity": .22}, here);
  shape("path", {d: "M0 -1.5 L1.05 1.1 L0 .55 L-1.05 1.1 Z", transform: `scale(${size})`, fill: "#c0392b", stroke: "#fff", "stroke-width": .22}, here);
  $("plan").replaceChildren(svg);
  $("zoom").textContent = isNear ? "whole house" : "around the walk";
}

// Names of rooms, the smallest room first; one that would lie over another or leave the picture is left out.
function nameRegions(svg, [left, top, width, height], size) {
  const taken = [];
  for (const {name, middle: [x, y]} of walk.plan.regions) {
    const half = [name.length * size * .29, size * .6];
    const inside = x - half[0] > left && x + half[0] < left + width && y - half[1] > top && y + half[1] < top + height;
    const hidden = taken.some(([tx, ty, tw]) => Math.abs(x - tx) < half[0] + tw && Math.abs(y - ty) < 2 * half[1]);
    if (!inside || hidden) continue;
    taken.push([x, y, half[0]]);
    const text = shape("text", {x, y, "font-size": size, "text-anchor": "middle", "dominant-baseline": "middle", fill: "#8a1f1f", stroke: "#f6f4ef", "stroke-width": size / 4, "paint-order": "stroke"}, svg);
    text.textContent = name;
  }
}

const sharesOf = step => (walk.attention?.places || []).filter(place => place[0] === step);
const shareOf = step => sharesOf(step).reduce((sum, place) => sum + place[3], 0);
const percent = share => share && share < .01 ? "under 1 %" : `${Math.round(100 * share)} %`;

// A column for each action: a bar for the attention of the answerer, and a foot in the colour of who chose the action.
function drawStrip() {
  const shares = walk.poses.map((_, step) => shareOf(step)), most = Math.max(...shares, .001);
  $("strip").hidden = !walk.planned && !walk.attention;
  $("strip").replaceChildren(...walk.poses.map((_, step) => {
    const column = made("div"), bar = made("i"), who = walk.planned && step < walk.actions.length ? walk.planned[step] : null;
    bar.style.height = `${70 * shares[step] / most}%`;
    column.append(bar, made("b", "", who === null ? "" : who ? "planner" : "controller"));
    column.addEventListener("click", () => { pause(); seek(step); });
    return column;
  }));
  const earlier = (walk.attention?.places || []).filter(place => place[0] < 0).reduce((sum, place) => sum + place[3], 0);
  const entries = walk.planned ? [["--planner", "chosen by the planner"], ["--controller", "repeated by the controller"]] : [];
  if (walk.attention) entries.push(["--look", `where the answerer looked${earlier >= .01 ? ` (and ${percent(earlier)} before the spawn)` : ""}`]);
  $("legend").replaceChildren(...entries.map(([color, text]) => {
    const entry = made("span", text);
    entry.style.setProperty("--swatch", `var(${color})`);
    return entry;
  }));
}

function drawLook() {
  const places = sharesOf(at), [rows, columns] = walk.attention?.grid || [1, 1];
  $("looked").replaceChildren();
  $("share").hidden = !places.length;
  if (!places.length) return;
  $("share").textContent = `${percent(shareOf(at))} of the answerer's attention`;
  if (rows * columns === 1) return;
  $("looked").setAttribute("viewBox", `0 0 ${columns} ${rows}`);
  const most = Math.max(...walk.attention.places.map(place => place[3]));
  for (const [, row, column, share] of places) {
    shape("rect", {x: column, y: row, width: 1, height: 1, fill: "#f0932b", "fill-opacity": (.75 * Math.sqrt(share / most)).toFixed(2)}, $("looked"));
  }
}

function seek(step) {
  at = Math.max(0, Math.min(step, walk.poses.length - 1));
  const [x, , z, heading] = walk.poses[at], action = walk.actions[at];
  showView();
  drawLook();
  $("slider").value = at;
  const who = walk.planned && action ? (walk.planned[at] ? ", planner" : ", controller") : "";
  $("at").textContent = `${at} of ${walk.poses.length - 1}` + (action ? `, then ${action}${who}` : ", the end");
  $("strip").querySelector(".here")?.classList.remove("here");
  $("strip").children[at].classList.add("here");
  $("walked").setAttribute("points", corners(onPlan(walk.poses.slice(0, at + 1))));
  $("here").setAttribute("transform", `translate(${x} ${z}) rotate(${-heading * 180 / Math.PI})`);
}

function pause() { clearInterval(player); player = null; $("play").textContent = "Play"; }

function play() {
  if (player) return pause();
  if (at === walk.poses.length - 1) seek(0);
  $("play").textContent = "Pause";
  player = setInterval(() => {
    if (at === walk.poses.length - 1) pause();
    else if (frames[sensor][at + 1]) seek(at + 1);
    else load(at + 1);
  }, FRAME_MS);
}

function replayKey(event) {
  const action = KEYS[keyOf(event)];
  if (walk === null || $("viewer").hidden) return;
  if (action === "left" || action === "right") {
    event.preventDefault();
    pause();
    seek(at + (action === "right" ? 1 : -1));
  } else if (action === "stop") {
    event.preventDefault();
    if (!event.repeat) play();
  }
}

$("zoom").addEventListener("click", () => { isNear = !isNear; drawPlan(); seek(at); $("zoom").blur(); });
$("depth").addEventListener("click", () => {
  sensor = sensor === "rgb" ? "depth" : "rgb";
  $("depth").setAttribute("aria-pressed", sensor === "depth");
  $("depth").blur();
  showView();
});
$("play").addEventListener("click", () => { play(); $("play").blur(); });
$("slider").addEventListener("input", () => { pause(); seek(Number($("slider").value)); });

route();
ask("/state").then(show).catch(complain);
