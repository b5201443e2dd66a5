//! Events of a replica's engine as messages.

use std::time::Duration;

use omni_engine::{FinishReason, SeqId, SeqRecord, Stamp, StepStats};
use omni_proto::stage::v1::{self as wire, event::Event};

use super::messages::nanos;
use super::{PeerClock, WireError};
use crate::stage::{CacheFigures, EngineEvent, KvFormat, KvPosition, Refusal, SeqEnd, SeqTaken};

/// Events, in order.
#[derive(Debug, Clone, Default, PartialEq)]
pub(in crate::connector) struct Reports {
    pub(in crate::connector) told: Vec<EngineEvent>,
    /// Number of events that were dropped for want of room.
    pub(in crate::connector) missed: u64,
}

impl Reports {
    pub(in crate::connector) fn is_empty(&self) -> bool {
        self.told.is_empty() && self.missed == 0
    }

    pub(in crate::connector) fn message(&self, clock: PeerClock) -> wire::Events {
        let event = |event: &EngineEvent| wire::Event {
            event: Some(message(event, clock)),
        };
        wire::Events {
            events: self.told.iter().map(event).collect(),
            missed: self.missed,
        }
    }

    pub(in crate::connector) fn of(message: wire::Events, clock: PeerClock) -> Result<Self, WireError> {
        let told = message.events.into_iter().map(|event| one(event, clock));
        Ok(Self {
            told: told.collect::<Result<_, _>>()?,
            missed: message.missed,
        })
    }
}

fn message(event: &EngineEvent, clock: PeerClock) -> Event {
    match event {
        EngineEvent::Loaded { after } => Event::Loaded(nanos(*after)),
        EngineEvent::Cache(cache) => Event::Cache(cache_message(cache)),
        EngineEvent::Step { at, busy, stats } => Event::Step(step_message(*at, *busy, stats, clock)),
        EngineEvent::Taken(taken) => Event::Taken(wire::Taken {
            sequence: taken.seq.0,
            arrived: clock.to_wire(taken.arrived),
            max_outputs: taken.max_outputs,
        }),
        EngineEvent::FirstOutput { after } => Event::FirstOutput(nanos(*after)),
        EngineEvent::NextOutput { gap } => Event::NextOutput(nanos(*gap)),
        EngineEvent::Starved => Event::Starved(wire::Starved {}),
        EngineEvent::Finished(end) => Event::Finished(wire::Finished {
            sequence: end.seq.0,
            reason: reason_message(&end.reason).into(),
            message: match &end.reason {
                FinishReason::Error(message) => message.clone(),
                _ => String::new(),
            },
            latency: nanos(end.latency),
            record: end.record.map(|record| record_message(&record, clock)),
            max_outputs: end.max_outputs,
        }),
        EngineEvent::Refused(refusal) => Event::Refused(i32::from(match refusal {
            Refusal::Sequences => wire::Refusal::Sequences,
            Refusal::Positions => wire::Refusal::Positions,
        })),
        EngineEvent::Running(count) => Event::Running(*count),
        EngineEvent::Idle => Event::Emptied(wire::Emptied {}),
    }
}

fn one(event: wire::Event, clock: PeerClock) -> Result<EngineEvent, WireError> {
    let Some(event) = event.event else {
        return Err(WireError::absent("an event", "what happened"));
    };
    Ok(match event {
        Event::Loaded(after) => EngineEvent::Loaded {
            after: Duration::from_nanos(after),
        },
        Event::Cache(cache) => EngineEvent::Cache(cache_figures(cache)?),
        Event::Step(step) => EngineEvent::Step {
            at: clock.to_local(step.at),
            busy: Duration::from_nanos(step.busy),
            stats: step_stats(&step),
        },
        Event::Taken(taken) => EngineEvent::Taken(SeqTaken {
            seq: SeqId(taken.sequence),
            arrived: clock.to_local(taken.arrived),
            max_outputs: taken.max_outputs,
        }),
        Event::FirstOutput(after) => EngineEvent::FirstOutput {
            after: Duration::from_nanos(after),
        },
        Event::NextOutput(gap) => EngineEvent::NextOutput {
            gap: Duration::from_nanos(gap),
        },
        Event::Starved(_) => EngineEvent::Starved,
        Event::Finished(end) => EngineEvent::Finished(SeqEnd {
            seq: SeqId(end.sequence),
            reason: reason(end.reason, end.message)?,
            latency: Duration::from_nanos(end.latency),
            record: end.record.map(|record| seq_record(&record, clock)),
            max_outputs: end.max_outputs,
        }),
        Event::Refused(refusal) => EngineEvent::Refused(match wire::Refusal::try_from(refusal) {
            Ok(wire::Refusal::Sequences) => Refusal::Sequences,
            Ok(wire::Refusal::Positions) => Refusal::Positions,
            _ => return Err(WireError::value("what there is no room for", refusal, "1 or 2")),
        }),
        Event::Running(count) => EngineEvent::Running(count),
        Event::Emptied(_) => EngineEvent::Idle,
    })
}

fn cache_message(cache: &CacheFigures) -> wire::Cache {
    let position = |position: KvPosition| wire::KvPosition {
        bytes: position.bytes,
        format: i32::from(match position.format {
            KvFormat::Float32 => wire::KvFormat::Float32,
            KvFormat::Bfloat16 => wire::KvFormat::Bfloat16,
            KvFormat::Float16 => wire::KvFormat::Float16,
        }),
    };
    wire::Cache {
        block_size: cache.block_size,
        blocks: cache.blocks,
        max_len: cache.max_len,
        prefix_caching: cache.prefix_caching,
        position: cache.position.map(position),
    }
}

fn cache_figures(cache: wire::Cache) -> Result<CacheFigures, WireError> {
    let position = |position: wire::KvPosition| {
        let format = match wire::KvFormat::try_from(position.format) {
            Ok(wire::KvFormat::Float32) => KvFormat::Float32,
            Ok(wire::KvFormat::Bfloat16) => KvFormat::Bfloat16,
            Ok(wire::KvFormat::Float16) => KvFormat::Float16,
            _ => return Err(WireError::value("a number format", position.format, "1 to 3")),
        };
        let bytes = position.bytes;
        Ok(KvPosition { bytes, format })
    };
    Ok(CacheFigures {
        block_size: cache.block_size,
        blocks: cache.blocks,
        max_len: cache.max_len,
        prefix_caching: cache.prefix_caching,
        position: cache.position.map(position).transpose()?,
    })
}

fn step_message(at: Stamp, busy: Duration, step: &StepStats, clock: PeerClock) -> wire::Step {
    wire::Step {
        at: clock.to_wire(at),
        running: step.running,
        waiting_capacity: step.waiting_capacity,
        waiting_deferred: step.waiting_deferred,
        kv_usage: step.kv_usage,
        prompt_tokens: step.prompt_tokens,
        cached_tokens: step.cached_tokens,
        outputs: step.outputs,
        admitted: step.admitted,
        prefix_queries: step.prefix_queries,
        prefix_hits: step.prefix_hits,
        preempted: step.preempted,
        queued_items: step.queued_items,
        prefill_tokens: step.prefill_tokens,
        decode_tokens: step.decode_tokens,
        late: step.late,
        busy: nanos(busy),
    }
}

fn step_stats(step: &wire::Step) -> StepStats {
    StepStats {
        running: step.running,
        waiting_capacity: step.waiting_capacity,
        waiting_deferred: step.waiting_deferred,
        kv_usage: step.kv_usage,
        prompt_tokens: step.prompt_tokens,
        cached_tokens: step.cached_tokens,
        outputs: step.outputs,
        admitted: step.admitted,
        prefix_queries: step.prefix_queries,
        prefix_hits: step.prefix_hits,
        preempted: step.preempted,
        queued_items: step.queued_items,
        prefill_tokens: step.prefill_tokens,
        decode_tokens: step.decode_tokens,
        late: step.late,
    }
}

fn reason_message(reason: &FinishReason) -> wire::EndReason {
    match reason {
        FinishReason::Stop => wire::EndReason::Stop,
        FinishReason::Length => wire::EndReason::Length,
        FinishReason::Abort => wire::EndReason::Abort,
        FinishReason::Error(_) => wire::EndReason::Error,
        FinishReason::Repetition => wire::EndReason::Repetition,
    }
}

fn reason(number: i32, message: String) -> Result<FinishReason, WireError> {
    Ok(match wire::EndReason::try_from(number) {
        Ok(wire::EndReason::Stop) => FinishReason::Stop,
        Ok(wire::EndReason::Length) => FinishReason::Length,
        Ok(wire::EndReason::Abort) => FinishReason::Abort,
        Ok(wire::EndReason::Error) => FinishReason::Error(message),
        Ok(wire::EndReason::Repetition) => FinishReason::Repetition,
        _ => return Err(WireError::value("why a sequence ended", number, "1 to 5")),
    })
}

fn record_message(record: &SeqRecord, clock: PeerClock) -> wire::Record {
    wire::Record {
        queued: clock.to_wire(record.queued),
        scheduled: record.scheduled.map(|at| clock.to_wire(at)),
        first_output: record.first_output.map(|at| clock.to_wire(at)),
        last_output: record.last_output.map(|at| clock.to_wire(at)),
        finished: clock.to_wire(record.finished),
        prompt_tokens: record.prompt_tokens,
        cached_tokens: record.cached_tokens,
        outputs: record.outputs,
        preemptions: record.preemptions,
    }
}

fn seq_record(record: &wire::Record, clock: PeerClock) -> SeqRecord {
    SeqRecord {
        queued: clock.to_local(record.queued),
        scheduled: record.scheduled.map(|at| clock.to_local(at)),
        first_output: record.first_output.map(|at| clock.to_local(at)),
        last_output: record.last_output.map(|at| clock.to_local(at)),
        finished: clock.to_local(record.finished),
        prompt_tokens: record.prompt_tokens,
        cached_tokens: record.cached_tokens,
        outputs: record.outputs,
        preemptions: record.preemptions,
    }
}
