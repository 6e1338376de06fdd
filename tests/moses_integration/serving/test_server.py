"""`phrasescore-smt serve`: the HTTP and XML-RPC interfaces."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import shutil
import signal
import socket
import time
import xmlrpc.client
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import jsonschema
import psutil
import pytest

from moses_integration.cli import main
from moses_integration.ini import MosesIni
from moses_integration.nbest import read_nbest
from moses_integration.serving.app import _Service
from moses_integration.serving.batches import Failure, Limits, Sentence, TranslationQueue, TranslationTask
from phrasescore.errors import UserError
from tests.conftest import MINI
from tests.moses_integration.cli.running import train_with_plugin
from tests.moses_integration.serving.conftest import BASELINE, RunningServer, add_network, running

TEXT = (MINI / "test.en").read_text().splitlines()[:24]
LIST = 20


@pytest.fixture(scope="module")
def decoded(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], Path]:
    """Translations and n-best lists of `decode`."""
    return decode(BASELINE, tmp_path_factory.mktemp("decoded"))


def decode(ini: Path, folder: Path) -> tuple[list[str], Path]:
    (folder / "text").write_text("\n".join(TEXT) + "\n")
    decode = ["decode", str(ini), "--source", str(folder / "text"), "--prepared", "--toolkit", "embedded", "-q"]
    assert (
        main([*decode, "--processes", "1", "-o", str(folder / "out"), "--nbest", str(folder / "list"), str(LIST)]) == 0
    )
    return (folder / "out").read_text().splitlines(), folder / "list"


def test_translations_and_lists_are_those_of_decode(server: RunningServer, decoded: tuple[list[str], Path]) -> None:
    require_equal(server.translate(TEXT, nbest=LIST), decoded)


def test_translations_in_context_are_those_of_decode(
    in_context: Path, decoded: tuple[list[str], Path], tmp_path: Path
) -> None:
    """Also when requests arrive together, and beside the system without the network."""
    with running("--system", f"baseline={BASELINE}", "--system", f"ctx={in_context}") as server:
        with ThreadPoolExecutor(8) as clients:
            both = clients.map(lambda name: server.translate(TEXT, system=name, nbest=LIST), ["baseline", "ctx"] * 4)
            baseline, ctx, *_ = answers = list(both)
        [one] = server.translate("the black dogs", system="ctx", options=True)["translations"]
        facts = {system["name"]: system["in_context"] for system in server.get("health")["systems"]}
    assert answers[2::2] == [baseline] * 3
    assert answers[3::2] == [ctx] * 3
    require_equal(baseline, decoded)
    require_equal(ctx, decode(in_context, tmp_path))
    assert [one["text"] for one in ctx["translations"]] != decoded[0]
    assert facts == {"baseline": False, "ctx": True}
    options = one["phrases"][0]["options"]
    assert all(0 < option["columns"]["in context"] < 1 and 0 < option["without_sentence"] < 1 for option in options)


def test_a_network_with_a_unit_of_a_plugin_is_served(tmp_path: Path) -> None:
    plugin, network = train_with_plugin(tmp_path)
    with running(add_network(network), "--plugin", plugin) as server:
        [one] = server.translate("the black dogs", options=True)["translations"]
    assert all(0 < option["columns"]["in context"] < 1 for option in one["phrases"][0]["options"])


def require_equal(answer: Any, decoded: tuple[list[str], Path]) -> None:
    translations, listed = decoded
    assert [one["text"] for one in answer["translations"]] == translations
    entries = list(read_nbest(listed))
    served = [(number, entry) for number, one in enumerate(answer["translations"]) for entry in one["nbest"]]
    assert len(entries) == len(served) > LIST
    for entry, (number, one) in zip(entries, served, strict=True):
        assert (entry.sentence, entry.words.decode()) == (number, one["text"])
        assert float(entry.total) == pytest.approx(one["score"], rel=1e-4, abs=1e-5)


def test_eight_clients_get_the_answers_of_one(server: RunningServer, decoded: tuple[list[str], Path]) -> None:
    with ThreadPoolExecutor(8) as clients:
        answers = list(clients.map(lambda text: server.translate(text)["translations"][0]["text"], TEXT))
    assert answers == decoded[0]


def test_phrases_cover_the_sentence_and_have_their_columns(server: RunningServer) -> None:
    [one] = server.translate("the black dogs drink .", options=True)["translations"]
    assert one["unknown"] == [3]
    assert [phrase["source"] for phrase in one["phrases"]] == [[0, 3], [3, 4], [4, 5]]
    assert [phrase["target"] for phrase in one["phrases"]] == [[0, 3], [3, 4], [4, 5]]
    first, unknown, _ = one["phrases"]
    # The line of the table: 1 0.784868 1 0.0756402 ||| 0-0 2-1 1-2
    assert list(first["columns"].values()) == pytest.approx([1, 0.784868, 1, 0.0756402])
    assert first["alignment"] == [[0, 0], [1, 2], [2, 1]]
    assert first["options"][0]["words"] == ["les", "chiens", "noirs"]
    assert unknown["columns"] == {}


def test_answers_are_as_the_openapi_document_says(server: RunningServer) -> None:
    document = server.get("openapi.json")

    def check(value: object, name: str) -> None:
        schema = {"$ref": f"#/components/schemas/{name}", "components": document["components"]}
        jsonschema.Draft202012Validator(schema).validate(value)

    check(server.get("health"), "Health")
    for one in server.translate([*TEXT[:2], "drink", ""], nbest=2, options=True)["translations"]:
        check(one, "Translation")
    check({"text": ["a"], "prepared": True, "nbest": 1, "options": True, "system": "moses.tuned"}, "Request")


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (b"", 400, "the body is not JSON"),
        (b"[" * 100_000, 400, "the body is not JSON"),
        (b"\xff", 400, "the body is not JSON"),
        (b'"text"', 400, "not an object with `text`"),
        (b'{"text": 1}', 400, "neither a string nor a list"),
        (b'{"text": ["a", null]}', 400, "neither a string nor a list"),
        (b'{"text": "a", "size": 1}', 400, "`size` is no option"),
        (b'{"text": "a", "system": ["x"]}', 400, "`system` is none of moses.tuned"),
        (b'{"text": "a", "prepared": 1}', 400, "`prepared` is neither true nor false"),
        (b'{"text": "a", "nbest": true}', 400, "`nbest` is not a whole number from 0 to 100"),
        (b'{"text": "a", "nbest": 101}', 400, "`nbest` is not a whole number from 0 to 100"),
        (json.dumps({"text": ["a"] * 101}).encode(), 400, "101 sentences; give at most 100"),
        (json.dumps({"text": "a " * 201, "prepared": True}).encode(), 400, "201 words; give at most 200"),
        (b'{"text": "\\ud800", "prepared": true}', 400, "half of a surrogate pair"),
        (b'{"text": "a|b", "prepared": true}', 400, "has a `|`"),
        (b'{"text": "a"}', 400, "how the text of this system was prepared is not known"),
        (b" " * ((1 << 20) + 1), 413, "more than 1,048,576 bytes"),
    ],
)
def test_a_faulty_request_is_rejected_with_a_reason(
    server: RunningServer, body: bytes, status: int, message: str
) -> None:
    found, answer = server.post(body)
    assert (found, list(answer)) == (status, ["error"])
    assert message in answer["error"]


def test_a_faulty_sentence_harms_no_other(server: RunningServer, decoded: tuple[list[str], Path]) -> None:
    first, faulty, last = server.translate([TEXT[0], "a|b", TEXT[1]])["translations"]
    assert [first["text"], last["text"]] == decoded[0][:2]
    assert "has a `|`" in faulty["error"]


def test_unknown_paths_and_methods(server: RunningServer) -> None:
    assert server.post(b"", "nowhere")[0] == 404
    assert server.post(b"", "health") == (405, {"error": "Method Not Allowed"})


def test_a_client_that_leaves_harms_no_other(server: RunningServer, decoded: tuple[list[str], Path]) -> None:
    host, port = server.url.removeprefix("http://").strip("/").split(":")
    for request in (b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n{", b"\x16\x03\x01\x00", b"GET"):
        with socket.create_connection((host, int(port))) as client:
            client.sendall(request)
    assert server.translate(TEXT[0])["translations"][0]["text"] == decoded[0][0]


def test_killed_processes_are_replaced_and_lose_nothing(server: RunningServer, decoded: tuple[list[str], Path]) -> None:
    with ThreadPoolExecutor(8) as clients:
        answers = clients.map(lambda text: server.translate(text)["translations"][0]["text"], TEXT * 2)
        for worker in server.workers():
            os.kill(worker, signal.SIGKILL)
        assert list(answers) == decoded[0] * 2
    assert len(server.workers()) == 2


def test_a_long_sentence_ends_at_the_time_limit() -> None:
    with running("--system", f"mini={BASELINE}", "--max-words", "100000", seconds=6) as server:
        status, answer = server.post(json.dumps({"text": "the black dogs " * 20_000, "prepared": True}).encode())
        assert (status, "more than 6 s" in answer["error"]) == (504, True)
        assert server.translate("the black dogs")["translations"][0]["text"] == "les chiens noirs"


def test_a_faulty_line_of_a_table_is_named(tmp_path: Path) -> None:
    """Also, the path of a system may have a space; `running` checks that the server prints nothing else."""
    folder = tmp_path / "a folder"
    shutil.copytree(MINI, folder)
    with gzip.open(folder / "phrase-table.gz", "ab") as table:
        table.write(b"the black dogs ||| les ||| 1 x 1 1 ||| 0-0 ||| 1 1 1\n")
    with running(folder / "moses.tuned.ini", errors=1) as server:
        status, answer = server.post(b'{"text": "the black dogs", "prepared": true}')
        assert status == 500
        assert "field 3 (scores): has something that Moses cannot read as a number: `x`" in answer["error"]
        assert server.translate("a")["translations"]


def test_a_server_that_is_stopped_says_so() -> None:
    with (
        running("--system", f"mini={BASELINE}", "--max-words", "100000", errors=1) as server,
        ThreadPoolExecutor() as clients,
    ):
        body = json.dumps({"text": "the black dogs " * 20_000, "prepared": True}).encode()
        workers = [psutil.Process(number) for number in server.workers()]
        before = sum(worker.cpu_times().user for worker in workers)
        request = clients.submit(server.post, body)
        while sum(worker.cpu_times().user for worker in workers) < before + 0.2:
            time.sleep(0.05)
        server.process.send_signal(signal.SIGINT)
        assert request.result() == (503, {"error": "the server is being stopped"})
        server.process.wait()


def test_clients_of_mosesserver_work(server: RunningServer, decoded: tuple[list[str], Path]) -> None:
    with xmlrpc.client.ServerProxy(server.url + "RPC2") as client:
        assert client.translate({"text": TEXT[0]}) == {"text": decoded[0][0]}
        given = {"text": "the black dogs", "align": "true", "word-align": "true", "nbest": 2, "nbest-distinct": True}
        answer: Any = client.translate({**given, "add-score-breakdown": "true"})
    assert answer["text"] == "les chiens noirs"
    assert answer["align"] == [{"tgt-start": 0, "src-start": 0, "src-end": 2}]
    assert {"source-word": 1, "target-word": 2} in answer["word-align"]
    first, second = answer["nbest"]
    assert (first["hyp"], first["align"]) == (answer["text"], answer["align"])
    assert first["totalScore"] > second["totalScore"]
    assert "TranslationModel0= " in first["fvals"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "needs one struct with a string `text`"),
        ({"text": "a", "system": "other"}, "`system` is none of"),
        ({"text": "a", "sg": "true"}, "`sg` is not supported"),
        ({"text": "a", "nbest": -1}, "`nbest` is not a whole number"),
        ({"text": "a|b"}, "has a `|`"),
    ],
)
def test_a_faulty_call_of_xml_rpc_is_a_fault(server: RunningServer, given: dict[str, str], message: str) -> None:
    with xmlrpc.client.ServerProxy(server.url + "RPC2") as client, pytest.raises(xmlrpc.client.Fault, match=message):
        client.translate(given)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<a/>",
        b"<!DOCTYPE a><methodCall/>",
        "<!DOCTYPE a><methodCall><methodName>translate</methodName></methodCall>".encode("utf-16"),
        b"<methodCall><params><param><value><int>x</int></value>",
    ],
)
def test_a_body_that_is_no_call_is_a_fault(server: RunningServer, body: bytes) -> None:
    transport = xmlrpc.client.Transport()
    with closing(transport), pytest.raises(xmlrpc.client.Fault, match="the body is no XML-RPC call"):
        transport.request(server.url.removeprefix("http://").strip("/"), "/RPC2", body)


@pytest.mark.parametrize("error", [UserError("rnn/: has changed"), ZeroDivisionError("a fault")])
def test_an_error_of_a_batch_reaches_its_clients(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fails(batch: Any) -> Any:
        raise error

    task = TranslationTask({}, Path(), Limits(), "cpu", "fp32")
    translator = TranslationQueue(task, 1)
    monkeypatch.setattr(translator, "_run_pool", fails)
    sentences = [Sentence("a"), Sentence("b")]
    if isinstance(error, UserError):
        assert asyncio.run(translator.translate("ctx", sentences)) == [Failure("rnn/: has changed", 500)] * 2
    else:
        with pytest.raises(ZeroDivisionError, match="a fault"):
            asyncio.run(translator.translate("ctx", sentences))


def test_sentences_beyond_those_that_may_wait_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that would exceed the limit gets status 503; the sentences that wait already are translated."""
    monkeypatch.setattr("moses_integration.serving.batches._MOST_WAITING", 5)

    async def posted(text: list[str]) -> tuple[int, bytes | None, Any]:
        """Return the status, the header Retry-After and the answer."""

        async def receive() -> Any:
            return {"type": "http.request", "body": json.dumps({"text": text}).encode()}

        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {"type": "http", "method": "POST", "path": "/translate", "query_string": b"", "headers": []}
        await app(scope, receive, send)
        start, body = sent
        return start["status"], dict(start["headers"]).get(b"retry-after"), json.loads(body["body"])

    async def requests() -> tuple[Any, ...]:
        started, end = asyncio.Event(), asyncio.Event()

        async def translated(batch: Any) -> Any:
            started.set()
            await end.wait()
            return [{"text": sentence.text} for _, sentence in batch]

        async def waiting(text: list[str], count: int) -> asyncio.Task[Any]:
            request = asyncio.create_task(posted(text))
            while translator.waiting != count:
                await asyncio.sleep(0)
            return request

        monkeypatch.setattr(translator, "_run_pool", translated)
        async with asyncio.timeout(20):
            # The only process translates the first sentence while the others wait.
            accepted = [asyncio.create_task(posted(["a"]))]
            await started.wait()
            accepted.append(await waiting(["b", "c", "d"], 3))
            rejected = await posted(["e", "f", "g"])
            accepted.append(await waiting(["h", "i"], 5))
            end.set()
            return rejected, *await asyncio.gather(*accepted)

    with closing(TranslationQueue(TranslationTask({}, Path(), Limits(), "cpu", "fp32"), 1)) as translator:
        app = _Service(translator, {"mini": MosesIni.read(BASELINE)}, Limits()).app()
        rejected, *accepted = asyncio.run(requests())
    assert rejected == (503, b"5", {"error": "too many sentences wait; try again later"})
    assert [status for status, _, _ in accepted] == [200] * 3
    texts = [one["text"] for _, _, answer in accepted for one in answer["translations"]]
    assert texts == ["a", "b", "c", "d", "h", "i"]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ([], 2, "give either INI or --system NAME=INI"),
        (["a.ini", "--system", "b=b.ini"], 2, "give either INI or --system NAME=INI"),
        (["--system", "b.ini"], 2, "--system b.ini: is not NAME=INI, or repeats a name"),
        (["--system", "b=b.ini", "--system", "b=c.ini"], 2, "repeats a name"),
        (["absent.ini"], 1, "absent.ini: "),
        ([str(BASELINE), "--host", "192.0.2.1", "--port", "0"], 1, "192.0.2.1:0: cannot listen there"),
    ],
)
def test_a_wrong_command_line(
    arguments: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", *arguments]) == code
    assert message in capsys.readouterr().err
