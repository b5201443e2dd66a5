"""Inference in plain torch: batches of texts through talker, code predictor and vocoder."""
import numpy as np
import torch
from safetensors.torch import load_file

import export
import talker as talker_stage
import vocoder as vocoder_stage
from common import CODEBOOK_SIZE, CODEBOOKS, SMOKE, device
from talker import Cache, Prompt, choose, residuals


def load_checkpoint_folder(folder):
    """(talker, vocoder) in float32 from an exported checkpoint: the rounded weights, as served."""
    tensors = load_file(str(folder / "model.safetensors"))
    talker = talker_stage.Talker(phonemes=1)         # the phoneme heads are not exported
    with torch.no_grad():
        for name, view in export.talker_weights(talker).items():
            view.copy_(tensors[name])
        talker.text.copy_(tensors["thinker.model.embed_tokens.weight"])
    vocoder = vocoder_stage.build()
    vocoder.load_state_dict({k.removeprefix("code2wav."): v.float() for k, v in tensors.items() if k.startswith("code2wav.")})
    return talker.to(device()).eval(), vocoder.to(device()).eval()


def limit_frames(text):
    return 20 if SMOKE else min(1000, 60 + 10 * len(text))


@torch.no_grad()
def generate(model, texts, voices, temperature=0.0, top_k=20, penalty=1.0, sub_temperature=0.0, sub_top_k=20, seed=1, user=""):
    """-> [codes [frames, CODEBOOKS] per text]; a text that never reaches EOS is cut at its limit."""
    prompt, b, dev = Prompt(), len(texts), device()
    generator = torch.Generator(dev).manual_seed(seed)
    limit = max(limit_frames(t) for t in texts)
    tokens = [prompt.encode(t) for t in texts]
    head = [prompt.header(v, t[0]) for v, t in zip(voices, tokens)]
    user_ids = prompt.user(user)
    tracks = torch.tensor([prompt.track(t, limit) for t in texts], device=dev)
    table = model.text_table()
    text = torch.tensor([user_ids + h[0] for h in head], device=dev)
    codec = torch.tensor([[-1] * len(user_ids) + h[1] for h in head], device=dev)
    x = table[text] + model.codec_embedding[codec.clamp(min=0)] * (codec >= 0).unsqueeze(-1)
    cache = Cache(x.shape[1] + limit + 1)
    seen = torch.zeros(b, CODEBOOK_SIZE + 1, dtype=torch.bool, device=dev)
    ended = [None] * b
    frames = []
    for k in range(limit):
        hidden = model.stack(x, cache)[0][:, -1]
        logits = hidden @ model.codec_head[model.classes].T
        if penalty != 1.0:
            logits = torch.where(seen, torch.where(logits < 0, logits * penalty, logits / penalty), logits)
        c0 = choose(logits, temperature, top_k, generator)
        for i in (c0 == CODEBOOK_SIZE).nonzero()[:, 0].tolist():
            if ended[i] is None:
                ended[i] = k
        if all(e is not None for e in ended):
            break
        seen[torch.arange(b), c0] = True
        c0 = c0.clamp(max=CODEBOOK_SIZE - 1)
        codes = torch.cat([c0[:, None], residuals(model, hidden, c0, sub_temperature, sub_top_k, generator)], 1)
        frames.append(codes)
        x = (model.code_sum(codes) + table[tracks[:, k]])[:, None]
    stacked = torch.stack(frames, 1).cpu().numpy() if frames else np.zeros((b, 0, CODEBOOKS), np.int64)
    return [stacked[i, :(ended[i] if ended[i] is not None else min(limit_frames(texts[i]), stacked.shape[1]))] for i in range(b)]


def generate_all(model, texts, voices, batch=50, **options):
    """The same for many texts, in batches of similar length, results in the given order."""
    order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
    result = [None] * len(texts)
    for at in range(0, len(order), batch):
        group = order[at:at + batch]
        for i, c in zip(group, generate(model, [texts[i] for i in group], [voices[i] for i in group], **options)):
            result[i] = c
    return result
