"""Muon: momentum whose update is orthogonalised, for the matrices of a network; AdamW for everything else."""
import torch

import ranks
from common import half


def orthogonalise(g, steps=5):
    """Newton-Schulz iteration on a batch of matrices [N, a, b], in bfloat16 where that is fast."""
    x = g.to(half())
    tall = x.shape[1] > x.shape[2]
    if tall:
        x = x.transpose(1, 2)
    x = x / (x.float().norm(dim=(1, 2), keepdim=True).to(x.dtype) + 1e-7)
    for _ in range(steps):
        a = x @ x.transpose(1, 2)
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * (a @ a)) @ x
    return (x.transpose(1, 2) if tall else x).to(g.dtype)


def as_matrix(p, u):
    """Convolution kernels as matrices: [out, in * k]; transposed ones (marked) as [out * k, in]."""
    if u.dim() == 3:
        u = u.permute(1, 2, 0) if getattr(p, "transposed", False) else u
        u = u.flatten(0, 1) if getattr(p, "transposed", False) else u.flatten(1)
    return u


def as_kernel(p, m):
    """The inverse of `as_matrix`."""
    if p.dim() == 3 and getattr(p, "transposed", False):
        return m.view(p.shape[1], p.shape[2], p.shape[0]).permute(2, 0, 1)
    return m.view_as(p)


class Muon(torch.optim.Optimizer):
    """Matrices of equal shape are orthogonalised together. With several ranks (`ranks.py`), each orthogonalises a part of them.

    With `keep_norm` every matrix keeps the norm it started with: a network without normalisation
    layers would otherwise grow its activations without bound.
    """

    def __init__(self, params, lr=0.02, momentum=0.95, weight_decay=0.01, keep_norm=False):
        super().__init__(params, dict(lr=lr, momentum=momentum, weight_decay=weight_decay, keep_norm=keep_norm))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            shapes = {}
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if "momentum" not in state:
                    state["momentum"] = torch.zeros_like(p)
                    state["norm"] = p.norm()
                m = state["momentum"]
                m.lerp_(p.grad, 1 - group["momentum"])
                update = as_matrix(p, p.grad.lerp(m, group["momentum"]))
                shapes.setdefault(tuple(update.shape), []).append((p, update))
            stacks = [torch.stack([u for _, u in entries]) for entries in shapes.values()]
            mine = slice(ranks.RANK, None, ranks.COUNT)
            for stack in stacks:
                done = orthogonalise(stack[mine])
                stack.zero_()
                stack[mine] = done
            ranks.all_reduce(stacks)
            for ((a, b), entries), stack in zip(shapes.items(), stacks):
                for (p, _), u in zip(entries, stack * max(1.0, a / b) ** 0.5):
                    p.mul_(1 - group["lr"] * group["weight_decay"])
                    p.add_(as_kernel(p, u), alpha=-group["lr"])
                    if group["keep_norm"]:
                        p.mul_(self.state[p]["norm"] / p.norm())


class Optimisers:
    """Muon and AdamW with one interface; `scale` multiplies both learning rates."""

    def __init__(self, matrices, others, muon=0.02, adam=2e-3, weight_decay=0.01, keep_norm=False):
        self.parts = [(Muon(matrices, lr=muon, weight_decay=weight_decay, keep_norm=keep_norm), muon),
                      (torch.optim.AdamW(others, lr=adam, betas=(0.9, 0.95), weight_decay=0.0), adam)]

    def add(self, params, lr):
        """One more AdamW, for parameters that need their own learning rate."""
        self.parts.append((torch.optim.AdamW(params, lr=lr, betas=(0.9, 0.95), weight_decay=0.0), lr))

    def add_matrices(self, params, lr, weight_decay=0.0, keep_norm=False):
        """One more Muon."""
        self.parts.append((Muon(params, lr=lr, weight_decay=weight_decay, keep_norm=keep_norm), lr))

    def step(self, scale):
        for opt, lr in self.parts:
            for group in opt.param_groups:
                group["lr"] = lr * scale
            opt.step()
            opt.zero_grad(set_to_none=True)

    def state_dict(self):
        return [opt.state_dict() for opt, _ in self.parts]

    def load_state_dict(self, states):
        for (opt, _), s in zip(self.parts, states):
            opt.load_state_dict(s)


def split(module, is_matrix=lambda name, p: p.dim() >= 2):
    named = list(module.named_parameters())
    return [p for n, p in named if is_matrix(n, p)], [p for n, p in named if not is_matrix(n, p)]
