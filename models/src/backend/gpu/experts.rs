//! A mixture of experts without the host: routing, then the experts' products.

use omni_gpu::kernels::{
    Activation, Combine, Dispatch, ExpertDown, ExpertGated, ExpertLinear, Linear, Route, Scratch,
};
use omni_gpu::{Address, Device, Memory};

use super::command_stream::Place;
use super::{Experts, Gpu, Rows, small};
use crate::backend::{Result, Routing};

/// Rows up to which every row reads its own experts' matrices; more are sorted by expert first.
const FEW_ROWS: usize = 32;

/// The experts of a row, and how much each counts.
struct Routed<D: Device> {
    /// `[rows, top_k]`.
    ids: Place<D>,
    /// `[rows, top_k]` of f32.
    weights: Place<D>,
    /// `[rows]` of f32: what the shared expert counts.
    gates: Option<Place<D>>,
}

/// What a mixture ends with.
struct Ends<'a, D: Device> {
    /// The shared expert's rows.
    shared: Option<&'a Rows<D>>,
    /// The rows that the sum is added to, where they are.
    onto: Option<Rows<D>>,
}

fn address<D: Device>(place: Option<&Place<D>>) -> Address {
    place.map_or(Address::NONE, Place::address)
}

impl<D: Device> Gpu<D> {
    pub(super) fn mix(
        &self,
        experts: &Experts<D>,
        routing: Routing,
        scores: &Rows<D>,
        x: &Rows<D>,
        shared: Option<&Rows<D>>,
        onto: Option<Rows<D>>,
    ) -> Result<Rows<D>> {
        let routed = self.route(routing, scores, shared.is_some())?;
        let ends = Ends { shared, onto };
        if x.rows > FEW_ROWS {
            self.mix_many(experts, routing, &routed, x, ends)
        } else {
            self.mix_few(experts, routing, &routed, x, ends)
        }
    }

    /// Where the sum goes, and what it is added to.
    fn out(&self, x: &Rows<D>, onto: Option<Rows<D>>) -> Result<(Rows<D>, Address)> {
        match onto {
            Some(onto) => {
                let address = onto.address();
                Ok((onto, address))
            }
            None => Ok((self.scratch(x.rows, x.width)?, Address::NONE)),
        }
    }

    fn words(&self, count: usize) -> Result<Place<D>> {
        Ok(self.commands().take(count * 4)?)
    }

    fn route(&self, routing: Routing, scores: &Rows<D>, shared: bool) -> Result<Routed<D>> {
        let pairs = scores.rows * routing.top_k;
        let routed = Routed {
            ids: self.words(pairs)?,
            weights: self.words(pairs)?,
            gates: shared.then(|| self.words(scores.rows)).transpose()?,
        };
        let route = Route {
            ids: routed.ids.address(),
            weights: routed.weights.address(),
            gates: address(routed.gates.as_ref()),
            scores: scores.address(),
            rows: small(scores.rows),
            experts: small(routing.experts),
            width: small(scores.width),
            top_k: small(routing.top_k),
            normalise: routing.normalise,
        };
        self.launch(route.launch(self.float))?;
        Ok(routed)
    }

    fn mix_few(
        &self,
        experts: &Experts<D>,
        routing: Routing,
        routed: &Routed<D>,
        x: &Rows<D>,
        Ends { shared, onto }: Ends<'_, D>,
    ) -> Result<Rows<D>> {
        let (rows, top_k) = (small(x.rows), small(routing.top_k));
        let inner = self.scratch(x.rows * routing.top_k, experts.inner)?;
        let first = ExpertGated {
            out: inner.address(),
            x: x.address(),
            w: experts.gate_up.address(),
            ids: routed.ids.address(),
            rows,
            experts: small(routing.experts),
            top_k,
            half: small(experts.inner),
            inputs: small(x.width),
        };
        self.launch(first.launch(self.float))?;
        let (out, add) = self.out(x, onto)?;
        let second = ExpertDown {
            out: out.address(),
            h: inner.address(),
            w: experts.down.address(),
            ids: routed.ids.address(),
            weights: routed.weights.address(),
            shared: shared.map_or(Address::NONE, Rows::address),
            gates: address(routed.gates.as_ref()),
            add,
            rows,
            experts: small(routing.experts),
            top_k,
            outputs: small(x.width),
            inputs: small(experts.inner),
        };
        self.launch(second.launch(self.float))?;
        Ok(out)
    }

    fn mix_many(
        &self,
        experts: &Experts<D>,
        routing: Routing,
        routed: &Routed<D>,
        x: &Rows<D>,
        Ends { shared, onto }: Ends<'_, D>,
    ) -> Result<Rows<D>> {
        let (rows, top_k, count) = (small(x.rows), small(routing.top_k), small(routing.experts));
        let pairs = x.rows * routing.top_k;
        let tile_count = Dispatch::tiles(rows, count, top_k);
        let (order, places) = (self.words(pairs)?, self.words(pairs)?);
        let tiles = self.words(3 * tile_count as usize)?;
        let dispatch = Dispatch {
            order: order.address(),
            places: places.address(),
            tiles: tiles.address(),
            ids: routed.ids.address(),
            rows,
            experts: count,
            top_k,
        };
        self.launch(dispatch.launch())?;
        let product =
            |x: Address, w: &D::Memory, index: Address, (inputs, outputs): (usize, usize), half: usize| {
                let out = self.scratch(pairs, if half > 0 { half } else { outputs })?;
                let linear = Linear {
                    out: out.address(),
                    x,
                    w: w.address(),
                    bias: Address::NONE,
                    scale: Address::NONE,
                    shift: Address::NONE,
                    add: Address::NONE,
                    norm: Address::NONE,
                    eps: 0.0,
                    scratch: Scratch::default(),
                    rows: small(pairs),
                    outputs: small(outputs),
                    inputs: small(inputs),
                    activation: Activation::None,
                };
                let kernel = ExpertLinear {
                    linear,
                    half: small(half),
                    index,
                    tiles: tiles.address(),
                    tile: Dispatch::tile(rows, count, top_k),
                    tile_count,
                };
                self.launch(kernel.launch(self.float))?;
                Result::Ok(out)
            };
        let (inner, width) = (experts.inner, x.width);
        let h = product(
            x.address(),
            &experts.gate_up,
            order.address(),
            (width, 2 * inner),
            inner,
        )?;
        let y = product(h.address(), &experts.down, Address::NONE, (inner, width), 0)?;
        let (out, add) = self.out(x, onto)?;
        let combine = Combine {
            out: out.address(),
            y: y.address(),
            places: places.address(),
            weights: routed.weights.address(),
            shared: shared.map_or(Address::NONE, Rows::address),
            gates: address(routed.gates.as_ref()),
            add,
            rows,
            top_k,
            width: small(width),
        };
        self.launch(combine.launch(self.float))?;
        Ok(out)
    }
}
