//! The trace that a request belongs to, as the stages pass it on.

use std::any::Any;
use std::sync::Arc;

/// Trace context of a request, in the terms of the program that makes spans. The stages hand it to that program's
/// [`EdgeSink`](crate::connector::EdgeSink) and never look into it, so that this crate needs no tracing system.
#[derive(Clone, derive_more::Debug)]
#[debug("TraceHandle")]
pub struct TraceHandle(Arc<dyn Any + Send + Sync>);

impl TraceHandle {
    /// Creates a handle of that context.
    pub fn new<T: Any + Send + Sync>(context: Arc<T>) -> Self {
        Self(context)
    }

    /// The context, if it is one of that type.
    pub fn get<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        Arc::clone(&self.0).downcast().ok()
    }
}

/// Compares identity, not content.
impl PartialEq for TraceHandle {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for TraceHandle {}
