//! Ends of sequences that a stage did not take.

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
