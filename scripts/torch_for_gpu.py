"""Install the build of PyTorch that this computer's GPU needs, where the present one lacks its kernels or CUDA.

start.bat calls it: PyTorch from PyPI has no CUDA on Windows. To try it: python -m scripts.torch_for_gpu
"""

import subprocess
import sys

from utils.hardware.machine import this_machine
from utils.hardware.wheel import best_wheel, needed_driver, torch_build


def main() -> int:
    machine = this_machine()
    if machine.gpu is None or machine.gpu.capability is None:
        print(f"No NVIDIA GPU found ({machine.gpu_reason}): computing on the processor")
        return 0
    for problem in machine.gpu_problems:
        print(problem)
    wheel = best_wheel(machine.gpu.capability, machine.gpu)
    if wheel is None or not machine.gpu_problems or wheel == torch_build().wheel:
        return 0
    print(f"{wheel.install}\nIt needs the NVIDIA driver {needed_driver(wheel.cuda)} or newer.", flush=True)
    return subprocess.call([sys.executable, "-m", *wheel.install.split()])


if __name__ == "__main__":
    raise SystemExit(main())
