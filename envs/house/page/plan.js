// Plan: the home from above with the names of its rooms, the visitor, and the walk of a question.

const FONTS_PX = [14, 12, 10.5]; // of names: the first that fits
const LINE = 1.15; // distance of lines, in font sizes
const SMALL_PLAN_PX = 400; // without the largest

class Plan {
  constructor(canvas, {origin, size_m}, rooms, image, goTo) {
    const [width_m, height_m] = size_m, longest = Math.max(...size_m);
    Object.assign(this, {canvas, origin, width_m, rooms, image, walk: [], done: 0});
    canvas.style.aspectRatio = `${width_m} / ${height_m}`;
    canvas.parentElement.style.setProperty("--share", width_m / longest);
    canvas.addEventListener("click", event => {
      const box = canvas.getBoundingClientRect(), metres = width_m / box.width;
      goTo(origin[0] + (event.clientX - box.left) * metres, origin[1] + (event.clientY - box.top) * metres);
    });
  }

  draw(pose, spread_rad) { // half of the view's angle
    const {clientWidth: width, clientHeight: height} = this.canvas, dpr = window.devicePixelRatio || 1;
    if (!width) return;
    const c = this.canvas.getContext("2d"), size = [width, height].map(length => Math.round(length * dpr));
    if (this.canvas.width !== size[0] || this.canvas.height !== size[1]) [this.canvas.width, this.canvas.height] = size;
    const pixels = width / this.width_m, at = (x, z) => [(x - this.origin[0]) * pixels, (z - this.origin[1]) * pixels];
    c.setTransform(dpr, 0, 0, dpr, 0, 0);
    c.imageSmoothingQuality = "high";
    c.drawImage(this.image, 0, 0, width, height);
    this.drawWalk(c, at);
    this.drawNames(c, at, pixels, FONTS_PX.slice(Math.max(width, height) < SMALL_PLAN_PX ? 1 : 0));
    drawVisitor(c, at(pose.x, pose.z), pose.heading, spread_rad);
  }

  drawNames(c, at, pixels, fonts_px) { // of the rooms that have space for one, broken into words if need be
    c.textAlign = "center";
    c.textBaseline = "middle";
    for (const {name, outline, at: [x, z]} of this.rooms) {
      const [from, to] = breadth(outline, x, z), [low, high] = breadth(outline.map(([a, b]) => [b, a]), z, x);
      const fits = ([px, lines]) => {
        c.font = `600 ${px}px system-ui, sans-serif`;
        const width = Math.max(...lines.map(line => c.measureText(line).width));
        return width < (to - from) * pixels && lines.length * px * LINE < (high - low) * pixels;
      };
      const found = fonts_px.flatMap(px => [[px, [name]], [px, name.split(" ")]]).find(fits);
      if (!found) continue;
      const [px, lines] = found, [middle, y] = at((from + to) / 2, z);
      lines.forEach((line, k) => {
        const lower = y + (k - (lines.length - 1) / 2) * px * LINE;
        outlined(c, () => c.strokeText(line, middle, lower), () => c.fillText(line, middle, lower), "#22242a", 3);
      });
    }
  }

  drawWalk(c, at) { // the walked part in full colour
    const line = places => {
      c.beginPath();
      places.forEach(({x, z}) => c.lineTo(...at(x, z)));
      c.stroke();
    };
    c.lineJoin = c.lineCap = "round";
    if (!this.walk.length) return;
    outlined(c, () => line(this.walk), () => {}, "", 5);
    c.lineWidth = 2.5;
    c.strokeStyle = "#e0a79f";
    line(this.walk);
    c.strokeStyle = "#c0392b";
    line(this.walk.slice(0, this.done + 1));
    const [x, y] = at(this.walk.at(-1).x, this.walk.at(-1).z);
    c.beginPath();
    c.arc(x, y, 4, 0, 2 * Math.PI);
    outlined(c, () => c.stroke(), () => c.fill(), "#c0392b", 3);
  }
}

function breadth(outline, x, z) { // of a room at the height z: the stretch from wall to wall that x is on
  const walls = outline.flatMap(([ax, az], k) => {
    const [bx, bz] = outline[(k + 1) % outline.length];
    return (az <= z) !== (bz <= z) ? [ax + (z - az) * (bx - ax) / (bz - az)] : [];
  });
  return [Math.max(...walls.filter(wall => wall <= x)), Math.min(...walls.filter(wall => wall > x))];
}

function outlined(c, stroke, fill, colour, width) { // on white, to be read on any floor
  c.lineWidth = width;
  c.lineJoin = "round";
  c.strokeStyle = "#ffffffd0";
  stroke();
  c.fillStyle = colour;
  fill();
}

function drawVisitor(c, [x, y], heading, spread_rad) {
  const ahead = -Math.PI / 2 - heading; // on the canvas, whose y grows downwards
  c.beginPath();
  c.moveTo(x, y);
  c.arc(x, y, 26, ahead - spread_rad, ahead + spread_rad);
  c.fillStyle = "#2f6fb355";
  c.fill();
  c.beginPath();
  c.arc(x, y, 5, 0, 2 * Math.PI);
  outlined(c, () => c.stroke(), () => c.fill(), "#2f6fb3", 3);
}
