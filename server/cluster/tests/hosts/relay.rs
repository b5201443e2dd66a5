//! Network between the hosts of a test: packets go from one TUN device to another, delayed or dropped.
//!
//! A router without the kernel's queueing disciplines, which not every kernel has. The hosts' own TCP reacts to it.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::fs::File;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Longest packet.
const PACKET: usize = 65_536;
/// Packets that may be on their way; more are lost, as in every router.
const ON_THEIR_WAY: usize = 8_192;
/// Interval between checks for its end.
const LOOK: Duration = Duration::from_millis(20);

/// Treatment of packets.
#[derive(Debug, Default)]
struct Conditions {
    delay: Duration,
    /// Packets lost per million.
    lost: u64,
    cut: HashSet<(Ipv4Addr, Ipv4Addr)>,
}

#[derive(Debug, Default)]
struct Shared {
    conditions: Mutex<Conditions>,
    dropped: AtomicU64,
    ends: AtomicBool,
}

/// A network, and the thread that is it.
#[derive(Debug)]
pub(crate) struct Relay {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.shared.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking(), "the network panicked");
        }
    }
}

impl Relay {
    /// Between hosts with these addresses and devices, which do not block.
    pub(crate) fn new(devices: Vec<(Ipv4Addr, File)>) -> Self {
        let shared = Arc::new(Shared::default());
        let network = Arc::clone(&shared);
        let thread = std::thread::spawn(move || pass(&devices, &network));
        Self {
            shared,
            thread: Some(thread),
        }
    }

    /// Every packet takes that long.
    pub(crate) fn delay(&self, delay: Duration) {
        self.change(|conditions| conditions.delay = delay);
    }

    /// Sets the packets lost per million.
    pub(crate) fn lose(&self, lost: u64) {
        self.change(|conditions| conditions.lost = lost);
    }

    /// Drops all packets between two addresses, without errors.
    pub(crate) fn cut(&self, one: Ipv4Addr, other: Ipv4Addr) {
        self.change(|conditions| conditions.cut.extend([(one, other), (other, one)]));
    }

    /// Everything passes again.
    pub(crate) fn heal(&self) {
        self.change(|conditions| conditions.cut.clear());
    }

    /// Packets that were lost by chance.
    pub(crate) fn dropped(&self) -> u64 {
        self.shared.dropped.load(Ordering::Relaxed)
    }

    fn change(&self, how: impl FnOnce(&mut Conditions)) {
        how(&mut self.shared.conditions.lock().expect("no panic holds it"));
    }
}

/// Packet with its arrival time and destination. Those with the same arrival time stay in order.
type OnItsWay = Reverse<(Instant, u64, Ipv4Addr, Vec<u8>)>;

fn pass(devices: &[(Ipv4Addr, File)], shared: &Shared) {
    let to: HashMap<Ipv4Addr, &File> = devices
        .iter()
        .map(|(address, device)| (*address, device))
        .collect();
    let mut on_their_way: BinaryHeap<OnItsWay> = BinaryHeap::new();
    let mut order = 0;
    let mut chance = 1_u64;
    let mut packet = vec![0; PACKET];
    while !shared.ends.load(Ordering::Relaxed) {
        let now = Instant::now();
        let next = on_their_way
            .peek()
            .map(|Reverse((at, ..))| at.saturating_duration_since(now));
        let wait = Timespec::try_from(next.unwrap_or(LOOK).min(LOOK)).expect("it is short");
        let mut ready: Vec<_> = devices
            .iter()
            .map(|(_, device)| PollFd::new(device, PollFlags::IN))
            .collect();
        poll(&mut ready, Some(&wait)).expect("they are devices");
        for (_, device) in devices {
            while let Some(length) = read(device, &mut packet) {
                let Some((from, at)) = addresses(&packet[..length]).filter(|(_, at)| to.contains_key(at))
                else {
                    continue;
                };
                let conditions = shared.conditions.lock().expect("no panic holds it");
                chance = chance
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                if conditions.cut.contains(&(from, at)) {
                    continue;
                }
                if (chance >> 33) % 1_000_000 < conditions.lost {
                    shared.dropped.fetch_add(1, Ordering::Relaxed);
                    continue;
                }
                if on_their_way.len() < ON_THEIR_WAY {
                    order += 1;
                    let arrives = Instant::now() + conditions.delay;
                    on_their_way.push(Reverse((arrives, order, at, packet[..length].to_vec())));
                }
            }
        }
        let now = Instant::now();
        while on_their_way.peek().is_some_and(|Reverse((at, ..))| *at <= now) {
            if let Some(Reverse((_, _, at, packet))) = on_their_way.pop() {
                // A host with a full queue drops it.
                let mut device = to[&at];
                let _ = device.write(&packet);
            }
        }
    }
}

/// The next packet of a device, if there is one.
fn read(mut device: &File, packet: &mut [u8]) -> Option<usize> {
    match device.read(packet) {
        Ok(length) => Some(length),
        Err(error) if error.kind() == ErrorKind::WouldBlock => None,
        Err(error) => panic!("a device cannot be read: {error}"),
    }
}

/// From where a packet is, and where it goes. The hosts have no others than those of IPv4.
fn addresses(packet: &[u8]) -> Option<(Ipv4Addr, Ipv4Addr)> {
    let header = packet.first_chunk::<20>().filter(|header| header[0] >> 4 == 4)?;
    let at = |from: usize| Ipv4Addr::new(header[from], header[from + 1], header[from + 2], header[from + 3]);
    Some((at(12), at(16)))
}
