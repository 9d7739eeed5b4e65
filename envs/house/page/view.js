// View: draws the home from a pose. Colours are those of envs/rendering: sRGB texels times light, nothing else.

const MOST_UP_RAD = 40 * Math.PI / 180; // half of the view's height, in a tall window
const FAR_M = 500;
const MOST_ANISOTROPY = 8;
const NO_WEBGL = "This page draws with WebGL 2, which this browser does not offer. "
  + "Another browser may, or this one with hardware acceleration switched on.";

const VERTEX = `#version 300 es
uniform mat4 camera, model;
uniform mat3 turn; // of normals
layout(location = 0) in vec3 position;
layout(location = 1) in vec3 normal;
layout(location = 2) in vec2 uv;
layout(location = 3) in vec4 color;
out vec3 way;
out vec2 at;
out vec3 baked;
void main() {
  way = turn * normal;
  at = uv;
  vec3 c = color.rgb; // linear light; the share that it means of an sRGB colour:
  baked = mix(12.92 * c, 1.055 * pow(c, vec3(1.0 / 2.4)) - 0.055, step(0.0031308, c));
  gl_Position = camera * model * vec4(position, 1.0);
}`;

const FRAGMENT = `#version 300 es
precision highp float;
uniform sampler2D surface;
uniform int light; // 0 glows, 1 by its normal, 2 baked
in vec3 way;
in vec2 at;
in vec3 baked;
out vec4 pixel;
float brightness(vec3 n) { // as envs/rendering/lighting.py
  float sun = 0.24 * max(0.0, dot(n, vec3(0.40, 0.80, 0.45)));
  float fill = 0.14 * max(0.0, dot(n, vec3(-0.81, 0.12, -0.57)));
  return min(1.0, 0.66 + 0.08 * n.y + sun + fill);
}
void main() {
  vec3 share = vec3(1.0);
  if (light == 1) share *= brightness(normalize(gl_FrontFacing ? way : -way));
  if (light == 2) share = baked;
  pixel = vec4(texture(surface, at).rgb * share, 1.0);
}`;

const OUTSIDE_VERTEX = `#version 300 es
uniform vec3 right, up, forward; // to the edges of the view, and ahead
out vec3 ray;
void main() {
  vec2 corner = vec2(gl_VertexID % 2, gl_VertexID / 2) * 4.0 - 1.0;
  ray = forward + right * corner.x + up * corner.y;
  gl_Position = vec4(corner, 1.0, 1.0);
}`;

const OUTSIDE_FRAGMENT = `#version 300 es
precision highp float;
uniform sampler2D panorama; // columns clockwise from heading 0, rows from straight down to straight up
in vec3 ray;
out vec4 pixel;
const float HALF_PI = 1.5707963;
void main() {
  float up = asin(normalize(ray).y) / HALF_PI;
  vec2 at = vec2(atan(ray.x, -ray.z) / (4.0 * HALF_PI), 0.5 + 0.5 * sign(up) * sqrt(abs(up)));
  pixel = vec4(texture(panorama, at).rgb, 1.0);
}`;

class View {
  constructor(canvas, camera) {
    this.canvas = canvas;
    this.camera = camera;
    this.gl = canvas.getContext("webgl2", {alpha: false, antialias: true});
    if (!this.gl) throw new Error(NO_WEBGL);
    canvas.addEventListener("webglcontextlost", event => event.preventDefault());
    canvas.addEventListener("webglcontextrestored", () => location.reload());
  }

  async load(glb, outside, columns) { // bytes of a panorama of so many columns
    const {gl} = this;
    this.program = linked(gl, VERTEX, FRAGMENT);
    this.outside = linked(gl, OUTSIDE_VERTEX, OUTSIDE_FRAGMENT);
    this.nothing = gl.createVertexArray();
    this.panorama = texture(gl, {width: columns, height: outside.length / 3 / columns, data: outside});
    const images = await Promise.all(glb.images.map(image =>
      createImageBitmap(image, {colorSpaceConversion: "none", premultiplyAlpha: "none"})));
    const textures = images.map(image => texture(gl, image));
    const buffers = new Map(), arrays = new Map();
    this.things = glb.placed.map(({model, centre, radius, primitives}) => ({
      model: new Float32Array(model), turn: normalTurn(model), mirrored: determinant(model) < 0, centre, radius,
      parts: primitives.map(part => {
        const key = JSON.stringify([part.attributes, part.indices]);
        if (!arrays.has(key)) arrays.set(key, vertexArray(gl, glb, part, buffers));
        const {image, unlit} = glb.materials[part.material];
        const light = "COLOR_0" in part.attributes ? 2 : unlit ? 0 : 1;
        return {...arrays.get(key), texture: textures[image], light};
      }),
    }));
  }

  tangents() { // of half the view's width and height: a square of the camera's angle fits into it
    const square = Math.tan(this.camera.fov_deg * Math.PI / 360), aspect = this.canvas.width / this.canvas.height;
    const up = aspect >= 1 ? square : Math.min(square / aspect, Math.max(square, Math.tan(MOST_UP_RAD)));
    return [up * aspect, up];
  }

  resize(width, height) {
    this.canvas.width = Math.max(1, Math.round(width));
    this.canvas.height = Math.max(1, Math.round(height));
  }

  draw(pose, eye_m) { // pose: x, z, heading and pitch
    const {gl, canvas} = this, [across, up] = this.tangents();
    const c = Math.cos(pose.heading), s = Math.sin(pose.heading), cp = Math.cos(pose.pitch), sp = Math.sin(pose.pitch);
    const axes = [[c, 0, -s], [s * sp, cp, c * sp], [-s * cp, sp, -c * cp]]; // right, up, forward
    const eye = [pose.x, eye_m, pose.z], rows = [axes[0].map(n => n / across), axes[1].map(n => n / up), axes[2]];
    gl.viewport(0, 0, canvas.width, canvas.height);
    gl.enable(gl.DEPTH_TEST);
    gl.depthFunc(gl.LEQUAL);
    gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
    gl.useProgram(this.program.id);
    gl.uniformMatrix4fv(this.program.at("camera"), false, cameraMatrix(rows, eye, this.camera.near_m));
    const borders = bordersOf(rows), isSeen = thing => borders.every(n => ahead(n, thing.centre, eye) > -thing.radius);
    this.things.filter(isSeen).forEach(thing => this.drawThing(thing));
    gl.useProgram(this.outside.id);
    gl.uniform3fv(this.outside.at("right"), axes[0].map(n => n * across));
    gl.uniform3fv(this.outside.at("up"), axes[1].map(n => n * up));
    gl.uniform3fv(this.outside.at("forward"), axes[2]);
    gl.bindTexture(gl.TEXTURE_2D, this.panorama);
    gl.bindVertexArray(this.nothing);
    gl.drawArrays(gl.TRIANGLES, 0, 3);
  }

  drawThing({model, turn, mirrored, parts}) {
    const {gl, program} = this;
    gl.uniformMatrix4fv(program.at("model"), false, model);
    gl.uniformMatrix3fv(program.at("turn"), false, turn);
    gl.frontFace(mirrored ? gl.CW : gl.CCW);
    for (const part of parts) {
      gl.uniform1i(program.at("light"), part.light);
      gl.bindTexture(gl.TEXTURE_2D, part.texture);
      gl.bindVertexArray(part.array);
      gl.drawElements(gl.TRIANGLES, part.count, part.type, 0);
    }
  }
}

function bordersOf([right, up, forward]) { // unit normals of the four planes round a view, inwards
  return [[right, 1], [right, -1], [up, 1], [up, -1]].map(([aside, sign]) => {
    const normal = forward.map((n, k) => n + sign * aside[k]), length = Math.hypot(...normal);
    return normal.map(n => n / length);
  });
}

function ahead(normal, place, eye) { // metres of a place before the eye, along a normal
  return normal.reduce((sum, n, k) => sum + n * (place[k] - eye[k]), 0);
}

function linked(gl, vertex, fragment) {
  const id = gl.createProgram();
  for (const [kind, source] of [[gl.VERTEX_SHADER, vertex], [gl.FRAGMENT_SHADER, fragment]]) {
    const shader = gl.createShader(kind);
    gl.shaderSource(shader, source);
    gl.compileShader(shader);
    gl.attachShader(id, shader);
  }
  gl.linkProgram(id);
  if (!gl.getProgramParameter(id, gl.LINK_STATUS)) {
    throw new Error(`The graphics driver refuses a shader: ${gl.getProgramInfoLog(id)}`);
  }
  const places = new Map();
  for (let k = 0; k < gl.getProgramParameter(id, gl.ACTIVE_UNIFORMS); k++) {
    const {name} = gl.getActiveUniform(id, k);
    places.set(name, gl.getUniformLocation(id, name));
  }
  return {id, at: name => places.get(name)};
}

function texture(gl, image) { // an ImageBitmap, or {width, height, data} of RGB bytes
  const made = gl.createTexture();
  gl.bindTexture(gl.TEXTURE_2D, made);
  if (image.data) {
    gl.pixelStorei(gl.UNPACK_ALIGNMENT, 1);
    gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGB8, image.width, image.height, 0, gl.RGB, gl.UNSIGNED_BYTE, image.data);
  } else {
    gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA8, gl.RGBA, gl.UNSIGNED_BYTE, image);
  }
  const single = image.data || image.width * image.height === 1;
  gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MAG_FILTER, single ? gl.NEAREST : gl.LINEAR);
  gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MIN_FILTER, single ? gl.NEAREST : gl.LINEAR_MIPMAP_LINEAR);
  if (single) return made;
  gl.generateMipmap(gl.TEXTURE_2D);
  const sharp = gl.getExtension("EXT_texture_filter_anisotropic");
  if (sharp) {
    const most = Math.min(MOST_ANISOTROPY, gl.getParameter(sharp.MAX_TEXTURE_MAX_ANISOTROPY_EXT));
    gl.texParameterf(gl.TEXTURE_2D, sharp.TEXTURE_MAX_ANISOTROPY_EXT, most);
  }
  return made;
}

function vertexArray(gl, glb, part, buffers) {
  const array = gl.createVertexArray();
  gl.bindVertexArray(array);
  const bind = (accessor, target) => {
    const entry = glb.accessors[accessor];
    const known = buffers.has(entry.bufferView);
    if (!known) buffers.set(entry.bufferView, gl.createBuffer());
    gl.bindBuffer(target, buffers.get(entry.bufferView));
    if (!known) gl.bufferData(target, glb.bytesOf(entry.bufferView), gl.STATIC_DRAW);
    return entry;
  };
  ["POSITION", "NORMAL", "TEXCOORD_0", "COLOR_0"].forEach((name, place) => {
    if (!(name in part.attributes)) return gl.vertexAttrib4f(place, 1, 1, 1, 1);
    const entry = bind(part.attributes[name], gl.ARRAY_BUFFER);
    gl.enableVertexAttribArray(place);
    gl.vertexAttribPointer(place, WIDTHS[entry.type], entry.componentType, entry.componentType !== FLOAT, 0, 0);
  });
  const indices = bind(part.indices, gl.ELEMENT_ARRAY_BUFFER);
  gl.bindVertexArray(null);
  return {array, count: indices.count, type: indices.componentType};
}

function cameraMatrix(rows, eye, near) { // columns; rows: right and up by their tangents, forward
  const depth = [(FAR_M + near) / (FAR_M - near), -2 * FAR_M * near / (FAR_M - near)];
  const moved = rows.map(row => -row.reduce((d, n, k) => d + n * eye[k], 0));
  const matrix = [];
  for (let k = 0; k < 3; k++) matrix.push(rows[0][k], rows[1][k], rows[2][k] * depth[0], rows[2][k]);
  matrix.push(moved[0], moved[1], moved[2] * depth[0] + depth[1], moved[2]);
  return new Float32Array(matrix);
}

function cofactors(m) { // of the upper left 3 x 3, column after column: the inverse transposed, times the determinant
  const at = (row, column) => m[4 * (column % 3) + row % 3], out = [];
  for (let j = 0; j < 3; j++) for (let i = 0; i < 3; i++) {
    out.push(at(i + 1, j + 1) * at(i + 2, j + 2) - at(i + 1, j + 2) * at(i + 2, j + 1));
  }
  return out;
}

function determinant(m) {
  const first = cofactors(m);
  return m[0] * first[0] + m[1] * first[1] + m[2] * first[2];
}

function normalTurn(m) {
  const scale = determinant(m);
  return new Float32Array(cofactors(m).map(n => n / scale));
}
