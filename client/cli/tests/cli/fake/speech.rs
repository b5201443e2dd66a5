//! Speech service of the fake server.

use std::time::Duration;

use omni_proto::v1;
use omni_proto::v1::speak_request::Event as In;
use omni_proto::v1::speak_response::Event as Out;
use omni_proto::v1::speech_service_server::SpeechService;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use super::{CHUNK, RATE, Seen, Service, sample};

/// Sends numbered messages of one call.
struct Reply {
    sender: mpsc::Sender<Result<v1::SpeakResponse, Status>>,
    seq: u64,
}

impl Reply {
    async fn send(&mut self, utterance: &str, event: Out) {
        self.seq += 1;
        let response = v1::SpeakResponse {
            seq: self.seq,
            utterance_id: utterance.into(),
            event: Some(event),
        };
        // A client that left needs no answer.
        let _ = self.sender.send(Ok(response)).await;
    }
}

#[derive(Default)]
struct Utterance {
    name: String,
    spoken: bool,
}

impl Service {
    async fn session(self, mut requests: Streaming<v1::SpeakRequest>, mut reply: Reply) {
        let mut open: Option<Utterance> = None;
        let mut dropping = false;
        let mut count = 0;
        while let Ok(Some(request)) = requests.message().await {
            match request.event.expect("the client sends only known events") {
                In::Config(config) => {
                    self.see(Seen::Config(Box::new(config.clone())));
                    if let Some(status) = &self.script.refuse {
                        let _ = reply.sender.send(Err(status.clone())).await;
                        return;
                    }
                    reply.send("", Out::Ready(ready(config, self.script.limit))).await;
                    if self.script.leave {
                        return;
                    }
                }
                In::Text(chunk) if dropping => self.see(Seen::Text(chunk.text)),
                In::Text(chunk) => {
                    if open.is_none() {
                        count += 1;
                        open = Some(Utterance {
                            name: format!("u{count}"),
                            spoken: false,
                        });
                        reply
                            .send(&format!("u{count}"), Out::Started(v1::UtteranceStarted {}))
                            .await;
                    }
                    self.see(Seen::Text(chunk.text));
                    if self.script.eager {
                        self.speak(open.as_mut().expect("just opened"), &mut reply).await;
                    }
                    if let Some(utterance) = open.take_if(|_| self.script.cut) {
                        reply
                            .send(&utterance.name, self.done(v1::FinishReason::Length))
                            .await;
                        dropping = true;
                    }
                }
                In::Flush(_) => self.see(Seen::Flush),
                In::Finish(_) => {
                    self.see(Seen::Finish);
                    dropping = false;
                    if let Some(utterance) = &mut open {
                        self.speak(utterance, &mut reply).await;
                        if !self.script.hold {
                            reply.send(&utterance.name, self.done(self.script.finish)).await;
                            open = None;
                        }
                    }
                }
                In::Cancel(_) => {
                    self.see(Seen::Cancel);
                    if let Some(utterance) = open.take_if(|_| !self.script.deaf) {
                        reply
                            .send(&utterance.name, self.done(v1::FinishReason::Interrupted))
                            .await;
                    }
                }
            }
        }
        self.see(Seen::Closed);
    }

    async fn speak(&self, utterance: &mut Utterance, reply: &mut Reply) {
        if std::mem::replace(&mut utterance.spoken, true) {
            return;
        }
        if let Some((reason, message)) = self.script.warning {
            let warning = v1::Warning {
                reason: reason.into(),
                message: message.into(),
            };
            reply.send(&utterance.name, Out::Warning(warning)).await;
        }
        let mut said = 0;
        for i in 0..self.script.chunks {
            if let Some(word) = self.script.words.get(i as usize) {
                reply.send(&utterance.name, words(word, said, i)).await;
                said += word.chars().count() as u32;
            }
            let start = u64::from(i * CHUNK) + if i > 0 { self.script.skip } else { 0 };
            let last = i + 1 == self.script.chunks;
            reply.send(&utterance.name, Out::Audio(chunk(start, last))).await;
        }
        if self.script.hold {
            self.see(Seen::Holding);
        }
    }

    fn done(&self, reason: v1::FinishReason) -> Out {
        let error = self.script.fail.as_ref().map(rpc_status);
        let reason = if error.is_some() {
            v1::FinishReason::Error
        } else {
            reason
        };
        let audio = Duration::from_millis(80) * self.script.chunks;
        let outcome = v1::Outcome {
            finish_reason: reason.into(),
            usage: Some(v1::Usage {
                output_audio_duration: audio.try_into().ok(),
                ..Default::default()
            }),
            timings: Some(v1::Timings {
                stages: vec![stage()],
                ..Default::default()
            }),
            error,
            seed: Some(42),
            warnings: Vec::new(),
        };
        Out::Done(v1::UtteranceDone {
            outcome: Some(outcome),
            ..Default::default()
        })
    }
}

pub(super) fn stage() -> v1::StageTiming {
    v1::StageTiming {
        stage: "talker".into(),
        busy: Duration::from_millis(4).try_into().ok(),
        ..Default::default()
    }
}

/// A word behind `said` characters that takes the `nth` chunk of audio.
fn words(word: &str, said: u32, nth: u32) -> Out {
    let span = v1::TimedText {
        text: word.to_owned(),
        char_start: said,
        char_end: said + word.chars().count() as u32,
        start_sample: u64::from(nth * CHUNK),
        end_sample: u64::from((nth + 1) * CHUNK),
    };
    Out::Alignment(v1::Alignment { spans: vec![span] })
}

/// A status as it is put into messages.
pub(super) fn rpc_status(status: &Status) -> omni_proto::RpcStatus {
    <omni_proto::RpcStatus as prost::Message>::decode(status.details()).expect("made by tonic-types")
}

pub(super) fn chunk(start: u64, last: bool) -> v1::AudioChunk {
    let data: Vec<u8> = (start..start + u64::from(CHUNK))
        .flat_map(|n| sample(n).to_le_bytes())
        .collect();
    v1::AudioChunk {
        data: data.into(),
        start_sample: start,
        sample_count: CHUNK,
        last,
    }
}

fn ready(config: v1::SpeechConfig, limit: u32) -> v1::SpeechSessionReady {
    let format = v1::AudioFormat {
        encoding: v1::AudioEncoding::PcmS16le.into(),
        sample_rate_hz: RATE,
        channels: 1,
    };
    let output = v1::AudioDelivery {
        format: Some(format),
        ..Default::default()
    };
    let voice = if config.voice.is_empty() {
        "fake".into()
    } else {
        config.voice.clone()
    };
    let limits = v1::SessionLimits {
        max_text_bytes_per_utterance: limit,
        ..Default::default()
    };
    let resolved = v1::SpeechConfig {
        voice,
        model: "fake-model".into(),
        output: Some(output),
        ..config
    };
    v1::SpeechSessionReady {
        session_id: "s-1".into(),
        resolved: Some(resolved),
        limits: Some(limits),
    }
}

#[tonic::async_trait]
impl SpeechService for Service {
    type SpeakStream = ReceiverStream<Result<v1::SpeakResponse, Status>>;
    type SynthesizeStream = ReceiverStream<Result<v1::SynthesizeResponse, Status>>;

    async fn explain(
        &self,
        request: Request<v1::ExplainRequest>,
    ) -> Result<Response<v1::ExplainResponse>, Status> {
        let text = request.into_inner().text;
        let end = text.chars().count() as u32;
        let word = v1::ExplainedWord {
            spoken: text.to_lowercase(),
            char_start: 0,
            char_end: end,
        };
        let segment = v1::ExplainedSegment {
            text: format!("{}.", text.to_lowercase()),
            char_start: 0,
            char_end: end,
            words: vec![word],
            end: v1::SegmentEnd::Flush.into(),
            ..v1::ExplainedSegment::default()
        };
        let warning = v1::Warning {
            reason: "CHARACTERS_SKIPPED".to_owned(),
            message: "skipped one".to_owned(),
        };
        Ok(Response::new(v1::ExplainResponse {
            model: "m".to_owned(),
            segments: vec![segment],
            warnings: vec![warning],
        }))
    }

    async fn speak(
        &self,
        request: Request<Streaming<v1::SpeakRequest>>,
    ) -> Result<Response<Self::SpeakStream>, Status> {
        self.admit(&request)?;
        let (sender, stream) = mpsc::channel(8);
        tokio::spawn(
            self.clone()
                .session(request.into_inner(), Reply { sender, seq: 0 }),
        );
        Ok(Response::new(ReceiverStream::new(stream)))
    }

    async fn synthesize(
        &self,
        _: Request<v1::SynthesizeRequest>,
    ) -> Result<Response<Self::SynthesizeStream>, Status> {
        Err(Status::unimplemented("the command line does not call this"))
    }
}
