// The page: reads what is embedded, joins the parts, and draws whenever something has changed.

const PERSON_M = 1.6;
const $ = id => document.getElementById(id);
const home = JSON.parse($("house").textContent);
const touch = matchMedia("(pointer: coarse)").matches;

function bytes(id) { // of base 64
  const text = atob($(id).textContent), out = new Uint8Array(text.length);
  for (let k = 0; k < out.length; k++) out[k] = text.charCodeAt(k);
  return out;
}

function unpacked(id) { // an ArrayBuffer
  const stream = new Blob([bytes(id)]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).arrayBuffer();
}

function say(text, seconds) {
  $("note").textContent = text;
  $("note").hidden = !text;
  clearTimeout(say.timer);
  if (seconds) say.timer = setTimeout(() => say(""), seconds * 1000);
}

async function openHome() {
  const view = new View($("view"), home.camera);
  await view.load(readGlb(await unpacked("glb")), new Uint8Array(await unpacked("outside")), home.outside_columns);
  const floor = new Floor(home.floor, new Uint8Array(await unpacked("free")), home.rooms);
  const image = await createImageBitmap(new Blob([bytes("plan-image")], {type: "image/jpeg"}));
  const walker = new Walker(floor, home.start, home.camera.eye_m);
  const state = {changed: true};
  const changed = () => { state.changed = true; };
  const plan = new Plan($("plan"), home.plan, home.rooms, image, (x, z) => {
    const place = floor.nearest(x, z);
    if (!place) return say("There is no floor to stand on.", 2);
    questions.pause();
    walker.stand(...place, walker.pose.heading);
    changed();
  });
  const questions = new Questions(home, walker, plan, changed);
  listen(walker, $("view"), $("pad"), (dx, dy) => {
    const [across, up] = view.tangents();
    questions.pause();
    walker.look(2 * Math.atan(across) * dx, 2 * Math.atan(up) * dy);
    changed();
  });
  new ResizeObserver(() => {
    const dpr = Math.min(2, window.devicePixelRatio || 1);
    view.resize($("stage").clientWidth * dpr, $("stage").clientHeight * dpr);
    changed();
  }).observe($("stage"));
  arrange(walker, changed);
  let before = performance.now();
  const tick = now => {
    const seconds = (now - before) / 1000;
    before = now;
    questions.advance(seconds);
    if (walker.move(seconds) || state.changed) {
      state.changed = false;
      view.draw(walker.pose, walker.eye_m);
      plan.draw(walker.pose, Math.atan(view.tangents()[0]));
      $("eye").textContent = `eyes at ${walker.eye_m.toFixed(1)} m`;
      $("where").textContent = floor.roomAt(walker.pose.x, walker.pose.z) || "in a doorway";
    }
    requestAnimationFrame(tick);
  };
  requestAnimationFrame(tick);
  return {view, floor, walker, plan, questions};
}

function arrange(walker, changed) { // the buttons round the view
  const enlarge = large => {
    document.body.classList.toggle("large", large);
    $("larger").textContent = large ? "smaller" : "larger";
    changed();
  };
  enlarge(false);
  $("larger").addEventListener("click", () => enlarge(!document.body.classList.contains("large")));
  $("eye").addEventListener("click", () => {
    walker.eye_m = walker.eye_m === PERSON_M ? home.camera.eye_m : PERSON_M;
    changed();
  });
  $("open-list").addEventListener("click", () => document.body.classList.toggle("listing"));
  $("close-list").addEventListener("click", () => document.body.classList.remove("listing"));
  $("show-credits").addEventListener("click", () => $("credits").showModal());
  for (const button of document.querySelectorAll("button")) button.addEventListener("click", () => button.blur());
  $("hint").textContent = touch
    ? "Hold the arrows to walk, drag to look, tap the plan to go there."
    : "W A S D or arrows walk and turn. Drag to look around. Click the plan to go there.";
}

const opened = openHome();
opened.then(
  () => { say(""); document.body.dataset.state = "ready"; },
  error => { say(error.message); document.body.dataset.state = "failed"; },
);
