"""Stage `talker`: the talker LM and the code predictor, trained together on the teacher's codes.

Rows are exactly those of the served model: the user turn, nine assistant rows, then one row per
frame: the sum of the frame's code embeddings and one text character (then tts_eos, then tts_pad).
Two phoneme heads on a middle layer supervise pronunciation and alignment; they are not exported.
The mixture of experts is computed densely with the gates of unselected experts at zero, which is
the same function as the reference's sparse computation.
"""
import argparse
import json
import re
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

import codec
import config
import ranks
from codes import Codes
from common import (CODEBOOK_SIZE, CODEBOOKS, SMOKE, WORK, Progress, autocast, blend, check_blend, device, half, load_checkpoint,
                    save_checkpoint, schedule, setup)
from muon import Optimisers
from pitch import PHASES, REST, UNVOICED

T, P = config.TALKER, config.PREDICTOR
HEADER = 9              # assistant rows before the first frame
PHONEME_LAYER = 5       # the phoneme heads read the output of this many layers: up to the fourth of six, where `grow` puts it among eight
IGNORE = -100


def rms_norm(x, weight):
    y = x.float()
    return (y * torch.rsqrt(y.square().mean(-1, keepdim=True) + 1e-6) * weight).to(x.dtype)


def rope_tables(length, dim, start=0, theta=1e6, dev=None):
    f = theta ** (-torch.arange(0, dim, 2, device=dev).float() / dim)
    a = torch.arange(start, start + length, device=dev).float()[:, None] * f
    return torch.cat([a, a], -1).cos(), torch.cat([a, a], -1).sin()


def rope(x, cos, sin):
    y = x.float()
    half = y.shape[-1] // 2
    return (y * cos + torch.cat([-y[..., half:], y[..., :half]], -1) * sin).to(x.dtype)


def attention(q, k, v, mask):
    """[B, H, L, D] with a boolean mask [Lq, Lk]; without one every query sees all keys."""
    if mask is None and k.shape[2] <= 16:           # few keys: a batched matrix product costs more in its call than in its arithmetic
        s = (q.unsqueeze(3) * k.unsqueeze(2)).sum(-1).float() * q.shape[-1] ** -0.5
        return (s.softmax(-1).to(v.dtype).unsqueeze(-1) * v.unsqueeze(2)).sum(3)
    if mask is None:
        return F.scaled_dot_product_attention(q, k, v)
    s = (q @ k.transpose(-1, -2)).float() * q.shape[-1] ** -0.5
    s = s.masked_fill(~mask, float("-inf"))
    return s.softmax(-1).to(v.dtype) @ v


class Attention(nn.Module):
    def __init__(self, width, heads, kv, dim):
        super().__init__()
        self.heads, self.kv, self.dim = heads, kv, dim
        w = lambda a, b, gain=1.0: nn.Parameter(torch.randn(a, b) * gain * b ** -0.5)
        self.q, self.k, self.v = w(heads * dim, width), w(kv * dim, width), w(kv * dim, width)
        self.o = w(width, heads * dim, 0.3)
        self.q_norm, self.k_norm = nn.Parameter(torch.ones(dim)), nn.Parameter(torch.ones(dim))

    def forward(self, x, cos, sin, mask, cache=None):
        b, n, _ = x.shape
        qkv = F.linear(x, torch.cat([self.q, self.k, self.v])).view(b, n, self.heads + 2 * self.kv, self.dim).transpose(1, 2)
        q, k, v = qkv.split([self.heads, self.kv, self.kv], 1)
        q = rope(rms_norm(q, self.q_norm), cos, sin)
        k = rope(rms_norm(k, self.k_norm), cos, sin)
        if cache is not None:
            k, v = cache.add(self, k, v)
        group = self.heads // self.kv
        if n == 1:              # a step of inference: the query heads of one KV head as rows, no copies of the cache
            a = attention(q.reshape(b, self.kv, group, self.dim), k, v, mask)
            return F.linear(a.reshape(b, 1, -1), self.o)
        a = attention(q, k.repeat_interleave(group, 1), v.repeat_interleave(group, 1), mask)
        return F.linear(a.transpose(1, 2).reshape(b, n, -1), self.o)


class Cache:
    """Keys and values by layer for step-wise inference, with room for `size` positions."""

    def __init__(self, size):
        self.size, self.length, self.store = size, 0, {}

    def add(self, layer, k, v):
        b, h, n, d = k.shape
        if layer not in self.store:
            self.store[layer] = (k.new_zeros(b, h, self.size, d), v.new_zeros(b, h, self.size, d))
        ks, vs = self.store[layer]
        ks[:, :, self.length:self.length + n], vs[:, :, self.length:self.length + n] = k, v
        return ks[:, :, :self.length + n], vs[:, :, :self.length + n]


class Experts(nn.Module):
    """Mixture of experts plus gated shared expert; rows of gate/up: expert 0, 1, ..., shared."""

    def __init__(self):
        super().__init__()
        inner = T["experts"] * T["expert"] + T["shared"]
        self.gate = nn.Parameter(torch.randn(inner, T["width"]) * T["width"] ** -0.5)
        self.up = nn.Parameter(torch.randn(inner, T["width"]) * T["width"] ** -0.5)
        self.down = nn.Parameter(torch.randn(T["width"], inner) * 0.3 * inner ** -0.5)
        self.router = nn.Parameter(torch.randn(T["experts"], T["width"]) * T["width"] ** -0.5)
        self.shared_gate = nn.Parameter(torch.zeros(1, T["width"]))

    def forward(self, x):
        probs = F.linear(x, self.router).float().softmax(-1)
        best, chosen = probs.topk(T["active"], -1)
        weights = torch.zeros_like(probs).scatter(-1, chosen, best / best.sum(-1, keepdim=True))
        # balance: share of tokens times mean probability, 1 when uniform
        balance = T["experts"] * ((weights > 0).float().mean((0, 1)) / T["active"] * probs.mean((0, 1))).sum()
        h = F.silu(F.linear(x, self.gate)) * F.linear(x, self.up)
        scale = torch.cat([weights.repeat_interleave(T["expert"], -1),
                           torch.sigmoid(F.linear(x, self.shared_gate).float()).expand(*x.shape[:-1], T["shared"])], -1)
        return F.linear(h * scale.to(h.dtype), self.down), balance


class Dense(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.gate = nn.Parameter(torch.randn(inner, width) * width ** -0.5)
        self.up = nn.Parameter(torch.randn(inner, width) * width ** -0.5)
        self.down = nn.Parameter(torch.randn(width, inner) * 0.3 * inner ** -0.5)

    def forward(self, x):
        return F.linear(F.silu(F.linear(x, self.gate)) * F.linear(x, self.up), self.down), x.new_zeros(())


class Layer(nn.Module):
    def __init__(self, dims, mlp):
        super().__init__()
        self.norm1, self.norm2 = nn.Parameter(torch.ones(dims["width"])), nn.Parameter(torch.ones(dims["width"]))
        self.attn = Attention(dims["width"], dims["heads"], dims["kv"], dims["head_dim"])
        self.mlp, self.drop = mlp, dims.get("dropout", 0.0)

    def forward(self, x, cos, sin, mask, cache=None):
        x = x + F.dropout(self.attn(rms_norm(x, self.norm1), cos, sin, mask, cache), self.drop, self.training)
        y, balance = self.mlp(rms_norm(x, self.norm2))
        return x + F.dropout(y, self.drop, self.training), balance


class Stack(nn.Module):
    def __init__(self, dims, mlp):
        super().__init__()
        self.layers = nn.ModuleList(Layer(dims, mlp()) for _ in range(dims["layers"]))
        self.norm = nn.Parameter(torch.ones(dims["width"]))
        self.dim = dims["head_dim"]

    def forward(self, x, cache=None, tap=None):
        """-> post-norm hidden states, mean balance loss, output of layer `tap`"""
        start = cache.length if cache else 0
        n = x.shape[1]
        cos, sin = rope_tables(n, self.dim, start, dev=x.device)
        mask = torch.ones(n, start + n, dtype=torch.bool, device=x.device).tril(start) if n > 1 else None
        total, tapped = 0.0, None
        for i, layer in enumerate(self.layers):
            x, balance = layer(x, cos, sin, mask, cache)
            total = total + balance
            if i + 1 == tap:
                tapped = x
        if cache:
            cache.length += n
        return rms_norm(x, self.norm), total / len(self.layers), tapped


class Talker(nn.Module):
    def __init__(self, phonemes):
        super().__init__()
        table = lambda n, std=0.5: nn.Parameter(torch.randn(n, T["width"]) * std)
        self.text = nn.Parameter(torch.randn(config.TEXT_VOCAB, config.THINKER_WIDTH))
        self.fc1 = nn.Linear(config.THINKER_WIDTH, T["projection"])
        self.fc2 = nn.Linear(T["projection"], T["width"])
        self.codec_embedding = table(config.TALKER_VOCAB)
        self.residual_embedding = nn.Parameter(torch.randn(CODEBOOKS - 1, CODEBOOK_SIZE, T["width"]) * 0.3)
        self.stack = Stack(T, Experts)
        self.predictor = Stack(P, lambda: Dense(P["width"], P["inner"]))
        self.codec_head = nn.Parameter(torch.randn(config.TALKER_VOCAB, T["width"]) * 0.02)
        self.heads = nn.Parameter(torch.randn(CODEBOOKS - 1, CODEBOOK_SIZE, P["width"]) * 0.02)
        self.phoneme_heads = nn.Linear(T["width"], 2 * phonemes)     # now and next; training only
        self.past_head = nn.Linear(T["width"], PHASES)                 # the last frame's phase, which the predictor needs; training only
        ids = torch.tensor(list(range(CODEBOOK_SIZE)) + [config.CODEC_EOS])
        self.register_buffer("classes", ids, persistent=False)

    def text_table(self):
        return self.fc2(F.silu(self.fc1(self.text)))

    def code_sum(self, codes):
        """codes [..., CODEBOOKS] -> C[c0] + S"""
        x = self.codec_embedding[codes[..., 0]]
        for g in range(CODEBOOKS - 1):
            x = x + self.residual_embedding[g][codes[..., g + 1]]
        return x

    def residual_logits(self, hidden, codes):
        """hidden [N, W], codes [N, CODEBOOKS] -> logits of groups 1.. [N, CODEBOOKS - 1, CODEBOOK_SIZE]"""
        rows = [hidden, self.codec_embedding[codes[:, 0]]]
        rows += [self.residual_embedding[g][codes[:, g + 1]] for g in range(CODEBOOKS - 2)]
        out, _, _ = self.predictor(torch.stack([r.to(hidden.dtype) for r in rows], 1))
        return torch.einsum("ngw,gvw->ngv", out[:, 1:], self.heads.to(out.dtype))


# ------------------------------------------------------------------------------- rows
class Prompt:
    """Ids of the text track and the codec track of everything before the first frame."""

    def __init__(self):
        self.tokenizer = config.build_tokenizer()
        self.ids = config.token_ids()

    def encode(self, text):
        return self.tokenizer.encode(text).ids

    def user(self, text=""):
        return self.encode("<|im_start|>user\n" + text + "<|im_end|>\n")

    def header(self, voice, first):
        """(text ids, codec ids) of the nine assistant rows; codec -1 means none."""
        i = self.ids
        pad = i["<tts_pad>"]
        text = [i["<|im_start|>"], i["assistant"], i["\n"], pad, pad, pad, pad, i["<tts_text_bos>"], first]
        codec = [-1, -1, -1, config.CODEC_NOTHINK, config.CODEC_THINK_BOS, config.CODEC_THINK_EOS, config.SPEAKERS[voice],
                 config.CODEC_PAD, config.CODEC_BOS]
        return text, codec

    def track(self, text, frames):
        """Text ids fed with frames 0 .. frames-1 (the first character is in the header)."""
        i = self.ids
        rest = self.encode(text)[1:] + [i["<tts_text_eod>"]]
        return (rest + [i["<tts_pad>"]] * frames)[:frames]


def next_phoneme(labels):
    """At every frame the next different phoneme (0 at the end)."""
    out, ahead, current = np.zeros_like(labels), 0, labels[-1]
    for t in range(len(labels) - 1, -1, -1):
        if labels[t] != current:
            ahead, current = current, labels[t]
        out[t] = ahead
    return out


class Batcher:
    """Buckets of equal length. Lengths are rounded up to 16 rows so that few shapes occur."""

    def __init__(self, data, rows):
        self.data, self.rows, self.prompt = data, rows, Prompt()
        self.tracks, self.nexts = [], []
        self.extend()

    def extend(self):
        for i in range(len(self.tracks), len(self.data)):
            self.tracks.append(np.array(self.prompt.encode(self.data.items[i][0]), np.int16))
            self.nexts.append(next_phoneme(self.data.labels[i]))
        order = np.argsort(self.data.frames, kind="stable")
        self.batches, group = [], []
        for i in order:
            if group and (len(group) + 1) * self.length(self.data.frames[i]) > self.rows:
                self.batches.append(group)
                group = []
            group.append(int(i))
        self.batches.append(group)

    def length(self, frames, user=5):
        return -(-(user + HEADER + frames) // 16) * 16

    def make(self, indices, rng, chat=0.0):
        """One batch of tensors. With probability `chat` the whole batch gets short texts in the user turn."""
        d, ids = self.data, self.prompt.ids
        user = [self.prompt.user()] * len(indices)
        if rng.random() < chat:
            user = [self.prompt.user(d.items[rng.integers(len(d))][0][:rng.integers(1, 60)]) for _ in indices]
        n = max(self.length(d.frames[i], len(u)) for i, u in zip(indices, user))
        b = len(indices)
        text = np.full((b, n), ids["<tts_pad>"], np.int64)
        codec = np.full((b, n), -1, np.int64)               # header rows: an id of the codec table
        codes = np.zeros((b, n, CODEBOOKS), np.int64)       # rows of frames: codes fed
        fed = np.zeros((b, n), bool)
        target = np.full((b, n), IGNORE, np.int64)
        wanted = np.full((b, n, CODEBOOKS), IGNORE, np.int64)
        phones = np.full((b, n, 2), IGNORE, np.int64)
        for k, (i, u) in enumerate(zip(indices, user)):
            frames, characters = d.frames[i], self.tracks[i]
            head_text, head_codec = self.prompt.header(d.items[i][1], int(characters[0]))
            at = len(u) + HEADER
            text[k, :at] = u + head_text
            codec[k, len(u):at] = head_codec
            rest = np.append(characters[1:], ids["<tts_text_eod>"])[:frames]
            text[k, at:at + len(rest)] = rest
            codes[k, at:at + frames] = d.codes[i]
            fed[k, at:at + frames] = True
            target[k, at - 1:at - 1 + frames] = d.codes[i][:, 0]
            target[k, at - 1 + frames] = CODEBOOK_SIZE                       # EOS
            wanted[k, at - 1:at - 1 + frames] = d.codes[i]
            phones[k, at - 1:at - 1 + frames, 0] = d.labels[i]
            phones[k, at - 1:at - 1 + frames, 1] = self.nexts[i]
        move = lambda x: torch.from_numpy(x).to(device())
        return dict(text=move(text), codec=move(codec), codes=move(codes), fed=move(fed), target=move(target),
                    wanted=move(wanted), phones=move(phones))


def corrupt(codes, fed, rate):
    """Replaces the codes of some frames by those of other frames, and single codes by random ones.

    Advance and phase stay: the next phase follows from the last one exactly, and that is to be learnt.
    """
    flat = codes[fed]
    swap = torch.rand(len(flat), device=codes.device) < rate
    other = flat[torch.randint(len(flat), (len(flat),), device=codes.device)]
    new = torch.where(swap[:, None], other, flat)
    single = torch.rand(flat.shape, device=codes.device) < rate / 2
    new = torch.where(single, torch.randint_like(flat, CODEBOOK_SIZE), new)
    new[:, 1:3] = flat[:, 1:3]
    out = codes.clone()
    out[fed] = new
    return out


def choose(logits, temperature, top_k, generator=None):
    if temperature <= 0 or top_k == 1:
        return logits.argmax(-1)
    best, index = logits.topk(top_k) if top_k else (logits, None)
    share = (best.float() / temperature).softmax(-1).cumsum(-1)
    at = torch.rand(len(share), 1, device=share.device, generator=generator) * share[:, -1:]
    at = (share < at).sum(-1, keepdim=True).clamp(max=share.shape[-1] - 1)
    return (index.gather(-1, at) if top_k else at)[:, 0]


@torch.no_grad()
def residuals(model, hidden, c0, temperature, top_k, generator=None):
    """Codes of groups 1.. for post-norm hidden states [B, W] and first codes [B]."""
    cache = Cache(CODEBOOKS)
    x = torch.stack([hidden, model.codec_embedding[c0].to(hidden.dtype)], 1)
    out = []
    for g in range(CODEBOOKS - 1):
        h, _, _ = model.predictor(x, cache)
        c = choose(h[:, -1] @ model.heads[g].T.to(h.dtype), temperature, top_k, generator)
        out.append(c)
        x = model.residual_embedding[g][c][:, None].to(hidden.dtype)
    return torch.stack(out, 1)


@torch.no_grad()
def own_words(model, batch, codes, share, temperature=0.7, top_k=20):
    """Scheduled sampling: some frames as the talker samples them after the true ones. Advance and phase stay, as in `corrupt`."""
    model.eval()
    with autocast():
        hidden, _, _ = model.stack(inputs(model, batch, codes).to(half()))
        rows = (batch["wanted"][..., 0] != IGNORE).nonzero()
        rows = rows[torch.rand(len(rows), device=rows.device).argsort()[:1 + int(share * len(rows))]]
        h = hidden[rows[:, 0], rows[:, 1]]
        c0 = choose(F.linear(h, model.codec_head[:CODEBOOK_SIZE]), temperature, top_k)
        with torch.compiler.set_stance("force_eager"):          # a compiled layer with a cache is compiled again for every length
            said = torch.cat([c0[:, None], residuals(model, h, c0, temperature, top_k)], 1)
    model.train()
    said[:, 1:3] = batch["wanted"][rows[:, 0], rows[:, 1]][:, 1:3]
    out = codes.clone()
    out[rows[:, 0], rows[:, 1] + 1] = said
    return out


def inputs(model, batch, codes):
    x = model.text_table()[batch["text"]]
    x = x + model.codec_embedding[batch["codec"].clamp(min=0)] * (batch["codec"] >= 0).unsqueeze(-1)
    return x + model.code_sum(codes) * batch["fed"].unsqueeze(-1)


def losses(model, batch, corruption=0.0, own=0.0, share=0.3):
    codes = own_words(model, batch, batch["codes"], own) if own else batch["codes"]
    codes = corrupt(codes, batch["fed"], corruption) if corruption else codes
    with autocast():
        x = inputs(model, batch, codes).to(half())
        hidden, balance, tapped = model.stack(x, tap=PHONEME_LAYER)
        use = batch["target"] != IGNORE
        h, target = hidden[use], batch["target"][use]
        logits = F.linear(h, model.codec_head[model.classes]).float()
        c0 = F.cross_entropy(logits, target)
        speech = batch["wanted"][..., 0] != IGNORE
        phones = batch["phones"][speech]
        guess = model.phoneme_heads(tapped[speech]).float().chunk(2, -1)
        now, after = F.cross_entropy(guess[0], phones[:, 0]), F.cross_entropy(guess[1], phones[:, 1])
        rows = speech.nonzero()
        rows = rows[torch.rand(len(rows), device=rows.device) < share]
        wanted = batch["wanted"][rows[:, 0], rows[:, 1]]
        residual = model.residual_logits(hidden[rows[:, 0], rows[:, 1]], wanted).float()
        rest = F.cross_entropy(residual.flatten(0, 1), wanted[:, 1:].flatten())
        fed = use & batch["fed"]
        past = F.cross_entropy(model.past_head(hidden[fed]).float(), batch["codes"][fed][:, 2])
        past = 0.3 * past + 0.5 * F.cross_entropy(residual[:, 1], wanted[:, 2])
    loss = c0 + rest + past + 0.3 * now + 0.2 * after + 0.01 * balance
    accuracy = (logits.argmax(-1) == target).float().mean()
    phase = (residual[:, 1].argmax(-1) == wanted[:, 2]).float().mean()
    advance = F.cross_entropy(residual[:, 0], wanted[:, 1])
    return loss, dict(c0=c0, acc=accuracy, rest=rest, now=now, next=after, balance=balance, past=past, phase=phase, advance=advance)


def start_pitch(model, size=0.6):
    """Tables of advance and phase as angles: the next phase is a sum of two, which is a product of theirs."""
    moved = torch.arange(CODEBOOK_SIZE)
    moved[UNVOICED] = REST
    turn = 2 * torch.pi * moved[:, None] / PHASES * torch.tensor([1.0, 2.0, 3.0, 4.0, 8.0])
    waves = torch.cat([turn.sin(), turn.cos()], 1)
    slow = torch.cat([f(moved[:, None] * torch.tensor([0.02, 0.05, 0.15])) for f in (torch.sin, torch.cos)], 1)
    slow[UNVOICED] = 0
    some = lambda x: x @ nn.init.orthogonal_(torch.empty(x.shape[1], T["width"])) * T["width"] ** 0.5 * size / x.shape[1] ** 0.5
    with torch.no_grad():
        model.residual_embedding[0].copy_(some(torch.cat([waves, slow], 1)))
        model.residual_embedding[1].copy_(some(waves))
        model.heads[1].copy_(some(waves) * 0.1)


def grow(model, tensors, prefix):
    """The tensors of a talker with fewer layers, renamed for `model`, and the prefixes of its other layers, whose outputs are zeroed: they add nothing at first."""
    named = re.compile(re.escape(prefix) + r"(\d+)\.")
    known = 1 + max(int(found[1]) for found in map(named.match, tensors) if found)
    layers = model.stack.layers
    places = [i * len(layers) // known for i in range(known)]
    assert len(set(places)) == known, f"a talker of {known} layers does not fit into {len(layers)}"
    grown = {named.sub(lambda found: f"{prefix}{places[int(found[1])]}.", name): tensor for name, tensor in tensors.items()}
    others = sorted(set(range(len(layers))) - set(places))
    for i in others:
        for last in (layers[i].attn.o, layers[i].mlp.down):
            nn.init.zeros_(last)
    return grown, tuple(f"{prefix}{i}." for i in others)


def go_on(model, folder, same_codec):
    """The weights of a checkpoint; with another codec, what it knows of letters and sounds, for its codes mean something else."""
    from safetensors.torch import load_file
    import export
    tensors, new = grow(model, load_file(f"{folder}/model.safetensors"), "talker.model.layers.")
    coded = ("codec_head.weight", "code_predictor.lm_head", "code_predictor.model.codec_embedding")
    with torch.no_grad():
        for name, view in export.talker_weights(model).items():
            if name.startswith(new):
                continue
            if same_codec:
                view.copy_(tensors[name])
            elif name == "talker.model.codec_embedding.weight":
                view[CODEBOOK_SIZE:].copy_(tensors[name][CODEBOOK_SIZE:])
            elif not any(part in name for part in coded):
                view.copy_(tensors[name])
        model.text.copy_(tensors[export.EMBEDDING])


def settle_heads(model, batcher, rng, steps):
    """The heads that an export drops learn what the layers under them know already, which learn nothing meanwhile."""
    heads = [*model.phoneme_heads.parameters(), *model.past_head.parameters()]
    others = [p for p in model.parameters() if p.requires_grad and not any(p is h for h in heads)]
    opt = torch.optim.AdamW(heads, lr=1e-2, weight_decay=0.0)
    for p in others:
        p.requires_grad_(False)
    for k in range(steps):
        indices = batcher.batches[rng.integers(len(batcher.batches))]
        _, parts = losses(model, batcher.make(indices, rng), 0.05)
        (parts["now"] + parts["next"] + parts["past"]).backward()
        opt.param_groups[0]["lr"] = 1e-2 * (1 - k / steps)
        opt.step()
        opt.zero_grad(set_to_none=True)
    for p in others:
        p.requires_grad_(True)
    print("talker heads", {k: round(parts[k].item(), 3) for k in ("now", "next", "past")}, flush=True)


def is_matrix(name, p):
    return name.startswith(("stack.layers", "predictor.layers")) and p.dim() == 2 and "router" not in name and "shared_gate" not in name


def phoneme_count():
    return len(json.loads((WORK / "phonemes.json").read_text())) + 1


def load(path=None, average=True):
    state = load_checkpoint(path or WORK / "talker.pt")
    model = Talker(phoneme_count())
    model.load_state_dict(state["average" if average else "model"])
    return model.to(device()).eval()


@torch.no_grad()
def validate(model, batcher):
    model.eval()
    totals, count = {}, 0
    with torch.random.fork_rng():
        torch.manual_seed(7)
        for indices in batcher.batches:
            _, parts = losses(model, batcher.make(indices, np.random.default_rng(7)))
            for k, v in parts.items():
                totals[k] = totals.get(k, 0.0) + float(v) * len(indices)
            count += len(indices)
    model.train()
    return {k: round(v / count, 4) for k, v in totals.items()}


def train(args):
    setup()
    torch.manual_seed(4)
    batcher = Batcher(Codes("train"), args.rows // ranks.COUNT)
    val = Batcher(Codes("val"), args.rows)
    model = Talker(phoneme_count())
    same_codec = bool(args.start) and codec.made_for(args.start)
    check_blend(args.blend, same_codec)
    if args.start:
        go_on(model, args.start, same_codec)
        model.text.requires_grad_(False)        # the thinker reads the same rows
    if not same_codec:
        start_pitch(model)
    for layer in model.stack.layers:
        layer.drop = args.dropout
    model.to(device())
    matrices = [p for n, p in model.named_parameters() if is_matrix(n, p) and n.startswith("stack")]
    others = [p for n, p in model.named_parameters() if not is_matrix(n, p) and p.requires_grad]
    opt = Optimisers(matrices, others, muon=args.muon, adam=args.adam)
    opt.add_matrices([p for n, p in model.named_parameters() if is_matrix(n, p) and n.startswith("predictor")], args.muon * args.predictor, weight_decay=0.01)
    average = {k: v.clone() for k, v in model.state_dict().items()}
    dropped = ("phoneme_heads.", "past_head.")          # at export, and no part of the checkpoint
    before = {k: v.clone() for k, v in average.items() if not k.startswith(dropped)} if args.blend else {}
    progress = Progress("talker", args.steps, args.seconds)
    state = load_checkpoint(WORK / "talker.pt")
    if state:
        model.load_state_dict(state["model"])
        opt.load_state_dict(state["opt"])
        average, before = ({k: v.to(device()) for k, v in state[name].items()} for name in ("average", "before"))
        progress = Progress("talker", args.steps, args.seconds, state["step"], state["elapsed"])
    rng, common = (np.random.default_rng([14 + progress.step, k]) for k in (ranks.RANK, ranks.COUNT))
    torch.manual_seed(4 + progress.step + 1_000_003 * ranks.RANK)
    model.train()
    if same_codec and not state and not ranks.RANK:
        settle_heads(model, batcher, rng, 4 if SMOKE else 80)
    ranks.copy_first(model.state_dict().values())
    trained = [p for p in model.parameters() if p.requires_grad]
    if args.compile and not SMOKE:
        torch._dynamo.config.cache_size_limit = 64
        for layer in list(model.stack.layers) + list(model.predictor.layers):
            layer.compile(dynamic=True)
    saved = time.time()
    while not progress.done():
        if progress.step % 400 == 0 and batcher.data.extend():
            batcher.extend()
        # curriculum: from the shortest quarter to everything within the first fifth; what is known needs none
        reach = 1.0 if same_codec else 0.25 + 0.75 * min(1.0, progress.fraction / 0.2)
        # drawn alike by every rank: with another share one rank would wait for the other
        own = args.own * common.random() if reach == 1.0 and common.random() < args.often else 0.0
        indices = batcher.batches[rng.integers(max(1, int(reach * len(batcher.batches))))]
        loss, parts = losses(model, batcher.make(indices, rng, chat=0.05), args.corruption, own, args.share)
        (loss / ranks.COUNT).backward()
        ranks.all_reduce([p.grad for p in trained])
        norm = nn.utils.clip_grad_norm_(others, 1.0)
        opt.step(schedule(progress.fraction, warmup=0.01, decay=0.55))
        with torch.no_grad():
            keep = min(0.997, (1 + progress.step) / (10 + progress.step))
            for k, v in model.state_dict().items():
                average[k].lerp_(v, 1 - keep)
        progress.tick(loss=loss, norm=norm, **parts)
        if ranks.RANK:
            continue
        if progress.step % 500 == 0 or progress.done():
            print("talker val", validate(model, val), "utterances", len(batcher.data), flush=True)
        if time.time() - saved > 180 or progress.done():
            saved = time.time()
            if progress.fraction >= 1.0:
                blend(average, before, args.blend)
            save_checkpoint(WORK / "talker.pt", model=model.state_dict(), average=average, before=before, opt=opt.state_dict(),
                            step=progress.step, elapsed=progress.elapsed)
    progress.finish()


if __name__ == "__main__":
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--steps", type=int, default=6000)
    ap.add_argument("--seconds", type=float, default=0, help="wall-clock budget; the schedule ends with it")
    ap.add_argument("--from", dest="start", help="go on from the talker of this checkpoint, whose thinker stays valid")
    ap.add_argument("--blend", type=float, default=0.0, help="share of the weights of --from in those that the run ends with")
    ap.add_argument("--rows", type=int, default=4096, help="rows of a batch, padding included")
    ap.add_argument("--muon", type=float, default=0.02)
    ap.add_argument("--adam", type=float, default=3e-3)
    ap.add_argument("--predictor", type=float, default=1.0, help="learning rate of the code predictor's matrices as a share of --muon")
    ap.add_argument("--corruption", type=float, default=0.08)
    ap.add_argument("--own", type=float, default=0.6, help="at most this share of a batch's frames are fed as the talker says them itself")
    ap.add_argument("--often", type=float, default=1.0, help="share of the batches with such frames")
    ap.add_argument("--share", type=float, default=0.3, help="share of the frames that the code predictor learns from")
    ap.add_argument("--dropout", type=float, default=T["dropout"], help="in the layers of the talker LM")
    ap.add_argument("--processes", type=int, default=1, help="train data-parallel on so many cores, each with its part of --rows")
    ap.add_argument("--compile", type=int, default=1, help="fuse the layers (needs a C++ compiler on CPUs)")
    args = ap.parse_args()
    if args.processes < 1 or args.rows % args.processes:
        ap.error("--processes must divide --rows")
    if args.processes > 1 and torch.cuda.is_available():
        ap.error("--processes trains on processors: with a GPU, leave it at 1")
    ranks.run(args.processes, train, args)
