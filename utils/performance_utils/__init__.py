"""Measure and tune training: the largest batch that fits, throughput, torch's settings, loaders, the machine."""

from utils.errors import is_out_of_memory
from utils.performance_utils.arithmetic import least_s, peak_flops, product_s, useful_flops
from utils.performance_utils.batch_size import BatchSizeOptimizer
from utils.performance_utils.memory import memory_errors
from utils.performance_utils.settings import log_performance_info, log_system_info, optimize_torch_settings
from utils.performance_utils.tracker import PerformanceTracker, timed, timing

__all__ = [
    "BatchSizeOptimizer",
    "PerformanceTracker",
    "is_out_of_memory",
    "least_s",
    "log_performance_info",
    "log_system_info",
    "memory_errors",
    "optimize_torch_settings",
    "peak_flops",
    "product_s",
    "timed",
    "timing",
    "useful_flops",
]
