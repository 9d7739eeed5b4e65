// readGlb: a file of envs/house/export.py, ready to be drawn: its bytes, images, materials and placed meshes.

const GLB_HEADER = 20, GLB_CHUNK = 8, FLOAT = 5126;
const WIDTHS = {SCALAR: 1, VEC2: 2, VEC3: 3, VEC4: 4};

function readGlb(buffer) {
  const size = new DataView(buffer).getUint32(12, true);
  const glb = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, GLB_HEADER, size)));
  const start = GLB_HEADER + size + GLB_CHUNK;
  const bytesOf = view => {
    const {byteOffset, byteLength} = glb.bufferViews[view];
    return new Uint8Array(buffer, start + byteOffset, byteLength);
  };
  const materials = glb.materials.map(material => ({
    image: glb.textures[material.pbrMetallicRoughness.baseColorTexture.index].source,
    unlit: Boolean(material.extensions && material.extensions.KHR_materials_unlit),
  }));
  const images = glb.images.map(image => new Blob([bytesOf(image.bufferView)], {type: image.mimeType}));
  const placed = glb.nodes.filter(node => "mesh" in node).map(node => {
    const {primitives} = glb.meshes[node.mesh];
    const model = node.matrix || [1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1];
    return {model, ...sphereAround(glb.accessors[primitives[0].attributes.POSITION], model), primitives};
  });
  return {accessors: glb.accessors, bytesOf, materials, images, placed};
}

function sphereAround({min, max}, m) { // of a placed box
  const middle = min.map((low, k) => (low + max[k]) / 2), half = min.map((low, k) => (max[k] - low) / 2);
  const centre = [0, 1, 2].map(row => middle.reduce((sum, length, k) => sum + m[4 * k + row] * length, m[12 + row]));
  const reach = [0, 1, 2].map(row => half.reduce((sum, length, k) => sum + Math.abs(m[4 * k + row]) * length, 0));
  return {centre, radius: Math.hypot(...reach)};
}
