use omni_engine::SeqId;

use super::super::meter::{Hop, Place};
use super::*;

#[test]
fn room_is_counted_in_units_and_comes_back_when_items_are_taken() {
    let (mut writer, mut reader) = edge::<&str>(4, None, None);
    writer.put("a", 3).unwrap();
    assert_eq!(writer.room(), 1);
    writer.put("b", 3).unwrap();
    assert!(!writer.has_room());
    assert_eq!(writer.put("c", 1), Err(EdgeFull("c")), "an item comes back");
    assert_eq!(reader.take(), Recv::Item("a"));
    assert!(writer.has_room());
    assert_eq!(reader.take(), Recv::Item("b"));
    assert_eq!(reader.take(), Recv::Empty);
}

#[test]
fn items_are_hints_to_a_reader_that_gathers_them_and_their_end_wakes_it() {
    let wake = Notifier::default();
    let (mut writer, mut reader) = edge::<&str>(4, None, Some(wake.clone()));
    EdgeReceiver::gather(&mut reader);
    wake.will_look(true);
    writer.put("a", 1).unwrap();
    assert!(!wake.is_rung());
    assert!(wake.will_look(false), "it is known to have come");
    writer.put("b", 1).unwrap();
    assert!(wake.is_rung(), "the reader does not look by itself");
    wake.sleep(None);
    wake.will_look(true);
    Box::new(writer).end(End::Stop);
    assert!(wake.is_rung());
    let taken = [reader.take(), reader.take(), reader.take()];
    assert_eq!(taken, [Recv::Item("a"), Recv::Item("b"), Recv::End(End::Stop)]);
}

#[derive(Debug, Clone, Default)]
struct Seen(Arc<std::sync::Mutex<(Vec<TransferStamps>, Vec<EdgeRecord>)>>);

impl super::super::meter::EdgeSink for Seen {
    fn chunk(&self, _hop: &Hop, chunk: &TransferStamps) {
        self.0.lock().unwrap().0.push(*chunk);
    }

    fn closed(&self, record: &EdgeRecord) {
        self.0.lock().unwrap().1.push(record.clone());
    }
}

#[test]
fn every_chunk_is_measured_and_the_edge_summed_up_when_it_closes() {
    let seen = Seen::default();
    let place = |stage| Place { stage, replica: None };
    let hop = Hop {
        seq: SeqId(7),
        from: place("a"),
        to: place("b"),
    };
    let meter = EdgeMeter {
        hop,
        trace: None,
        clock: Clock::start(),
        sink: Arc::new(seen.clone()),
    };
    let (mut writer, mut reader) = metered_edge(8, None, None, meter);
    writer.put(Item::Text(vec![1, 2, 3]), 1).unwrap();
    writer.put(Item::Text(vec![4]), 1).unwrap();
    assert_eq!(reader.take(), Recv::Item(Item::Text(vec![1, 2, 3])));
    assert_eq!(reader.take(), Recv::Item(Item::Text(vec![4])));
    assert_eq!(reader.take(), Recv::Empty);
    drop(reader);
    let (chunks, closed) = seen.0.lock().unwrap().clone();
    assert_eq!(
        chunks.iter().map(|chunk| chunk.bytes).collect::<Vec<_>>(),
        [12, 4]
    );
    assert!(chunks.iter().all(|chunk| chunk.tx_end <= chunk.rx_start));
    let in_flight = chunks.iter().map(TransferStamps::in_flight).sum();
    assert_eq!(closed.len(), 1);
    assert_eq!(
        (
            closed[0].hop,
            closed[0].chunks,
            closed[0].bytes,
            closed[0].in_flight
        ),
        (hop, 2, 16, in_flight)
    );
}

#[test]
fn an_edge_between_threads_takes_time_at_both_ends() {
    let seen = Seen::default();
    let place = |stage| Place { stage, replica: None };
    let hop = Hop {
        seq: SeqId(1),
        from: place("a"),
        to: place("b"),
    };
    let meter = EdgeMeter {
        hop,
        trace: None,
        clock: Clock::start(),
        sink: Arc::new(seen.clone()),
    };
    let (mut writer, mut reader) = metered_edge(1000, None, None, meter);
    for _ in 0..1000 {
        writer.put(Item::Text(vec![1]), 1).unwrap();
        assert_eq!(reader.take(), Recv::Item(Item::Text(vec![1])));
    }
    drop(reader);
    let (chunks, closed) = seen.0.lock().unwrap().clone();
    assert!(
        closed[0].tx > Duration::ZERO && closed[0].rx > Duration::ZERO,
        "{closed:?}"
    );
    for chunk in chunks {
        assert!(
            chunk.tx_start <= chunk.tx_end
                && chunk.tx_end <= chunk.rx_start
                && chunk.rx_start <= chunk.rx_end
        );
    }
}

#[test]
fn a_writer_without_room_is_held_until_half_of_it_is_free() {
    let hop = Hop {
        seq: SeqId(1),
        from: Place {
            stage: "a",
            replica: None,
        },
        to: Place {
            stage: "b",
            replica: None,
        },
    };
    let clock = Clock::start();
    let meter = EdgeMeter {
        hop,
        trace: None,
        clock,
        sink: Arc::new(Seen::default()),
    };
    let (mut writer, mut reader) = metered_edge(2, None, None, meter);
    writer.put(Item::Text(vec![1]), 1).unwrap();
    assert_eq!(reader.held(clock.now()), Duration::ZERO);
    writer.put(Item::Text(vec![2]), 1).unwrap();
    let later = omni_engine::Stamp(clock.now().0 + Duration::from_secs(5));
    assert!(reader.held(later) >= Duration::from_secs(5));
    assert_eq!(reader.take(), Recv::Item(Item::Text(vec![1])));
    let held = reader.held(clock.now());
    assert!(held < Duration::from_secs(5));
    // The lead stays constant.
    assert_eq!(reader.held(later), held);
}

#[test]
fn a_writer_that_waits_for_a_caller_says_so() {
    let (mut writer, reader) = edge::<u8>(1, None, None);
    assert!(!reader.is_upstream_idle());
    writer.set_idle(true);
    assert!(reader.is_upstream_idle());
    writer.set_idle(false);
    assert!(!reader.is_upstream_idle());
}

#[test]
fn a_full_edge_still_takes_the_end() {
    let (mut writer, mut reader) = edge::<u8>(2, None, None);
    writer.put(1, 1).unwrap();
    writer.put(2, 1).unwrap();
    Box::new(writer).end(End::Length);
    assert_eq!(reader.take(), Recv::Item(1));
    assert_eq!(reader.take(), Recv::Item(2));
    assert_eq!(reader.take(), Recv::End(End::Length));
    assert_eq!(reader.take(), Recv::Gone);
}

#[test]
fn a_writer_that_goes_without_an_end_is_noticed() {
    let (writer, mut reader) = edge::<u8>(2, None, None);
    drop(writer);
    assert_eq!(reader.take(), Recv::Gone);
}

#[test]
fn putting_into_an_abandoned_edge_is_harmless() {
    let (mut writer, reader) = edge::<u8>(1, None, None);
    assert!(!writer.is_abandoned());
    drop(reader);
    assert!(writer.is_abandoned());
    writer.put(1, 1).unwrap();
    Box::new(writer).end(End::Stop);
}
