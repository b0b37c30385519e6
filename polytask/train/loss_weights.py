"""What each task's loss is multiplied by: fixed, learned, or set from the losses so far."""

import math
from collections.abc import Mapping, Sequence
from typing import final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from polytask.errors import RecipeError
from polytask.tasks import Task
from polytask.train.parallel import World
from polytask.update_choices import LossWeightsRecipe

UNCERTAINTY_LR = 1e-2
DWA_TEMPERATURE = 2.0
FAMO_LR, FAMO_DECAY = 0.025, 1e-3
LEAST_LOSS = 1e-8
WHOLE_DRAW_FIRST = ("initial", "famo")


@final
class LossWeights(nn.Module):
    """The weights of a phase's tasks; its `state_dict` is all that a checkpoint has to keep.

    - uncertainty (Kendall et al. 2018): L e^-s + s/2, of squared errors L e^-s / 2 + s/2, s learned.
    - dwa (Liu et al. 2019): K softmax(r / T), r the ratio of the last two epochs' mean losses; 1 until then.
    - initial: 1 / (the task's first loss).
    - famo (Liu et al. 2023): c z_i / L_i, z = softmax(xi), c = 1 / sum(z_i / L_i); xi follows how the losses
      on the same batches changed by the update.
    """

    def __init__(
        self, recipe: LossWeightsRecipe, tasks: Mapping[str, Task], world: World | None = None
    ) -> None:
        super().__init__()
        self.kind = recipe.kind
        self._world = world or World()
        if self._world.together and recipe.kind in WHOLE_DRAW_FIRST:
            raise RecipeError(
                f"loss_weights {recipe.kind!r} needs the loss of a whole draw before its gradient, so it "
                "works in one process only."
            )
        count = len(tasks)
        self.lr = recipe.lr or (FAMO_LR if recipe.kind == "famo" else UNCERTAINTY_LR)
        self.decay = FAMO_DECAY if recipe.decay is None else recipe.decay
        self.temperature = recipe.temperature or DWA_TEMPERATURE
        self.squared = [task.kind == "regression" or task.head.kind == "cosine" for task in tasks.values()]
        # One parameter a task, so that a task that is not drawn is not moved by momentum.
        learned = recipe.kind == "uncertainty"
        self.log_variance = nn.ParameterList(
            nn.Parameter(torch.zeros(()), requires_grad=learned) for _ in tasks
        )
        fixed = [recipe.weights[name] for name in tasks] if recipe.weights is not None else [1.0] * count
        self.register_buffer("weights", torch.tensor(fixed, dtype=torch.float64))
        self.register_buffer("sums", torch.zeros(count, dtype=torch.float64))  # of losses, this epoch
        self.register_buffer("counts", torch.zeros(count, dtype=torch.int64))
        self.register_buffer("means", torch.zeros(2, count, dtype=torch.float64))  # older, newer; 0: none yet
        self.register_buffer("logits", torch.zeros(count, dtype=torch.float64))
        self.register_buffer("moments", torch.zeros(2, count, dtype=torch.float64))
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))
        self._now: dict[int, list[tuple[float, float]]] = {}  # (loss, share) of this update's parts

    weights: Tensor
    sums: Tensor
    counts: Tensor
    means: Tensor
    logits: Tensor
    moments: Tensor
    steps: Tensor

    def weigh(self, task: int, loss: Tensor, share: float, own: Tensor | None = None) -> Tensor:
        """The weighted loss of a part of a draw that has this share of the draw's rows.

        `own` is the task's own part of the loss, without smoothness terms; the weights follow from it.
        """
        if self.kind == "none":
            return loss * share
        if self.kind == "fixed":
            return loss * (float(self.weights[task]) * share)
        value = float((loss if own is None else own).detach())
        self._now.setdefault(task, []).append((value, share))
        match self.kind:
            case "uncertainty":
                log_variance = self.log_variance[task]
                scale = 0.5 if self.squared[task] else 1.0
                return (scale * torch.exp(-log_variance) * loss + log_variance / 2) * share
            case "initial":
                if self.counts[task] == 0:
                    self.counts[task] = 1
                    self.weights[task] = 1 / max(value, LEAST_LOSS)
            case "famo":
                return loss * (float(self.logits.softmax(0)[task]) / max(value, LEAST_LOSS) * share)
        return loss * (float(self.weights[task]) * share)

    def common_factor(self) -> float:
        """What all gradients of the update are multiplied by at its end (FAMO's c)."""
        if self.kind != "famo":
            return 1.0
        shares = self.logits.softmax(0)
        total = sum(float(shares[task]) / max(loss, LEAST_LOSS) for task, loss in self.losses().items())
        return 1 / total

    def losses(self) -> dict[int, float]:
        """The mean loss of each task in this update."""
        totals = torch.zeros(len(self.squared), 2, dtype=torch.float64)
        for task, parts in self._now.items():
            totals[task, 0] = sum(loss * share for loss, share in parts)
            totals[task, 1] = sum(share for _, share in parts)
        self._world.sum([totals])
        return {task: total / count for task, (total, count) in enumerate(totals.tolist()) if count > 0}

    def end_update(self, after: Mapping[int, float] | None = None) -> None:
        """Close an update; `after` are the losses on the same batches once it was made (FAMO only)."""
        before = self.losses() if self.kind in ("dwa", "famo") else {}
        self._now = {}
        if self.kind == "dwa":
            for task, loss in before.items():
                self.sums[task] += loss
                self.counts[task] += 1
        if after is not None:
            gained = torch.zeros_like(self.logits)
            for task, loss in before.items():
                gained[task] = math.log(max(loss, LEAST_LOSS)) - math.log(max(after[task], LEAST_LOSS))
            self._follow(gained)

    def _follow(self, gained: Tensor) -> None:
        """One Adam step of FAMO's logits: tasks that gained less weigh more."""
        shares = self.logits.softmax(0)
        gradient = shares * (gained - (shares * gained).sum()) + self.decay * self.logits
        self.steps += 1
        step = int(self.steps)
        self.moments[0] = 0.9 * self.moments[0] + 0.1 * gradient
        self.moments[1] = 0.999 * self.moments[1] + 0.001 * gradient.square()
        first, second = self.moments[0] / (1 - 0.9**step), self.moments[1] / (1 - 0.999**step)
        self.logits -= self.lr * first / (second.sqrt() + 1e-8)

    def end_epoch(self) -> None:
        """Set DWA's weights from the mean losses of the last two epochs."""
        if self.kind != "dwa":
            return
        newest = self.sums / self.counts.clamp(min=1)  # 0 of a task that was not drawn
        self.means = torch.stack([self.means[1], newest])
        self.sums.zero_()
        self.counts.zero_()
        known = (self.means > 0).all(dim=0)
        if bool(known.any()):
            ratio = self.means[1] / self.means[0]
            ratio = torch.where(known, ratio, ratio[known].mean())
            self.weights = len(ratio) * F.softmax(ratio / self.temperature, dim=0)

    def shown(self, tasks: Sequence[str]) -> dict[str, float]:
        """The weights as an event shows them."""
        match self.kind:
            case "none":
                return {}
            case "uncertainty":
                values = torch.stack([torch.exp(-value.detach()) for value in self.log_variance])
            case "famo":
                values = self.logits.softmax(0)
            case _:
                values = self.weights
        return {task: round(float(value), 6) for task, value in zip(tasks, values, strict=True)}
