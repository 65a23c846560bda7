"""How the service is doing: /health and /metrics."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from asr.service.described import kinds, refusals
from asr.service.state import state_of


def router() -> APIRouter:
    """The routes."""
    routes = APIRouter(tags=["health"])

    @routes.get(
        "/health", summary="Live and ready, or not", response_model=None, responses={503: {"description": "Not ready."}}
    )
    async def health(request: Request) -> Response:
        pool = state_of(request).pool
        ready = pool.workers > 0 and not pool.is_stopping
        content: dict[str, Any] = {
            "live": True,
            "ready": ready,
            "model": pool.model,
            "bundle": pool.digest,
            "workers": pool.workers,
            "waiting": pool.waiting,
        }
        return JSONResponse(content, 200 if ready else 503)

    @routes.get(
        "/metrics", summary="Counters, for Prometheus", response_model=None, responses=kinds("text/plain") | refusals()
    )
    async def metrics(request: Request) -> Response:
        state = state_of(request)
        state.metrics.workers.set(state.pool.workers)
        state.metrics.waiting.set(state.pool.waiting)
        state.metrics.streams.set(getattr(request.app.state, "streams", 0))
        return Response(generate_latest(state.metrics.registry), media_type=CONTENT_TYPE_LATEST)

    return routes
