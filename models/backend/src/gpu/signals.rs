//! Convolutions over the signals of several streams.
//!
//! A frame has as many rows as any other: those that a stream lacks at its beginning are there, and are read as zeros.
//! So how large an operation is depends on the frames alone.

use omni_gpu::kernels::{
    Activation, Convolve, Depthwise as DepthwiseKernel, Pad, Remember, Signals as Streams,
};
use omni_gpu::{Address, Device, Memory};

use super::command_stream::{PendingCopy, Place};
use super::{Gpu, Past, Rows, small};
use crate::layers::{Conv, Depthwise, Snake};
use crate::ops::*;
use crate::{ComputeError, Part, Pass, Result, Signals, Taps};

/// Every part's first frame.
pub struct Layout {
    first: Vec<usize>,
}

impl Layout {
    pub(super) fn new(parts: &[Part]) -> Self {
        let mut end = 0;
        let first = parts.iter().map(|part| {
            end += part.frames;
            end - part.frames
        });
        Self {
            first: first.collect(),
        }
    }
}

/// A download of samples of several streams in flight.
pub struct PendingSamples<D: Device> {
    rows: PendingCopy<D>,
    /// Of every part how many rows there are, and how many of them, the last, are its samples.
    parts: Vec<(usize, usize)>,
}

/// Signals as kernels see them.
struct Placed<D: Device> {
    streams: Streams,
    _from: Place<D>,
    _past: Place<D>,
    _lacking: Place<D>,
}

impl<D: Device> Gpu<D> {
    pub(super) fn download_rows(&self, x: &Rows<D>, signals: &Signals<Self>) -> Result<PendingSamples<D>> {
        let parts = signals.parts().iter().zip(signals.lens());
        let parts = parts.map(|(part, &len)| (part.frames * signals.rate(), len));
        Ok(PendingSamples {
            parts: parts.collect(),
            rows: self.download_floats(x)?,
        })
    }

    pub(super) fn cut(&self, pending: PendingSamples<D>) -> Result<Vec<Vec<f32>>> {
        let samples = self.wait_floats(pending.rows)?;
        let mut rest = samples.as_slice();
        let part = |(rows, len): (usize, usize)| {
            let (one, others) = rest.split_at(rows);
            rest = others;
            one[rows - len..].to_vec()
        };
        Ok(pending.parts.into_iter().map(part).collect())
    }

    fn place(&self, x: &Rows<D>, signals: &Signals<Self>, past: &Past<D>) -> Result<Placed<D>> {
        let rate = signals.rate();
        let parts = || signals.parts().iter().zip(signals.lens());
        let first = signals.layout.first.iter().map(|first| small(first * rate));
        let from = self.bring(first.chain([small(x.rows)]))?;
        let lacking = self.bring(parts().map(|(part, len)| small(part.frames * rate - len)))?;
        let each = past.rows * past.width * self.float.bytes();
        let base = past.values.as_ref().map_or(Address::NONE, Memory::address);
        let pasts = parts().map(|(part, _)| base.offset(part.stream as usize * each).0);
        let pasts: Vec<u8> = pasts.flat_map(u64::to_le_bytes).collect();
        let pasts = self.commands().bring(&pasts)?;
        let streams = Streams {
            from: from.address(),
            lacking: lacking.address(),
            past: pasts.address(),
            count: small(signals.parts().len()),
            rows: small(x.rows),
            keep: small(past.rows),
        };
        Ok(Placed {
            streams,
            _from: from,
            _past: pasts,
            _lacking: lacking,
        })
    }

    /// `[past | act(x)]` of every signal, whose end is the past from here on.
    fn pad(&self, placed: &Placed<D>, act: Option<&Snake<Self>>, x: &Rows<D>) -> Result<Rows<D>> {
        let signals = placed.streams;
        let padded = self.scratch(signals.padded() as usize, x.width)?;
        let pad = Pad {
            out: padded.address(),
            x: x.address(),
            signals,
            a: act.map_or(Address::NONE, |act| act.a.values.address()),
            b: act.map_or(Address::NONE, |act| act.b.values.address()),
            width: small(x.width),
        };
        self.launch(pad.launch(self.float))?;
        let remember = Remember {
            padded: padded.address(),
            signals,
            width: small(x.width),
        };
        self.launch(remember.launch(self.float))?;
        Ok(padded)
    }

    pub(super) fn convolve(
        &self,
        conv: &Conv<Self>,
        act: Option<&Snake<Self>>,
        x: &Rows<D>,
        signals: &Signals<Self>,
        past: &mut Past<D>,
        after: Option<&Snake<Self>>,
    ) -> Result<Rows<D>> {
        let placed = self.place(x, signals, past)?;
        let padded = self.pad(&placed, act, x)?;
        let out = self.scratch(x.rows, conv.matrix.outputs)?;
        let mut kernel = Convolve {
            linear: Self::times(&out, &conv.matrix, padded.address()),
            signals: placed.streams,
            channels: small(x.width),
            dilation: small(conv.taps.dilation),
        };
        if let Some(after) = after {
            kernel.linear.activation = Activation::Snake;
            kernel.linear.scale = after.a.values.address();
            kernel.linear.shift = after.b.values.address();
        }
        let shared = self.share(kernel.scratch_bytes(self.float))?;
        kernel.linear.scratch = shared.scratch;
        self.launch(kernel.launch(self.float))?;
        Ok(out)
    }

    pub(super) fn convolve_each(
        &self,
        conv: &Depthwise<Self>,
        x: &Rows<D>,
        signals: &Signals<Self>,
        past: &mut Past<D>,
    ) -> Result<Rows<D>> {
        let placed = self.place(x, signals, past)?;
        let padded = self.pad(&placed, None, x)?;
        let out = self.scratch(x.rows, x.width)?;
        let kernel = DepthwiseKernel {
            out: out.address(),
            padded: padded.address(),
            w: conv.weight.values.address(),
            bias: conv.bias.values.address(),
            signals: placed.streams,
            taps: small(conv.taps.taps),
            dilation: small(conv.taps.dilation),
            width: small(x.width),
        };
        self.launch(kernel.launch(self.float))?;
        Ok(out)
    }
}

impl<D: Device> StreamMemory for Gpu<D> {
    type Past = Past<D>;
    type Layout = Layout;

    const SIGNAL: Pass = Pass {
        per_stream: 32,
        in_all: 64,
    };

    fn signals(&self, parts: Vec<Part>) -> Result<Signals<Self>> {
        let layout = Layout::new(&parts);
        Ok(Signals::new(parts, layout))
    }

    fn past(&self, taps: Taps, width: usize) -> Result<Past<D>> {
        let each = taps.past() * width * self.float.bytes();
        if !each.is_multiple_of(4) {
            // Each stream's is cleared word by word.
            return Err(ComputeError::Failed(format!(
                "a convolution's memory of {each} bytes"
            )));
        }
        Ok(Past {
            values: None,
            streams: 0,
            rows: taps.past(),
            width,
        })
    }

    fn grow_past(&self, past: &mut Past<D>, streams: usize) -> Result<()> {
        if streams > past.streams && past.rows > 0 {
            let each = past.rows * past.width;
            let keep = past.streams * each * self.float.bytes();
            let before = past.values.as_ref().map(|values| (values, keep));
            past.values = Some(self.zeroed(streams * each, before)?);
            self.commands().moved();
        }
        past.streams = past.streams.max(streams);
        Ok(())
    }

    fn clear_past(&self, past: &mut Past<D>, stream: u32) -> Result<()> {
        let bytes = past.rows * past.width * self.float.bytes();
        match &past.values {
            Some(values) if bytes > 0 => self.fill(values.address().offset(stream as usize * bytes), bytes),
            _ => Ok(()),
        }
    }
}

impl<D: Device> Convolutions for Gpu<D> {
    type PendingSamples = PendingSamples<D>;

    fn conv(
        &self,
        conv: &Conv<Self>,
        act: Option<&Snake<Self>>,
        x: &Rows<D>,
        signals: &Signals<Self>,
        past: &mut Past<D>,
    ) -> Result<Rows<D>> {
        self.convolve(conv, act, x, signals, past, None)
    }

    fn conv_snake(
        &self,
        conv: &Conv<Self>,
        act: Option<&Snake<Self>>,
        x: &Rows<D>,
        signals: &Signals<Self>,
        past: &mut Past<D>,
        after: &Snake<Self>,
    ) -> Result<Rows<D>> {
        self.convolve(conv, act, x, signals, past, Some(after))
    }

    fn depthwise(
        &self,
        conv: &Depthwise<Self>,
        x: &Rows<D>,
        signals: &Signals<Self>,
        past: &mut Past<D>,
    ) -> Result<Rows<D>> {
        self.convolve_each(conv, x, signals, past)
    }

    /// Does nothing: the layout already leaves out the rows to be trimmed.
    fn trim(&self, x: Rows<D>, _: &Signals<Self>, _: usize) -> Result<Rows<D>> {
        Ok(x)
    }

    fn download_samples(&self, x: &Rows<D>, signals: &Signals<Self>) -> Result<PendingSamples<D>> {
        self.download_rows(x, signals)
    }

    fn wait_samples(&self, pending: PendingSamples<D>) -> Result<Vec<Vec<f32>>> {
        self.cut(pending)
    }
}
