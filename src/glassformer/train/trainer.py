"""The training loop for every family: batch, loss, gradient, step, repeat."""

import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import asdict
from functools import cached_property
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from tqdm import tqdm

from glassformer import _checks as checks
from glassformer import checkpoints
from glassformer.atomic_files import naming, only_writer
from glassformer.auxiliary import auxiliary_losses
from glassformer.checkpoints import Checkpoint
from glassformer.config import ModelConfig
from glassformer.nn import Router
from glassformer.progress import bar as progress_bar
from glassformer.progress import in_notebook, on_terminal
from glassformer.protocols import OF_A_MODEL, OF_A_TASK, is_table
from glassformer.tasks import Batch
from glassformer.train.config import TrainingConfig
from glassformer.train.estimate import TRIED, in_words, seconds_left
from glassformer.train.evaluate import batch_loss, loss_of, loss_over, n_targets
from glassformer.train.experts_across import ExpertsAcross
from glassformer.train.log import Log, Record
from glassformer.train.optimizers import (
    load_optimizer_state,
    optimizer_state,
    optimizers_of,
    set_schedule,
)
from glassformer.train.processes import Processes, choice_of, device_of, processes, world
from glassformer.train.schedule import ema_share, is_due, rate_share
from glassformer.train.signals import Stopped, stop_on_signals
from glassformer.untrusted_files import LARGEST_WEIGHT

LOG = "log.jsonl"


class Trainer:
    """Trains a model on a task as described by a configuration.

    `model` is a `nn.Transformer`, or a module of your own that has what `protocols.AnyModel` lists.

    `task` is one of `glassformer.tasks`, or one of your own that has what `protocols.AnyTask` lists. If it has a
    method `loss`, that is trained instead of the cross-entropy: `loss(model, inputs, targets)` returns the mean
    over the targets that count, as `train.cross_entropy_loss` does. What layers hand to `add_to_loss` is trained as
    well; the log has it apart from `loss`, and validation leaves it out.

    With a `folder`, checkpoints and the log, `log.jsonl`, are kept there. With `resume`, the run in that folder
    continues where it stopped: on the same machine, every weight, average and loss is then bit for bit what it would
    have been without the interruption. It may be given another number of `steps`, above those done: the rest then
    follows the schedule of the new number, which `run` says, so a run that has ended can be trained further.

    If the task keeps a part for the test, the last record has `test_loss`: that of the averaged weights, if
    there is an average. No earlier record has it, so that no choice can depend on it; but if a run that had ended
    is given more steps, its former last record keeps it.

    With `progress`, a bar shows the progress. A line names the device that "auto" has chosen, and after the first
    steps another one estimates the remaining time.

    Training begins with the weights that the model has. `init` and `zero_init` of the configuration describe a new
    model and are applied by `initialize`, so that a model that was loaded keeps what it has learned.

    `sampler`, a function from the model to a text, is called every `sample_every` steps; `callback` receives
    the record of every step, for a live figure. `tokenizer` is saved with the model.

    Under `torchrun`, the processes share every batch, and only the first one writes. While it does, no other
    run may write to the folder.

    Derived in chapter 10.

    Raises:
        ValueError: model, task and configuration do not fit together, or the batch does not fit the number of
            processes; something in the folder is in the way of checkpoints; it has a run although `resume` is
            False, or the run of another model or configuration.
        TypeError: an argument is of the wrong kind.
    """

    def __init__(
        self,
        model: nn.Module,
        task: Any,
        config: TrainingConfig,
        folder: str | os.PathLike | None = None,
        *,
        resume: bool = False,
        tokenizer: Any = None,
        sampler: Callable[[Any], str] | None = None,
        callback: Callable[[Record], None] | None = None,
        progress: bool = True,
    ) -> None:
        checks.instance("config", config, TrainingConfig)
        checks.in_torch(model)
        _check_model(model)
        _check_fit(model, task, config)
        if tokenizer is not None:
            _check_tokenizer(tokenizer, model.config)
        # Refuse a missing device before anything is written. `run` finds the other processes
        self.processes = Processes(0, 1, device_of(config.device))
        if config.sample_every and sampler is None:
            raise ValueError(f"sample_every={config.sample_every} needs a sampler")
        self.model: Any = model
        self.task, self.config = task, config
        self.folder = None if folder is None else Path(folder)
        self.tokenizer, self.callback, self.progress = tokenizer, callback, progress
        self.sampler: Any = sampler  # there is one if `sample_every` is set
        self.log = Log(None if self.folder is None else self.folder / LOG)
        self._parallel: Any = model  # adds up the gradients of all processes
        self._forward: Any = model  # computes the logits, perhaps compiled
        self.step = self.tokens = 0  # so far
        self.was_interrupted = False
        self.stopped_by: int | None = None  # the signal that this process was sent
        self.optimizers: list[torch.optim.Optimizer] = []
        self.average: dict[str, torch.Tensor] | None = None
        self._validated: Record = {}  # results of the last evaluation
        if self.folder is not None:
            checkpoints.check_place(self.folder)
        found = None if self.folder is None else checkpoints.latest(self.folder)
        if found is not None and not resume:
            raise ValueError(
                f"folder={str(folder)!r} already has a run, up to {found.name}: continue it with resume=True, or with "
                "--resume on the command line; a new run needs a folder of its own"
            )
        self._checkpoint = None if found is None else self._checked(found)
        self._latest = found
        self.log.check()

    # The loop

    def run(self) -> list[Record]:
        """Trains until the last step or until Ctrl-C, which finishes the step and saves. Returns the log's records.

        Raises:
            KeyboardInterrupt: after a second Ctrl-C; in a notebook after the first, once it has saved, so that the
                rest of the cell does not run.
            FloatingPointError: a loss or a gradient is no longer finite, or a weight's square is not. Earlier
                checkpoints are kept.
            BlockingIOError: another run writes to the folder.
            ValueError: another run has written to the folder since this Trainer was made.
            OSError: the folder cannot be written to, or the disk is full. Earlier checkpoints are kept.
        """
        config, self.was_interrupted = self.config, False
        with (
            processes(config.device) as self.processes,
            self._alone(),
            # Restores torch's random state afterwards
            torch.random.fork_rng([self.device] if self.device.type == "cuda" else []),
            stop_on_signals() as stop,
            ExitStack() as ended,
        ):
            before = self._prepare()
            begun, chosen = self.step, choice_of(config.device, self.device)
            # An argument to tqdm overrides the environment, so we only ever pass one that hides the bar.
            hidden: dict[str, Any] = {} if self.progress and self._is_first else {"disable": True}
            bar = ended.enter_context(
                progress_bar(total=config.steps, initial=self.step, unit="step", **hidden)
            )
            if chosen and self.step < config.steps and not bar.disable:
                _write(bar, chosen)
            if before is not None and before != config.steps and self.progress and self._is_first:
                _write(bar, self._rescheduled(before))
            while self.step < config.steps and not self.was_interrupted:
                record = self._train_step()
                if is_due(config.evaluate_every, self.step, config.steps):
                    record |= self._evaluate()
                if self.step == config.steps and len(getattr(self.task, "for_test", ())):
                    record["test_loss"] = self._test()
                if config.sample_every and self.step % config.sample_every == 0 and self._is_first:
                    record["sample"] = self._sample()
                    if not bar.disable:
                        _write(bar, on_terminal(f"\nstep {self.step}:\n{record['sample']}\n"))
                self._note(record, bar)
                if not bar.disable and self.step == begun + TRIED < config.steps:
                    _write(bar, self._how_long())
                # All processes stop after the same step, whichever of them was asked to stop.
                self.was_interrupted = self.processes.total(stop.made)[0] > 0
                if is_due(config.save_every, self.step, config.steps) or self.was_interrupted:
                    self._save()
            if self.was_interrupted and self._is_first:
                if in_notebook():  # the rest of the cell expects a trained model
                    raise Stopped(self._how_to_go_on())
                _write(bar, self._how_to_go_on())
        self.stopped_by = stop.signal
        return self.log.records

    def _train_step(self) -> Record:
        """Takes one step: computes the gradient over the whole batch, piece by piece, and applies the optimizer."""
        config, world = self.config, self.processes.world
        started = time.perf_counter()
        n_pieces = config.accumulation * world
        mine = range(
            self.processes.rank * config.accumulation, (self.processes.rank + 1) * config.accumulation
        )
        pieces: list[Any] = [(piece, *self.task.batch(self.step, piece, n_pieces)) for piece in mine]
        [n_all] = self.processes.total(sum(n_targets(targets) for _, _, targets in pieces))

        set_schedule(self.optimizers, config, self.step)
        found: dict[str, Any] = {}  # the loss and the auxiliary losses
        for piece, inputs, targets in pieces:
            self._seed(piece)
            # Processes combine their gradients once, with the last piece. They take the mean, hence the
            # factor `world`.
            waits = world > 1 and piece != mine[-1]
            with self._parallel.no_sync() if waits else nullcontext():
                with (
                    torch.autocast(self.device.type, torch.bfloat16, enabled=config.dtype == "bfloat16"),
                    auxiliary_losses() as added,
                ):
                    loss = batch_loss(loss_of(self.task), self._forward, inputs, targets, self.device)
                # What a frozen model has added, such as a teacher, has no gradient
                terms = [("loss", loss)]
                terms += [(f"auxiliary_{name}", term) for name, term in added if term.requires_grad]
                n = n_targets(targets)
                total: Any = sum(term for _, term in terms)
                (total * n / n_all * world).backward()
            for name, term in terms:
                found[name] = found.get(name, 0.0) + term.detach() * n / n_all
        gradient_norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), config.clip or float("inf"))
        found = dict(zip(found, self.processes.total(*map(float, found.values())), strict=True))
        gradient_norm = float(gradient_norm)
        if not np.isfinite([*found.values(), gradient_norm]).all():
            raise self._diverged(
                self.step + 1,
                f"the loss is {found['loss']} and the length of its gradient is {gradient_norm}",
            )
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad()
        self._update_choice_biases()
        self._update_average()

        self.tokens += pieces[0][1]["ids"].size * n_pieces
        self.step += 1
        return {
            "step": self.step,
            "tokens": self.tokens,
            **found,
            "gradient_norm": gradient_norm,
            "learning_rate": config.learning_rate * rate_share(config, self.step - 1),
            "seconds": time.perf_counter() - started,
        }

    # Preparation

    def _prepare(self) -> int | None:
        """Moves the model to its device and sets everything to the state of the checkpoint or of the start.

        Returns the number of steps that the run of the checkpoint was planned for; None if there is no checkpoint.
        """
        self.model.to(self.device).train()
        checkpoint, self._checkpoint = self._checkpoint, None
        # Done in `run` and not before, because an optimizer would not follow weights that move to a GPU
        # later.
        if not self.optimizers:
            self.optimizers = optimizers_of(self.model, self.config)
        if checkpoint is not None:
            self._restore(checkpoint)
        if self.config.ema is not None and self.average is None:
            self.average = {name: weight.detach().clone() for name, weight in self.model.named_parameters()}
        if self._is_first:
            self.log.begin(self.step)
        else:
            self.log.path = None

        self._parallel = self._forward = self.model
        if self.processes.world > 1:
            # A pooler is not part of the loss, so it has no gradient to wait for.
            self._parallel = self._forward = DistributedDataParallel(
                self.model, find_unused_parameters=self.model.config.pooler
            )
        if self.config.compile:
            self._forward = torch.compile(self._parallel)
        return None if checkpoint is None else checkpoint.training["steps"]

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Ensures that no other run writes to the folder in the meantime or has done so since it was read."""
        if self.folder is None or not self._is_first:
            yield
            return
        with only_writer(self.folder):
            if (latest := checkpoints.latest(self.folder)) != self._latest:
                raise ValueError(
                    f"{self.folder} has changed: another run has written to it in the meantime, up to "
                    f"{latest.name if latest else 'no checkpoint at all'}"
                )
            yield

    @property
    def device(self) -> torch.device:
        """Returns the device that the run uses."""
        return self.processes.device

    @property
    def _is_first(self) -> bool:
        """Returns whether this is the process that writes."""
        return self.processes.rank == 0

    def _seed(self, piece: int) -> None:
        """Seeds dropout from the seed, the step and the piece alone, so no random state has to be saved."""
        number = int(np.random.SeedSequence((self.config.seed, self.step, piece)).generate_state(1)[0])
        torch.default_generator.manual_seed(number)
        if self.device.type != "cpu":
            getattr(torch, self.device.type).manual_seed(number)

    # Averages, evaluation and logging

    def _update_choice_biases(self) -> None:
        """Moves the biases with which routers choose, by what all pieces and processes have chosen in this step."""
        for router in self.model.modules():
            if isinstance(router, Router) and router.bias_rate:
                router._load = torch.tensor(self.processes.total(*router._load.tolist()))
                router.update_choice_bias(router.bias_rate)

    @torch.no_grad()
    def _update_average(self) -> None:
        """Moves the average slightly towards the weights: stays · average + (1 − stays) · weight."""
        if self.average is not None:
            stays = ema_share(self.config, self.step)
            for name, weight in self.model.named_parameters():
                if not is_table(name):
                    self.average[name].lerp_(weight, 1 - stays)

    @contextmanager
    def _as_used(self) -> Iterator[None]:
        """Temporarily loads the averaged weights, if an average is kept."""
        if self.average is None:
            yield
            return
        own = {name: weight.detach().clone() for name, weight in self.model.named_parameters()}
        _copy(self.average, self.model)
        try:
            yield
        finally:
            _copy(own, self.model)

    def _evaluate(self) -> Record:
        """Returns the loss over the whole validation part, if any, with the weights and with their average."""
        self._check_weights()
        batches = list(self.task.validation())
        if not batches:
            return {}
        found = {"validation_loss": self._loss_over(batches)}
        if self.average is not None:
            with self._as_used():
                found["validation_loss_ema"] = self._loss_over(batches)
        for name, loss in found.items():
            if not np.isfinite(loss):
                raise self._diverged(self.step, f"{name.replace('_', ' ')} is {loss}")
        return found

    def _test(self) -> float:
        """Returns the loss over the whole test part, once, with the weights that are used from then on."""
        with self._as_used():
            return self._loss_over(self.task.test())

    def _loss_over(self, batches: Iterable[Batch]) -> float:
        """Returns the model's mean loss over batches, of which the processes take turns."""
        shown, loss = self.progress and self._is_first, loss_of(self.task)
        return loss_over(self.model, batches, self.processes, loss=loss, progress=shown)

    def _sample(self) -> str:
        self.model.eval()
        with self._as_used():
            sample = self.sampler(self.model)
        self.model.train()
        return sample

    def _note(self, record: Record, bar: tqdm) -> None:
        """Reports to the log, the progress bar and the callback."""
        if not self._is_first:
            return
        self.log.write(record)
        self._validated |= {name: record[name] for name in record if name.startswith("validation")}
        shown = {name: f"{loss:.3f}" for name, loss in ({"loss": record["loss"]} | self._validated).items()}
        speed = (self.tokens / self.step) / record["seconds"]
        bar.set_postfix(shown | {"tokens/s": f"{speed:,.0f}"}, refresh=False)
        bar.update()
        if self.callback is not None:
            self.callback(record)

    def _how_long(self) -> str:
        """Describes how long the rest of this run will take, estimated from its first steps."""
        seconds = [record["seconds"] for record in self.log.records[-TRIED:]]
        n_validation = sum(inputs["ids"].size for inputs, _ in self.task.validation())
        left = seconds_left(self.config, self.step, seconds, n_validation / (self.tokens / self.step))
        return f"{self.config.steps - self.step:,} more steps: {in_words(left)} on this machine"

    # Checkpoints

    def _save(self) -> None:
        if self.folder is None or not self._is_first:
            return
        self._check_weights()
        with naming(self.folder):
            self.log.sync()
            self._latest = checkpoints.save(self.folder, self._as_checkpoint())

    def _as_checkpoint(self) -> Checkpoint:
        average = None
        if self.average is not None:
            average = {name: _array(weight) for name, weight in self.average.items()}
        return Checkpoint(
            step=self.step,
            model_config=self.model.config,
            training=asdict(self.config),
            tokens=self.tokens,
            weights={name: _array(weight) for name, weight in self.model.named_parameters()},
            optimizer=optimizer_state(self.model, self.optimizers, _array),
            average=average,
            tokenizer=None if self.tokenizer is None else self.tokenizer.to_json(),
            task=self._checksum,
            special_ids=_special_ids(self.task, self.model.config),
        )

    @cached_property
    def _checksum(self) -> str | None:
        """Returns the checksum of the task's data, if it has one."""
        return self.task.checksum() if hasattr(self.task, "checksum") else None

    def _check_weights(self) -> None:
        """Checks that no weight is so large that its square overflows: with a norm, the loss would stay finite."""
        for name, weight in self.model.named_parameters():
            largest = float(weight.detach().abs().max())
            if not largest < LARGEST_WEIGHT:
                raise self._diverged(self.step, f"{name} has a number of size {largest:.2g}")

    def _checked(self, folder: Path) -> Checkpoint:
        """Returns the checkpoint if it belongs to this model and this training configuration."""
        checkpoint = checkpoints.load(folder.parent)  # if the latest is damaged, the error names another
        other = checkpoints.differences(checkpoint.model_config, self.model.config)
        written, steps = TrainingConfig.from_fields(checkpoint.training), self.config.steps
        other += written.replace(steps=steps).differences(self.config)
        if other:
            raise ValueError(f"{folder} is from another run: {'; '.join(other)}")
        if steps != written.steps and steps <= checkpoint.step:
            raise ValueError(
                f"steps={steps} must be above {checkpoint.step}, the number of steps that the run in {folder.parent} "
                "has done"
            )
        if self.tokenizer is not None and checkpoint.tokenizer not in (None, self.tokenizer.to_json()):
            raise ValueError(f"{folder} is from another run: its tokenizer differs, so its text did too")
        if checkpoint.task not in (None, self._checksum):
            raise ValueError(
                f"{folder} is from another run: it learned from different data, or from different batches of it"
            )
        shapes = {name: tuple(weight.shape) for name, weight in self.model.named_parameters()}
        for weights in (checkpoint.weights, checkpoint.average):
            if weights is not None:
                checks.state_dict(shapes, {name: weight.shape for name, weight in weights.items()})
        return checkpoint

    def _restore(self, checkpoint: Checkpoint) -> None:
        _copy({name: torch.tensor(weight) for name, weight in checkpoint.weights.items()}, self.model)
        load_optimizer_state(self.model, self.optimizers, checkpoint.optimizer)
        if checkpoint.average is not None:
            self.average = {
                name: torch.empty_like(weight).copy_(torch.tensor(checkpoint.average[name])).detach()
                for name, weight in self.model.named_parameters()
            }
        self.step, self.tokens = checkpoint.step, checkpoint.tokens

    def _rescheduled(self, before: int) -> str:
        """Returns what another number of steps does to the learning rates."""
        config = self.config
        rates = (
            config.learning_rate * rate_share(config.replace(steps=n), self.step)
            for n in (before, config.steps)
        )
        old, new = (f"{rate:.3g}" for rate in rates)
        return (
            f"{config.steps:,} steps instead of {before:,}: from step {self.step + 1:,} on, learning rates follow the "
            f"schedule of {config.steps:,} steps, so the next one is {new} and not {old}"
        )

    def _how_to_go_on(self) -> str:
        if self.folder is None:
            return (
                f"Stopped after step {self.step} of {self.config.steps}. There is no folder, so nothing was saved, but "
                "the model keeps what it has learned: run() of this Trainer continues, and a new model starts over."
            )
        return (
            f"Stopped after step {self.step} of {self.config.steps}; the run is saved in {self.folder}. "
            "To continue, start the same training with resume=True, or --resume on the command line."
        )

    def _diverged(self, step: int, found: str) -> FloatingPointError:
        """Returns the error to raise when numbers are no longer finite."""
        saved = (
            "nothing was saved yet"
            if self._latest is None
            else f"the last checkpoint, {self._latest}, is intact"
        )
        return FloatingPointError(
            f"step {step}: {found}, so training has diverged; a smaller learning_rate may help, and {saved}"
        )


def _write(bar: tqdm, text: str) -> None:
    """Prints a text above the bar. Training goes on if nobody can read it any more: the terminal may be closed."""
    with suppress(OSError):
        bar.write(text)


def _check_model(model: Any) -> None:
    """Checks that it can be trained, and that a checkpoint has all of it."""
    checks.instance("model", model, nn.Module)
    checks.offers("model", model, OF_A_MODEL, "AnyModel")
    checks.instance("model.config", model.config, ModelConfig)
    if any(isinstance(part, ExpertsAcross) for part in model.modules()):
        raise ValueError(
            "model has only some of its experts: gather_experts(model, group) brings the others back"
        )
    checks.has_part("head", None if model.config.head == "none" else model)
    if not any(
        p.name == "ids" or p.kind == p.VAR_KEYWORD for p in signature(model.forward).parameters.values()
    ):
        raise TypeError(
            f"model, a {type(model).__name__}, lacks forward(ids, …): protocols.AnyModel says what it needs"
        )
    weights = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    if others := [name for name in model.state_dict() if name not in weights]:
        raise ValueError(
            f"model has {', '.join(others)}, which a checkpoint leaves out because it is no Parameter: make it one, "
            "with requires_grad=False if need be, or a buffer with persistent=False if the model makes it anew"
        )


def _check_fit(model: Any, task: Any, config: TrainingConfig) -> None:
    checks.offers("task", task, OF_A_TASK, "AnyTask")
    if task.family != model.config.family:
        raise ValueError(
            f"{type(task).__name__} is for family={task.family!r}, but the model has {model.config.family!r}"
        )
    if not any(weight.requires_grad for weight in model.parameters()):
        raise ValueError("model has no parameter with requires_grad=True, so there is nothing to train")
    for name, weight in model.named_parameters():
        if not is_table(name) and weight.dtype not in (torch.float32, torch.float64):
            raise ValueError(
                f"{name} is in {weight.dtype}, in which small steps are lost: create the model in float32; "
                'dtype="bfloat16" of TrainingConfig then multiplies in bfloat16'
            )
    optimizers_of(model, config)  # or it says which weight has no optimizer
    if task.vocab_size > model.config.vocab_size:
        raise ValueError(
            f"the task has ids up to {task.vocab_size - 1}, but the model's vocab_size={model.config.vocab_size}"
        )
    _special_ids(task, model.config)
    checks.equal("task.batch_size", task.batch_size, "config.batch_size", config.batch_size)
    if (n_pieces := config.accumulation * world()) > 1:
        checks.divisible("batch_size", config.batch_size, "processes·accumulation", n_pieces)
    if task.length > model.config.context_length:
        raise ValueError(
            f"task.length={task.length} must be at most context_length={model.config.context_length}"
        )


def _check_tokenizer(tokenizer: Any, config: Any) -> None:
    """Checks that a run with this tokenizer can be opened again."""
    if not hasattr(tokenizer, "to_json"):
        raise TypeError(
            f"tokenizer must be a CharTokenizer or a BytePairTokenizer of glassformer.text, not a "
            f"{type(tokenizer).__name__}: a checkpoint keeps it"
        )
    if tokenizer.vocab_size > config.vocab_size:
        raise ValueError(
            f"tokenizer has {tokenizer.vocab_size} ids, but the model's vocab_size={config.vocab_size}: nothing would "
            "open the run"
        )


def _special_ids(task: Any, config: ModelConfig) -> dict[str, int] | None:
    return checkpoints.checked_special_ids("task.special_ids", getattr(task, "special_ids", None), config)


@torch.no_grad()
def _copy(weights: dict[str, torch.Tensor], model: nn.Module) -> None:
    for name, weight in model.named_parameters():
        weight.copy_(weights[name])


def _array(tensor: torch.Tensor) -> np.ndarray:
    """Returns a tensor as an array in the order of its axes, whatever its memory layout."""
    return np.ascontiguousarray(tensor.detach().cpu().numpy()).reshape(tensor.shape)
