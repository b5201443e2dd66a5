"""Stage `export`: the trained parts in the published layout, every file the server and the reference need."""
import argparse
import json
import os
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import nn

import codec
import config
import dialogues
import natural
import talker as talker_stage
import thinker as thinker_stage
import vocoder as vocoder_stage
from common import CHECKPOINT, CODEBOOKS, LEAD_FRAMES, MAX_CHARS, SAMPLE_RATE, SEED, WORK, setup, write_json

SILENT_FRAMES = LEAD_FRAMES + (natural.DELAY + natural.BEFORE) // natural.UNIT      # of audio before the first sound
EMBEDDING = "thinker.model.embed_tokens.weight"
GENERATION = dict(talker_max_new_tokens=1024, talker_repetition_penalty=1.0, talker_temperature=0.3, talker_top_k=20,
                  talker_top_p=1.0, subtalker_dosample=True, subtalker_temperature=0.4, subtalker_top_k=20, subtalker_top_p=1.0)
VOICE_INFO = {"aria": ("Aria", "A woman's voice, warm and lively."), "basil": ("Basil", "A man's voice, calm and low.")}


def fold_case(table):
    """Capitals get the rows of their small letters: case folding inside the embedding table."""
    out = table.clone()
    out[ord("A"):ord("Z") + 1] = table[ord("a"):ord("z") + 1]
    return out


def attention_weights(prefix, layer):
    a = layer.attn
    return {f"{prefix}.input_layernorm.weight": layer.norm1, f"{prefix}.post_attention_layernorm.weight": layer.norm2,
            f"{prefix}.self_attn.q_norm.weight": a.q_norm, f"{prefix}.self_attn.k_norm.weight": a.k_norm,
            **{f"{prefix}.self_attn.{n}_proj.weight": getattr(a, n) for n in "qkvo"}}


def mlp_weights(prefix, gate, up, down):
    return {f"{prefix}.gate_proj.weight": gate, f"{prefix}.up_proj.weight": up, f"{prefix}.down_proj.weight": down}


def talker_weights(m):
    """Our parameters under the published names (below `talker.`)."""
    t = config.TALKER
    out = {"model.codec_embedding.weight": m.codec_embedding, "codec_head.weight": m.codec_head, "model.norm.weight": m.stack.norm,
           "text_projection.linear_fc1.weight": m.fc1.weight, "text_projection.linear_fc1.bias": m.fc1.bias,
           "text_projection.linear_fc2.weight": m.fc2.weight, "text_projection.linear_fc2.bias": m.fc2.bias,
           "code_predictor.model.norm.weight": m.predictor.norm}

    for i, layer in enumerate(m.stack.layers):
        out.update(attention_weights(f"model.layers.{i}", layer))
        e, prefix = layer.mlp, f"model.layers.{i}.mlp"
        for k in range(t["experts"] + 1):
            rows = slice(k * t["expert"], (k + 1) * t["expert"] if k < t["experts"] else None)
            name = f"{prefix}.experts.{k}" if k < t["experts"] else f"{prefix}.shared_expert"
            out.update(mlp_weights(name, e.gate[rows], e.up[rows], e.down[:, rows]))
        out.update({f"{prefix}.gate.weight": e.router, f"{prefix}.shared_expert_gate.weight": e.shared_gate})
    for i, layer in enumerate(m.predictor.layers):
        prefix = f"code_predictor.model.layers.{i}"
        out.update(attention_weights(prefix, layer))
        out.update(mlp_weights(f"{prefix}.mlp", layer.mlp.gate, layer.mlp.up, layer.mlp.down))
    for g in range(CODEBOOKS - 1):
        out[f"code_predictor.model.codec_embedding.{g}.weight"] = m.residual_embedding[g]
        out[f"code_predictor.lm_head.{g}.weight"] = m.heads[g]
    return {f"talker.{k}": v.detach() for k, v in out.items()}


def thinker_weights(m):
    """The same for the thinker (below `thinker.`)."""
    t = config.THINKER
    out = {"model.embed_tokens.weight": m.table(), "model.norm.weight": m.norm, "lm_head.weight": m.head}
    for i, layer in enumerate(m.layers):
        e, prefix = layer.mlp, f"model.layers.{i}"
        out.update(attention_weights(prefix, layer))
        out[f"{prefix}.mlp.gate.weight"] = e.router
        for k in range(t["experts"]):
            rows = slice(k * t["expert"], (k + 1) * t["expert"])
            out.update(mlp_weights(f"{prefix}.mlp.experts.{k}", e.gate[rows], e.up[rows], e.down[:, rows]))
    return {f"thinker.{k}": v.detach() for k, v in out.items()}


def placeholder(model):
    """Small seeded values for the parts nobody has trained; the ears end in zeros, so that the thinker sees every audio alike."""
    g = torch.Generator().manual_seed(SEED)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.dim() > 1:
                p.copy_(torch.randn(p.shape, generator=g) * 0.02)
            else:
                nn.init.ones_(p) if "norm" in name and name.endswith("weight") or "ln_" in name and name.endswith("weight") else nn.init.zeros_(p)
        model.thinker.audio_tower.proj2.weight.zero_()


def voice_weights(folder, voices):
    """Talker, predictor, code2wav and their text rows: from the folder `voices`, or from the training state; code2wav that was not trained is that of `folder`."""
    if voices:
        tensors = load_file(str(Path(voices) / "model.safetensors"))
        return {k: v.float() for k, v in tensors.items() if k.startswith(("talker.", "code2wav.")) or k == EMBEDDING}
    talker = talker_stage.load().cpu()
    if (WORK / "vocoder.pt").exists():
        code2wav = {f"code2wav.{k}": v for k, v in vocoder_stage.load().cpu().state_dict().items()}
    else:
        assert codec.made_for(folder), "the code2wav of this folder plays another codec's codes: run the stage vocoder first"
        code2wav = {k: v for k, v in voice_weights(folder, folder).items() if k.startswith("code2wav.")}
    return {**talker_weights(talker), EMBEDDING: fold_case(talker.text.detach()), **code2wav}


def thinker_of(folder, paths=None):
    """The mean of the states and checkpoints `paths`; the state of the stage; or, if there is none, the thinker that the folder has."""
    if not paths and not (WORK / "thinker.pt").exists():
        return thinker_stage.load_folder(folder).cpu()
    known = lambda p: thinker_stage.load_folder(p) if p and p.is_dir() else thinker_stage.load(p)
    return thinker_stage.mean([known(p).cpu() for p in paths or [None]])


def export(folder, dtype, voices=None, thinker_paths=None):
    from transformers import Qwen3OmniMoeForConditionalGeneration, WhisperFeatureExtractor
    setup()
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    model = Qwen3OmniMoeForConditionalGeneration(config.omni_config()).float()
    placeholder(model)
    state = model.state_dict()
    new = voice_weights(folder, voices)
    thinker = thinker_of(folder, thinker_paths)
    rows = thinker.frozen
    assert torch.equal(thinker.fixed[rows].to(dtype), new[EMBEDDING][rows].to(dtype)), "the thinker was trained on the rows of other voices"
    new.update(thinker_weights(thinker))
    for k, v in new.items():
        assert state[k].shape == v.shape, (k, state[k].shape, v.shape)
    trained = {k for k in state if k.startswith(("talker.", "code2wav.", "thinker.model.", "thinker.lm_head"))} - set(new)
    assert all("hidden_projection" in k for k in trained), trained
    state.update(new)
    tensors = {k: v.to(dtype).contiguous().clone() for k, v in state.items()}
    save_file(tensors, folder / "model.safetensors.tmp", metadata={"format": "pt"})
    os.chmod(folder / "model.safetensors.tmp", 0o644)
    os.replace(folder / "model.safetensors.tmp", folder / "model.safetensors")
    described = config.config_json()
    name = str(dtype).split(".")[1]
    described["torch_dtype"] = described["dtype"] = name
    (folder / "config.json").write_text(json.dumps(described, indent=1, sort_keys=True, default=list) + "\n")
    ids = config.token_ids()
    write_json(folder / "generation_config.json", dict(
        do_sample=False, eos_token_id=ids["<|im_end|>"], pad_token_id=ids["<|endoftext|>"], thinker_max_new_tokens=256,
        thinker_eos_token_id=ids["<|im_end|>"], **GENERATION))
    config.save_tokenizer(folder)
    WhisperFeatureExtractor(feature_size=128, sampling_rate=16000, hop_length=160, n_fft=400, chunk_length=300).save_pretrained(folder)
    write_json(folder / "omni.json", dict(
        name="omni-embedded", description="Two small English voices and a very small chat model, without any download.",
        languages=["en-US"], text_normalization="en", speakable_characters="abcdefghijklmnopqrstuvwxyz .,?!'-:;",
        sample_rate=SAMPLE_RATE, leading_silence_frames=SILENT_FRAMES, max_characters=MAX_CHARS,
        voices=[dict(id=v, display_name=n, description=d) for v, (n, d) in VOICE_INFO.items()],
        chat=dict(max_context_tokens=dialogues.CONTEXT, repetition=dict(min_pattern=12, max_pattern=64, count=2)), license="Apache-2.0"))
    if not voices:
        codec.keep(codec.load(), folder.parent / codec.KEPT.name)
    size = lambda prefix: sum(v.numel() * v.element_size() for k, v in tensors.items() if k.startswith(prefix))
    print("bytes", {p: size(p) for p in ("thinker", "talker.code_predictor", "talker", "code2wav")},
          "file", (folder / "model.safetensors").stat().st_size)


if __name__ == "__main__":
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--out", default=CHECKPOINT)
    ap.add_argument("--dtype", default="bfloat16", choices=("bfloat16", "float16"))
    ap.add_argument("--voices", type=Path, help="take talker, predictor and code2wav over from this checkpoint")
    ap.add_argument("--thinker", type=Path, nargs="+", help="state of the thinker, or a checkpoint (default: the stage's state); of several, their mean")
    a = ap.parse_args()
    export(a.out, getattr(torch, a.dtype), a.voices, a.thinker)
