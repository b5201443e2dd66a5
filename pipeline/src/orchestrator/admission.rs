//! Admission: a bounded number of utterances, and a bounded queue in front of them that tenants share fairly.
//!
//! No request waits longer than the limit. Once the pace of the places is known, a request that would wait longer is
//! refused at once, with a time to try again.
//!
//! The limit depends on the queue. A burst may wait, because the queue will be empty again. A queue that has not been
//! empty for a while is overloaded: every wait in it grows to the longest allowed, and all answers are late. So while
//! it stands, only short waits are accepted. (After B. Maurer, "Fail at scale", ACM Queue 13(8), 2015, and CoDel.)

mod pace;
mod queue;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use omni_engine::Stamp;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use self::pace::Pace;
use self::queue::{Queue, Ticket};
use crate::clock::Clock;
use crate::tenant::Tenant;

/// A queue that has not been empty for this long counts as standing.
const STANDING: Duration = Duration::from_millis(500);
/// Time for which a queue counts as standing after it refused a request, even if it is empty for moments: under
/// overload it is, because places become free together, and each such moment would count as the begin of another
/// burst.
const OVERLOADED: Duration = Duration::from_secs(10);

/// Bounds of an [`Admission`].
#[derive(Debug, Clone, Copy)]
pub struct AdmissionLimits {
    /// Utterances that may work at once.
    pub max_active: usize,
    /// Utterances that may wait.
    pub max_waiting: usize,
    /// Longest wait.
    pub max_wait: Duration,
    /// Longest expected wait of a request that is queued while the queue stands.
    pub overload_wait: Duration,
}

/// Reason why an utterance was refused a permit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AdmissionError {
    /// The queue is full, or the wait in it was or would be too long.
    #[error("the server is overloaded: {problem}")]
    QueueFull {
        /// The shortage.
        problem: String,
        /// Time after which trying again makes sense.
        retry: Duration,
    },
    /// The server stopped.
    #[error("the server stopped")]
    Stopped,
}

/// Issues permits. Clones share the limits.
#[derive(Debug, Clone)]
pub struct Admission(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    limits: AdmissionLimits,
    clock: Clock,
    state: Mutex<State>,
    refused: AtomicUsize,
}

#[derive(Debug)]
struct State {
    queue: Queue<oneshot::Sender<Answer>>,
    pace: Pace,
    /// Start of the time in which requests wait.
    waited_since: Option<Stamp>,
    /// Time at which a request was last refused because the queue does not move.
    turned_away: Option<Stamp>,
}

impl State {
    /// Updates the state after a change of the queue.
    fn changed(&mut self, now: Stamp) {
        self.waited_since = match self.queue.waiting() {
            0 => None,
            _ => self.waited_since.or(Some(now)),
        };
    }

    /// Longest expected wait of a request that is queued now.
    fn longest(&self, limits: &AdmissionLimits, now: Stamp) -> Duration {
        let lasts = |since: Option<Stamp>, time: Duration| since.map(|since| now.since(since) >= time);
        let stands = lasts(self.waited_since, STANDING) == Some(true);
        if stands || lasts(self.turned_away, OVERLOADED) == Some(false) {
            limits.max_wait.min(limits.overload_wait)
        } else {
            limits.max_wait
        }
    }
}

/// Outcome for a waiting request.
type Answer = Result<UtterancePermit, AdmissionError>;

/// Permit for one utterance, returned when dropped.
#[derive(Debug)]
pub struct UtterancePermit {
    shared: Arc<Shared>,
    tenant: Tenant,
}

impl Drop for UtterancePermit {
    fn drop(&mut self) {
        self.shared.release(self.tenant);
    }
}

/// A queued request; dropping it leaves the queue.
struct Waiting {
    shared: Arc<Shared>,
    tenant: Tenant,
    ticket: Ticket,
    answer: oneshot::Receiver<Answer>,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let now = self.shared.clock.now();
        let mut state = self.shared.state.lock();
        let left = state.queue.leave(self.tenant, self.ticket);
        state.changed(now);
        drop(state);
        drop(left);
    }
}

/// Result of an admission attempt.
enum Asked {
    Admitted(UtterancePermit),
    Waits(Waiting),
}

impl Admission {
    /// Creates an admission with these bounds.
    pub fn new(limits: AdmissionLimits) -> Self {
        Self(Arc::new(Shared {
            limits,
            clock: Clock::start(),
            state: Mutex::new(State {
                queue: Queue::new(limits.max_active, limits.max_waiting),
                pace: Pace::new(limits.max_active),
                waited_since: None,
                turned_away: None,
            }),
            refused: AtomicUsize::new(0),
        }))
    }

    /// Waits for a permit for `tenant`.
    ///
    /// # Errors
    /// [`AdmissionError::QueueFull`]: at once if too many wait already or the wait would be too long, later if it gets
    /// too long.
    pub fn admit(&self, tenant: Tenant) -> impl Future<Output = Answer> + Send + use<> {
        let shared = Arc::clone(&self.0);
        async move {
            let mut waiting = match shared.ask(tenant)? {
                Asked::Admitted(permit) => return Ok(permit),
                Asked::Waits(waiting) => waiting,
            };
            let longest = shared.limits.max_wait;
            match tokio::time::timeout(longest, &mut waiting.answer).await {
                Ok(answer) => answer.unwrap_or(Err(AdmissionError::Stopped)),
                Err(_elapsed) => Err(shared.too_late(tenant)),
            }
        }
    }

    /// Utterances that wait.
    pub fn waiting(&self) -> usize {
        self.0.state.lock().queue.waiting()
    }

    /// Number of utterances refused so far.
    pub fn refused(&self) -> usize {
        self.0.refused.load(Ordering::Acquire)
    }

    /// Number of free permits.
    pub fn free(&self) -> usize {
        self.0.state.lock().queue.free()
    }

    /// Limits with which it was made.
    pub fn limits(&self) -> AdmissionLimits {
        self.0.limits
    }

    /// Expected wait of a request now, from a tenant with no other requests; `None` if it is not known.
    pub fn expected_wait(&self) -> Option<Duration> {
        let state = self.0.state.lock();
        match state.queue.free() {
            0 => state
                .pace
                .wait(state.queue.ahead(Tenant::Unknown), self.0.clock.now()),
            _ => Some(Duration::ZERO),
        }
    }
}

impl Shared {
    fn ask(self: &Arc<Self>, tenant: Tenant) -> Result<Asked, AdmissionError> {
        let now = self.clock.now();
        let mut state = self.state.lock();
        if state.queue.take(tenant) {
            if state.queue.free() == 0 {
                state.pace.full(now);
            }
            drop(state);
            return Ok(Asked::Admitted(self.permit(tenant)));
        }
        let ahead = state.queue.ahead(tenant);
        let longest = state.longest(&self.limits, now);
        // A refused request is told when to try again; the lock is released before that is computed.
        let refuse = |problem: String| {
            let retry = self.state.lock().pace.retry(ahead, longest, now);
            self.refuse(problem, retry)
        };
        let stands = longest < self.limits.max_wait;
        let wait = if stands {
            state.pace.rough_wait(ahead, now)
        } else {
            state.pace.wait(ahead, now)
        };
        if let Some(wait) = wait.filter(|wait| *wait > longest) {
            // An empty queue is a full server, and no overload.
            if stands && state.queue.waiting() > 0 {
                state.turned_away = Some(now);
            }
            drop(state);
            let problem = if stands {
                format!(
                    "a place is expected in {wait:.1?}, and while more is asked for than can be done no request waits longer than {longest:?}"
                )
            } else {
                format!("a place is expected in {wait:.1?}, the longest wait is {longest:?}")
            };
            return Err(refuse(problem));
        }
        let (told, answer) = oneshot::channel();
        let queued = state.queue.wait(tenant, told);
        state.changed(now);
        drop(state);
        let full = |whose| {
            let limit = self.limits.max_waiting;
            format!("{limit} utterances{whose} wait, which is the limit")
        };
        match queued {
            Err(_) => Err(refuse(full(""))),
            Ok(queued) => {
                if let Some(displaced) = queued.displaced {
                    let _ = displaced.send(Err(refuse(full(", many of them of this caller,"))));
                }
                Ok(Asked::Waits(Waiting {
                    shared: Arc::clone(self),
                    tenant,
                    ticket: queued.ticket,
                    answer,
                }))
            }
        }
    }

    fn permit(self: &Arc<Self>, tenant: Tenant) -> UtterancePermit {
        UtterancePermit {
            shared: Arc::clone(self),
            tenant,
        }
    }

    /// Gives a free place to the next request. A place that its receiver did not take comes here again.
    fn release(self: &Arc<Self>, tenant: Tenant) {
        let now = self.clock.now();
        let mut state = self.state.lock();
        let next = state.queue.release(tenant);
        state.pace.freed(now, next.is_some());
        state.changed(now);
        drop(state);
        if let Some((tenant, waiter)) = next {
            let _ = waiter.send(Ok(self.permit(tenant)));
        }
    }

    fn too_late(&self, tenant: Tenant) -> AdmissionError {
        let longest = self.limits.max_wait;
        let state = self.state.lock();
        let retry = state
            .pace
            .retry(state.queue.ahead(tenant), longest, self.clock.now());
        drop(state);
        self.refuse(format!("no place became free within {longest:?}"), retry)
    }

    fn refuse(&self, problem: String, retry: Duration) -> AdmissionError {
        self.refused.fetch_add(1, Ordering::AcqRel);
        AdmissionError::QueueFull { problem, retry }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;

    fn admission(max_active: usize, max_waiting: usize) -> Admission {
        Admission::new(AdmissionLimits {
            max_active,
            max_waiting,
            max_wait: Duration::from_secs(5),
            overload_wait: Duration::from_millis(500),
        })
    }

    fn tenant(n: u8) -> Tenant {
        Tenant::at(IpAddr::V4(Ipv4Addr::new(10, 0, 0, n)))
    }

    fn is_refusal(answer: &Answer) -> bool {
        matches!(answer, Err(AdmissionError::QueueFull { .. }))
    }

    #[tokio::test]
    async fn a_place_that_becomes_free_goes_to_the_one_that_waits() {
        let admission = admission(1, 1);
        let first = admission.admit(tenant(1)).await.unwrap();
        let second = tokio::spawn(admission.admit(tenant(1)));
        tokio::task::yield_now().await;
        drop(first);
        second.await.unwrap().unwrap();
        assert_eq!(admission.free(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_queue_refuses_at_once_and_a_long_wait_later() {
        let admission = admission(1, 1);
        let _held = admission.admit(tenant(1)).await.unwrap();
        let waits = tokio::spawn(admission.admit(tenant(1)));
        tokio::task::yield_now().await;
        assert!(is_refusal(&admission.admit(tenant(1)).await));
        assert!(is_refusal(&waits.await.unwrap()));
        assert_eq!((admission.refused(), admission.waiting()), (2, 0));
    }

    #[test]
    fn a_burst_may_wait_long_and_newcomers_to_a_queue_that_stands_only_shortly() {
        let at = |ms| Stamp(Duration::from_millis(ms));
        let limits = admission(1, 9).limits();
        let mut state = State {
            queue: Queue::new(0, 9),
            pace: Pace::new(1),
            waited_since: None,
            turned_away: None,
        };
        let wait = |state: &mut State, now| {
            let Ok(queued) = state.queue.wait(tenant(1), oneshot::channel().0) else {
                panic!("there is room")
            };
            state.changed(now);
            queued.ticket
        };
        assert_eq!(state.longest(&limits, at(0)), limits.max_wait);
        let first = wait(&mut state, at(100));
        let second = wait(&mut state, at(400));
        assert_eq!(state.longest(&limits, at(500)), limits.max_wait);
        assert_eq!(state.longest(&limits, at(600)), limits.overload_wait);
        drop(state.queue.leave(tenant(1), first));
        state.changed(at(700));
        assert_eq!(state.longest(&limits, at(700)), limits.overload_wait);
        // Empty for a moment, and none was refused: the next request is the first of another burst.
        drop(state.queue.leave(tenant(1), second));
        state.changed(at(800));
        let third = wait(&mut state, at(900));
        assert_eq!(state.longest(&limits, at(1_300)), limits.max_wait);
        // Under overload a moment with an empty queue is no end of it.
        state.turned_away = Some(at(1_500));
        drop(state.queue.leave(tenant(1), third));
        state.changed(at(1_600));
        assert_eq!(state.longest(&limits, at(1_700)), limits.overload_wait);
        wait(&mut state, at(1_800));
        assert_eq!(state.longest(&limits, at(1_900)), limits.overload_wait);
        assert_eq!(
            state.longest(&limits, at(11_500)),
            limits.overload_wait,
            "it stands"
        );
        let mut later = State {
            waited_since: None,
            ..state
        };
        later.changed(at(11_500));
        assert_eq!(later.longest(&limits, at(11_900)), limits.max_wait);
    }

    #[tokio::test]
    async fn a_waiter_that_leaves_makes_room_in_the_queue() {
        let admission = admission(1, 1);
        let _held = admission.admit(tenant(1)).await.unwrap();
        let waits = tokio::spawn(admission.admit(tenant(1)));
        tokio::task::yield_now().await;
        waits.abort();
        assert!(waits.await.unwrap_err().is_cancelled());
        let again = tokio::spawn(admission.admit(tenant(1)));
        tokio::task::yield_now().await;
        assert!(!again.is_finished(), "it waits instead of being refused");
    }

    #[tokio::test]
    async fn who_waits_most_makes_room_for_who_waits_less() {
        let admission = admission(1, 2);
        let held = admission.admit(tenant(1)).await.unwrap();
        let crowd: Vec<_> = (0..2).map(|_| tokio::spawn(admission.admit(tenant(1)))).collect();
        tokio::task::yield_now().await;
        let modest = tokio::spawn(admission.admit(tenant(2)));
        let mut crowd = crowd.into_iter();
        let first = crowd.next().unwrap();
        let last = crowd.next().unwrap();
        assert!(is_refusal(&last.await.unwrap()));
        drop(held);
        drop(first.await.unwrap().unwrap());
        modest.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn places_survive_whatever_waiters_do() {
        let admission = admission(3, 50);
        let callers = (0..40_u8).map(|n| {
            let (admission, mine) = (admission.clone(), tokio::spawn(admission.admit(tenant(n % 4))));
            async move {
                tokio::task::yield_now().await;
                match n % 3 {
                    // Has gone away, perhaps while it was given a place.
                    0 => mine.abort(),
                    _ => drop(mine.await.unwrap()),
                }
                admission.free() <= 3
            }
        });
        assert!(
            futures::future::join_all(callers)
                .await
                .into_iter()
                .all(|fits| fits)
        );
        tokio::task::yield_now().await;
        assert_eq!((admission.free(), admission.waiting()), (3, 0));
    }
}
