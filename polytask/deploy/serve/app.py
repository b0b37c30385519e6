"""The routes of a server and its OpenAPI."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any, final

from fastapi import FastAPI, Request
from fastapi.openapi.utils import get_openapi
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp

from polytask.deploy.serve import replies
from polytask.deploy.serve.ask import ask_schema
from polytask.deploy.serve.gate import GUARDED, MISTAKE, Gate
from polytask.deploy.serve.pages import docs_page, playground
from polytask.deploy.serve.refused import Refused, error_reply, json_reply
from polytask.deploy.serve.service import Service

# What may go wrong, by route; the OpenAPI names them all.
WRONG = {
    400: "The body is not JSON.",
    408: "The body did not arrive in time.",
    413: "The body is too large.",
    415: "The body is of another type.",
    422: "The body asks for something else than can be asked.",
    503: "Too many texts are waiting; Retry-After says when to try again.",
    504: "No answer was ready in time.",
}
SIGHUP_ONLY = "This server has no token, so it reloads by SIGHUP only."


@final
class Counters(Response):
    """Text in Prometheus's form."""

    media_type = CONTENT_TYPE_PLAIN_0_0_4


def make_app(service: Service) -> ASGIApp:
    """The whole application around a service."""

    @asynccontextmanager
    async def life(_app: FastAPI) -> AsyncIterator[None]:
        service.batcher.start()
        yield
        service.batcher.close()

    app = FastAPI(
        title="polytask",
        version=version("polytask"),
        summary="One encoder, many sentence-level tasks.",
        lifespan=life,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
    )
    app.add_exception_handler(Refused, _refused)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(Exception, _mistake)
    _add_use(app, service)
    _add_health(app, service)
    _add_pages(app, service)
    return Gate(app, service.settings.token, service.metrics, lambda: service.closing)


def _add_use(app: FastAPI, service: Service) -> None:
    @app.post(
        "/v1/predict",
        summary="Answer texts or pairs",
        response_model=replies.Predicted,
        response_description="An answer for each text or pair, in their order.",
        responses={status: _error(sentence) for status, sentence in WRONG.items()},
    )
    async def predict(request: Request) -> Response:
        return json_reply(await service.predict(request))

    @app.get(
        "/v1/tasks",
        summary="What can be asked",
        response_model=replies.Tasks,
        response_description="Every task by name.",
    )
    async def tasks() -> Response:
        return json_reply(service.tasks())

    @app.post(
        "/v1/reload",
        summary="Look at the model folder again",
        response_model=replies.Reloaded,
        response_description="What changed.",
        responses={403: _error(SIGHUP_ONLY), 409: _error("The folder is gone or empty; nothing changed.")},
    )
    async def reload() -> Response:
        if service.settings.token is None:
            raise Refused(403, SIGHUP_ONLY)
        return json_reply(await service.reload())


def _add_health(app: FastAPI, service: Service) -> None:
    @app.get(
        "/healthz",
        summary="Whether the process is well",
        response_model=replies.Status,
        response_description="It is.",
        responses={503: _error("It should be started again.")},
    )
    async def healthz() -> Response:
        if service.batcher.alive:
            return json_reply({"status": "well"})
        return error_reply(503, "The thread that runs the models has ended.")

    @app.get(
        "/readyz",
        summary="Whether requests should be sent here",
        response_model=replies.Status,
        response_description="They should.",
        responses={503: _error("They should not: the server is closing or has no model.")},
    )
    async def readyz() -> Response:
        if service.ready:
            return json_reply({"status": "ready"})
        return error_reply(503, "The server is closing." if service.closing else "There is no model to ask.")

    @app.get(
        "/metrics",
        summary="Counters in Prometheus's form",
        response_class=Counters,
        response_description="One a line.",
    )
    async def metrics() -> Response:
        return Counters(service.metrics.page())


def _add_pages(app: FastAPI, service: Service) -> None:
    @app.get("/openapi.json", include_in_schema=False)
    async def openapi() -> Response:
        return json_reply(describe(app, service))

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        page = docs_page(describe(app, service))
        return Response(page.html, headers=page.headers)

    @app.get("/", include_in_schema=False)
    async def page() -> Response:
        shown = playground()
        return Response(shown.html, headers=shown.headers)


def describe(app: FastAPI, service: Service) -> dict[str, Any]:
    """The OpenAPI of the moment: the names of the tasks are those that are served now."""
    schema = get_openapi(title=app.title, version=app.version, summary=app.summary, routes=app.routes)
    body = ask_schema(service.catalogue.tasks, service.settings)
    schema["paths"]["/v1/predict"]["post"]["requestBody"] = {
        "required": True,
        "content": {"application/json": {"schema": body}},
    }
    if service.settings.token is not None:
        schema.setdefault("components", {})["securitySchemes"] = {
            "token": {"type": "http", "scheme": "bearer"}
        }
        for path in GUARDED:
            for operation in schema["paths"][path].values():
                operation["security"] = [{"token": []}]
                operation["responses"]["401"] = _described("The token is missing or another.")
    return schema


def _error(description: str) -> dict[str, Any]:
    return {"model": replies.Error, "description": description}


def _described(description: str) -> dict[str, Any]:
    schema = {"$ref": "#/components/schemas/Error"}
    return {"description": description, "content": {"application/json": {"schema": schema}}}


async def _refused(_request: Request, error: Exception) -> Response:
    assert isinstance(error, Refused)
    return error_reply(error.status, error.sentence, error.headers)


async def _mistake(_request: Request, _error: Exception) -> Response:
    return error_reply(500, MISTAKE)


async def _http_error(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    sentence = {404: "There is nothing here; /openapi.json lists what there is.", 405: "Not by this method."}
    return error_reply(error.status_code, sentence.get(error.status_code, str(error.detail)), error.headers)
