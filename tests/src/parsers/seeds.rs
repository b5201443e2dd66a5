//! Inputs that are right, one or a few for every parser.

use std::fs;

use omni_audio::{Encoder, Encoding, Format, SampleRate, Samples, WavHeader};
use omni_config::deploy;
use omni_pipeline::connector::VERSION;
use omni_proto::riva::tts::SynthesizeSpeechRequest;
use omni_proto::stage::v1::frame::Body;
use omni_proto::stage::v1::{self as stage};
use omni_proto::v1;
use omni_proto::v1::converse_request::Event as Said;
use omni_proto::v1::speak_request::Event as Asked;
use prost::Message;

use super::checkpoints::tiny;
use crate::call::{cancel, config, finish, flush, named};
use crate::chat::{chat_config, interrupt, respond, said};

/// Prefixes the three bytes of settings: 16 kHz, one channel, in pieces.
fn read(bytes: &[u8]) -> Vec<u8> {
    [&[63, 1, 40], bytes].concat()
}

fn tone(encoding: Encoding, hz: u32) -> Vec<Vec<u8>> {
    let samples: Vec<f32> = (0..hz / 10).map(|n| (n as f32 * 0.2).sin() * 0.5).collect();
    let mut encoder = Encoder::new(Format::new(encoding, hz).expect("a format"), 1);
    let mut chunks = Vec::new();
    encoder.push(&samples, &mut chunks);
    encoder.finish(&mut chunks);
    chunks.into_iter().map(|chunk| chunk.data.to_vec()).collect()
}

pub(super) fn wav() -> Vec<Vec<u8>> {
    let samples: Vec<u8> = (0..800_u16).flat_map(u16::to_le_bytes).collect();
    let header = WavHeader::mono(SampleRate::new(16_000).expect("a rate"));
    let [whole, streamed] = [header.finished(Samples(800)), header.streaming()];
    let mut files = [whole, streamed]
        .map(|header| read(&[&header[..], &samples].concat()))
        .to_vec();
    files.extend(
        [(1, 24), (1, 32), (3, 32), (3, 64), (7, 8)].map(|(format, bits)| {
            let mut header = whole;
            header[20] = format;
            header[34] = bits;
            // Zeros and small integers are floats, too.
            read(&[&header[..], &samples].concat())
        }),
    );
    files
}

pub(super) fn raw() -> Vec<Vec<u8>> {
    [0_u8, 0x40, 0x80, 0xc0]
        .map(|kind| [&[kind | 31, 1, 40], &[kind; 320][..]].concat())
        .to_vec()
}

pub(super) fn opus() -> Vec<Vec<u8>> {
    let packets = tone(Encoding::Opus, 16_000);
    // Pieces are packets: the first alone, and several in one.
    vec![[&[63, 1, 255], &packets[0][..]].concat(), read(&packets.concat())]
}

pub(super) fn ogg() -> Vec<Vec<u8>> {
    vec![read(&tone(Encoding::OggOpus, 16_000).concat())]
}

pub(super) fn flac() -> Vec<Vec<u8>> {
    vec![read(&tone(Encoding::Flac, 16_000).concat())]
}

pub(super) fn text() -> Vec<Vec<u8>> {
    let texts = [
        "It costs $3.50 on May 5th, 2026, at 3:15 p.m. Call 555-1234; see https://example.org/a?b=c#d.",
        "Dr. Smith's U.S. office: 12 km/h, 40 %, #7, 1/2, IV, 10^3 \u{2014} caf\u{e9}\u{2026} \u{4f60}\u{597d}\u{3002} \u{1f600}",
        "<speak>no</speak> stop",
    ];
    (0..8_u8)
        .flat_map(|manner| texts.map(|text| [&[manner, 5], text.as_bytes()].concat()))
        .collect()
}

pub(super) fn file(name: &str) -> Vec<u8> {
    fs::read(tiny().join(name)).expect("it is in the tree")
}

pub(super) fn tensors() -> Vec<Vec<u8>> {
    let header = br#"{"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},"b":{"dtype":"BF16","shape":[],"data_offsets":[8,10]}}"#;
    let length = (header.len() as u64).to_le_bytes();
    let index =
        br#"{"metadata":{"total_size":8},"weight_map":{"a":"model.safetensors","b":"other.safetensors"}}"#;
    vec![[&length[..], header, &[0; 10]].concat(), index.to_vec()]
}

pub(super) fn json_config() -> Vec<Vec<u8>> {
    vec![file("config.json")]
}

pub(super) fn tokenizer() -> Vec<Vec<u8>> {
    vec![file("tokenizer.json")]
}

pub(super) fn deploy() -> Vec<Vec<u8>> {
    let all = deploy::resolve(None, &[], 64)
        .expect("the defaults are legal")
        .yaml();
    let some = "stages:\n  talker: {replicas: 2, sampling: {temperature: 0.8}}\n  code2wav:\n    ramp: [1, 2, 4]\n    placement: process\n";
    vec![
        all.into_bytes(),
        some.into(),
        b"stages.talker.replicas=2\nstages.talker.kv.memory=64MiB".to_vec(),
    ]
}

pub(super) fn metrics() -> Vec<Vec<u8>> {
    vec![
        b"dimensions: [zone]\nmetrics:\n  counter:\n    - name: calls_total\n      unit: calls\n      dimensions: [zone]\n".to_vec(),
        b"metrics:\n  - name: wait_seconds\n    type: histogram\n    unit: seconds\n    help: A wait.\n    labels: [zone]\n    buckets: [0.1, 1]\n"
            .to_vec(),
    ]
}

pub(super) fn keys() -> Vec<Vec<u8>> {
    let hash = "0123456789abcdef".repeat(4);
    vec![format!("# ours\nbackend speech,chat sha256:{hash} # since May\n").into_bytes()]
}

pub(super) fn headers() -> Vec<Vec<u8>> {
    vec![
        b"authorization:Bearer omni_abc\nx-api-key: omni_def\ngrpc-timeout:100m".to_vec(),
        b"traceparent:00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\ntracestate:a=b,c=d\ngrpc-timeout:99999999H".to_vec(),
    ]
}

/// A frame of every kind between processes, as its message.
pub(super) fn payloads() -> Vec<Vec<u8>> {
    let message = |body| {
        let frame = stage::Frame {
            sequence: 5,
            body: Some(body),
            sent: 7,
        };
        frame.encode_to_vec()
    };
    let item = |payload| {
        Body::Item(stage::Item {
            number: 0,
            put: -3,
            payload: Some(payload),
        })
    };
    let floats = stage::Floats {
        values: vec![0.5, -0.25],
    };
    let request = stage::SpeechRequest {
        voice: "alto".to_owned(),
        sampling: Some(stage::Sampling::default()),
        context: Some(stage::ContextRows {
            rows: vec![stage::ContextRow {
                row: Some(stage::context_row::Row::Hidden(floats.clone())),
            }],
        }),
        ..stage::SpeechRequest::default()
    };
    let lost = stage::StageError {
        stage: "first".to_owned(),
        message: "it died".to_owned(),
    };
    let event = stage::event::Event::Finished(stage::Finished {
        reason: stage::EndReason::Stop.into(),
        record: Some(stage::Record::default()),
        ..stage::Finished::default()
    });
    let bodies = [
        Body::Hello(stage::Hello {
            version: VERSION,
            stage: "first".to_owned(),
            settings: b"{}".to_vec(),
            sender: "last".to_owned(),
        }),
        Body::Open(stage::Open {
            arrived: Some(9),
            request: Some(stage::open::Request::Speech(request)),
            link: Some(stage::Link {
                stage: "last".to_owned(),
                address: b"there".to_vec(),
                token: vec![0; 16],
            }),
            expects: vec![1; 16],
        }),
        Body::Attach(stage::Attach { token: vec![1; 16] }),
        item(stage::item::Payload::Text(stage::Tokens { ids: vec![1, 2, 3] })),
        item(stage::item::Payload::Frame(stage::CodecFrame {
            codes: vec![1, 2],
        })),
        item(stage::item::Payload::Audio(stage::Audio {
            samples: vec![0.5; 4],
            frames: 1,
            codes: vec![stage::CodecFrame { codes: vec![1, 2] }],
        })),
        item(stage::item::Payload::Reply(stage::ReplyToken {
            id: 3,
            hidden: vec![floats],
        })),
        Body::Credit(stage::Credit { units: 8 }),
        Body::End(stage::End {
            reason: Some(stage::end::Reason::Lost(lost)),
        }),
        Body::Progress(stage::Progress::default()),
        Body::Events(stage::Events {
            events: vec![stage::Event { event: Some(event) }],
            missed: 1,
        }),
        Body::Arrivals(stage::Arrivals {
            arrivals: vec![stage::Arrival::default()],
        }),
    ];
    bodies.into_iter().map(message).collect()
}

/// As above, length-prefixed.
pub(super) fn frames() -> Vec<Vec<u8>> {
    let frame = |message: Vec<u8>| [&(message.len() as u32).to_be_bytes()[..], &message].concat();
    let all: Vec<_> = payloads().into_iter().map(frame).collect();
    vec![all[0].clone(), all[3].clone(), all.concat()]
}

pub(super) fn openai_speech() -> Vec<Vec<u8>> {
    vec![
        br#"{"model":"m","input":"Hello.","voice":{"id":"alloy"},"response_format":"pcm","speed":1.5,"stream_format":"sse","seed":7}"#
            .to_vec(),
        br#"{"model":"m","input":"Hello.","voice":"alloy","instructions":"kindly","language":"en"}"#.to_vec(),
    ]
}

pub(super) fn openai_chat() -> Vec<Vec<u8>> {
    vec![
        br#"{"model":"m","messages":[{"role":"developer","content":"Be kind."},{"role":"user","content":[{"type":"text","text":"ab"},{"type":"input_audio","input_audio":{"data":"AAAA","format":"wav"}}]}],"modalities":["text","audio"],"audio":{"voice":"alloy","format":"wav"},"stream":true,"stream_options":{"include_usage":true}}"#
            .to_vec(),
        br#"{"model":"m","messages":[{"role":"assistant","content":"a","tool_calls":[]}],"stop":["a","b"],"n":1,"seed":-1,"temperature":0.5,"logit_bias":{},"response_format":{"type":"text"}}"#
            .to_vec(),
    ]
}

pub(super) fn joined<M: Message>(messages: impl IntoIterator<Item = M>) -> Vec<u8> {
    messages
        .into_iter()
        .flat_map(|message| message.encode_length_delimited_to_vec())
        .collect()
}

fn speech_config() -> v1::SpeechConfig {
    v1::SpeechConfig {
        language: "en".to_owned(),
        output: Some(v1::AudioDelivery {
            format: Some(v1::AudioFormat {
                encoding: v1::AudioEncoding::Opus.into(),
                sample_rate_hz: 16_000,
                channels: 1,
            }),
            ..v1::AudioDelivery::default()
        }),
        speed: Some(1.5),
        volume_gain_db: Some(-3.0),
        sampling: Some(v1::SamplingParams {
            temperature: Some(0.5),
            top_k: Some(5),
            seed: Some(1),
            max_tokens: Some(9),
            ..v1::SamplingParams::default()
        }),
        max_buffer_delay: Some(omni_proto::Duration { seconds: 0, nanos: 5 }),
        ..v1::SpeechConfig::default()
    }
}

pub(super) fn speak() -> Vec<Vec<u8>> {
    let events: [Asked; 5] = [
        config(speech_config()),
        named("a", "Hello."),
        flush(),
        finish(),
        cancel("a"),
    ];
    let requests = events.map(|event| v1::SpeakRequest { event: Some(event) });
    vec![joined(requests)]
}

pub(super) fn converse() -> Vec<Vec<u8>> {
    let mut settings = chat_config(true);
    settings.output_audio = speech_config().output;
    settings.stop = vec!["stop".to_owned()];
    settings.input_audio = Some(v1::AudioFormat {
        encoding: v1::AudioEncoding::Mulaw.into(),
        sample_rate_hz: 8_000,
        channels: 1,
    });
    let audio = v1::InputAudio {
        data: vec![0x7f; 160].into(),
    };
    let events: [Said; 7] = [
        Said::Config(settings),
        said(v1::Role::User, "Hello."),
        respond(),
        interrupt(Some(100)),
        Said::InputAudio(audio),
        Said::Commit(v1::CommitInput::default()),
        said(v1::Role::System, "Be brief."),
    ];
    let requests = events.map(|event| v1::ConverseRequest { event: Some(event) });
    vec![joined(requests)]
}

pub(super) fn riva() -> Vec<Vec<u8>> {
    let request = |text: &str, encoding: i32| SynthesizeSpeechRequest {
        text: text.to_owned(),
        encoding,
        sample_rate_hz: 16_000,
        language_code: "en".to_owned(),
        ..SynthesizeSpeechRequest::default()
    };
    vec![joined([
        request("Hello.", 1),
        request("", 1),
        request("And more.", 2),
    ])]
}
