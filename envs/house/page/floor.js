// Floor: where an agent can stand, cell by cell as envs/navigation/floor.py has it, and the moves that it allows.

const NEAREST_M = 1.5; // how far a click may be from the floor that it means

class Floor {
  constructor({side, origin, cell_m}, bits, rooms) {
    Object.assign(this, {side, origin, cell_m, bits, rooms});
  }

  isFree(x, z) {
    const column = Math.floor((x - this.origin[0]) / this.cell_m), row = Math.floor((z - this.origin[1]) / this.cell_m);
    if (column < 0 || row < 0 || column >= this.side || row >= this.side) return false;
    const cell = row * this.side + column;
    return Boolean(this.bits[cell >> 3] >> (cell & 7) & 1);
  }

  slide(x, z, dx, dz) { // the end of a move in parts of a cell or less, each whole, or along the axis that is free
    const parts = Math.ceil(Math.hypot(dx, dz) / this.cell_m);
    for (let k = 0; k < parts; k++) {
      const ways = [[dx, dz], [dx, 0], [0, dz]].map(way => way.map(metres => metres / parts));
      const [mx, mz] = ways.find(([mx, mz]) => (mx || mz) && this.isFree(x + mx, z + mz)) || [0, 0];
      [x, z] = [x + mx, z + mz];
    }
    return [x, z];
  }

  nearest(x, z) { // free place, in growing rings; null where there is none close by
    for (let r = 0; r <= NEAREST_M; r += this.cell_m) {
      const turns = Math.max(1, Math.ceil(2 * Math.PI * r / this.cell_m));
      for (let k = 0; k < turns; k++) {
        const angle = 2 * Math.PI * k / turns, place = [x + r * Math.cos(angle), z + r * Math.sin(angle)];
        if (this.isFree(...place)) return place;
      }
    }
    return null;
  }

  roomAt(x, z) { // its name, "" inside a wall
    const inside = ({outline}) => outline.reduce((odd, [ax, az], k) => {
      const [bx, bz] = outline[(k + 1) % outline.length];
      return (az <= z) !== (bz <= z) && x < ax + (z - az) * (bx - ax) / (bz - az) ? !odd : odd;
    }, false);
    const room = this.rooms.find(inside);
    return room ? room.name : "";
  }
}
