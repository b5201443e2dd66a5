"""Stage `verify`: the exported folder loads in the reference class and says exactly what our inference says.

Also writes the goldens for the server's tests: token ids, greedy codes and waveform of a few texts,
computed by the reference in float32 from the rounded weights.
"""
import argparse
import json
import os
from pathlib import Path

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import numpy as np
import torch
from safetensors.torch import save_file
from transformers import AutoTokenizer, Qwen3OmniMoeForConditionalGeneration

from common import CHECKPOINT, GOLDENS, setup, write_json
from generate import generate, load_checkpoint_folder
from talker import Prompt
from vocoder import decode

TEXTS = [("hello there.", "aria"), ("the user asked the system: are you ready?", "basil"),
         ("it's a small voice, but it speaks at once.", "aria")]


def reference_codes(model, ids, speaker, penalty, limit):
    """Greedy codes of the reference classes for prompt + text given as one forced thinker sequence."""
    talker, thinker = model.talker, model.thinker
    cfg = model.config
    embed = thinker.get_input_embeddings()(torch.tensor([ids]))
    project = talker.text_projection
    special = project(thinker.get_input_embeddings()(torch.tensor([[cfg.tts_bos_token_id, cfg.tts_eos_token_id, cfg.tts_pad_token_id]])))
    bos, eos, pad = special.chunk(3, 1)
    start = len(ids) - 1 - ids[::-1].index(cfg.im_start_token_id)
    user = project(embed[:, :start])
    rows, _, trailing = model._get_talker_assistant_parts(start, len(ids), cfg.talker_config.speaker_id[speaker], embed, pad, bos, eos)
    suppress = [i for i in range(cfg.talker_config.text_config.vocab_size - 1024, cfg.talker_config.text_config.vocab_size)
                if i != cfg.talker_config.codec_eos_token_id]
    predictor = talker.code_predictor
    original = predictor.generate
    predictor.generate = lambda *a, **k: original(*a, **{**{n: v for n, v in k.items() if n not in ("top_k", "top_p")}, "do_sample": False})
    try:
        talker.rope_deltas = None
        prefill = torch.cat([user, rows], 1)
        result = talker.generate(
            inputs_embeds=prefill, talker_input_ids=torch.tensor([[cfg.tts_pad_token_id] * prefill.shape[1]]), trailing_text_hidden=trailing,
            tts_pad_embed=pad, attention_mask=torch.ones(1, prefill.shape[1], dtype=torch.long), do_sample=False, repetition_penalty=penalty,
            suppress_tokens=suppress, eos_token_id=cfg.talker_config.codec_eos_token_id, max_new_tokens=limit,
            output_hidden_states=True, return_dict_in_generate=True)
    finally:
        predictor.generate = original
    return torch.stack([h[-1] for h in result.hidden_states if h[-1] is not None], 1)[0]


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--checkpoint", type=Path, default=CHECKPOINT)
    ap.add_argument("--goldens", type=Path, default=GOLDENS)
    ap.add_argument("--frames", type=int, default=200)
    args = ap.parse_args()
    setup()
    model, info = Qwen3OmniMoeForConditionalGeneration.from_pretrained(args.checkpoint, dtype=torch.float32, output_loading_info=True)
    assert not info["missing_keys"] and not info["unexpected_keys"] and not info["mismatched_keys"], info
    model.eval()
    talker, vocoder = load_checkpoint_folder(args.checkpoint)
    g = json.loads((args.checkpoint / "generation_config.json").read_text())
    penalty = g["talker_repetition_penalty"]
    slow = AutoTokenizer.from_pretrained(args.checkpoint)
    tensors, described = {}, []
    with torch.no_grad():
        for n, (text, voice) in enumerate(TEXTS):
            chat = f"<|im_start|>user\n<|im_end|>\n<|im_start|>assistant\n{text}"
            ids = Prompt().encode(chat)
            assert slow(chat)["input_ids"] == ids, "tokenizer.json and the reference tokenizer disagree"
            theirs = reference_codes(model, ids, voice, penalty, args.frames + 1)
            ours = torch.from_numpy(generate(talker, [text], [voice], penalty=penalty)[0][:args.frames].astype(np.int64))
            same = theirs.shape == ours.shape and bool((theirs == ours).all())
            wav = model.code2wav(theirs.T[None])[0, 0]
            diff = float(np.abs(decode(vocoder, theirs) - wav.numpy()).max())
            print(f"{voice}: {text!r}: {len(theirs)} frames, codes equal: {same}, waveform differs by {diff:.1e}")
            assert same and diff < 1e-4
            tensors.update({f"{n}.input_ids": torch.tensor(ids, dtype=torch.int32), f"{n}.codes": theirs.to(torch.int32).contiguous(),
                            f"{n}.wav": wav.clone()})
            described.append(dict(text=text, voice=voice, frames=len(theirs), samples=len(wav)))
    args.goldens.mkdir(parents=True, exist_ok=True)
    save_file(tensors, args.goldens / "goldens.safetensors")
    os.chmod(args.goldens / "goldens.safetensors", 0o644)
    write_json(args.goldens / "goldens.json", dict(repetition_penalty=penalty, greedy=True, max_frames=args.frames, cases=described))
    print("goldens", (args.goldens / "goldens.safetensors").stat().st_size, "bytes")


if __name__ == "__main__":
    main()
