"""Serves a page in the browser on which a person walks in the agent's place, or watches the walks of a run again.

    python scripts/play.py                           # test questions of scale=small, from 30 actions before the target
    python scripts/play.py --spawn random --split train scale=tiny   # overrides as for train.py
    python scripts/play.py --run runs/il             # replays that run's walks instead of the person's own
    python scripts/play.py --collect --out runs/human_test           # only joins the walks

An installed `eqa-play` is the same in any folder. Open the printed address. The arrow keys or W, A and D walk and turn,
Space stops; then the question is answered. Each walk is written to --out/walks at once; the next start goes on with the
remaining questions. All walks are joined at the end (Ctrl-C).

--out/demonstrations.h5 is for learning (train.py data.human_walks=..., of --split train). --out/metrics.jsonl is the
row HumanNav of the results table. Its means are over the walked questions, so compare them with other rows over the
same ones.

The page is served to this machine alone, and needs the token in the address. To open it on a phone, forward the port.
"""

import argparse
import asyncio
import hmac
import secrets
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Lock
from typing import Annotated, Literal

import uvicorn
from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, Response
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from eqa.data.generated import GeneratedEQA
from eqa.data.questions.generate import ALL_SPLITS
from eqa.envs.progress import console
from eqa.models.evaluation.human import SPAWNS, Game, collect, tasks_of
from eqa.models.evaluation.replays import Replays
from eqa.models.evaluation.run_tables import results_table
from eqa.models.learning.run_settings import check_settings, refuse_old_words
from eqa.scripts.arguments import whole

CONFIGS = Path(__file__).resolve().parents[1] / "configs"
PAGE = Path(__file__).with_suffix(".html")  # with its style in .css and its script in .js
HOST = "127.0.0.1"
MOST_BYTES = 10_000  # of a request's body
PATIENCE_S = 10  # for a body that does not come
POLICY = "default-src 'none'; frame-ancestors 'none'"
HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": POLICY,
}
Folder = Literal["run", "own"]  # whose walks are replayed: those of --run, or the person's


class Act(BaseModel):
    """The next action by its name; `step` is the number of earlier ones, so that one sent twice counts once."""

    action: str
    step: int


class Answer(BaseModel):
    answer: str


class Wanted(BaseModel):
    """The rows to list, see `Replays.rows`."""

    page: int = Field(0, ge=0)
    words: str = ""
    wrong: bool = False
    agent: str = ""
    spawn: str = ""
    question_type: str = ""


class PlayServer(uvicorn.Server):
    """Server of the page on a port of this machine. `url` holds the token; requests without it are refused."""

    def __init__(self, game: Game, replays: Mapping[Folder, Replays], *, port: int = 0) -> None:
        self.game, self.replays, self.token = game, replays, secrets.token_urlsafe()
        self.socket = socket.create_server((HOST, port))
        self.port = self.socket.getsockname()[1]
        app = make_app(game, replays, token=self.token, port=self.port)
        # No log of requests, as addresses hold the token.
        super().__init__(uvicorn.Config(app, access_log=False, log_level="warning", lifespan="off", ws="none"))

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}/?token={self.token}"

    def run_here(self) -> None:
        """Serves until Ctrl-C, which is raised."""
        self.run(sockets=[self.socket])


def make_app(game: Game, replays: Mapping[Folder, Replays], *, token: str, port: int) -> FastAPI:
    """The page and its requests, which are answered one at a time."""
    app = FastAPI(openapi_url=None)
    guard(app, token=token, port=port)
    lock = Lock()

    def done(function: Callable, *given: object) -> dict:
        with lock:
            function(*given)
            return game.state()

    @app.get("/")
    def page() -> HTMLResponse:
        nonce = secrets.token_urlsafe()  # only the page's own script and style have it
        text = PAGE.read_text(encoding="utf-8").replace("{{nonce}}", nonce)
        for name in ("css", "js"):
            text = text.replace(f"{{{{{name}}}}}", PAGE.with_suffix(f".{name}").read_text(encoding="utf-8"))
        policy = f"{POLICY}; connect-src 'self'; img-src data:; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'"
        return HTMLResponse(text, headers={"Content-Security-Policy": policy})

    @app.get("/state")
    def state() -> dict:
        with lock:
            return game.state()

    @app.get("/history")
    def history(first: Annotated[int, Query(ge=0)] = 0) -> dict:
        with lock:
            return game.history(first)

    @app.post("/begin")
    def begin() -> dict:
        return done(game.begin)

    @app.post("/act")
    def act(sent: Act) -> dict:
        names = game.world.actions.names
        if sent.action not in names:
            raise ValueError(f"action: expected one of {names}, got {sent.action!r}")
        return done(game.act, names.index(sent.action), sent.step)

    @app.post("/answer")
    def answer(sent: Answer) -> dict:
        return done(game.answer, sent.answer)

    @app.post("/next")
    def go_on() -> dict:
        return done(game.go_on)

    @app.get("/rows")
    def rows(wanted: Annotated[Wanted, Query()]) -> dict:
        with lock:
            return replays["run"].rows(**wanted.model_dump())

    @app.get("/replay")
    def replay(row: int, folder: Folder = "run") -> dict:
        with lock:
            return replays[folder].replay(row)

    @app.get("/frames")
    def frames(row: int, first: int = 0, folder: Folder = "run", sensor: str = "rgb") -> list[str]:
        with lock:
            return replays[folder].frames(row, first, sensor)

    return app


def guard(app: FastAPI, *, token: str, port: int) -> None:
    """Lets an app answer only requests that have the token and mean this server, and say each error in a line.

    Another site can neither send the token's header nor see the address. A site with a name that was made to point here
    sends its own name as Host (DNS rebinding).
    """
    hosts = {f"{name}:{port}" for name in (HOST, "localhost")}
    origins = {None, *(f"http://{host}" for host in hosts)}

    def told(status: int, text: str) -> JSONResponse:
        return JSONResponse({"error": text}, status)

    async def checked(request: Request, answer: Callable) -> Response:
        given = request.headers.get("X-Token", request.query_params.get("token", "") if request.method == "GET" else "")
        own = request.headers.get("Host") in hosts and request.headers.get("Origin") in origins
        if not (own and hmac.compare_digest(given.encode(), token.encode())):
            return told(403, "refused: open the address that scripts/play.py printed")
        if "Transfer-Encoding" in request.headers or int(request.headers.get("Content-Length", 0)) > MOST_BYTES:
            return told(
                413, f"expected at most {MOST_BYTES} bytes with their number as Content-Length, got another body"
            )
        try:
            async with asyncio.timeout(PATIENCE_S):
                await request.body()
        except TimeoutError:
            return told(408, f"expected the whole body within {PATIENCE_S} s, got less")
        return await answer(request)

    @app.middleware("http")
    async def with_headers(request: Request, answer: Callable) -> Response:
        response = await checked(request, answer)
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        return response

    @app.exception_handler(RequestValidationError)
    async def misread(_: Request, error: RequestValidationError) -> JSONResponse:
        faults = (f"{one['loc'][-1]}: {one['msg']}, got {one.get('input')!r:.60}" for one in error.errors())
        return told(422, "; ".join(faults))

    @app.exception_handler(HTTPException)
    async def missing(request: Request, error: HTTPException) -> JSONResponse:
        return told(error.status_code, f"{request.method} {request.url.path}: {error.detail}")

    @app.exception_handler(ValueError)
    async def refused(_: Request, error: ValueError) -> JSONResponse:
        return told(409, str(error))

    @app.exception_handler(OSError)  # a full disk: the walk is still there, and can be answered once more
    async def unwritten(_: Request, error: OSError) -> JSONResponse:
        return told(507, str(error))


def make_server(arguments: argparse.Namespace, source: GeneratedEQA) -> PlayServer:
    """The server of the game and the replays over the chosen data."""
    split, out = arguments.split, arguments.out
    game = Game(
        tasks_of(source.episodes(split), arguments.spawn, seed=source.seed),
        world=source.world,
        vocabulary=source.vocabulary,
        extractor=source.encode,
        folder=out,
        configuration=source.human_configuration(split),
    )
    houses = {"house_seed": source.seed, "house_style": source.style}
    own = Replays(out, world=source.world, episodes=source.episodes)
    run = Replays(arguments.run or out, world=source.world, episodes=source.episodes, **houses)
    run.rows()  # read before anybody waits
    return PlayServer(game, {"run": run, "own": own}, port=arguments.port)


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
            server = make_server(arguments, source)
            signal.signal(signal.SIGTERM, signal.default_int_handler)
            console.print(f"{server.url}\nCtrl-C ends it and joins the walks", soft_wrap=True, highlight=False)
            try:
                server.run_here()
            except KeyboardInterrupt:
                console.print()
        _collect(arguments.out)
    except (ValueError, OSError) as error:
        sys.exit(f"play: {error}")


if __name__ == "__main__":
    main()
