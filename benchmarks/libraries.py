"""Compare libraries that multiply a code's products on a CPU: python -m benchmarks.libraries.

Once, to choose: the GPT's 120 linear layers at full size, for 1, 4 and 8 sentences at a time, by PyTorch's kernels as
`utils.inference.products` prepares them, torchao, onnxruntime and ctranslate2; the last one decodes whole codes,
attention and all, so its row is an upper bound of its products. Random weights, one thread, median of the runs; the
error is that of the last layer's output against float32. Needs onnx and torchao beside the requirements; what is not
installed is listed as such.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from utils.hardware.processor import cpu
from utils.inference.products import product

RESULTS = Path(__file__).parent / "results" / "libraries.json"
LAYERS, WIDTH = 30, 1024
SIZES = ((WIDTH, 3 * WIDTH), (WIDTH, WIDTH), (WIDTH, 4 * WIDTH), (4 * WIDTH, WIDTH))
"""Inputs and outputs of a block's layers."""
BATCHES = (1, 4, 8)
RUNS = 5
CODES = 40
"""Decoded by ctranslate2 in each run."""
BLOCK = 32
"""Weights of one scale in onnxruntime's MatMulNBits."""

Weights = list[tuple[Tensor, Tensor]]
Step = Callable[[int], Any]
"""Multiplies all layers once for so many rows."""


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows: dict[str, dict[str, float | str]] = {}
    for name, make in CANDIDATES.items():
        torch.manual_seed(0)
        weights = [(torch.randn(o, i) / i**0.5, torch.zeros(o)) for _ in range(LAYERS) for i, o in SIZES]
        try:
            step, scale = make(weights)
        except (ImportError, RuntimeError, NotImplementedError) as error:
            rows[name] = {"missing": str(error).splitlines()[0]}
        else:
            del weights
            rows[name] = {f"{num} rows, ms": 1000 * _median(step, num) / scale for num in BATCHES}
        print(name, rows[name], flush=True)
    record = {"processor": cpu().model, "torch": torch.__version__, "rows": rows}
    options.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def _median(step: Step, num: int) -> float:
    step(num)
    times = []
    for _ in range(RUNS):
        begun = time.process_time()
        step(num)
        times.append(time.process_time() - begun)
    return statistics.median(times)


def _inputs() -> Iterator[tuple[int, dict[int, Tensor]]]:
    for num in BATCHES:
        yield num, {width: torch.randn(num, width) for width in (WIDTH, 4 * WIDTH)}


def _ours(precision: Any) -> Callable[[Weights], tuple[Step, int]]:
    def make(weights: Weights) -> tuple[Step, int]:
        products = [(weight.size(1), product(weight, bias, precision)) for weight, bias in weights]
        inputs = dict(_inputs())

        def step(num: int) -> None:
            for width, multiply in products:
                multiply(inputs[num][width])

        return torch.inference_mode()(step), 1

    return make


def _torchao(config: str) -> Callable[[Weights], tuple[Step, int]]:
    def make(weights: Weights) -> tuple[Step, int]:
        import torchao.quantization as quantization

        layers = nn.ModuleList()
        for weight, bias in weights:
            layer = nn.Linear(weight.size(1), weight.size(0))
            layer.weight.data, layer.bias.data = weight, bias
            layers.append(layer)
        quantization.quantize_(layers, getattr(quantization, config)())
        inputs = dict(_inputs())

        def step(num: int) -> None:
            for layer in layers:
                layer(inputs[num][layer.in_features])

        return torch.inference_mode()(step), 1

    return make


def _onnxruntime(bits: int) -> Callable[[Weights], tuple[Step, int]]:
    def make(weights: Weights) -> tuple[Step, int]:
        import onnx
        import onnxruntime

        nodes, initial = [], []
        for number, (weight, _) in enumerate(weights):
            rows, cols = weight.shape
            blocks = weight.view(rows, cols // BLOCK, BLOCK)
            largest = 2 ** (bits - 1)
            scales = blocks.abs().amax(2) / (largest - 1)
            levels = (blocks / scales[:, :, None]).round().add(largest).to(torch.uint8)
            if bits == 4:
                levels = levels[:, :, ::2] | (levels[:, :, 1::2] << 4)
            initial += [
                onnx.numpy_helper.from_array(levels.numpy(), f"w{number}"),
                onnx.numpy_helper.from_array(scales.numpy().reshape(-1), f"s{number}"),
            ]
            # Level 4: the inputs are rounded to 8 bits as well, and products are those of 8-bit numbers.
            nodes.append(
                onnx.helper.make_node(
                    "MatMulNBits",
                    [f"x{cols}", f"w{number}", f"s{number}"],
                    [f"y{number}"],
                    domain="com.microsoft",
                    K=cols,
                    N=rows,
                    bits=bits,
                    block_size=BLOCK,
                    accuracy_level=4,
                )
            )
        kind = onnx.TensorProto.FLOAT
        graph = onnx.helper.make_graph(
            nodes,
            "products",
            [onnx.helper.make_tensor_value_info(f"x{width}", kind, [None, width]) for width in (WIDTH, 4 * WIDTH)],
            [
                onnx.helper.make_tensor_value_info(f"y{number}", kind, [None, weight.size(0)])
                for number, (weight, _) in enumerate(weights)
            ],
            initial,
        )
        versions = [onnx.helper.make_opsetid("", 20), onnx.helper.make_opsetid("com.microsoft", 1)]
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        session = onnxruntime.InferenceSession(
            onnx.helper.make_model(graph, opset_imports=versions, ir_version=10).SerializeToString(),
            options,
            providers=["CPUExecutionProvider"],
        )
        inputs = {num: {f"x{width}": value.numpy() for width, value in values.items()} for num, values in _inputs()}
        return lambda num: session.run(None, inputs[num]), 1

    return make


def _ctranslate2(kind: str) -> Callable[[Weights], tuple[Step, int]]:
    def make(weights: Weights) -> tuple[Step, int]:
        import ctranslate2
        from ctranslate2.specs import TransformerDecoderModelSpec, common_spec

        vocabulary = [f"t{number}" for number in range(1026)]
        spec = TransformerDecoderModelSpec.from_config(
            LAYERS, 16, pre_norm=True, activation=common_spec.Activation.GELUTanh
        )
        decoder, random = spec.decoder, np.random.default_rng(0)

        def norm(where: Any) -> None:
            where.gamma, where.beta = np.ones(WIDTH, np.float32), np.zeros(WIDTH, np.float32)

        def linear(where: Any, weight: Tensor) -> None:
            where.weight, where.bias = weight.numpy(), np.zeros(weight.size(0), np.float32)

        decoder.scale_embeddings = False
        decoder.embeddings.weight = random.standard_normal((1026, WIDTH), np.float32)
        decoder.position_encodings.encodings = random.standard_normal((1024, WIDTH), np.float32)
        norm(decoder.layer_norm)
        decoder.projection.weight = random.standard_normal((1026, WIDTH), np.float32)
        for number, layer in enumerate(decoder.layer):
            qkv, out, fc, last = (weight for weight, _ in weights[4 * number : 4 * number + 4])
            norm(layer.self_attention.layer_norm)
            linear(layer.self_attention.linear[0], qkv)
            linear(layer.self_attention.linear[1], out)
            norm(layer.ffn.layer_norm)
            linear(layer.ffn.linear_0, fc)
            linear(layer.ffn.linear_1, last)
        spec.register_vocabulary(vocabulary)
        spec.config.unk_token = spec.config.bos_token = spec.config.eos_token = "t0"
        folder = tempfile.TemporaryDirectory()
        spec.validate()
        spec.optimize()
        spec.save(folder.name)
        generator = ctranslate2.Generator(folder.name, compute_type=kind, inter_threads=1, intra_threads=1)

        def step(num: int) -> None:
            assert folder.name
            generator.generate_batch([["t5"]] * num, max_length=CODES, min_length=CODES, sampling_topk=1)

        return step, CODES

    return make


CANDIDATES: dict[str, Callable[[Weights], tuple[Step, int]]] = {
    **{f"products {precision}": _ours(precision) for precision in ("fp32", "bf16", "fp16", "int8")},
    "torchao int8 weights": _torchao("Int8WeightOnlyConfig"),
    "torchao int8 weights and inputs": _torchao("Int8DynamicActivationInt8WeightConfig"),
    "onnxruntime MatMulNBits, 8 bits": _onnxruntime(8),
    "onnxruntime MatMulNBits, 4 bits": _onnxruntime(4),
    "ctranslate2 float32, whole codes": _ctranslate2("float32"),
    "ctranslate2 int8, whole codes": _ctranslate2("int8_float32"),
}


if __name__ == "__main__":
    main()
