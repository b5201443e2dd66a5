//! Conversion of the server's records to spans. Pure.
//!
//! Attribute names are vLLM's `gen_ai.*` (`vllm/tracing`), or `omni.*` where there is none. Times are in seconds. No
//! attribute contains text or audio of callers.

use std::sync::Arc;
use std::time::Duration;

use omni_engine::{SeqId, Stamp};
use omni_telemetry::{Span, TraceContext};

use omni_core::error::ServeError;
use omni_core::error::log::{Fault, Refusal};
use omni_core::id::{RequestName, current_request};
use omni_pipeline::connector::EdgeRecord;
use omni_pipeline::stage::StageSnapshot;
use omni_session::{EndedRequest, Outcome, SequenceRecord, Timings, Track, TurnRecord, UtteranceRecord};

/// The name of every request's span, as vLLM has it.
const REQUEST: &str = "llm_request";

/// The spans of a request, but for those of its edges.
pub(super) fn of(model: String, request: &EndedRequest, track: &Track) -> Vec<Span> {
    match request {
        EndedRequest::Utterance(record) => utterance(model, record, track),
        EndedRequest::Turn(record) => turn(model, record, track),
    }
}

fn utterance(model: String, record: &UtteranceRecord, track: &Track) -> Vec<Span> {
    let usage = &record.usage;
    let first = track.sequences.kept.first().map(SequenceRecord::first);
    let first = first.unwrap_or_default();
    let course = Course {
        ready: track.asked.unwrap_or(track.began),
        started: first.started,
        first_output: first.first_output,
        last_output: track.sequences.last_output,
        pauses: record.timings.text_pauses,
    };
    let root = Request {
        operation: "text_to_speech",
        session: record.session.to_string(),
        text_wait: record.timings.text_wait,
        model,
        id: format!("{}/{}", record.session, record.utterance),
        outcome: record.outcome,
        error: record.error.as_ref(),
        prompt_tokens: usage.text_tokens,
        completion_tokens: usage.frames,
    }
    .span(track, &course);
    let root = heard(root, &record.timings, usage.audio).text("omni.voice", record.voice.clone());
    let mut spans = parts(root, track);
    // What its caller took to write it, until something could be spoken.
    let written = track.asked.unwrap_or(track.ended);
    spans.push(Span::part(&track.context, "text", track.began.0, written.0));
    spans
}

fn turn(model: String, record: &TurnRecord, track: &Track) -> Vec<Span> {
    let usage = &record.usage;
    let answer = track.answer.map(|(.., answer)| answer).unwrap_or_default();
    let course = Course {
        ready: track.began,
        started: answer.started,
        first_output: answer.first_output,
        last_output: answer.last_output,
        pauses: Duration::ZERO,
    };
    let mut root = Request {
        operation: "chat",
        session: record.session.to_string(),
        text_wait: Duration::ZERO,
        model,
        id: format!("{}/{}", record.session, record.response),
        outcome: record.outcome,
        error: record.error.as_ref(),
        prompt_tokens: usage.prompt_tokens + usage.prompt_audio,
        completion_tokens: usage.reply_tokens,
    }
    .span(track, &course)
    .count("omni.messages", record.messages as u64)
    .seconds("omni.latency.time_to_first_text", record.timings.first_text);
    if let Some(speech) = &record.timings.speech {
        root = heard(root, speech, usage.audio)
            .text("omni.voice", record.voice.clone())
            .count("omni.usage.codec_frames", usage.frames);
    }
    parts(root, track)
}

/// The span of a request that was refused before anything of it began; stamps are times since it came.
pub(super) fn refused(
    context: &Arc<TraceContext>,
    request: &RequestName,
    refusal: &Refusal<'_>,
    took: Duration,
) -> Span {
    let (outcome, reason) = match refusal.fault {
        Fault::Caller => ("refused", refusal.reason),
        Fault::Server => ("error", refusal.reason),
        Fault::Gone => ("aborted", "CALLER_GONE"),
    };
    named(Span::request(context, REQUEST, Duration::ZERO, took), request)
        .text("omni.request.status", refusal.status.to_string())
        .text("omni.outcome", outcome)
        .text("error.type", reason.to_owned())
        .failed(reason.to_owned())
}

/// The same with how the request is called, and how it came.
fn named(span: Span, request: &RequestName) -> Span {
    let span = span
        .text("omni.request.id", request.id.clone())
        .text("omni.request.route", request.route.clone())
        .text("network.protocol.name", request.protocol);
    match request.caller {
        Some(caller) => span.text("client.address", caller.to_string()),
        None => span,
    }
}

/// The span of an edge of one sequence.
pub(super) fn edge(context: &Arc<TraceContext>, record: &EdgeRecord) -> Span {
    let hop = &record.hop;
    let name = format!("edge {}->{}", hop.from.stage, hop.to.stage);
    Span::part(context, name, record.first.0, record.last.0)
        .count("omni.sequence", hop.seq.0)
        .text("omni.edge.from", hop.from.to_string())
        .text("omni.edge.to", hop.to.to_string())
        .count("omni.edge.chunks", record.chunks)
        .count("omni.edge.bytes", record.bytes)
        .seconds("omni.edge.tx", record.tx)
        .seconds("omni.edge.in_flight", record.in_flight)
        .seconds("omni.edge.longest_in_flight", record.longest)
        .seconds("omni.edge.rx", record.rx)
}

/// Facts of every request.
struct Request<'a> {
    operation: &'static str,
    session: String,
    text_wait: Duration,
    model: String,
    id: String,
    outcome: Outcome,
    error: Option<&'a ServeError>,
    prompt_tokens: u32,
    completion_tokens: u32,
}

/// Times of a request in its first stage.
struct Course {
    /// Since when it could be worked on: what its caller took to write before is no latency.
    ready: Stamp,
    /// Time in which it waited for its caller's text later on.
    pauses: Duration,
    started: Option<Stamp>,
    first_output: Option<Stamp>,
    last_output: Option<Stamp>,
}

impl Request<'_> {
    fn span(self, track: &Track, course: &Course) -> Span {
        let mut span = Span::request(&track.context, REQUEST, track.began.0, track.ended.0)
            .text("gen_ai.operation.name", self.operation)
            .text("gen_ai.request.model", self.model.clone())
            .text("gen_ai.response.model", self.model)
            .text("gen_ai.request.id", self.id)
            .count("gen_ai.request.n", 1_u32)
            .text("gen_ai.provider.name", "omni")
            .text("gen_ai.conversation.id", self.session.clone())
            .text("omni.session.id", self.session)
            .count("gen_ai.usage.prompt_tokens", self.prompt_tokens)
            .count("gen_ai.usage.completion_tokens", self.completion_tokens)
            .count("gen_ai.usage.input_tokens", self.prompt_tokens)
            .count("gen_ai.usage.output_tokens", self.completion_tokens)
            .seconds(
                "gen_ai.latency.time_to_first_token",
                between(Some(course.ready), course.first_output),
            )
            .seconds(
                "gen_ai.latency.e2e",
                track.ended.since(track.began).saturating_sub(self.text_wait),
            )
            .seconds(
                "gen_ai.latency.time_in_queue",
                between(Some(course.ready), course.started),
            )
            .seconds("omni.latency.text_wait", self.text_wait)
            .text("omni.outcome", self.outcome.name());
        if let Some(request) = current_request() {
            span = named(span, &request);
        }
        if matches!(
            self.outcome,
            Outcome::Stop | Outcome::Length | Outcome::Repetition
        ) {
            span = span.texts("gen_ai.response.finish_reasons", &[self.outcome.name()]);
        }
        span = inference(span, course);
        // As in vLLM: unset and zero values are left out.
        let sampling = &track.sampling;
        for (name, value) in [
            ("gen_ai.request.temperature", sampling.temperature),
            ("gen_ai.request.top_p", sampling.top_p),
        ] {
            if let Some(value) = value.filter(|value| *value != 0.0) {
                span = span.measure(name, value);
            }
        }
        if let Some(most) = track.max_outputs.filter(|most| *most > 0) {
            span = span.count("gen_ai.request.max_tokens", most);
        }
        if matches!(self.outcome, Outcome::Error | Outcome::Aborted) {
            let reason = self.error.map_or("UNKNOWN", ServeError::reason);
            span = span.text("error.type", reason).failed(reason);
        }
        span
    }
}

fn inference(span: Span, course: &Course) -> Span {
    span.seconds(
        "gen_ai.latency.time_in_model_prefill",
        between(course.started, course.first_output),
    )
    .seconds(
        "gen_ai.latency.time_in_model_decode",
        between(course.first_output, course.last_output).map(|time| time.saturating_sub(course.pauses)),
    )
    .seconds(
        "gen_ai.latency.time_in_model_inference",
        between(course.started, course.last_output).map(|time| time.saturating_sub(course.pauses)),
    )
}

fn heard(span: Span, speech: &Timings, audio: Duration) -> Span {
    span.seconds("omni.latency.time_to_first_audio", speech.first_packet)
        .seconds("omni.audio.duration", audio)
        .seconds("omni.audio.worst_underrun", speech.worst_underrun)
}

/// Span of the request, with its children.
fn parts(root: Span, track: &Track) -> Vec<Span> {
    let context = &track.context;
    let sequences = &track.sequences;
    let mut spans = Vec::with_capacity(4 + 2 * sequences.kept.len());
    spans.push(root.count(
        "omni.sequences",
        sequences.kept.len() as u64 + u64::from(sequences.left_out),
    ));
    if let Some(asked) = track.asked {
        // Without a prompt to build it is handed over as soon as it has a place.
        let until = track.admitted.or(track.submitted).unwrap_or(track.ended);
        spans.push(Span::part(context, "queue", asked.0, until.0));
    }
    if let Some(admitted) = track.admitted {
        let until = track.submitted.unwrap_or(track.ended);
        spans.push(Span::part(context, "prompt", admitted.0, until.0));
    }
    if let (Some((name, seq, answer)), Some(submitted)) = (&track.answer, track.submitted) {
        spans.push(stage(name, track, *seq, (submitted, Duration::ZERO), answer));
    }
    for sequence in &sequences.kept {
        for (name, snapshot) in &sequence.stages {
            let since = (sequence.submitted, sequence.text_wait);
            spans.push(stage(name, track, sequence.seq, since, snapshot));
        }
    }
    spans
}

/// One sequence in one stage, from its hand-over to its last output; if it gave none, to the end of the request.
fn stage(
    name: &'static str,
    track: &Track,
    seq: Option<SeqId>,
    (submitted, text_wait): (Stamp, Duration),
    snapshot: &StageSnapshot,
) -> Span {
    let end = snapshot.last_output.unwrap_or(track.ended);
    let mut span = Span::part(&track.context, name, submitted.0, end.0)
        .seconds(
            "gen_ai.latency.time_in_queue",
            between(Some(submitted), snapshot.started),
        )
        .count("omni.outputs", snapshot.outputs)
        .seconds("omni.latency.busy", snapshot.busy)
        .count("omni.starved", snapshot.starved)
        .event("first step", snapshot.started.map(|at| at.0))
        .event("first output", snapshot.first_output.map(|at| at.0));
    if let Some(seq) = seq {
        span = span.count("omni.sequence", seq.0);
    }
    if let Some(replica) = snapshot.replica {
        span = span.count("omni.replica", replica.0);
    }
    if !text_wait.is_zero() {
        span = span.seconds("omni.latency.text_wait", text_wait);
    }
    let course = Course {
        ready: submitted,
        started: snapshot.started,
        first_output: snapshot.first_output,
        last_output: snapshot.last_output,
        pauses: text_wait,
    };
    inference(span, &course)
}

fn between(from: Option<Stamp>, to: Option<Stamp>) -> Option<Duration> {
    Some(to?.since(from?))
}
