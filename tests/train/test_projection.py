"""GEM and A-GEM give the gradients that their definitions ask for."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from scipy.optimize import minimize

from polytask.train.projection import gem_weights, hold_to_memory
from polytask.update_choices import MemoryRecipe

Vector = npt.NDArray[np.float64]
solve: Any = minimize  # its stubs know fewer problems than it does


def problem(seed: int, num_tasks: int, size: int = 12) -> tuple[Vector, Vector]:
    """Memory gradients [K, P] and a current one [P] that the first of them disagrees with."""
    random = np.random.default_rng(seed)
    memory = random.normal(size=(num_tasks, size)) * np.exp(random.normal(size=(num_tasks, 1)))
    current = random.normal(size=size)
    return memory, current - (memory[0] @ current + 1) / (memory[0] @ memory[0]) * memory[0]


def projected(memory: Vector, current: Vector, margin: float = 0.0, ridge: float = 0.0) -> Vector:
    weights = gem_weights(memory @ memory.T, memory @ current, float(current @ current), margin, ridge)
    return current + weights @ memory


def solved(memory: Vector, current: Vector, margin: float, ridge: float = 0.0) -> Vector:
    """The same by a general solver on the dual as the paper writes it."""
    gram = memory @ memory.T + ridge * np.eye(len(memory))
    found = solve(
        lambda v: 0.5 * v @ gram @ v + (memory @ current) @ v,
        x0=np.full(len(memory), margin + 0.1),
        jac=lambda v: gram @ v + memory @ current,
        bounds=[(margin, None)] * len(memory),
        method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 2000},
    )
    return current + np.asarray(found.x) @ memory


@pytest.mark.parametrize("margin", [0.0, 0.5])
@pytest.mark.parametrize("ridge", [0.0, 1e-3])
@pytest.mark.parametrize(("seed", "num_tasks"), [(1, 1), (2, 2), (3, 3), (4, 5), (5, 8), (6, 8)])
def test_gem_equals_a_general_solver(seed: int, num_tasks: int, margin: float, ridge: float) -> None:
    memory, current = problem(seed, num_tasks)
    found = projected(memory, current, margin, ridge)
    assert np.abs(found - solved(memory, current, margin, ridge)).max() <= 1e-6


def test_gem_without_a_margin_is_the_nearest_gradient_that_no_memory_disagrees_with() -> None:
    memory, current = problem(7, 4)
    found = projected(memory, current)
    primal = solve(
        lambda z: 0.5 * ((z - current) ** 2).sum(),
        x0=current,
        jac=lambda z: z - current,
        constraints={"type": "ineq", "fun": lambda z: memory @ z, "jac": lambda z: memory},
        method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 2000},
    )
    assert np.abs(found - primal.x).max() <= 1e-6


@pytest.mark.parametrize("seed", range(200))
def test_gem_satisfies_every_constraint(seed: int) -> None:
    memory, current = problem(seed, 1 + seed % 9)
    for margin in (0.0, 0.5):
        found = projected(memory, current, margin)
        assert (memory @ found >= -1e-9 * np.linalg.norm(memory, axis=1) * np.linalg.norm(current)).all()


def test_gem_takes_memories_that_say_the_same() -> None:
    memory, current = problem(8, 3)
    twice = np.vstack([memory, memory[:2], np.zeros((1, memory.shape[1]))])
    assert np.abs(projected(twice, current) - projected(memory, current)).max() <= 1e-9


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_gem_does_not_depend_on_the_scale_of_gradients(scale: float) -> None:
    memory, current = problem(9, 5)
    found = projected(memory * scale, current * scale, 0.5)
    assert np.abs(found / scale - projected(memory, current, 0.5)).max() <= 1e-9


def test_gem_leaves_a_gradient_that_no_memory_disagrees_with() -> None:
    memory, current = problem(10, 4)
    agreeing = memory * np.sign(memory @ current)[:, None]
    assert (projected(agreeing, current, 0.5) == current).all()


def weighed(kind: str, memory: Vector, current: Vector, **options: float) -> Vector:
    """The combined gradient of two tasks at hand, which add up to `current`, and the memory."""
    first = np.random.default_rng(1).normal(size=len(current))
    rows = np.vstack([first, memory, current - first])
    tasks = [0, *range(2, 2 + len(memory)), 1]
    weigh = hold_to_memory(MemoryRecipe.model_validate({"kind": kind, **options}), 2)
    (weights,) = weigh(torch.from_numpy(rows @ rows.T)[None], tasks)
    return weights.numpy() @ rows


def test_agem_equals_its_formula() -> None:
    memory, current = problem(11, 1)
    (r,) = memory
    assert np.abs(weighed("agem", memory, current) - (current - (current @ r) / (r @ r) * r)).max() <= 1e-12
    assert np.abs(weighed("agem", -memory, current) - current).max() <= 1e-12


def test_tasks_at_hand_are_added_up_wherever_their_rows_stand() -> None:
    memory, current = problem(12, 3)
    assert np.abs(weighed("gem", memory, current, margin=0.5) - projected(memory, current, 0.5)).max() <= 1e-9
    assert np.abs(weighed("gem", memory, current, margin=0) - projected(memory, current)).max() <= 1e-9


def test_each_group_of_tensors_is_weighed_by_itself() -> None:
    weigh = hold_to_memory(MemoryRecipe(kind="gem", margin=0.0), 1)
    against = torch.tensor([[1.0, -0.5], [-0.5, 1.0]])
    weights = weigh(torch.stack([against, against.abs(), torch.zeros(2, 2)]), [0, 1])
    assert torch.allclose(weights, torch.tensor([[1.0, 0.5], [1, 0], [1, 0]], dtype=torch.float64))


def test_gradients_that_are_no_numbers_are_left_to_the_loop() -> None:
    weigh = hold_to_memory(MemoryRecipe(kind="gem"), 1)
    assert weigh(torch.full((1, 2, 2), torch.nan), [0, 1]).tolist() == [[1, 0]]
