"""What a process that computes with torch wants in its environment, to be set before torch is loaded."""

TORCH_ENVIRONMENT = {
    # Threads that wait by spinning make steps ten times slower where other programs run too.
    "OMP_WAIT_POLICY": "PASSIVE",
    # Large tensors in large pages: faults for fresh small ones took a tenth of a training step on a CPU.
    "THP_MEM_ALLOC_ENABLE": "1",
}
"""Variables and their values; the user's own win."""
