"""Words of tab 2, Fine-tuning."""

from webui.text.common import STATES, count_of

START_FROM = "Start from"
START_FROM_HELP = "The project's base model, or what an earlier run came to, to train that further as a new run."
START_FROM_BASE = "the project's base model"
START_FROM_READY = "this project's exported model"
START_FROM_FIX = "choose the base model, the exported model, or a run of this project as run/NAME/best"
NOT_EXPORTED = "this project has no exported model yet"
NOT_EXPORTED_FIX = "export one first (Step 2.5), or start from the base model"
ALL_SETTINGS = "All other settings"
STEP_2 = "Step 2 - Train Model"
OPTIMIZATIONS_TITLE = "Training Optimizations"
NOT_KNOWN = "not yet known"
MORE_OPTIMIZATIONS = "More optimizations, and what was observed"
RECOMPUTE = "What is recomputed"
RECOMPUTE_HELP = "With gradient checkpointing: everything, or only what is cheap to compute again."
RECOMPUTE_CHOICES = {"full": "everything (least memory)", "selective": "what is cheap (faster)"}
HALF = "Half precision"
HALF_HELP = "With mixed precision: what the device is fast at, or one of the two."
HALF_CHOICES = {"auto": "automatic", "bf16": "BF16", "fp16": "FP16"}
USE_CASE = "Purpose"
USE_CASES = {
    "production": "a good voice",
    "experiments": "quick experiments",
    "limited memory": "little memory",
    "maximum quality": "best quality",
    "debugging": "finding faults",
}
PREFLIGHT = "Preflight: measure the switches on this machine"
PREFLIGHT_CANCEL = "Cancel preflight"
PREFLIGHT_CANCELLED = "Preflight is cancelled."
PREFLIGHT_STARTED = "Preflight has started: a few real steps with each combination of switches."
MEASURED = "Preflight, measured on this machine with this dataset"
RECOMMEND = "Recommend for this machine"
RECOMMENDED = "Recommended for training XTTS v2 here, and set in the form"
PROOFS = "What each optimization really did"
PROOF_COLUMNS = ("Optimization", "Asked for", "Observed in this run")
NO_PROOFS = "Known once a run has made its first steps."
MEMORY_PANEL = "Memory now"
MEMORY_PLOT = "Memory in use, last minutes"
MEMORY, SYSTEM_MEMORY = "Memory", "System memory"
MINUTES, GIGABYTES = "minutes", "GB"
AUDIO_A_SECOND = "seconds of audio per second"
USED_BY_RUN, USED_BY_OTHERS = "this run", "everything else"
MEMORY_WORDS = {
    "allocated": "allocated by this run",
    "reserved": "reserved",
    "peak": "peak",
    "rss": "used by this run",
    "peak_rss": "peak",
}
RUN = "Run"
RUN_HELP = "Plots, badges, samples and log below belong to this run."
NEWEST_RUN = "the newest run"
STOP, STOP_NOW, RESUME = "Stop", "Stop at once", "Resume"
LEGEND = "curve"
STEP, LOSS = "step", "loss"
LOSS_PLOT = "Loss"
SPEED_PLOT = "Speed: seconds of audio trained on in a second"
TRAINING_LOSS, EVALUATION_LOSS = "training", "evaluation"
SAMPLES = "Spoken by the model while it trains"
LOG = "Log"
CHECKPOINT = "Checkpoint to export"
CHECKPOINT_HELP = "Best: lowest loss on the clips held out. Last: where training ended."
BEST, LAST = "best", "last"
TRAINED = "Next: listen to it in tab 3, or keep it with Step 2.5 below."
STEP_2_5 = "Step 2.5 - Optimize (export) model"
EXPORTED = "The exported model is ready: listen to it in tab 3."
ABOUT_WORDS = {
    "language": "Language",
    "run": "Run",
    "checkpoint": "Checkpoint",
    "exported": "Exported",
    "license": "Licence of the base",
    "loads_in": "Loads in",
}
NO_DATASET = "this project has no dataset yet"
NO_DATASET_FIX = "make one in tab 1 (Step 1)"
NO_DATASET_YET = "No dataset yet: make one in tab 1 first."
NO_RUN_YET = "No run yet. The settings on the left are good to start with: press Step 2."
NO_RUN = "this project has no run yet"
NO_RUN_FIX = "train one first (Step 2)"
NO_SUCH_RUN_FIX = "choose one of this project's runs in the list"
NOTHING_RUNS = "nothing is running here"
NOTHING_RUNS_FIX = "choose the run that is running"
TRAINING_STARTED = "Training has started. It goes on when this page is closed."
STOPPING = "Stopping: the step is finished and a checkpoint is written."
STOPPED_AT_ONCE = "Stopped at once; the run can go on from its last checkpoint."
EXPORT_STARTED = "The model is being exported."


def resumed(epochs: int | None) -> str:
    """A stopped run that goes on; to more epochs, where that was asked for."""
    told = f", up to epoch {epochs}" if epochs is not None else ""
    return f"The run goes on from its last checkpoint{told}."


STARTED_WORDS = {"precision": "Computed in", "device": "On", "clips": "Clips", "eval_clips": "Held out"}
STARTING, STARTING_HELP = "starting", "the libraries are being loaded"
ENDED = {
    "stopped": "It was stopped. What was written so far is kept.",
    "failed": "It failed:",
    "lost": "It ended without a word:",
}


def utilization(percent: int) -> str:
    """How busy a GPU is."""
    return f"{percent} % busy"


def gpu_use(own: str | None, others: str, free: str) -> str:
    """Who uses a GPU's memory."""
    return (f"this run {own}, " if own else "") + f"others {others}, free {free}"


def memory_use(used: str, total: str) -> str:
    """The machine's memory."""
    return f"{used} of {total} in use"


def no_gpu(why: str) -> str:
    """Where there is no GPU."""
    return f"There is no GPU: {why}. Training runs on the CPU." if why else "There is no GPU. Training runs on the CPU."


def web_process(used: str) -> str:
    """What this page itself uses."""
    return f"This page's own process uses {used}."


def run_choice(name: str, state: str) -> str:
    """A run in the list of runs."""
    return f"{name} ({STATES.get(state, state)})"


def start_from_run(name: str, which: str) -> str:
    """A checkpoint of an earlier run in the list of what to start from."""
    return f"run {name}, {BEST if which == 'best' else LAST} checkpoint"


def training_caption(step: int, steps: int | None, epoch: int | None, epochs: int | None, best: float | None) -> str:
    """How far training is."""
    words = [f"step {count_of(step, steps)}"]
    if epoch is not None:
        words.append(f"epoch {epoch + 1}" + (f" of {epochs}" if epochs else ""))
    if best is not None:
        words.append(f"best evaluation loss {best:.3f}")
    return " · ".join(words)


def spoken_at(step: int) -> str:
    """Samples of one evaluation."""
    return f"after step {step:,}"


def default_of(value: object, base: str) -> str:
    """What an empty field means; of a base's name only the name, because the field is narrow."""
    return f"{value} (base {base.split(' (')[0]})" if value is not None else "automatic"


def applied(value: str, source: str) -> str:
    """A setting that a run got, and from whom."""
    return f"{value} ({source})"


def no_start(name: object) -> str:
    """A model to start from that is not offered."""
    return f"cannot start from {name!r}"


def no_purpose(name: object) -> str:
    """A purpose that is not offered."""
    return f"there is no purpose {name!r}"
