//! Every parser of outside bytes, as a function that must return for any input.
//!
//! `tests/fuzz/` has a target for each, and a test sends each a few thousand nearly valid inputs ([`Mutations`]).

mod checkpoints;
mod mutations;
mod outside;
mod seeds;
mod tls;

use std::sync::{Arc, LazyLock};

use http::{HeaderMap, HeaderName, HeaderValue};
use omni_audio::{Decoder, InputEncoding, InputFormat, SampleRate, Samples};
use omni_config::{KeyFile, Scope, deploy};
use omni_family::{ChatInfo, Converse as _, Speak as _, SpeechInfo};
use omni_pipeline::connector;
use omni_services::voices;
use omni_telemetry::{
    CustomMetrics, CustomOptions, MetricsConfig, Telemetry, TelemetryOptions, TraceParent, Undeclared,
    queried_names,
};
use omni_text::{Buffering, FrontEnd, FrontEndOptions, Language, Normalizer, StopStrings};

use crate::fake::{FakeScript, FakeSpeech};
pub use mutations::Mutations;

/// Something that reads bytes from outside.
#[derive(Debug, Clone, Copy)]
pub struct Parser {
    /// Name of the parser and of its fuzz target.
    pub name: &'static str,
    /// Reads any bytes. Panics if a rule is broken.
    pub parse: fn(&[u8]),
    /// Inputs that are right.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Cost of one of its inputs, relative to others.
    pub cost: usize,
}

/// All of them.
pub const PARSERS: [Parser; 38] = [
    parser(
        "audio_wav",
        |bytes| decode(InputEncoding::Wav, bytes),
        seeds::wav,
        1,
    ),
    parser(
        "audio_g711",
        |bytes| decode(raw_encoding(bytes), bytes),
        seeds::raw,
        1,
    ),
    parser(
        "audio_opus",
        |bytes| decode(InputEncoding::Opus, bytes),
        seeds::opus,
        4,
    ),
    parser(
        "audio_ogg",
        |bytes| decode(InputEncoding::OggOpus, bytes),
        seeds::ogg,
        4,
    ),
    parser(
        "audio_flac",
        |bytes| decode(InputEncoding::Flac, bytes),
        seeds::flac,
        4,
    ),
    parser("text_front_end", front_end, seeds::text, 4),
    parser("checkpoint_tensors", checkpoints::tensors, seeds::tensors, 8),
    parser("checkpoint_config", checkpoints::config, seeds::json_config, 40),
    parser(
        "checkpoint_tokenizer",
        checkpoints::tokenizer,
        seeds::tokenizer,
        40,
    ),
    parser("yaml_deploy", yaml_deploy, seeds::deploy, 4),
    parser("yaml_metrics", yaml_metrics, seeds::metrics, 2),
    parser("keys_file", keys_file, seeds::keys, 1),
    parser("key_header", key_header, seeds::headers, 1),
    parser("process_frames", connector::parsers::frames, seeds::frames, 1),
    parser(
        "process_payloads",
        connector::parsers::payloads,
        seeds::payloads,
        1,
    ),
    parser(
        "openai_speech",
        omni_openai::parsers::speech,
        seeds::openai_speech,
        1,
    ),
    parser("openai_chat", omni_openai::parsers::chat, seeds::openai_chat, 1),
    parser("openai_form", omni_openai::parsers::form, outside::form, 1),
    parser(
        "openai_stream",
        omni_openai::parsers::stream_message,
        outside::stream,
        1,
    ),
    parser(
        "openai_realtime",
        omni_openai::parsers::realtime_event,
        outside::realtime,
        1,
    ),
    parser(
        "wyoming_events",
        omni_wyoming::parsers::events,
        outside::wyoming,
        1,
    ),
    parser("voice_file", voices::parsers::file, outside::voice, 1),
    parser("grpc_speech", grpc_speech, seeds::speak, 2),
    parser("grpc_chat", grpc_chat, seeds::converse, 2),
    parser("grpc_riva", grpc_riva, seeds::riva, 2),
    parser("grpc_metrics", grpc_metrics, outside::measurements, 8),
    parser("grpc_admin", omni_grpc::parsers::operator, outside::operator, 1),
    parser("grpc_frames", omni_grpc::parsers::frames, seeds::speak, 1),
    parser("metrics_query", metrics_query, outside::query, 1),
    parser("tls_files", tls::files, outside::tls_files, 4),
    parser("tls_caller", tls::caller, outside::certificates, 1),
    parser("chat_template", checkpoints::template, outside::templates, 8),
    parser("chat_prompt", checkpoints::prompt, outside::hostile, 4),
    parser(
        "checkpoint_vocabulary",
        checkpoints::vocabulary,
        outside::vocabulary,
        40,
    ),
    parser(
        "checkpoint_settings",
        checkpoints::settings,
        outside::settings,
        40,
    ),
    parser("client_speech", omni_client::parsers::speech, outside::spoken, 1),
    parser(
        "client_chat",
        omni_client::parsers::conversation,
        outside::answered,
        1,
    ),
    parser(
        "client_operator",
        omni_client::parsers::operator,
        outside::shown,
        1,
    ),
];

const fn parser(name: &'static str, parse: fn(&[u8]), seeds: fn() -> Vec<Vec<u8>>, cost: usize) -> Parser {
    Parser {
        name,
        parse,
        seeds,
        cost,
    }
}

/// The parser called `name`.
///
/// # Panics
/// If there is none.
pub fn parser_named(name: &str) -> Parser {
    let found = PARSERS.into_iter().find(|parser| parser.name == name);
    found.unwrap_or_else(|| panic!("there is no parser {name:?}"))
}

/// Most samples that any input may become.
const MOST_SAMPLES: Samples = Samples(48_000);
/// Sample rate of a model's audio input.
const HEARD_AT: u32 = 16_000;

fn raw_encoding(bytes: &[u8]) -> InputEncoding {
    match bytes.first().map(|first| first >> 6) {
        Some(0) => InputEncoding::Mulaw,
        Some(1) => InputEncoding::Alaw,
        Some(2) => InputEncoding::PcmF32,
        _ => InputEncoding::Pcm16,
    }
}

/// The first three bytes say the rate, the channels and how the rest is cut into pieces.
fn decode(encoding: InputEncoding, bytes: &[u8]) {
    let [rate, channels, cut, rest @ ..] = bytes else {
        return;
    };
    let Ok(hz) = SampleRate::new(1 + 250 * u32::from(*rate)) else {
        return;
    };
    let format = InputFormat {
        encoding,
        rate: hz,
        channels: u16::from(channels % 4),
    };
    let to = SampleRate::new(HEARD_AT).expect("a rate");
    let Ok(mut decoder) = Decoder::new(format, to, MOST_SAMPLES) else {
        return;
    };
    let mut samples = Vec::new();
    let piece = usize::from(*cut) * 7 + 1;
    for piece in rest.chunks(piece) {
        if decoder.push(piece, &mut samples).is_err() {
            return;
        }
    }
    if decoder.finish(&mut samples).is_ok() {
        assert!(
            samples.len() as u64 <= MOST_SAMPLES.0,
            "{} samples",
            samples.len()
        );
        assert!(
            samples.iter().all(|sample| sample.is_finite()),
            "samples are numbers"
        );
    }
}

/// The first byte selects how text is gathered and whether numbers become words, the second how it is cut into
/// pieces. The output must not depend on the cut.
fn front_end(bytes: &[u8]) {
    let [manner, cut, rest @ ..] = bytes else { return };
    let text = String::from_utf8_lossy(rest);
    let modes = [
        Buffering::Sentence,
        Buffering::Clause,
        Buffering::Eager,
        Buffering::Manual,
    ];
    let buffering = modes[usize::from(manner % 4)];
    let spoken = |pieces: &[&str]| {
        let normalizer = (manner & 4 != 0).then(|| {
            let alphabet = "abcdefghijklmnopqrstuvwxyz .,?!'-:;";
            Normalizer::new(Language::English, alphabet).expect("an alphabet")
        });
        let mut front = FrontEnd::new(FrontEndOptions {
            buffering,
            normalizer,
            ..FrontEndOptions::default()
        });
        let mut out = Vec::new();
        for piece in pieces {
            out.extend(front.push(piece).ok()?);
        }
        out.extend(front.finish().ok()?);
        Some(out.into_iter().map(|piece| piece.text).collect::<Vec<_>>())
    };
    let whole = spoken(&[&text]);
    let pieces = pieces_of(&text, usize::from(*cut) + 1);
    let in_pieces = spoken(&pieces);
    if buffering != Buffering::Eager {
        assert_eq!(whole, in_pieces, "the cut of the text changes nothing");
    }
    let mut stop = StopStrings::new(&["stop", "\u{e9}"]).expect("none is empty");
    for piece in pieces {
        let _ = stop.push(piece);
    }
}

fn pieces_of(text: &str, length: usize) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let at = rest
            .char_indices()
            .map(|(at, _)| at)
            .find(|at| *at >= length)
            .unwrap_or(rest.len());
        let (piece, more) = rest.split_at(at);
        pieces.push(piece);
        rest = more;
    }
    pieces
}

fn yaml_deploy(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(read) = deploy::read_back(&text, 64) {
        let again = deploy::read_back(&read.yaml(), 64).expect("what is written can be read");
        assert_eq!(read.deploy, again.deploy, "and means the same");
    }
    let sets: Vec<_> = text.lines().take(16).map(str::to_owned).collect();
    let _ = deploy::resolve(None, &sets, 64);
}

fn yaml_metrics(bytes: &[u8]) {
    let _ = MetricsConfig::parse("fuzz.yaml", &String::from_utf8_lossy(bytes));
}

fn keys_file(bytes: &[u8]) {
    if let Ok(keys) = KeyFile::parse(&String::from_utf8_lossy(bytes)) {
        assert!(
            keys.holder_of(&omni_config::hash("nobody's")).is_none(),
            "no caller has that key"
        );
    }
}

/// Headers, a line each: name, colon, value.
fn key_header(bytes: &[u8]) {
    let mut headers = HeaderMap::new();
    for line in bytes.split(|byte| *byte == b'\n').take(32) {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else {
            continue;
        };
        let name = HeaderName::from_bytes(&line[..colon]);
        let value = HeaderValue::from_bytes(&line[colon + 1..]);
        if let (Ok(name), Ok(value)) = (name, value) {
            headers.append(name, value);
        }
    }
    for scope in [None, Some(Scope::Speech), Some(Scope::Metrics)] {
        assert!(!checkpoints::allowed(&headers, scope), "no caller has a key");
    }
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let parent = text("traceparent").and_then(TraceParent::parse);
    if let (Some(parent), Some(state)) = (parent, text("tracestate")) {
        let _ = parent.with_state(state);
    }
    omni_grpc::parsers::deadline(&headers);
}

/// Properties of a model that both speaks and converses.
static MODEL: LazyLock<(Arc<SpeechInfo>, Arc<ChatInfo>)> = LazyLock::new(|| {
    let model = FakeSpeech::new(FakeScript::default());
    let chat = model.chat();
    (Arc::new(model.info().clone()), Arc::new(chat))
});

fn grpc_speech(bytes: &[u8]) {
    omni_grpc::parsers::speech(bytes, &MODEL.0);
}

fn grpc_chat(bytes: &[u8]) {
    omni_grpc::parsers::conversation(bytes, &MODEL.0, &MODEL.1);
}

fn grpc_riva(bytes: &[u8]) {
    omni_grpc::parsers::synthesis(bytes, &MODEL.0);
}

fn grpc_metrics(bytes: &[u8]) {
    let telemetry = Telemetry::new(&TelemetryOptions::default()).expect("good options");
    let options = CustomOptions {
        undeclared: Undeclared::Declared,
        ..CustomOptions::default()
    };
    omni_grpc::parsers::measurements(bytes, &Arc::new(CustomMetrics::new(&telemetry, options)));
}

fn metrics_query(bytes: &[u8]) {
    let query = String::from_utf8_lossy(bytes);
    let names = queried_names(&query);
    assert!(names.iter().all(|name| !name.is_empty()), "{names:?}");
}
