//! What holds for any data and for any bytes.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use omni_engine::{CacheSalt, CodecFrame, SeqRecord};
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;

use super::*;
use crate::stage::{
    AudioPiece, CacheFigures, ChunkStamps, ContextRow, End, EngineNews, KvFormat, KvPosition, PromptPiece,
    Refusal, ReplicaStats, ReplyToken, STAGE_NAMES, Sampling, SeqEnd, SeqTaken, StageSnapshot, StepFigures,
    TalkerRequest, ThinkerRequest,
};

fn encoded(data: &impl Wire) -> Vec<u8> {
    let mut out = Vec::new();
    data.encode(&mut out);
    out
}

/// Decodes as the same, and no other length of it decodes at all, unless `any_length` in words is right.
fn round_trip<T: Wire + PartialEq + Debug>(data: &T, any_length: bool) -> Result<(), TestCaseError> {
    let bytes = encoded(data);
    prop_assert_eq!(&T::decode(&bytes).unwrap(), data);
    for cut in 0..bytes.len() {
        let cut_off = T::decode(&bytes[..cut]);
        prop_assert!(cut_off.is_err() || any_length, "{} of {} bytes", cut, bytes.len());
    }
    let longer = [&bytes[..], &[0]].concat();
    prop_assert!(T::decode(&longer).is_err());
    Ok(())
}

fn chunk<T: Chunk + PartialEq + Debug>(item: &T) -> Result<(), TestCaseError> {
    prop_assert!(item.units() > 0);
    round_trip(item, true)
}

fn some_text() -> impl Strategy<Value = String> {
    vec(any::<char>(), 0..20).prop_map(String::from_iter)
}

fn end() -> impl Strategy<Value = End> {
    let failed = (prop::sample::select(&STAGE_NAMES[..]), some_text())
        .prop_map(|(stage, message)| End::Failed { stage, message });
    let lost = (prop::sample::select(&STAGE_NAMES[..]), some_text())
        .prop_map(|(stage, message)| End::Lost { stage, message });
    prop_oneof![
        Just(End::Stop),
        Just(End::Length),
        Just(End::Repetition),
        some_text().prop_map(End::Rejected),
        some_text().prop_map(End::Overloaded),
        failed,
        lost,
    ]
}

fn reals() -> impl Strategy<Value = Arc<[f32]>> {
    vec(-9f32..9.0, 0..6).prop_map(Into::into)
}

fn row() -> impl Strategy<Value = ContextRow> {
    prop_oneof![
        any::<u32>().prop_map(ContextRow::Token),
        reals().prop_map(ContextRow::Heard),
        any::<u32>().prop_map(ContextRow::Awaited),
    ]
}

fn piece() -> impl Strategy<Value = PromptPiece> {
    prop_oneof![
        vec(any::<u32>(), 0..6).prop_map(PromptPiece::Tokens),
        (any::<u32>(), reals()).prop_map(|(rows, values)| PromptPiece::Audio { rows, values }),
    ]
}

prop_compose! {
    fn request()(
        seed: u64,
        voice in some_text(),
        language in of(some_text()),
        temperature in of(0f32..9.0),
        top_p in of(0f32..1.0),
        top_k: Option<u32>,
        repetition_penalty in of(0f32..9.0),
        context in of(vec(row(), 0..4)),
        thought: bool,
    ) -> TalkerRequest {
        let sampling = Sampling { temperature, top_p, top_k, repetition_penalty };
        TalkerRequest { voice, language, sampling, seed, context: context.map(Into::into), thought }
    }
}

fn at() -> impl Strategy<Value = Stamp> {
    any::<u64>().prop_map(stamp)
}

prop_compose! {
    fn passage()(seq: u64, bytes: u64, stamps in prop::array::uniform4(at())) -> Passage {
        let [tx_start, tx_end, rx_start, rx_end] = stamps;
        let stamps = ChunkStamps { bytes, tx_start, tx_end, rx_start, rx_end };
        Passage { seq: SeqId(seq), stamps }
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
    ) -> EngineNews {
        let [block_size, blocks, max_len] = counts;
        let position = position.map(|(bytes, format)| KvPosition { bytes, format });
        EngineNews::Cache(CacheFigures { block_size, blocks, max_len, prefix_caching, position })
    }
}

prop_compose! {
    fn step()(at in at(), kv_usage in 0f64..1.0, counts: [u32; 10]) -> EngineNews {
        let [
            running, waiting_capacity, waiting_deferred, prompt_tokens, cached_tokens, outputs, admitted,
            prefix_queries, prefix_hits, preempted,
        ] = counts;
        EngineNews::Step(StepFigures {
            at, kv_usage, running, waiting_capacity, waiting_deferred, prompt_tokens, cached_tokens, outputs,
            admitted, prefix_queries, prefix_hits, preempted,
        })
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

fn news() -> impl Strategy<Value = EngineNews> {
    let seq = || any::<u64>().prop_map(SeqId);
    let taken = (seq(), at(), of(any::<u32>())).prop_map(|(seq, arrived, max_outputs)| {
        EngineNews::Taken(SeqTaken {
            seq,
            arrived,
            max_outputs,
        })
    });
    let finished = (
        seq(),
        prop::sample::select(&news::REASONS[..]),
        time(),
        of(record()),
        of(any::<u32>()),
    )
        .prop_map(|(seq, reason, latency, record, max_outputs)| {
            EngineNews::Finished(SeqEnd {
                seq,
                reason,
                latency,
                record,
                max_outputs,
            })
        });
    prop_oneof![
        time().prop_map(|after| EngineNews::Loaded { after }),
        cache(),
        step(),
        taken,
        time().prop_map(|after| EngineNews::FirstOutput { after }),
        time().prop_map(|gap| EngineNews::NextOutput { gap }),
        Just(EngineNews::Starved),
        finished,
        Just(EngineNews::Refused(Refusal::Sequences)),
        Just(EngineNews::Refused(Refusal::Positions)),
        Just(EngineNews::Idle),
    ]
}

proptest! {
    #[test]
    fn items_are_decoded_as_they_were(
        tokens in vec(any::<u32>(), 0..40),
        codes in vec(any::<u32>(), 0..40),
        samples in vec(any::<u32>(), 0..40),
        frames: u32,
    ) {
        chunk(&tokens)?;
        chunk(&CodecFrame(codes.into()))?;
        // Any pattern of bits, also those that are no numbers.
        let piece = AudioPiece { samples: samples.iter().copied().map(f32::from_bits).collect(), frames };
        let bytes = encoded(&piece);
        let back = AudioPiece::decode(&bytes).unwrap();
        let bits = |piece: &AudioPiece| piece.samples.iter().map(|sample| sample.to_bits()).collect::<Vec<_>>();
        prop_assert_eq!((bits(&back), back.frames), (samples, frames));
    }

    #[test]
    fn messages_are_decoded_as_they_were(
        end in end(),
        order in (request(), any::<u32>()),
        arrived in of(at()),
        hello in (some_text(), vec(any::<u8>(), 0..20)),
        text in some_text(),
    ) {
        round_trip(&end, false)?;
        round_trip(&order, false)?;
        round_trip(&Opening { arrived, order: order.clone() }, false)?;
        round_trip(&order.0.sampling, false)?;
        let (stage, settings) = hello;
        round_trip(&Hello { stage, settings }, false)?;
        round_trip(&text, false)?;
        round_trip(&(), false)?;
    }

    #[test]
    fn conversations_are_decoded_as_they_were(
        prompt in vec(piece(), 0..4),
        speech in request(),
        export_heard: bool,
        salt: u64,
        max_tokens: u32,
        id: u32,
        heard in vec(reals(), 0..3),
    ) {
        let salt = CacheSalt(salt);
        let request = ThinkerRequest { prompt, sampling: speech.sampling, seed: speech.seed, export_heard, salt };
        round_trip(&(request, max_tokens), false)?;
        let token = ReplyToken { id, heard };
        prop_assert_eq!(token.units(), 1);
        round_trip(&token, false)?;
    }

    #[test]
    fn figures_are_decoded_as_they_were(
        started in of(at()),
        first_output in of(at()),
        last_output in of(at()),
        busy: u64,
        outputs: u32,
        starved: u32,
        passages in vec(passage(), 0..5),
    ) {
        let busy = Duration::from_nanos(busy);
        let snapshot = StageSnapshot { started, first_output, last_output, busy, outputs, starved, replica: None };
        round_trip(&snapshot, false)?;
        round_trip(&Passages(passages), true)?;
        let stats = ReplicaStats {
            running: outputs,
            waiting: starved,
            kv_usage: 0.25,
            queued_items: 3,
            steps: 4,
            busy,
            prefill_tokens: 5,
            decode_tokens: 6,
            preempted: 7,
            starved: 8,
            late: 9,
            deaths: 10,
        };
        round_trip(&stats, false)?;
    }

    #[test]
    fn news_are_decoded_as_they_were(told in vec(news(), 0..6), missed: u64) {
        round_trip(&News { told, missed }, true)?;
    }

    #[test]
    fn bytes_that_mean_nothing_are_refused_and_never_worse(bytes in vec(any::<u8>(), 0..120)) {
        // Whatever is accepted is what its encoding says.
        macro_rules! stable {
            ($($type:ty),*) => {$(
                if let Ok(data) = <$type>::decode(&bytes) {
                    prop_assert_eq!(&encoded(&data), &bytes);
                }
            )*};
        }
        stable!((), Vec<u32>, CodecFrame, AudioPiece, (TalkerRequest, u32), Sampling, End, StageSnapshot, Hello, String, Passages, ReplicaStats, (ThinkerRequest, u32), ReplyToken, News, Opening<(TalkerRequest, u32)>);
    }

    #[test]
    fn frames_come_out_whole_whatever_pieces_their_bytes_come_in(
        payloads in vec(vec(any::<u8>(), 0..300), 1..8),
        pieces in vec(1usize..200, 1..50),
    ) {
        let mut stream = Vec::new();
        for (n, payload) in payloads.iter().enumerate() {
            let header = Header { number: n as u32, ..Header::new(Kind::Item, SeqId(n as u64), stamp(1)) };
            write_frame(&mut stream, header, |out| out.extend(payload), || stamp(2)).unwrap();
        }
        let mut reader = FrameReader::default();
        let (mut rest, mut seen) = (&stream[..], Vec::new());
        for size in pieces.iter().copied().cycle() {
            let (piece, left) = rest.split_at(size.min(rest.len()));
            rest = left;
            if reader.fill(piece).unwrap() == 0 {
                break;
            }
            while let Some(frame) = reader.next().unwrap() {
                prop_assert_eq!(frame.header.number as usize, seen.len());
                seen.push(frame.payload.to_vec());
            }
        }
        prop_assert_eq!(seen, payloads);
        prop_assert_eq!(reader.pending(), 0);
    }

    #[test]
    fn a_stream_of_anything_ends_in_an_error_or_in_waiting(bytes in vec(any::<u8>(), 0..4000), valid: bool) {
        let mut stream = match valid {
            true => Header::new(Kind::Credit, SeqId(1), stamp(1)).bytes(0).to_vec(),
            false => Vec::new(),
        };
        stream.extend(bytes);
        let mut reader = FrameReader::default();
        reader.fill(&stream[..]).unwrap();
        let mut frames = 0;
        while let Ok(Some(_)) = reader.next() {
            frames += 1;
        }
        prop_assert!(frames >= usize::from(valid));
    }
}

#[test]
fn a_header_that_promises_much_reserves_nothing() {
    let header = Header::new(Kind::Item, SeqId(1), stamp(1)).bytes(MAX_PAYLOAD as u32);
    let mut reader = FrameReader::default();
    reader.fill(&header[..]).unwrap();
    for _ in 0..100 {
        reader.fill(&[0][..]).unwrap();
        assert_eq!(reader.next(), Ok(None));
    }
    assert!(
        reader.capacity() < 1 << 20,
        "{} bytes are reserved",
        reader.capacity()
    );
}

#[test]
fn the_name_of_a_stage_that_is_not_known_is_refused() {
    let mut bytes = vec![4];
    for text in ["nose", "it itches"] {
        bytes.extend((text.len() as u32).to_le_bytes());
        bytes.extend(text.as_bytes());
    }
    let error = End::decode(&bytes).unwrap_err();
    assert_eq!(
        error.to_string(),
        "an end is \"nose\", expected the name of a stage"
    );
}
