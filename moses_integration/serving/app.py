"""The HTTP interface of the server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from importlib.resources import files
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from moses_integration.building.preparation import SystemText
from moses_integration.ini import MosesIni
from moses_integration.serving.batches import BusyError, Translator
from moses_integration.serving.mosesserver import answer_call
from moses_integration.serving.requests import Failure, Limits, Result, Sentence, column_names
from phrasescore import __version__

LARGEST_BODY = 1 << 20
"""Bytes of a request."""
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


def make_app(translator: Translator, systems: Mapping[str, MosesIni], limits: Limits) -> Starlette:
    """Return the application for loaded systems, the first of which is the default."""
    service = Service(translator, systems, limits)
    routes = [
        Route("/translate", service.translate, methods=["POST"]),
        Route("/RPC2", service.call, methods=["POST"]),
        Route("/health", service.health),
        *(Route(path, _file(*served)) for path, served in _FILES.items()),
    ]
    return Starlette(routes=routes, exception_handlers={HTTPException: _error, Exception: _error})


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
class Service:
    """Answers requests."""

    translator: Translator
    systems: Mapping[str, MosesIni]
    limits: Limits

    async def health(self, request: Request) -> Response:
        """Describe the systems and the limits."""
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
        """Translate one sentence or a list of them."""
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
        """Answer a call of mosesserver's method `translate`."""

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
        """Return the name of a system; None names the first one."""
        if name is None:
            return next(iter(self.systems))
        if not isinstance(name, str) or name not in self.systems:
            raise HTTPException(400, f"`system` is none of {', '.join(self.systems)}")
        return name

    def _parse(self, asked: Any) -> tuple[str, list[Sentence]]:
        """Return the system and the sentences of a request."""
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
