"""Load systems and listen."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import uvicorn

from moses_integration.ini import MosesIni
from moses_integration.serving.app import make_app
from moses_integration.serving.batches import TranslationTask, Translator
from moses_integration.serving.requests import Limits
from phrasescore.errors import UserError, spelled
from phrasescore.text import Log

if TYPE_CHECKING:
    from phrasescore.device import Precision

_MOST_CONNECTIONS = 512
_LAST_SECONDS = 5
"""Time for the requests in progress when the server is stopped."""


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
        with closing(Translator(task, processes)) as translator:
            asyncio.run(_serve(translator, systems, limits, listener, log))


async def _serve(
    translator: Translator, systems: Mapping[str, MosesIni], limits: Limits, listener: socket.socket, log: Log
) -> None:
    await translator.load()
    server = uvicorn.Server(
        uvicorn.Config(
            make_app(translator, systems, limits),
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
    """Return a socket that listens; a host without an address, or a port in use, is an error."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as error:
        remedy = f"choose another {spelled('host')} or {spelled('port')}"
        raise UserError(f"{host}:{port}: cannot listen there ({error}); {remedy}") from error
