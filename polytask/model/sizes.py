"""How large a model is: parameters by part and by task, the ratio to one encoder, and bytes on disk."""

from collections.abc import Iterable
from typing import Any

from torch import nn

from polytask.model.multitask import MultitaskModel

BYTES_PER_SCALE = 4  # of each row of an int8 matrix


def describe_sizes(model: MultitaskModel) -> dict[str, Any]:
    """Counts, ratios and megabytes; a model on the meta device will do."""
    encoder = _count(model.encoder.parameters())
    embeddings = _count(model.encoder.embeddings.parameters())
    own = {name: _count(model.own_parameters(name)) for name in model.tasks}
    total = encoder + sum(own.values())
    return {
        "parameters": total,
        "encoder": encoder,
        "embeddings": embeddings,
        "tasks": {
            name: {
                "adapter": (adapter := _count(model.adapter_parameters(name))),
                "head": own[name] - adapter,
            }
            for name in model.tasks
        },
        "ratio": round(total / encoder, 4),
        "ratio_without_embeddings": round((total - embeddings) / (encoder - embeddings), 4),
        "next_task": round(sum(own.values()) / len(own)),
        "megabytes": {kind: round(_bytes(model, kind) / 1e6, 1) for kind in ("fp32", "bf16", "int8")},
    }


def _count(parameters: Iterable[nn.Parameter]) -> int:
    return sum(parameter.numel() for parameter in parameters)


def _bytes(model: nn.Module, kind: str) -> int:
    """In int8 the matrices have one byte an element and a scale a row; biases and norms stay fp32."""
    if kind != "int8":
        return _count(model.parameters()) * (4 if kind == "fp32" else 2)
    matrices = [parameter for parameter in model.parameters() if parameter.ndim > 1]
    vectors = [parameter for parameter in model.parameters() if parameter.ndim <= 1]
    return sum(m.numel() + BYTES_PER_SCALE * m.numel() // m.shape[-1] for m in matrices) + 4 * _count(vectors)
