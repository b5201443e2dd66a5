//! Calls of the HTTP API, by the names of prometheus-fastapi-instrumentator.

use std::time::Duration;

use metrics::Histogram;

use super::torchserve::{ResponseClass, Responses};
use crate::families as f;
use crate::meter::Meter;

/// One call, when its response ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HttpExchange<'a> {
    /// Requested route; one of a few.
    pub handler: &'a str,
    /// The method; one of a few.
    pub method: &'a str,
    /// It asks for work; probes, listings and files do not.
    pub works: bool,
    /// The status code.
    pub status: u16,
    /// Content length of the request, 0 if it does not say.
    pub request_bytes: u64,
    /// Content length of the answer, 0 if it does not say.
    pub response_bytes: u64,
    /// Time from the request's head to the answer's last byte.
    pub took: Duration,
}

/// Records calls by HTTP.
#[derive(Debug)]
pub struct HttpInstruments {
    meter: Meter,
    fine: Histogram,
    responses: Responses,
}

impl HttpInstruments {
    /// Instruments for all routes.
    pub fn new(meter: &Meter) -> Self {
        Self {
            fine: meter.histogram(f::HTTP_REQUEST_DURATION_HIGHR_SECONDS, []),
            responses: Responses::new(meter),
            meter: meter.clone(),
        }
    }

    /// A response ended.
    pub fn answered(&self, exchange: &HttpExchange<'_>) {
        let HttpExchange { handler, method, .. } = *exchange;
        let (class, response) = match exchange.status {
            ..300 => ("2xx", ResponseClass::Success),
            300..400 => ("3xx", ResponseClass::Success),
            400..500 => ("4xx", ResponseClass::ClientError),
            500.. => ("5xx", ResponseClass::ServerError),
        };
        // An upgrade is answered at once; the session follows.
        let upgraded = exchange.status == 101;
        let works = exchange.works && !upgraded;
        if works {
            self.responses.answered(response);
            self.fine.record(exchange.took);
        }
        let meter = &self.meter;
        meter
            .counter(f::HTTP_REQUESTS_TOTAL, [handler, method, class])
            .increment(1);
        meter
            .summary(f::HTTP_REQUEST_SIZE_BYTES, [handler])
            .record(exchange.request_bytes as f64);
        meter
            .summary(f::HTTP_RESPONSE_SIZE_BYTES, [handler])
            .record(exchange.response_bytes as f64);
        if !upgraded {
            meter
                .histogram(f::HTTP_REQUEST_DURATION_SECONDS, [handler, method])
                .record(exchange.took);
        }
    }
}
