// Questions: the list, and the card of the chosen one with the shortest walk to its answer, played step by step.

const STEPS_A_SECOND = 7;
const WORDS = {F: "forward", L: "left", R: "right", S: "stop"};

function posesOf({start: [x, z, turns], walk}, step_m, turn_rad) { // before each action
  return [...walk].map(letter => {
    const pose = {x, z, heading: turns * turn_rad};
    if (letter === "F") [x, z] = [x - step_m * Math.sin(pose.heading), z - step_m * Math.cos(pose.heading)];
    if (letter === "L") turns += 1;
    if (letter === "R") turns -= 1;
    return pose;
  });
}

class Questions {
  constructor(home, walker, plan, changed) {
    Object.assign(this, {walker, plan, changed, agent_m: home.camera.eye_m, chosen: -1, at: 0, playing: false});
    this.all = home.questions.map(question => ({...question, poses: posesOf(question, home.step_m, home.turn_rad)}));
    $("count").textContent = this.all.length === 1 ? "1 question" : `${this.all.length || "No"} questions`;
    $("list").replaceChildren(...this.all.map((question, index) => {
      const button = document.createElement("button");
      button.textContent = question.question;
      button.addEventListener("click", () => this.choose(index));
      return button;
    }));
    $("play").addEventListener("click", () => this.playing ? this.pause() : this.play());
    $("at").addEventListener("input", () => { this.pause(); this.go(Number($("at").value)); });
    $("reveal").addEventListener("click", () => this.reveal());
    $("next").addEventListener("click", () => this.choose((this.chosen + 1) % this.all.length));
    $("leave").addEventListener("click", () => this.leave());
    walker.onMove = () => this.pause();
    this.label();
  }

  choose(index) { // stands where the walk begins
    const {question, poses} = this.all[this.chosen = index];
    $("asked").textContent = question;
    $("answer").hidden = true;
    $("at").max = poses.length - 1;
    $("card").hidden = false;
    document.body.classList.add("asking");
    document.body.classList.remove("listing");
    [...$("list").children].forEach((button, k) => button.toggleAttribute("aria-current", k === index));
    $("list").children[index].scrollIntoView({block: "nearest"});
    this.plan.walk = poses;
    this.pause();
    this.go(0);
  }

  leave() {
    this.pause();
    this.chosen = -1;
    this.plan.walk = [];
    $("card").hidden = true;
    document.body.classList.remove("asking");
    [...$("list").children].forEach(button => button.removeAttribute("aria-current"));
    this.changed();
  }

  go(at) { // to a step of the walk, or between two
    const {poses} = this.all[this.chosen], step = Math.floor(at), share = at - step;
    const [from, to] = [poses[step], poses[Math.min(step + 1, poses.length - 1)]];
    const between = name => from[name] + share * (to[name] - from[name]);
    this.at = at;
    this.plan.done = step;
    this.walker.stand(between("x"), between("z"), between("heading"));
    this.walker.eye_m = this.agent_m;
    $("at").value = step;
    this.label();
    this.changed();
  }

  play() {
    const last = this.all[this.chosen].poses.length - 1;
    if (this.at >= last) this.go(0);
    this.playing = true;
    this.label();
  }

  pause() {
    this.playing = false;
    this.label();
  }

  advance(seconds) {
    if (!this.playing) return;
    const last = this.all[this.chosen].poses.length - 1;
    this.go(Math.min(last, this.at + seconds * STEPS_A_SECOND));
    if (this.at < last) return;
    this.pause();
    this.reveal();
  }

  reveal() {
    $("answer").textContent = this.all[this.chosen].answer;
    $("answer").hidden = false;
  }

  label() {
    $("play").textContent = this.playing ? "Pause" : "Show me";
    if (this.chosen < 0) return;
    const {walk} = this.all[this.chosen], step = Math.floor(this.at);
    $("step").textContent = `${step + 1} of ${walk.length}: ${WORDS[walk[step]]}`;
  }
}
