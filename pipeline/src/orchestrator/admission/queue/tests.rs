use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use proptest::prelude::*;

use super::*;

fn tenant(n: u8) -> Tenant {
    Tenant::at(IpAddr::V4(Ipv4Addr::new(10, 0, 0, n)))
}

#[test]
fn the_next_place_goes_to_the_party_with_the_fewest_running() {
    let greedy = tenant(1);
    let modest = tenant(2);
    let mut queue = Queue::new(2, 200);
    assert!(queue.take(greedy) && queue.take(greedy) && !queue.take(greedy));
    for n in 0..100 {
        queue.wait(greedy, n).unwrap();
    }
    assert_eq!((queue.ahead(modest), queue.ahead(greedy)), (0, 100));
    queue.wait(modest, 1_000).unwrap();
    assert_eq!(queue.release(greedy), Some((modest, 1_000)));
    assert_eq!(queue.release(greedy), Some((greedy, 0)));
    assert_eq!(queue.release(modest), Some((greedy, 1)));
    assert_eq!(queue.waiting(), 98);
}

#[test]
fn equals_are_served_as_they_came() {
    let mut queue = Queue::new(1, 9);
    assert!(queue.take(tenant(9)));
    for (n, waiter) in [(2, "a"), (1, "b"), (2, "c")] {
        queue.wait(tenant(n), waiter).unwrap();
    }
    assert_eq!(queue.release(tenant(9)).unwrap().1, "a");
    assert_eq!(queue.release(tenant(2)).unwrap().1, "b");
    assert_eq!(queue.release(tenant(1)).unwrap().1, "c");
    assert!(queue.release(tenant(2)).is_none());
    assert_eq!((queue.free(), queue.tenants.len()), (1, 0));
}

#[test]
fn a_full_queue_makes_room_for_who_waits_less_and_for_nobody_else() {
    let greedy = tenant(1);
    let modest = tenant(2);
    let mut queue = Queue::new(1, 3);
    assert!(queue.take(greedy));
    let tickets: Vec<_> = (0..3).map(|n| queue.wait(greedy, n).unwrap().ticket).collect();
    assert_eq!(queue.wait(greedy, 3).unwrap_err(), 3);
    assert_eq!(queue.wait(modest, 10).unwrap().displaced, Some(2));
    assert_eq!(queue.wait(modest, 11).unwrap_err(), 11, "both would wait as much");
    assert_eq!(queue.leave(greedy, tickets[2]), None, "it has been sent away");
    assert_eq!(queue.leave(greedy, tickets[0]), Some(0));
    assert_eq!(queue.release(greedy), Some((greedy, 1)));
    assert_eq!(queue.release(greedy), Some((modest, 10)));
}

#[test]
fn parties_take_turns_at_a_single_place() {
    let mut queue = Queue::new(1, 100);
    assert!(queue.take(tenant(1)));
    for n in 0..20 {
        queue.wait(tenant(1), n).unwrap();
    }
    for n in 100..103 {
        queue.wait(tenant(2), n).unwrap();
    }
    let mut last = tenant(1);
    let served = (0..6).map(|_| {
        let (whose, n) = queue.release(last).unwrap();
        last = whose;
        n
    });
    assert_eq!(served.collect::<Vec<_>>(), [0, 100, 1, 101, 2, 102]);
}

#[derive(Debug, Clone)]
enum Step {
    Come(u8),
    /// Some one of those that run is done.
    Done(usize),
    /// Some one of those that wait has had enough.
    Leave(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0_u8..5).prop_map(Step::Come),
        3 => any::<usize>().prop_map(Step::Done),
        1 => any::<usize>().prop_map(Step::Leave),
    ]
}

/// Reference model of the rules: running requests, and waiting ones in the order of arrival.
#[derive(Default)]
struct Model {
    running: Vec<u8>,
    waiting: BTreeMap<u64, (u8, Ticket)>,
    /// Last turn of each tenant.
    turns: BTreeMap<u8, u64>,
}

impl Model {
    fn runs(&self, tenant: u8) -> usize {
        self.running.iter().filter(|other| **other == tenant).count()
    }

    /// The tenant whose turn it is.
    fn next(&self) -> Option<u64> {
        let turn = |tenant: &u8| self.turns.get(tenant).copied().unwrap_or(0);
        let rank = |(n, (tenant, _)): (&u64, &(u8, Ticket))| (self.runs(*tenant), turn(tenant).max(*n), *n);
        self.waiting.iter().map(rank).min().map(|(_, _, n)| n)
    }
}

proptest! {
    #[test]
    fn places_are_never_lost_and_go_to_who_has_fewest(
        places in 1_usize..5,
        room in 0_usize..12,
        steps in proptest::collection::vec(step(), 1..300),
    ) {
        let mut queue = Queue::new(places, room);
        let mut model = Model::default();
        for (n, step) in (0..).zip(steps) {
            match step {
                Step::Come(who) if queue.take(tenant(who)) => {
                    prop_assert!(model.waiting.is_empty(), "nobody is overtaken");
                    model.running.push(who);
                }
                Step::Come(who) => match queue.wait(tenant(who), n) {
                    Ok(queued) => {
                        if let Some(displaced) = queued.displaced {
                            prop_assert_eq!(model.waiting.len(), room);
                            model.waiting.remove(&displaced);
                        }
                        model.waiting.insert(n, (who, queued.ticket));
                    }
                    Err(_) => prop_assert_eq!(model.waiting.len(), room),
                },
                Step::Done(_) if model.running.is_empty() => {}
                Step::Done(which) => {
                    let who = model.running.swap_remove(which % model.running.len());
                    let expected = model.next();
                    let next = queue.release(tenant(who));
                    prop_assert_eq!(next.map(|(_, n)| n), expected);
                    if let Some((whose, waiter)) = next {
                        let (who, _) = model.waiting.remove(&waiter).unwrap();
                        prop_assert_eq!(whose, tenant(who));
                        model.running.push(who);
                        model.turns.insert(who, n);
                    }
                }
                Step::Leave(_) if model.waiting.is_empty() => {}
                Step::Leave(which) => {
                    let n = *model.waiting.keys().nth(which % model.waiting.len()).unwrap();
                    let (who, ticket) = model.waiting.remove(&n).unwrap();
                    prop_assert_eq!(queue.leave(tenant(who), ticket), Some(n));
                }
            }
            // A tenant without any requests is forgotten.
            let waiting: Vec<_> = model.waiting.values().map(|(tenant, _)| *tenant).collect();
            let running = model.running.clone();
            model.turns.retain(|tenant, _| waiting.contains(tenant) || running.contains(tenant));
            prop_assert_eq!(queue.waiting(), model.waiting.len());
            prop_assert!(queue.waiting() <= room);
            prop_assert_eq!(queue.free() + model.running.len(), places);
            prop_assert!(queue.free() == 0 || queue.waiting() == 0, "a free place stays with nobody");
        }
    }

    /// A tenant with one request is next as soon as running work is shared, however many requests of another wait.
    #[test]
    fn nobody_starves(places in 1_usize..6, crowd in 1_usize..200) {
        let greedy = tenant(1);
        let modest = tenant(2);
        let mut queue = Queue::new(places, crowd);
        for _ in 0..places {
            prop_assert!(queue.take(greedy));
        }
        for n in 0..crowd {
            prop_assert!(queue.wait(greedy, n).is_ok());
        }
        let came = queue.wait(modest, crowd);
        prop_assert_eq!(came.is_ok(), crowd > 1);
        if came.is_ok() {
            // With one place, which a tenant returns before it is given on, the first to come is its equal.
            let most = if places == 1 { 2 } else { 1 };
            let mut served = Vec::new();
            for _ in 0..most {
                let whose = served.last().map_or(greedy, |(tenant, _): &(Tenant, usize)| *tenant);
                served.extend(queue.release(whose));
            }
            prop_assert!(served.iter().any(|(tenant, _)| *tenant == modest), "{:?}", served);
        }
    }
}
