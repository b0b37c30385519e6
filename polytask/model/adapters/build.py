"""From a recipe's word to task-specific layers of the right sizes, and from those to the slots of a batch."""

from collections.abc import Sequence
from typing import Literal, TypeVar

import torch
from torch import nn

from polytask.choices import AdapterRecipe
from polytask.errors import RecipeError
from polytask.model.adapters.houlsby import HoulsbyAdapter, HoulsbyPlan
from polytask.model.adapters.lora import LoraAdapter, LoraPlan
from polytask.model.adapters.on_top import TopAdapter, TopPlan
from polytask.model.adapters.parallel import Flavour, ParallelAdapter, ParallelPlan
from polytask.model.adapters.rows import TaskRows
from polytask.model.dropout import Dropout
from polytask.model.encoder import EncoderConfig
from polytask.model.slots import NO_SLOTS, LayerSlots, Slots

PAPER_WIDTH = 768  # the sizes below belong to an encoder this wide, and are scaled to others
PAL_HEADS = 6
TOP_HEADS = 12
TOP_DEPTH = {"top_attention": 6, "top_ffn": 1}
TOP_FFN_SIZE = {1: 408, 2: 252}
BOTTLENECK = 50
PAPER_SIZE = {
    "pal": 204,
    "pal_unshared": 84,
    "pal_top": 276,
    "pal_bottom": 276,
    "low_rank": 100,
    "ffn": 204,
    "houlsby": BOTTLENECK,
    "houlsby_pal": 156,
    "top_attention": 204,
}
LORA_RANK = 8
LORA_LINEARS = ("query", "value")

TaskAdapter = ParallelAdapter | HoulsbyAdapter | LoraAdapter | TopAdapter
Plan = ParallelPlan | HoulsbyPlan | LoraPlan | TopPlan
Kind = TypeVar("Kind", bound=nn.Module)
Inner = Literal["attention", "identity", "feed_forward"]
INNER: dict[str, Inner] = {"low_rank": "identity", "ffn": "feed_forward"}


def plan_adapter(chosen: AdapterRecipe, config: EncoderConfig) -> Plan:
    """Fill in what the recipe left open, with the paper's sizes scaled to the encoder's width."""
    kind, flavour = chosen.kind, chosen.flavour or "zero"
    if kind == "lora":
        rank = chosen.rank or LORA_RANK
        linears = tuple(chosen.linears or LORA_LINEARS)
        alpha = chosen.alpha or 2.0 * rank
        return LoraPlan(
            config.width, config.ffn_width, config.up_width, rank, alpha, linears, _layers(chosen, config)
        )
    if kind.startswith("top_"):
        return _plan_top(chosen, config, flavour)
    heads = chosen.heads or (PAL_HEADS if "pal" in kind else 1)
    size = chosen.size or _scaled(PAPER_SIZE[kind], heads, config)
    if kind == "houlsby":
        return HoulsbyPlan(config.width, size, _layers(chosen, config), flavour)
    _check_heads(size, heads)
    tied = kind not in ("pal_unshared", "low_rank")
    inner = INNER.get(kind, "attention")
    layers = _layers(chosen, config)
    parallel = ParallelPlan(config.width, size, heads, inner, tied, layers, flavour)
    if kind == "houlsby_pal":
        bottleneck = chosen.bottleneck or _scaled(BOTTLENECK, 1, config)
        return HoulsbyPlan(config.width, bottleneck, layers, flavour, parallel)
    return parallel


def build_adapter(plan: Plan, config: EncoderConfig, generator: torch.Generator) -> TaskAdapter:
    """The task-specific layers of one task."""
    match plan:
        case ParallelPlan():
            return ParallelAdapter(plan, generator)
        case HoulsbyPlan():
            return HoulsbyAdapter(plan, generator)
        case LoraPlan():
            return LoraAdapter(plan, generator)
        case TopPlan():
            return TopAdapter(plan, config, generator)


def bind(
    adapters: Sequence[nn.Module],
    rows: TaskRows,
    indexes: torch.Tensor | None,
    num_layers: int,
    dropout: Dropout | None,
) -> Slots:
    """The encoder's slots for one batch; `adapters` are those of its tasks, in the order of `rows`."""
    layers: list[LayerSlots] = [NO_SLOTS] * num_layers
    on_top = None
    match adapters[0]:
        case TopAdapter():
            on_top = TopAdapter.on_top(_all_of(TopAdapter, adapters), rows, dropout)
        case ParallelAdapter():
            layers = ParallelAdapter.slots(_all_of(ParallelAdapter, adapters), num_layers, rows, dropout)
        case HoulsbyAdapter():
            layers = HoulsbyAdapter.slots(_all_of(HoulsbyAdapter, adapters), num_layers, rows, dropout)
        case LoraAdapter():
            layers = LoraAdapter.slots(_all_of(LoraAdapter, adapters), num_layers, rows)
    return Slots(layers, on_top, first_layer(adapters[0], num_layers), indexes)


def first_layer(adapter: nn.Module, num_layers: int) -> int:
    """The lowest encoder layer that an adapter changes; the number of layers if it is on top."""
    plan = adapter.plan
    return min(plan.layers) if isinstance(plan, (ParallelPlan, HoulsbyPlan, LoraPlan)) else num_layers


def _all_of(kind: type[Kind], adapters: Sequence[nn.Module]) -> list[Kind]:
    """The adapters of a batch's tasks, which are of one kind."""
    assert all(isinstance(adapter, kind) for adapter in adapters)
    return [adapter for adapter in adapters if isinstance(adapter, kind)]


def _plan_top(chosen: AdapterRecipe, config: EncoderConfig, flavour: Flavour) -> TopPlan:
    match chosen.kind:
        case "top_layer":
            return TopPlan("layer", config.width, config.num_heads, 1, flavour)
        case "top_ffn":
            depth = chosen.depth or TOP_DEPTH["top_ffn"]
            size = chosen.size or _scaled(TOP_FFN_SIZE.get(depth, TOP_FFN_SIZE[2]), 1, config)
            return TopPlan("feed_forward", size, 1, depth, flavour)
        case _:
            heads = chosen.heads or TOP_HEADS
            size = chosen.size or _scaled(PAPER_SIZE["top_attention"], heads, config)
            _check_heads(size, heads)
            return TopPlan("attention", size, heads, chosen.depth or TOP_DEPTH["top_attention"], flavour)


def _scaled(size: int, heads: int, config: EncoderConfig) -> int:
    """A size at the paper's width, at this width and divisible by the heads."""
    return heads * max(1, round(size * config.width / PAPER_WIDTH / heads))


def _check_heads(size: int, heads: int) -> None:
    if size % heads:
        raise RecipeError(f"adapter.size should be a multiple of adapter.heads, {heads}. Found {size}.")


def _layers(chosen: AdapterRecipe, config: EncoderConfig) -> tuple[int, ...]:
    """The numbers of the adapted layers, from 0 at the bottom."""
    count = config.num_layers
    half = {"pal_top": f"top-{(count + 1) // 2}", "pal_bottom": f"bottom-{(count + 1) // 2}"}
    word = chosen.layers or half.get(chosen.kind, "all")
    if word == "all":
        return tuple(range(count))
    if word.startswith(("top-", "bottom-")):
        side, number = word.split("-")
        kept = int(number)
        if kept > count:
            raise RecipeError(
                f"adapter.layers should name at most the {count} layers there are. Found {word!r}."
            )
        return tuple(range(count - kept, count)) if side == "top" else tuple(range(kept))
    numbers = tuple(sorted({int(part) for part in word.split(",")}))
    if numbers[-1] >= count:
        raise RecipeError(f"adapter.layers should be numbers from 0 to {count - 1}. Found {numbers[-1]}.")
    return numbers
