"""What each combiner promises, against direct solutions and torchjd, over all kinds of gradients."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from drawn_gradients import Floats, gradients, gram_of
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from torchjd.aggregation import AlignedMTL, DualProjWeighting, IMTLGWeighting, MGDAWeighting, UPGradWeighting
from torchjd.linalg import DualConeProjector

from polytask.train.combiners.build import Combiner
from polytask.train.combiners.cone import least_weights
from polytask.update_choices import COMBINE_OPTIONS, CombineRecipe

WITHOUT_CHANCE = sorted(set(COMBINE_OPTIONS) - {"random", "pcgrad", "vaccine"})
SUMS_WITHOUT_CONFLICT = ["sum", "pcgrad", "vaccine", "upgrad", "dualproj"]
ORTHOGONAL = sorted(set(COMBINE_OPTIONS) - {"mean", "random"})


def combine(kind: str, rows: Floats, seed: int = 1, **options: Any) -> Floats:
    """The combined gradient."""
    return weigh(kind, gram_of(rows), seed, **options) @ rows


def weigh(kind: str, gram: Floats, seed: int = 1, **options: Any) -> Floats:
    combiner = Combiner(CombineRecipe(kind=kind, **options), 1, len(gram))
    tasks: Sequence[int] = range(len(gram))
    weights = combiner.weigh(torch.from_numpy(gram)[None], tasks, np.random.default_rng(seed))
    assert weights.dtype == torch.float64
    return np.asarray(weights[0].numpy())


def unit_rows(rows: Floats) -> Floats:
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def condition(rows: Floats) -> float:
    return float(np.linalg.cond(rows)) if len(rows) <= rows.shape[1] else float("inf")


@pytest.mark.parametrize("kind", COMBINE_OPTIONS)
@given(rows=gradients())
@settings(deadline=None, max_examples=60)
def test_weights_are_finite_whatever_the_gradients(kind: str, rows: Floats) -> None:
    assert np.isfinite(weigh(kind, gram_of(rows))).all()


@pytest.mark.parametrize("kind", COMBINE_OPTIONS)
@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_one_task_alone_is_left_as_it_is(kind: str, scale: float) -> None:
    assert weigh(kind, np.array([[scale**2]])) == pytest.approx([1.0], rel=1e-6)


@pytest.mark.parametrize("kind", ORTHOGONAL)
@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_equal_orthogonal_gradients_are_summed(kind: str, scale: float) -> None:
    assert weigh(kind, scale**2 * np.eye(4)) == pytest.approx(np.ones(4), rel=1e-6)


@pytest.mark.parametrize("kind", SUMS_WITHOUT_CONFLICT)
@given(rows=gradients(zeros=False))
@settings(deadline=None, max_examples=50)
def test_gradients_without_conflict_are_summed(kind: str, rows: Floats) -> None:
    rows = np.abs(rows)
    assert np.allclose(combine(kind, rows), rows.sum(axis=0), rtol=1e-9)


@pytest.mark.parametrize("kind", WITHOUT_CHANCE)
@given(rows=gradients(scales=False), seed=st.integers(0, 100))
@settings(deadline=None, max_examples=40)
def test_the_order_of_the_tasks_changes_nothing(kind: str, rows: Floats, seed: int) -> None:
    order = np.random.default_rng(seed).permutation(len(rows))
    assert combine(kind, rows[order]) == pytest.approx(combine(kind, rows), abs=2e-3 * np.abs(rows).sum())


@pytest.mark.parametrize("kind", COMBINE_OPTIONS)
@given(rows=gradients(scales=False), power=st.integers(-12, 12))
@settings(deadline=None, max_examples=40)
def test_a_common_scale_scales_the_result(kind: str, rows: Floats, power: int) -> None:
    scaled = combine(kind, 2.0**power * rows)
    assert scaled / 2.0**power == pytest.approx(combine(kind, rows), abs=1e-6 * np.abs(rows).sum())


@pytest.mark.parametrize("kind", sorted(set(WITHOUT_CHANCE) - {"mean"}))
@given(rows=gradients(most=5, zeros=False))
@settings(deadline=None, max_examples=40)
def test_a_zero_gradient_has_no_say(kind: str, rows: Floats) -> None:
    with_zero = np.vstack([rows, np.zeros_like(rows[:1])])
    assert combine(kind, with_zero) == pytest.approx(combine(kind, rows), abs=1e-9 * np.abs(rows).sum())


@given(rows=gradients(zeros=False))
@settings(deadline=None)
def test_upgrad_and_dualproj_conflict_with_no_task(rows: Floats) -> None:
    for kind in ("upgrad", "dualproj"):
        found = combine(kind, rows)
        assert (unit_rows(rows) @ found >= -1e-7 * np.abs(rows).sum()).all()


class Nnls(DualConeProjector):
    """torchjd's own projector needs a GPL solver."""

    def __call__(self, wanted: torch.Tensor, gram: torch.Tensor) -> torch.Tensor:
        root = np.linalg.cholesky(gram.numpy()).T
        found = [least_weights(root, one) for one in np.atleast_2d(wanted.numpy())]
        return torch.from_numpy(np.stack(found)).view_as(wanted)


@given(rows=gradients(most=6, zeros=False, scales=False))
@settings(deadline=None)
def test_upgrad_dualproj_and_imtl_are_torchjds_times_the_number_of_tasks(rows: Floats) -> None:
    assume(condition(rows) < 50)
    gram = torch.from_numpy(gram_of(rows))
    expected = {"upgrad": UPGradWeighting(projector=Nnls()), "dualproj": DualProjWeighting(projector=Nnls())}
    for kind, weighting in expected.items():
        wanted = len(rows) * weighting(gram).numpy() @ rows
        assert combine(kind, rows) == pytest.approx(wanted, rel=1e-8, abs=1e-8)
    weights = IMTLGWeighting()(gram).numpy()
    forwards = np.sign(
        (unit_rows(rows) @ (weights @ rows)).mean()
    )  # torchjd's can point away from every task
    wanted = forwards * len(rows) * weights / np.abs(weights).sum()
    assert weigh("imtl", gram_of(rows)) == pytest.approx(wanted, rel=1e-8, abs=1e-8)


@given(rows=gradients(most=6, zeros=False, scales=False))
@settings(deadline=None)
def test_aligned_is_torchjds_times_the_number_of_tasks(rows: Floats) -> None:
    assume(condition(rows) < 50)
    wanted = len(rows) * AlignedMTL()(torch.from_numpy(rows)).numpy()
    assert combine("aligned", rows) == pytest.approx(wanted, rel=1e-3, abs=1e-3)


@given(rows=gradients(zeros=False, scales=False))
@settings(deadline=None)
def test_mgda_is_the_shortest_convex_combination(rows: Floats) -> None:
    weights = weigh("mgda", gram_of(rows)) / len(rows)
    assert weights.sum() == pytest.approx(1)
    assert weights.min() >= 0
    found = weights @ rows
    assert (rows @ found >= found @ found - 1e-9 * np.abs(rows).max() ** 2).all()  # optimal if and only if
    slow = MGDAWeighting(epsilon=1e-9, max_iters=300)(torch.from_numpy(gram_of(rows))).numpy() @ rows
    assert np.linalg.norm(found) <= np.linalg.norm(slow) + 1e-9


@given(rows=gradients(most=6, zeros=False, scales=False), c=st.sampled_from([0.1, 0.5, 0.9]))
@settings(deadline=None)
def test_cagrad_is_the_direct_solution_of_its_problem(rows: Floats, c: float) -> None:
    assume(condition(rows) < 100)
    gram, num_tasks = gram_of(rows), len(rows)
    mean = rows.mean(axis=0)
    reach = c * np.linalg.norm(mean)

    def objective(w: Floats) -> float:
        return float(w @ rows @ mean + reach * np.linalg.norm(w @ rows))

    even = np.full(num_tasks, 1 / num_tasks)
    simplex: Any = {
        "bounds": [(0, 1)] * num_tasks,
        "constraints": {"type": "eq", "fun": lambda w: w.sum() - 1},
    }
    solved = minimize(objective, even, method="SLSQP", options={"ftol": 1e-14, "maxiter": 500}, **simplex)
    found = weigh("cagrad", gram, c=c) * (1 + c) / num_tasks - even
    assert found.min() >= -1e-9
    assert objective(found / found.sum()) <= solved.fun + 1e-7 * (1 + np.abs(gram).max())
    assert np.linalg.norm(found @ rows) == pytest.approx(reach)


def test_cagrad_at_0_is_the_sum() -> None:
    rows = np.array([[1.0, 0.0], [-0.6, 0.8]])
    assert combine("cagrad", rows, c=0.0) == pytest.approx(rows.sum(axis=0))


@given(rows=gradients(zeros=False))
@settings(deadline=None)
def test_imtl_has_the_same_projection_on_every_task(rows: Floats) -> None:
    assume(condition(unit_rows(rows)) < 50)
    shares = unit_rows(rows) @ combine("imtl", rows)
    assert (shares > 0).all()
    assert shares == pytest.approx(np.full(len(rows), shares.mean()))


@given(rows=gradients(zeros=False))
@settings(deadline=None)
def test_nash_strikes_the_bargain_and_is_as_long_as_orthogonal_gradients_summed(rows: Floats) -> None:
    assume(condition(unit_rows(rows)) < 50)
    norms = np.linalg.norm(rows, axis=1)
    weights = weigh("nash", gram_of(rows))
    bargain = weights * norms / np.sqrt((norms**2).mean())
    assert (bargain > 0).all()
    assert gram_of(unit_rows(rows)) @ bargain == pytest.approx(1 / bargain, rel=1e-2)
    assert np.linalg.norm(weights @ rows) == pytest.approx(np.linalg.norm(norms), rel=1e-2)


@pytest.mark.parametrize("kind", sorted(set(COMBINE_OPTIONS) - {"sum", "mean", "vaccine", "random"}))
def test_exactly_opposed_tasks_cancel_out(kind: str) -> None:
    rows = np.array([[3.0, 4.0], [-3.0, -4.0]])
    assert combine(kind, rows) == pytest.approx([0, 0], abs=1e-9)


def test_random_weights_are_positive_and_add_up_to_the_number_of_tasks_and_follow_the_seed() -> None:
    drawn = [weigh("random", np.eye(5), seed) for seed in (1, 2, 1)]
    assert all((weights > 0).all() and weights.sum() == pytest.approx(5) for weights in drawn)
    assert drawn[0].tolist() == drawn[2].tolist() != drawn[1].tolist()


def test_no_combiner_touches_the_global_random_numbers() -> None:
    before, state = torch.get_rng_state(), np.random.get_state(legacy=True)
    for kind in COMBINE_OPTIONS:
        weigh(kind, np.eye(3) + 0.1)
    assert torch.equal(before, torch.get_rng_state())
    assert str(state) == str(np.random.get_state(legacy=True))
