"""The compiled loops of the rasteriser: cull, transform, fill a visibility buffer, then shade each pixel once.

A view is drawn in three stages. First, rooms that show through openings, each in a part of the image, give the
instances that may show. These are sorted near first and tested against the depth drawn so far. Second, the faces of the
remaining ones write 1/z and a record number per pixel. Third, shading reads each pixel's record.

Space: a vertex is (f * right, f * down, forward) in metres seen from the camera, f the focal length in pixels. Division
by the third gives pixels from the image's centre. In that space 1/z and any attribute over z are linear on the screen,
so one plane (a, b, c) each, found from the unclipped triangle, is exact (Olano & Greer 1997).

An edge's crossing with a row is always computed from its upper end by the same expression. So triangles that share an
edge leave neither gaps nor doubly drawn pixels.

`no_type_check` keeps jaxtyping's import hook, which the tests use, from wrapping code that Numba compiles.

Axes: N views, H W image, V vertices, F faces, G meshes, I instances, L lights (one per vertex of every instance).
"""

from typing import no_type_check

import numpy as np
from numba import get_thread_id, njit, prange
from numba.cpython.unsafe.numbers import trailing_zeros

from eqa.envs.rendering.buffers import TILE
from eqa.envs.rendering.room_culling import MAX_ROOMS

ROW, BEHIND, LOW = np.int32(16), np.int32(15), np.int32((1 << 14) - 1)  # a vertex's pixel: column, row << 16, a bit
LANES = 8  # short loops run over whole multiples of this, without a slow remainder; buffers are padded for it
CHUNK = 16  # pixels that share one choice of mip level; more do if it is the same at both ends
REFRESH_SHARE = 8  # the tiles are brought up to date after 1 / REFRESH_SHARE of the image was painted
SHEET_STEP = 16  # columns from one exact light to the next on a surface with a sheet
SHEET_ROWS = 4  # rows that share it
MOST_APART = 4  # pixels by which a run with a sheet may be longer at an end than the run above that shares its light
TEXEL, LABEL, STARTS, LIGHT, KEPT = 0, 1, 2, 3, 5  # rows of `Scratch.row_int`; light has two, kept runs have three
PANE = 2  # of `World.unlit`: shows the outside
PLANE_M = 0.01  # a camera this near to the plane of a portal sees all that lies behind it

_F = np.float32
_ZERO, _HALF, _ONE = _F(0), _F(0.5), _F(1)
_PART = np.array([0, *(1 / n for n in range(1, SHEET_STEP + 1))], np.float32)
# Without `_nrt` each array slice costs two atomic counts of references, on lines that all threads share: twice as slow.
_SHARP = {"cache": True, "error_model": "numpy", "nogil": True, "_nrt": False}
_INNER = {**_SHARP, "forceinline": True}  # a call would copy the many fields of each array that it passes


@njit(**_SHARP)
@no_type_check
def _room_at(world, scene, view, lens):
    """The room that the camera stands in; -1 outside, and where the near plane may reach into a wall or a ceiling."""
    x, y, z = view[9], view[10], view[11]
    reach = lens.near_m * _slant(lens) + PLANE_M
    height, wall = world.wall_size[scene, 0], world.wall_size[scene, 1]
    if y < reach or y > height - reach:
        return -1
    clearance = 0.5 * wall + reach
    for k in range(world.solid_range[scene, 0], world.solid_range[scene, 1]):
        if _beside(world.solid[k], x, z, clearance):
            return -1
    for k in range(world.portal_range[scene, 0], world.portal_range[scene, 1]):
        hole = world.portal[k]
        if (y < hole[4] + reach or y > hole[5] - reach) and _beside(hole, x, z, clearance):
            return -1
    first = world.room_range[scene, 0]
    for room in range(first, world.room_range[scene, 1]):
        inside = False
        for k in range(world.edge_range[room, 0], world.edge_range[room, 1]):
            ax, az, bx, bz = world.edge[k, 0], world.edge[k, 1], world.edge[k, 2], world.edge[k, 3]
            if (az > z) != (bz > z) and x < ax + (z - az) / (bz - az) * (bx - ax):
                inside = not inside
        if inside:
            return room - first
    return -1


@njit(**_INNER)
@no_type_check
def _beside(piece, x, z, clearance):
    """True if a point of the plan is nearer than `clearance` to a piece of a wall's centre line."""
    ax, az = piece[0], piece[1]
    dx, dz = piece[2] - ax, piece[3] - az
    share = min(max(((x - ax) * dx + (z - az) * dz) / (dx * dx + dz * dz), 0.0), 1.0)
    return (x - ax - share * dx) ** 2 + (z - az - share * dz) ** 2 < clearance**2


@njit(**_INNER)
@no_type_check
def _slant(lens):
    """Length of the ray through the image's corner that is 1 long along the optical axis."""
    return np.sqrt(1.0 + (lens.width**2 + lens.height**2) / (4.0 * lens.focal_px**2))


@njit(**_SHARP)
@no_type_check
def _through(portal, view, lens, window, out):
    """out = the part of `window` in which a portal shows; returns True if there is any."""
    nearest = 0.5 * PLANE_M / _slant(lens)
    left, right, top, bottom = 1e9, -1e9, 1e9, -1e9
    for k in range(4):
        last_x, last_y, last_z = _corner(portal, (k + 3) & 3, view, lens.focal_px)
        x, y, z = _corner(portal, k, view, lens.focal_px)
        for cut in range(2):
            if cut == 1:
                if z < nearest:
                    continue
            elif (z < nearest) == (last_z < nearest):
                continue
            share = 1.0 if cut == 1 else (nearest - last_z) / (z - last_z)
            w = 1.0 / (z if cut == 1 else nearest)
            column, row = (last_x + share * (x - last_x)) * w, (last_y + share * (y - last_y)) * w
            left, right, top, bottom = min(left, column), max(right, column), min(top, row), max(bottom, row)
    half_w, half_h = 0.5 * lens.width, 0.5 * lens.height
    out[0] = max(window[0], np.int32(min(max(left + half_w, -1e6), 1e6)) - 2)
    out[1] = min(window[1], np.int32(min(max(right + half_w, -1e6), 1e6)) + 2)
    out[2] = max(window[2], np.int32(min(max(top + half_h, -1e6), 1e6)) - 2)
    out[3] = min(window[3], np.int32(min(max(bottom + half_h, -1e6), 1e6)) + 2)
    return out[0] < out[1] and out[2] < out[3]


@njit(**_INNER)
@no_type_check
def _corner(portal, k, view, f):
    """Corner k of an upright rectangle, seen from the camera: f * right, f * down, forward."""
    x = (portal[0] if k == 0 or k == 3 else portal[2]) - view[9]
    y = (portal[4] if k < 2 else portal[5]) - view[10]
    z = (portal[1] if k == 0 or k == 3 else portal[3]) - view[11]
    return (
        f * (view[0] * x + view[1] * y + view[2] * z),
        f * (view[3] * x + view[4] * y + view[5] * z),
        view[6] * x + view[7] * y + view[8] * z,
    )


@njit(**_INNER)
@no_type_check
def _widen(window, by):
    """Makes `window` reach as far as `by`; returns True if it grew."""
    if window[0] >= window[1]:
        window[0], window[1], window[2], window[3] = by[0], by[1], by[2], by[3]
        return True
    grows = by[0] < window[0] or by[1] > window[1] or by[2] < window[2] or by[3] > window[3]
    window[0], window[1] = min(window[0], by[0]), max(window[1], by[1])
    window[2], window[3] = min(window[2], by[2]), max(window[3], by[3])
    return grows


@njit(**_SHARP)
@no_type_check
def _see_rooms(world, scene, view, lens, window, part):
    """window[r] = the part of the image in which room r can show; returns a bit for each room that can.

    `part` (4,) is working memory. The last window is the whole image, for instances that no room accounts for.
    """
    window[:] = 0
    whole = window[MAX_ROOMS]
    whole[1], whole[3] = lens.width, lens.height
    first, num_rooms = world.room_range[scene, 0], world.room_range[scene, 1] - world.room_range[scene, 0]
    own = _room_at(world, scene, view, lens)
    if own < 0:
        for room in range(num_rooms):
            _widen(window[room], whole)
        return ~np.uint64(0)
    _widen(window[own], whole)
    seen = _bit(MAX_ROOMS) | _bit(own)
    pending = _bit(own)
    while pending != np.uint64(0):
        room = np.int64(trailing_zeros(pending))
        pending &= ~_bit(room)
        if world.sees_out[first + room]:
            for other in range(num_rooms):
                if _widen(window[other], window[room]):
                    pending |= _bit(other)
        for k in range(world.portal_range[scene, 0], world.portal_range[scene, 1]):
            on_left, on_right = world.portal_rooms[k, 0], world.portal_rooms[k, 1]
            if room != on_left and room != on_right:
                continue
            hole = world.portal[k]
            dx, dz = hole[2] - hole[0], hole[3] - hole[1]
            side = ((view[9] - hole[0]) * dz - (view[11] - hole[1]) * dx) / np.sqrt(dx * dx + dz * dz)
            other = on_right if room == on_left else on_left
            if (side if room == on_left else -side) < -PLANE_M:
                continue
            if abs(side) <= PLANE_M:
                _copy(window[room], part, 4)
            elif not _through(hole, view, lens, window[room], part):
                continue
            if _widen(window[other], part):
                pending |= _bit(other)
        seen |= pending
    return seen


@njit(**_INNER)
@no_type_check
def _bit(room):
    return np.uint64(1) << np.uint64(room)


@njit(**_SHARP)
@no_type_check
def _in_image(world, first, last, view, lens, inside, candidate):
    """Fills `candidate` with instances, counted from `first`, whose spheres reach into the image; returns their number.

    Nine in ten of a city do not: both loops are without branches, and the first fills vector registers.
    """
    xs, ys, zs, radii = (
        world.sphere[0, first:last],
        world.sphere[1, first:last],
        world.sphere[2, first:last],
        world.sphere[3, first:last],
    )
    half_w, half_h, f = lens.width * 0.5, lens.height * 0.5, lens.focal_px
    slant_w, slant_h = np.sqrt(f * f + half_w * half_w), np.sqrt(f * f + half_h * half_h)
    v0, v1, v2, v3, v4, v5, v6, v7, v8 = view[0], view[1], view[2], view[3], view[4], view[5], view[6], view[7], view[8]
    vx, vy, vz, near = view[9], view[10], view[11], lens.near_m
    for k in range(xs.size):
        x, y, z, radius = xs[k] - vx, ys[k] - vy, zs[k] - vz, radii[k]
        right, down, forward = v0 * x + v1 * y + v2 * z, v3 * x + v4 * y + v5 * z, v6 * x + v7 * y + v8 * z
        inside[k] = (
            (forward + radius >= near)
            & (abs(right) * f - forward * half_w <= radius * slant_w)
            & (abs(down) * f - forward * half_h <= radius * slant_h)
        )
    count = 0
    for k in range(xs.size):
        candidate[count] = k
        count += inside[k]
    return count


@njit(**_SHARP)
@no_type_check
def _select(world, scene, view, lens, s, t):
    """Fills `order`, near first, with instances whose spheres show in their rooms' windows; returns their number."""
    half_w, half_h, f = lens.width * 0.5, lens.height * 0.5, lens.focal_px
    order, key, window = s.order[t], s.key[t], s.window[t]
    seen = _see_rooms(world, scene, view, lens, window, s.part[t])
    first, candidate = world.scene_range[scene, 0], s.candidate[t]
    count = 0
    for n in range(_in_image(world, first, world.scene_range[scene, 1], view, lens, s.inside[t], candidate)):
        i = first + np.int64(candidate[n])
        rooms = world.room_bits[i] & seen
        if rooms == np.uint64(0):
            continue
        x, y, z = world.sphere[0, i] - view[9], world.sphere[1, i] - view[10], world.sphere[2, i] - view[11]
        radius = world.sphere[3, i]
        right = view[0] * x + view[1] * y + view[2] * z
        down = view[3] * x + view[4] * y + view[5] * z
        forward = view[6] * x + view[7] * y + view[8] * z
        part = s.scissor[t, i - first]
        part[:] = 0
        while rooms != np.uint64(0):
            _widen(part, window[np.int64(trailing_zeros(rooms))])
            rooms &= rooms - np.uint64(1)
        x0, x1, y0, y1 = part[0] - half_w, part[1] - half_w, part[2] - half_h, part[3] - half_h
        if (
            right * f - forward * x0 < -radius * np.sqrt(f * f + x0 * x0)
            or right * f - forward * x1 > radius * np.sqrt(f * f + x1 * x1)
            or down * f - forward * y0 < -radius * np.sqrt(f * f + y0 * y0)
            or down * f - forward * y1 > radius * np.sqrt(f * f + y1 * y1)
        ):
            continue
        distance = 0.0
        for k in range(3):
            away = max(world.bounds[i, k] - view[9 + k], view[9 + k] - world.bounds[i, 3 + k])
            distance += max(away, 0.0) ** 2
        if not world.shown[i, 0] <= distance < world.shown[i, 1]:
            continue
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
def _box_shows(box, m, lens, scissor, tile):
    """True if a placed box may show: it is inside the scissor and not hidden, or it reaches the near plane."""
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
        return False
    slack = _F(1e-4) * (_ONE + farthest)
    if nearest < near + slack:
        return True
    if (
        right < scissor[0] - _HALF
        or left > scissor[1] + _HALF
        or bottom < scissor[2] - _HALF
        or top > scissor[3] + _HALF
    ):
        return False
    limit = _ONE / (nearest - slack)
    x0, x1 = max(scissor[0], int(left) - 1) // TILE, min(scissor[1] - 1, int(right) + 1) // TILE
    y0, y1 = max(scissor[2], int(top) - 1) // TILE, min(scissor[3] - 1, int(bottom) + 1) // TILE
    for ty in range(y0, y1 + 1):
        for tx in range(x0, x1 + 1):
            if tile[ty, tx] < limit:
                return True
    return False


@njit(**_INNER)
@no_type_check
def _transform(world, mesh, m, lens, scissor, point, pixel, start):
    """Writes the mesh's vertices, placed by m, into `point` and `pixel` from column `start`; returns their number.

    Points beside the scissor count as lying on its border: a triangle there has no pixel between its corners. The loops
    are several and short, as the compiler vectorises only loops that write few arrays.
    """
    first = world.vertex_range[mesh, 0]
    n = world.vertex_range[mesh, 1] - first
    xs, ys, zs = world.xyz[0, first : first + n], world.xyz[1, first : first + n], world.xyz[2, first : first + n]
    px, py, pz = point[0, start : start + n], point[1, start : start + n], point[2, start : start + n]
    sx, sy, sw = point[3, start : start + n], point[4, start : start + n], point[5, start : start + n]
    where = pixel[start : start + n]
    m0, m1, m2, m3, m4, m5, m6, m7, m8 = m[0], m[1], m[2], m[3], m[4], m[5], m[6], m[7], m[8]
    t0, t1, t2 = m[9], m[10], m[11]
    ox, oy = _HALF - _F(lens.width) * _HALF, _HALF - _F(lens.height) * _HALF
    left, right, top, bottom = _F(scissor[0]), _F(scissor[1]), _F(scissor[2]), _F(scissor[3])
    near = _F(lens.near_m)
    for i in range(n):
        px[i] = m0 * xs[i] + m1 * ys[i] + m2 * zs[i] + t0
        py[i] = m3 * xs[i] + m4 * ys[i] + m5 * zs[i] + t1
    for i in range(n):
        z = m6 * xs[i] + m7 * ys[i] + m8 * zs[i] + t2
        pz[i] = z
        sw[i] = _ONE / z
    for i in range(n):
        where[i] = np.int32(pz[i] < near) << BEHIND
    for i in range(n):
        x = px[i] * sw[i]
        sx[i] = x
        where[i] |= np.int32(np.ceil(min(max(x - ox, left), right))) & LOW
    for i in range(n):
        y = py[i] * sw[i]
        sy[i] = y
        where[i] |= (np.int32(np.ceil(min(max(y - oy, top), bottom))) & LOW) << ROW
    return n


@njit(**_SHARP)
@no_type_check
def _refresh_tiles(depth, lens, tile, painted, row):
    """tile[y, x] = least 1/z of its TILE x TILE pixels, for much painted rows; `row` (W,) is working memory."""
    width, height = lens.width, lens.height
    whole = (width + LANES - 1) & -LANES
    for ty in range(tile.shape[0]):
        if painted[ty] * REFRESH_SHARE < width:
            continue
        painted[ty] = 0
        least, start = row[:whole], ty * TILE * width
        _copy(depth[start : start + whole], least, whole)
        for i in range(ty * TILE + 1, min(height, (ty + 1) * TILE)):
            line = depth[i * width : i * width + whole]
            for j in range(whole):
                least[j] = min(least[j], line[j])
        for tx in range(tile.shape[1] - 1):
            ends = least[tx * TILE : (tx + 1) * TILE]
            one, other = min(ends[0], ends[1]), min(ends[2], ends[3])
            tile[ty, tx] = min(min(one, other), min(min(ends[4], ends[5]), min(ends[6], ends[7])))
        tx = tile.shape[1] - 1
        value = least[tx * TILE]
        for j in range(tx * TILE + 1, width):
            value = min(value, least[j])
        tile[ty, tx] = value


@njit(**_INNER)
@no_type_check
def _hidden(tile, x0, x1, y0, y1, limit):
    """True if all tiles under the pixel box [x0, x1) x [y0, y1) hold nothing farther than 1/z = limit."""
    for ty in range(y0 // TILE, (y1 - 1) // TILE + 1):
        for tx in range(x0 // TILE, (x1 - 1) // TILE + 1):
            if tile[ty, tx] < limit:
                return False
    return True


@njit(**_INNER)
@no_type_check
def _trim(a, b, c, high, top, bottom, tile, left, right, ox, oy):
    """Shortens the spans of a large triangle from both ends while the tiles there hide it."""
    for ty in range(top // TILE, (bottom - 1) // TILE + 1):
        r0, r1 = max(top, ty * TILE), min(bottom, (ty + 1) * TILE)
        first, last = left[r0], right[r0]
        for i in range(r0 + 1, r1):
            first, last = min(first, left[i]), max(last, right[i])
        if last - first < 2 * TILE:
            continue
        y0, y1 = b * (_F(ty * TILE) + oy), b * (_F(ty * TILE + TILE - 1) + oy)
        row_part = max(y0, y1) + c
        slack = _F(1e-6) * (abs(y0) + abs(y1) + abs(c) - _F(2) * abs(a) * ox)
        tx, end = first // TILE, (last - 1) // TILE
        while tx <= end:
            x0, x1 = a * (_F(tx * TILE) + ox), a * (_F(tx * TILE + TILE - 1) + ox)
            if tile[ty, tx] < min(high, max(x0, x1) + row_part + slack):
                break
            tx += 1
        while end > tx:
            x0, x1 = a * (_F(end * TILE) + ox), a * (_F(end * TILE + TILE - 1) + ox)
            if tile[ty, end] < min(high, max(x0, x1) + row_part + slack):
                break
            end -= 1
        first, last = np.int32(tx * TILE), np.int32((end + 1) * TILE)
        for i in range(r0, r1):
            left[i], right[i] = max(left[i], first), min(right[i], last)


@njit(**_INNER)
@no_type_check
def _triangle_spans(corner, ox, oy, scissor, left, right):
    """Columns left[row] to right[row] of the rows of a triangle; returns its rows: the first, and one past the last.

    No column lies beyond the corners: a face seen edge-on is lower than a row's rounding error, with huge slopes.
    """
    start, stop, above, below = _F(scissor[0]), _F(scissor[1]), _F(scissor[2]), _F(scissor[3])
    x0, y0, x1, y1, x2, y2 = corner[0, 0], corner[1, 0], corner[0, 1], corner[1, 1], corner[0, 2], corner[1, 2]
    if y1 < y0 or (y1 == y0 and x1 < x0):
        x0, y0, x1, y1 = x1, y1, x0, y0
    if y2 < y1 or (y2 == y1 and x2 < x1):
        x1, y1, x2, y2 = x2, y2, x1, y1
        if y1 < y0 or (y1 == y0 and x1 < x0):
            x0, y0, x1, y1 = x1, y1, x0, y0
    top = int(np.ceil(min(max(y0 - oy, above), below)))
    bottom = int(np.ceil(min(max(y2 - oy, above), below)))
    start, stop = max(start, min(min(x0, x1), x2) - ox), min(stop, max(max(x0, x1), x2) - ox)
    long, upper, lower = (x2 - x0) / (y2 - y0), (x1 - x0) / (y1 - y0), (x2 - x1) / (y2 - y1)
    whole = (bottom - top + LANES - 1) & -LANES
    left_rows, right_rows = left[top : top + whole], right[top : top + whole]
    for i in range(whole):
        y = _F(np.int32(top + i)) + oy
        one = x0 + (y - y0) * long - ox
        other = (x0 + (y - y0) * upper if y < y1 else x1 + (y - y1) * lower) - ox
        left_rows[i] = np.int32(np.ceil(min(max(min(one, other), start), stop)))
        right_rows[i] = np.int32(np.ceil(min(max(max(one, other), start), stop)))
    return top, bottom


@njit(**_INNER)
@no_type_check
def _polygon_spans(corner, n, ox, oy, scissor, left, right):
    """`_triangle_spans` for n corners of a convex polygon: down from the highest corner on either side."""
    start, stop, above, below = _F(scissor[0]), _F(scissor[1]), _F(scissor[2]), _F(scissor[3])
    highest, low, west, east = 0, corner[1, 0], corner[0, 0], corner[0, 0]
    for k in range(1, n):
        low, west, east = max(low, corner[1, k]), min(west, corner[0, k]), max(east, corner[0, k])
        if corner[1, k] < corner[1, highest]:
            highest = k
    top = int(np.ceil(min(max(corner[1, highest] - oy, above), below)))
    bottom = int(np.ceil(min(max(low - oy, above), below)))
    start, stop = max(start, west - ox), min(stop, east - ox)
    for way in range(2):
        rows = right if way else left
        row, k = top, highest
        for _ in range(n):
            m = (k + n - 1 if way else k + 1) % n
            x0, y0, y1 = corner[0, k], corner[1, k], corner[1, m]
            end = int(np.ceil(min(max(y1 - oy, above), below)))
            if end > row:
                slope = (corner[0, m] - x0) / (y1 - y0)
                whole = (end - row + LANES - 1) & -LANES
                part = rows[row : row + whole]
                for i in range(whole):
                    x = x0 + (_F(np.int32(row + i)) + oy - y0) * slope - ox
                    part[i] = np.int32(np.ceil(min(max(x, start), stop)))
                row = end
            k = m
    for i in range(top, bottom):
        left[i], right[i] = min(left[i], right[i]), max(left[i], right[i])
    return top, bottom


@njit(**_INNER)
@no_type_check
def _fill(corner, n, a, b, c, low, high, record, lens, scissor, depth, ids, tile, painted, span):
    """Writes 1/z and the record number where the polygon is nearest; returns the number of pixels looked at.

    `corner` (3, n): pixels from the image's centre, and 1/z. 1/z is a * column + b * row + c, held inside [low, high].
    """
    width = np.int32(lens.width)
    ox, oy = _HALF - _F(width) * _HALF, _HALF - _F(lens.height) * _HALF
    left, right = span[0], span[1]
    if n == 3:
        top, bottom = _triangle_spans(corner, ox, oy, scissor, left, right)
    else:
        top, bottom = _polygon_spans(corner, n, ox, oy, scissor, left, right)
    if bottom - top > TILE:
        _trim(a, b, c, high, top, bottom, tile, left, right, ox, oy)
    looked_at = 0
    for i in range(top, bottom):
        first, count = left[i], right[i] - left[i]
        if count <= 0:
            continue
        looked_at += count
        painted[i // TILE] += count
        pixel = i * width + first
        x, base = _F(first) + ox, b * (_F(np.int32(i)) + oy) + c
        whole = (count + LANES - 1) & -LANES
        depth_row, id_row = depth[pixel : pixel + whole], ids[pixel : pixel + whole]
        end = np.int32(count)
        for j in range(whole):
            value = min(max(a * (_F(np.int32(j)) + x) + base, low), high)
            if (np.int32(j) < end) & (value > depth_row[j]):
                depth_row[j] = value
                id_row[j] = record
    return looked_at


@njit(**_INNER)
@no_type_check
def _clip(p, corners, near, out):
    """Cuts a polygon at the near plane: out (3, 5) = column, row and 1/z of the rest; returns its number of corners.

    A cut point is computed from the vertex in front to the one behind, so that neighbours agree on it.
    """
    n = 0
    for k in range(4):
        at, to = corners[k], corners[(k + 1) & 3]
        if at == to:
            continue
        if p[2, at] >= near:
            out[0, n], out[1, n], out[2, n] = p[3, at], p[4, at], p[5, at]
            n += 1
        if (p[2, at] >= near) != (p[2, to] >= near):
            front, back = (at, to) if p[2, at] >= near else (to, at)
            t = (near - p[2, front]) / (p[2, back] - p[2, front])
            out[0, n] = (p[0, front] + t * (p[0, back] - p[0, front])) / near
            out[1, n] = (p[1, front] + t * (p[1, back] - p[1, front])) / near
            out[2, n] = _ONE / near
            n += 1
    return n


@njit(**_INNER)
@no_type_check
def _box_of(p0, p1, p2, p3):
    """First column, one past the last, first row, one past the last of four packed pixels."""
    c0, c1, c2, c3, r0, r1, r2, r3 = p0 & LOW, p1 & LOW, p2 & LOW, p3 & LOW, p0 >> ROW, p1 >> ROW, p2 >> ROW, p3 >> ROW
    left, right = min(min(c0, c1), min(c2, c3)), max(max(c0, c1), max(c2, c3))
    return left, right, min(min(r0, r1), min(r2, r3)), max(max(r0, r1), max(r2, r3))


@njit(**_INNER)
@no_type_check
def _shortlist(world, mesh, pixel, chosen):
    """Puts the mesh's faces that may cover a pixel into `chosen`; returns their number.

    Three in four cover none: they are sorted out without a branch, which would be unpredictable.
    """
    count = 0
    for face in range(world.face_range[mesh, 0], world.face_range[mesh, 1]):
        p0, p1 = pixel[world.faces[face, 0]], pixel[world.faces[face, 1]]
        p2, p3 = pixel[world.faces[face, 2]], pixel[world.faces[face, 3]]
        left, right, top, bottom = _box_of(p0, p1, p2, p3)
        wide, high = left < right, top < bottom
        some_behind, all_behind = ((p0 | p1 | p2 | p3) >> BEHIND) & 1, ((p0 & p1 & p2 & p3) >> BEHIND) & 1
        chosen[count] = face
        count += ((wide & high) | (some_behind > 0)) & (all_behind == 0)
    return count


@njit(**_INNER)
@no_type_check
def _draw_mesh(world, i, rank, scissor, start, lens, s, t, record):
    """Draws all faces of a placed instance; returns the next free record and the number of pixels looked at."""
    near = _F(lens.near_m)
    depth, ids, span, clip = s.inverse_depth[t], s.record[t], s.span[t], s.clip[t]
    tile, painted, chosen = s.tile[t], s.painted[t], s.chosen[t]
    p, pixel = s.point[t, :, start:], s.pixel[t, start:]
    px, py, pz, sx, sy, sw = p[0], p[1], p[2], p[3], p[4], p[5]
    looked_at = 0
    for k in range(_shortlist(world, world.mesh[i], pixel, chosen)):
        face = np.int64(chosen[k])
        i0, i1, i2, i3 = world.faces[face, 0], world.faces[face, 1], world.faces[face, 2], world.faces[face, 3]
        p0, p1, p2, p3 = pixel[i0], pixel[i1], pixel[i2], pixel[i3]
        cut = ((p0 | p1 | p2 | p3) >> BEHIND) & 1 > 0
        high = max(max(sw[i0], sw[i1]), max(sw[i2], sw[i3]))
        if not cut:
            left, right, top, bottom = _box_of(p0, p1, p2, p3)
            if _hidden(tile, left, right, top, bottom, high):
                continue
        e1x, e1y, e1z = px[i1] - px[i0], py[i1] - py[i0], pz[i1] - pz[i0]
        e2x, e2y, e2z = px[i2] - px[i0], py[i2] - py[i0], pz[i2] - pz[i0]
        nx, ny, nz = e1y * e2z - e1z * e2y, e1z * e2x - e1x * e2z, e1x * e2y - e1y * e2x
        d = nx * px[i0] + ny * py[i0] + nz * pz[i0]
        front = (d < _ZERO) != (world.face_inward[face] != world.mirrored[i])
        if not abs(d) > _ZERO or (world.one_sided[face] and not front):
            continue
        inverse = _ONE / d
        a, b, c = nx * inverse, ny * inverse, nz * inverse
        n = 3 if i2 == i3 else 4
        low = min(min(sw[i0], sw[i1]), min(sw[i2], sw[i3]))
        if cut:
            n = _clip(p, (i0, i1, i2, i3), near, clip)
            high = low = _ONE / near
            for k in range(n):
                low = min(low, clip[2, k])
        else:
            clip[0, 0], clip[0, 1], clip[0, 2], clip[0, 3] = sx[i0], sx[i1], sx[i2], sx[i3]
            clip[1, 0], clip[1, 1], clip[1, 2], clip[1, 3] = sy[i0], sy[i1], sy[i2], sy[i3]
        number = np.int32(record)
        seen = _fill(clip, n, a, b, c, low, high, number, lens, scissor, depth, ids, tile, painted, span)
        if seen > 0:
            looked_at += seen
            plane = s.plane[t, record]
            plane[0], plane[1], plane[2] = a, b, c
            s.face[t, record], s.rank[t, record] = face, rank
            s.state[t, record] = 0 if front else 2
            record += 1
    return record, looked_at


@njit(**_SHARP)
@no_type_check
def _draw_scene(world, scene, view, lens, s, t):
    """Fills 1/z, records and their planes for one view."""
    depth, tile, order, matrix = s.inverse_depth[t], s.tile[t], s.order[t], s.matrix[t]
    depth[:] = _ZERO
    s.record[t, :] = np.int32(-1)
    tile[:] = _ZERO
    s.painted[t, :] = 0
    s.vertex_start[t, :] = -1
    count = _select(world, scene, view, lens, s, t)
    start = record = looked_at = np.int64(0)  # a plain 0 is another type and compiles callees twice
    for rank in range(count):
        i = order[rank]
        if looked_at * REFRESH_SHARE > lens.width * lens.height:
            _refresh_tiles(depth, lens, tile, s.painted[t], s.row_float[t])
            looked_at = 0
        _place(world, i, view, lens, matrix)
        scissor = s.scissor[t, i - world.scene_range[scene, 0]]
        if not _box_shows(world.box[world.mesh[i]], matrix, lens, scissor, tile):
            continue
        s.vertex_start[t, rank] = start
        n = _transform(world, world.mesh[i], matrix, lens, scissor, s.point[t], s.pixel[t], start)
        record, seen = _draw_mesh(world, i, rank, scissor, start, lens, s, t, record)
        start += n
        looked_at += seen


@njit(**_INNER)
@no_type_check
def _attributes(world, i, face, start, p, back, textured, out):
    """out (9,) = planes of light/z of one face, and of u/z and v/z if it is textured.

    The light of a quad is the plane that is least wrong in its corners, as if it were a parallelogram.
    """
    g = world.mesh[i]
    i0, i1, i2, i3 = world.faces[face, 0], world.faces[face, 1], world.faces[face, 2], world.faces[face, 3]
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
    q0, q1, q2 = _F(world.light[light + i0, side]), _F(world.light[light + i1, side]), _F(world.light[light + i2, side])
    wrong = _F(0.25) * (q0 - q1 + q2 - _F(world.light[light + i3, side])) if i3 != i2 else _ZERO
    q0, q1, q2 = q0 - wrong, q1 + wrong, q2 - wrong
    q1, q2 = q1 - q0, q2 - q0
    out[0], out[1], out[2] = q0 * nx + q1 * bx + q2 * cx, q0 * ny + q1 * by + q2 * cy, q0 * nz + q1 * bz + q2 * cz
    if textured:
        first = world.vertex_range[g, 0]
        for k in range(2):
            q0 = world.uv[first + i0, k]
            q1, q2 = world.uv[first + i1, k] - q0, world.uv[first + i2, k] - q0
            out[3 + 3 * k] = q0 * nx + q1 * bx + q2 * cx
            out[4 + 3 * k] = q0 * ny + q1 * by + q2 * cy
            out[5 + 3 * k] = q0 * nz + q1 * bz + q2 * cz


@njit(**_INNER)
@no_type_check
def _lit_evenly(world, i, face, back):
    first, side = world.light_start[i], 1 if back else 0
    level = world.light[first + world.faces[face, 0], side]
    return (
        level == world.light[first + world.faces[face, 1], side]
        and level == world.light[first + world.faces[face, 2], side]
        and level == world.light[first + world.faces[face, 3], side]
    )


@njit(**_INNER)
@no_type_check
def _mip_level(plane, q, x, y, iz, size_log2):
    """The level whose texels are about as wide as a pixel at (x, y); q holds the planes of u/z (3:6) and v/z (6:9)."""
    w = _ONE / iz
    u, v = (q[3] * x + q[4] * y + q[5]) * w, (q[6] * x + q[7] * y + q[8]) * w
    ux, vx = (q[3] - u * plane[0]) * w, (q[6] - v * plane[0]) * w
    uy, vy = (q[4] - u * plane[1]) * w, (q[7] - v * plane[1]) * w
    spread = max(ux * ux + vx * vx, uy * uy + vy * vy)
    exponent = (np.float32(spread).view(np.int32) >> 23) - 127 + 2 * size_log2
    return max(0, min(size_log2, (exponent + 1) >> 1))


@njit(**_INNER)
@no_type_check
def _fill_run(out, value, whole):
    for j in range(whole):
        out[j] = value


@njit(**_INNER)
@no_type_check
def _copy(source, target, count):
    for j in range(count):
        target[j] = source[j]


@njit(**_INNER)
@no_type_check
def _shade_light(q, x, y, z, light, whole):
    """Light of a run of pixels at depths z, 0 to 256, from the plane of light/z."""
    base, step = q[1] * y + q[2], q[0]
    for j in range(whole):
        level = np.int32(min(max((step * (x + _F(np.int32(j))) + base) * z[j], _ZERO), _F(255)) + _HALF)
        light[j] = level + (level >> np.int32(7))


@njit(**_INNER)
@no_type_check
def _sheet_planes(q, plane, place, out):
    """out (6,) = planes of 256 row/z and 256 column/z on a sheet, which are linear in u/z, v/z and 1/z."""
    for k in range(3):
        out[k] = _F(256) * (place[0] * q[3 + k] + place[1] * q[6 + k] + place[2] * plane[k])
        out[3 + k] = _F(256) * (place[3] * q[3 + k] + place[4] * q[6 + k] + place[5] * plane[k])


@njit(**_INNER)
@no_type_check
def _lumel(q, x, to_row, to_column, z, lumels, size):
    """Light of a pixel, 0 to 256, bilinear between four lumels of a sheet; two are blended by one multiplication."""
    row = np.int32(min(max((q[0] * x + to_row) * z, _ZERO), _F(np.int32((size[0] - 1) << 8))))
    column = np.int32(min(max((q[3] * x + to_column) * z, _ZERO), _F(np.int32((size[1] - 1) << 8))))
    at = np.uint32((row >> np.int32(8)) * size[1] + (column >> np.int32(8)))
    down, right = np.uint32(row & np.int32(255)), np.uint32(column & np.int32(255))
    left_pair, right_pair = np.uint32(lumels[at]), np.uint32(lumels[at + np.uint32(1)])
    above = (left_pair & np.uint32(255)) | (right_pair & np.uint32(255)) << np.uint32(16)
    below = left_pair >> np.uint32(8) | right_pair >> np.uint32(8) << np.uint32(16)
    both = np.uint32(np.uint32(above * (np.uint32(256) - down)) + np.uint32(below * down))
    level = (both & np.uint32(0xFFFF)) * (np.uint32(256) - right) + (both >> np.uint32(16)) * right
    return _F(np.int32(level)) * _F(256 / 255 / 65536)


@njit(**_INNER)
@no_type_check
def _shade_sheet(q, x, y, z, lumels, size, light, phase, count):
    """Light of a run of `count` pixels, 0 to 256, from a sheet: exact in each SHEET_STEP-th column and at both ends.

    It is linear between these. `phase`: columns from the last exact one to the run's first. Writes up to SHEET_STEP
    pixels too many.
    """
    to_row, to_column = q[1] * y + q[2], q[4] * y + q[5]
    here, first, last = _lumel(q, x, to_row, to_column, z[0], lumels, size), 0, count - 1
    while first < last:
        end = min(first + SHEET_STEP - phase, last)
        there = _lumel(q, x + _F(np.int32(end)), to_row, to_column, z[end], lumels, size)
        step, base = (there - here) * _PART[end - first], here + _HALF
        whole = (end - first + LANES - 1) & -LANES
        part = light[first : first + whole]
        for j in range(whole):
            part[j] = np.int32(base + step * _F(np.int32(j)))
        here, first, phase = there, end, 0
    light[last] = np.int32(here + _HALF)


@njit(**_INNER)
@no_type_check
def _keep_run(s, t, record, first, end):
    """Notes a run that `_share_light` may give to the row below."""
    k = s.kept[t, 1]
    runs = s.row_int[t, KEPT:]
    runs[0, k], runs[1, k], runs[2, k] = record, first, end
    s.kept[t, 1] = k + 1


@njit(**_INNER)
@no_type_check
def _share_light(s, t, record, first, end, light):
    """Copies light from the row above if the same record fills it there but for MOST_APART pixels; returns whether."""
    runs, count = s.row_int[t, KEPT:], s.kept[t, 1]
    k = s.kept[t, 0]
    while k < count and runs[2, k] <= first:
        k += 1
    s.kept[t, 0] = k
    if k < count and runs[0, k] != record:
        k += 1
    if k >= count or runs[0, k] != record:
        return False
    left, right = runs[1, k], runs[2, k]
    if left - first > MOST_APART or end - right > MOST_APART or left >= end:
        return False
    above, whole = s.row_int[t, LIGHT], (end - first + LANES - 1) & -LANES
    _copy(above[first : first + whole], light, whole)
    for j in range(first, left):
        light[j - first] = above[left]
    for j in range(right, end):
        light[j - first] = above[right - 1]
    return True


@njit(**_INNER)
@no_type_check
def _shade_texture(q, x, y, z, texels, size_log2, texel, whole):
    """Texels of a run of pixels at depths z; `texels` is one mip level."""
    size, shift = 1 << size_log2, np.int32(size_log2)
    scale, mask = _F(size), np.int32(size - 1)
    u_step, u_base = q[3] * scale, (q[4] * y + q[5]) * scale
    v_step, v_base = -q[6] * scale, -(q[7] * y + q[8]) * scale
    for j in range(whole):
        px = x + _F(np.int32(j))
        column = np.int32(np.floor((u_step * px + u_base) * z[j])) & mask
        row = np.int32(np.floor((v_step * px + v_base) * z[j])) & mask
        texel[j] = row << shift | column
    for j in range(whole):
        texel[j] = texels[np.uint32(texel[j])]


@njit(**_INNER)
@no_type_check
def _tint(rgb, texel, whole):
    """Multiplies packed texels by a colour."""
    r, g, b = np.int32(rgb[0]), np.int32(rgb[1]), np.int32(rgb[2])
    r, g, b = r + (r >> np.int32(7)), g + (g >> np.int32(7)), b + (b >> np.int32(7))
    low, eight, sixteen = np.int32(255), np.int32(8), np.int32(16)
    for j in range(whole):
        c = texel[j]
        red, green, blue = (
            (c & low) * r >> eight,
            ((c >> eight) & low) * g >> eight,
            ((c >> sixteen) & low) * b >> eight,
        )
        texel[j] = red | green << eight | blue << sixteen


@njit(**_INNER)
@no_type_check
def _light_row(texel, light, out):
    """out (3 W,) = the packed texels times light / 256."""
    outer, inner, eight = np.uint32(0xFF00FF), np.uint32(0xFF00), np.uint32(8)
    for j in range(texel.size):
        c, level = np.uint32(texel[j]), np.uint32(light[j])
        red_blue = (np.uint32((c & outer) * level) >> eight) & outer
        green = (np.uint32((c & inner) * level) >> eight) & inner
        texel[j] = np.int32(red_blue | green)
    fours = texel.size >> 2
    words = out[: 12 * fours].view(np.uint32)
    for k in range(fours):
        a, b = np.uint32(texel[4 * k]), np.uint32(texel[4 * k + 1])
        c, d = np.uint32(texel[4 * k + 2]), np.uint32(texel[4 * k + 3])
        words[3 * k] = a | b << np.uint32(24)
        words[3 * k + 1] = b >> eight | c << np.uint32(16)
        words[3 * k + 2] = c >> np.uint32(16) | d << eight
    for j in range(4 * fours, texel.size):
        for k in range(3):
            out[3 * j + k] = np.uint8(texel[j] >> np.int32(8 * k))


@njit(**_INNER)
@no_type_check
def _find_runs(ids, width, changed, starts):
    """starts[k] = first pixel of the row's k-th run of equal records, then the width; returns the number of runs.

    One test asks eight pixels at once for the start of a run. Rows resemble their neighbours, so the processor predicts
    the branch. `changed` (W / 8,) is working memory.
    """
    flags, whole = changed.view(np.uint8), (width + LANES - 2) & -LANES
    for j in range(whole):
        flags[j] = ids[j + 1] != ids[j]
    for j in range(width - 1, whole):
        flags[j] = 0
    starts[0], count = 0, 1
    for k in range(whole // LANES):
        word = changed[k]
        while word != np.uint64(0):
            starts[count] = np.int32(LANES * k + 1) + np.int32(np.int64(trailing_zeros(word)) >> 3)
            count += 1
            word &= word - np.uint64(1)
    starts[count] = width
    return count


@njit(**_INNER)
@no_type_check
def _show_outside(outside, first, turn, texel, light, whole):
    """Texels and light of pixels, from `first` on, that show the outside turned by `turn` columns."""
    place, in_row = outside.place[first : first + whole], np.int32(outside.num_columns - 1)
    for j in range(whole):
        at = place[j]
        texel[j] = outside.texels[np.uint32((at & ~in_row) | ((at + turn) & in_row))]
    _fill_run(light, np.int32(256), whole)


@njit(**_INNER)
@no_type_check
def _shade_run(world, s, t, record, i, x, y, count, whole, run, outside, pixel, column, turn):
    """Texels and light of `count` pixels that show the same record, of instance i; writes `whole` pixels."""
    iz, z, texel, light = run
    face = s.face[t, record]
    material = world.material[i] + world.face_slot[face]
    rgb, texture, unlit = world.rgb[material], world.texture[material], world.unlit[material]
    if unlit == PANE:
        _show_outside(outside, pixel, turn, texel, light, whole)
        return
    q = s.attribute[t, record]
    if not s.state[t, record] & 1:
        back = s.state[t, record] & 2 != 0
        sheet = np.int64(-1) if back else np.int64(world.face_sheet[face])
        start = s.vertex_start[t, s.rank[t, record]]
        _attributes(world, i, face, start, s.point[t], back, texture >= 0 or sheet >= 0, q)
        if sheet >= 0:
            _sheet_planes(q, s.plane[t, record], world.sheet_place[sheet], s.on_sheet[t, record])
        s.state[t, record] |= 1 | (8 if sheet >= 0 else (4 if _lit_evenly(world, i, face, back) else 0))
        s.even_light[t, record] = world.light[world.light_start[i] + world.faces[face, 0], 1 if back else 0]
    if unlit:
        _fill_run(light, np.int32(256), whole)
    elif s.state[t, record] & 4:
        level = np.int32(s.even_light[t, record])
        _fill_run(light, level + (level >> np.int32(7)), whole)
    elif s.state[t, record] & 8:
        end = column + count
        if s.kept[t, 2] or not _share_light(s, t, record, column, end, light):
            sheet = np.int64(world.face_sheet[face])
            lumels = world.lumels[world.sheet_start[sheet] :]
            _shade_sheet(
                s.on_sheet[t, record], x, y, z, lumels, world.sheet_size[sheet], light, column % SHEET_STEP, count
            )
            if s.kept[t, 2]:
                _keep_run(s, t, record, column, end)
    else:
        _shade_light(q, x, y, z, light, whole)
    if texture < 0:
        colour = np.int32(rgb[0]) | np.int32(rgb[1]) << np.int32(8) | np.int32(rgb[2]) << np.int32(16)
        _fill_run(texel, colour, whole)
        return
    size_log2, plane = world.size_log2[texture], s.plane[t, record]
    first = 0
    while first < count:
        last = count
        middle = (first + min(count, first + CHUNK)) >> 1
        level = _mip_level(plane, q, x + _F(middle), y, iz[middle], size_log2)
        while last - first > CHUNK and _mip_level(plane, q, x + _F(last - 1), y, iz[last - 1], size_log2) != level:
            last = first + max(CHUNK, (last - first) >> 1)
        start = world.texel_start[texture] + ((4 << 2 * size_log2) - (4 << 2 * (size_log2 - level))) // 3
        texels = world.texels[start : start + (1 << 2 * (size_log2 - level))]
        part = (last - first + LANES - 1) & -LANES
        end = first + part
        _shade_texture(q, x + _F(first), y, z[first:end], texels, size_log2 - level, texel[first:end], part)
        first = last
    if rgb[0] != 255 or rgb[1] != 255 or rgb[2] != 255:
        _tint(rgb, texel, whole)


@njit(**_INNER)
@no_type_check
def _shade_row(world, s, t, first_pixel, y, ox, width, outside, turn, exact, coloured):
    """Fills the row's texels and light (if `coloured`) and its packed class and instance numbers, run by run.

    A run is written in whole LANES; the next run overwrites its excess.
    """
    pad = width + LANES
    ids, iz = s.record[t, first_pixel : first_pixel + pad], s.inverse_depth[t, first_pixel : first_pixel + pad]
    z, starts = s.row_float[t], s.row_int[t, STARTS]
    texel, light, labels = s.row_int[t, TEXEL], s.row_int[t, LIGHT if exact else LIGHT + 1], s.row_int[t, LABEL]
    s.kept[t, 0], s.kept[t, 2] = 0, exact
    if exact:
        s.kept[t, 1] = 0
    order, rank = s.order[t], s.rank[t]
    for k in range(_find_runs(ids, width, s.changed[t], starts)):
        first, count = starts[k], starts[k + 1] - starts[k]
        whole = (count + LANES - 1) & -LANES
        end = first + whole
        record = ids[first]
        if record < 0:
            _fill_run(labels[first:end], np.int32(0), whole)
            _show_outside(outside, first_pixel + first, turn, texel[first:end], light[first:end], whole)
            continue
        i = order[rank[record]]
        label = np.int32(world.class_id[i]) | np.int32(world.instance_id[i]) << np.int32(8)
        _fill_run(labels[first:end], label, whole)
        if coloured:
            run = iz[first:end], z[first:end], texel[first:end], light[first:end]
            pixel = first_pixel + first
            _shade_run(world, s, t, record, i, _F(first) + ox, y, count, whole, run, outside, pixel, first, turn)


@njit(**_SHARP)
@no_type_check
def _shade_view(world, view, lens, s, t, outside, wanted, rgb, depth, class_id, instance_id):
    """Writes the wanted images of one view from the visibility buffer."""
    width = lens.width
    ox, oy = _HALF - _F(width) * _HALF, _HALF - _F(lens.height) * _HALF
    z, labels = s.row_float[t], s.row_int[t, LABEL]
    by_record = wanted[0] or wanted[2] or wanted[3]
    turn = np.int32(np.rint(np.arctan2(view[2], view[0]) / (2 * np.pi) * outside.num_columns))
    for i in range(lens.height):
        iz = s.inverse_depth[t, i * width : (i + 1) * width + LANES]
        if wanted[0] or wanted[1]:
            for j in range(iz.size):
                z[j] = _ONE / iz[j] if iz[j] > _ZERO else _ZERO
        exact = i % SHEET_ROWS == 0
        if by_record:
            _shade_row(world, s, t, i * width, _F(np.int32(i)) + oy, ox, width, outside, turn, exact, wanted[0])
        if wanted[0]:
            _light_row(s.row_int[t, TEXEL, :width], s.row_int[t, LIGHT if exact else LIGHT + 1], rgb[i])
        if wanted[1]:
            _copy(z, depth[i], width)
        if wanted[2]:
            row = class_id[i]
            for j in range(row.size):
                row[j] = np.uint8(labels[j])
        if wanted[3]:
            row = instance_id[i]
            for j in range(row.size):
                row[j] = np.uint16(labels[j] >> np.int32(8))


@njit(parallel=True, cache=True, nogil=True)
@no_type_check
def draw(world, lens, scenes, views, scratch, outside, wanted, rgb, depth, class_id, instance_id):
    """Draws view n of scene scenes[n]; views[n] (12,) holds the rows right, down, forward and the camera's position.

    wanted (4,) bool selects the images to write among rgb, depth, class_id and instance_id; others are not touched.
    """
    for n in prange(scenes.size):
        t = get_thread_id()
        _draw_scene(world, scenes[n], views[n], lens, scratch, t)
        k0, k1, k2, k3 = n * wanted[0], n * wanted[1], n * wanted[2], n * wanted[3]
        _shade_view(
            world, views[n], lens, scratch, t, outside, wanted, rgb[k0], depth[k1], class_id[k2], instance_id[k3]
        )
