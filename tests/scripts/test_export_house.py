"""Pages of scripts/export_house.py: whole and without a network; walked, played and seen in a browser where there is one."""

import base64
import gzip
import io
import json
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

from eqa.envs.actions import HOUSE_ACTIONS, LETTERS
from eqa.envs.episode import Episode
from eqa.envs.house.build import build_floor, build_scene
from eqa.envs.house.catalog import load_catalog
from eqa.envs.house.export import house_glb
from eqa.envs.house.export_meshes import MOST_OFF
from eqa.envs.house.web_page import write_page
from eqa.envs.navigation.walk import replay
from eqa.envs.rendering.renderer import Renderer
from eqa.scripts import export_house
from tests.helpers.browser import open_browser
from tests.helpers.poses import on_floor
from tests.helpers.small_house import small_house

SECONDS = 20
BEFORE_WALL = (0.6, 1.4, np.pi / 2)  # x, z and heading: half a metre before the wall of the living room
LOOKS = [(3.2, 3.2, 0.6), (1.0, 1.4, 3.6), (5.2, 3.0, 5.9)]


class Page(HTMLParser):
    """Contents of the embedded scripts by their id, and every attribute."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.embedded: dict[str, str] = {}
        self.attributes: list[tuple[str, str | None]] = []
        self._open: str | None = None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += attrs
        self._open = dict(attrs).get("id", "code") if tag == "script" else None

    def handle_data(self, data: str) -> None:
        if self._open:
            self.embedded[self._open] = self.embedded.get(self._open, "") + data

    def unpacked(self, name: str) -> bytes:
        return gzip.decompress(base64.b64decode(self.embedded[name]))


def export(monkeypatch: pytest.MonkeyPatch, *words: object) -> None:
    monkeypatch.setattr(sys, "argv", ["export_house.py", *map(str, words)])
    export_house.main()


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of the small house with six questions."""
    folder = tmp_path_factory.mktemp("page")
    small_house().save(folder / "house.json")
    with pytest.MonkeyPatch.context() as patch:
        export(patch, folder / "house.json", "--html", "--questions", 6, "--out", folder)
    return folder / "small-0.html"


def test_a_page_holds_the_house_its_floor_and_walks_to_answers(page: Path) -> None:
    house, catalog = small_house(), load_catalog()
    scene, found = build_scene(house, catalog), Page(page.read_text(encoding="utf-8"))
    floor = build_floor(house, scene, catalog.meshes)
    home = json.loads(found.embedded["house"])
    assert found.unpacked("glb") == house_glb(house, scene, catalog)
    bits = np.unpackbits(np.frombuffer(found.unpacked("free"), np.uint8), bitorder="little")
    assert np.array_equal(bits[: floor.free.size].reshape(floor.free.shape).astype(bool), floor.free)
    assert home["floor"] == {"side": len(floor.free), "origin": list(floor.origin), "cell_m": floor.cell_m}
    assert Image.open(io.BytesIO(base64.b64decode(found.embedded["plan-image"]))).format == "JPEG"
    assert floor.is_free(np.array([home["start"][:2]])).all()
    assert [room["name"] for room in home["rooms"]] == [room.type for room in house.rooms]
    assert len(home["questions"]) == 6
    for question in home["questions"]:
        assert question["question"].endswith("?") and question["answer"] and floor.is_free(ends(question)[:, ::2]).all()


def ends(question: dict) -> np.ndarray:
    """Pose (1, x y z heading) at the end of a question's walk."""
    x, z, turns = question["start"]
    actions = np.array([LETTERS.index(letter) for letter in question["walk"]], np.int8)
    return replay((x, 0.0, z, turns * HOUSE_ACTIONS.turn_rad), actions, HOUSE_ACTIONS).poses[-1:, :3]


def test_a_page_loads_nothing_and_names_the_authors_of_what_it_shows(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    found = Page(text)
    assert not [value for name, value in found.attributes if name in ("src", "href") and value != "data:,"]
    (policy,) = (value for name, value in found.attributes if name == "content" and "default-src" in value)
    assert policy == "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"
    assert not re.search(r"https?:|\bimport\b|XMLHttpRequest|\bfetch\(", found.embedded["code"])
    assert "{{" not in text and "CC BY 3.0" in text


def test_wrong_input_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    small_house("../away").save(tmp_path / "away.json")
    small_house("bare", objects=False).save(tmp_path / "bare.json")
    (tmp_path / "torn.json").write_text("{")
    with pytest.raises(SystemExit):
        export(monkeypatch, "--questions", 3)
    assert "--questions: expected only with --html" in capsys.readouterr().err
    for name, words, said in [
        ("away", ["--questions", 0], "house id: expected a file name"),
        ("bare", [], "house bare: .* --questions 0 writes its page"),
        ("torn", [], "torn.json: not a house file"),
    ]:
        with pytest.raises(SystemExit, match=said):
            export(monkeypatch, tmp_path / f"{name}.json", "--html", "--out", tmp_path, *words)
    with pytest.raises(ValueError, match="episode 'still': expected a walk from a start"):
        write_page(
            small_house(), tmp_path, load_catalog(), [Episode("still", "small-0", "what?", "a", "color", "hand")]
        )
    assert not list(tmp_path.glob("*.html"))
    export(monkeypatch, tmp_path / "bare.json", "--html", "--questions", 0, "--out", tmp_path)
    assert (tmp_path / "bare.html").is_file()


def test_a_visitor_walks_is_stopped_by_walls_sees_our_colours_and_is_shown_an_answer(
    page: Path, tmp_path: Path
) -> None:
    house, catalog = small_house(), load_catalog()
    scene = build_scene(house, catalog)
    floor = build_floor(house, scene, catalog.meshes)
    question = json.loads(Page(page.read_text(encoding="utf-8")).embedded["house"])["questions"][0]
    with open_browser(tmp_path / "profile") as browser:

        def ask(script: str, *arguments: object) -> object:
            """The value of an expression over the page's parts."""
            code = f"const done = [...arguments].at(-1); opened.then(parts => done(({script})(parts, [...arguments])))"
            return browser.execute_async_script(code, *arguments)

        def pose() -> np.ndarray:
            return np.array(ask("({walker: {pose}}) => [pose.x, pose.z, pose.heading]"))

        def one(css: str):
            return browser.find_element(By.CSS_SELECTOR, css)

        def hold(key: str, seconds: float) -> None:
            ActionChains(browser).key_down(key).pause(seconds).key_up(key).perform()

        wait = WebDriverWait(browser, SECONDS, poll_frequency=0.02)
        browser.set_window_size(900, 600)
        browser.get(page.as_uri())
        wait.until(lambda _: one("body").get_attribute("data-state") == "ready")
        assert one("#where").text == "living room" and not one("#note").is_displayed()

        before = pose()
        hold("w", 0.3)
        wait.until(lambda _: np.abs(pose() - before)[:2].max() > 0.1)
        ask("({walker}, [x, z, heading]) => walker.stand(x, z, heading)", *BEFORE_WALL)
        hold("w", 0.8)
        x, z, _ = pose()
        assert 0.1 < x < 0.25 and floor.is_free(np.array([[x, z]])).all()

        one("#list button").click()
        assert one("#asked").get_property("textContent") == question["question"] and not one("#answer").is_displayed()
        assert np.allclose(pose()[:2], question["start"][:2])
        steps = len(question["walk"])
        browser.execute_script("at.value = arguments[0]; at.dispatchEvent(new Event('input'))", steps - 3)
        one("#play").click()
        wait.until(lambda _: one("#answer").is_displayed())
        assert one("#answer").text == question["answer"] and one("#step").text == f"{steps} of {steps}: stop"
        assert np.allclose(pose()[:2], ends(question)[0, ::2])

        draw = """({view}, [x, z, heading]) => {
            view.resize(224, 224); view.draw({x, z, heading, pitch: 0}, 1.0); return view.canvas.toDataURL(); }"""
        drawn = [ask(draw, *look).split(",")[1] for look in LOOKS]
        assert not [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]

    renderer = Renderer(sensors=("rgb",))
    renderer.load([scene, replace(scene, light=None)])
    ours, unlit = (renderer.render(np.full(len(LOOKS), i, np.int32), on_floor(LOOKS))["rgb"] for i in range(2))
    theirs = np.stack([np.asarray(Image.open(io.BytesIO(base64.b64decode(image))).convert("RGB")) for image in drawn])
    near, far = (np.abs(one.astype(int) - theirs).max(axis=-1) <= MOST_OFF for one in (ours, unlit))
    assert near.mean() > 0.88  # the rest are edges, which the page smooths, the sky and textures far away
    assert far.mean() < near.mean() - 0.1
