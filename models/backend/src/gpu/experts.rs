//! A mixture of experts without the host: routing, then the experts' products.

use omni_gpu::kernels::{
    Combine, Dispatch, ExpertDown, ExpertGated, ExpertLinear, FEW_ROWS as NORMED_ROWS, Gated, GatedBeside,
    Linear, Route, Scratch, SharedExpert,
};
use omni_gpu::{Address, Device, Memory};

use super::command_stream::Place;
use super::{Experts, Gpu, Matrix, Rows, small};
use crate::{Mixture, Norm, Products, Result, Routing, add_mixture};

/// Rows up to which every row reads its own experts' matrices; more are sorted by expert first.
const FEW_ROWS: usize = 32;

/// The experts of a row, and how much each counts.
struct Routed<D: Device> {
    /// `[rows, top_k]`.
    ids: Place<D>,
    /// `[rows, top_k]` of f32.
    weights: Place<D>,
    /// `[rows]` of f32: weight of the shared expert.
    gates: Option<Place<D>>,
}

/// Last operands of a mixture.
struct Ends<'a, D: Device> {
    shared: Shared<'a, D>,
    /// The rows that the sum is added to, where they are.
    onto: Option<Rows<D>>,
}

/// Output of the expert that all rows share.
enum Shared<'a, D: Device> {
    Nothing,
    /// Its rows.
    Rows(&'a Rows<D>),
    /// Its first half, and the matrix of the second.
    Half(Rows<D>, &'a Matrix<D>),
}

impl<D: Device> Shared<'_, D> {
    fn of_kernel(&self) -> SharedExpert {
        match self {
            Self::Nothing => SharedExpert::None,
            Self::Rows(rows) => SharedExpert::Rows(rows.address()),
            Self::Half(h, w) => SharedExpert::Half {
                h: h.address(),
                w: w.weight.address(),
                inputs: small(h.width),
            },
        }
    }
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
        if x.rows > FEW_ROWS {
            return self.mix_many(experts, routing, &routed, x, shared, onto);
        }
        let shared = shared.map_or(Shared::Nothing, Shared::Rows);
        self.mix_few(experts, routing, &routed, (x, None), Ends { shared, onto })
    }

    /// `x` plus the mixture of experts of its normalised rows. Few rows are normalised as they enter each product,
    /// and the shared expert is computed beside the others.
    pub(super) fn normalise_and_mix(
        &self,
        x: Rows<D>,
        norm: Norm<'_, Self>,
        mixture: &Mixture<'_, Self>,
    ) -> Result<Rows<D>> {
        let has_bias = |m: &Matrix<D>| m.bias.is_some();
        let plain = !has_bias(mixture.router) && !mixture.shared.is_some_and(|(_, down)| has_bias(down));
        if x.rows > NORMED_ROWS as usize || !plain {
            return add_mixture(self, x, norm, mixture, None);
        }
        let (scores, shared) = match mixture.shared {
            None => (self.norm_linear(norm, mixture.router, &x)?, Shared::Nothing),
            Some((gate_up, down)) => {
                let (scores, h) = self.score_and_gate(&x, norm, mixture.router, gate_up)?;
                (scores, Shared::Half(h, down))
            }
        };
        let routed = self.route(mixture.routing, &scores, mixture.shared.is_some())?;
        let place = Place::Fixed(x.address());
        let rows = x.rows;
        let width = x.width;
        let from = Rows { place, rows, width };
        let ends = Ends {
            shared,
            onto: Some(x),
        };
        self.mix_few(
            mixture.experts,
            mixture.routing,
            &routed,
            (&from, Some(norm)),
            ends,
        )
    }

    /// The router's scores and the shared expert's first half.
    fn score_and_gate(
        &self,
        x: &Rows<D>,
        norm: Norm<'_, Self>,
        router: &Matrix<D>,
        gate_up: &Matrix<D>,
    ) -> Result<(Rows<D>, Rows<D>)> {
        let scores = self.scratch(x.rows, router.outputs)?;
        let h = self.scratch(x.rows, gate_up.outputs / 2)?;
        let both = GatedBeside {
            gated: Gated {
                out: h.address(),
                x: x.address(),
                w: gate_up.weight.address(),
                norm: norm.weight.values.address(),
                eps: norm.eps,
                scratch: Scratch::default(),
                rows: small(x.rows),
                half: small(h.width),
                inputs: small(x.width),
            },
            out: scores.address(),
            w: router.weight.address(),
            outputs: small(router.outputs),
        };
        self.launch(both.launch(self.float))?;
        Ok((scores, h))
    }

    /// Destination of the sum, and the rows that it is added to.
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
        (x, norm): (&Rows<D>, Option<Norm<'_, Self>>),
        Ends { shared, onto }: Ends<'_, D>,
    ) -> Result<Rows<D>> {
        let rows = small(x.rows);
        let top_k = small(routing.top_k);
        let inner = self.scratch(x.rows * routing.top_k, experts.inner)?;
        let first = ExpertGated {
            out: inner.address(),
            x: x.address(),
            w: experts.gate_up.address(),
            ids: routed.ids.address(),
            norm: norm.map_or(Address::NONE, |norm| norm.weight.values.address()),
            eps: norm.map_or(0.0, |norm| norm.eps),
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
            shared: shared.of_kernel(),
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
        shared: Option<&Rows<D>>,
        onto: Option<Rows<D>>,
    ) -> Result<Rows<D>> {
        let rows = small(x.rows);
        let top_k = small(routing.top_k);
        let count = small(routing.experts);
        let pairs = x.rows * routing.top_k;
        let tile_count = Dispatch::tiles(rows, count, top_k);
        let order = self.words(pairs)?;
        let places = self.words(pairs)?;
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
                let linear = Linear::product(
                    out.address(),
                    x,
                    w.address(),
                    [small(pairs), small(outputs), small(inputs)],
                );
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
        let inner = experts.inner;
        let width = x.width;
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
