"""The page of scripts/play.py: refused to who does not know the token, and played in a real browser where there is one."""

import http.client
import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import h5py
import numpy as np
import pytest
from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.select import Select
from selenium.webdriver.support.wait import WebDriverWait

from eqa.data.demonstrations.storage import Demonstrations
from eqa.envs.actions import Action
from eqa.models.evaluation.human import picture
from eqa.scripts import play
from eqa.scripts.play import PlayServer, main
from tests.helpers.browser import open_browser
from tests.helpers.human_game import make_game, make_replays, write_agents_walks

SECONDS = 60  # to wait for, at most
MOST_S = 0.5  # of work for a request


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlayServer]:
    """A server that no test changes."""
    yield from serve(tmp_path_factory.mktemp("served"))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PlayServer]:
    yield from serve(tmp_path)


def serve(folder: Path) -> Iterator[PlayServer]:
    write_agents_walks(folder / "run")
    replays = {"run": make_replays(folder / "run"), "own": make_replays(folder / "walks")}
    server = PlayServer(make_game(folder / "walks"), replays)
    thread = threading.Thread(target=server.run_here)
    thread.start()
    yield server
    server.should_exit = True
    thread.join()


def request(
    server: PlayServer, method: str, path: str, body: str | bytes | None = None, **headers: str
) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=SECONDS)
    connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    return answer.status, answer.read()


def frames_of(server: PlayServer, folder: str, row: int, sensor: str = "rgb") -> list[str]:
    """Views of a walk, from the server: a second thread must not draw with its renderers."""
    path = f"/frames?row={row}&folder={folder}&sensor={sensor}"
    status, answer = request(server, "GET", path, X_Token=server.token)
    assert status == 200
    return json.loads(answer)


def test_it_listens_to_this_machine_alone(served: PlayServer) -> None:
    assert served.socket.getsockname()[0] == "127.0.0.1" and served.url.startswith("http://127.0.0.1:")


@pytest.mark.parametrize(
    "method, path", [("GET", "/"), ("GET", "/state"), ("GET", "/rows"), ("GET", "/x"), ("POST", "/begin")]
)
def test_every_request_has_to_carry_the_token_and_mean_this_server(server: PlayServer, method: str, path: str) -> None:
    refused = [
        {},
        {"X_Token": "guess"},
        {"X_Token": server.token, "Host": f"attacker.example:{server.port}"},
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
    assert status == 200 and b"<!doctype html>" in page and server.token.encode() not in page and b"{{" not in page
    assert request(server, "POST", f"/begin?token={server.token}")[0] == 403


REFUSED = [
    (409, "POST", "/act", '{"action": "fly", "step": 0}', "action: expected one of"),
    (409, "POST", "/act", '{"action": "left", "step": 0}', "expected to be walking, is ready"),
    (422, "POST", "/act", "{}", "action: Field required"),
    (422, "POST", "/act", '{"action": "left", "step": "x"}', "step: Input should be a valid integer"),
    (422, "POST", "/answer", "[]", "body: Input should be a valid dictionary"),
    (422, "POST", "/answer", "{", "JSON decode error"),
    (400, "POST", "/answer", "[" * 9000, "error parsing the body"),
    (400, "POST", "/answer", b"\xff", "error parsing the body"),
    (409, "POST", "/next", "{}", "expected to be answered, is ready"),
    (413, "POST", "/answer", "x" * 20_000, "expected at most 10000 bytes"),
    (422, "GET", "/replay?row=one", None, "row: Input should be a valid integer"),
    (409, "GET", "/replay?row=99", None, "row: expected one of the 70 rows that walked, got 99"),
    (422, "GET", "/frames?row=0&folder=etc", None, "folder: Input should be 'run' or 'own'"),
    (422, "GET", "/rows?page=-1", None, "page: Input should be greater than or equal to 0"),
    (405, "GET", "/begin", None, "GET /begin: Method Not Allowed"),
]


@pytest.mark.parametrize("expected, method, path, body, said", REFUSED)
def test_what_cannot_be_done_is_said_in_a_line_and_changes_nothing(
    served: PlayServer, expected: int, method: str, path: str, body: str | bytes | None, said: str
) -> None:
    headers = {"X_Token": served.token, "Content_Type": "application/json"}
    status, content = request(served, method, path, body, **headers)
    error = json.loads(content)["error"]
    assert status == expected and said in error and "\n" not in error
    assert json.loads(request(served, "GET", "/state", X_Token=served.token)[1])["phase"] == "ready"


def raw(server: PlayServer, method: str, path: str, length: str) -> tuple[int, bytes]:
    """What comes back for a request that no proper client sends."""
    with closing(socket.create_connection(("127.0.0.1", server.port), timeout=SECONDS)) as client:
        head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nX-Token: {server.token}\r\n"
        client.sendall(f"{head}Content-Length: {length}\r\n\r\n".encode())
        head, content = b"".join(iter(lambda: client.recv(4000), b"")).split(b"\r\n\r\n", 1)
    return int(head.split()[1]), content


@pytest.mark.parametrize("length", ["ten", "-1", "1e3", "\u0663", "9" * 5000])
def test_a_length_that_is_none_is_refused(served: PlayServer, length: str) -> None:
    status, content = raw(served, "POST", "/begin", length)
    assert status in (400, 413) and content and served.game.phase == "ready"


def test_a_body_without_a_length_is_refused(served: PlayServer) -> None:
    body = iter([b"x" * 100] * 200)
    assert request(served, "POST", "/begin", body, X_Token=served.token)[0] == 413 and served.game.phase == "ready"


def test_who_never_sends_the_body_keeps_nobody_waiting_and_is_let_go(
    server: PlayServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(play, "PATIENCE_S", 1)
    with closing(socket.create_connection(("127.0.0.1", server.port), timeout=SECONDS)) as client:
        head = f"POST /begin HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nX-Token: {server.token}\r\n"
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


SIZES = {"desktop": (1280, 900), "phone": (390, 844)}


@pytest.fixture(params=SIZES)
def page(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator["Page"]:
    """A page in a browser of each size, as of a phone where it is as small as one."""
    width, height = SIZES[request.param]
    with open_browser(tmp_path / "profile") as browser:
        shown = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": request.param == "phone"}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", shown)
        yield Page(browser, width)
        assert not [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]


class Page:
    """What a test asks of a page in a browser."""

    def __init__(self, browser: webdriver.Chrome, width: int) -> None:
        self.browser, self.width = browser, width

    def one(self, css: str) -> WebElement:
        return self.browser.find_element(By.CSS_SELECTOR, css)

    def texts(self, css: str) -> list[str]:
        return [element.text for element in self.browser.find_elements(By.CSS_SELECTOR, css)]

    def wait(self, until: Callable[[], object]) -> None:
        """Asks until it holds; again, too, where the page exchanged what was found before it was read."""
        stale = [StaleElementReferenceException]
        WebDriverWait(self.browser, SECONDS, poll_frequency=0.02, ignored_exceptions=stale).until(lambda _: until())

    def press(self, *keys: str) -> None:
        ActionChains(self.browser).send_keys(*keys).perform()

    def fits(self) -> bool:
        """True if nothing has to be scrolled sideways."""
        return self.browser.execute_script("return document.documentElement.scrollWidth") <= self.width

    def is_in_sight(self, css: str) -> bool:
        box = self.browser.execute_script("return arguments[0].getBoundingClientRect().toJSON()", self.one(css))
        height = self.browser.execute_script("return innerHeight")
        return box["width"] > 0 and box["top"] >= 0 and box["bottom"] <= height


def test_a_person_walks_stops_answers_and_hears_whether_it_was_right(
    server: PlayServer, page: Page, tmp_path: Path
) -> None:
    task = server.game.tasks[0]
    page.browser.get(server.url)
    page.wait(lambda: page.one("#question").text == task.episode.question)
    page.wait(lambda: "on the way here" in page.one("#note").text)
    page.press("?")
    assert page.one("#help").is_displayed() and page.fits()
    page.press("w", Keys.ESCAPE)
    assert not page.one("#help").is_displayed() and server.game.phase == "ready"
    page.press(Keys.ENTER)
    page.wait(lambda: page.one("#left").text == "100 of 100 actions left")
    for step, key in enumerate([Keys.ARROW_LEFT, Keys.ARROW_UP, "d", "a", "W"], start=1):
        page.press(key)
        page.wait(lambda step=step: page.one("#left").text == f"{100 - step} of 100 actions left")
        assert server.game.walk.steps[0] == step
    page.one("[data-action=right]").click()
    page.wait(lambda: server.game.walk.steps[0] == 6)
    page.wait(lambda: page.one("#frame").get_attribute("src") == picture(server.game.frames[6]))
    assert page.fits() and page.is_in_sight("#frame") and page.is_in_sight(".pad")
    assert not page.one("#viewer").is_displayed()  # neither depth nor map before the end
    page.press(" ")
    page.wait(lambda: page.one("#answering").is_displayed())
    right = task.episode.answer
    assert page.texts("#answers button") == [right] and not page.one("#other-answers").is_displayed() and page.fits()
    page.one("#more summary").click()
    wrong = next(answer for answer in ("white", "living room") if answer != right)
    page.one(f"[data-answer='{wrong}']").click()
    page.wait(lambda: page.one("#status").text == "1 walked, 1 to go")
    assert page.one("#verdict").text.startswith(f"Not right: you said {wrong}, the answer is {right}.")
    page.wait(lambda: page.one("#at").text == "0 of 7, then left" and page.one("#map .target").is_displayed())
    page.wait(lambda: page.one("#seen").get_attribute("src") == frames_of(server, "own", 0)[0])
    page.one("#depth").click()
    page.wait(lambda: page.one("#seen").get_attribute("src") == frames_of(server, "own", 0, "depth")[0])
    assert page.fits()
    page.one("#next").click()
    page.wait(
        lambda: (
            page.one("#question").text == server.game.tasks[0].episode.question and page.one("#begin").is_displayed()
        )
    )

    (path,) = (tmp_path / "walks" / "walks").glob("*.h5")
    demo = Demonstrations.open(path)
    left, forward, right, stop = Action.LEFT, Action.FORWARD, Action.RIGHT, Action.STOP
    assert demo.actions.tolist() == [left, forward, right, left, forward, right, stop] and demo.episodes == [
        task.episode
    ]
    assert np.array_equal(demo.poses[0], task.episode.spawns["T-10"].pose)
    with h5py.File(path) as file:
        assert file["answers_given"].asstr()[:].tolist() == [wrong]
        assert (np.diff(file["time_s"][:]) > 0).all()


def test_replays_are_found_and_show_what_the_agent_saw_chose_and_looked_at(server: PlayServer, page: Page) -> None:
    page.browser.get(server.url)
    page.one("#tab-replay").click()
    page.wait(lambda: page.one("#page").text == "1 to 30 of 70")
    page.one("#after").click()
    page.wait(lambda: page.one("#page").text == "31 to 60 of 70")
    page.one("#wrong").click()
    page.wait(lambda: page.one("#page").text == "1 to 30 of 35")
    Select(page.one("#question_type")).select_by_value("color")
    color = server.replays["run"].rows(wrong=True, question_type="color")["fit"]
    page.wait(lambda: page.one("#page").text.endswith(f" of {color}") and color < 35)
    Select(page.one("#spawn")).select_by_value("T-30")
    fit = server.replays["run"].rows(wrong=True, question_type="color", spawn="T-30")["rows"]
    page.wait(lambda: len(page.texts("#rows a")) == len(fit) > 0)
    assert page.fits()
    link = page.one("#rows a").get_attribute("href")
    page.browser.get("about:blank")
    page.browser.get(link)  # the link alone opens the walk in its list
    run, number = server.replays["run"], fit[0]["row"]
    shown = run.replay(number)
    chosen = [f"{name}, {'planner' if by else 'controller'}" for name, by in zip(shown["actions"], shown["planned"])]
    page.wait(lambda: page.one("#at").text == f"0 of 10, then {chosen[0]}")
    assert page.one("#page").text == f"1 to {len(fit)} of {len(fit)}" and page.one("#asked").text == shown["question"]
    for step, view in enumerate(frames_of(server, "run", number)[:3]):
        page.wait(lambda view=view: page.one("#seen").get_attribute("src") == view)
        x, _, z, heading = shown["poses"][step]
        place = [float(value) for value in re.findall(r"[-.\d]+", page.one("#here").get_attribute("transform"))]
        assert place == pytest.approx([x, z, -np.degrees(heading)])
        assert page.one("#at").text == f"{step} of 10, then {chosen[step]}" and not page.texts("#looked rect")
        page.press(Keys.ARROW_RIGHT)
    assert page.browser.execute_script("return document.getElementById('seen').naturalWidth") == 224
    for _ in range(5):
        page.press("d")
    assert page.one("#at").text.startswith("8 of 10") and len(page.texts("#looked rect")) == 2
    assert (
        page.one("#share").text == "80 % of the answerer's attention"
        and "20 % before the spawn" in page.one("#legend").text
    )
    assert page.fits() and page.one("#shortest").is_displayed()
    page.one("#play").click()
    page.wait(lambda: page.one("#at").text == "10 of 10, the end")
    page.one("#tab-walk").click()
    page.wait(lambda: page.one("#begin").is_displayed() and not page.one("#viewer").is_displayed())
    page.browser.back()
    page.wait(lambda: page.one("#viewer").is_displayed() and page.one("#asked").text == shown["question"])


def test_an_answer_to_an_older_choice_does_not_replace_the_newer_list(server: PlayServer, page: Page) -> None:
    page.browser.get(server.url)
    page.one("#tab-replay").click()
    page.wait(lambda: page.one("#page").text == "1 to 30 of 70")
    script = """
        const real = window.fetch;
        window.fetch = (...asked) => {
            window.fetch = (...later) => real(...later);
            return real(...asked).then(answer => new Promise(done => { window.release = () => done(answer); }));
        };"""
    page.browser.execute_script(script)
    page.one("#wrong").click()  # its answer is held back
    page.wait(lambda: page.browser.execute_script("return Boolean(window.release)"))
    page.one("#wrong").click()
    page.one("#after").click()
    page.wait(lambda: page.one("#page").text == "31 to 60 of 70")
    ends = "window.release(); setTimeout(arguments[0], 100);"
    page.browser.execute_async_script(ends)
    assert page.one("#page").text == "31 to 60 of 70" and not page.one("#wrong").is_selected()


def test_no_request_takes_half_a_second_of_work(server: PlayServer) -> None:
    def get(path: str) -> object:
        return ask("GET", path)

    def ask(method: str, path: str, **sent: object) -> object:
        began = time.process_time()  # not the clock: other tests run beside this one
        headers = {"X_Token": server.token, "Content_Type": "application/json"}
        status, content = request(server, method, path, json.dumps(sent) if method == "POST" else None, **headers)
        waits[f"{method} {path}"] = time.process_time() - began
        assert status == 200, content
        return json.loads(content)

    waits: dict[str, float] = {}
    get("/state"), get("/history")
    ask("POST", "/begin")
    for step in range(3):
        ask("POST", "/act", action="left", step=step)
    ask("POST", "/act", action="stop", step=3)
    row = ask("POST", "/answer", answer="white")["row"]
    for path in ("/rows", f"/replay?folder=own&row={row}", f"/frames?folder=own&row={row}", "/replay?row=0"):
        get(path)
    get("/frames?row=0&sensor=depth"), ask("POST", "/next")
    longest = max(waits, key=waits.get)
    assert waits[longest] < MOST_S, f"{longest}: {waits[longest]:.2f} s"
