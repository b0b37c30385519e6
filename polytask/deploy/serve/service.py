"""What the routes share: the catalogue of the moment, the queue, and whether the server is closing."""

import asyncio
import time
from typing import Any, final

from starlette.requests import Request

from polytask.deploy.serve.ask import read_ask
from polytask.deploy.serve.batcher import Batcher
from polytask.deploy.serve.body import read_json
from polytask.deploy.serve.catalogue import Catalogue
from polytask.deploy.serve.log import say
from polytask.deploy.serve.metrics import Metrics
from polytask.deploy.serve.refused import Refused
from polytask.deploy.serve.settings import Settings
from polytask.errors import UserError


@final
class Service:
    """One server's state; it lives on the event loop."""

    def __init__(self, catalogue: Catalogue, settings: Settings) -> None:
        self.catalogue = catalogue
        self.settings = settings
        self.metrics = Metrics()
        self.metrics.models.set(len(catalogue.models))
        self.batcher = Batcher(settings, self.metrics)
        self.closing = False
        self._reloading = asyncio.Lock()

    async def predict(self, request: Request) -> dict[str, Any]:
        """Answer a request's texts."""
        started = time.perf_counter()
        ask = read_ask(await read_json(request, self.settings), self.catalogue.tasks, self.settings)
        request.scope.setdefault("state", {})["asked"] = {"texts": len(ask.rows), "tasks": ask.tasks}
        left = self.settings.timeout - (time.perf_counter() - started)
        answers = await self.batcher.answer(ask, self.catalogue, left)
        self.metrics.texts(ask.tasks, len(ask.rows))
        return {"answers": answers, "milliseconds": round(1000 * (time.perf_counter() - started), 3)}

    def tasks(self) -> dict[str, Any]:
        """What can be asked."""
        return {
            "tasks": {
                name: {
                    "kind": task.kind,
                    "texts": task.texts,
                    "labels": list(task.labels),
                    "range": list(task.range) if task.range is not None else None,
                    "model": self.catalogue.homes[name].name,
                }
                for name, task in self.catalogue.tasks.items()
            }
        }

    async def reload(self) -> dict[str, Any]:
        """Look at the folder again, while requests go on with the models that they came for."""
        async with self._reloading:
            try:
                catalogue, changes = await asyncio.to_thread(self.catalogue.renewed)
            except UserError as error:
                self.metrics.reloads.labels("failed").inc()
                say("reload failed", reason=str(error))
                raise Refused(409, _sentence(str(error))) from None
            self.catalogue = catalogue
        self.metrics.models.set(len(catalogue.models))
        self.metrics.reloads.labels("failed" if changes.failed else "done").inc()
        found = {
            "added": changes.added,
            "removed": changes.removed,
            "reloaded": changes.reloaded,
            "failed": changes.failed,
        }
        say("reload", **found)
        return found

    @property
    def ready(self) -> bool:
        return self.batcher.alive and not self.closing and bool(self.catalogue.tasks)


def _sentence(text: str) -> str:
    return " ".join(text.split())
