"""The HTTP server: it loads systems, listens, and answers requests."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, closing
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from moses_integration.building.preparation import SystemText
from moses_integration.ini import MosesIni
from moses_integration.serving.batches import (
    BusyError,
    Failure,
    Limits,
    Result,
    Sentence,
    TranslationQueue,
    TranslationTask,
    column_names,
)
from moses_integration.serving.mosesserver import answer_call
from phrasescore import __version__
from phrasescore.errors import UserError, arg_name
from phrasescore.text import Log

if TYPE_CHECKING:
    from phrasescore.device import Precision

LARGEST_BODY = 1 << 20
_MOST_CONNECTIONS = 512
_LAST_SECONDS = 5
"""Time for the requests in progress when the server is stopped."""
_FILES = {
    "/": ("page.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/openapi.json": ("openapi.json", "application/json"),
}
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


def serve(
    systems: Mapping[str, MosesIni],
    address: tuple[str, int],
    processes: int,
    limits: Limits,
    device: str,
    precision: Precision,
    log: Log,
) -> None:
    """Serve systems at a host and port until a signal interrupts the process."""
    with _listener(*address) as listener, TemporaryDirectory(prefix="serving.") as folder:
        log(f"loading {', '.join(systems)}")
        task = TranslationTask(systems, Path(folder), limits, device, precision)
        with closing(TranslationQueue(task, processes)) as translator:
            asyncio.run(_serve(translator, systems, limits, listener, log))


async def _serve(
    translator: TranslationQueue, systems: Mapping[str, MosesIni], limits: Limits, listener: socket.socket, log: Log
) -> None:
    await translator.load()
    server = uvicorn.Server(
        uvicorn.Config(
            _Service(translator, systems, limits).app(),
            http="h11",
            ws="none",
            lifespan="off",
            log_level="error",
            access_log=False,
            server_header=False,
            limit_concurrency=_MOST_CONNECTIONS,
            timeout_graceful_shutdown=_LAST_SECONDS,
        )
    )
    host, port = listener.getsockname()[:2]
    log(f"ready: open http://{f'[{host}]' if ':' in host else host}:{port}/ (Ctrl-C ends the server)")
    await server.serve(sockets=[listener])


def _listener(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as error:
        remedy = f"choose another {arg_name('host')} or {arg_name('port')}"
        raise UserError(f"{host}:{port}: cannot listen there ({error}); {remedy}") from error


async def _error(request: Request, error: Exception) -> Response:
    status, message = (error.status_code, error.detail) if isinstance(error, HTTPException) else (500, "internal error")
    headers = error.headers if isinstance(error, HTTPException) else None
    return JSONResponse({"error": message}, status, headers)


def _file(name: str, kind: str) -> Callable[[Request], Awaitable[Response]]:
    content = files("moses_integration.serving").joinpath(name).read_bytes()

    async def serve(request: Request) -> Response:
        return Response(content, media_type=kind, headers=_HEADERS)

    return serve


@dataclass(frozen=True)
class _Service:
    translator: TranslationQueue
    systems: Mapping[str, MosesIni]
    """The first one is the default."""
    limits: Limits

    def app(self) -> Starlette:
        routes = [
            Route("/translate", self.translate, methods=["POST"]),
            Route("/RPC2", self.call, methods=["POST"]),
            Route("/health", self.health),
            *(Route(path, _file(*served)) for path, served in _FILES.items()),
        ]
        return Starlette(routes=routes, exception_handlers={HTTPException: _error, Exception: _error})

    async def health(self, request: Request) -> Response:
        systems = [
            {
                "name": name,
                "prepares": SystemText.of(ini) is not None,
                "columns": column_names(ini),
                "in_context": ini.phrase_table().weight_count > ini.phrase_table().width,
            }
            for name, ini in self.systems.items()
        ]
        limits = asdict(self.limits) | {"bytes": LARGEST_BODY}
        facts = {"status": "ok", "version": __version__, "waiting": self.translator.waiting}
        return JSONResponse({**facts, "limits": limits, "systems": systems})

    async def translate(self, request: Request) -> Response:
        async with _deadline(self.limits.seconds):
            try:
                asked = json.loads(await _body(request))
            except (ValueError, RecursionError) as error:
                raise HTTPException(400, f"the body is not JSON ({error})") from error
            system, sentences = self._parse(asked)
            results = await self._results(system, sentences)
        failed = [result for result in results if isinstance(result, Failure)]
        if failed and len(failed) == len(results):
            raise HTTPException(failed[0].status, failed[0].message)
        shown = [{"error": result.message} if isinstance(result, Failure) else result for result in results]
        return JSONResponse({"system": system, "translations": shown})

    async def call(self, request: Request) -> Response:

        async def translate(system: object, sentence: Sentence) -> Result | Failure:
            [result] = await self._results(self._system(system), [sentence])
            return result

        async with _deadline(self.limits.seconds):
            return Response(
                await answer_call(await _body(request), translate, self.limits.nbest), media_type="text/xml"
            )

    async def _results(self, system: str, sentences: list[Sentence]) -> list[Result | Failure]:
        try:
            return await self.translator.translate(system, sentences)
        except BusyError:
            raise HTTPException(503, "too many sentences wait; try again later", {"Retry-After": "5"}) from None

    def _system(self, name: object) -> str:
        if name is None:
            return next(iter(self.systems))
        if not isinstance(name, str) or name not in self.systems:
            raise HTTPException(400, f"`system` is none of {', '.join(self.systems)}")
        return name

    def _parse(self, asked: Any) -> tuple[str, list[Sentence]]:
        if not isinstance(asked, dict) or "text" not in asked:
            raise HTTPException(400, "the body is not an object with `text`")
        if unknown := asked.keys() - {"text", "system", "prepared", "nbest", "options"}:
            raise HTTPException(400, f"`{min(unknown)[:40]}` is no option; see /openapi.json")
        texts = asked["text"] if isinstance(asked["text"], list) else [asked["text"]]
        if not all(isinstance(text, str) for text in texts):
            raise HTTPException(400, "`text` is neither a string nor a list of strings")
        if len(texts) > self.limits.sentences:
            raise HTTPException(400, f"`text` has {len(texts):,} sentences; give at most {self.limits.sentences:,}")
        prepared, options = (asked.get(name, False) for name in ("prepared", "options"))
        for name, value in (("prepared", prepared), ("options", options)):
            if not isinstance(value, bool):
                raise HTTPException(400, f"`{name}` is neither true nor false")
        nbest = asked.get("nbest", 0)
        if type(nbest) is not int or not 0 <= nbest <= self.limits.nbest:
            raise HTTPException(400, f"`nbest` is not a whole number from 0 to {self.limits.nbest}")
        system = self._system(asked.get("system"))
        return system, [Sentence(text, prepared, nbest, options=options) for text in texts]


@asynccontextmanager
async def _deadline(seconds: float) -> AsyncIterator[None]:
    """End the request after some seconds; its sentences that still wait are not translated."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise HTTPException(504, f"the request took more than {seconds:g} s; give less text") from None
    except asyncio.CancelledError:
        raise HTTPException(503, "the server is being stopped") from None


async def _body(request: Request) -> bytes:
    """Return the body, and stop to read one that is too large."""
    body = bytearray()
    try:
        async for part in request.stream():
            body += part
            if len(body) > LARGEST_BODY:
                raise HTTPException(413, f"the body has more than {LARGEST_BODY:,} bytes; send several requests")
    except ClientDisconnect:
        raise HTTPException(400, "the body is incomplete") from None
    return bytes(body)
