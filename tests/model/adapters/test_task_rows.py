"""Each task's layers work on its own rows, however many tasks share the batch."""

import pytest
import torch
from torch import Tensor, nn

from polytask.model.adapters.rows import GroupedLinear, TaskRows, by_task, grouped_norm, small_linear

TOLERANCE = 1e-5
SIZES = [(3,), (2, 2, 2), (1, 4, 2, 1)]
DEVICES = [
    "cpu",
    pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")),
]


def rows_of(sizes: tuple[int, ...]) -> TaskRows:
    return TaskRows(tuple(f"task{number}" for number in range(len(sizes))), sizes)


def draw(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(len(shape)))


def layers(sizes: tuple[int, ...]) -> list[nn.Linear]:
    made = [nn.Linear(4, 5) for _ in sizes]
    with torch.no_grad():
        for seed, layer in enumerate(made):
            for parameter in layer.parameters():
                parameter.copy_(draw(*parameter.shape) * (seed + 1))
    return made


def norms(sizes: tuple[int, ...]) -> list[nn.LayerNorm]:
    made = [nn.LayerNorm(4, eps=1e-3) for _ in sizes]
    with torch.no_grad():
        for seed, layer in enumerate(made):
            layer.weight.copy_(draw(4) + seed)
            layer.bias.copy_(draw(4) - seed)
    return made


def test_slices_follow_each_other_in_the_order_of_the_tasks() -> None:
    rows = TaskRows(("b", "a"), (2, 3))
    assert rows.slices() == {"b": slice(0, 2), "a": slice(2, 5)}


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("device", DEVICES)
def test_a_grouped_product_is_each_tasks_own_product(sizes: tuple[int, ...], device: str) -> None:
    """Called twice, as layers that are tied across the encoder are: gradients of both calls add up."""
    made = [layer.to(device) for layer in layers(sizes)]
    grouped = GroupedLinear(made, rows_of(sizes))
    inputs = [draw(sum(sizes), 3, 4).to(device) * scale for scale in (1, 2)]
    weight = draw(sum(sizes), 3, 5).to(device)
    found = [grouped(hidden) for hidden in inputs]
    sum((output * weight).sum() for output in found).backward()  # type: ignore[union-attr]
    gradients = [(layer.weight.grad, layer.bias.grad) for layer in made]

    for layer in made:
        layer.zero_grad()
    owner = [layer for layer, size in zip(made, sizes, strict=True) for _ in range(size)]
    for hidden, output in zip(inputs, found, strict=True):
        for row, layer in enumerate(owner):
            for token in range(3):
                wanted = layer.weight @ hidden[row, token] + layer.bias
                assert (output[row, token] - wanted).abs().max() <= TOLERANCE
                (wanted * weight[row, token]).sum().backward()  # type: ignore[no-untyped-call]
    for layer, (of_weight, of_bias) in zip(made, gradients, strict=True):
        torch.testing.assert_close(of_weight, layer.weight.grad, rtol=TOLERANCE, atol=TOLERANCE)
        torch.testing.assert_close(of_bias, layer.bias.grad, rtol=TOLERANCE, atol=TOLERANCE)


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("device", DEVICES)
def test_under_autocast_a_grouped_product_has_the_type_of_a_single_one(
    sizes: tuple[int, ...], device: str
) -> None:
    hidden, made = draw(sum(sizes), 3, 4).to(device), [layer.to(device) for layer in layers(sizes)]
    with torch.autocast(device, dtype=torch.bfloat16):
        assert GroupedLinear(made, rows_of(sizes))(hidden).dtype == made[0](hidden).dtype == torch.bfloat16


@pytest.mark.parametrize("sizes", SIZES)
def test_a_grouped_norm_is_each_tasks_own_norm(sizes: tuple[int, ...]) -> None:
    hidden, made = draw(sum(sizes), 3, 4), norms(sizes)
    found = grouped_norm(hidden, made, rows_of(sizes))
    owner = [number for number, size in enumerate(sizes) for _ in range(size)]
    for row, number in enumerate(owner):
        for token in range(3):
            assert (found[row, token] - made[number](hidden[row, token])).abs().max() <= TOLERANCE


@pytest.mark.parametrize("sizes", SIZES)
def test_by_task_gives_every_row_to_the_task_it_belongs_to(sizes: tuple[int, ...]) -> None:
    hidden = draw(sum(sizes), 3, 4)
    found = by_task(lambda number, part: part + 10 * number, hidden, rows_of(sizes))
    owner = torch.tensor([number for number, size in enumerate(sizes) for _ in range(size)])
    assert torch.equal(found, hidden + 10 * owner[:, None, None])


def test_a_small_linear_starts_from_its_generator_or_at_zero() -> None:
    generator = torch.Generator().manual_seed(1)
    assert small_linear(4, 3, generator).weight.abs().max() > 0
    before = generator.get_state()
    assert not any(bool(p.any()) for p in small_linear(4, 3, generator, zero=True).parameters())
    assert torch.equal(generator.get_state(), before)
