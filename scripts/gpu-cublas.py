#!/usr/bin/env python3
"""Times cuBLAS, through PyTorch, on the matrix products of a published model in bf16: what own products are compared with.

The shapes are counted from the model's configuration (models/src/random), as the networks count them. Each product has a weight for every time it is
computed in turn, more of them than the second-level cache holds, and all are one CUDA graph, so that neither the cache nor launching shows. The
experts of a mixture and attention itself are not among them: they are no single products. Prints Markdown; ends with 3 where there is no PyTorch or no device.
"""

import argparse
import json
import pathlib
import sys
import time

MODELS = pathlib.Path(__file__).resolve().parent.parent / "models/src/random"
# Bytes of weights that are read in turn: more than the second-level cache of any device.
IN_TURN = 512 << 20
# Products in a graph, most: weights of half a megabyte and more exceed the cache, smaller ones may stay in it.
MOST = 1024
# Graphs that are timed, after some that are not.
REPLAYS = 10


def attention(part, config, head_dim):
    width, heads, kv = config["hidden_size"], config["num_attention_heads"], config["num_key_value_heads"]
    yield f"{part} queries, keys, values", (heads + 2 * kv) * head_dim, width
    yield f"{part} out", width, heads * head_dim


def ffn(part, width, inner):
    yield f"{part} gate and up", 2 * inner, width
    yield f"{part} down", width, inner


def token_loop(talker, predictor, text, inner):
    """Products of the talker and of the predictor: name, outputs, inputs. `text` and `inner` are the widths of text embeddings and in their projection."""
    width = talker["hidden_size"]
    yield "text projection, first", inner, text
    yield "text projection, second", width, inner
    yield from attention("talker", talker, talker["head_dim"])
    if "num_experts" in talker:
        # One matrix with the shared expert's gate.
        yield "talker router", talker["num_experts"] + 1, width
        yield from ffn("talker shared expert", width, talker["shared_expert_intermediate_size"])
    else:
        yield from ffn("talker", width, talker["intermediate_size"])
    yield "talker head", talker["vocab_size"], width
    if predictor["hidden_size"] != width:
        yield "predictor projection", predictor["hidden_size"], width
    yield from attention("predictor", predictor, predictor["head_dim"])
    yield from ffn("predictor", predictor["hidden_size"], predictor["intermediate_size"])
    yield "predictor head", predictor["vocab_size"], predictor["hidden_size"]


def vocoder(config):
    """Products of the vocoder: name, rows of a frame, outputs, inputs. A convolution is a product of windows of rows."""
    width, channels = config["hidden_size"], config["decoder_dim"]
    latent = config.get("latent_dim", width)
    head_dim = config.get("head_dim", width // config["num_attention_heads"])
    if "codebook_dim" in config:
        codes = config["codebook_dim"]
        yield "quantizer out", 1, codes, codes // 2
        yield "quantizer convolution", 1, latent, 3 * codes
        yield "transformer in", 1, width, latent
        yield "transformer out", 1, latent, width
    for name, outputs, inputs in attention("vocoder", config, head_dim):
        yield name, 1, outputs, inputs
    for name, outputs, inputs in ffn("vocoder", width, config["intermediate_size"]):
        yield name, 1, outputs, inputs
    rows = 1
    for factor in config["upsampling_ratios"]:
        yield f"upsampling {factor}", rows, factor * latent, latent
        rows *= factor
        yield "upsampling, wider", rows, 4 * latent, latent
        yield "upsampling, narrower", rows, latent, 4 * latent
    yield "decoder entry", rows, channels, 7 * latent
    for rate in config["upsample_rates"]:
        half = channels // 2
        yield f"decoder {channels} to {half}, transposed", rows, rate * half, 2 * channels
        rows, channels = rows * rate, half
        yield f"decoder {channels}, kernel 7", rows, channels, 7 * channels
        yield f"decoder {channels}, kernel 1", rows, channels, channels
    yield "decoder exit", rows, 1, 7 * channels


def shapes(name, batches, frames):
    """Products of the model: name, rows, outputs, inputs, each once."""
    config = json.loads((MODELS / f"{name}.json").read_text())
    talker = config["talker_config"]
    predictor = talker["code_predictor_config"]
    codec = config.get("code2wav_config")
    if codec is None:
        codec = json.loads((MODELS / "qwen3-tts-codec.json").read_text())["decoder_config"]
    if "text_config" in talker:
        net, text = talker["text_config"], talker["thinker_hidden_size"]
        inner = net["intermediate_size"]
    else:
        net, text = talker, talker["text_hidden_size"]
        inner = text
    products = []
    for product, outputs, inputs in token_loop(net, predictor, text, inner):
        # The predictor's first pass has two rows of each sequence, and no head for the first of them.
        passes = [1, 2] if product.startswith("predictor") and product != "predictor head" else [1]
        products += [(product, each * rows, outputs, inputs) for rows in batches for each in passes]
    products += [
        (product, count * each, outputs, inputs) for product, each, outputs, inputs in vocoder(codec) for count in frames
    ]
    return list(dict.fromkeys(products))


def timed(torch, rows, outputs, inputs):
    """Seconds of one product."""
    weight_bytes = 2 * outputs * inputs
    count = max(2, min(MOST, IN_TURN // weight_bytes))
    weights = [torch.randn(outputs, inputs, device="cuda", dtype=torch.bfloat16) for _ in range(count)]
    x = torch.randn(rows, inputs, device="cuda", dtype=torch.bfloat16)
    out = torch.empty(rows, outputs, device="cuda", dtype=torch.bfloat16)

    def all_of_them():
        for weight in weights:
            torch.mm(x, weight.t(), out=out)

    aside = torch.cuda.Stream()
    with torch.cuda.stream(aside):
        all_of_them()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        all_of_them()
    for _ in range(3):
        graph.replay()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(REPLAYS):
        graph.replay()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / 1e3 / REPLAYS / count


def numbers(text):
    return [int(number) for number in text.split(",")]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="qwen3-omni-30b-a3b", help="a file of models/src/random, without .json")
    parser.add_argument("--batches", type=numbers, default=[1, 16, 64], help="rows of the talker's and the predictor's products")
    parser.add_argument("--frames", type=numbers, default=[8, 64], help="frames of a pass of the vocoder")
    parser.add_argument("--seconds", type=float, default=60, help="what is not begun by then is left out")
    parser.add_argument("--shapes", action="store_true", help="print the shapes and time nothing")
    asked = parser.parse_args()
    products = shapes(asked.model, asked.batches, asked.frames)
    if asked.shapes:
        for product in products:
            print("\t".join(map(str, product)))
        return 0
    try:
        import torch
    except ImportError as error:
        print(f"error: there is no PyTorch: {error}", file=sys.stderr)
        return 3
    if not torch.cuda.is_available():
        print("error: PyTorch has no device", file=sys.stderr)
        return 3
    print(f"# cuBLAS on the products of {asked.model}, bf16\n")
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, CUDA {torch.version.cuda}\n")
    print("| product | rows | outputs | inputs | us | TFLOP/s | GB/s |\n|---|--:|--:|--:|--:|--:|--:|")
    begun, left_out = time.monotonic(), 0
    for name, rows, outputs, inputs in products:
        if time.monotonic() - begun > asked.seconds:
            left_out += 1
            continue
        seconds = timed(torch, rows, outputs, inputs)
        rate = 2 * rows * outputs * inputs / seconds / 1e12
        speed = 2 * (rows * inputs + outputs * inputs + rows * outputs) / seconds / 1e9
        print(f"| {name} | {rows} | {outputs} | {inputs} | {1e6 * seconds:.2f} | {rate:.2f} | {speed:.0f} |", flush=True)
    print(f"\n{len(products) - left_out} products, {left_out} left out for lack of time.")
    return 4 if left_out else 0


if __name__ == "__main__":
    sys.exit(main())
