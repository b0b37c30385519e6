"""Exports: a model in another form, written only once it was found to answer as the model does."""

import json
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from polytask.data.tokens import TokenTable
from polytask.deploy.checks import FP32_DIFFERENCE, SENTENCES, TaskCheck, compare, problem
from polytask.deploy.export_card import export_card
from polytask.deploy.labelled import dev_tables, file_table, run_recipe
from polytask.deploy.model import Model, load
from polytask.deploy.onnx_scorer import GRAPH, RUNTIME
from polytask.errors import UserError, one_of
from polytask.files import sha256_of, write_bytes

FORMS = ("onnx", "huggingface")
LARGEST_GRAPH = 2_000_000_000  # bytes; one ONNX file can hold no more than 2 GiB


class ExportRefused(RuntimeError):
    """What would have been written does not answer as the model does."""


def export(
    path: str | Path,
    to: str,
    *,
    int8: bool = False,
    out: str | Path | None = None,
    data: str | Path | None = None,
    task: str | None = None,
    tolerance: float | None = None,
) -> dict[str, Any]:
    """Write a model as ONNX or for `transformers`, and return what its `export.json` says.

    The answers are compared on the dev rows of the model's run, on one task's labelled file `data`, or on
    built-in sentences where there is neither. `ExportRefused` where they differ by more than `tolerance`.
    """
    if to not in FORMS:
        raise UserError(f"--to {one_of(FORMS, to)}")
    if int8 and to != "onnx":
        raise UserError("--int8 belongs to --to onnx: what transformers loads is written in fp32.")
    path = Path(path)
    folder = _new_folder(path, to, int8, out)
    model = load(path, device="cpu", precision="fp32")
    tables, rows = _rows_to_check(model, path, task, data)
    _make_parent(folder)
    with TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as unfinished:
        written = Path(unfinished) / "model"
        if to == "onnx":
            checks, told = _write_onnx(model, written, tables, int8)
        else:
            checks, told = _write_huggingface(model, written, tables)
        _refuse(model, checks, int8, tolerance)
        size = sum(file.stat().st_size for file in written.rglob("*") if file.is_file())
        document = {
            "to": to,
            "int8": int8,
            "folder": str(folder),
            "bytes": size,
            **told,
            "checked_on": rows,
            "tasks": {name: check.to_dict() for name, check in checks.items()},
        }
        stored = {key: value for key, value in document.items() if key != "folder"}
        write_bytes(written / "export.json", (json.dumps(stored, indent=2) + "\n").encode())
        source = path / "model" if (path / "model" / "config.json").exists() else path
        write_bytes(written / "README.md", export_card(source, document).encode())
        written.rename(folder)
    return document


def _new_folder(path: Path, to: str, int8: bool, out: str | Path | None) -> Path:
    """Where to write; what is there already is never overwritten."""
    name = f"{to}-int8" if int8 else to
    if out is not None:
        folder = Path(out)
    elif (path / "recipe.toml").exists() or path.name == "model":
        folder = (path if path.name != "model" else path.parent) / name
    else:
        folder = path.parent / f"{path.name}-{name}"
    if folder.exists():
        raise UserError(f"--out {folder}: is there already; name another folder.")
    return folder


def _make_parent(folder: Path) -> None:
    """Once nothing is wrong with what was asked, and before the long work."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"--out {folder}: cannot be made ({error.strerror}).") from None


def _rows_to_check(
    model: Model, path: Path, task: str | None, data: str | Path | None
) -> tuple[dict[str, TokenTable], str]:
    """Labelled rows by task, and what they are in words."""
    if data is not None:
        return file_table(model, str(data), task), str(data)
    if task is not None:
        raise UserError("--task names the task of --data, which is missing.")
    recipe = run_recipe(path)
    if recipe is None:
        return {}, "built-in sentences: this is no run, and --data named no rows"
    try:
        tables = dev_tables(model, recipe)
    except UserError as error:
        return {}, f"built-in sentences: the run's dev rows cannot be read ({str(error).splitlines()[0]})"
    return tables, "the run's dev rows" if tables else "built-in sentences: the run has no dev rows"


def _write_onnx(
    model: Model, folder: Path, tables: Mapping[str, TokenTable], int8: bool
) -> tuple[dict[str, TaskCheck], dict[str, Any]]:
    try:
        import onnx
        import onnxruntime  # noqa: F401 (asked for before the work)
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise UserError(f"--to onnx needs {error.name}: pip install polytask[onnx]") from None
    from polytask.deploy.onnx_graph import build_graph
    from polytask.deploy.onnx_paths import split_paths
    from polytask.deploy.quantize import quantize

    size = sum(tensor.numel() * 4 for tensor in model.network.state_dict().values())
    if size > LARGEST_GRAPH:
        raise UserError(f"--to onnx: the model has {size:,} bytes of weights, and one ONNX file holds 2 GB.")
    graph = build_graph(model.network)
    told: dict[str, Any] = {}
    if int8:
        told["bytes_fp32"] = graph.ByteSize()
        graph = quantize(graph)
    if model.network.adapters_on and len(model.network.adapters):
        graph = split_paths(graph)
    folder.mkdir()
    onnx.save(graph, folder / GRAPH)
    told["bytes_graph"] = (folder / GRAPH).stat().st_size
    config = {
        **model.config,
        "runtime": RUNTIME,
        "int8": int8,
        "longest": model.network.encoder.config.max_length,
        "tasks": {name: task.to_dict() for name, task in model.tasks.items()},
        "sha256": sha256_of(folder / GRAPH),
    }
    write_bytes(folder / "config.json", (json.dumps(config, indent=2) + "\n").encode())
    model.tokenizer.save(folder)
    return compare(model, load(folder, device="cpu"), tables), told


def _write_huggingface(
    model: Model, folder: Path, tables: Mapping[str, TokenTable]
) -> tuple[dict[str, TaskCheck], dict[str, Any]]:
    from polytask.deploy import huggingface
    from polytask.evaluate.network import NetworkScorer
    from polytask.model.compute import choose_compute

    compute = choose_compute("cpu", "fp32")
    network, longest = model.network, int(model.config["max_length"])

    def read_back(written: Any) -> Model:
        return Model(NetworkScorer(written, compute), model.tokenizer, model.config)

    huggingface.save_shared_encoder(network, model.tokenizer, longest, folder / "encoder")
    encoder = read_back(huggingface.read_encoder(folder / "encoder"))
    difference = float(np.abs(encoder.embed(SENTENCES) - model.embed(SENTENCES)).max())
    if difference > FP32_DIFFERENCE:
        raise ExportRefused(f"nothing was written: the encoder's embeddings differ by {difference:.2g}.")
    adapter = network.adapter if network.adapters_on else None
    left_out: dict[str, str] = {}
    checks: dict[str, TaskCheck] = {}
    for name, task in model.tasks.items():
        if (reason := huggingface.why_not(task, network.encoder, adapter)) is not None:
            left_out[name] = reason
            continue
        place = folder / "classifiers" / name
        huggingface.save_classifier(network, task, model.tokenizer, longest, place)
        checks |= compare(model, read_back(huggingface.read_classifier(place, task)), tables, (name,))
    return checks, {"encoder_difference": difference, "left_out": left_out}


def _refuse(model: Model, checks: Mapping[str, TaskCheck], int8: bool, tolerance: float | None) -> None:
    found = [
        told
        for name, check in checks.items()
        if (told := problem(check, model.tasks[name], int8=int8, tolerance=tolerance)) is not None
    ]
    if found:
        raise ExportRefused(f"nothing was written: {'; '.join(found)} (--tolerance allows more).")
