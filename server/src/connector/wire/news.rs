//! What the engine of a replica tells, as it crosses.

use std::time::Duration;

use omni_engine::{SeqId, SeqRecord, Stamp};

use super::payload::{Fields, Wire, put_option};
use super::{WireError, nanos, stamp};
use crate::stage::{
    CacheFigures, EndReason, EngineNews, KvFormat, KvPosition, Refusal, SeqEnd, SeqTaken, StepFigures,
};

/// News in the order in which they were told.
#[derive(Debug, Clone, Default, PartialEq)]
pub(in crate::connector) struct News {
    /// The news.
    pub(in crate::connector) told: Vec<EngineNews>,
    /// Others, for which there was no room.
    pub(in crate::connector) missed: u64,
}

impl News {
    pub(in crate::connector) fn is_empty(&self) -> bool {
        self.told.is_empty() && self.missed == 0
    }
}

impl Wire for News {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend(self.missed.to_le_bytes());
        for news in &self.told {
            put_news(out, news);
        }
    }

    fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let mut fields = Fields::new("news of an engine", bytes);
        let mut news = Self {
            missed: fields.u64()?,
            told: Vec::new(),
        };
        while !fields.is_empty() {
            news.told.push(one(&mut fields)?);
        }
        Ok(news)
    }
}

fn put_news(out: &mut Vec<u8>, news: &EngineNews) {
    match news {
        EngineNews::Loaded { after } => put_time(out, 0, *after),
        EngineNews::Cache(cache) => put_cache(out, cache),
        EngineNews::Step(step) => put_step(out, step),
        EngineNews::Taken(taken) => {
            out.push(3);
            out.extend(taken.seq.0.to_le_bytes());
            out.extend(nanos(taken.arrived.0).to_le_bytes());
            put_limit(out, taken.max_outputs);
        }
        EngineNews::FirstOutput { after } => put_time(out, 4, *after),
        EngineNews::NextOutput { gap } => put_time(out, 5, *gap),
        EngineNews::Starved => out.push(6),
        EngineNews::Finished(end) => put_end(out, end),
        EngineNews::Refused(Refusal::Sequences) => out.extend([8, 0]),
        EngineNews::Refused(Refusal::Positions) => out.extend([8, 1]),
        EngineNews::Idle => out.push(9),
    }
}

fn one(fields: &mut Fields<'_>) -> Result<EngineNews, WireError> {
    Ok(match fields.byte()? {
        0 => EngineNews::Loaded { after: time(fields)? },
        1 => EngineNews::Cache(cache(fields)?),
        2 => EngineNews::Step(step(fields)?),
        3 => EngineNews::Taken(SeqTaken {
            seq: SeqId(fields.u64()?),
            arrived: at(fields)?,
            max_outputs: fields.option(Fields::u32)?,
        }),
        4 => EngineNews::FirstOutput { after: time(fields)? },
        5 => EngineNews::NextOutput { gap: time(fields)? },
        6 => EngineNews::Starved,
        7 => EngineNews::Finished(end(fields)?),
        8 => EngineNews::Refused(match fields.byte()? {
            0 => Refusal::Sequences,
            1 => Refusal::Positions,
            other => return Err(fields.wrong(&other, "0 or 1 (what there is no room for)")),
        }),
        9 => EngineNews::Idle,
        other => return Err(fields.wrong(&other, "0 to 9 (what happened)")),
    })
}

fn put_time(out: &mut Vec<u8>, tag: u8, time: Duration) {
    out.push(tag);
    out.extend(nanos(time).to_le_bytes());
}

fn time(fields: &mut Fields<'_>) -> Result<Duration, WireError> {
    fields.u64().map(Duration::from_nanos)
}

fn at(fields: &mut Fields<'_>) -> Result<Stamp, WireError> {
    fields.u64().map(stamp)
}

fn put_limit(out: &mut Vec<u8>, limit: Option<u32>) {
    put_option(out, limit, |out, limit| out.extend(limit.to_le_bytes()));
}

fn put_cache(out: &mut Vec<u8>, cache: &CacheFigures) {
    out.push(1);
    for count in [cache.block_size, cache.blocks, cache.max_len] {
        out.extend(count.to_le_bytes());
    }
    out.push(u8::from(cache.prefix_caching));
    put_option(out, cache.position, |out, position| {
        out.extend(position.bytes.to_le_bytes());
        out.push(position.format as u8);
    });
}

fn cache(fields: &mut Fields<'_>) -> Result<CacheFigures, WireError> {
    Ok(CacheFigures {
        block_size: fields.u32()?,
        blocks: fields.u32()?,
        max_len: fields.u32()?,
        prefix_caching: fields.option(|_| Ok(()))?.is_some(),
        position: fields.option(position)?,
    })
}

fn position(fields: &mut Fields<'_>) -> Result<KvPosition, WireError> {
    let bytes = fields.u64()?;
    let number = fields.byte()?;
    let format = KvFormat::ALL.into_iter().find(|format| *format as u8 == number);
    let format = format.ok_or_else(|| fields.wrong(&number, "0 to 2 (a number format)"))?;
    Ok(KvPosition { bytes, format })
}

fn put_step(out: &mut Vec<u8>, step: &StepFigures) {
    out.push(2);
    out.extend(nanos(step.at.0).to_le_bytes());
    out.extend(step.kv_usage.to_bits().to_le_bytes());
    let counts = [
        step.running,
        step.waiting_capacity,
        step.waiting_deferred,
        step.prompt_tokens,
        step.cached_tokens,
        step.outputs,
        step.admitted,
        step.prefix_queries,
        step.prefix_hits,
        step.preempted,
    ];
    for count in counts {
        out.extend(count.to_le_bytes());
    }
}

fn step(fields: &mut Fields<'_>) -> Result<StepFigures, WireError> {
    Ok(StepFigures {
        at: at(fields)?,
        kv_usage: f64::from_bits(fields.u64()?),
        running: fields.u32()?,
        waiting_capacity: fields.u32()?,
        waiting_deferred: fields.u32()?,
        prompt_tokens: fields.u32()?,
        cached_tokens: fields.u32()?,
        outputs: fields.u32()?,
        admitted: fields.u32()?,
        prefix_queries: fields.u32()?,
        prefix_hits: fields.u32()?,
        preempted: fields.u32()?,
    })
}

pub(super) const REASONS: [EndReason; 5] = [
    EndReason::Stop,
    EndReason::Length,
    EndReason::Abort,
    EndReason::Error,
    EndReason::Repetition,
];

fn put_end(out: &mut Vec<u8>, end: &SeqEnd) {
    out.push(7);
    out.extend(end.seq.0.to_le_bytes());
    out.push(end.reason as u8);
    out.extend(nanos(end.latency).to_le_bytes());
    put_option(out, end.record, put_record);
    put_limit(out, end.max_outputs);
}

fn end(fields: &mut Fields<'_>) -> Result<SeqEnd, WireError> {
    let seq = SeqId(fields.u64()?);
    let number = fields.byte()?;
    let reason = REASONS.into_iter().find(|reason| *reason as u8 == number);
    Ok(SeqEnd {
        seq,
        reason: reason.ok_or_else(|| fields.wrong(&number, "0 to 4 (why a sequence ended)"))?,
        latency: time(fields)?,
        record: fields.option(record)?,
        max_outputs: fields.option(Fields::u32)?,
    })
}

fn put_record(out: &mut Vec<u8>, record: SeqRecord) {
    for at in [record.queued, record.finished] {
        out.extend(nanos(at.0).to_le_bytes());
    }
    for at in [record.scheduled, record.first_output, record.last_output] {
        put_option(out, at, |out, at| out.extend(nanos(at.0).to_le_bytes()));
    }
    let counts = [
        record.prompt_tokens,
        record.cached_tokens,
        record.outputs,
        record.preemptions,
    ];
    for count in counts {
        out.extend(count.to_le_bytes());
    }
}

fn record(fields: &mut Fields<'_>) -> Result<SeqRecord, WireError> {
    Ok(SeqRecord {
        queued: at(fields)?,
        finished: at(fields)?,
        scheduled: fields.option(at)?,
        first_output: fields.option(at)?,
        last_output: fields.option(at)?,
        prompt_tokens: fields.u32()?,
        cached_tokens: fields.u32()?,
        outputs: fields.u32()?,
        preemptions: fields.u32()?,
    })
}
