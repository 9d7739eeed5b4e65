"""The compiled loops of the rasteriser: cull, transform, fill a visibility buffer, then shade each pixel once.

A view is drawn in three stages. Instances inside the view are sorted near first and tested against the depth drawn so
far. The triangles of those that remain write 1/z and a record number per pixel. Shading then reads each pixel's record.

Space: a vertex is (f * right, f * down, forward) in metres seen from the camera, f the focal length in pixels, so that
dividing by the third gives pixels from the image's centre. In that space 1/z and any attribute over z are linear on the
screen, so one plane (a, b, c) each, found from the unclipped triangle, is exact (Olano & Greer 1997).

An edge's crossing with a row is always computed from its upper end by the same expression, so that triangles that share
an edge leave neither gaps nor doubly drawn pixels.

`no_type_check` keeps jaxtyping's import hook, which the tests use, from wrapping what Numba compiles.

Axes: N views, H W image, V vertices, F faces, G meshes, I instances, L lights (one per vertex of every instance).
"""

from typing import NamedTuple, no_type_check

import numpy as np
from numba import get_thread_id, njit, prange

TILE = 8  # pixels; the depth test of whole objects and small triangles looks at the farthest depth of such squares
CHUNK = 16  # pixels that share one choice of mip level
REFRESH_SHARE = 8  # the tiles are brought up to date after 1 / REFRESH_SHARE of the image was painted

_F = np.float32
_ZERO, _HALF, _ONE = _F(0), _F(0.5), _F(1)
_SHARP = {"cache": True, "error_model": "numpy", "nogil": True}


class World(NamedTuple):
    """Everything that can be drawn. Rows of all scenes stand end to end; `scene_range` says whose are whose."""

    xyz: np.ndarray  # (3, V) float32
    uv: np.ndarray  # (V, 2) float32
    faces: np.ndarray  # (F, 3) int32, relative to the mesh's first vertex
    face_slot: np.ndarray  # (F,) int32
    face_inward: np.ndarray  # (F,) bool: the winding points against the vertex normals
    vertex_range: np.ndarray  # (G, 2) int64
    face_range: np.ndarray  # (G, 2) int64
    box: np.ndarray  # (G, 6) float32: centre, half size
    scene_range: np.ndarray  # (S, 2) int64: instances
    mesh: np.ndarray  # (I,) int64
    rotation_scale: np.ndarray  # (I, 3, 3) float64
    translation: np.ndarray  # (I, 3) float64
    mirrored: np.ndarray  # (I,) bool
    material: np.ndarray  # (I,) int64
    class_id: np.ndarray  # (I,) uint8
    instance_id: np.ndarray  # (I,) uint16
    sphere: np.ndarray  # (I, 4) float64
    light_start: np.ndarray  # (I,) int64
    light: np.ndarray  # (L, 2) uint8: of the side that the normal points to, and of the other
    rgb: np.ndarray  # (M, 3) uint8
    texture: np.ndarray  # (M,) int32
    unlit: np.ndarray  # (M,) uint8
    texels: np.ndarray  # (P,) uint32
    texel_start: np.ndarray  # (T,) int64
    size_log2: np.ndarray  # (T,) int32


class Scratch(NamedTuple):
    """Working memory, first axis one per thread."""

    inverse_depth: np.ndarray  # (threads, H, W) float32, 0 where nothing was hit
    record: np.ndarray  # (threads, H, W) int32
    tile: np.ndarray  # (threads, TH, TW) float32: least 1/z in the tile
    order: np.ndarray  # (threads, I) int64: instances in view, near first
    key: np.ndarray  # (threads, I) float64
    matrix: np.ndarray  # (threads, 12) float32
    vertex_start: np.ndarray  # (threads, I) int64: of a drawn instance's vertices in `point`
    point: np.ndarray  # (threads, 6, V) float32: f*right, f*down, forward, column, row, 1/forward
    plane: np.ndarray  # (threads, R, 3) float32 of 1/z
    attribute: np.ndarray  # (threads, R, 9) float32: planes of light/z, u/z, v/z
    owner: np.ndarray  # (threads, R, 2) int64: face, and rank of the instance in `order`
    state: np.ndarray  # (threads, R) uint8: 0 attributes not computed, 1 computed; bit 1: back side is seen


class Lens(NamedTuple):
    width: int
    height: int
    focal_px: float
    near_m: float


@njit(**_SHARP)
@no_type_check
def bake_light(normals, vertex_range, mesh, normal_matrix, start, light):
    """Fills `light` (L, 2) for both sides of every vertex of every instance; see `_brightness`."""
    for i in range(mesh.size):
        first, last = vertex_range[mesh[i], 0], vertex_range[mesh[i], 1]
        m = normal_matrix[i]
        for v in range(first, last):
            x = m[0, 0] * normals[v, 0] + m[0, 1] * normals[v, 1] + m[0, 2] * normals[v, 2]
            y = m[1, 0] * normals[v, 0] + m[1, 1] * normals[v, 1] + m[1, 2] * normals[v, 2]
            z = m[2, 0] * normals[v, 0] + m[2, 1] * normals[v, 1] + m[2, 2] * normals[v, 2]
            scale = 1.0 / max(np.sqrt(x * x + y * y + z * z), 1e-12)
            x, y, z = x * scale, y * scale, z * scale
            row = start[i] + v - first
            light[row, 0] = np.uint8(255.0 * _brightness(x, y, z) + 0.5)
            light[row, 1] = np.uint8(255.0 * _brightness(-x, -y, -z) + 0.5)


@njit(**_SHARP)
@no_type_check
def _brightness(x, y, z):
    """Share of full light, 0 to 1, on a surface whose unit normal is (x, y, z): sky and floor glow, sun, and a fill."""
    ambient = 0.66 + 0.08 * y
    sun = 0.24 * max(0.0, 0.40 * x + 0.80 * y + 0.45 * z)
    fill = 0.14 * max(0.0, -0.81 * x + 0.12 * y - 0.57 * z)
    return min(1.0, ambient + sun + fill)


@njit(**_SHARP)
@no_type_check
def face_inward(vertices, normals, faces, first_vertex, out):
    """out[f] = whether the cross product of face f's edges points against its vertex normals."""
    for f in range(faces.shape[0]):
        a, b, c = faces[f, 0] + first_vertex[f], faces[f, 1] + first_vertex[f], faces[f, 2] + first_vertex[f]
        ux, uy, uz = vertices[b, 0] - vertices[a, 0], vertices[b, 1] - vertices[a, 1], vertices[b, 2] - vertices[a, 2]
        vx, vy, vz = vertices[c, 0] - vertices[a, 0], vertices[c, 1] - vertices[a, 1], vertices[c, 2] - vertices[a, 2]
        nx = normals[a, 0] + normals[b, 0] + normals[c, 0]
        ny = normals[a, 1] + normals[b, 1] + normals[c, 1]
        nz = normals[a, 2] + normals[b, 2] + normals[c, 2]
        out[f] = (uy * vz - uz * vy) * nx + (uz * vx - ux * vz) * ny + (ux * vy - uy * vx) * nz < 0


@njit(**_SHARP)
@no_type_check
def _select(world, scene, view, lens, order, key):
    """Puts the instances whose bounding spheres reach into the view into `order`, near first; returns how many."""
    half_w, half_h, f = lens.width * 0.5, lens.height * 0.5, lens.focal_px
    slant_x, slant_y = np.sqrt(f * f + half_w * half_w), np.sqrt(f * f + half_h * half_h)
    count = 0
    for i in range(world.scene_range[scene, 0], world.scene_range[scene, 1]):
        x, y, z = world.sphere[i, 0] - view[9], world.sphere[i, 1] - view[10], world.sphere[i, 2] - view[11]
        radius = world.sphere[i, 3]
        right = view[0] * x + view[1] * y + view[2] * z
        down = view[3] * x + view[4] * y + view[5] * z
        forward = view[6] * x + view[7] * y + view[8] * z
        if forward + radius < lens.near_m:
            continue
        if abs(right) * f - forward * half_w > radius * slant_x or abs(down) * f - forward * half_h > radius * slant_y:
            continue
        distance = np.sqrt(x * x + y * y + z * z) - radius
        k = count
        while k > 0 and key[k - 1] > distance:
            key[k], order[k] = key[k - 1], order[k - 1]
            k -= 1
        key[k], order[k] = distance, i
        count += 1
    return count


@njit(**_SHARP)
@no_type_check
def _place(world, i, view, lens, m):
    """m (12,) = model -> view space of instance i: three rows of rotation and scale, then the translation."""
    rot = world.rotation_scale[i]
    tx, ty, tz = (
        world.translation[i, 0] - view[9],
        world.translation[i, 1] - view[10],
        world.translation[i, 2] - view[11],
    )
    for r in range(3):
        scale = lens.focal_px if r < 2 else 1.0
        a, b, c = view[3 * r] * scale, view[3 * r + 1] * scale, view[3 * r + 2] * scale
        for k in range(3):
            m[3 * r + k] = _F(a * rot[0, k] + b * rot[1, k] + c * rot[2, k])
        m[9 + r] = _F(a * tx + b * ty + c * tz)


@njit(**_SHARP)
@no_type_check
def _box_verdict(box, m, lens, tile):
    """-1: the placed box is out of view or hidden. 0: in view and beyond the near plane. 1: reaches the near plane."""
    near, ox, oy = _F(lens.near_m), _F(0.5 * lens.width), _F(0.5 * lens.height)
    nearest, farthest = _F(1e30), _F(-1e30)
    left, right, top, bottom = _F(1e30), _F(-1e30), _F(1e30), _F(-1e30)
    for k in range(8):
        x = box[0] + (box[3] if k & 1 else -box[3])
        y = box[1] + (box[4] if k & 2 else -box[4])
        z = box[2] + (box[5] if k & 4 else -box[5])
        w = m[6] * x + m[7] * y + m[8] * z + m[11]
        nearest, farthest = min(nearest, w), max(farthest, w)
        inverse = _ONE / w
        sx = (m[0] * x + m[1] * y + m[2] * z + m[9]) * inverse + ox
        sy = (m[3] * x + m[4] * y + m[5] * z + m[10]) * inverse + oy
        left, right, top, bottom = min(left, sx), max(right, sx), min(top, sy), max(bottom, sy)
    if farthest < near:
        return -1
    slack = _F(1e-4) * (_ONE + farthest)
    if nearest < near + slack:
        return 1
    if right < -_HALF or left > lens.width + _HALF or bottom < -_HALF or top > lens.height + _HALF:
        return -1
    limit = _ONE / (nearest - slack)
    x0, x1 = max(0, int(left) - 1) // TILE, min(lens.width - 1, int(right) + 1) // TILE
    y0, y1 = max(0, int(top) - 1) // TILE, min(lens.height - 1, int(bottom) + 1) // TILE
    for ty in range(y0, y1 + 1):
        for tx in range(x0, x1 + 1):
            if tile[ty, tx] < limit:
                return 0
    return -1


@njit(**_SHARP)
@no_type_check
def _transform(world, mesh, m, point, start):
    """Writes the mesh's vertices, placed by m, into `point` from column `start`."""
    first = world.vertex_range[mesh, 0]
    n = world.vertex_range[mesh, 1] - first
    xs, ys, zs = world.xyz[0, first : first + n], world.xyz[1, first : first + n], world.xyz[2, first : first + n]
    px, py, pz = point[0, start : start + n], point[1, start : start + n], point[2, start : start + n]
    sx, sy, sw = point[3, start : start + n], point[4, start : start + n], point[5, start : start + n]
    m0, m1, m2, m3, m4, m5, m6, m7, m8 = m[0], m[1], m[2], m[3], m[4], m[5], m[6], m[7], m[8]
    t0, t1, t2 = m[9], m[10], m[11]
    for i in range(n):
        x, y, z = xs[i], ys[i], zs[i]
        a = m0 * x + m1 * y + m2 * z + t0
        b = m3 * x + m4 * y + m5 * z + t1
        c = m6 * x + m7 * y + m8 * z + t2
        w = _ONE / c
        px[i], py[i], pz[i] = a, b, c
        sx[i], sy[i], sw[i] = a * w, b * w, w
    return n


@njit(**_SHARP)
@no_type_check
def _refresh_tiles(depth, tile):
    """tile[y, x] = least 1/z of its TILE x TILE pixels."""
    height, width = depth.shape
    for ty in range(tile.shape[0]):
        tile[ty, :] = _F(1e30)
        for i in range(ty * TILE, min(height, (ty + 1) * TILE)):
            row = depth[i]
            for tx in range(tile.shape[1]):
                least = tile[ty, tx]
                for j in range(tx * TILE, min(width, (tx + 1) * TILE)):
                    least = min(least, row[j])
                tile[ty, tx] = least


@njit(**_SHARP)
@no_type_check
def _hidden(tile, x0, x1, y0, y1, limit):
    """Whether all tiles under the pixel box [x0, x1) x [y0, y1) hold nothing farther than 1/z = limit."""
    for ty in range(y0 // TILE, (y1 - 1) // TILE + 1):
        for tx in range(x0 // TILE, (x1 - 1) // TILE + 1):
            if tile[ty, tx] < limit:
                return False
    return True


@njit(**_SHARP)
@no_type_check
def _fill(x0, y0, x1, y1, x2, y2, a, b, c, low, high, record, depth, ids):
    """Writes 1/z and the record number where the triangle is nearest; returns the number of pixels it covers.

    Corners are in pixels from the image's centre. 1/z is a * column + b * row + c, held inside [low, high].
    """
    height, width = depth.shape
    ox, oy = _HALF - _F(width) * _HALF, _HALF - _F(height) * _HALF
    if y1 < y0 or (y1 == y0 and x1 < x0):
        x0, y0, x1, y1 = x1, y1, x0, y0
    if y2 < y1 or (y2 == y1 and x2 < x1):
        x1, y1, x2, y2 = x2, y2, x1, y1
        if y1 < y0 or (y1 == y0 and x1 < x0):
            x0, y0, x1, y1 = x1, y1, x0, y0
    top = max(0, int(np.ceil(max(y0 - oy, -_ONE))))
    bottom = min(height, int(np.ceil(min(y2 - oy, _F(height)))))
    if top >= bottom:
        return 0
    long, upper, lower = (x2 - x0) / (y2 - y0), (x1 - x0) / (y1 - y0), (x2 - x1) / (y2 - y1)
    covered = 0
    for i in range(top, bottom):
        y = _F(i) + oy
        first = x0 + (y - y0) * long
        last = x0 + (y - y0) * upper if y < y1 else x1 + (y - y1) * lower
        if last < first:
            first, last = last, first
        left = max(0, int(np.ceil(max(first - ox, -_ONE))))
        right = min(width, int(np.ceil(min(last - ox, _F(width)))))
        if left >= right:
            continue
        covered += right - left
        base = a * (_F(left) + ox) + (b * y + c)
        depth_row, id_row = depth[i, left:right], ids[i, left:right]
        for j in range(right - left):
            value = min(max(a * _F(j) + base, low), high)
            if value > depth_row[j]:
                depth_row[j] = value
                id_row[j] = record
    return covered


@njit(**_SHARP)
@no_type_check
def _fill_clipped(p, i0, i1, i2, near, a, b, c, record, depth, ids):
    """Cuts a triangle at the near plane and fills the one or two triangles that remain.

    A cut point is computed from the vertex in front to the one behind, so that neighbours agree on it.
    """
    sx, sy, sw = np.empty(4, np.float32), np.empty(4, np.float32), np.empty(4, np.float32)
    n = 0
    corners = (i0, i1, i2)
    for k in range(3):
        at, to = corners[k], corners[(k + 1) % 3]
        if p[2, at] >= near:
            sx[n], sy[n], sw[n] = p[3, at], p[4, at], p[5, at]
            n += 1
        if (p[2, at] >= near) != (p[2, to] >= near):
            front, back = (at, to) if p[2, at] >= near else (to, at)
            t = (near - p[2, front]) / (p[2, back] - p[2, front])
            sx[n] = (p[0, front] + t * (p[0, back] - p[0, front])) / near
            sy[n] = (p[1, front] + t * (p[1, back] - p[1, front])) / near
            sw[n] = _ONE / near
            n += 1
    if n < 3:
        return 0
    low, high = sw[0], sw[0]
    for k in range(1, n):
        low, high = min(low, sw[k]), max(high, sw[k])
    covered = _fill(sx[0], sy[0], sx[1], sy[1], sx[2], sy[2], a, b, c, low, high, record, depth, ids)
    if n == 4:
        covered += _fill(sx[0], sy[0], sx[2], sy[2], sx[3], sy[3], a, b, c, low, high, record, depth, ids)
    return covered


@njit(**_SHARP)
@no_type_check
def _draw_mesh(world, i, rank, clips, start, lens, p, depth, ids, tile, plane, owner, state, record):
    """Draws all triangles of a placed instance; returns the next free record and the number of pixels covered."""
    near = _F(lens.near_m)
    width, height = depth.shape[1], depth.shape[0]
    ox, oy = _HALF - _F(width) * _HALF, _HALF - _F(height) * _HALF
    right_edge, bottom_edge = _F(width), _F(height)
    covered = 0
    g = world.mesh[i]
    px, py, pz, sx, sy, sw = p[0, start:], p[1, start:], p[2, start:], p[3, start:], p[4, start:], p[5, start:]
    for face in range(world.face_range[g, 0], world.face_range[g, 1]):
        i0, i1, i2 = world.faces[face, 0], world.faces[face, 1], world.faces[face, 2]
        cut = False
        high = _ZERO
        if clips:
            z0, z1, z2 = pz[i0], pz[i1], pz[i2]
            if z0 < near and z1 < near and z2 < near:
                continue
            cut = z0 < near or z1 < near or z2 < near
        if not cut:
            x0, x1, x2, y0, y1, y2 = sx[i0], sx[i1], sx[i2], sy[i0], sy[i1], sy[i2]
            left = np.ceil(max(min(x0, min(x1, x2)) - ox, _ZERO))
            right = np.ceil(min(max(x0, max(x1, x2)) - ox, right_edge))
            if not left < right:
                continue
            top = np.ceil(max(min(y0, min(y1, y2)) - oy, _ZERO))
            bottom = np.ceil(min(max(y0, max(y1, y2)) - oy, bottom_edge))
            if not top < bottom:
                continue
            high = max(sw[i0], max(sw[i1], sw[i2]))
            if _hidden(tile, int(left), int(right), int(top), int(bottom), high):
                continue
        e1x, e1y, e1z = px[i1] - px[i0], py[i1] - py[i0], pz[i1] - pz[i0]
        e2x, e2y, e2z = px[i2] - px[i0], py[i2] - py[i0], pz[i2] - pz[i0]
        nx, ny, nz = e1y * e2z - e1z * e2y, e1z * e2x - e1x * e2z, e1x * e2y - e1y * e2x
        d = nx * px[i0] + ny * py[i0] + nz * pz[i0]
        if not abs(d) > _ZERO:
            continue
        inverse = _ONE / d
        a, b, c = nx * inverse, ny * inverse, nz * inverse
        if cut:
            n = _fill_clipped(p[:, start:], i0, i1, i2, near, a, b, c, record, depth, ids)
        else:
            low = min(sw[i0], min(sw[i1], sw[i2]))
            n = _fill(x0, y0, x1, y1, x2, y2, a, b, c, low, high, record, depth, ids)
        if n > 0:
            covered += n
            plane[record, 0], plane[record, 1], plane[record, 2] = a, b, c
            owner[record, 0], owner[record, 1] = face, rank
            front = (d < _ZERO) != (world.face_inward[face] != world.mirrored[i])
            state[record] = 0 if front else 2
            record += 1
    return record, covered


@njit(**_SHARP)
@no_type_check
def _draw_scene(world, scene, view, lens, s, t):
    """Fills 1/z, records and their planes for one view."""
    depth, ids, tile = s.inverse_depth[t], s.record[t], s.tile[t]
    order, point, matrix, vertex_start = s.order[t], s.point[t], s.matrix[t], s.vertex_start[t]
    depth[:] = _ZERO
    ids[:] = -1
    tile[:] = _ZERO
    count = _select(world, scene, view, lens, order, s.key[t])
    start = record = painted = 0
    for rank in range(count):
        i = order[rank]
        if painted * REFRESH_SHARE > depth.size:
            _refresh_tiles(depth, tile)
            painted = 0
        _place(world, i, view, lens, matrix)
        verdict = _box_verdict(world.box[world.mesh[i]], matrix, lens, tile)
        if verdict < 0:
            continue
        n = _transform(world, world.mesh[i], matrix, point, start)
        record, covered = _draw_mesh(
            world,
            i,
            rank,
            verdict > 0,
            start,
            lens,
            point,
            depth,
            ids,
            tile,
            s.plane[t],
            s.owner[t],
            s.state[t],
            record,
        )
        vertex_start[rank] = start
        start += n
        painted += covered


@njit(**_SHARP)
@no_type_check
def _attributes(world, i, face, start, p, back, textured, out):
    """Planes of light/z, and where textured of u/z and v/z, of one face: out (9,)."""
    g = world.mesh[i]
    i0, i1, i2 = world.faces[face, 0], world.faces[face, 1], world.faces[face, 2]
    k0, k1, k2 = start + i0, start + i1, start + i2
    x, y, z = p[0, k0], p[1, k0], p[2, k0]
    e1x, e1y, e1z = p[0, k1] - x, p[1, k1] - y, p[2, k1] - z
    e2x, e2y, e2z = p[0, k2] - x, p[1, k2] - y, p[2, k2] - z
    nx, ny, nz = e1y * e2z - e1z * e2y, e1z * e2x - e1x * e2z, e1x * e2y - e1y * e2x
    inverse = _ONE / (nx * x + ny * y + nz * z)
    bx, by, bz = (e2y * z - e2z * y) * inverse, (e2z * x - e2x * z) * inverse, (e2x * y - e2y * x) * inverse
    cx, cy, cz = (y * e1z - z * e1y) * inverse, (z * e1x - x * e1z) * inverse, (x * e1y - y * e1x) * inverse
    nx, ny, nz = nx * inverse, ny * inverse, nz * inverse
    light, side = world.light_start[i], 1 if back else 0
    q0 = _F(world.light[light + i0, side])
    q1, q2 = _F(world.light[light + i1, side]) - q0, _F(world.light[light + i2, side]) - q0
    out[0], out[1], out[2] = q0 * nx + q1 * bx + q2 * cx, q0 * ny + q1 * by + q2 * cy, q0 * nz + q1 * bz + q2 * cz
    if textured:
        first = world.vertex_range[g, 0]
        for k in range(2):
            q0 = world.uv[first + i0, k]
            q1, q2 = world.uv[first + i1, k] - q0, world.uv[first + i2, k] - q0
            out[3 + 3 * k] = q0 * nx + q1 * bx + q2 * cx
            out[4 + 3 * k] = q0 * ny + q1 * by + q2 * cy
            out[5 + 3 * k] = q0 * nz + q1 * bz + q2 * cz


@njit(**_SHARP)
@no_type_check
def _mip_level(plane, q, x, y, iz, size_log2):
    """The level at which a texel is about as wide as a pixel at (x, y); q holds the planes of u/z (3:6) and v/z (6:9)."""
    w = _ONE / iz
    u, v = (q[3] * x + q[4] * y + q[5]) * w, (q[6] * x + q[7] * y + q[8]) * w
    ux, vx = (q[3] - u * plane[0]) * w, (q[6] - v * plane[0]) * w
    uy, vy = (q[4] - u * plane[1]) * w, (q[7] - v * plane[1]) * w
    spread = max(ux * ux + vx * vx, uy * uy + vy * vy)
    exponent = (np.float32(spread).view(np.int32) >> 23) - 127 + 2 * size_log2
    return max(0, min(size_log2, (exponent + 1) >> 1))


@njit(**_SHARP)
@no_type_check
def _shade_flat(q, x, y, iz, tint, out):
    """Colour of a run of pixels of one untextured face."""
    base, r, g, b = q[1] * y + q[2], np.int32(tint[0]), np.int32(tint[1]), np.int32(tint[2])
    for j in range(iz.size):
        light = np.int32(min(max((q[0] * (x + _F(j)) + base) / iz[j], _ZERO), _F(255)))
        light += light >> 7
        out[j, 0] = np.uint8((r * light) >> 8)
        out[j, 1] = np.uint8((g * light) >> 8)
        out[j, 2] = np.uint8((b * light) >> 8)


@njit(**_SHARP)
@no_type_check
def _shade_textured(q, x, y, iz, tint, texels, size, out):
    """Colour of a run of pixels of one textured face; `texels` is one mip level, size its width."""
    light_base, u_base, v_base = q[1] * y + q[2], q[4] * y + q[5], q[7] * y + q[8]
    r, g, b = np.int32(tint[0]), np.int32(tint[1]), np.int32(tint[2])
    r, g, b = r + (r >> 7), g + (g >> 7), b + (b >> 7)
    scale, mask = _F(size), np.int32(size - 1)
    for j in range(iz.size):
        w = _ONE / iz[j]
        px = x + _F(j)
        light = np.int32(min(max((q[0] * px + light_base) * w, _ZERO), _F(255)))
        light += light >> 7
        column = np.int32(np.floor((q[3] * px + u_base) * w * scale)) & mask
        row = np.int32(np.floor(-(q[6] * px + v_base) * w * scale)) & mask
        texel = np.int32(texels[row * size + column])
        out[j, 0] = np.uint8(((texel & 255) * r * light) >> 16)
        out[j, 1] = np.uint8((((texel >> 8) & 255) * g * light) >> 16)
        out[j, 2] = np.uint8((((texel >> 16) & 255) * b * light) >> 16)


@njit(**_SHARP)
@no_type_check
def _shade_run(world, s, t, record, x, y, iz, out):
    """Colours a run of pixels that show the same record."""
    face, rank = s.owner[t, record, 0], s.owner[t, record, 1]
    i = s.order[t, rank]
    material = world.material[i] + world.face_slot[face]
    if world.unlit[material] and world.texture[material] < 0:
        for j in range(iz.size):
            for k in range(3):
                out[j, k] = world.rgb[material, k]
        return
    q, texture = s.attribute[t, record], world.texture[material]
    if not s.state[t, record] & 1:
        back = s.state[t, record] & 2 != 0
        _attributes(world, i, face, s.vertex_start[t, rank], s.point[t], back, texture >= 0, q)
        if world.unlit[material]:
            for k in range(3):
                q[k] = _F(255.99) * s.plane[t, record, k]
        s.state[t, record] |= 1
    if texture < 0:
        _shade_flat(q, x, y, iz, world.rgb[material], out)
        return
    size_log2 = world.size_log2[texture]
    for first in range(0, iz.size, CHUNK):
        last = min(iz.size, first + CHUNK)
        middle = (first + last) // 2
        level = _mip_level(s.plane[t, record], q, x + _F(middle), y, iz[middle], size_log2)
        start = world.texel_start[texture] + (4 ** (size_log2 + 1) - 4 ** (size_log2 + 1 - level)) // 3
        size = 1 << (size_log2 - level)
        texels = world.texels[start : start + size * size]
        _shade_textured(q, x + _F(first), y, iz[first:last], world.rgb[material], texels, size, out[first:last])


@njit(**_SHARP)
@no_type_check
def _shade_view(world, lens, s, t, sky, wanted, rgb, depth, class_id, instance_id):
    """Writes the wanted images of one view from the visibility buffer."""
    ox, oy = _HALF - _F(lens.width) * _HALF, _HALF - _F(lens.height) * _HALF
    for i in range(lens.height):
        ids, iz = s.record[t, i], s.inverse_depth[t, i]
        j = 0
        while j < lens.width:
            record, first = ids[j], j
            j += 1
            while j < lens.width and ids[j] == record:
                j += 1
            drawn = record >= 0
            if wanted[0]:
                if drawn:
                    _shade_run(world, s, t, record, _F(first) + ox, _F(i) + oy, iz[first:j], rgb[i, first:j])
                else:
                    rgb[i, first:j] = sky[i, first:j]
            owner = s.order[t, s.owner[t, record, 1]] if drawn else 0
            if wanted[2]:
                class_id[i, first:j] = world.class_id[owner] if drawn else 0
            if wanted[3]:
                instance_id[i, first:j] = world.instance_id[owner] if drawn else 0
        if wanted[1]:
            for j in range(lens.width):
                depth[i, j] = _ONE / iz[j] if iz[j] > _ZERO else _ZERO


@njit(parallel=True, **_SHARP)
@no_type_check
def draw(world, lens, scenes, views, scratch, sky, wanted, rgb, depth, class_id, instance_id):
    """Draws view n of scene scenes[n]; views[n] (12,) holds the rows right, down, forward and the camera's position.

    wanted (4,) bool says which of rgb, depth, class_id and instance_id to write; the others are not touched.
    """
    for n in prange(scenes.size):
        t = get_thread_id()
        _draw_scene(world, scenes[n], views[n], lens, scratch, t)
        k0, k1, k2, k3 = n * wanted[0], n * wanted[1], n * wanted[2], n * wanted[3]
        _shade_view(world, lens, scratch, t, sky, wanted, rgb[k0], depth[k1], class_id[k2], instance_id[k3])
