//! Convolutions over the signals of several streams: windows of rows, and a linear layer over them.
//!
//! Not `candle_nn::Conv1d`: see docs/dev/decisions.md.

use candle_core::Tensor;

use super::Candle;
use crate::layers::{Conv, Depthwise, Snake};
use crate::ops::*;
use crate::{Part, Pass, Result, Signals, Taps};

/// `[past rows, width]` of every stream.
pub struct Past {
    streams: Vec<Tensor>,
    rows: usize,
    width: usize,
}

impl Candle {
    /// Signals with their past in front: the windows `[rows, taps, channels]` of every row of every signal.
    fn windows(
        &self,
        taps: Taps,
        x: &Tensor,
        signals: &Signals<Self>,
        past: &mut Past,
    ) -> Result<Option<Tensor>> {
        let mut row = 0;
        let mut windows = Vec::new();
        for (&len, part) in signals.lens().iter().zip(signals.parts()) {
            let past = &mut past.streams[part.stream as usize];
            let signal = Tensor::cat(&[&*past, &x.narrow(0, row, len)?], 0)?;
            row += len;
            // A copy: a view would keep the whole signal.
            *past = signal.narrow(0, len, taps.past())?.force_contiguous()?;
            if len > 0 {
                let tap = |t| signal.narrow(0, t * taps.dilation, len);
                let parts = (0..taps.taps).map(tap).collect::<candle_core::Result<Vec<_>>>()?;
                windows.push(Tensor::stack(&parts, 1)?);
            }
        }
        Ok(if windows.is_empty() {
            None
        } else {
            Some(Tensor::cat(&windows, 0)?)
        })
    }
}

impl StreamMemory for Candle {
    type Past = Past;
    type Layout = ();

    const SIGNAL: Pass = Pass {
        per_stream: 64,
        in_all: 256,
    };

    fn signals(&self, parts: Vec<Part>) -> Result<Signals<Self>> {
        Ok(Signals::new(parts, ()))
    }

    fn past(&self, taps: Taps, width: usize) -> Result<Past> {
        Ok(Past {
            streams: Vec::new(),
            rows: taps.past(),
            width,
        })
    }

    fn grow_past(&self, past: &mut Past, streams: usize) -> Result<()> {
        while past.streams.len() < streams {
            past.streams.push(self.zeros(past.rows, past.width)?);
        }
        Ok(())
    }

    fn clear_past(&self, past: &mut Past, stream: u32) -> Result<()> {
        past.streams[stream as usize] = self.zeros(past.rows, past.width)?;
        Ok(())
    }
}

impl Convolutions for Candle {
    type PendingSamples = Vec<Vec<f32>>;

    fn conv(
        &self,
        conv: &Conv<Self>,
        act: Option<&Snake<Self>>,
        x: &Tensor,
        signals: &Signals<Self>,
        past: &mut Past,
    ) -> Result<Tensor> {
        let activated = act.map(|snake| self.snake(snake, x.clone())).transpose()?;
        match self.windows(conv.taps, activated.as_ref().unwrap_or(x), signals, past)? {
            Some(windows) => self.linear(&conv.matrix, &windows.flatten(1, 2)?),
            None => self.zeros(0, conv.matrix.weight().dim(0)?),
        }
    }

    fn depthwise(
        &self,
        conv: &Depthwise<Self>,
        x: &Tensor,
        signals: &Signals<Self>,
        past: &mut Past,
    ) -> Result<Tensor> {
        match self.windows(conv.taps, x, signals, past)? {
            Some(windows) => {
                let w = conv.weight.reshape((conv.taps.taps, x.dim(1)?))?;
                Ok(windows.broadcast_mul(&w)?.sum(1)?.broadcast_add(&conv.bias)?)
            }
            None => self.zeros(0, x.dim(1)?),
        }
    }

    fn trim(&self, x: Tensor, signals: &Signals<Self>, dropped: usize) -> Result<Tensor> {
        match signals.kept(dropped) {
            Some(kept) => self.gather(&x, &kept),
            None => Ok(x),
        }
    }

    fn download_samples(&self, x: &Tensor, signals: &Signals<Self>) -> Result<Vec<Vec<f32>>> {
        Ok(signals.cut(&self.host(x)?))
    }

    fn wait_samples(&self, pending: Vec<Vec<f32>>) -> Result<Vec<Vec<f32>>> {
        Ok(pending)
    }
}
