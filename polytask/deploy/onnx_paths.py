"""Paths through an ONNX graph that run only when their output is asked for.

ONNX Runtime computes every node of a graph, also those that no asked output needs. Where tasks have layers of
their own inside the encoder, one task's answer would cost the paths of all.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any


def ask_name(output: str) -> str:
    """The boolean input that says whether an output is wanted."""
    return f"ask.{output}"


def split_paths(graph: Any) -> Any:
    """The model with what only one output needs inside an `If` on a new input; unasked, it has no rows."""
    from onnx import TensorProto, helper

    body = graph.graph
    outputs = [item.name for item in body.output]
    shared, own = _nodes_of(body.node, outputs)
    tables = {item.name: item for item in body.initializer}
    used_inside = {name: _names(node.input for node in nodes) for name, nodes in own.items()}
    used_outside = _names(node.input for node in shared)
    counts = Counter(name for names in [used_outside, *used_inside.values()] for name in names)
    for item in list(body.output):
        name = item.name
        weights = [tables[each] for each in sorted(used_inside[name]) if each in tables and counts[each] == 1]
        for weight in weights:
            body.initializer.remove(weight)
        columns = item.type.tensor_type.shape.dim[1].dim_value
        nothing = helper.make_tensor("nothing", TensorProto.FLOAT, (0, columns), [])
        unasked = helper.make_node("Constant", [], [f"{name}.unasked"], value=nothing)
        for node in own[name]:
            node.output[:] = [f"{name}.asked" if each == name else each for each in node.output]
        branches = {
            "then_branch": helper.make_graph(
                own[name], f"{name}.then", [], [_unsized(f"{name}.asked")], weights
            ),
            "else_branch": helper.make_graph([unasked], f"{name}.else", [], [_unsized(f"{name}.unasked")]),
        }
        shared.append(helper.make_node("If", [ask_name(name)], [name], **branches))
        body.input.append(helper.make_tensor_value_info(ask_name(name), TensorProto.BOOL, []))
    del body.node[:]
    body.node.extend(shared)
    del body.value_info[:]  # most belong inside now
    return graph


def _nodes_of(nodes: Sequence[Any], outputs: Sequence[str]) -> tuple[list[Any], dict[str, list[Any]]]:
    """The nodes that several outputs need, and those that only one does; both in the order they run in."""
    maker = {name: number for number, node in enumerate(nodes) for name in node.output}
    needed: dict[int, set[str]] = {}
    for output in outputs:
        waiting = [maker[output]]
        while waiting:
            number = waiting.pop()
            if output in needed.setdefault(number, set()):
                continue
            needed[number].add(output)
            waiting += [maker[name] for name in nodes[number].input if name in maker]
    own: dict[str, list[Any]] = {output: [] for output in outputs}
    shared = []
    for number, node in enumerate(nodes):
        wanting = needed.get(number, set())
        if len(wanting) == 1:
            own[next(iter(wanting))].append(node)
        elif wanting:
            shared.append(node)
    return shared, own


def _unsized(name: str) -> Any:
    from onnx import TensorProto, helper

    return helper.make_tensor_value_info(name, TensorProto.FLOAT, None)


def _names(groups: Iterable[Iterable[str]]) -> set[str]:
    return {name for group in groups for name in group}
