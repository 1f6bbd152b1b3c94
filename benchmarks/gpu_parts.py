"""The parts of benchmarks.gpu_check, each run in a process of its own: see its `run_part`.

A part writes lines for the report as it goes, and fails by raising. On a CPU the same code runs on emulated kernels or
on the CPU's own, as the table of `benchmarks.gpu_check` says.
"""

import logging
import math
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from itertools import product
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psutil
import torch
from torch import Tensor

from benchmarks.full_base import LONGEST_S, make_base, make_clips
from utils.audio.decode import load_audio
from utils.audio.recognizer import Transcriber, TranscriberSettings
from utils.bases.find import find_base
from utils.bases.loading import load_gpt
from utils.config import TrainConfig
from utils.dataset.storage.manifest import read_manifest
from utils.decoder_training.tune import tune_decoder
from utils.evaluation.recognition import recognizer_folder
from utils.hardware.environment import child_environment
from utils.hardware.gpu import AMPERE, find_gpus, visible_gpus
from utils.hardware.machine import this_machine
from utils.hardware.recommendations import memory_fit
from utils.hardware.wheel import load_library
from utils.inference.cached_attention import has_flash_attention
from utils.inference.engine import Synthesizer
from utils.inference.speaker import Speaker
from utils.model.dvae import load_code_encoder
from utils.model.gpt import ForwardOptions, XttsGpt
from utils.model.packing import Layout, pack
from utils.options import DATASET_RATE, OUTPUT_RATE
from utils.performance_utils import log_performance_info, log_system_info
from utils.project.paths import Project
from utils.runs.log import read_events
from utils.server.child import ServerChild
from utils.training.preflight import measure_apart
from utils.training.switches.record import record_step
from utils.training.train import TrainResult, fine_tune

TEXT = "A letter from my grandmother arrived on Tuesday, with a photograph of the old house."


class Check:
    """What a part is given.

    Args:
        device: cpu or cuda.
        result: file for the lines of the report, in a folder for all that the part writes.
    """

    def __init__(self, device: str, result: str) -> None:
        self.device, self.on_gpu, self.result = device, device == "cuda", Path(result)
        self.project = Project(name="clips", output=self.result.parent)

    def say(self, name: str, *values: Any) -> None:
        """Add a line to the report at once: it stays when the part is ended."""
        with self.result.open("a", encoding="utf-8") as file:
            print(name, *values, file=file, sep=", ")

    def config(self, **settings: Any) -> TrainConfig:
        """Settings of a run on the tiny base."""
        plain: dict[str, Any] = {"base": "tiny", "num_epochs": 2, "batch_size": 8, "dropout": 0.0, "sample_text": ""}
        plain |= {"project": "clips", "output": self.project.output, "device": self.device, "schedule": "constant"}
        return TrainConfig(**plain | settings)

    def train(self, **settings: Any) -> TrainResult:
        return fine_tune(self.config(**settings))


def facts(check: Check) -> None:
    """Versions, libraries and what can be used; driver and torch agree on the GPUs and their order."""
    for name, value in (log_system_info() | log_performance_info()).items():
        check.say(name, value)
    seen = [gpu.name for gpu in visible_gpus(find_gpus()[0])]
    if check.on_gpu:
        check.say("cuBLAS 12 for transcribing", load_library("libcublas.so.12"))
        order = map(torch.nn.attention.SDPBackend, torch._C._get_sdp_priority_order())
        check.say("order of attention kernels", *order)
    known = [*map(torch.cuda.get_device_name, range(torch.cuda.device_count()))]
    assert known == seen, f"torch sees {known}, and the driver shows {seen}"


def gradients(device: str, layout: Layout, dtype: torch.dtype, **options: Any) -> tuple[Tensor, str]:
    """Gradients of three ragged clips as one vector in float32, and the attention kernels that ran."""
    gpt = load_gpt(find_base("tiny"), ForwardOptions(dropout=0.0, **options)).train().to(device)
    texts, codes = ([torch.arange(n) % 40 + 21 for n in lengths] for lengths in ((19, 5, 30), (40, 25, 70)))
    mels, batch = torch.arange(7200.0).sin().view(3, 80, 30), pack(texts, codes, gpt.shape, layout=layout)
    with record_step(gpt) as record, torch.autocast(device, dtype=dtype, enabled=dtype != torch.float32):
        losses = gpt(batch.to(torch.device(device)), mels.to(device))
        (losses.text + losses.codes).backward()
    found = [p.grad.float().cpu().flatten() for p in gpt.parameters() if p.grad is not None]
    return torch.cat(found), ", ".join(record.kernels)


def attention(check: Check) -> None:
    """Each layout, precision and checkpointing beside explicit attention in float32 on the CPU."""
    truth, _ = gradients("cpu", "rows", torch.float32, sdpa=False)
    cases: list[tuple[Layout, torch.dtype, float]] = [("rows", torch.float32, 5e-3), ("rows", torch.float16, 2e-2)]
    worst = 0.0
    emulation: Any = nullcontext()
    if not check.on_gpu:
        from tests.emulated_flash import emulated_flash

        emulation = emulated_flash()
    if not check.on_gpu or torch.cuda.get_device_capability() >= AMPERE:
        cases.append(("packed", torch.bfloat16, 6e-2))
    with emulation:
        for (layout, dtype, limit), checkpointing in product(cases, ("none", "selective", "full")):
            found, kernels = gradients(check.device, layout, dtype, sdpa=True, checkpointing=checkpointing)
            error = float((found - truth).norm() / truth.norm())
            check.say(f"{layout}, {dtype}, {checkpointing}", kernels, "error", error)
            worst = max(worst, error / limit if kernels else math.inf)
    assert worst <= 1, "wrong gradients, or no kernel was seen"


def steps(check: Check) -> None:
    """Each switch alone: its losses beside the CPU's, and what the run observed; then resume."""
    make_clips(check.project, 8, seconds=2.0)
    cases: list[tuple[str, Any]] = [("sdpa", True), ("gradient_checkpointing", "full"), ("lora_rank", 8)]
    cases += [("mixed_precision", mode) for mode in (("auto", "fp16") if check.on_gpu else ("bf16",))]
    if check.on_gpu:
        cases += [("compile", "default"), ("compile", "reduce-overhead"), ("eight_bit_optimizer", True)]
    # One batch an epoch: how batches are laid out does not change which clips they hold.
    plain, errors = check.train(device="cpu", sdpa=False), []
    for field, value in cases:
        result = check.train(**{field: value})
        *_, proof = read_events(result.folder / "events.jsonl", kind="optimizations")
        errors.append(abs(result.first_loss / plain.first_loss - 1))
        check.say(
            f"{field} {value}; the first loss differs by", errors[-1], proof["switches"][field.removesuffix("_rank")]
        )
    cut, whole = check.train(num_epochs=1), check.train()
    errors.append(abs(check.train(resume=cut.folder).last_loss / whole.last_loss - 1))
    check.say("resumed; the last loss differs by", errors[-1])
    assert max(errors) < 0.02, "wrong losses"


def memory(check: Check) -> None:
    """Out of memory shrinks the micro-batch and the run ends well; afterwards the memory is free again."""
    make_clips(check.project, 16, seconds=8.0)
    settings: dict[str, Any] = {"batch_size": 16, "num_epochs": 1}
    peak = 0
    if check.on_gpu:
        check.train(**settings)
        peak = torch.cuda.max_memory_reserved()
        # What the first run has left in the allocator would be room for the second one.
        torch.cuda.empty_cache()
        settings["cuda_memory_fraction"] = 0.6 * peak / torch.cuda.get_device_properties(0).total_memory
    else:
        forward = XttsGpt.forward

        def limited(*inputs: Any) -> Any:
            if len(inputs[-1]) > 4:
                raise torch.OutOfMemoryError("CUDA out of memory (emulated)")
            return forward(*inputs)

        XttsGpt.forward = limited  # type: ignore[method-assign, assignment]
    result = check.train(**settings)
    warnings = str([*read_events(result.folder / "events.jsonl", kind="warning")])
    check.say("warnings", warnings)
    assert "out of memory" in warnings, "memory never ran out, so nothing was checked"
    torch.cuda.empty_cache()
    left = torch.cuda.memory_reserved()
    check.say("bytes reserved with 16 clips, and after the runs", peak, left)
    assert left <= peak / 2, "memory was not given back"


def speak(check: Check) -> None:
    """The CPU's speech in float32, the time to the first sound for new lengths, and streaming beside the whole."""
    theirs, ours = (Speaker("starter", device=one, precision="fp32") for one in ("cpu", check.device))  # type: ignore[arg-type]
    if check.on_gpu:
        check.say("variable-length attention over the cache", has_flash_attention(torch.device("cuda"), torch.float16))
    here, there = (one.speak(TEXT, temperature=0.0, guard=False).wav for one in (ours, theirs))
    assert here.shape == there.shape, "greedy decoding gives other codes than on the CPU"
    check.say("samples of greedy speech differ by", abs(here - there).max())
    for when in ("cold", "warm"):
        seconds, held = [time.perf_counter()], torch.cuda.memory_allocated()
        for length in range(2, 22 if check.on_gpu else 5):
            next(ours.stream(" ".join((TEXT.split() * 3)[:length])))
            seconds.append(time.perf_counter())
        added = torch.cuda.memory_allocated() - held
        check.say(f"{when}: bytes added; seconds to the first sound of new lengths", added, *np.diff(seconds))
    streamed = sum(map(len, ours.stream(TEXT, temperature=0.0)))
    check.say("samples streamed, and whole", streamed, here.size)
    assert abs(streamed - here.size) <= OUTPUT_RATE, "the stream is of another length than the whole"


def server(check: Check) -> None:
    """Clients at once, by OpenAI's names; then no memory is left, and afterwards it answers again."""
    words = ["utils.cli.speech_server", "--model", "starter", "--device", check.device]
    child = ServerChild(check.project.output, command=[sys.executable, "-m", *words])
    client = httpx.Client(base_url=child.start(host="127.0.0.1", port=0).address, timeout=150)

    def ask(number: int) -> int:
        body = {"model": "tts-1", "voice": "alloy", "input": f"{number}. {TEXT}", "response_format": "pcm"}
        return client.post("/v1/audio/speech", json=body).status_code

    try:
        begun = time.perf_counter()
        with ThreadPoolExecutor() as pool:
            statuses = [ask(0), *pool.map(ask, range(8 if check.on_gpu else 2))]
        check.say("seconds of one client, then of several at once", time.perf_counter() - begun)
        if check.on_gpu:
            torch.cuda.set_per_process_memory_fraction(1.0)
            room = torch.empty(torch.cuda.mem_get_info()[0] - 2**26, dtype=torch.uint8, device="cuda")
            check.say("status with 64 MB of free memory", ask(1))
            del room
            torch.cuda.empty_cache()
        statuses += [ask(1), client.get("/health").status_code]
        check.say("statuses", *statuses)
        assert {*statuses} == {200}, f"it did not answer: {child.last_words}"
    finally:
        child.stop()


def voice(check: Check) -> None:
    """Codes and voice as on the CPU, 20 steps of a HiFi-GAN's fit, and the recognizer."""
    make_clips(check.project, 12, seconds=2.0)
    base, clips = find_base("tiny"), read_manifest(check.project.train_csv)
    wav, codes, voices = load_audio(clips[0].audio, DATASET_RATE), [], []
    for device in ("cpu", check.device):
        synthesizer = Synthesizer(base, device=device)
        voices.append(synthesizer.voice(clips[0].audio))
        encoder = load_code_encoder(base.dvae, base.mel_stats()).to(device)
        codes += [code.cpu() for code in encoder(wav.to(device), [wav.size(1)])]
    theirs, ours = (one.latents.cpu() for one in voices)
    error = (ours - theirs).norm() / theirs.norm()
    same = (codes[0] == codes[1]).float().mean()
    check.say("latents of a voice differ from the CPU's by; equal codes", error, same)
    folder = check.project.output / "fit"
    fit = tune_decoder(base, synthesizer.gpt, voices[1], clips, clips[:1], language="en", steps=20, folder=folder)
    check.say("the decoder's fit", fit.facts)
    if weights := recognizer_folder():
        settings = TranscriberSettings(model=str(weights), language="en", device=check.device)
        check.say("the recognizer computes on", Transcriber(settings).load().model.device)
    assert error < 0.02 and same > 0.98, "another voice or other codes than on the CPU"


def full_size(check: Check) -> None:
    """The headline rows at XTTS v2's size, and the peak beside the estimate."""
    base, fits = make_base(check.project.output / "base", "full"), False
    make_clips(check.project, 48, seconds=LONGEST_S)
    cases: dict[str, dict[str, Any]] = {
        "SDPA + mixed, batch 8": {},
        "with full checkpointing": {"gradient_checkpointing": "full"},
        "with LoRA": {"gradient_checkpointing": "full", "lora_rank": 32},
    }
    for name, settings in cases.items():
        config = check.config(base=str(base), num_epochs=100, trim_end=False, mixed_precision="auto", **settings)
        expected = memory_fit(config, this_machine()).needed.total
        seen = measure_apart(config, warmup=5, steps=10)
        check.say(name, seen.fault or "s a step, s of speech a second", seen.step_s, seen.audio_per_second)
        check.say("bytes allocated, reserved, by calculation", seen.peak_bytes, seen.reserved_bytes, expected)
        fits = fits or not seen.fault
    assert fits, "nothing of full size fits"


def two_gpus(check: Check) -> None:
    """Two processes beside one that accumulates; one is killed, and both start again by themselves."""
    if torch.cuda.device_count() < 2:
        return check.say("skipped")
    make_clips(check.project, 8, seconds=2.0)
    run, last = check.project.runs / "two", check.train(batch_size=2, grad_accumulation=2).last_loss
    flags = "--base tiny --batch-size 2 --dropout 0 --schedule constant --num-epochs 2 --project clips --run-id two"
    flags += " --processes 2 --max-restarts 1 --checkpoint-every 1 --output"
    words = [sys.executable, "-m", "utils.cli.train", *flags.split(), str(check.project.output)]
    training = subprocess.Popen(words, env=child_environment())
    while training.poll() is None and not [*run.glob("checkpoints/step-*/complete.json")]:
        time.sleep(0.05)
    psutil.Process(training.pid).children()[-1].kill()
    assert training.wait() == 0, "it did not start again"
    two, starts = ([*read_events(run / "events.jsonl", kind=kind)] for kind in ("step", "started"))
    check.say("last loss in two processes, and in one that accumulates", two[-1]["loss"], last)
    assert abs(two[-1]["loss"] / last - 1) < 0.02 and len(starts) == 2, "two processes compute something else"


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    globals()[sys.argv[1]](Check(*sys.argv[2:]))
