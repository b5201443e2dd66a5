//! Registry of open sessions, as operators see them, with the means to end one of them.
//!
//! A session writes its state into its entry: atomics only, for audio passes there. The list itself is locked only
//! when a session begins or ends, and when an operator lists it. It is bounded by the places for calls.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use omni_core::caller::{Caller, OverQuota};
use omni_core::id::SessionId;
use omni_engine::Stamp;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::error::SessionCancelled;

/// Open sessions. Clones share the list.
#[derive(Debug, Clone, Default)]
pub struct Registry(Arc<Mutex<HashMap<SessionId, Arc<Entry>>>>);

/// Entry of an open session.
#[derive(Debug)]
struct Entry {
    id: SessionId,
    method: &'static str,
    principal: Option<String>,
    peer: Option<IpAddr>,
    began: Stamp,
    requests: AtomicU32,
    active: AtomicBool,
    /// Playing time of the audio that was sent, in nanoseconds.
    sent: AtomicU64,
    /// Time at which a listener has played all of it, in nanoseconds of the clock; 0 before the first.
    dry: AtomicU64,
    cancelled: CancellationToken,
    why: OnceLock<String>,
}

/// Entry of a session in the list. Dropping it removes the entry.
#[derive(Debug)]
pub struct RegistryGuard {
    registry: Registry,
    handle: SessionHandle,
}

/// A session's caller, and its entry in the registry. Clones share it.
#[derive(Clone, derive_more::Debug)]
#[debug("SessionHandle {{ id: {:?}, caller: {:?}, .. }}", self.entry.id, self.caller)]
pub struct SessionHandle {
    caller: Caller,
    entry: Arc<Entry>,
}

/// An open session at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionView {
    /// Its name.
    pub id: SessionId,
    /// The method that was called.
    pub method: &'static str,
    /// Name of the API key, if the caller has one.
    pub principal: Option<String>,
    /// The address that the caller calls from, if that is known.
    pub peer: Option<IpAddr>,
    /// Time since it was opened.
    pub age: Duration,
    /// Something is being spoken or answered, or waits for that.
    pub active: bool,
    /// Utterances and answers that were begun.
    pub requests: u32,
    /// Playing time of the audio that was sent.
    pub audio: Duration,
    /// Lead over the listener in seconds; below zero: for how long the listener has had nothing to play. None while
    /// nothing is being spoken, or before the first audio is sent.
    pub lead: Option<f64>,
}

impl Registry {
    /// Adds a session that begins at `now`.
    pub fn open(&self, method: &'static str, caller: Caller, now: Stamp) -> RegistryGuard {
        let handle = SessionHandle::new(method, caller, now);
        let entry = Arc::clone(&handle.entry);
        self.0.lock().insert(entry.id, entry);
        RegistryGuard {
            registry: self.clone(),
            handle,
        }
    }

    /// Number of open sessions.
    pub fn len(&self) -> usize {
        self.0.lock().len()
    }

    /// Returns true if none is open.
    pub fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }

    /// Sessions that are open at `now`, the oldest first.
    pub fn views(&self, now: Stamp) -> Vec<SessionView> {
        let entries: Vec<_> = self.0.lock().values().cloned().collect();
        let mut views: Vec<_> = entries.iter().map(|entry| entry.view(now)).collect();
        views.sort_by_key(|view| std::cmp::Reverse(view.age));
        views
    }

    /// Ends the session of that id, with a reason for its caller. Returns false if there is none.
    pub fn cancel(&self, id: &str, why: &str) -> bool {
        let entry = self
            .0
            .lock()
            .values()
            .find(|entry| entry.id.to_string() == id)
            .cloned();
        if let Some(entry) = &entry {
            // The first reason counts.
            let _ = entry.why.set(why.to_owned());
            entry.cancelled.cancel();
        }
        entry.is_some()
    }
}

impl RegistryGuard {
    /// Handle for the session itself.
    pub fn handle(&self) -> SessionHandle {
        self.handle.clone()
    }
}

impl Drop for RegistryGuard {
    fn drop(&mut self) {
        self.registry.0.lock().remove(&self.handle.entry.id);
    }
}

impl SessionHandle {
    /// Creates a handle outside of any registry.
    pub fn new(method: &'static str, caller: Caller, now: Stamp) -> Self {
        let entry = Entry {
            id: SessionId::random(),
            method,
            principal: caller.name().map(str::to_owned),
            peer: caller.address().map(|address| address.ip()),
            began: now,
            requests: AtomicU32::new(0),
            active: AtomicBool::new(false),
            sent: AtomicU64::new(0),
            dry: AtomicU64::new(0),
            cancelled: CancellationToken::new(),
            why: OnceLock::new(),
        };
        Self {
            caller,
            entry: Arc::new(entry),
        }
    }

    /// The name of the session.
    pub fn id(&self) -> SessionId {
        self.entry.id
    }

    /// The caller that the session serves.
    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    /// Charges an utterance or an answer of `characters` characters to the caller's quotas.
    ///
    /// # Errors
    /// If they have no room for it.
    pub(super) fn begin(&self, characters: usize, now: Stamp) -> Result<(), OverQuota> {
        self.entry.requests.fetch_add(1, Ordering::Relaxed);
        self.caller.begin(characters, now)
    }

    /// Sets if something is being spoken or answered.
    pub(super) fn set_active(&self, active: bool, now: Stamp) {
        let entry = &self.entry;
        if entry.active.swap(active, Ordering::Relaxed) != active && active {
            // Earlier audio says nothing about the request that begins.
            let over = |dry| (dry <= nanos(now.0)).then_some(0);
            let _ = entry.dry.fetch_update(Ordering::Relaxed, Ordering::Relaxed, over);
        }
    }

    /// Records that audio of this playing time was sent.
    pub(super) fn sent(&self, audio: Duration, now: Stamp) {
        self.caller.heard(audio, now);
        let entry = &self.entry;
        let time = nanos(audio);
        entry.sent.fetch_add(time, Ordering::Relaxed);
        let dry = entry.dry.load(Ordering::Relaxed).max(nanos(now.0));
        // Only the session writes it.
        entry.dry.store(dry.saturating_add(time), Ordering::Relaxed);
    }

    /// Waits until an operator ends the session.
    pub(super) async fn cancelled(&self) -> SessionCancelled {
        self.entry.cancelled.cancelled().await;
        let why = self.entry.why.get().cloned();
        SessionCancelled(why.unwrap_or_default())
    }
}

impl Entry {
    fn view(&self, now: Stamp) -> SessionView {
        let active = self.active.load(Ordering::Relaxed);
        let dry = Some(self.dry.load(Ordering::Relaxed)).filter(|dry| active && *dry > 0);
        SessionView {
            id: self.id,
            method: self.method,
            principal: self.principal.clone(),
            peer: self.peer,
            age: now.since(self.began),
            active,
            requests: self.requests.load(Ordering::Relaxed),
            audio: Duration::from_nanos(self.sent.load(Ordering::Relaxed)),
            lead: dry.map(|dry| Duration::from_nanos(dry).as_secs_f64() - now.0.as_secs_f64()),
        }
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    fn at(ms: u64) -> Stamp {
        Stamp(Duration::from_secs(100) + Duration::from_millis(ms))
    }

    fn lead(registry: &Registry, ms: u64) -> Option<f64> {
        let lead = registry.views(at(ms))[0].lead;
        lead.map(|lead| (lead * 1e3).round() / 1e3)
    }

    #[test]
    fn a_session_is_in_the_list_as_long_as_it_lives() {
        let registry = Registry::default();
        let first = registry.open("Speak", Caller::default(), at(0));
        let _second = registry.open("Converse", Caller::default(), at(5));
        let methods: Vec<_> = registry.views(at(9)).iter().map(|view| view.method).collect();
        assert_eq!(methods, ["Speak", "Converse"]);
        let id = first.handle().id().to_string();
        let handle = first.handle();
        drop(first);
        assert_eq!(registry.len(), 1);
        assert!(!registry.cancel(&id, "too late"));
        assert!(handle.cancelled().now_or_never().is_none());
    }

    #[test]
    fn who_is_cancelled_is_told_why() {
        let registry = Registry::default();
        let session = registry.open("Speak", Caller::default(), at(0));
        assert!(registry.cancel(&session.handle().id().to_string(), "maintenance"));
        let told = session.handle().cancelled().now_or_never();
        assert_eq!(told, Some(SessionCancelled("maintenance".to_owned())));
    }

    #[test]
    fn the_lead_is_what_is_left_to_play_and_counts_below_zero() {
        let registry = Registry::default();
        let session = registry.open("Speak", Caller::default(), at(0));
        let handle = session.handle();
        handle.set_active(true, at(0));
        assert_eq!(lead(&registry, 50), None, "nothing was sent yet");
        handle.sent(Duration::from_millis(100), at(100));
        handle.sent(Duration::from_millis(200), at(150));
        assert_eq!(lead(&registry, 200), Some(0.2));
        assert_eq!(lead(&registry, 450), Some(-0.05));
        // Playback resumes when there is something to play.
        handle.sent(Duration::from_millis(100), at(500));
        assert_eq!(lead(&registry, 500), Some(0.1));
        handle.set_active(false, at(550));
        assert_eq!(lead(&registry, 560), None);
        handle.set_active(true, at(900));
        assert_eq!(
            lead(&registry, 950),
            None,
            "the next utterance is measured by itself"
        );
        assert_eq!(registry.views(at(950))[0].audio, Duration::from_millis(400));
    }
}
