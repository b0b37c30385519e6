"""The peer that polytask is measured against: Hugging Face Trainer as it comes."""

import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, final

import torch
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    DataCollatorWithPadding,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    set_seed,
)
from transformers.trainer_callback import PrinterCallback
from transformers.utils import logging

from bench.contenders import Contender, Timed
from bench.quora import BATCH_SIZE, MAX_LENGTH, Sample


def hugging_face(encoder: Path, *, bf16: bool) -> Contender:
    """Trainer with its defaults: no evaluation, no checkpoints, and padding to the longest row of a batch."""

    def train(sample: Sample, seed: int, folder: Path) -> Timed:
        with _silence():
            set_seed(seed)
            tokenizer = AutoTokenizer.from_pretrained(encoder, local_files_only=True)
            rows = _encode(tokenizer, sample)
            model = AutoModelForSequenceClassification.from_pretrained(
                encoder, num_labels=2, local_files_only=True
            )
            stopwatch = Stopwatch()
            trainer = Trainer(
                model=model,
                args=_arguments(folder, seed, bf16=bf16),
                train_dataset=rows,
                data_collator=DataCollatorWithPadding(tokenizer),
                callbacks=[stopwatch],
            )
            trainer.remove_callback(PrinterCallback)
            # accelerate's state is shared by all Trainers of a process: bf16 must not leak into fp32.
            assert trainer.accelerator.mixed_precision == ("bf16" if bf16 else "no")
            assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
            trainer.train()
        assert trainer.state.global_step == sample.updates
        return Timed(sum(len(row["input_ids"]) for row in rows), stopwatch.seconds)

    return train


def _arguments(folder: Path, seed: int, *, bf16: bool) -> TrainingArguments:
    return TrainingArguments(
        output_dir=str(folder),
        per_device_train_batch_size=BATCH_SIZE,
        num_train_epochs=1,
        bf16=bf16,
        seed=seed,
        use_cpu=True,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )


def _encode(tokenizer: Any, sample: Sample) -> list[dict[str, Any]]:
    """Rows tokenised before training, as polytask's are."""
    firsts, seconds = ([row.texts[part] for row in sample.rows] for part in (0, 1))
    columns = tokenizer(firsts, seconds, truncation=True, max_length=MAX_LENGTH)
    return [
        {**{name: cells[number] for name, cells in columns.items()}, "labels": int(str(row.label))}
        for number, row in enumerate(sample.rows)
    ]


@final
class Stopwatch(TrainerCallback):
    """The time from the epoch's first batch to the end of its last update: start and end are left out."""

    def __init__(self) -> None:
        self._started = 0.0
        self.seconds = 0.0

    def on_epoch_begin(self, *args: Any, **kwargs: Any) -> None:
        self._started = time.perf_counter()

    def on_step_end(self, *args: Any, **kwargs: Any) -> None:
        self.seconds = time.perf_counter() - self._started


@contextmanager
def _silence() -> Iterator[None]:
    """No warnings, log lines or progress bars of the library between the benchmark's own lines."""
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
