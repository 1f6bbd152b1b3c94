"""The parts of benchmarks.gpu_check, each run in a process of its own: see its `run_part`.

A part writes lines for the report as it goes, and fails by raising. On a CPU the same code runs on emulated kernels or
on the CPU's own, as the table of `benchmarks.gpu_check` says.
"""

import logging
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial, partialmethod
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import torch
from torch import Tensor

from benchmarks.full_base import make_base, make_clips
from utils.bases.find import find_base
from utils.bases.loading import load_gpt
from utils.config import OUTPUT_RATE, TrainConfig
from utils.hardware import find_gpus, memory_fit, this_machine
from utils.hardware.libraries import load_library
from utils.hardware.visible import visible_gpus
from utils.inference.speaker import Speaker
from utils.jobs.environment import child_environment
from utils.model.attention import sdpa_attention, varlen_attention
from utils.model.gpt import ForwardOptions, XttsGpt
from utils.model.packing import pack
from utils.performance_utils import log_performance_info, log_system_info
from utils.project.paths import Project
from utils.runs.log import read_events
from utils.training.preflight import measure_apart
from utils.training.switches.record import record_step
from utils.training.train import TrainResult, fine_tune

GIB = 1 << 30
TEXT = "A letter from my grandmother arrived on Tuesday, with a photograph of the old house."
FAST = {"mixed_precision": "auto"}


class Check:
    """What a part is given.

    Args:
        device: cpu or cuda.
        result: file for the lines of the report.
        pretend_gb: memory to use of the GPU; 0 for all.
    """

    def __init__(self, device: str, result: str, pretend_gb: str) -> None:
        self.device, self.on_gpu, self.result = device, device == "cuda", Path(result)
        self.scratch = Path(os.environ["XTTS_STUDIO_GPU_CHECK"])
        self.total = torch.cuda.get_device_properties(0).total_memory if self.on_gpu else 0
        self.share = min(1.0, float(pretend_gb) * GIB / self.total) if self.on_gpu and float(pretend_gb) else None
        if self.share:
            torch.cuda.set_per_process_memory_fraction(self.share)
        self.project = Project(name="clips", output=self.scratch)

    def say(self, name: str, *values: Any) -> None:
        """Add a line to the report at once: it stays when the part is ended."""
        with self.result.open("a", encoding="utf-8") as file:
            print(f"{name}:", *(f"{one:.3g}" if isinstance(one, float) else one for one in values), file=file, sep="  ")

    def config(self, **settings: Any) -> TrainConfig:
        """Settings of a run on the tiny base."""
        plain: dict[str, Any] = {"base": "tiny", "num_epochs": 2, "batch_size": 8, "dropout": 0.0, "sample_text": ""}
        plain |= {"device": self.device, "cuda_memory_fraction": self.share, "schedule": "constant"}
        return TrainConfig(project=self.project.name, output=self.scratch, **plain | settings)

    def train(self, **settings: Any) -> TrainResult:
        return fine_tune(self.config(**settings))

    def command(self, name: str, *flags: str) -> None:
        """Run a command on the project."""
        place = ["--project", self.project.name, "--output", str(self.scratch)]
        command = [sys.executable, "-m", f"utils.cli.{name}", *place, *flags]
        subprocess.run(command, check=True, stdout=sys.stderr, env=child_environment())


def facts(check: Check) -> None:
    """Versions, libraries and what can be used; driver and torch agree on the GPUs and their order."""
    for name, value in {**log_system_info(), **log_performance_info()}.items():
        check.say(name, value)
    seen = [gpu.name for gpu in visible_gpus(find_gpus().gpus)]
    if check.on_gpu:
        check.say("cuBLAS 12 for transcribing", load_library("libcublas.so.12"))
        order = torch._C._get_sdp_priority_order()
        check.say("order of attention kernels", *(torch.nn.attention.SDPBackend(number).name for number in order))
    known = [torch.cuda.get_device_properties(number).name for number in range(torch.cuda.device_count())]
    assert known == seen, f"torch sees {known}, and the driver shows {seen}"


def gradients(device: str, layout: str, dtype: torch.dtype, **options: Any) -> tuple[Tensor, str]:
    """Gradients of three ragged clips as one vector in float32, and the attention kernels that ran."""
    gpt = load_gpt(find_base("tiny"), ForwardOptions(dropout=0.0, **options)).train().to(device)
    random = torch.Generator().manual_seed(3)
    texts = [torch.randint(21, 60, (n,), generator=random) for n in (19, 5, 30)]
    codes = [torch.randint(0, 1000, (n,), generator=random) for n in (40, 25, 70)]
    mels, batch = torch.randn(3, 80, 30, generator=random), pack(texts, codes, gpt.shape, layout=layout)
    with record_step(gpt) as record, torch.autocast(device, dtype=dtype, enabled=dtype != torch.float32):
        losses = gpt(batch.to(device), mels.to(device))
        (losses.text + losses.codes).backward()
    found = [p.grad.float().cpu().flatten() for p in gpt.parameters() if p.grad is not None]
    return torch.cat(found), ", ".join(record.kernels)


def attention(check: Check) -> None:
    """Each layout, precision and checkpointing beside explicit attention in float32 on the CPU."""
    truth, _ = gradients("cpu", "rows", torch.float32, sdpa=False)
    cases = [("rows", torch.float32, 5e-3), ("rows", torch.float16, 2e-2), ("packed", torch.bfloat16, 6e-2)]
    if not check.on_gpu:
        from tests.emulated_flash import emulate_flash

        emulate_flash()
        XttsGpt._attend = attend_as_on_cuda  # type: ignore[assignment]
    elif torch.cuda.get_device_capability() < (8, 0):
        cases.pop()
    errors = []
    for layout, dtype, limit in cases:
        for checkpointing in ("none", "selective", "full"):
            found, kernels = gradients(check.device, layout, dtype, sdpa=True, checkpointing=checkpointing)
            error = float((found - truth).norm() / truth.norm())
            check.say(f"{layout}, {dtype}, {checkpointing}", kernels, "error", error, "limit", limit)
            errors.append(error / limit if kernels else math.inf)
    assert max(errors) <= 1, "wrong gradients, or no kernel was seen"


def attend_as_on_cuda(gpt: XttsGpt, batch: Any, dropout: float) -> Callable[..., Tensor]:
    """`XttsGpt._attend` of a batch on a GPU."""
    if not batch.lengths:
        return partial(sdpa_attention, causal=True)
    return partial(varlen_attention, cu_seqlens=batch.cu_seqlens, max_seqlen=batch.max_seqlen)


def steps(check: Check) -> None:
    """Each switch alone: its losses beside the plain run's, and what the run observed; then resume."""
    make_clips(check.project, 8, seconds=2.0)
    cases: dict[str, dict[str, Any]] = {
        "sdpa": {},
        "gradient_checkpointing": {"gradient_checkpointing": "full"},
        "mixed_precision": {"mixed_precision": "auto" if check.on_gpu else "bf16"},
        "lora": {"lora_rank": 8},
    }
    if check.on_gpu:
        cases |= {f"compile {mode}": FAST | {"compile": mode} for mode in ("default", "reduce-overhead")}
        cases["mixed_precision fp16"] = {"mixed_precision": "fp16"}
        cases["eight_bit_optimizer"] = {"eight_bit_optimizer": True}
    # One batch an epoch: how batches are laid out does not change which clips they hold.
    plain, errors = check.train(sdpa=False), []
    for name, settings in cases.items():
        result = check.train(**settings)
        state = list(read_events(result.folder / "events.jsonl", kind="optimizations"))[-1]["switches"][name.split()[0]]
        errors.append(abs(result.first_loss / plain.first_loss - 1))
        check.say(name, state["state"], state["reason"] or state["observed"], "first loss differs by", errors[-1])
    cut = check.train(num_epochs=1)
    errors.append(abs(check.train(resume=cut.folder).last_loss / check.train().last_loss - 1))
    check.say("resumed", "last loss differs by", errors[-1])
    assert max(errors) < 0.02, "wrong losses"


def memory(check: Check) -> None:
    """Out of memory shrinks the micro-batch and the run ends well; afterwards the memory is free again."""
    make_clips(check.project, 16, seconds=2.0)
    share, peaks = check.share, []
    if check.on_gpu:
        for size in (1, 16):
            torch.cuda.reset_peak_memory_stats()
            check.train(batch_size=size, num_epochs=1)
            torch.cuda.empty_cache()
            peaks.append(torch.cuda.max_memory_reserved())
        share = sum(peaks) / 2 / check.total
        check.say("bytes reserved with 1 and with 16 clips", *peaks)
    else:
        XttsGpt.forward = partialmethod(limited, XttsGpt.forward)  # type: ignore[assignment]
    result = check.train(batch_size=16, num_epochs=1, cuda_memory_fraction=share)
    warnings = [event["message"] for event in read_events(result.folder / "events.jsonl", kind="warning")]
    check.say("warnings", *warnings)
    assert any("out of memory" in message for message in warnings), "memory never ran out, so nothing was checked"
    if check.on_gpu:
        torch.cuda.empty_cache()
        check.say("bytes reserved after the runs", torch.cuda.memory_reserved())
        assert torch.cuda.memory_reserved() < peaks[0], "memory was not given back"


def limited(gpt: XttsGpt, forward: Callable[..., Any], batch: Any, mels: Tensor) -> Any:
    """The forward pass of a small GPU."""
    if len(mels) > 4:
        raise torch.OutOfMemoryError("CUDA out of memory (emulated)")
    return forward(gpt, batch, mels)


def speak(check: Check) -> None:
    """The CPU's speech in float32, the time to the first sound for new lengths, and streaming beside the whole."""
    settings: dict[str, Any] = {"voice": None, "guard": False}
    ours = Speaker("starter", device=check.device, precision="fp32")  # type: ignore[arg-type]
    there = Speaker("starter", device="cpu", precision="fp32").speak(TEXT, temperature=0.0, **settings).wav
    here = ours.speak(TEXT, temperature=0.0, **settings).wav
    assert here.shape == there.shape, "greedy decoding gives other codes than on the CPU"
    check.say("samples of greedy speech differ by", float(np.abs(here - there).max()))
    for when in ("cold", "warm"):
        found, held = [], torch.cuda.memory_allocated() if check.on_gpu else 0
        for length in range(2, 22 if check.on_gpu else 5):
            begun = time.perf_counter()
            next(ours.stream(" ".join((TEXT.split() * 3)[:length]) + "."))
            found.append(time.perf_counter() - begun)
        check.say(f"seconds to the first sound, {when}: median, most", float(np.median(found)), max(found))
        if check.on_gpu:
            check.say("bytes that these lengths added", torch.cuda.memory_allocated() - held)
    streamed = sum(map(len, ours.stream(TEXT, temperature=0.0)))
    check.say("samples streamed and whole", streamed, here.size)
    assert abs(streamed - here.size) <= OUTPUT_RATE, "the stream is of another length than the whole"


def server(check: Check) -> None:
    """Clients at once; then no memory is left, and afterwards it answers again."""
    command = [sys.executable, "-m", "utils.cli.speech_server", "--port", "0", "--model", "starter"]
    command += ["--output", str(check.scratch), "--device", check.device]
    clients = 8 if check.on_gpu else 2
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=sys.stderr, text=True, env=child_environment()
    ) as child:
        try:
            assert child.stdout
            words = next(line for line in child.stdout if "http://" in line).split()
            address = next(word for word in words if word.startswith("http://")).rstrip("/.,")
            client = httpx.Client(base_url=address, timeout=150)

            def ask(seed: int = 1) -> httpx.Response:
                body = {"model": "starter", "voice": "default", "input": TEXT, "response_format": "pcm", "seed": seed}
                return client.post("/v1/audio/speech", json=body)

            ask().raise_for_status()
            begun = time.perf_counter()
            with ThreadPoolExecutor(clients) as pool:
                sizes = [len(answer.raise_for_status().content) for answer in pool.map(ask, range(clients))]
            seconds = time.perf_counter() - begun
            check.say(
                "clients at once, their seconds of speech, seconds", clients, sum(sizes) / 2 / OUTPUT_RATE, seconds
            )
            if check.on_gpu:
                room = torch.empty(torch.cuda.mem_get_info()[0] - 2**26, dtype=torch.uint8, device="cuda")
                check.say("with 64 MB of free memory: status", ask(2).status_code)
                del room
                torch.cuda.empty_cache()
                check.say("with free memory again: status", ask(3).raise_for_status().status_code)
            assert client.get("/health").status_code == 200, "it is not well"
        finally:
            child.terminate()


def voice(check: Check) -> None:
    """The decoder's fit for 20 steps, by the commands."""
    make_clips(check.project, 12, seconds=2.0)
    check.command("train", "--base", "starter", "--num-epochs", "1", "--mixed-precision", "auto", "--sample-text", "")
    begun = time.perf_counter()
    check.command("export", "--tune-decoder", "20", "--no-compare")
    check.say("seconds of 20 steps of the decoder's fit and the export", time.perf_counter() - begun)


def full_size(check: Check) -> None:
    """The headline rows at XTTS v2's size, and the peak beside the estimate."""
    base = make_base(check.scratch / "base", "full")
    make_clips(check.project, 48)
    plans: dict[str, dict[str, Any]] = {
        "SDPA + mixed, batch 8": {"batch_size": 8},
        "the same with full checkpointing": {"batch_size": 8, "gradient_checkpointing": "full"},
        "and LoRA": {"batch_size": 8, "gradient_checkpointing": "full", "lora_rank": 32},
    }
    faults = []
    for name, settings in plans.items():
        config = check.config(base=str(base), num_epochs=100, trim_end=False, **FAST | settings)
        expected = memory_fit(config, this_machine()).needed.total
        seen = measure_apart(config, warmup=5, steps=10)
        check.say(name, seen.fault or "s a step, s of speech a second", seen.step_s, seen.audio_per_second)
        check.say("bytes allocated, reserved, by calculation", seen.peak_bytes, seen.reserved_bytes, expected)
        faults.append(seen.fault)
    assert not all(faults), "nothing of full size fits"


def two_gpus(check: Check) -> None:
    """Two processes beside one that accumulates."""
    if torch.cuda.device_count() < 2:
        check.say("skipped", "needs two GPUs")
        return
    make_clips(check.project, 8, seconds=2.0)
    plain = ("--base", "tiny", "--batch-size", "2", "--dropout", "0", "--sample-text", "", "--schedule", "constant")
    check.command("train", *plain, "--num-epochs", "2", "--processes", "2", "--run-id", "two")
    last = list(read_events(check.project.runs / "two" / "events.jsonl", kind="step"))[-1]["loss"]
    one = check.train(batch_size=2, grad_accumulation=2).last_loss
    check.say("last loss in two processes, and in one that accumulates", last, one)
    assert abs(last / one - 1) < 0.02, "two processes compute something else"


CHECKS = (facts, attention, steps, memory, speak, server, voice, full_size, two_gpus)

if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    wanted = {check.__name__: check for check in CHECKS}[sys.argv[1]]
    wanted(Check(*sys.argv[2:]))
