"""Texts of tab 2, Fine-tuning."""

from utils.runs.progress import Observation
from webui.text.catalog import _, engine_text
from webui.text.common import count_of

START_FROM = _("Start from")
START_FROM_BASE = _("base model")
START_FROM_READY = _("this project's exported model")
START_FROM_FIX = _("select the base model, the exported model, or a run of this project as run/NAME/best")
NOT_EXPORTED = _("this project has no exported model yet")
NOT_EXPORTED_FIX = _("export one first (Step 2.5), or start from the base model")
ADVANCED = _("Advanced")
STEP_2 = _("Step 2 - Train Model")
NOT_KNOWN = _("not yet known")
NOT_REQUESTED = _("off (not requested)")
RECOMPUTE = _("Checkpointed blocks")
RECOMPUTE_HELP = _("Selective recomputes only what is cheap: faster, and saves less memory.")
RECOMPUTE_CHOICES = {"full": _("full (least memory)"), "selective": _("selective (faster)")}
HALF = _("Half precision")
HALF_HELP = _("The data type of mixed precision; automatic is the device's faster one.")
HALF_CHOICES = {"auto": _("automatic"), "bf16": "BF16", "fp16": "FP16"}
USE_CASE, USE_CASE_HELP = _("Purpose"), _("What Recommend chooses for.")
USE_CASES = {
    "production": _("a good voice"),
    "limited memory": _("little memory"),
    "maximum quality": _("best quality"),
    "debugging": _("debugging"),
}
SET_BY = {
    "you": _("changed"),
    "project": _("from the latest run"),
    "recommendation": _("recommended"),
    "file": _("from the settings file"),
}
DEFAULT_IS, NUM_CHANGED = _("default: {value}"), _("{count} not at their default")
COMMAND_LINE = _("Equivalent command")
COMMAND_LINE_HELP = _("Trains with the settings above, in a shell in the app's folder.")
SHOW_COMMAND = _("Show command and file")
DOWNLOAD_SETTINGS, UPLOAD_SETTINGS = _("Download settings file"), _("Use a settings file")
SETTINGS_FILE_HELP = _("All other settings are set by a settings file (YAML), such as a run's config.yaml.")
NO_SETTINGS_FILE, NO_SETTINGS_FILE_FIX = (
    _("no settings file was uploaded"),
    _("select a .yaml file, such as a run's config.yaml"),
)
STOP_EXPORT, EXPORT_STOPPED = _("Stop export"), _("Export stopped. The model exported before is unchanged.")
NO_EXPORT_RUNS_FIX = _("there is no export to stop")
RECOMMEND = _("Recommend settings")
CHANGED = _("Changed in the form")
CHANGE_COLUMNS = (_("Setting"), _("Before"), _("Now"))
NOTHING_CHANGED = _("The form had these settings already.")
RECOMMENDED = _("Recommended settings for this machine, now set in the form")
PROOFS = _("Effective optimizations")
PROOF_COLUMNS = (_("Optimization"), _("Requested"), _("Effective"))
NO_PROOFS = _("Available after the first steps of a run.")
MEMORY_PANEL = _("Memory usage")
MEMORY_PLOT = _("Memory usage, last minutes")
MEMORY, SYSTEM_MEMORY = _("Memory"), _("System memory")
MINUTES, GIGABYTES = _("minutes"), _("GB")
AUDIO_A_SECOND = _("seconds of audio per second")
USED_BY_RUN, USED_BY_OTHERS = _("this run"), _("everything else")
MEMORY_WORDS = {
    "allocated": _("allocated by this run"),
    "reserved": _("reserved"),
    "peak": _("peak"),
    "rss": _("used by this run"),
    "peak_rss": _("peak"),
}
TIME_BY_PHASE = _("Where the time of a step goes")
PHASES = {
    "data": _("waiting for data"),
    "transfer": _("to the device"),
    "forward": _("forward"),
    "backward": _("backward"),
    "optimizer": _("optimizer"),
    "checkpoint": _("checkpoint"),
    "logging": _("logging"),
}
RUN = _("Run")
NEWEST_RUN = _("latest run")
STOP, STOP_NOW, RESUME = _("Stop"), _("Stop immediately"), _("Resume")
QUEUE, QUEUED = _("Queued runs"), _("waiting")
QUEUE_RUN = _("Add to queue")
QUEUE_COLUMNS = (_("No."), _("Run"), _("Settings that differ from the defaults"), _("State"))
QUEUED_RUN = _("Queued run")
QUEUE_REMOVE, QUEUE_EARLIER, QUEUE_LATER = _("Remove"), _("Move up"), _("Move down")
NOTIFY, NOTIFY_HELP = _("Notify me when the run ends"), _("By a message of this browser, while the page is open.")
ALL_DEFAULTS = _("none")
RUN_QUEUED = _("Queued. The run starts when the ones before it have ended, also after a restart of the app.")
QUEUE_FIX = _("add this one to the queue (Add to queue), wait until the other has ended, or stop it")
NOT_QUEUED = _("this run is not in the queue any more")
NOT_QUEUED_FIX = _("select one of the queued runs")
NO_RESUME_WITHOUT_RUN = _("Resume: no run yet.")
NO_RESUME_RUNNING = _("Resume: available when the run has stopped.")
NO_RESUME_ENDING = _("Resume: the run's process is still ending.")
NO_RESUME_CHECKPOINT = _("Resume: this run has no checkpoint to resume from.")
NO_EXPORT_WITHOUT_RUN = _("Export: train a model first (Step 2).")
NO_EXPORT_YET = _("Export: this run has no checkpoint yet. The first one is saved after an epoch.")
STEP, LOSS = _("step"), _("loss")
LOSS_PLOT = _("Loss")
SPEED_PLOT = _("Training speed (seconds of audio per second)")
TRAINING_LOSS, SMOOTHED_LOSS, EVALUATION_LOSS = _("training"), _("training, smoothed"), _("evaluation")
SAMPLES = _("Samples generated during training")
LOG, SPEED_AND_LOG = _("Log"), _("Settings, speed, log and notification")
RUN_SETTINGS = _("All settings of this run (config.yaml)")
CHECKPOINT = _("Checkpoint to export")
CHECKPOINT_HELP = _("Best speaks held-out texts best, or has the lowest loss on them.")
BEST, LAST = _("best"), _("last")
DECODER = _("Decoder of the export")
DECODER_HELP = _("Fitting it to the voice brings the timbre nearer, where held-out clips confirm it.")
DECODERS = {"default": _("as the base recommends"), "fit": _("fit to the voice"), "keep": _("leave as it is")}
SMALL_VOICE = _("LoRA voice as a small file")
SMALL_VOICE_HELP = _("Instead of the full model: what a LoRA run learned, which speaks over its base.")
VOICE_EXPORTED = _("LoRA voice exported: {path}. Listen to it or download it in tab 3.")
STEP_2_5 = _("Step 2.5 - Optimize (export) model")
EXPORTED = _("Model exported. Listen to it or download it in tab 3.")
EXPORT_TOOK = _("The last export took")
BESIDE_THE_BASE = _("Speech beside the base")
WORSE_THAN_BASE = _(
    "This model speaks worse than its base: words are wrong or sentences end wrongly more often. Listen to it before "
    "you use it. More recordings help, as do fewer epochs or a lower learning rate."
)
ABOUT_WORDS = {
    "language": _("Language"),
    "run": _("Run"),
    "checkpoint": _("Checkpoint"),
    "exported": _("Exported"),
    "license": _("License of the base"),
    "loads_in": _("Compatible with"),
}

NO_DATASET = _("this project has no dataset yet")
NO_DATASET_FIX = _("create one in tab 1 (Step 1)")
NO_DATASET_YET = _("No dataset yet. Create one in tab 1 first.")
NO_RUN_YET = _("No run yet. The default settings are a good start: select Step 2.")
NO_RUN = _("this project has no run yet")
NO_RUN_FIX = _("train a model first (Step 2)")
NO_SUCH_RUN_FIX = _("select one of this project's runs in the list")
NOTHING_RUNS = _("no job is running")
NOTHING_RUNS_FIX = _("select the run that is in progress")
TRAINING_STARTED = _("Training started. It continues when you close this page.")
STOPPING = _("Stopping after this step. A checkpoint is saved.")
STOPPED_AT_ONCE = _("Stopped. The run can resume from its last checkpoint.")
EXPORT_STARTED = _("Exporting the model ...")


def observed(observation: Observation) -> str:
    """What a run's events show."""
    return engine_text(observation.template).format(**observation.facts)


DECODER_FIT = _("{kept}; on held-out clips log-mel distance {before} → {after}, similarity {unlike} → {like}")
SHARES = _("{texts} new texts: right words {words} (base {base_words}), no defect {flawless} (base {base_flawless})")


def planned_for(base: str, num_parameters: int | None) -> str:
    """Whose sizes a recommendation is for; those of XTTS v2 where the base is not on this machine yet."""
    if num_parameters is None:
        return _("Planned for XTTS v2: {base} is not on this machine yet.", base=base)
    return _("Planned for base {base}, {size} M parameters.", base=base, size=f"{num_parameters / 1e6:.1f}")


def resumed(epochs: int | None) -> str:
    """A stopped run that resumes; to more epochs, where that was requested."""
    if epochs is None:
        return _("The run resumes from its last checkpoint.")
    return _("The run resumes from its last checkpoint and trains up to epoch {epoch}.", epoch=epochs)


STARTED_WORDS = {
    "precision": _("Precision"),
    "device": _("Device"),
    "clips": _("Clips"),
    "eval_clips": _("Held-out clips"),
}
STARTING, STARTING_HELP = _("starting"), _("loading libraries")
ENDED = {
    "stopped": _("Stopped. All checkpoints and logs are kept."),
    "failed": _("Failed:"),
    "lost": _("The process ended without a message:"),
}
UTILIZATION = _("{percent} % utilization")


def gpu_use(own: str | None, others: str, free: str) -> str:
    """Who uses a GPU's memory."""
    if own is None:
        return _("others {others}, free {free}", others=others, free=free)
    return _("this run {own}, others {others}, free {free}", own=own, others=others, free=free)


MEMORY_USE = _("{used} of {total} in use")


def no_gpu(why: str) -> str:
    """Where there is no GPU."""
    if why:
        return _("There is no GPU: {reason}. Training runs on the CPU.", reason=engine_text(why))
    return _("There is no GPU. Training runs on the CPU.")


MEMORY_PEAK = _("peak {most}")
LOWEST = _("lowest evaluation: {loss} at step {step}")


def start_from_run(name: str, which: str) -> str:
    """A checkpoint of an earlier run in the list of what to start from."""
    words = _("run {name}, best checkpoint") if which == "best" else _("run {name}, last checkpoint")
    return words.format(name=name)


def checkpoint_choice(which: str, score: float | None) -> str:
    """A checkpoint that can be exported, with how well it speaks where that was measured."""
    name = BEST if which == "best" else LAST
    return name if score is None else _("{checkpoint} (speech score {score:.2f} of 3)", checkpoint=name, score=score)


def training_caption(step: int, steps: int | None, epoch: int | None, epochs: int | None, best: float | None) -> str:
    """How far training is."""
    words = [_("step {progress}", progress=count_of(step, steps))]
    if epoch is not None:
        words.append(_("epoch {progress}", progress=count_of(epoch + 1, epochs)))
    if best is not None:
        words.append(_("best evaluation loss {loss:.3f}", loss=best))
    return " · ".join(words)


SPOKEN_AT = _("after step {step:,}")


def default_of(value: object, base: str) -> str:
    """What an empty field means; of a base's name only the name, because the field is narrow."""
    if value is None:
        return _("automatic")
    return _("{value} ({base})", value=value, base=base.split(" (")[0])


def applied(value: str, source: str) -> str:
    """A setting that a run got, and from whom: "you", or "base NAME"."""
    kind, _space, name = source.partition(" ")
    by = _("you") if kind == "you" else _("base {name}", name=name) if kind == "base" else source
    return f"{value} ({by})"


NO_START = _("training cannot start from {name!r}")
NO_PURPOSE = _("unknown purpose {name!r}")
SETTINGS_FROM = _("Settings of {name}, now set in the form")
SETTINGS_LEFT = _("This version does not have these settings any more: {names}")
FIT_TITLE = _("Will it fit?")
NEEDED_BY_RUN, FITS = _("this training, by calculation"), _("It should fit.")
MEMORY_LIMIT = _("limit")


def device_memory(device: str) -> str:
    """Whose memory a training takes."""
    return _("GPU memory") if device == "cuda" else SYSTEM_MEMORY


NEEDED_OF = _("needs about {needed}; {budget} can be planned for, the limit is {total}")
NEEDED_OF_HOST = _("System memory for the optimizer: {needed} of {budget}")


def fits_not(device: str) -> str:
    """What helps a training that does not fit."""
    if device == "cuda":
        return _("It probably does not fit: use a smaller batch, gradient checkpointing or 8-bit AdamW, or Recommend.")
    return _("It probably does not fit: close other programs, use a smaller batch or LoRA, or Recommend.")
