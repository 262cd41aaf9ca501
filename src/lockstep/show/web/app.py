"""The addresses of the page.

/NAME?words              the page, on the screen NAME
/data/NAME?words         what that screen draws: data, and its question as a command and as a call
/NAME.json  /NAME.csv    the answer of its verb, as the command line prints it
/NAME.html               the same as one file to keep
/NAME.svg                its picture, where it has one
/NAME.card.png  .card.svg  its headline as one picture, as `--card` draws it
/stream/NAME?words       what the screen draws piece by piece, a line of JSON each
/NAME.trace              its timeline, for Perfetto
/screens?words           all screens with their controls
/drop  /drop/measured    a dropped config.json or capture, and a measured file, as the body of a POST
/static  /views          files of the page, and those that the one-file report uses too
"""

from __future__ import annotations

import asyncio
import gc
import hashlib
import json
import os
import traceback
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib import import_module, resources
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from lockstep.base.errors import BadInput, Infeasible, LockstepError, brief
from lockstep.show.verbs.capture import is_capture
from lockstep.show.views.parts import completing
from lockstep.show.views.parts.levers import levers_text
from lockstep.show.web.answers import FORMS, later_data, page_data
from lockstep.show.web.asked import Asked, Server, Superseded, field_of
from lockstep.show.web.captured import first_address
from lockstep.show.web.screen import EXAMPLE, QUESTION, Screen
from lockstep.show.web.screens import ORDER, screen
from lockstep.show.web.typed import typed
from lockstep.show.web.uploads import MOST_B, MOST_MEASURED_B, MOST_UNPACKED_B

if TYPE_CHECKING:
    from starlette.requests import Request

    from lockstep.base.types.plain import Json
    from lockstep.show.web.screen import Field

PAGE = Path(str(resources.files("lockstep.show.web"))) / "page"
VIEWS = Path(str(resources.files("lockstep.show.views"))) / "page"
POLL_S = 0.02
"""How often a request is asked whether somebody still waits for it."""
WORKERS = 2
"""Requests that are worked on at once: the one wanted, while one that is not ends."""
GONE = 499
DRAINED = 8
"""How many times what is allowed is read of a dropped file, so that the browser gets to hear why it is refused."""
DATA = {"data": page_data, "later": later_data}


def application(server: Server) -> Starlette:
    """The server without its guard."""
    pool = ThreadPoolExecutor(WORKERS, "lockstep-page")

    async def there(*names: str) -> list[str]:
        """Those of the names that are screens with something to show."""
        known = [(name, screen(name).present) for name in names if name in ORDER]
        return [name for name, present in known if present is None or await run_in_threadpool(present, server)]

    async def answered(request: Request, make: Callable[[Asked], Response]) -> Response:
        return await worked(pool, request, server, make)

    async def show(request: Request) -> Response:
        name, dot, form = request.path_params["name"].partition(".")
        if not await there(name) or (dot and form not in FORMS):
            return Response("There is no such screen.", 404)
        if not dot and not request.query_params and _needs_question(screen(name)):
            return RedirectResponse(f"/{name}?{urlencode(_first(server)[1])}", 303)
        if not dot:
            return HTMLResponse(_shell(tuple(await there(*ORDER))))
        return await answered(request, lambda asked: FORMS[form](screen(name), asked))

    async def data(request: Request) -> Response:
        name, when = request.path_params["name"], request.path_params["when"]
        if not await there(name) or when not in DATA:
            return Response("There is no such screen.", 404)
        return await answered(request, lambda asked: _json(request, DATA[when](screen(name), asked)))

    async def stream(request: Request) -> Response:
        name = request.path_params["name"]
        if not await there(name) or screen(name).stream is None:
            return Response("There is no such screen.", 404)
        asked = Asked(typed(request.query_params), server)
        return StreamingResponse(_lines(screen(name), asked), media_type="application/x-ndjson")

    async def first(_: Request) -> Response:
        name, words = _first(server)
        return RedirectResponse(f"/{name}?{urlencode(words)}", 303)

    async def screens(request: Request) -> Response:
        names = await there(*ORDER)
        return await answered(
            request, lambda asked: _json(request, {"screens": [_described(name, asked) for name in names]})
        )

    async def drop(request: Request) -> Response:
        measured = request.url.path.endswith("/measured")
        body, size_B = await _body(request, MOST_MEASURED_B if measured else MOST_B)
        name = request.query_params.get("name", "")
        add = server.uploads.add_capture if is_capture(name) else server.uploads.add
        if measured:
            add = server.uploads.add_measured
        return await answered(request, lambda _: JSONResponse(add(name, body, size_B)))

    routes = [
        Route("/", first),
        Route("/screens", screens),
        Route("/drop", drop, methods=["POST"]),
        Route("/drop/measured", drop, methods=["POST"]),
        Mount("/static", StaticFiles(directory=PAGE)),
        *([Mount("/views", StaticFiles(directory=VIEWS))] if os.path.isdir(VIEWS) else []),
        Route("/stream/{name}", stream),
        Route("/{when}/{name}", data),
        Route("/{name}", show),
    ]
    return Starlette(routes=routes)


async def _body(request: Request, most_B: int) -> tuple[bytes, int]:
    """The body of a request as far as it may be used, and how long it is, as far as anybody reads on."""
    raw, size_B = bytearray(), 0
    async for chunk in request.stream():
        size_B += len(chunk)
        if size_B > DRAINED * most_B:
            break
        if size_B <= most_B:
            raw += chunk
    return bytes(raw), size_B


def _lines(one: Screen, asked: Asked) -> Iterator[str]:
    """What a screen streams; the last line may be why there is no more. Ends with its reader."""
    try:
        for message in one.stream(asked) if one.stream is not None else ():
            yield json.dumps(message, allow_nan=False) + "\n"
    except Superseded:
        return
    except (Infeasible, BadInput) as error:
        yield json.dumps({"error": str(error)}) + "\n"
    finally:
        asked.stop.set()


async def worked(
    pool: ThreadPoolExecutor, request: Request, server: Server, make: Callable[[Asked], Response]
) -> Response:
    """What `make` answers in a thread, which ends early when the browser has gone on to another question."""
    asked = Asked(typed(request.query_params), server)

    def work() -> Response:
        try:
            asked.check()
            return make(asked)
        except Superseded:
            return Response(status_code=GONE)
        except StopIteration as error:
            # A future takes none: whoever waits for it would wait for ever.
            raise RuntimeError("an iteration ended where a value was expected") from error

    future = asyncio.get_running_loop().run_in_executor(pool, work)
    try:
        while not future.done():
            await asyncio.wait({future}, timeout=POLL_S)
            if not future.done() and await request.is_disconnected():
                asked.stop.set()
    finally:
        # The server itself may end before the answer is there.
        asked.stop.set()
    try:
        return future.result()
    except Infeasible as error:
        levers = "" if error.levers is None else levers_text(error.levers).strip("\n")
        return JSONResponse({"no": str(error), "levers": levers}, 422)
    except BadInput as error:
        field = field_of(error)
        return JSONResponse({"error": error.message if field else str(error), "where": field}, 422)
    except LockstepError as error:
        return JSONResponse({"error": str(error), "where": ""}, 422)
    except Exception as error:
        traceback.print_exc()
        return JSONResponse({"error": f"a bug in Lockstep: {brief(repr(error))}", "where": ""}, 500)


def _needs_question(one: Screen) -> bool:
    return QUESTION[0] in one.fields and not one.alone


def _first(server: Server) -> tuple[str, Mapping[str, str]]:
    """The screen and the question that the page begins with."""
    return first_address(server) or (ORDER[0], {**EXAMPLE, **server.first})


def _json(request: Request, answer: Mapping[str, object]) -> Response:
    """JSON with a tag, so that what has not changed is not sent again."""
    body = json.dumps(answer, allow_nan=False, ensure_ascii=False).encode("utf-8")
    tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers={"etag": tag})
    return Response(body, media_type="application/json", headers={"etag": tag})


@cache
def _shell(names: tuple[str, ...] = ORDER) -> str:
    """The page before its first answer, with the tabs in it so that they are painted at once."""
    tabs = "".join(f'<a href="/{name}" data-screen="{name}">{screen(name).title}</a>' for name in names)
    return (PAGE / "index.html").read_text("utf-8").replace("<!-- tabs -->", tabs)


def _described(name: str, asked: Asked | None = None) -> Json:
    """A screen and its controls, those of a capture where the words name one."""
    one: Screen = screen(name)
    found = None if asked is None or one.fields_of is None else one.fields_of(asked)
    return {"name": name, "title": one.title, "fields": [_control(field) for field in found or one.fields]}


@cache
def _control(field: Field) -> Json:
    """A control: what it offers are lists of the shells' completion, or a few words to choose from."""
    offers = list(getattr(completing, field.names)()) if hasattr(completing, field.names) else []
    return {
        "name": field.name, "label": field.label, "instead": field.instead, "group": field.group,
        "example": field.example, "offers": offers, "choices": [] if offers or field.files else field.names.split(),
        "files": [MOST_MEASURED_B, MOST_UNPACKED_B] if field.files else None,
    }  # fmt: skip


def warm() -> None:
    """Loads what the first answer needs, so that it does not wait for it."""
    for name in ORDER:
        import_module(f"lockstep.show.views.{screen(name).verb}")
        _described(name)
    _shell()
    # What is loaded stays; looking through it for garbage would make an answer wait now and then.
    gc.freeze()
