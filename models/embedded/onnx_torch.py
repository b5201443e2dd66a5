"""Runs an ONNX graph with torch, on a GPU when there is one: just the operators that Kokoro's graph has.

Tensors of integers (shapes, indices) stay on the processor, so that a step waits for the GPU only where the length of
the audio is decided.
"""
import torch
import torch.nn.functional as F

BINARY = {"Add": torch.add, "Sub": torch.sub, "Mul": torch.mul, "Equal": torch.eq, "Greater": torch.gt, "Less": torch.lt,
          "GreaterOrEqual": torch.ge, "And": torch.logical_and}
UNARY = {"Sqrt": torch.sqrt, "Sin": torch.sin, "Cos": torch.cos, "Exp": torch.exp, "Tanh": torch.tanh,
         "Sigmoid": torch.sigmoid, "Floor": torch.floor, "Round": torch.round}
DTYPES = {1: torch.float32, 6: torch.int32, 7: torch.int64, 9: torch.bool, 11: torch.float64}


def together(a, b):
    """Both on one device; single numbers may stay where they are."""
    if a.device != b.device:
        if a.device.type == "cpu" and a.dim():
            a = a.to(b.device)
        elif b.device.type == "cpu" and b.dim():
            b = b.to(a.device)
    return a, b


class Graph:
    def __init__(self, path, device="cpu"):
        import onnx
        from onnx import numpy_helper
        model = onnx.load(path)
        self.device = torch.device(device)
        self.constants = {}
        for t in model.graph.initializer:
            x = torch.from_numpy(numpy_helper.to_array(t).copy())
            self.constants[t.name] = x.to(self.device) if (x.is_floating_point() or x.dtype == torch.int8) and x.numel() > 1 else x
        self.outputs = [o.name for o in model.graph.output]
        value = onnx.helper.get_attribute_value
        self.steps, last = [], {}
        for n in model.graph.node:
            run = getattr(self, "op_" + n.op_type, None)
            if run is None and n.op_type in BINARY:
                run = lambda a, b, f=BINARY[n.op_type]: f(*together(a, b))
            elif run is None and n.op_type in UNARY:
                run = UNARY[n.op_type]
            if run is None:
                raise NotImplementedError(f"operator {n.op_type} of {n.name}")
            self.steps.append((run, list(n.input), list(n.output), {a.name: value(a) for a in n.attribute}))
            last.update({i: len(self.steps) for i in n.input})
        # what a step uses for the last time is let go after it
        self.free = [[] for _ in self.steps]
        for name, step in last.items():
            if name not in self.constants and name not in self.outputs:
                self.free[step - 1].append(name)
        plain = {"Conv", "ConvTranspose"}
        self.recurrent = {}
        for k, (n, (run, inputs, outputs, attributes)) in enumerate(zip(model.graph.node, self.steps)):
            if n.op_type == "LSTM":
                self.steps[k] = (self.lstm(inputs, attributes), [inputs[0]], outputs, {})
            elif n.op_type not in plain and n.op_type in (*BINARY, *UNARY):
                self.steps[k] = (run, inputs, outputs, {})

    def lstm(self, names, attributes):
        """torch's own layer with the weights of the node; its gates stand in another order."""
        w, r, b = (self.constants[n] for n in names[1:4])
        size = attributes["hidden_size"]
        layer = torch.nn.LSTM(w.shape[-1], size, bidirectional=True).to(self.device).eval()
        order = lambda x: torch.cat([x[:size], x[2 * size:3 * size], x[3 * size:], x[size:2 * size]])
        with torch.no_grad():
            for d, end in enumerate(("", "_reverse")):
                getattr(layer, "weight_ih_l0" + end).copy_(order(w[d]))
                getattr(layer, "weight_hh_l0" + end).copy_(order(r[d]))
                getattr(layer, "bias_ih_l0" + end).copy_(order(b[d][:4 * size]))
                getattr(layer, "bias_hh_l0" + end).copy_(order(b[d][4 * size:]))

        def run(x):
            y, (h, c) = layer(x)
            return y.view(*y.shape[:2], 2, size).transpose(1, 2), h, c
        return run

    @torch.inference_mode()
    def __call__(self, **inputs):
        values = dict(self.constants)
        values.update({k: v.to(self.device) if v.is_floating_point() else v for k, v in inputs.items()})
        values[""] = None
        for (run, names, outputs, attributes), gone in zip(self.steps, self.free):
            found = run(*[values[n] for n in names], **attributes)
            if len(outputs) == 1:
                values[outputs[0]] = found
            else:
                values.update(zip(outputs, found))
            for name in gone:
                values.pop(name, None)
        return [values[o] for o in self.outputs]

    # --------------------------------------------------------------------------- operators
    def op_Div(self, a, b):
        a, b = together(a, b)
        return torch.div(a, b) if a.is_floating_point() else torch.div(a, b, rounding_mode="trunc")

    def op_Atan(self, x):
        return torch.atan(torch.nan_to_num(x))          # the phase of silence: 0 / 0

    def op_Pow(self, a, b):
        return a.square() if b.numel() == 1 and float(b) == 2 else torch.pow(*together(a, b))

    def op_MatMul(self, a, b):
        return torch.matmul(*together(a, b))

    def op_FusedMatMul(self, a, b, alpha=1.0, transA=0, transB=0, **_):
        a, b = together(a, b)
        return torch.matmul(a.transpose(-1, -2) if transA else a, b.transpose(-1, -2) if transB else b) * alpha

    def op_Shape(self, x, start=0, end=None):
        return torch.tensor(x.shape[start:end])

    def op_Gather(self, x, at, axis=0):
        if at.dim() == 0:
            return x.select(axis, int(at))
        if at.device != x.device:
            at = at.to(x.device)
        return x.index_select(axis, at.reshape(-1)).reshape(*x.shape[:axis], *at.shape, *x.shape[axis + 1:])

    def op_DequantizeLinear(self, x, scale, zero=None, axis=1):
        return (x.float() - (0 if zero is None else float(zero))) * float(scale)

    def op_Cast(self, x, to, saturate=1):
        y = x.to(DTYPES[to])
        return y if y.is_floating_point() or y.dtype == torch.bool or y.numel() > 4 else y.cpu()

    def op_Unsqueeze(self, x, axes):
        for a in sorted(axes.tolist()):
            x = x.unsqueeze(a)
        return x

    def op_Squeeze(self, x, axes=None):
        if axes is None:
            return x.squeeze()
        for a in sorted((a % x.dim() for a in axes.tolist()), reverse=True):
            x = x.squeeze(a)
        return x

    def op_Transpose(self, x, perm):
        return x.permute(*perm)

    def op_Reshape(self, x, shape, allowzero=0):
        return x.reshape([x.shape[i] if s == 0 else s for i, s in enumerate(shape.tolist())])

    def op_Concat(self, *parts, axis):
        at = next((p.device for p in parts if p.device.type != "cpu"), parts[0].device)
        return torch.cat([p.to(at) for p in parts], axis)

    def op_Split(self, x, sizes, axis=0):
        return x.split(sizes.tolist(), axis)

    def op_Slice(self, x, starts, ends, axes=None, steps=None):
        axes = list(range(len(starts))) if axes is None else axes.tolist()
        for start, end, axis, step in zip(starts.tolist(), ends.tolist(), axes, [1] * len(axes) if steps is None else steps.tolist()):
            if step < 0:
                x = x.flip(axis)
                assert step == -1 and start in (-1, x.shape[axis] - 1) and end < -x.shape[axis]
                continue
            at = [slice(None)] * x.dim()
            at[axis] = slice(start, min(end, x.shape[axis]), step)
            x = x[tuple(at)]
        return x

    def op_ConstantOfShape(self, shape, value=None):
        from onnx import numpy_helper
        fill = torch.from_numpy(numpy_helper.to_array(value).copy()) if value is not None else torch.zeros(1)
        return torch.full(shape.tolist(), fill.item(), dtype=fill.dtype, device=self.device if fill.is_floating_point() else "cpu")

    def op_Expand(self, x, shape):
        return x.expand(torch.broadcast_shapes(x.shape, tuple(shape.tolist())))

    def op_Where(self, mask, a, b):
        at = next((t.device for t in (mask, a, b) if t.device.type != "cpu"), mask.device)
        return torch.where(mask.to(at), a.to(at), b.to(at))

    def op_Range(self, start, end, step):
        return torch.arange(start.item(), end.item(), step.item())

    def op_CumSum(self, x, axis, exclusive=0, reverse=0):
        return x.cumsum(int(axis))

    def op_Clip(self, x, low=None, high=None):
        return x.clamp(min=None if low is None else float(low), max=None if high is None else float(high))

    def op_LeakyRelu(self, x, alpha=0.01):
        return F.leaky_relu(x, alpha)

    def op_FastGelu(self, x, bias=None):
        return F.gelu(x if bias is None else x + bias, approximate="tanh")

    def op_Softmax(self, x, axis=-1):
        return x.softmax(axis)

    def op_LayerNormalization(self, x, weight, bias=None, axis=-1, epsilon=1e-5, stash_type=1):
        return F.layer_norm(x, x.shape[axis:], weight, bias, epsilon)

    def op_SkipLayerNormalization(self, x, skip, weight, bias=None, extra=None, epsilon=1e-5):
        y = x + skip if extra is None else x + skip + extra
        return F.layer_norm(y, y.shape[-1:], weight, bias, epsilon)

    def op_ReduceMean(self, x, axes, keepdims=1, noop_with_empty_axes=0):
        return x.mean(axes.tolist(), keepdim=bool(keepdims))

    def op_ReduceSum(self, x, axes, keepdims=1, noop_with_empty_axes=0):
        return x.sum(axes.tolist(), keepdim=bool(keepdims))

    def op_LSTM(self, *_, **__):
        raise AssertionError("replaced when the graph is read")

    def op_Conv(self, x, w, b=None, auto_pad=b"NOTSET", dilations=(1,), group=1, kernel_shape=None, pads=(0, 0), strides=(1,)):
        half = len(pads) // 2
        assert half == 1 and pads[0] == pads[1]
        return F.conv1d(x, w, b, strides[0], pads[0], dilations[0], group)

    def op_ConvTranspose(self, x, w, b=None, auto_pad=b"NOTSET", dilations=(1,), group=1, kernel_shape=None, output_padding=(0,), pads=(0, 0), strides=(1,)):
        assert pads[0] == pads[1]
        return F.conv_transpose1d(x, w, b, strides[0], pads[0], output_padding[0], group, dilations[0])

    def op_Resize(self, x, _, scales, mode=b"nearest", **__):
        factor = scales.tolist()
        assert factor[:-1] == [1] * (len(factor) - 1)
        n = int(x.shape[-1] * factor[-1])
        if mode == b"nearest":
            at = (torch.arange(n, device=x.device) / factor[-1]).floor().long().clamp(max=x.shape[-1] - 1)
            return x.index_select(-1, at)
        return F.interpolate(x, size=n, mode="linear", align_corners=False)

    def op_Pad(self, x, pads, value=None, mode=b"constant"):
        p, n = pads.tolist(), x.dim()
        assert not any(p[:n - 1]) and not any(p[n:2 * n - 1])
        if mode == b"reflect":
            return F.pad(x, (p[n - 1], p[-1]), mode="reflect")
        return F.pad(x, (p[n - 1], p[-1]), value=0.0 if value is None else float(value))

    def op_STFT(self, x, step, window, size, onesided=1):
        x = x[..., 0] if x.dim() == 3 else x
        s = torch.stft(x, int(size), int(step), int(size), window, center=False, onesided=bool(onesided), return_complex=True)
        return torch.view_as_real(s.transpose(1, 2))

    def op_NonZero(self, x):
        return torch.nonzero(x).T

    def op_ScatterND(self, x, at, updates, reduction=b"none"):
        y = x.clone()
        y[tuple(at.to(x.device).unbind(-1))] = updates.to(x.device)
        return y
