"""An ONNX graph in int8: every weight a quarter of its size, activations quantised as they come."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt

LARGEST = 127  # the largest int8 step; -128 is left out, so that a weight and its negative are alike
SMALLEST_TABLE = 64 * 1024  # values; smaller tables are not worth two more nodes


def quantize(graph: Any) -> Any:
    """The graph with int8 weights: of products a scale per output channel, of tables a scale per row.

    A table's scale per row is what keeps rare words apart: with one scale for the whole table the longest
    vectors decide the step of all.
    """
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    _quantize_tables(graph)
    _forget_shapes_of_weights(graph)
    with TemporaryDirectory() as folder, _quietly():
        before, after = Path(folder) / "fp32.onnx", Path(folder) / "int8.onnx"
        onnx.save(graph, before)
        quantize_dynamic(
            before,
            after,
            op_types_to_quantize=["MatMul", "Gemm"],
            per_channel=True,
            weight_type=QuantType.QInt8,
            extra_options={"MatMulConstBOnly": True},
        )
        return onnx.load(after)


def _quantize_tables(graph: Any) -> None:
    """Look tables up in int8, and scale what was found: Gather(table) becomes Cast(Gather(q)) * Gather(s)."""
    from onnx import TensorProto, helper, numpy_helper

    tables = {item.name: item for item in graph.graph.initializer}
    nodes = []
    done: set[str] = set()
    for node in graph.graph.node:
        table = tables.get(node.input[0]) if node.op_type == "Gather" else None
        if table is None or table.data_type != TensorProto.FLOAT or len(table.dims) != 2:
            nodes.append(node)
            continue
        values = numpy_helper.to_array(table)
        if values.size < SMALLEST_TABLE:
            nodes.append(node)
            continue
        name, found = table.name, node.output[0]
        if name not in done:
            done.add(name)
            steps, scales = _rows_in_int8(values)
            graph.graph.initializer.append(numpy_helper.from_array(steps, f"{name}.int8"))
            graph.graph.initializer.append(numpy_helper.from_array(scales, f"{name}.scale"))
        nodes += [
            helper.make_node("Gather", [f"{name}.int8", node.input[1]], [f"{found}.int8"]),
            helper.make_node("Cast", [f"{found}.int8"], [f"{found}.steps"], to=TensorProto.FLOAT),
            helper.make_node("Gather", [f"{name}.scale", node.input[1]], [f"{found}.scale"]),
            helper.make_node("Mul", [f"{found}.steps", f"{found}.scale"], [found]),
        ]
    del graph.graph.node[:]
    graph.graph.node.extend(nodes)
    used = {name for node in nodes for name in node.input}
    for name in done - used:
        graph.graph.initializer.remove(tables[name])


def _forget_shapes_of_weights(graph: Any) -> None:
    """The quantiser turns some weights round, after which a shape noted beside them would be wrong."""
    weights = {item.name for item in graph.graph.initializer}
    kept = [item for item in graph.graph.value_info if item.name not in weights]
    del graph.graph.value_info[:]
    graph.graph.value_info.extend(kept)


def _rows_in_int8(values: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.float32]]:
    """Steps [V, D] and each row's size of one, [V, 1]."""
    scales = np.abs(values).max(axis=1, keepdims=True) / LARGEST
    scales[scales == 0] = 1
    return np.rint(values / scales).astype(np.int8), scales.astype(np.float32)


@contextmanager
def _quietly() -> Iterator[None]:
    """The quantiser advises a preparation that has nothing to do here, on the root logger."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)
