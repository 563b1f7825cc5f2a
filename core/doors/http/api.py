"""API under ``/api/v1``, with its OpenAPI document."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from core.doors.exchange import HttpAnswer, HttpCall
from core.doors.http import files, own, records, schemas
from core.doors.http.routes import Route
from core.doors.http.schemas import ApiRoute, RouteText
from core.doors.service import Service
from core.records.actor import Actor
from core.settings import base_path


def _openapi(service: Service, actor: Actor, call: HttpCall) -> HttpAnswer:  # noqa: ARG001 - a handler
    return own.document_answer(openapi())


ROWS: Final[tuple[ApiRoute, ...]] = (
    *own.ROWS,
    *files.ROWS,
    *records.ROWS,
    ApiRoute(
        Route(("GET",), f"{own.ROOT}/openapi.json", "read", _openapi),
        RouteText(id="get_openapi", answer=dict[str, object], words="This document."),
    ),
)
ROUTES: Final[tuple[Route, ...]] = tuple(row.route for row in ROWS)


def openapi() -> dict[str, Any]:
    """Return the routes as an OpenAPI document; its server is the base path."""
    return _document(base_path() or "/")


@cache
def _document(server: str) -> dict[str, Any]:
    return schemas.openapi(ROWS, server)
