//! Properties that hold for any data and for any bytes.

use std::sync::Arc;
use std::time::Duration;

use omni_engine::{CacheSalt, CodecFrame, FinishReason, SeqRecord, Stamp, StepStats};
use omni_proto::stage::v1::item::Payload;
use omni_proto::stage::v1::{self as proto};
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use prost::Message as _;

use super::*;
use crate::item::{AudioPiece, Item, ItemKind, Latents, ReplyToken};
use crate::request::{
    ContextRow, DecodeRequest, Payloads, PromptPiece, Sampling, SpeechHead, SpeechRequest, StageRequest,
    TextRequest, VoicePrompt, VoiceReference,
};
use crate::stage::{
    CacheFigures, End, EngineEvent, KvFormat, KvPosition, LinkToken, NextStage, Refusal, SeqEnd, SeqTaken,
    StageSnapshot, TransferStamps,
};

/// Stages that ends may name.
const STAGES: [&str; 2] = ["first", "last"];

/// Beyond all instants here.
const NOW: Stamp = Stamp(Duration::from_secs(1 << 20));

/// A clock that both sides have in common, and that has seen a frame just now.
fn clock() -> PeerClock {
    let mut clock = PeerClock::new(Stamp(Duration::from_secs(50)));
    clock.frame(clock.to_wire(NOW), NOW);
    clock
}

/// Sends `body` through a connection and returns the body that is read at the other end.
fn passed(body: Body) -> Body {
    let mut bytes = Vec::new();
    write_frame(&mut bytes, SeqId(3), body, || 4).unwrap();
    let mut reader = FrameReader::default();
    let mut rest = &bytes[..];
    let length = bytes.len();
    while reader.fill(&mut rest).unwrap() > 0 {}
    let frame = reader.next(|| NOW).unwrap().unwrap();
    assert_eq!((frame.seq, frame.sent, frame.bytes), (SeqId(3), 4, length));
    assert_eq!(reader.pending(), 0);
    frame.body
}

fn chunk(sent: Item) -> Result<(), TestCaseError> {
    prop_assert!(sent.units() > 0);
    let message = proto::Item {
        number: 1,
        put: -1,
        payload: Some(payload(sent.clone())),
    };
    let Body::Item(came) = passed(Body::Item(message)) else {
        panic!("an item became something else");
    };
    prop_assert_eq!((came.number, came.put), (1, -1));
    prop_assert_eq!(item(payload_of(came).unwrap()), Ok(sent));
    Ok(())
}

fn request_comes(sent: StageRequest) -> Result<(), TestCaseError> {
    let message = proto::Open {
        arrived: None,
        request: Some(request_message(sent.clone())),
        link: None,
        expects: Vec::new(),
    };
    let Body::Open(came) = passed(Body::Open(message)) else {
        panic!("a request became something else");
    };
    prop_assert_eq!(super::request(came.request.unwrap()).unwrap(), sent);
    Ok(())
}

fn some_text() -> impl Strategy<Value = String> {
    vec(any::<char>(), 0..20).prop_map(String::from_iter)
}

fn end() -> impl Strategy<Value = End> {
    let failed = (prop::sample::select(&STAGES[..]), some_text())
        .prop_map(|(stage, message)| End::Failed { stage, message });
    let lost = (prop::sample::select(&STAGES[..]), some_text())
        .prop_map(|(stage, message)| End::Lost { stage, message });
    let severed = (prop::sample::select(&STAGES[..]), some_text())
        .prop_map(|(stage, message)| End::Severed { stage, message });
    prop_oneof![
        Just(End::Stop),
        Just(End::Length),
        Just(End::Repetition),
        some_text().prop_map(End::Rejected),
        some_text().prop_map(End::Overloaded),
        failed,
        lost,
        severed,
    ]
}

fn reals() -> impl Strategy<Value = Arc<[f32]>> {
    vec(-9f32..9.0, 0..6).prop_map(Into::into)
}

fn row() -> impl Strategy<Value = ContextRow> {
    prop_oneof![
        any::<u32>().prop_map(ContextRow::Token),
        reals().prop_map(ContextRow::Hidden),
        any::<u32>().prop_map(ContextRow::Awaited),
    ]
}

fn piece() -> impl Strategy<Value = PromptPiece> {
    prop_oneof![
        vec(any::<u32>(), 0..6).prop_map(PromptPiece::Tokens),
        (any::<u32>(), reals()).prop_map(|(rows, values)| PromptPiece::Audio { rows, values }),
    ]
}

fn codec_frames() -> impl Strategy<Value = Vec<CodecFrame>> {
    vec(
        vec(any::<u32>(), 0..4).prop_map(|codes| CodecFrame(codes.into())),
        0..4,
    )
}

fn voice_prompt() -> impl Strategy<Value = VoicePrompt> {
    let reference = (codec_frames(), vec(any::<u32>(), 0..4));
    let reference = reference.prop_map(|(frames, text)| VoiceReference { frames, text });
    (vec(-9f32..9.0, 0..6), of(reference))
        .prop_map(|(x_vector, reference)| VoicePrompt { x_vector, reference })
}

prop_compose! {
    fn sampling()(
        temperature in of(0f32..9.0),
        top_p in of(0f32..1.0),
        top_k: Option<u32>,
        repetition_penalty in of(0f32..9.0),
        min_p in of(0f32..1.0),
        presence_penalty in of(-2f32..2.0),
        frequency_penalty in of(-2f32..2.0),
    ) -> Sampling {
        Sampling { temperature, top_p, top_k, repetition_penalty, min_p, presence_penalty, frequency_penalty }
    }
}

fn payloads() -> impl Strategy<Value = Payloads> {
    let kinds = [
        ItemKind::Text,
        ItemKind::Frames,
        ItemKind::Latents,
        ItemKind::Audio,
    ];
    let kind = prop::sample::select(kinds.to_vec());
    (of(kind.clone()), kind).prop_map(|(reads, gives)| Payloads { reads, gives })
}

prop_compose! {
    fn speech()(
        seed: u64,
        voice in some_text(),
        language in of(some_text()),
        instructions in of(some_text()),
        sampling in sampling(),
        context in of(vec(row(), 0..4)),
        generated: bool,
        voice_prompt in of(voice_prompt()),
        embedding in of(reals()),
        speed in 0.1_f32..9.0,
        payloads in payloads(),
        max_outputs: u32,
        prior_frames in codec_frames(),
        whole_text in of(vec(any::<u32>(), 0..4)),
    ) -> SpeechRequest {
        let instructions = instructions.map(Into::into);
        let voice_prompt = voice_prompt.map(Arc::new);
        SpeechRequest {
            head: SpeechHead { voice, voice_prompt, language, instructions, speed, sampling, seed, max_outputs },
            payloads, embedding, generated,
            context: context.map(Into::into),
            prior_frames: prior_frames.into(),
            whole_text: whole_text.map(Into::into),
        }
    }
}

fn at() -> impl Strategy<Value = Stamp> {
    (0..1_u64 << 49).prop_map(|nanos| Stamp(Duration::from_nanos(nanos)))
}

prop_compose! {
    fn arrival()(seq: u64, bytes: u64, stamps in prop::array::uniform4(at())) -> Arrival {
        let [tx_start, tx_end, rx_start, rx_end] = stamps;
        let stamps = TransferStamps { bytes, tx_start, tx_end, rx_start, rx_end };
        Arrival { seq: SeqId(seq), stamps }
    }
}

fn time() -> impl Strategy<Value = Duration> {
    any::<u64>().prop_map(Duration::from_nanos)
}

prop_compose! {
    fn cache()(
        counts: [u32; 3],
        prefix_caching: bool,
        position in of((any::<u64>(), prop::sample::select(&KvFormat::ALL[..]))),
    ) -> EngineEvent {
        let [block_size, blocks, max_len] = counts;
        let position = position.map(|(bytes, format)| KvPosition { bytes, format });
        EngineEvent::Cache(CacheFigures { block_size, blocks, max_len, prefix_caching, position })
    }
}

prop_compose! {
    fn step()(at in at(), kv_usage in 0f64..1.0, busy in time(), counts: [u32; 14]) -> EngineEvent {
        let [
            running, waiting_capacity, waiting_deferred, prompt_tokens, cached_tokens, outputs, admitted,
            prefix_queries, prefix_hits, preempted, queued_items, prefill_tokens, decode_tokens, late,
        ] = counts;
        let stats = StepStats {
            kv_usage, running, waiting_capacity, waiting_deferred, prompt_tokens, cached_tokens, outputs,
            admitted, prefix_queries, prefix_hits, preempted, queued_items, prefill_tokens, decode_tokens, late,
        };
        EngineEvent::Step { at, busy, stats }
    }
}

prop_compose! {
    fn record()(
        (queued, finished) in (at(), at()),
        (scheduled, first_output, last_output) in (of(at()), of(at()), of(at())),
        counts: [u32; 4],
    ) -> SeqRecord {
        let [prompt_tokens, cached_tokens, outputs, preemptions] = counts;
        SeqRecord {
            queued, scheduled, first_output, last_output, finished, prompt_tokens, cached_tokens, outputs, preemptions,
        }
    }
}

fn news() -> impl Strategy<Value = EngineEvent> {
    let seq = || any::<u64>().prop_map(SeqId);
    let taken = (seq(), at(), of(any::<u32>())).prop_map(|(seq, arrived, max_outputs)| {
        EngineEvent::Taken(SeqTaken {
            seq,
            arrived,
            max_outputs,
        })
    });
    let finished = (seq(), reason(), time(), of(record()), of(any::<u32>())).prop_map(
        |(seq, reason, latency, record, max_outputs)| {
            EngineEvent::Finished(SeqEnd {
                seq,
                reason,
                latency,
                record,
                max_outputs,
            })
        },
    );
    prop_oneof![
        time().prop_map(|after| EngineEvent::Loaded { after }),
        cache(),
        step(),
        taken,
        time().prop_map(|after| EngineEvent::FirstOutput { after }),
        time().prop_map(|gap| EngineEvent::NextOutput { gap }),
        Just(EngineEvent::Starved),
        finished,
        Just(EngineEvent::Refused(Refusal::Sequences)),
        Just(EngineEvent::Refused(Refusal::Positions)),
        any::<u32>().prop_map(EngineEvent::Running),
        Just(EngineEvent::Idle),
    ]
}

fn reason() -> impl Strategy<Value = FinishReason> {
    prop_oneof![
        Just(FinishReason::Stop),
        Just(FinishReason::Length),
        Just(FinishReason::Abort),
        Just(FinishReason::Repetition),
        ".{0,9}".prop_map(FinishReason::Error),
    ]
}

proptest! {
    #[test]
    fn items_come_as_they_were_sent(
        tokens in vec(any::<u32>(), 0..40),
        frames_made in codec_frames(),
        samples in vec(any::<u32>(), 0..40),
        frames: u32,
        codes in codec_frames(),
        id: u32,
        hidden in vec(reals(), 0..3),
        rows in reals(),
    ) {
        chunk(Item::Text(tokens))?;
        chunk(Item::Frames(frames_made))?;
        chunk(Item::Reply(ReplyToken { id, hidden }))?;
        chunk(Item::Embedding(rows.clone()))?;
        for width in 1..=rows.len() {
            let whole = rows.len() / width * width;
            let latents = Latents::new(width as u32, rows[..whole].to_vec()).expect("whole frames");
            chunk(Item::Latents(latents))?;
        }
        // Any pattern of bits, also those that are no numbers.
        let samples_made = samples.iter().copied().map(f32::from_bits).collect();
        let piece = AudioPiece { samples: samples_made, frames, codes: codes.clone() };
        let Ok(Item::Audio(back)) = item(payload(Item::Audio(piece))) else { panic!("audio became something else") };
        let message = proto::Item { payload: Some(payload(Item::Audio(back))), ..proto::Item::default() };
        let Body::Item(came) = passed(Body::Item(message)) else { panic!("an item became something else") };
        let Ok(Item::Audio(came)) = item(payload_of(came).unwrap()) else { panic!("audio became something else") };
        let bits: Vec<_> = came.samples.iter().map(|sample| sample.to_bits()).collect();
        prop_assert_eq!((bits, came.frames, came.codes), (samples, frames, codes));
    }

    #[test]
    fn latents_of_no_frame_and_of_a_part_of_one_are_refused(width in 0..7_u32, count in 0..20_usize) {
        let whole = width > 0 && count > 0 && count.is_multiple_of(width as usize);
        let message = proto::Latents { width, values: vec![0.5; count] };
        let read = item(Payload::Latents(message));
        prop_assert_eq!(read.as_ref().map(Item::units).ok(), whole.then(|| count as u32 / width.max(1)));
        prop_assert!(whole || read.unwrap_err().to_string().contains("expected at least one whole frame"));
    }

    #[test]
    fn requests_come_as_they_were_sent(
        speech in speech(),
        prompt in vec(piece(), 0..4),
        export_hidden: bool,
        salt: u64,
        max_outputs: u32,
        lead in codec_frames(),
        with_codes: bool,
        recording in reals(),
    ) {
        let sampling = speech.head.sampling;
        let seed = speech.head.seed;
        let head = speech.head.clone();
        let payloads = speech.payloads;
        let salt = CacheSalt(salt);
        request_comes(StageRequest::Speech(speech))?;
        request_comes(StageRequest::Text(TextRequest { prompt, sampling, seed, export_hidden, salt, max_outputs }))?;
        request_comes(StageRequest::Decode(DecodeRequest { head, payloads, lead: lead.into(), with_codes }))?;
        request_comes(StageRequest::Encode(recording))?;
    }

    #[test]
    fn links_come_as_they_were_sent(stage in prop::sample::select(&STAGES[..]), other in some_text(), address in vec(any::<u8>(), 0..40), number: u128) {
        let next = NextStage { stage: stage.to_owned(), address: address.into(), token: LinkToken(number) };
        prop_assert_eq!(next_stage(next_stage_message(next.clone()), &STAGES), Ok(next.clone()));
        if !STAGES.contains(&&*other) {
            let unknown = NextStage { stage: other, ..next };
            prop_assert!(next_stage(next_stage_message(unknown), &STAGES).is_err());
        }
        prop_assert_eq!(token(&token_message(LinkToken(number))), Ok(LinkToken(number)));
    }

    #[test]
    fn ends_and_progress_come_as_they_were_sent(
        ended in end(),
        started in of(at()),
        first_output in of(at()),
        last_output in of(at()),
        busy: u64,
        outputs: u32,
        starved: u32,
        passages in vec(arrival(), 0..5),
    ) {
        let Body::End(message) = passed(Body::End(end_message(ended.clone()))) else { panic!("no end") };
        prop_assert_eq!(super::end(message, &STAGES), Ok(ended));
        let busy = Duration::from_nanos(busy);
        let snapshot = StageSnapshot { started, first_output, last_output, busy, outputs, starved, replica: None };
        let Body::Progress(message) = passed(Body::Progress(progress_message(&snapshot, clock()))) else {
            panic!("no progress")
        };
        prop_assert_eq!(progress(&message, clock()), snapshot);
        let arrivals = passages.iter().map(|passage| passage.message(clock())).collect();
        let Body::Arrivals(message) = passed(Body::Arrivals(proto::Arrivals { arrivals })) else {
            panic!("no arrivals")
        };
        let back: Vec<_> = message.arrivals.iter().map(|arrival| Arrival::of(arrival, clock())).collect();
        prop_assert_eq!(back, passages);
    }

    #[test]
    fn events_come_as_they_were_sent(told in vec(news(), 0..6), missed: u64) {
        let reports = Reports { told, missed };
        let Body::Events(message) = passed(Body::Events(reports.message(clock()))) else { panic!("no events") };
        prop_assert_eq!(Reports::of(message, clock()), Ok(reports));
    }

    #[test]
    fn bytes_that_mean_nothing_are_refused_and_never_worse(bytes in vec(any::<u8>(), 0..120)) {
        crate::connector::parsers::payloads(&bytes);
        crate::connector::parsers::frames(&bytes);
    }

    #[test]
    fn frames_come_out_whole_whatever_pieces_their_bytes_come_in(
        payloads in vec(vec(any::<u32>(), 0..300), 1..8),
        pieces in vec(1usize..200, 1..50),
    ) {
        let mut stream = Vec::new();
        for (number, ids) in (0..).zip(&payloads) {
            let payload = Some(payload(Item::Text(ids.clone())));
            let item = Body::Item(proto::Item { number, put: 1, payload });
            write_frame(&mut stream, SeqId(u64::from(number)), item, || 2).unwrap();
        }
        let mut reader = FrameReader::default();
        let mut rest = &stream[..];
        let mut seen = Vec::new();
        for size in pieces.iter().copied().cycle() {
            let (piece, left) = rest.split_at(size.min(rest.len()));
            rest = left;
            if reader.fill(piece).unwrap() == 0 {
                break;
            }
            while let Some(frame) = reader.next(|| NOW).unwrap() {
                let Body::Item(item) = frame.body else { panic!("an item became something else") };
                prop_assert_eq!(item.number as usize, seen.len());
                match item.payload {
                    Some(Payload::Text(tokens)) => seen.push(tokens.ids),
                    other => panic!("{other:?}"),
                }
            }
        }
        prop_assert_eq!(seen, payloads);
        prop_assert_eq!(reader.pending(), 0);
    }
}

#[test]
fn a_length_that_promises_much_reserves_nothing() {
    let length = (MAX_FRAME as u32).to_be_bytes();
    let mut reader = FrameReader::default();
    reader.fill(&length[..]).unwrap();
    for _ in 0..100 {
        reader.fill(&[0][..]).unwrap();
        assert_eq!(reader.next(|| NOW), Ok(None));
    }
    assert!(
        reader.capacity() < 1 << 20,
        "{} bytes are reserved",
        reader.capacity()
    );
}

#[test]
fn a_frame_beyond_the_limit_is_neither_read_nor_written() {
    let mut reader = FrameReader::default();
    reader.fill(&(MAX_FRAME as u32 + 1).to_be_bytes()[..]).unwrap();
    let got = MAX_FRAME + 1;
    assert_eq!(reader.next(|| NOW), Err(WireError::TooLong { got }));

    let mut out = vec![1, 2];
    let message = "x".repeat(MAX_FRAME);
    let written = write_frame(&mut out, SeqId(0), Body::Failed(proto::Failed { message }), || 0);
    assert!(
        matches!(written, Err(WireError::TooLong { got }) if got > MAX_FRAME),
        "{written:?}"
    );
    assert_eq!(out, [1, 2]);
}

#[test]
fn a_frame_is_the_message_that_the_description_has() {
    let mut bytes = Vec::new();
    write_frame(
        &mut bytes,
        SeqId(7),
        Body::Credit(proto::Credit { units: 9 }),
        || -5,
    )
    .unwrap();
    let (length, message) = bytes.split_first_chunk::<PREFIX>().unwrap();
    assert_eq!(u32::from_be_bytes(*length) as usize, message.len());
    let expected = proto::Frame {
        sequence: 7,
        body: Some(Body::Credit(proto::Credit { units: 9 })),
        sent: -5,
    };
    assert_eq!(proto::Frame::decode(message), Ok(expected));
}

#[test]
fn the_name_of_a_stage_that_is_not_known_is_refused() {
    let reason = proto::end::Reason::Failed(proto::StageError {
        stage: "nose".to_owned(),
        message: "it itches".to_owned(),
    });
    let error = super::end(proto::End { reason: Some(reason) }, &STAGES).unwrap_err();
    assert_eq!(
        error.to_string(),
        "a stage is \"nose\", expected the name of a stage"
    );
}
