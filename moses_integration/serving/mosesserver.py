"""The XML-RPC method `translate` of mosesserver (moses/server/TranslationRequest.cpp).

Like there, the text is prepared. An option is on if it is given, except that an explicit false or 0 turns it off.
"""

from __future__ import annotations

import xmlrpc.client
from collections.abc import Awaitable, Callable
from typing import Any
from xml.parsers.expat import ExpatError

from starlette.exceptions import HTTPException

from moses_integration.nbest import format_features
from moses_integration.serving.batches import Failure, Result, Sentence

_OFF = (False, 0, "", "0", "false", "False")
_UNSUPPORTED = ("sg", "topt", "lambda")
"""Search graph, translation options, weights of several tables."""

TranslateOne = Callable[[object, Sentence], Awaitable[Result | Failure]]


async def answer_call(body: bytes, translate: TranslateOne, most_nbest: int) -> bytes:
    """Return the answer to a call, which is a fault if the call is invalid or the translation fails."""
    try:
        sentence, parameters = _parse(body, most_nbest)
        result = await translate(parameters.get("system"), sentence)
        if isinstance(result, Failure):
            raise ValueError(result.message)
        answer: Any = (_answer(result, parameters),)
    except HTTPException as error:
        answer = xmlrpc.client.Fault(error.status_code, error.detail)
    except ValueError as error:
        answer = xmlrpc.client.Fault(400, str(error))
    return xmlrpc.client.dumps(answer, methodresponse=True).encode("utf-8", "xmlcharrefreplace")


def _parse(body: bytes, most_nbest: int) -> tuple[Sentence, dict[str, Any]]:
    try:
        # No client declares a document type, in which entities could expand to gigabytes. UTF-16 could hide one.
        if b"<!DOCTYPE" in body or b"\0" in body:
            raise ValueError
        given, method = xmlrpc.client.loads(body)
    except (ExpatError, xmlrpc.client.Error, ValueError, LookupError, TypeError, AttributeError, OverflowError):
        raise ValueError("the body is no XML-RPC call") from None
    if method != "translate":
        raise ValueError(f"there is no method `{method}`, only `translate`")
    parameters = given[0] if len(given) == 1 and isinstance(given[0], dict) else {}
    if not isinstance(text := parameters.get("text"), str):
        raise ValueError("`translate` needs one struct with a string `text`")
    if unsupported := [name for name in _UNSUPPORTED if name in parameters]:
        raise ValueError(f"`{unsupported[0]}` is not supported; leave it out")
    nbest = parameters.get("nbest", 0)
    if type(nbest) is not int or not 0 <= nbest <= most_nbest:
        raise ValueError(f"`nbest` is not a whole number from 0 to {most_nbest}")
    return Sentence(text, is_prepared=True, nbest=nbest, distinct=_is_on(parameters, "nbest-distinct")), parameters


def _is_on(parameters: dict[str, Any], name: str) -> bool:
    return parameters.get(name, False) not in _OFF


def _answer(result: Result, parameters: dict[str, Any]) -> dict[str, Any]:
    answer = _hypothesis(result, "text", parameters)
    if parameters.get("nbest"):
        answer["nbest"] = [_entry(one, parameters) for one in result["nbest"]]
    return answer


def _entry(translation: Result, parameters: dict[str, Any]) -> dict[str, Any]:
    entry = _hypothesis(translation, "hyp", parameters) | {"totalScore": translation["score"]}
    if _is_on(parameters, "add-score-breakdown"):
        entry["fvals"] = format_features(translation["features"]).decode()
    return entry


def _hypothesis(translation: Result, key: str, parameters: dict[str, Any]) -> dict[str, Any]:
    hypothesis: dict[str, Any] = {key: " ".join(translation["words"])}
    if _is_on(parameters, "align"):
        hypothesis["align"] = [
            {"tgt-start": one["target"][0], "src-start": one["source"][0], "src-end": one["source"][1] - 1}
            for one in translation["phrases"]
        ]
    if _is_on(parameters, "word-align"):
        hypothesis["word-align"] = [
            {"source-word": source, "target-word": target}
            for one in translation["phrases"]
            for source, target in one["alignment"]
        ]
    return hypothesis
