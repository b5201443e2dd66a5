//! Ends and progress.

use std::time::Duration;

use omni_engine::Stamp;
use omni_proto::stage::v1::end::Reason;
use omni_proto::stage::v1::{self as wire};

use super::{PeerClock, WireError};
use crate::stage::{End, LinkToken, StageSnapshot};

pub(in crate::connector) fn end_message(end: End) -> wire::End {
    let error = |stage: &str, message| wire::StageError {
        stage: stage.to_owned(),
        message,
    };
    let reason = match end {
        End::Stop => Reason::Stop(wire::Stop {}),
        End::Length => Reason::Length(wire::Length {}),
        End::Repetition => Reason::Repetition(wire::Repetition {}),
        End::Rejected(message) => Reason::Rejected(message),
        End::Overloaded(message) => Reason::Overloaded(message),
        End::Failed { stage, message } => Reason::Failed(error(stage, message)),
        End::Lost { stage, message } => Reason::Lost(error(stage, message)),
        End::Severed { stage, message } => Reason::Severed(error(stage, message)),
    };
    wire::End { reason: Some(reason) }
}

/// Decodes an end; `stages` are the names that it may have.
pub(in crate::connector) fn end(message: wire::End, stages: &[&'static str]) -> Result<End, WireError> {
    Ok(match message.reason {
        Some(Reason::Stop(_)) => End::Stop,
        Some(Reason::Length(_)) => End::Length,
        Some(Reason::Repetition(_)) => End::Repetition,
        Some(Reason::Rejected(message)) => End::Rejected(message),
        Some(Reason::Overloaded(message)) => End::Overloaded(message),
        Some(Reason::Failed(wire::StageError { stage, message })) => End::Failed {
            stage: known(&stage, stages)?,
            message,
        },
        Some(Reason::Lost(wire::StageError { stage, message })) => End::Lost {
            stage: known(&stage, stages)?,
            message,
        },
        Some(Reason::Severed(wire::StageError { stage, message })) => End::Severed {
            stage: known(&stage, stages)?,
            message,
        },
        None => return Err(WireError::absent("how a sequence ended", "a reason")),
    })
}

/// Resolves the name of a stage.
pub(in crate::connector) fn known(stage: &str, stages: &[&'static str]) -> Result<&'static str, WireError> {
    let known = stages.iter().copied().find(|known| *known == stage);
    known.ok_or_else(|| WireError::value("a stage", format!("{stage:?}"), "the name of a stage"))
}

pub(in crate::connector) fn token_message(token: LinkToken) -> Vec<u8> {
    token.0.to_be_bytes().to_vec()
}

pub(in crate::connector) fn token(message: &[u8]) -> Result<LinkToken, WireError> {
    let bytes = <[u8; 16]>::try_from(message);
    let bytes = bytes
        .map_err(|_| WireError::value("a token", format!("of {} bytes", message.len()), "of 16 bytes"))?;
    Ok(LinkToken(u128::from_be_bytes(bytes)))
}

/// Encodes progress, without the replica, whose id is another one at the other side.
pub(in crate::connector) fn progress_message(snapshot: &StageSnapshot, clock: PeerClock) -> wire::Progress {
    let at = |stamp: Option<Stamp>| stamp.map(|stamp| clock.to_wire(stamp));
    wire::Progress {
        started: at(snapshot.started),
        first_output: at(snapshot.first_output),
        last_output: at(snapshot.last_output),
        busy: nanos(snapshot.busy),
        outputs: snapshot.outputs,
        starved: snapshot.starved,
    }
}

pub(in crate::connector) fn progress(message: &wire::Progress, clock: PeerClock) -> StageSnapshot {
    let at = |instant: Option<i64>| instant.map(|instant| clock.to_local(instant));
    StageSnapshot {
        started: at(message.started),
        first_output: at(message.first_output),
        last_output: at(message.last_output),
        busy: Duration::from_nanos(message.busy),
        outputs: message.outputs,
        starved: message.starved,
        replica: None,
    }
}

/// Encodes a duration; none here is longer than 584 years.
pub(super) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
