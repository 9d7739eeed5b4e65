"""Question files as sources: the questions and walks of the set that they were converted from, and plain refusals."""

import gzip
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from eqa.data.benchmarks import lost
from eqa.data.benchmarks.eqa_v1 import EQAv1, write_eqa_v1
from eqa.data.benchmarks.files import QuestionFiles
from eqa.data.benchmarks.mp3d_eqa import MP3DEQA, write_mp3d_eqa
from eqa.data.generated import GeneratedEQA
from eqa.data.vocabulary import Vocabulary
from eqa.envs.episode import Entity, Episode
from eqa.envs.house.house import House
from eqa.envs.house.simulator import HouseWorld
from tests.helpers.hand_episodes import bare, episode
from tests.helpers.small_house import small_house

pytestmark = pytest.mark.usefixtures("single_thread")
ARRAYS = ("offsets", "features", "actions", "poses", "distance_m")
LOST = {"program", "source"}  # by EQA v1's format, for good


class MeanColor:
    """Features that are the mean colour of a frame."""

    identity, map_shape, place_names = "mean-color", (3, 1, 1), None

    def __call__(self, rgb: torch.Tensor) -> torch.Tensor:
        return torch.as_tensor(rgb).float().mean((1, 2)).half()


class SmallSet(GeneratedEQA):
    """The smallest generated set: a small house in each split, and no homes that people designed."""

    houses = {split: [small_house(f"{split}-00000")] for split in ("train", "val", "test")} | {"human": []}

    def house(self, house_id: str) -> House:
        return small_house(house_id)


def world() -> HouseWorld:
    return HouseWorld(small_house)


@pytest.fixture(scope="module", autouse=True)
def data_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EQA_DATA", str(tmp_path_factory.mktemp("data")))
        yield


@pytest.fixture(scope="module")
def generated(data_folder: None) -> GeneratedEQA:
    sizes = dict.fromkeys(("train", "val", "test"), 1)
    questions = {"train": 6, "val": 2, "test": 2}
    return SmallSet(seed=0, houses=sizes, questions=questions, balance="none", encode=MeanColor())


@pytest.fixture(scope="module")
def files(generated: GeneratedEQA, tmp_path_factory: pytest.TempPathFactory) -> dict[type[QuestionFiles], Path]:
    folder = tmp_path_factory.mktemp("files")
    splits = {split: generated.episodes(split) for split in ("train", "val", "test")}
    for split, episodes in splits.items():
        write_mp3d_eqa(folder / "mp3d" / split / f"{split}.json.gz", episodes, vocabulary=generated.vocabulary)
    write_eqa_v1(folder / "eqa_v1.json", splits)
    return {MP3DEQA: folder / "mp3d", EQAv1: folder / "eqa_v1.json"}


@pytest.mark.parametrize("kind", [MP3DEQA, EQAv1])
def test_questions_and_walks_are_those_of_the_set_that_was_converted(
    kind: type[QuestionFiles], files: dict, generated: GeneratedEQA
) -> None:
    source = kind(path=files[kind], world=world(), encode=MeanColor())
    assert set(source.splits) == {"train", "val", "test"} and source.vocabulary == generated.vocabulary
    before = source.fingerprints()
    for split in source.splits:
        assert len(source.episodes(split)) == len(generated.episodes(split))
        ours, theirs = generated.demonstrations(split), source.demonstrations(split)
        for name in ARRAYS:
            assert np.array_equal(getattr(ours, name), getattr(theirs, name)), (split, name)
        changed = {name for pair in zip(ours.episodes, theirs.episodes, strict=True) for name in lost(*pair)}
        assert changed == (LOST if kind is EQAv1 else set())
    assert source.fingerprints() == before
    others = kind(path=files[kind], world=HouseWorld(small_house, identity="others"), encode=MeanColor())
    assert others.fingerprints()["questions"] == before["questions"]
    assert not set(others.fingerprints()["demonstrations"].values()) & set(before["demonstrations"].values())


def test_an_exported_house_is_known_by_its_file_where_info_is_gone(files: dict, tmp_path: Path) -> None:
    original = files[MP3DEQA] / "test" / "test.json.gz"
    document = json.loads(gzip.decompress(original.read_bytes()))
    for entry in document["episodes"]:
        del entry["info"]
    (tmp_path / "test.json.gz").write_bytes(gzip.compress(json.dumps(document).encode()))
    read = MP3DEQA(path=tmp_path, world=world()).episodes("test")
    whole = MP3DEQA(path=original).episodes("test")
    for name in ("scene_id", "frame", "walk", "view_points", "start"):
        assert [getattr(e, name) for e in read] == [getattr(e, name) for e in whole], name


def test_questions_that_cannot_be_walked_are_left_out_and_counted(
    files: dict, generated: GeneratedEQA, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = generated.episodes("test")
    path = tmp_path / "eqa_v1.json"
    write_eqa_v1(path, {"test": [replace(asked[0], touched=None), *asked[1:]]})
    source = EQAv1(path=path, world=world(), encode=MeanColor())
    assert len(source.demonstrations("test")) == len(asked) - 1 == len(source.episodes("test")) - 1
    assert f"test: 1 of {len(asked)} questions are left out" in capsys.readouterr().out


def sofa(**changes: object) -> Entity:
    return replace(Entity("object", "sofa", (0.5, 0.0, 0.2), (2.5, 0.8, 1.0), 1, True), **changes)


def eqa_v1(path: Path, episodes: list[Episode], split: str = "train") -> EQAv1:
    write_eqa_v1(path, {split: episodes})
    return EQAv1(path=path, world=world(), encode=MeanColor())


def test_frames_without_a_world_can_be_read_but_not_played(tmp_path: Path) -> None:
    source = eqa_v1(tmp_path / "eqa_v1.json", [bare(0, frame="suncg")])
    assert len(source.episodes("train")) == 1
    for refused in (lambda: source.world, source.fingerprints, lambda: source.demonstrations("train")):
        with pytest.raises(ValueError, match="got 'suncg' .*SUNCG was withdrawn"):
            refused()
    scans = [episode(0, "mp3d/17DRP/17DRP.glb", frame="habitat")]
    write_mp3d_eqa(tmp_path / "val.json.gz", scans, vocabulary=Vocabulary.of(scans))
    source = MP3DEQA(path=tmp_path / "val.json.gz", world=world())
    assert source.episodes("val")[0].scene_id == scans[0].scene_id
    with pytest.raises(ValueError, match="got 'habitat' .*about scans, in which env=habitat"):
        source.world  # noqa: B018


def test_what_is_missing_is_named_with_the_remedy(files: dict, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="found nothing at .*convert_questions"):
        MP3DEQA(path=tmp_path / "nowhere")
    only_val = files[MP3DEQA] / "val" / "val.json.gz"
    with pytest.raises(ValueError, match=r"split 'train', got those of \['val'\] alone"):
        MP3DEQA(path=only_val).episodes("train")
    with pytest.raises(ValueError, match=r"expected a split 'train'.*data.vocabulary="):
        MP3DEQA(path=only_val).vocabulary  # noqa: B018
    with_words = MP3DEQA(path=only_val, vocabulary=str(files[MP3DEQA]))
    assert with_words.vocabulary == MP3DEQA(path=files[MP3DEQA]).vocabulary
    with pytest.raises(ValueError, match="world: expected one"):
        MP3DEQA(path=only_val).world  # noqa: B018


def test_questions_about_other_houses_are_refused(tmp_path: Path) -> None:
    for name, touched in (("kind", sofa(name="bed")), ("id", sofa(id=2)), ("none", sofa(id=99))):
        asked = [bare(0, "train-00000", touched=(touched,))]
        with pytest.raises(ValueError, match=r"about other houses; set env\.seed"):
            eqa_v1(tmp_path / f"{name}.json", asked).demonstrations("train")
    with pytest.raises(ValueError, match="can be walked, got none of 1"):
        eqa_v1(tmp_path / "eqa_v1.json", [bare(0, "train-00000")]).demonstrations("train")
