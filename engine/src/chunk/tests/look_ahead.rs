//! A model with look-ahead: it gives an item's samples when it has seen the following items.

use super::*;

/// Echoes an item when it has seen the next two.
#[derive(Debug, Default)]
struct Behind(HashMap<SeqId, Vec<u32>>);

impl ChunkModel for Behind {
    type Request = ();
    type Item = u32;
    type Sample = u32;

    fn open(&mut self, seq: SeqId, (): (), _lead: u32) -> Result<Skipped, ModelError> {
        self.0.insert(seq, Vec::new());
        Ok(Skipped::default())
    }

    fn decode(&mut self, batch: &[(SeqId, &[u32])]) -> Result<Vec<Decoded<u32>>, ModelError> {
        let decode = |(seq, items): &(SeqId, &[u32])| {
            let held = self.0.get_mut(seq).expect("only open streams are decoded");
            held.extend_from_slice(items);
            Ok(held.drain(..held.len().saturating_sub(2)).collect())
        };
        Ok(batch.iter().map(decode).collect())
    }

    fn flush(&mut self, batch: &[SeqId]) -> Result<Vec<Decoded<u32>>, ModelError> {
        let rest = |seq| {
            let held = self.0.get_mut(seq).expect("only open streams are flushed");
            Ok(std::mem::take(held))
        };
        Ok(batch.iter().map(rest).collect())
    }

    fn close(&mut self, seq: SeqId) {
        assert!(self.0.remove(&seq).is_some());
    }
}

#[test]
fn a_model_that_looks_ahead_gets_more_for_its_first_chunk_and_gives_the_rest_at_the_end() {
    let options = StreamOptions {
        look_ahead: 2,
        ..HEARD
    };
    let events = |ends_with_items: bool| {
        let mut engine = ChunkEngine::new(Behind::default(), ChunkConfig::new(ITEM));
        engine.add(SeqId(1), (), options, at(0)).unwrap();
        engine.push(SeqId(1), 0..9, ends_with_items);
        let mut events = engine.step(at(0)).events;
        if !ends_with_items {
            events.extend(engine.step(at(0)).events);
            engine.push(SeqId(1), [], true);
        }
        while !engine.is_empty() {
            events.extend(engine.step(at(0)).events);
        }
        events
    };
    let given = |ends_with_items| {
        let mut events = events(ends_with_items);
        let end = events.pop().into_iter().collect::<Vec<_>>();
        assert_eq!(ends(&end), [(1, FinishReason::Stop)]);
        events
    };
    // One item to hear and two behind it.
    assert_eq!(given(true), [chunk(1, 0..1, 3), chunk(1, 1..9, 6)]);
    assert_eq!(
        given(false),
        [chunk(1, 0..1, 3), chunk(1, 1..7, 6), chunk(1, 7..9, 0)]
    );
}
