"""A stand-in for the service: its page and routes, with a real recogniser behind them."""

import re
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse

from asr.errors import AudioError, CepstraError
from asr.phrases import PhraseSet
from asr.recognizer import Recognizer
from asr.service.errors import NotFoundError, RequestError, ServiceError
from asr.service.page_routes import router


@pytest.fixture(scope="session")
def service_app() -> FastAPI:
    """Answers in the shapes of the service."""
    app = FastAPI(docs_url=None, redoc_url=None, title="Cepstra")
    app.include_router(router())
    recognizer = Recognizer(beam=4)
    texts: dict[str, str] = {}

    async def on_error(_request: Request, error: Exception) -> JSONResponse:
        status = error.status if isinstance(error, ServiceError) else 400
        code = "invalid_audio" if isinstance(error, AudioError) else "invalid_request"
        fields = {"message": str(error), "type": "invalid_request_error", "param": None, "code": code}
        return JSONResponse({"error": fields}, status)

    app.add_exception_handler(CepstraError, on_error)

    def shown(name: str) -> dict[str, Any]:
        phrases = PhraseSet.parse(texts[name], name)
        return {
            "name": name,
            "sentences": phrases.sentences,
            "intents": phrases.intents,
            "text": texts[name],
            "samples": phrases.samples(10),
        }

    @app.get("/v1/models")
    def models() -> dict[str, Any]:
        return {"object": "list", "data": [{"id": "en-commands"}]}

    @app.post("/v1/audio/transcriptions", summary="What is said in a recording")
    async def transcriptions(request: Request) -> dict[str, Any]:
        async with request.form() as form:
            assert form["model"] == "en-commands"
            assert form["response_format"] == "verbose_json"
            assert form.getlist("timestamp_granularities[]") == ["word", "segment"]
            result = recognizer.transcribe(_bytes(await form["file"].read()))  # type: ignore[union-attr]  # a file
        fields = result.to_dict()
        fields["segments"] = [{"id": i, **segment} for i, segment in enumerate(fields["segments"])]
        return {"task": "transcribe", "language": "english", **fields}

    @app.post("/v1/commands", summary="Which command was meant")
    async def commands(request: Request) -> dict[str, Any]:
        async with request.form() as form:
            text = texts[str(form["phrases"])]
            held = Recognizer(recognizer.bundle, phrases=PhraseSet.parse(text))
            return held.transcribe(_bytes(await form["file"].read())).to_dict()  # type: ignore[union-attr]  # a file

    @app.get("/v1/phrases")
    def phrase_sets() -> dict[str, Any]:
        return {"phrases": [{key: shown(name)[key] for key in ("name", "sentences", "intents")} for name in texts]}

    @app.get("/v1/phrases/{name}")
    def phrase_set(name: str) -> dict[str, Any]:
        if name not in texts:
            raise NotFoundError("phrases: there is no set of this name")
        return shown(name)

    @app.put("/v1/phrases/{name}")
    async def put_phrase_set(name: str, request: Request) -> dict[str, Any]:
        if not re.fullmatch("[a-z0-9][a-z0-9_-]{0,63}", name):
            raise RequestError("name: use 1 to 64 of a-z, 0-9, - and _", param="name")
        text = (await request.body()).decode()
        PhraseSet.parse(text, name)
        texts[name] = text
        return shown(name)

    @app.delete("/v1/phrases/{name}", status_code=204)
    def delete_phrase_set(name: str) -> Response:
        del texts[name]
        return Response(status_code=204)

    return app


def _bytes(data: Any) -> bytes:
    assert isinstance(data, bytes)
    return data


@pytest.fixture(scope="session")
def serving() -> Iterator[Callable[[FastAPI], str]]:
    """serving(app) -> where it answers; it ends with the session."""
    running: list[tuple[uvicorn.Server, threading.Thread]] = []

    def serve(app: FastAPI) -> str:
        server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning", ws="none", lifespan="off"))
        thread = threading.Thread(target=server.run)
        thread.start()
        running.append((server, thread))
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        return f"http://127.0.0.1:{port}"

    yield serve
    for server, thread in running:
        server.should_exit = True
        thread.join()
