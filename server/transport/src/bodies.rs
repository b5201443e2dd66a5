//! Request bodies without a session, and their shared budget.
//!
//! A unary call is read before it has a permit: neither the limit of sessions nor a key's quotas bound its body. So
//! all such bodies share one budget, counted as they arrive and until their call has its permit or is refused. A
//! caller may hold at most as much as remains for all others, so that no caller locks the others out.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::Request;
use http_body::{Body as HttpBody, Frame, SizeHint};
use omni_core::caller::Tenant;
use omni_core::error::ServeError;
use omni_pipeline::orchestrator::StageError;
use omni_session::RecordSink;
use parking_lot::Mutex;
use tower::BoxError;

use super::keys::tenant;

/// The budget. Clones share it.
#[derive(Clone, derive_more::Debug)]
#[debug("BodyBudget {{ most: {:?}, .. }}", self.0.most)]
pub struct BodyBudget(Arc<Budget>);

struct Budget {
    /// Bytes.
    most: usize,
    held: Mutex<Held>,
    records: Arc<dyn RecordSink>,
}

#[derive(Default)]
struct Held {
    /// Bytes of all tenants.
    all: usize,
    tenants: HashMap<Tenant, usize>,
}

/// Bytes that one request holds, until the last copy is dropped. Among the extensions of the request, so that it is counted for as long as
/// its handler keeps those.
#[derive(Clone)]
pub struct BodyHold(Arc<Load>);

struct Load {
    budget: Arc<Budget>,
    tenant: Tenant,
    bytes: AtomicUsize,
}

impl BodyBudget {
    /// Budget of `most` bytes in flight. Refusals are reported to `records`.
    pub fn new(most: usize, records: Arc<dyn RecordSink>) -> Self {
        Self(Arc::new(Budget {
            most,
            held: Mutex::default(),
            records,
        }))
    }

    /// Counts the request's body. A body over budget ends with a [`ServeError`].
    pub fn count<B>(&self, mut request: Request<B>) -> Request<CountedBody<B>> {
        let hold = BodyHold(Arc::new(Load {
            budget: Arc::clone(&self.0),
            tenant: tenant(request.extensions()),
            bytes: AtomicUsize::new(0),
        }));
        request.extensions_mut().insert(hold.clone());
        request.map(|body| CountedBody { body, hold })
    }
}

impl Budget {
    fn take(&self, tenant: Tenant, bytes: usize) -> Result<(), ServeError> {
        let mut held = self.held.lock();
        let all = held.all + bytes;
        let own = held.tenants.get(&tenant).copied().unwrap_or_default() + bytes;
        if all <= self.most && own <= self.most - all {
            held.all = all;
            held.tenants.insert(tenant, own);
            return Ok(());
        }
        drop(held);
        let most = self.most;
        let problem = format!(
            "requests that are being received have {all} bytes, {own} of them of this caller, of {most} in all"
        );
        let error = ServeError::from(StageError::Overloaded(problem));
        self.records.refused(&error);
        Err(error)
    }

    fn give_back(&self, tenant: Tenant, bytes: usize) {
        let mut held = self.held.lock();
        held.all -= bytes;
        if let Some(own) = held.tenants.get_mut(&tenant) {
            *own -= bytes;
            if *own == 0 {
                held.tenants.remove(&tenant);
            }
        }
    }
}

impl BodyHold {
    /// Charges `bytes` more to the request.
    ///
    /// # Errors
    /// If the budget is exhausted.
    pub fn take(&self, bytes: usize) -> Result<(), ServeError> {
        self.0.take(bytes)
    }
}

impl Load {
    fn take(&self, bytes: usize) -> Result<(), ServeError> {
        self.budget.take(self.tenant, bytes)?;
        self.bytes.fetch_add(bytes, Ordering::AcqRel);
        Ok(())
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.budget.give_back(self.tenant, *self.bytes.get_mut());
    }
}

/// A body within the budget.
pub struct CountedBody<B> {
    body: B,
    hold: BodyHold,
}

impl<B> HttpBody for CountedBody<B>
where
    B: HttpBody<Data = Bytes, Error: Into<BoxError>> + Unpin,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let Some(frame) = std::task::ready!(Pin::new(&mut self.body).poll_frame(context)) else {
            return Poll::Ready(None);
        };
        let frame = frame.map_err(Into::into).and_then(|frame| {
            let bytes = frame.data_ref().map_or(0, Bytes::len);
            match self.hold.take(bytes) {
                Ok(()) => Ok(frame),
                Err(error) => Err(error.into()),
            }
        });
        Poll::Ready(Some(frame))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};
    use std::sync::atomic::AtomicU32;

    use axum::body::{Body, to_bytes};

    use super::*;
    use omni_core::caller::CallerAddress;
    use omni_session::{EndedRequest, SessionChange, Track};

    #[derive(Default)]
    struct Refused(AtomicU32);

    impl RecordSink for Refused {
        fn ended(&self, _: &EndedRequest, _: Option<&Track>) {}
        fn session(&self, change: SessionChange<'_>) {
            if matches!(change, SessionChange::Refused(_)) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Receives a body of `bytes` bytes from this machine; returns its hold, if it fits.
    async fn receive(bodies: &BodyBudget, machine: u8, bytes: usize) -> Option<BodyHold> {
        let mut request = Request::new(Body::from(vec![0; bytes]));
        let address = IpAddr::V4(Ipv4Addr::new(10, 0, 0, machine));
        request.extensions_mut().insert(CallerAddress::direct(address));
        let mut request = bodies.count(request);
        let hold = request.extensions_mut().remove().expect("it is counted");
        let read = to_bytes(Body::new(request.into_body()), usize::MAX).await;
        read.is_ok().then_some(hold)
    }

    #[tokio::test]
    async fn a_body_counts_until_nobody_holds_it_and_nobody_takes_what_others_need() {
        let refused = Arc::new(Refused::default());
        let bodies = BodyBudget::new(1_000, Arc::clone(&refused) as Arc<dyn RecordSink>);
        let half = receive(&bodies, 1, 500).await.expect("as much as is left");
        let copy = half.clone();
        assert!(receive(&bodies, 1, 1).await.is_none());
        let other = receive(&bodies, 2, 250).await.expect("as much as is left");
        assert!(receive(&bodies, 2, 1).await.is_none());
        receive(&bodies, 3, 100)
            .await
            .expect("there is some for everybody");
        assert_eq!(refused.0.load(Ordering::Relaxed), 2);
        drop(half);
        assert!(receive(&bodies, 1, 1).await.is_none(), "a copy holds it too");
        drop((copy, other));
        assert!(bodies.0.held.lock().tenants.is_empty());
        assert_eq!(bodies.0.held.lock().all, 0);
        receive(&bodies, 1, 500).await.expect("it is free again");
    }
}
