"""The page of scripts/play.py: refused to who does not know the token, and played in a real browser where there is one."""

import http.client
import json
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import h5py
import numpy as np
import pytest
from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.wait import WebDriverWait

from eqa.data.demonstrations.storage import Demonstrations
from eqa.envs.actions import Action
from eqa.models.evaluation.human import picture
from eqa.scripts.play import Handler, PlayServer, main
from tests.helpers.browser import open_browser
from tests.helpers.human_game import make_game, make_replays

SECONDS = 20


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PlayServer]:
    with PlayServer(make_game(tmp_path / "walks"), make_replays(tmp_path / "walks")) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def request(
    server: PlayServer, method: str, path: str, body: str | bytes | None = None, **headers: str
) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=SECONDS)
    connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    return answer.status, answer.read()


def test_it_listens_to_this_machine_alone(server: PlayServer) -> None:
    assert server.socket.getsockname()[0] == "127.0.0.1" and server.url.startswith("http://127.0.0.1:")


@pytest.mark.parametrize(
    "method, path", [("GET", "/"), ("GET", "/state"), ("GET", "/rows"), ("GET", "/x"), ("POST", "/begin")]
)
def test_every_request_has_to_carry_the_token_and_mean_this_server(server: PlayServer, method: str, path: str) -> None:
    refused = [
        {},
        {"X_Token": "guess"},
        {"X_Token": server.token, "Host": f"attacker.example:{server.server_port}"},
        {"X_Token": server.token, "Host": "127.0.0.1"},
        {"X_Token": server.token, "Origin": "http://attacker.example"},
    ]
    for headers in refused:
        status, content = request(server, method, path, **headers)
        assert status == 403 and b"question" not in content and server.token.encode() not in content
    assert server.game.phase == "ready"
    assert request(server, method, path, X_Token=server.token)[0] == (404 if path == "/x" else 200)


def test_a_token_in_the_address_opens_the_page_but_does_nothing(server: PlayServer) -> None:
    status, page = request(server, "GET", f"/?token={server.token}")
    assert status == 200 and b"<!doctype html>" in page and server.token.encode() not in page
    assert request(server, "POST", f"/begin?token={server.token}")[0] == 403


def test_what_cannot_be_done_is_said_and_leaves_the_server_running(server: PlayServer) -> None:
    refused = [
        (409, "/act", "{}"),
        (409, "/act", '{"action": "fly", "step": 0}'),
        (409, "/answer", "[]"),
        (400, "/begin", "{"),
        (400, "/begin", "[" * 9000),
        (400, "/begin", b"\xff"),
    ]
    for expected, path, body in refused:
        status, content = request(server, "POST", path, body, X_Token=server.token)
        assert status == expected and json.loads(content)["error"]
    assert request(server, "POST", "/begin", "x" * 20_000, X_Token=server.token)[0] == 413
    assert request(server, "GET", "/replay?row=one", X_Token=server.token)[0] == 409
    assert json.loads(request(server, "GET", "/state", X_Token=server.token)[1])["phase"] == "ready"


def raw(server: PlayServer, method: str, path: str, length: str) -> tuple[int, bytes]:
    """What comes back for a request that no proper client sends."""
    with closing(socket.create_connection(("127.0.0.1", server.server_port), timeout=SECONDS)) as client:
        head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{server.server_port}\r\nX-Token: {server.token}\r\n"
        client.sendall(f"{head}Content-Length: {length}\r\n\r\n".encode())
        head, content = b"".join(iter(lambda: client.recv(4000), b"")).split(b"\r\n\r\n", 1)
    return int(head.split()[1]), content


@pytest.mark.parametrize("length", ["ten", "-1", "1e3", "\u0663", "9" * 5000])
def test_a_length_that_is_none_is_answered_with_a_sentence(server: PlayServer, length: str) -> None:
    status, content = raw(server, "POST", "/begin", length)
    assert status in (400, 413) and "expected" in json.loads(content)["error"] and server.game.phase == "ready"


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_an_address_that_is_none_is_answered_with_a_sentence(server: PlayServer, method: str) -> None:
    status, content = raw(server, method, "http://[half/begin", "0")
    assert status == 400 and "expected" in json.loads(content)["error"]


def test_who_never_sends_the_body_keeps_nobody_waiting_and_is_let_go(
    server: PlayServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Handler, "timeout", 1)
    with closing(socket.create_connection(("127.0.0.1", server.server_port), timeout=SECONDS)) as client:
        head = f"POST /begin HTTP/1.1\r\nHost: 127.0.0.1:{server.server_port}\r\nX-Token: {server.token}\r\n"
        client.sendall(f"{head}Content-Length: 100\r\n\r\n{{".encode())
        assert request(server, "GET", "/state", X_Token=server.token)[0] == 200
        assert client.recv(4000).split()[1] == b"408"
    assert server.game.phase == "ready"


def test_walks_are_joined_by_a_command(tmp_path: Path, capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    game = make_game(tmp_path)
    game.begin()
    game.act(Action.STOP, 0)
    game.answer("white")
    monkeypatch.setattr("sys.argv", ["play.py", "--collect", "--out", str(tmp_path)])
    main()
    assert "HumanNav" in capsys.readouterr().out
    assert len(Demonstrations.open(tmp_path / "demonstrations.h5")) == 1


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[webdriver.Chrome]:
    with open_browser(tmp_path / "profile") as browser:
        yield browser


def test_a_person_walks_stops_answers_and_looks_at_the_walk_again(
    server: PlayServer, browser: webdriver.Chrome, tmp_path: Path
) -> None:
    def wait(until) -> None:
        WebDriverWait(browser, SECONDS, poll_frequency=0.02).until(lambda _: until())

    def one(css: str):
        return browser.find_element(By.CSS_SELECTOR, css)

    def press(key: str, step: int) -> None:
        ActionChains(browser).send_keys(key).perform()
        wait(lambda: server.game.walk.steps[0] == step and one("#left").text.startswith(str(100 - step)))

    browser.get(server.url)
    task = server.game.tasks[0]
    wait(lambda: one("#question").text == task.episode.question)
    wait(lambda: "on the way here" in one("#note").text)
    ActionChains(browser).send_keys(Keys.ENTER).perform()
    wait(lambda: one("#left").text == "100 of 100 actions left")
    for step, key in enumerate([Keys.ARROW_LEFT, Keys.ARROW_UP, Keys.ARROW_RIGHT], start=1):
        press(key, step)
    one("[data-action=right]").click()
    wait(lambda: server.game.walk.steps[0] == 4)
    wait(lambda: one("#frame").get_attribute("src") == picture(server.game.frames[4]))
    ActionChains(browser).send_keys(" ").perform()
    wait(lambda: one("#answering").is_displayed())
    assert [button.text for button in browser.find_elements(By.CSS_SELECTOR, "#answers button")] == [
        "living room",
        "white",
    ]
    one("[data-answer='living room']").click()
    wait(lambda: one("#status").text == "1 walked, 1 to go")

    (path,) = (tmp_path / "walks" / "walks").glob("*.h5")
    demo = Demonstrations.open(path)
    done = [Action.LEFT, Action.FORWARD, Action.RIGHT, Action.RIGHT, Action.STOP]
    assert demo.actions.tolist() == done and demo.episodes == [task.episode]
    assert np.array_equal(demo.poses[0], task.episode.spawns["T-10"].pose)
    with h5py.File(path) as file:
        assert file["answers_given"].asstr()[:].tolist() == ["living room"]
        assert (np.diff(file["time_s"][:]) > 0).all()

    one("#tab-replay").click()
    wait(lambda: one("#rows button").is_displayed())
    one("#rows button").click()
    wait(lambda: one("#at").text == "0 of 5, then left")
    shown = server.replays.replay(0)
    for step in range(3):
        assert one("#seen").get_attribute("src") == shown["frames"][step]
        x, _, z, heading = shown["poses"][step]
        place = [float(number) for number in re.findall(r"[-.\d]+", one("#here").get_attribute("transform"))]
        assert place == pytest.approx([x, z, -np.degrees(heading)])
        ActionChains(browser).send_keys(Keys.ARROW_RIGHT).perform()
    assert one("#at").text == "3 of 5, then right" and one("#map image").is_displayed()
    width = "return document.getElementById('seen').naturalWidth"
    wait(lambda: browser.execute_script(width) == 224)
    one("#play").click()
    wait(lambda: one("#at").text == "5 of 5, the end")
    severe = [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]
    assert not severe
