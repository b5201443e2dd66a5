//! Facts of `omni.stage.v1` that both ends of a connection share: names, times, and checks of what came.

use std::sync::Arc;
use std::time::Duration;

use omni_proto::stage::v1::Hello;
use omni_proto::stage::v1::frame::Body;

use super::link::LinkError;
use super::wire::{VERSION, WireError, name};

/// Names of the stages of all graphs, to which the names in messages of another process are resolved.
pub type StageNames = Arc<[&'static str]>;

/// Interval of heartbeats to the other side, independent of the stage's work.
pub(super) const HEARTBEAT: Duration = Duration::from_millis(500);
/// Silence after which a process on the same machine counts as dead, with sequences or without: four missed
/// heartbeats. Independent of the duration of a step.
pub const SILENCE_TIMEOUT: Duration = HEARTBEAT.saturating_mul(4);
/// Silence after which a process that is reached over a network counts as dead: a packet may be lost several times.
pub const NETWORK_SILENCE_TIMEOUT: Duration = Duration::from_secs(10);
/// Delay from which a thread assumes that the machine stood still, and the process with it.
pub(super) const LATE: Duration = Duration::from_millis(50);
/// Added to the silence timeout when the listening thread itself was delayed by [`LATE`] or more.
pub(super) const GRACE: Duration = Duration::from_secs(2);
/// Silence after which any process counts as dead, unless the listening thread is delayed for more than two seconds.
/// A timeout that fails a sequence for want of its outputs has to be longer: the sequences of a dead process go on
/// elsewhere.
pub const LATEST_LOSS: Duration = NETWORK_SILENCE_TIMEOUT
    .saturating_add(GRACE)
    .saturating_add(GRACE);

/// Checks the version of a greeting.
pub(super) fn checked(hello: Hello) -> Result<Hello, LinkError> {
    match hello.version {
        VERSION => Ok(hello),
        theirs => Err(WireError::Version {
            ours: VERSION,
            theirs,
        }
        .into()),
    }
}

/// Error for a message that is not the `expected` one.
pub(super) fn unexpected(body: &Body, expected: &str) -> LinkError {
    LinkError::Protocol(format!("it sent {}, expected {expected}", name(body)))
}
