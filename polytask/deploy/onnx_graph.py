"""A torch model as one ONNX graph: the encoder once, every task's layers and head, any batch and length."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any, final

import torch
from torch import Tensor, nn

from polytask.batch import Batch, Tokens
from polytask.deploy.onnx_scorer import EMBEDDING, output_name
from polytask.model.heads import Head
from polytask.model.multitask import MultitaskModel
from polytask.model.parts import take_tasks
from polytask.model.readers import RecurrentReader

INPUTS = ("ids", "lengths", "segments")
EXAMPLE = (6, 9)  # rows and tokens of what is traced; any others will do
OPSET = 20  # the first with a GELU of its own


def build_graph(model: MultitaskModel) -> Any:
    """The model as an ONNX `ModelProto` in fp32, its weights inside.

    Inputs are `ids` [B, L], `lengths` [B] and `segments` [B, L]. Where tasks have layers of their own inside
    the encoder, each has a path of its own from the lowest of them on, over the same weights.
    """
    import onnx_ir
    from onnx_ir.passes.common import (
        ClearMetadataAndDocStringPass,
        CommonSubexpressionEliminationPass,
        RemoveUnusedNodesPass,
    )

    # Where a task reads pairs separately, half the sequences are first sentences.
    half = torch.export.Dim("half")
    batch = 2 * half if any(task.separate for task in model.tasks.values()) else torch.export.Dim("batch")
    length = torch.export.Dim("length", min=2, max=model.encoder.config.max_length)
    ids, lengths = torch.ones(EXAMPLE, dtype=torch.long), torch.full(EXAMPLE[:1], 2)
    shapes = ({0: batch, 1: length}, {0: batch}, {0: batch, 1: length})
    with _quietly(), torch.no_grad():
        # Exported here, since the exporter to ONNX fixes a size that it cannot keep open and goes on.
        example = (ids, lengths, torch.zeros_like(ids))
        exported = torch.export.export(_Answering(_exportable(model)).eval(), example, dynamic_shapes=shapes)
        program = torch.onnx.export(
            exported,
            input_names=list(INPUTS),
            output_names=[*map(output_name, model.tasks), EMBEDDING],
            opset_version=OPSET,
            custom_translation_table={torch.ops.polytask.recurrent.default: _onnx_recurrent},
            verbose=False,
        )
    assert program is not None
    CommonSubexpressionEliminationPass()(program.model)  # what each task's path repeats below its own layers
    _fold_transposes(program.model)
    RemoveUnusedNodesPass()(program.model)
    ClearMetadataAndDocStringPass()(program.model)  # among it the paths of this machine's source files
    return onnx_ir.to_proto(program.model)


@final
class _Answering(nn.Module):
    """All tasks' outputs for all rows, and the embeddings."""

    def __init__(self, model: MultitaskModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Tensor, lengths: Tensor, segments: Tensor) -> tuple[Tensor, ...]:
        tokens = Tokens(ids, lengths, segments)
        own = self.model.adapters_on and len(self.model.adapters) > 0
        groups = [[name] for name in self.model.tasks] if own else [list(self.model.tasks)]
        found: list[Tensor] = []
        for names in groups:
            everything = slice(0, ids.shape[0])
            found += self.model(Batch(tokens, dict.fromkeys(names, everything), {}, 0)).values()
        return *found, self.model.embed(Batch(tokens, {}, {}, 0))


@torch.library.custom_op("polytask::recurrent", mutates_args=())
def _recurrent(
    hidden: Tensor, inner: Tensor, between: Tensor, bias_in: Tensor, bias_between: Tensor
) -> Tensor:
    """The state of an RNN or LSTM after each token, [B, L, H], as one operation.

    The exporter would write torch's own down step by step, for the example's length only.
    """
    first = hidden.new_zeros(1, hidden.shape[0], between.shape[1])
    options = ([inner, between, bias_in, bias_between], True, 1, 0.0, False, False, True)
    if len(inner) == len(between[0]):
        return torch.rnn_tanh(hidden, first, *options)[0]
    return torch.lstm(hidden, [first, first], *options)[0]


@_recurrent.register_fake
def _recurrent_shape(
    hidden: Tensor, inner: Tensor, between: Tensor, bias_in: Tensor, bias_between: Tensor
) -> Tensor:
    return hidden.new_empty(hidden.shape[0], hidden.shape[1], between.shape[1])


def _onnx_recurrent(hidden: Any, inner: Any, between: Any, bias_in: Any, bias_between: Any) -> Any:
    from onnxscript import opset20 as op

    size = between.shape[1]
    weights = [inner, between, bias_in, bias_between]
    if gated := inner.shape[0] != size:
        # torch has the gates in the order input, forget, cell, output; ONNX input, output, forget, cell
        gates = [op.Split(weight, num_outputs=4, axis=0) for weight in weights]
        weights = [op.Concat(i, o, f, c, axis=0) for i, f, c, o in gates]
    inner, between, bias_in, bias_between = weights
    first_axis: Any = [0]
    arguments = (
        op.Transpose(hidden, perm=[1, 0, 2]),
        op.Unsqueeze(inner, first_axis),
        op.Unsqueeze(between, first_axis),
        op.Unsqueeze(op.Concat(bias_in, bias_between, axis=0), first_axis),
    )
    after_each = (op.LSTM if gated else op.RNN)(*arguments, hidden_size=size)[0]  # [L, 1, B, H]
    direction: Any = [1]
    return op.Transpose(op.Squeeze(after_each, direction), perm=[1, 0, 2])


@final
class _Recurrence(nn.Module):
    """The cells of a head as that one operation."""

    def __init__(self, cells: nn.RNN | nn.LSTM) -> None:
        super().__init__()
        self.weights = nn.ParameterList(cells.parameters())

    def forward(self, hidden: Tensor) -> tuple[Tensor, None]:
        return torch.ops.polytask.recurrent(hidden, *self.weights), None


def _exportable(model: MultitaskModel) -> MultitaskModel:
    """The model over the same weights, with what the exporter cannot write down replaced."""
    whole = take_tasks(model, list(model.tasks))
    for name, head in whole.heads.items():
        if isinstance(head, Head) and isinstance(head.reader, RecurrentReader):
            replaced = deepcopy(head)
            assert replaced.reader is not None
            replaced.reader.add_module("cells", _Recurrence(head.reader.cells))
            whole.heads[name] = replaced
    return whole


def _fold_transposes(model: Any) -> None:
    """Weights as the products want them: the exporter leaves large ones to be transposed at run time."""
    import onnx_ir

    graph = model.graph
    for node in list(graph):
        source = node.inputs[0] if node.op_type == "Transpose" else None
        if source is None or source.const_value is None or not source.is_initializer():
            continue
        order = list(node.attributes["perm"].as_ints())
        turned = source.const_value.numpy().transpose(order).copy()
        folded = onnx_ir.Value(
            name=f"{source.name}.transposed",
            shape=onnx_ir.Shape(turned.shape),
            type=onnx_ir.TensorType(source.const_value.dtype),
            const_value=onnx_ir.tensor(turned),
        )
        graph.register_initializer(folded)
        node.outputs[0].replace_all_uses_with(folded)
        graph.remove(node, safe=True)
    for name, value in list(graph.initializers.items()):
        if not value.uses() and not value.is_graph_output():
            del graph.initializers[name]


@contextmanager
def _quietly() -> Iterator[None]:
    """The exporter tells of its own future and of packages that no text model needs."""
    logger = logging.getLogger("torch.onnx")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(before)
