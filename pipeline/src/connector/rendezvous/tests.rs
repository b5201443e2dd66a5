use omni_engine::CodecFrame;

use super::*;
use crate::item::Item;
use crate::stage::{EdgeReceiver as _, EdgeSender as _, Recv};

const TOKEN: LinkToken = LinkToken(7);

fn rendezvous() -> Rendezvous {
    Rendezvous::new(Notifier::default(), Clock::start())
}

fn frame() -> Item {
    CodecFrame(Box::new([1])).into()
}

fn attached(rendezvous: &Rendezvous) -> Option<EdgeWriter> {
    rendezvous.attach(TOKEN, Notifier::default())
}

#[test]
fn items_and_their_sequence_find_each_other_whichever_comes_first() {
    for items_first in [true, false] {
        let rendezvous = rendezvous();
        let (mut writer, mut items, _expected) = if items_first {
            let mut writer = attached(&rendezvous).unwrap();
            writer.put(frame(), 1).unwrap();
            let (items, expected) = rendezvous.expect(TOKEN).unwrap();
            (writer, items, expected)
        } else {
            let (items, expected) = rendezvous.expect(TOKEN).unwrap();
            let mut writer = attached(&rendezvous).unwrap();
            writer.put(frame(), 1).unwrap();
            (writer, items, expected)
        };
        writer.put(frame(), 1).unwrap();
        for _ in 0..2 {
            assert!(
                matches!(items.take(), Recv::Item(_)),
                "items first: {items_first}"
            );
        }
        assert!(rendezvous.0.waiting.lock().sides.is_empty());
        assert_eq!(rendezvous.0.waiting.lock().early, 0);
    }
}

#[test]
fn whichever_side_comes_twice_is_refused_and_the_first_goes_on() {
    let rendezvous = rendezvous();
    let (mut items, _expected) = rendezvous.expect(TOKEN).unwrap();
    assert!(rendezvous.expect(TOKEN).is_none());
    let mut writer = attached(&rendezvous).unwrap();
    writer.put(frame(), 1).unwrap();
    assert!(matches!(items.take(), Recv::Item(_)));
    let early = Rendezvous::attach(&rendezvous, LinkToken(8), Notifier::default());
    let again = rendezvous.attach(LinkToken(8), Notifier::default());
    assert!(early.is_some() && again.is_none());
}

#[test]
fn a_server_takes_back_what_no_stage_has_attached_and_nothing_else() {
    let rendezvous = rendezvous();
    let (mut items, expected) = rendezvous.expect(TOKEN).unwrap();
    let mut writer = expected.take_back(Notifier::default()).unwrap();
    writer.put(frame(), 1).unwrap();
    assert!(matches!(items.take(), Recv::Item(_)));
    assert!(
        expected.take_back(Notifier::default()).is_none(),
        "it is there once"
    );

    let (_items, expected) = rendezvous.expect(LinkToken(8)).unwrap();
    let writer = rendezvous.attach(LinkToken(8), Notifier::default());
    assert!(writer.is_some() && expected.take_back(Notifier::default()).is_none());
}

#[test]
fn a_sequence_that_is_given_up_is_not_waited_for() {
    let rendezvous = rendezvous();
    let (items, expected) = rendezvous.expect(TOKEN).unwrap();
    drop((items, expected));
    assert!(rendezvous.0.waiting.lock().sides.is_empty());
}

#[test]
fn items_whose_sequence_is_not_opened_in_time_are_given_up_and_their_link_is_told() {
    let rendezvous = rendezvous();
    let wake = Notifier::default();
    let writer = rendezvous.attach(TOKEN, wake.clone()).unwrap();
    let now = rendezvous.0.clock.now();
    rendezvous.give_up_late(now);
    assert!(!writer.is_abandoned());
    rendezvous.give_up_late(now + EARLY);
    assert!(writer.is_abandoned() && wake.is_rung());
    assert!(
        rendezvous.expect(TOKEN).is_some(),
        "it would wait for other items"
    );
}

#[test]
fn no_more_items_without_a_sequence_are_kept_than_fit() {
    let rendezvous = rendezvous();
    let attach = |token| rendezvous.attach(LinkToken(token), Notifier::default());
    let kept: Vec<_> = (0..MOST_EARLY as u128).map(attach).collect();
    assert!(kept.iter().all(Option::is_some));
    let over = MOST_EARLY as u128;
    assert!(attach(over).is_none());
    let _opened = rendezvous.expect(LinkToken(0)).unwrap();
    assert!(attach(over).is_some(), "there is room again");
}

#[test]
fn items_that_are_given_up_before_their_sequence_is_opened_leave_their_place() {
    let rendezvous = rendezvous();
    for _ in 0..2 {
        for token in 0..MOST_EARLY as u128 {
            assert!(rendezvous.attach(LinkToken(token), Notifier::default()).is_some());
        }
        assert!(attached_beyond(&rendezvous).is_none(), "there are too many");
        for token in 0..MOST_EARLY as u128 {
            rendezvous.forget(LinkToken(token));
        }
    }
    // A sequence that was opened is its server's.
    let (_items, expected) = rendezvous.expect(TOKEN).unwrap();
    rendezvous.forget(TOKEN);
    assert!(expected.take_back(Notifier::default()).is_some());
}

/// One more than there may be.
fn attached_beyond(rendezvous: &Rendezvous) -> Option<EdgeWriter> {
    rendezvous.attach(LinkToken(u128::MAX), Notifier::default())
}
