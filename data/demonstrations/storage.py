"""Demonstrations: shortest walks to each question's target, with the encoder's features of every frame on the way.

Each split is one HDF5 file. S counts frames over all episodes, E episodes, F features. Episode i owns the rows
`offsets[i]:offsets[i + 1]`. Its frame t is seen just before its action t (the last action is STOP).

    features    (S, F) float16   the frozen encoder's output
    actions     (S,)   int8      ids of an envs.actions.ActionSet
    poses       (S, 4) float64   x, y, z, heading_rad of the frame
    distance_m  (S,)   float32   geodesic distance to the goal region
    offsets     (E+1,) int64
    episodes    (E,)   string    envs.episode.Episode as JSON
    targets     (S,)   int8      only if other actions were taken (`models.learning.dagger`): the expert's

Attributes: format, version, configuration (JSON: all that the contents depend on). Features are stored contiguously, so
a reader maps them into memory instead of loading them.

Building goes house by house through small part files, so a killed build continues with the next house.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np
from jaxtyping import Float, Int, UInt8

from eqa.envs.actions import LETTERS
from eqa.envs.episode import Episode
from eqa.envs.files import atomic_write
from eqa.envs.reading import named, parsed
from eqa.envs.shards import OthersMissing, Shard

FORMAT = "eqa-demonstrations"
FORMAT_VERSION = 3
REBUILD = "python scripts/make_demos.py rebuilds it"
CHECKED_AT_ONCE = 1 << 20  # numbers of features: as many as fit a core's cache

Encode = Callable[[UInt8[np.ndarray, "B H W 3"]], Float[np.ndarray, "B F"]]


@dataclass(frozen=True, slots=True)
class Demonstrations:
    """A demonstration file, read. `features` is mapped from disk; the rest is in memory."""

    path: Path
    episodes: list[Episode]
    offsets: Int[np.ndarray, " E1"]
    features: np.ndarray
    actions: Int[np.ndarray, " S"]
    poses: Float[np.ndarray, "S 4"]
    distance_m: Float[np.ndarray, " S"]
    targets: Int[np.ndarray, " S"]  # the expert's actions; `actions` unless the file has others

    def __len__(self) -> int:
        return len(self.episodes)

    @property
    def lengths(self) -> Int[np.ndarray, " E"]:
        """Number of actions of each episode, STOP included."""
        return np.diff(self.offsets)

    def rows(self, episode: int) -> slice:
        return slice(int(self.offsets[episode]), int(self.offsets[episode + 1]))

    @classmethod
    def open(cls, path: Path, *, configuration: Mapping | None = None) -> "Demonstrations":
        """Opens a file; ValueError if it is damaged, of another version, or was made with another configuration."""
        with named(path, "not a usable demonstration file", REBUILD):
            with h5py.File(path, "r") as file:
                found = (attribute(file, "format"), file.attrs.get("version"))
                if found != (FORMAT, FORMAT_VERSION):
                    raise ValueError(f"expected {FORMAT} version {FORMAT_VERSION}, got {found[0]} version {found[1]}")
                _check_sizes(file, path.stat().st_size)
                made_with = parsed(attribute(file, "configuration"))
                if configuration is not None and made_with != dict(configuration):
                    raise ValueError(f"it was made with another configuration: {_difference(made_with, configuration)}")
                features = file["features"]
                if features.ndim != 2 or features.dtype != np.float16 or features.id.get_offset() is None:
                    raise ValueError(f"features: expected contiguous rows of float16, got {features}")
                mapped = np.memmap(
                    path, mode="r", dtype=features.dtype, shape=features.shape, offset=features.id.get_offset()
                )
                demos = cls(
                    path=path,
                    episodes=[Episode.from_dict(parsed(text)) for text in file["episodes"].asstr()[:]],
                    offsets=file["offsets"][:],
                    features=mapped,
                    actions=file["actions"][:],
                    poses=file["poses"][:],
                    distance_m=file["distance_m"][:],
                    targets=file[next(name for name in ("targets", "labels", "actions") if name in file)][:],
                )
            _check(demos)
            return demos


def _check_sizes(file: h5py.File, most: int) -> None:
    """Raises ValueError for a dataset that claims to be larger than the file."""
    for name, dataset in file.items():
        if not isinstance(dataset, h5py.Dataset) or dataset.size * dataset.dtype.itemsize > most:
            raise ValueError(f"{name}: expected no more numbers than the file has room for")


def _check(demos: Demonstrations) -> None:
    """Raises ValueError for arrays that do not agree, or hold values impossible in a walk."""
    num_frames, offsets = len(demos.features), demos.offsets
    expected = {"poses": (num_frames, 4)} | dict.fromkeys(("actions", "distance_m", "targets"), (num_frames,))
    for name, shape in {**expected, "offsets": (len(demos.episodes) + 1,)}.items():
        if getattr(demos, name).shape != shape:
            raise ValueError(f"{name}: expected {shape} for the features, got {getattr(demos, name).shape}")
    for name in ("offsets", "actions", "targets"):
        if not np.issubdtype(getattr(demos, name).dtype, np.integer):
            raise ValueError(f"{name}: expected whole numbers, got {getattr(demos, name).dtype}")
    if (offsets[0], offsets[-1]) != (0, num_frames) or (np.diff(offsets) < 1).any():
        raise ValueError(f"offsets: expected a frame or more for each episode, and 0 to {num_frames} in all")
    for name in ("actions", "targets"):
        values = getattr(demos, name)
        if not ((values >= 0) & (values < len(LETTERS))).all():
            raise ValueError(f"{name}: expected 0 to {len(LETTERS) - 1}, got {values.min()} to {values.max()}")
    for name in ("poses", "distance_m"):
        if not np.isfinite(getattr(demos, name)).all():
            raise ValueError(f"{name}: expected finite numbers, got others")
    flat = demos.features.reshape(-1).view(np.uint16)
    for begin in range(0, len(flat), CHECKED_AT_ONCE):
        if (flat[begin : begin + CHECKED_AT_ONCE] & 0x7FFF).max() >= 0x7C00:  # the exponent of infinity and NaN
            raise ValueError("features: expected finite numbers, got others")


def _difference(got: Mapping, expected: Mapping) -> str:
    keys = sorted(k for k in {*got, *expected} if got.get(k) != expected.get(k))
    return ", ".join(f"{k}: expected {expected.get(k)!r}, got {got.get(k)!r}" for k in keys)


@dataclass(frozen=True, slots=True)
class Recording:
    """One house's part: arrays as in the file, with `lengths` in place of offsets."""

    episodes: Sequence[Episode]
    lengths: Int[np.ndarray, " E"]
    features: Float[np.ndarray, "S F"]
    actions: Int[np.ndarray, " S"]
    poses: Float[np.ndarray, "S 4"]
    distance_m: Float[np.ndarray, " S"]

    def save(self, path: Path, configuration: Mapping) -> None:
        write(path, [self], num_frames=len(self.actions), num_features=self.features.shape[1], config=configuration)


def read_part(path: Path, configuration: Mapping) -> Recording:
    part = Demonstrations.open(path, configuration=configuration)
    return Recording(part.episodes, part.lengths, part.features, part.actions, part.poses, part.distance_m)


def write(
    path: Path,
    parts: Sequence[Recording],
    *,
    num_frames: int,
    num_features: int,
    config: Mapping,
    extras: Mapping[str, np.ndarray] | None = None,
) -> None:
    """Writes parts one after the other into one file, through a renamed temporary file; `parts` may be lazy.

    `extras` are further datasets: those of `data.demonstrations.human`, or targets (S,) int8, the expert's actions
    where the walk did something else.
    """
    columns = {
        "features": ("f2", (num_features,)),
        "actions": ("i1", ()),
        "poses": ("f8", (4,)),
        "distance_m": ("f4", ()),
    }
    with atomic_write(path) as aside, h5py.File(aside, "w", libver="latest") as file:
        about = {"format": FORMAT, "configuration": json.dumps(dict(config), sort_keys=True)}
        file.attrs.update({name: np.bytes_(text) for name, text in about.items()} | {"version": FORMAT_VERSION})
        sets = {name: file.create_dataset(name, (num_frames, *tail), kind) for name, (kind, tail) in columns.items()}
        episodes, lengths, row = [], [np.zeros(1, np.int64)], 0
        for part in parts:
            rows = slice(row, row + len(part.actions))
            for name, dataset in sets.items():
                dataset[rows] = getattr(part, name)
            episodes += [json.dumps(e.to_dict()) for e in part.episodes]
            lengths.append(part.lengths)
            row = rows.stop
        if row != num_frames:
            raise ValueError(f"{path}: expected {num_frames} frames, got {row}")
        file["offsets"] = np.cumsum(np.concatenate(lengths))
        file["episodes"] = texts(episodes)
        for name, values in (extras or {}).items():
            file.create_dataset(name, data=values)


def texts(values: Sequence[str]) -> np.ndarray:
    """Texts as a dataset of fixed length: for others HDF5 has no checksum, and reading them may never end."""
    encoded = [text.encode() for text in values]
    return np.array(encoded, h5py.string_dtype(length=max(map(len, encoded), default=1) or 1))


def attribute(file: h5py.File, name: str) -> str | None:
    """A text among the file's attributes."""
    value = file.attrs.get(name)
    return value.decode() if isinstance(value, bytes) else value


def build(
    path: Path,
    episodes: Sequence[Episode],
    record: Callable[[str, list[Episode]], Recording],
    *,
    configuration: Mapping,
    shard: Shard | None = None,
) -> Iterator[tuple[int, int]]:
    """Records every house's episodes and joins them to `path`; yields (houses done, houses in all) as it goes.

    `record(scene_id, episodes)` walks, renders and encodes one house. Each house is kept in a part file until the whole
    is written, so a killed build continues from there. A `shard` records its part of the houses and joins nothing;
    OthersMissing if others have not recorded the rest yet.
    """
    if not episodes:
        raise ValueError(f"{path.stem}: no question to demonstrate; python scripts/make_questions.py makes more")
    by_house: dict[str, list[Episode]] = {}
    for episode in episodes:
        by_house.setdefault(episode.scene_id, []).append(episode)
    folder = path.with_suffix(".parts")
    files = [folder / f"{scene_id}.h5" for scene_id in by_house]
    own = list(zip(files, by_house.items(), strict=True))
    own = own if shard is None else shard.of(own)
    for done, (part, (scene_id, of_house)) in enumerate(own):
        yield done, len(own)
        if not _is_usable(part, configuration):
            record(scene_id, of_house).save(part, configuration)
    if shard is not None:
        yield len(own), len(own)
        if left := [place for place, part in enumerate(files) if not part.exists()]:
            raise OthersMissing(shard.makers(left))
        return
    recordings = [read_part(part, configuration) for part in files]
    num_frames = sum(len(r.actions) for r in recordings)
    write(path, recordings, num_frames=num_frames, num_features=recordings[0].features.shape[1], config=configuration)
    for part in files:
        part.unlink()
    folder.rmdir()
    yield len(by_house), len(by_house)


def _is_usable(part: Path, configuration: Mapping) -> bool:
    try:
        Demonstrations.open(part, configuration=configuration)
    except ValueError:
        return False
    return True
