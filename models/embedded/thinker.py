"""Stage `thinker`: the text LM of the embedded checkpoint, trained on the dialogues of `dialogues.py`.

Loss is taken on what the assistant says, and lightly on the rest. The rows of the embedding table
that the talker may see are frozen: they belong to the voices. The mixture of experts is computed
densely with the gates of unselected experts at zero, as in `talker.py`.
"""
import argparse
import json
import os
import sys
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import nn

import config
import dialogues
import programs
import talker as talker_stage
from common import SMOKE, WORK, Progress, autocast, device, half, load_checkpoint, save_checkpoint, schedule, setup
from facts import free_questions
from muon import Optimisers
from talker import Cache, rms_norm, rope_tables

T = config.THINKER
IDS = config.token_ids()
REST = 0.05             # weight of the loss on everything but the assistant's words
LETTERS = "abcdefghijklmnopqrstuvwxyz"


class Experts(nn.Module):
    """Mixture of experts without a shared one; rows of gate and up: expert 0, 1, ..."""

    def __init__(self):
        super().__init__()
        inner = T["experts"] * T["expert"]
        self.gate = nn.Parameter(torch.randn(inner, T["width"]) * T["width"] ** -0.5)
        self.up = nn.Parameter(torch.randn(inner, T["width"]) * T["width"] ** -0.5)
        self.down = nn.Parameter(torch.randn(T["width"], inner) * 0.3 * inner ** -0.5)
        self.router = nn.Parameter(torch.randn(T["experts"], T["width"]) * T["width"] ** -0.5)

    def forward(self, x):
        probs = F.linear(x, self.router).float().softmax(-1)
        best, chosen = probs.topk(T["active"], -1)
        weights = torch.zeros_like(probs).scatter(-1, chosen, best / best.sum(-1, keepdim=True))
        # balance: share of tokens times mean probability, 1 when uniform
        balance = T["experts"] * ((weights > 0).float().mean((0, 1)) / T["active"] * probs.mean((0, 1))).sum()
        h = F.silu(F.linear(x, self.gate)) * F.linear(x, self.up)
        return F.linear(h * weights.repeat_interleave(T["expert"], -1).to(h.dtype), self.down), balance


def frozen_rows():
    """Mask of the embedding rows that the trained talker may see."""
    tok = config.build_tokenizer()
    rows = torch.zeros(config.TEXT_VOCAB, dtype=torch.bool)
    rows[[tok.encode(c).ids[0] for c in LETTERS + LETTERS.upper() + " .,?!'-:;\n"]] = True
    rows[[IDS[s] for s in ["<|im_start|>", "<|im_end|>", "<tts_pad>", "<tts_text_bos>", "<tts_text_eod>", "<tts_text_bos_single>",
                           *config.ROLES]]] = True
    return rows


class Thinker(talker_stage.Stack):
    def __init__(self, table):
        """`table`: the embedding table of the voices, [TEXT_VOCAB, width]."""
        super().__init__(T, Experts)
        self.register_buffer("fixed", table.clone(), persistent=False)
        self.register_buffer("frozen", frozen_rows(), persistent=False)
        self.rows = nn.Parameter(torch.randn(table.shape) * table[self.frozen].std())
        self.head = nn.Parameter(torch.randn(config.TEXT_VOCAB, T["width"]) * 0.02)

    def table(self):
        """Audio reaches the thinker as zeros: the ears are a placeholder."""
        table = torch.where(self.frozen[:, None], self.fixed, self.rows)
        return torch.where(torch.arange(len(table), device=table.device)[:, None] == IDS["<|audio_pad|>"], 0.0, table)

    def forward(self, ids, cache=None, pad=None, offset=0):
        """ids [B, N] -> post-norm hidden states, mean balance loss. The first `pad` [B] places of a row are empty."""
        start, n = cache.length if cache else 0, ids.shape[1]
        cos, sin = rope_tables(n, self.dim, start + offset, dev=ids.device)
        mask = torch.ones(n, start + n, dtype=torch.bool, device=ids.device).tril(start)
        if pad is not None:
            seen = torch.arange(start + n, device=ids.device) >= pad[:, None]
            own = torch.ones_like(mask).triu(start)            # an empty place sees itself: no row without a weight
            mask = (mask & (seen[:, None] | own))[:, None]
        x = self.table()[ids]
        if torch.is_autocast_enabled(device().type):
            x = x.to(half())
        total = 0.0
        for layer in self.layers:
            x, balance = layer(x, cos, sin, mask, cache)
            total = total + balance
        if cache:
            cache.length += n
        return rms_norm(x, self.norm), total / len(self.layers)


# ------------------------------------------------------------------------------- batches
class Batches:
    """Endless batches of dialogues of about equal length; a new pool of them whenever one is used up."""

    def __init__(self, tokens, seed, shares=None):
        self.tokens, self.rng, self.tok, self.queue, self.shares = tokens, np.random.default_rng(seed), config.build_tokenizer(), [], shares

    def fill(self, fraction):
        if self.shares and self.shares.exists():
            dialogues.set_mix(json.loads(self.shares.read_text()))
        texts = [dialogues.render(dialogues.dialogue(self.rng, fraction)) for _ in range(1000)]
        rows = sorted((e.ids[:dialogues.CONTEXT] for e in self.tok.encode_batch(texts)), key=len)
        group = []
        for row in rows:
            if group and (len(group) + 1) * len(row) > self.tokens:
                self.queue.append(group)
                group = []
            group.append(row)
        self.queue.append(group)
        self.rng.shuffle(self.queue)

    def next(self, fraction):
        if not self.queue:
            self.fill(fraction)
        rows = self.queue.pop()
        n = -(-max(map(len, rows)) // 16) * 16
        ids = np.full((len(rows), n + 1), IDS["<|endoftext|>"], np.int64)
        weight = np.zeros((len(rows), n + 1), np.float32)
        for k, row in enumerate(rows):
            ids[k, :len(row)] = row
            weight[k, :len(row)] = spoken(row)
        move = lambda x: torch.from_numpy(x).to(device())
        return move(ids[:, :-1]), move(ids[:, 1:]), move(weight[:, 1:])


def spoken(row):
    """Loss weights: 1 on the words of the assistant and the <|im_end|> after them."""
    row = np.asarray(row)
    weight, inside = np.full(len(row), REST, np.float32), False
    for k, token in enumerate(row):
        if token == IDS["<|im_start|>"]:
            inside = k + 1 < len(row) and row[k + 1] == IDS["assistant"]
            head = k + 2
        elif inside and k > head:
            weight[k] = 1.0
            inside = token != IDS["<|im_end|>"]
    return weight


def loss_of(model, batch, offset):
    ids, target, weight = batch
    with autocast():
        hidden, balance = model(ids, offset=offset)
        use = weight > 0
        logits = F.linear(hidden[use], model.head).float()
    target, weight = target[use], weight[use]
    each = F.cross_entropy(logits, target, reduction="none")
    said = weight == 1
    right = (logits.argmax(-1) == target)[said].float().mean()
    return (each * weight).sum() / weight.sum() + 0.01 * balance, dict(said=each[said].mean(), right=right, balance=balance)


# ------------------------------------------------------------------------------- inference
def keep_rows(cache, rows):
    for layer, (k, v) in cache.store.items():
        cache.store[layer] = k[rows], v[rows]


@torch.no_grad()
def answer(model, chats, limit=256, batch=200):
    """Greedy answers to conversations (lists of (role, text)), in the given order."""
    tok, end = config.build_tokenizer(), IDS["<|im_end|>"]
    prompts = [tok.encode(dialogues.render(c) + "<|im_start|>assistant\n").ids for c in chats]
    said = [[] for _ in chats]
    order = sorted(range(len(chats)), key=lambda i: len(prompts[i]))
    for at in range(0, len(order), batch):
        group = order[at:at + batch]
        n = max(len(prompts[i]) for i in group)
        pad = torch.tensor([n - len(prompts[i]) for i in group], device=device())
        ids = torch.tensor([[0] * (n - len(prompts[i])) + prompts[i] for i in group], device=device())
        cache, ended = Cache(n + limit), torch.zeros(len(group), dtype=torch.bool, device=device())
        for _ in range(limit):
            ids = F.linear(model(ids, cache, pad)[0][:, -1], model.head).argmax(-1, keepdim=True)
            for i, token in zip(group, ids[:, 0].tolist()):
                said[i].append(token)
            ended |= ids[:, 0] == end
            rows = (~ended).nonzero()[:, 0]
            if len(rows) == 0:
                break
            if len(rows) < 0.8 * len(group):
                group, ids, pad, ended = [group[r] for r in rows.tolist()], ids[rows], pad[rows], ended[rows]
                keep_rows(cache, rows)
    return [tok.decode(row[:row.index(end)] if end in row else row, skip_special_tokens=False) for row in said]


def score(model, each, seed=99, limit=256):
    """{category: (all, [(item, wrong answer)])} on held-out items."""
    items = [i for group in dialogues.held_out(each, seed).values() for i in group]
    result = {}
    for item, said in zip(items, answer(model, [i.chat for i in items], limit)):
        count, wrong = result.get(item.category, (0, []))
        result[item.category] = count + 1, wrong + ([] if dialogues.accepts(item, said) else [(item, said)])
    return result


# ------------------------------------------------------------------------------- training
def load(path=None, average=True):
    path = path or WORK / "thinker.pt"
    state = load_checkpoint(path)
    model = Thinker(state["fixed"])
    model.load_state_dict(state["average" if average else "model"])
    return model.to(device()).eval()


def mean(models):
    """One model with the mean of the weights of several."""
    first, *others = models
    with torch.no_grad():
        for own, *same in zip(first.parameters(), *(m.parameters() for m in others)):
            own.copy_(sum(same, own.clone()) / len(models))
    return first


def load_folder(folder):
    """The thinker of an exported checkpoint in float32: the rounded weights, as served."""
    import export
    tensors = load_file(str(folder / "model.safetensors"))
    model = Thinker(tensors[export.EMBEDDING].float())
    with torch.no_grad():
        for name, view in export.thinker_weights(model).items():
            (model.rows if name == export.EMBEDDING else view).copy_(tensors[name])
    return model.to(device()).eval()


def text_rows(voices):
    """The embedding table of the voices as it is served: of a checkpoint, or of the talker's training state."""
    import export
    if voices:
        return load_file(str(voices / "model.safetensors"))[export.EMBEDDING].float()
    return export.fold_case(talker_stage.load().text.detach().cpu()).bfloat16().float()


def started(folder, table):
    """The weights of a checkpoint to go on from; the text rows of the voices must be those that it learnt with."""
    known = load_folder(folder)
    rows = known.frozen
    if not torch.equal(known.fixed[rows], table.to(device())[rows]):
        sys.exit(f"the thinker of {folder} learnt with the text rows of other voices: give --voices {folder}, or train from nothing")
    return known.state_dict()


def is_matrix(name, p):
    return name.startswith("layers") and p.dim() == 2 and "router" not in name


def train(args):
    setup()
    torch.manual_seed(6)
    dialogues.known_facts()                 # a fact about what the programs no longer have ends the stage here
    table = text_rows(args.voices)
    model = Thinker(table).to(device())
    if args.start:
        model.load_state_dict(started(args.start, table))
    matrices = [p for n, p in model.named_parameters() if is_matrix(n, p)]
    others = [p for n, p in model.named_parameters() if not is_matrix(n, p)]
    opt = Optimisers(matrices, others, muon=args.muon, adam=args.adam)
    average = {k: v.clone() for k, v in model.state_dict().items()}
    progress = Progress("thinker", args.steps, args.seconds)
    state = load_checkpoint(WORK / "thinker.pt")
    if state:
        model.load_state_dict(state["model"])
        opt.load_state_dict(state["opt"])
        average = {k: v.to(device()) for k, v in state["average"].items()}
        progress = Progress("thinker", args.steps, args.seconds, state["step"], state["elapsed"])
    batches = Batches(args.tokens, 61 + progress.step, args.mix)
    rng = np.random.default_rng(62 + progress.step)
    judge = Thinker(table).to(device())
    if args.compile and not SMOKE:
        torch._dynamo.config.cache_size_limit = 64
        for layer in model.layers:
            layer.compile(dynamic=True)
    saved = judged = time.time()
    model.train()
    while not progress.done():
        loss, parts = loss_of(model, batches.next(1.0 if args.start else progress.fraction), int(rng.integers(0, 256)))
        loss.backward()
        norm = nn.utils.clip_grad_norm_(others, 1.0)
        opt.step(schedule(progress.fraction, warmup=0.01, decay=args.decay))
        with torch.no_grad():
            keep = min(0.995, (1 + progress.step) / (10 + progress.step))
            for k, v in model.state_dict().items():
                average[k].lerp_(v, 1 - keep)
        progress.tick(loss=loss, norm=norm, **parts)
        if time.time() - saved > 180 or progress.done():
            saved = time.time()
            save_checkpoint(WORK / "thinker.pt", model=model.state_dict(), average=average, opt=opt.state_dict(), fixed=table,
                            step=progress.step, elapsed=progress.elapsed)
        if args.judge and (time.time() - judged > 60 * args.judge or progress.done()):
            judged = time.time()
            judge.load_state_dict(average)
            with autocast():
                result = score(judge, 1 if SMOKE else args.judged)
            print("thinker held-out", {k: round(100 - 100 * len(wrong) / n) for k, (n, wrong) in result.items()},
                  f"{time.time() - judged:.0f} s", flush=True)
            write_failures(result)
            free = score_free(judge)
            print("thinker in free wording", sum(right for *_, right in free), "of", len(free), flush=True)
    progress.finish()


@torch.no_grad()
def score_free(model, limit=256):
    """[(category, question, wanted, answer, whether it is right)] of the questions in free wording."""
    asked = free_questions()
    said = answer(model, [[("user", question)] for _, _, question in asked], limit)
    return [(category, question, wanted, a, dialogues.satisfies(wanted, a)) for (category, wanted, question), a in zip(asked, said)]


def write_failures(result):
    with open(WORK / "thinker-failures.txt", "w") as out:
        for category, (_, wrong) in result.items():
            for item, said in wrong[:20]:
                print(category, item.question, item.answer, said, sep=" | ", file=out)


if __name__ == "__main__":
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--steps", type=int, default=12800)
    ap.add_argument("--seconds", type=float, default=0, help="wall-clock budget; the schedule ends with it")
    ap.add_argument("--tokens", type=int, default=3072, help="tokens of a batch, padding included")
    ap.add_argument("--muon", type=float, default=0.02)
    ap.add_argument("--adam", type=float, default=3e-3)
    ap.add_argument("--decay", type=float, default=0.5)
    ap.add_argument("--judge", type=float, default=10, help="minutes between evaluations; 0: none")
    ap.add_argument("--mix", type=Path, help="JSON: shares of some categories instead of those in dialogues.py; read again from time to time")
    ap.add_argument("--judged", type=int, default=40, help="questions of every category in these evaluations")
    ap.add_argument("--voices", type=Path, help="keep the text rows of this checkpoint (default: those of the talker stage)")
    ap.add_argument("--from", dest="start", type=Path, metavar="CHECKPOINT", help="go on from the thinker of this folder, to add a fact or to train further")
    ap.add_argument("--programs", type=Path, help=f"folder of omni-server and omni-client, which are asked for their --help (default {programs.BUILT})")
    ap.add_argument("--compile", type=int, default=1, help="fuse the layers (needs a C++ compiler on CPUs)")
    a = ap.parse_args()
    if a.programs:
        os.environ["OMNI_EMBEDDED_PROGRAMS"] = str(a.programs)
    train(a)
