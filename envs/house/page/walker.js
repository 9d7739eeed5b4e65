// Walker: the visitor's pose, moved by keys, buttons and drags. Its floor stops it where it would stop an agent.

const WALK_M_S = 1.6, TURN_RAD_S = 1.6, MOST_PITCH_RAD = 1.0;
const SHORTEST_S = 0.04, LONGEST_S = 0.1; // of one move: a tap counts, a slow frame does not carry through a wall
const MOVES = { // along, aside, turn
  KeyW: [1, 0, 0], ArrowUp: [1, 0, 0], KeyS: [-1, 0, 0], ArrowDown: [-1, 0, 0],
  KeyA: [0, -1, 0], KeyD: [0, 1, 0], KeyQ: [0, 0, 1], KeyE: [0, 0, -1], ArrowLeft: [0, 0, 1], ArrowRight: [0, 0, -1],
};

class Walker {
  constructor(floor, [x, z, heading], eye_m) {
    Object.assign(this, {floor, eye_m});
    this.pose = {x, z, heading, pitch: 0};
    this.held = new Set();
    this.released = new Set();
    this.onMove = () => {}; // called when the visitor moves by hand
  }

  stand(x, z, heading) {
    this.pose = {x, z, heading, pitch: 0};
  }

  hold(code) {
    this.held.add(code);
    this.released.delete(code);
    this.onMove();
  }

  release(code) { // after one more move, so that the shortest tap counts
    this.released.add(code);
  }

  look(turn, tilt) {
    this.pose.heading += turn;
    this.pose.pitch = Math.min(MOST_PITCH_RAD, Math.max(-MOST_PITCH_RAD, this.pose.pitch + tilt));
  }

  move(seconds) { // true if the pose has changed
    if (!this.held.size) return false;
    const s = Math.min(LONGEST_S, Math.max(SHORTEST_S, seconds)), {pose} = this;
    const total = k => Math.sign([...this.held].reduce((sum, code) => sum + MOVES[code][k], 0));
    const [along, aside, turn] = [0, 1, 2].map(total), metres = WALK_M_S * s / Math.max(1, Math.hypot(along, aside));
    const right = [Math.cos(pose.heading), -Math.sin(pose.heading)], forward = [right[1], -right[0]];
    const [dx, dz] = [0, 1].map(k => metres * (aside * right[k] + along * forward[k]));
    const [x, z] = this.floor.slide(pose.x, pose.z, dx, dz);
    this.pose = {...pose, x, z, heading: pose.heading + turn * TURN_RAD_S * s};
    for (const code of this.released) this.held.delete(code);
    this.released.clear();
    return true;
  }
}

function listen(walker, canvas, pad, lookAround) { // lookAround(dx, dy): a drag, in shares of the view
  document.addEventListener("keydown", event => {
    const typing = event.target.matches("input") && event.code.startsWith("Arrow");
    if (!(event.code in MOVES) || typing || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    if (!event.repeat) walker.hold(event.code);
  });
  document.addEventListener("keyup", event => walker.release(event.code));
  window.addEventListener("blur", () => walker.held.forEach(code => walker.release(code)));
  for (const button of pad.querySelectorAll("[data-code]")) {
    const {code} = button.dataset;
    button.addEventListener("pointerdown", event => {
      event.preventDefault();
      button.setPointerCapture(event.pointerId);
      walker.hold(code);
    });
    button.addEventListener("lostpointercapture", () => walker.release(code));
    button.addEventListener("contextmenu", event => event.preventDefault());
  }
  let dragged = null;
  canvas.addEventListener("pointerdown", event => {
    dragged = event;
    canvas.focus();
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", event => {
    if (!dragged || event.pointerId !== dragged.pointerId) return;
    const [dx, dy] = [event.clientX - dragged.clientX, event.clientY - dragged.clientY];
    lookAround(dx / canvas.clientWidth, dy / canvas.clientHeight);
    dragged = event;
  });
  for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, () => { dragged = null; });
}
