"""The server holds to its OpenAPI, whatever is generated from it: `POLYTASK_EXAMPLES=1000` tries more."""

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import Case, GenerationMode
from schemathesis.core.result import Ok

from bench.server import Server

EXAMPLES = int(os.environ.get("POLYTASK_EXAMPLES", "12"))
TRIES = settings(
    max_examples=EXAMPLES, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)


@pytest.fixture(scope="module")
def server(trained: Path) -> Iterator[Server]:
    with Server(trained, "--quiet", OMP_NUM_THREADS="1") as server:
        yield server


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
def test_the_server_holds_to_its_schema(server: Server, mode: GenerationMode) -> None:
    schema = schemathesis.openapi.from_url(f"{server.url}/openapi.json")
    tried: Counter[str] = Counter()
    for result in schema.get_all_operations():
        assert isinstance(result, Ok)
        operation = result.ok()
        if mode == GenerationMode.NEGATIVE and not operation.body:
            continue  # there is nothing to get wrong

        @settings(
            max_examples=EXAMPLES, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
        )
        @given(case=operation.as_strategy(generation_mode=mode))
        def check(case: "Case[Any]") -> None:
            tried[case.path] += 1
            case.call_and_validate()

        check()
    assert tried["/v1/predict"] >= EXAMPLES // 2
    assert mode == GenerationMode.NEGATIVE or len(tried) == 6
