"""Serves a page in the browser on which a person walks in the agent's place, or watches the walks of a run again.

    python scripts/play.py                           # test questions of scale=small, from 30 actions before the target
    python scripts/play.py --spawn random --split train scale=tiny   # overrides as for train.py
    python scripts/play.py --run runs/il             # replays that run's walks instead of the person's own
    python scripts/play.py --collect --out runs/human_test           # only joins the walks

An installed `eqa-play` is the same in any folder. Open the printed address. The arrow keys walk and turn, Space stops;
then the question is answered. Each walk is written to --out/walks at once; the next start goes on with the remaining
questions. All walks are joined at the end (Ctrl-C).

--out/demonstrations.h5 is for learning (train.py data.human_walks=..., of --split train). --out/metrics.jsonl is the
row HumanNav of the results table. Its means are over the walked questions, so compare them with other rows over the
same ones.

The page is served to this machine alone, and needs the token in the address.
"""

import argparse
import hmac
import json
import secrets
import signal
import sys
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from hydra import compose, initialize_config_dir
from hydra.utils import instantiate

from eqa.data.generated import GeneratedEQA
from eqa.data.questions.generate import ALL_SPLITS
from eqa.envs.progress import console
from eqa.models.evaluation.human import SPAWNS, Game, collect, tasks_of
from eqa.models.evaluation.replays import Replays
from eqa.models.evaluation.run_tables import results_table
from eqa.models.learning.run_settings import check_settings, refuse_old_words
from eqa.scripts.arguments import whole

CONFIGS = Path(__file__).resolve().parents[1] / "configs"
PAGE = Path(__file__).with_suffix(".html")
HOST = "127.0.0.1"
MOST_BYTES = 10_000  # of a request's body
PATIENCE_S = 10  # for a client that sends nothing


class PlayServer(ThreadingHTTPServer):
    """Server of the page and its requests, one at a time. `url` holds the token; requests without it are refused."""

    def __init__(self, game: Game, replays: Replays, *, port: int = 0) -> None:
        super().__init__((HOST, port), Handler)
        self.game, self.replays = game, replays
        self.token, self.lock = secrets.token_urlsafe(), threading.Lock()
        self.hosts = {f"{name}:{self.server_port}" for name in (HOST, "localhost")}

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.server_port}/?token={self.token}"

    def get(self, path: str, query: dict[str, str]) -> object:
        """The JSON content of an address. KeyError for an unknown one, ValueError for one without content now."""
        pages = {
            "/state": self.game.state,
            "/history": self.game.history,
            "/rows": self.replays.rows,
            "/replay": lambda: self.replays.replay(_row(query.get("row", ""))),
        }
        return pages[path]()

    def post(self, path: str, sent: dict) -> object:
        """Does something in the game, and gives the resulting state."""
        if path == "/begin":
            self.game.begin()
        elif path == "/act":
            names = self.game.world.actions.names
            if sent.get("action") not in names or not isinstance(sent.get("step"), int):
                raise ValueError(f"act: expected an action of {names} and a step, got {sent}")
            self.game.act(names.index(sent["action"]), sent["step"])
        elif path == "/answer":
            self.game.answer(str(sent.get("answer")))
        else:
            raise KeyError(path)
        return self.game.state()


class Handler(BaseHTTPRequestHandler):
    server: PlayServer
    timeout = PATIENCE_S

    def do_GET(self) -> None:
        try:
            address = urlsplit(self.path)
            query = {name: values[0] for name, values in parse_qs(address.query).items()}
        except ValueError as error:
            self._send(HTTPStatus.BAD_REQUEST, {"error": f"address: expected one of this page, got another ({error})"})
            return
        if not self._is_allowed(query.get("token", "")):
            self._send(HTTPStatus.FORBIDDEN, {"error": "refused: open the address that scripts/play.py printed"})
        elif address.path == "/":
            nonce = secrets.token_urlsafe()
            self._send(HTTPStatus.OK, PAGE.read_text().replace("{{nonce}}", nonce), nonce=nonce)
        else:
            self._answer(lambda: self.server.get(address.path, query))

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length") or "0"
        if not self._is_allowed():
            self._send(HTTPStatus.FORBIDDEN, {"error": "refused: open the address that scripts/play.py printed"})
        elif not (length.isascii() and length.isdigit()):
            self._send(HTTPStatus.BAD_REQUEST, {"error": f"Content-Length: expected a number of bytes, got {length!r}"})
        elif len(length) > len(str(MOST_BYTES)) or int(length) > MOST_BYTES:
            self._send(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, {"error": f"expected at most {MOST_BYTES} bytes"})
        else:
            self._post(int(length))

    def _post(self, length: int) -> None:
        """Reads the whole request before it asks the game, as others wait for the game."""
        try:
            path, sent = urlsplit(self.path).path, json.loads(self.rfile.read(length) or "{}")
        except TimeoutError:
            self.close_connection = True
            error = f"expected a body of {length} bytes within {PATIENCE_S} s, got less"
            self._send(HTTPStatus.REQUEST_TIMEOUT, {"error": error})
        except (ValueError, RecursionError) as error:
            self._send(HTTPStatus.BAD_REQUEST, {"error": f"expected a JSON object, got something else ({error})"})
        else:
            self._answer(lambda: self.server.post(path, sent if isinstance(sent, dict) else {}))

    def _is_allowed(self, token: str = "") -> bool:
        """True if the request has the token, in its header or address, and this server's name.

        Another site can neither send the header nor see the address. A site with a name that was made to point here
        sends its own name as Host (DNS rebinding).
        """
        given = (self.headers.get("X-Token") or token).encode()
        own_host = self.headers.get("Host") in self.server.hosts
        own_page = self.headers.get("Origin") in {None, *(f"http://{host}" for host in self.server.hosts)}
        return own_host and own_page and hmac.compare_digest(given, self.server.token.encode())

    def _answer(self, ask) -> None:
        try:
            with self.server.lock:
                answer = ask()
        except KeyError as error:
            self._send(HTTPStatus.NOT_FOUND, {"error": f"nothing at {error}"})
        except ValueError as error:
            self._send(HTTPStatus.CONFLICT, {"error": str(error)})
        except OSError as error:  # a full disk: the walk is still there, and can be answered once more
            self._send(HTTPStatus.INSUFFICIENT_STORAGE, {"error": str(error)})
        else:
            self._send(HTTPStatus.OK, answer)

    def _send(self, status: HTTPStatus, content: object, *, nonce: str | None = None) -> None:
        """Sends JSON, or the page if there is a nonce; only the page's own script and style have the nonce."""
        data = (content if nonce else json.dumps(content)).encode()
        self.send_response(status)
        headers = {
            "Content-Type": "text/html; charset=utf-8" if nonce else "application/json",
            "Content-Length": str(len(data)),
            "Cache-Control": "no-store",
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
            "Content-Security-Policy": "default-src 'none'; connect-src 'self'; img-src data:; frame-ancestors 'none'"
            + (f"; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'" if nonce else ""),
        }
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Logs nothing: addresses hold the token."""


def _row(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise ValueError(f"row: expected a whole number, got {text[:40]!r}")
    return int(text)


def make_server(arguments: argparse.Namespace, source: GeneratedEQA) -> PlayServer:
    """The server of the game and the replays over the chosen data."""
    split, out = arguments.split, arguments.out
    game = Game(
        tasks_of(source.episodes(split), arguments.spawn, seed=source.seed),
        world=source.world,
        answers=source.vocabulary.answers,
        extractor=source.encode,
        folder=out,
        configuration=source.human_configuration(split),
    )
    run = arguments.run or out
    houses = {"house_seed": source.seed, "house_style": source.style}
    replays = Replays(run, world=source.world, episodes=source.episodes, **houses)
    return PlayServer(game, replays, port=arguments.port)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "words", nargs="*", metavar="NAME=VALUE", help="of the data, as train.py takes them: scale=tiny"
    )
    parser.add_argument("--split", choices=ALL_SPLITS, default="test")
    parser.add_argument("--spawn", choices=SPAWNS, default="T-30", help="where walks begin (default: T-30)")
    parser.add_argument("--out", type=Path, help="folder of the walks (default: runs/human_SPLIT)")
    parser.add_argument("--run", type=Path, help="run folder whose walks to replay (default: --out)")
    parser.add_argument("--port", type=whole(0, 65535), default=0, help="of 127.0.0.1 (default: a free one)")
    parser.add_argument("--collect", action="store_true", help="only joins the walks of --out, and serves nothing")
    arguments = parser.parse_intermixed_args()
    arguments.out = arguments.out or Path("runs") / f"human_{arguments.split}"
    if arguments.run and not (arguments.run / "metrics.jsonl").is_file():
        parser.error(f"--run {arguments.run}: expected a run's folder with metrics.jsonl; python eval.py writes one")
    return arguments


def _collect(out: Path) -> None:
    collected = collect(out)
    if collected is None:
        console.print(f"no walks in {out}")
        return
    path, rows = collected
    console.print(results_table(rows, f"{len(rows)} walks"))
    console.print(f"{path}\n{out / 'metrics.jsonl'}", soft_wrap=True)


def main() -> None:
    arguments = _arguments()
    try:
        if not arguments.collect:
            refuse_old_words(arguments.words)
            with initialize_config_dir(str(CONFIGS), version_base="1.3"):
                cfg = compose("demos", overrides=arguments.words)
            check_settings(cfg)
            source = instantiate(cfg.data)
            if not isinstance(source, GeneratedEQA):
                raise ValueError(f"data: expected generated, which people's walks are made of, got {cfg.data._target_}")
            with make_server(arguments, source) as server:
                signal.signal(signal.SIGTERM, signal.default_int_handler)
                console.print(f"{server.url}\nCtrl-C ends it and joins the walks", soft_wrap=True, highlight=False)
                try:
                    server.serve_forever()
                except KeyboardInterrupt:
                    console.print()
        _collect(arguments.out)
    except (ValueError, OSError) as error:
        sys.exit(f"play: {error}")


if __name__ == "__main__":
    main()
