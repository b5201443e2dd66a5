"""Stage `verify`: the exported folder loads in the reference class and says exactly what our inference says.

Also writes the goldens for the server's tests, computed by the reference in float32 from the rounded
weights: token ids, greedy codes and waveform of a few texts; token ids and greedy answers of the thinker
to a few prompts, with the logits of some positions.
"""
import argparse
import json
import os
from pathlib import Path

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer, Qwen3OmniMoeForConditionalGeneration

import dialogues
from common import CHECKPOINT, GOLDENS, SMOKE, setup, write_json
from generate import generate, load_checkpoint_folder
from thinker import load_folder
from talker import Prompt
from vocoder import decode

TEXTS = [("hello there.", "aria"), ("the user asked the system: are you ready?", "basil"),
         ("it's a small voice, but it speaks at once.", "aria")]

CHATS = [[("user", "Hello!")], [("user", "What are you?")], [("user", "How do I load a real model?")], [("user", "What does --listen do?")],
         [("user", "what does vllm:omni_audio_ttfp_s mean")], [("user", "What is 347 plus 285?")], [("user", "12*34")],
         [("system", "You are a helpful assistant."), ("user", "Count down from 12 to 5.")], [("user", "Spell parrot.")],
         [("user", "Repeat after me: seven green birds are here.")],
         [("user", "What is the capital of France?"), ("assistant", "The capital of France is Paris."), ("user", "And which day comes after Monday?")],
         [("user", "Who was Cleopatra?")]]


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


@torch.no_grad()
def thinker_goldens(model, folder, limit=200):
    """Greedy answers of the reference to CHATS, equal to ours; logits after the prompt and inside the answer."""
    thinker, ours = model.thinker, load_folder(folder)
    tok = AutoTokenizer.from_pretrained(folder)
    cases = []
    for chat in CHATS:
        prompt = dialogues.render(chat) + "<|im_start|>assistant\n"
        templated = tok.apply_chat_template([dict(role=r, content=t) for r, t in chat], tokenize=False, add_generation_prompt=True)
        assert templated == prompt, "the chat template and the training disagree"
        ids = tok(prompt)["input_ids"]
        assert Prompt().encode(prompt) == ids, "tokenizer.json and the reference tokenizer disagree"
        whole = thinker.generate(input_ids=torch.tensor([ids]), max_new_tokens=limit)[0]
        new = whole[len(ids):].tolist()
        logits = thinker(input_ids=whole[None], position_ids=None).logits[0].float()
        mine = F.linear(ours(whole[None])[0][0], ours.head)
        diff = float((mine - logits).abs().max())
        at = [len(ids) - 1, len(ids) - 1 + len(new) // 2]
        text = tok.decode(new, skip_special_tokens=True)
        print(f"{chat[-1][1]!r}: {text!r}, logits differ by {diff:.1e}")
        assert (SMOKE or new[-1] == model.config.im_end_token_id) and diff < 2e-3
        assert mine[len(ids) - 1:-1].argmax(-1).tolist() == new
        cases.append(dict(chat=[dict(role=r, text=t) for r, t in chat], prompt_ids=ids, generated_ids=new, text=text,
                          logits=[dict(position=p, values=[round(v, 4) for v in logits[p].tolist()]) for p in at]))
    return dict(greedy=True, logits_tolerance=2e-3, cases=cases)


def write_goldens(tensors, path):
    """Another processor rounds the last bit of a waveform differently: goldens that say the same are left alone."""
    known = load_file(str(path)) if path.exists() else {}
    same = lambda a, b: a.shape == b.shape and torch.allclose(a, b, rtol=0, atol=1e-5)
    if known.keys() == tensors.keys() and all(same(known[k], v) for k, v in tensors.items()):
        return
    save_file(tensors, path)
    os.chmod(path, 0o644)


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--checkpoint", type=Path, default=CHECKPOINT)
    ap.add_argument("--goldens", type=Path, default=GOLDENS)
    ap.add_argument("--frames", type=int, default=12 if SMOKE else 200)
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
    thinker = thinker_goldens(model, args.checkpoint, 12 if SMOKE else 200)
    (args.goldens / "thinker.json").write_text(json.dumps(thinker) + "\n")
    write_goldens(tensors, args.goldens / "goldens.safetensors")
    write_json(args.goldens / "goldens.json", dict(repetition_penalty=penalty, greedy=True, max_frames=args.frames, cases=described))
    print("goldens", (args.goldens / "goldens.safetensors").stat().st_size, "bytes")


if __name__ == "__main__":
    main()
