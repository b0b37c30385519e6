"""A server answers as the model does, and turns down everything else in one sentence of JSON."""

import base64
import hashlib
import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from polytask.deploy.model import Model
from polytask.deploy.serve.app import make_app
from polytask.deploy.serve.catalogue import Catalogue
from polytask.deploy.serve.log import JsonLines
from polytask.deploy.serve.service import Service
from polytask.deploy.serve.settings import Settings, read_settings, read_token
from polytask.errors import UserError

TEXTS = ["the film is good", "the song is awful x y z", "Zürich 😀"]
PAIRS = [["the film is good", "the film is fine"], ["a", "the book is bad"]]
SMALL = Settings(max_body=20_000, max_texts=8, max_characters=1_000)


@pytest.fixture(scope="module")
def catalogue(trained: Path) -> Catalogue:
    return Catalogue.open(trained)


@pytest.fixture(scope="module")
def client(catalogue: Catalogue) -> Iterator[TestClient]:
    with TestClient(make_app(Service(catalogue, SMALL)), raise_server_exceptions=False) as client:
        yield client


@pytest.fixture(scope="module")
def model(catalogue: Catalogue) -> Model:
    (served,) = catalogue.models.values()
    return served.model


def numbers(answer: dict[str, Any]) -> list[float]:
    return list(answer["probabilities"].values()) if "probabilities" in answer else [answer["value"]]


@pytest.mark.parametrize(
    ("asked", "rows", "tasks"),
    [
        ({"text": TEXTS[0]}, TEXTS[:1], ["mood", "tags"]),
        ({"texts": TEXTS, "task": "mood"}, TEXTS, ["mood"]),
        ({"texts": TEXTS, "tasks": ["tags", "mood"]}, TEXTS, ["tags", "mood"]),
        ({"pair": PAIRS[0]}, PAIRS[:1], ["alike"]),
        ({"pairs": PAIRS, "task": "alike"}, PAIRS, ["alike"]),
    ],
)
def test_answers_are_those_of_the_model(
    client: TestClient, model: Model, asked: dict[str, Any], rows: list[Any], tasks: list[str]
) -> None:
    reply = client.post("/v1/predict", json=asked)
    assert reply.status_code == 200
    answers = reply.json()["answers"]
    assert [list(answer) for answer in answers] == [tasks] * len(rows)
    for task in tasks:
        expected = model.predict(task, [tuple(row) if isinstance(row, list) else row for row in rows])
        for answer, right in zip(answers, expected, strict=True):
            assert answer[task].keys() == right.keys()
            assert numbers(answer[task]) == pytest.approx(numbers(right), abs=1e-2)


def test_tasks_are_described(client: TestClient) -> None:
    tasks = client.get("/v1/tasks").json()["tasks"]
    assert {name: task["texts"] for name, task in tasks.items()} == {"mood": 1, "alike": 2, "tags": 1}
    assert tasks["alike"]["range"] == [0, 5]
    assert tasks["mood"]["labels"] == ["negative", "positive"]


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        (b"", 400, "should be JSON"),
        (b'{"text": "a"', 400, "should be JSON"),
        (b'{"text": "a"} x', 400, "Extra data"),
        (b"[" * 15_000, 400, "nested too deeply"),
        (b'{"text":' * 2_000, 400, "nested too deeply"),
        (b'{"text": "\xff"}', 400, "UTF-8; byte 10"),
        (b'\xff\xfe{\x00"\x00', 400, "UTF-8"),
        (b'{"text": "a\nb"}', 400, "control character"),
        (b'{"text": "a\\u0000b"}', 422, "no control characters"),
        (b'{"text": "a\\u001bb"}', 422, "no control characters"),
        (b'{"text": "a\\ud800b"}', 422, "half of a surrogate pair at character 1"),
        (b'{"text": "a", "task": "\\ud800"}', 422, r"task should be one of mood, alike, tags"),
        (b'{"text": NaN}', 400, "no NaN"),
        (b'{"text": -Infinity}', 400, "no -Infinity"),
        (b'{"text": 1e999}', 422, "text should be a string"),
        (b'{"text": ' + b"9" * 5_000 + b"}", 400, "too many digits"),
        (b'{"text": "a", "text": "b"}', 400, "same key twice"),
        (b'{"text": "a", "task": {"x": 1, "x": 2}}', 400, "same key twice"),
        (b"null", 422, "a JSON object"),
        (b"[]", 422, "a JSON object"),
        (b"{}", 422, "Found 0 of them"),
        (b'{"text": "a", "texts": ["b"]}', 422, "Found 2 of them"),
        (b'{"txt": "a"}', 422, "did you mean 'text'"),
        (b'{"text": null}', 422, "text should be a string"),
        (b'{"text": ""}', 422, "1 to 1,000 characters. Found 0"),
        (b'{"text": ["a"]}', 422, "text should be a string"),
        (b'{"texts": "a"}', 422, "texts should be a list"),
        (b'{"texts": []}', 422, "1 to 8 entries. Found 0"),
        (b'{"texts": ["a", 3]}', 422, "texts.1 should be a string"),
        (b'{"pair": "ab"}', 422, "pair should be a list of two texts"),
        (b'{"pair": ["a"]}', 422, "pair should be a list of two texts"),
        (b'{"pair": ["a", true]}', 422, "pair.1 should be a string"),
        (b'{"pairs": [["a", "b"], ["a", "b", "c"]]}', 422, "pairs.1 should be a list of two texts"),
        (b'{"text": "a", "task": "moot"}', 422, "did you mean 'mood'"),
        (b'{"text": "a", "task": "alike"}', 422, "alike is not asked of a text"),
        (b'{"pair": ["a", "b"], "task": "mood"}', 422, "mood is not asked of a pair"),
        (b'{"text": "a", "task": 1}', 422, "task should be the name of a task"),
        (b'{"text": "a", "tasks": []}', 422, "several in a list"),
        (b'{"text": "a", "tasks": "mood"}', 422, "several in a list"),
        (b'{"text": "a", "tasks": ["mood", "mood"]}', 422, "same name twice"),
        (b'{"text": "a", "task": "mood", "tasks": ["mood"]}', 422, "not both"),
        (b'{"text": "' + b"x" * 1_001 + b'"}', 422, "Found 1,001"),
        (b'{"texts": [' + b'"a",' * 8 + b'"a"]}', 422, "Found 9"),
        (b'{"text": "a", "task": "' + b"x" * 9_000 + b'"}', 422, r"x\.\.\.'"),
        (b" " * 20_001, 413, "at most 20,000 bytes"),
    ],
)
def test_a_hostile_body_is_turned_down_in_one_sentence(
    client: TestClient, body: bytes, status: int, said: str
) -> None:
    reply = client.post("/v1/predict", content=body, headers={"Content-Type": "application/json"})
    assert reply.status_code == status
    assert list(reply.json()) == ["error"]
    sentence = reply.json()["error"]
    assert re.search(said, sentence)
    assert len(sentence) < 300
    assert "\n" not in sentence


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/json; charset=latin-1"},
        {"Content-Type": "application/jsonx"},
        {"Content-Type": "application/json", "Content-Encoding": "gzip"},
    ],
)
def test_another_kind_of_body_is_refused(client: TestClient, headers: dict[str, str]) -> None:
    reply = client.post("/v1/predict", content=b'{"text": "a"}', headers=headers)
    assert reply.status_code == 415
    assert "should" in reply.json()["error"]


def test_a_body_without_an_end_is_cut_off(client: TestClient) -> None:
    given = 0

    def chunks() -> Iterator[bytes]:
        nonlocal given
        for _ in range(1_000):
            given += 1
            yield b" " * 1_000

    reply = client.post("/v1/predict", content=chunks(), headers={"Content-Type": "application/json"})
    assert reply.status_code == 413
    assert reply.headers["connection"] == "close"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/none", 404),
        ("GET", "/v1/predict", 405),
        ("DELETE", "/v1/tasks", 405),
        ("GET", "/v1/tasks/", 404),
        ("GET", "/%00", 404),
        ("POST", "/v1/reload", 403),
    ],
)
def test_what_is_not_there_is_told_in_json(client: TestClient, method: str, path: str, status: int) -> None:
    reply = client.request(method, path)
    assert reply.status_code == status
    assert list(reply.json()) == ["error"]


def test_a_token_guards_everything_but_pages_and_health(catalogue: Catalogue) -> None:
    settings = Settings(token="s3cret-token")
    with TestClient(make_app(Service(catalogue, settings))) as client:
        for path in ("/", "/docs", "/openapi.json", "/healthz", "/readyz"):
            assert client.get(path).status_code == 200
        for header in (
            "",
            "Bearer",
            "Bearer other",
            "Basic s3cret-token",
            "Bearer s3cret-tokenx",
            "Bearer \xff",
        ):
            for method, path in (
                ("GET", "/v1/tasks"),
                ("GET", "/metrics"),
                ("POST", "/v1/reload"),
                ("GET", "/x"),
            ):
                reply = client.request(method, path, headers={b"Authorization": header.encode("latin-1")})
                assert reply.status_code == 401
                assert reply.headers["www-authenticate"] == "Bearer"
                assert "token" in reply.json()["error"]
        client.headers["Authorization"] = "Bearer s3cret-token"
        assert client.get("/v1/tasks").status_code == 200
        assert client.get("/metrics").status_code == 200
        assert client.post("/v1/predict", json={"text": "a"}).status_code == 200
        unchanged: dict[str, Any] = {"added": [], "removed": [], "reloaded": [], "failed": {}}
        assert client.post("/v1/reload").json() == unchanged
        schema = client.get("/openapi.json").json()
        assert schema["paths"]["/v1/predict"]["post"]["security"] == [{"token": []}]


def test_a_token_comes_from_a_file_or_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("POLYTASK_TOKEN", raising=False)
    assert read_token(None) is None
    monkeypatch.setenv("POLYTASK_TOKEN", "abc")
    assert read_token(None) == "abc"
    file = tmp_path / "token"
    file.write_text("def\n")
    assert read_token(file) == "def"
    for content in ("", "\n", "a b", "é"):
        file.write_text(content)
        with pytest.raises(UserError, match="printable ASCII"):
            read_token(file)
    with pytest.raises(UserError, match="cannot be read as a token"):
        read_token(tmp_path / "none")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("quee=3", "did you mean 'queue'"),
        ("queue=x", "queue should be a whole number. Found 'x'"),
        ("queue=10", "room for the texts of one request, 256. Found 10"),
        ("timeout=0", "timeout should be between 0 and 3600 s"),
        ("patience=nan", "patience should not be negative"),
        ("max_body=1", "max_body should be at least 100"),
        ("token=abc", "should be one of"),
    ],
)
def test_a_wrong_limit_is_named(change: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        read_settings([change], None)


def test_health_says_whether_to_send_requests_here(catalogue: Catalogue) -> None:
    service = Service(catalogue, SMALL)
    with TestClient(make_app(service)) as client:
        assert client.get("/healthz").json() == {"status": "well"}
        assert client.get("/readyz").json() == {"status": "ready"}
        service.closing = True
        reply = client.get("/readyz")
        assert reply.status_code == 503
        assert reply.headers["connection"] == "close"
        assert (
            client.post("/v1/predict", json={"text": "a"}).status_code == 200
        )  # what still comes is answered
        assert client.get("/healthz").status_code == 200


def test_metrics_count_requests_texts_and_batches(catalogue: Catalogue) -> None:
    with TestClient(make_app(Service(catalogue, SMALL))) as client:
        client.post("/v1/predict", json={"texts": TEXTS, "task": "mood"})
        client.get("/some/secret/path")
        reply = client.get("/metrics")
    assert reply.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert 'polytask_requests_total{path="/v1/predict",status="200"} 1.0' in reply.text
    assert 'polytask_requests_total{path="other",status="404"} 1.0' in reply.text
    assert 'polytask_texts_total{task="mood"} 3.0' in reply.text
    assert "polytask_batch_texts_sum 3.0" in reply.text
    assert "polytask_waiting_texts 0.0" in reply.text
    assert "secret" not in reply.text


def test_logs_are_json_without_the_texts(client: TestClient, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "polytask.serve"):
        asked = {"texts": ["tell nobody"] * 2, "task": "mood"}
        reply = client.post("/v1/predict", json=asked, headers={"X-Request-ID": "my-id-7"})
        client.post("/v1/predict", json={"text": "tell nobody", "task": "tell nobody"})
        client.get("/v1/tasks?text=tell+nobody")
    assert reply.headers["x-request-id"] == "my-id-7"
    lines = [
        JsonLines().format(record) for record in caplog.records if record.name.startswith("polytask.serve")
    ]
    assert "nobody" not in "".join(lines)
    first = json.loads(lines[0])
    assert first["id"] == "my-id-7"
    assert (first["path"], first["status"], first["texts"], first["tasks"]) == (
        "/v1/predict",
        200,
        2,
        ["mood"],
    )
    assert first["ms"] > 0


def test_a_strange_request_id_is_replaced(client: TestClient) -> None:
    for given in ("a b", "x" * 65, 'a"b', ""):
        assert re.fullmatch(
            "[0-9a-f]{32}", client.get("/healthz", headers={"X-Request-ID": given}).headers["x-request-id"]
        )


def test_a_mistake_of_ours_is_json_too_and_logged_without_the_text(
    trained: Path, caplog: pytest.LogCaptureFixture
) -> None:
    catalogue = Catalogue.open(trained)
    (served,) = catalogue.models.values()

    def fail(*_: object) -> None:
        raise RuntimeError("tell nobody")

    served.model.predict = fail  # type: ignore[method-assign, assignment]
    with TestClient(make_app(Service(catalogue, SMALL)), raise_server_exceptions=False) as client:
        reply = client.post("/v1/predict", json={"text": "a"})
        assert client.get("/healthz").status_code == 200
    assert reply.status_code == 500
    assert list(reply.json()) == ["error"]
    lines = [
        JsonLines().format(record) for record in caplog.records if record.name.startswith("polytask.serve")
    ]
    assert "tell nobody" not in "".join(lines)
    failed = [json.loads(line) for line in lines if "RuntimeError" in line]
    assert failed
    assert any("test_serve.py" in place for place in failed[0]["at"])


@pytest.mark.parametrize("path", ["/", "/docs"])
def test_pages_ask_for_nothing_outside_and_run_only_their_own_script(client: TestClient, path: str) -> None:
    reply = client.get(path)
    policy = reply.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    for tag in ("script", "style"):
        for part in re.findall(rf"<{tag}>(.*?)</{tag}>", reply.text, re.DOTALL):
            digest = base64.b64encode(hashlib.sha256(part.encode()).digest()).decode()
            assert f"'sha256-{digest}'" in policy
    assert not re.search(r"https?://|<script src|<link rel=.stylesheet|innerHTML|style=", reply.text)


def test_the_schema_names_the_tasks_that_fit_each_form(client: TestClient) -> None:
    schema = client.get("/openapi.json").json()
    body = schema["paths"]["/v1/predict"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    named = {
        (next(iter(variant["properties"])), *variant["properties"]["task"]["enum"])
        for variant in body["oneOf"]
        if "task" in variant["properties"]
    }
    assert named == {
        ("text", "mood", "tags"),
        ("texts", "mood", "tags"),
        ("pair", "alike"),
        ("pairs", "alike"),
    }
