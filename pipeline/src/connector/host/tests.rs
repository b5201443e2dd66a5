//! Ends of sequences that a stage did not take, and how long items wait for others.

use super::*;

#[test]
fn what_a_stage_that_has_ended_does_not_take_may_be_done_elsewhere() {
    let full = JobRefused::Full {
        stage: "talker",
        limit: 4,
    };
    assert!(matches!(end_of(&full), End::Overloaded(_)));
    let lost = end_of(&JobRefused::Ended { stage: "talker" });
    assert!(matches!(lost, End::Lost { stage: "talker", .. }), "{lost:?}");
}

#[test]
fn items_wait_for_a_moment_however_many_go_before_them() {
    let mut hold = Hold::default();
    let at = |ms: u64| Stamp(Duration::from_millis(1_000 + ms));
    assert!(hold.left(at(0)).is_zero(), "nothing was sent before");
    hold.sent(at(0), false);
    // Every millisecond an item of a sequence that has just begun goes out, while those of others wait.
    for ms in 1..5 {
        assert_eq!(hold.left(at(ms)), MOMENT - Duration::from_millis(ms));
        hold.sent(at(ms), true);
    }
    assert!(hold.left(at(5)).is_zero());
    hold.sent(at(5), false);
    assert_eq!(hold.left(at(5)), MOMENT);
}
