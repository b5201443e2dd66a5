//! Conversion of instants between two processes with independent clocks.
//!
//! Each side counts from the start of its own end of the connection. The offset of the peer's clock follows from the
//! frames: the fastest one so far is assumed to have taken no time. So measured transfers are too short by the time
//! of the fastest frame, some microseconds on one machine.

use std::time::Duration;

use omni_engine::Stamp;

/// The peer's clock as seen from here.
#[derive(Debug, Clone, Copy)]
pub(in crate::connector) struct PeerClock {
    /// Start of this end of the connection.
    epoch: Stamp,
    /// Least lead of the peer's clock over ours, once a frame has come.
    lead: Option<i64>,
    /// Time of the last frame.
    latest: Stamp,
}

impl PeerClock {
    pub(in crate::connector) fn new(epoch: Stamp) -> Self {
        Self {
            epoch,
            lead: None,
            latest: epoch,
        }
    }

    /// Encodes an instant of this process.
    pub(in crate::connector) fn to_wire(self, at: Stamp) -> i64 {
        match at.0.checked_sub(self.epoch.0) {
            Some(after) => nanos(after),
            None => -nanos(self.epoch.0.saturating_sub(at.0)),
        }
    }

    /// Records a frame that was sent at `sent` and came at `now`.
    pub(in crate::connector) fn frame(&mut self, sent: i64, now: Stamp) {
        let lead = sent.saturating_sub(self.to_wire(now));
        self.lead = Some(self.lead.map_or(lead, |known| known.max(lead)));
        self.latest = now;
    }

    /// Converts an instant of the peer in the last frame to the clock of this process. It is never later than that
    /// frame.
    pub(in crate::connector) fn to_local(self, at: i64) -> Stamp {
        let at = at.saturating_sub(self.lead.unwrap_or_default());
        let distance = Duration::from_nanos(at.unsigned_abs());
        let at = if at >= 0 {
            self.epoch.0.saturating_add(distance)
        } else {
            self.epoch.0.saturating_sub(distance)
        };
        Stamp(at).min(self.latest)
    }
}

fn nanos(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Stamp {
        Stamp(Duration::from_millis(ms))
    }

    #[test]
    fn instants_keep_their_distances_and_the_fastest_frame_took_no_time() {
        // The peer began 40 s later by its own clock.
        let peer = PeerClock::new(at(70_000));
        let mut clock = PeerClock::new(at(1_000));
        clock.frame(peer.to_wire(at(70_010)), at(1_060));
        assert_eq!(clock.to_local(peer.to_wire(at(70_010))), at(1_060));
        // One that was faster.
        clock.frame(peer.to_wire(at(70_100)), at(1_110));
        assert_eq!(clock.to_local(peer.to_wire(at(70_100))), at(1_110));
        assert_eq!(clock.to_local(peer.to_wire(at(70_090))), at(1_100));
        // One that was slower by 5 ms shows it.
        clock.frame(peer.to_wire(at(70_200)), at(1_215));
        assert_eq!(clock.to_local(peer.to_wire(at(70_200))), at(1_210));
    }

    #[test]
    fn what_was_before_the_connection_is_told_and_what_lies_ahead_is_not_believed() {
        let clock = PeerClock::new(at(1_000));
        assert_eq!(clock.to_wire(at(400)), -600_000_000);
        let mut clock = clock;
        clock.frame(0, at(1_000));
        assert_eq!(clock.to_local(-600_000_000), at(400));
        assert_eq!(clock.to_local(i64::MIN), at(0));
        assert_eq!(clock.to_local(i64::MAX), at(1_000));
    }
}
