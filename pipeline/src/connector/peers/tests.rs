use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::Instant;

use omni_engine::CodecFrame;

use super::super::host::called;
use super::super::local::{EdgeWriter, edge};
use super::super::rendezvous::{Expected, Rendezvous};
use super::super::replica::Peer;
use super::super::stream::OPEN_CREDIT;
use super::*;
use crate::item::Item;
use crate::stage::{EdgeReceiver as _, EdgeSender as _, Recv};

/// Longer than anything here takes on a busy machine; only ever reached by a test that fails.
const PATIENCE: Duration = Duration::from_secs(30);
/// Units that may wait at the near end.
const NEAR: u32 = 16;

type Served = (UnixStream, JoinHandle<Result<(), LinkError>>);

/// A stage that others reach.
struct Far {
    rendezvous: Rendezvous,
    clock: Clock,
    served: Arc<Mutex<Vec<Served>>>,
    refuses: bool,
    idle: Duration,
    /// Sink for the data that its connections send there, once messages are lost on the way.
    swallows: Option<Arc<Swallowed>>,
}

/// A connection that fails silently: data written after [`Self::begin`] does not arrive, and nothing comes back.
#[derive(Default)]
struct Swallowed {
    begun: AtomicBool,
    bytes: AtomicUsize,
}

impl Swallowed {
    fn begin(&self) {
        self.begun.store(true, Ordering::SeqCst);
    }

    /// Connections that are made later do not break.
    fn end(&self) {
        self.begun.store(false, Ordering::SeqCst);
    }

    fn bytes(&self) -> usize {
        self.bytes.load(Ordering::SeqCst)
    }

    /// One end of a connection whose other end is `there`; both directions have a thread that ends with the connection.
    fn between(self: &Arc<Self>, there: &UnixStream) -> io::Result<UnixStream> {
        let (here, near) = UnixStream::pair()?;
        for (mut from, mut to) in [
            (near.try_clone()?, there.try_clone()?),
            (there.try_clone()?, near),
        ] {
            let swallowed = Arc::clone(self);
            std::thread::spawn(move || {
                let mut buffer = [0; 4096];
                while let Ok(count @ 1..) = from.read(&mut buffer) {
                    if swallowed.begun.load(Ordering::SeqCst) {
                        swallowed.bytes.fetch_add(count, Ordering::SeqCst);
                    } else if to.write_all(&buffer[..count]).is_err() {
                        break;
                    }
                }
                let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
            });
        }
        Ok(here)
    }
}

struct Left;

impl Peer for Left {
    fn end(self: Box<Self>, _patience: Duration) -> String {
        "it was left to itself".to_owned()
    }
}

impl Far {
    fn new() -> Self {
        let clock = Clock::start();
        Self {
            rendezvous: Rendezvous::new(Notifier::default(), clock),
            clock,
            served: Arc::default(),
            refuses: false,
            idle: PATIENCE,
            swallows: None,
        }
    }

    /// A stage that reaches this one.
    fn reached(&self) -> Peers {
        let rendezvous = self.rendezvous.clone();
        let clock = self.clock;
        let refuses = self.refuses;
        let served = Arc::clone(&self.served);
        let swallows = self.swallows.clone();
        let dial = move |address: &[u8]| {
            assert!(address.starts_with(b"there"));
            let (mut here, there) = UnixStream::pair()?;
            if let Some(swallows) = &swallows {
                here = swallows.between(&here)?;
            }
            let line = there.try_clone()?;
            let rendezvous = rendezvous.clone();
            let host = std::thread::spawn(move || {
                let mut session = called(there, ["talker", "code2wav"].into(), clock)?;
                assert_eq!(
                    (session.stage.as_str(), session.sender),
                    ("code2wav", Some("talker"))
                );
                session.answer()?;
                if refuses {
                    session.refuse("it is of another build")
                } else {
                    session.take_items(rendezvous)
                }
            });
            served.lock().push((line, host));
            Ok((here, Box::new(Left) as Box<dyn Peer>))
        };
        Peers::new(PeerParts {
            stage: "talker",
            dial: Arc::new(dial),
            greeting: Vec::new(),
            idle: self.idle,
            clock: self.clock,
        })
    }

    fn expect(&self, token: u128) -> (EdgeReader, Expected) {
        self.rendezvous.expect(LinkToken(token)).unwrap()
    }

    /// Breaks the connections.
    fn cut(&self) {
        for (line, _) in self.served.lock().iter() {
            line.shutdown(Shutdown::Both).unwrap();
        }
    }
}

fn next(token: u128) -> NextStage {
    NextStage {
        stage: "code2wav".to_owned(),
        address: b"there"[..].into(),
        token: LinkToken(token),
    }
}

fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < PATIENCE, "waited too long until {what}");
        std::thread::yield_now();
    }
}

/// The near end of a sequence, and what becomes of it.
fn send(peers: &Peers, token: u128) -> (Box<EdgeWriter>, oneshot::Receiver<LinkEnd>) {
    let mut permit = None;
    until("there is a link", || {
        permit = peers.reserve(&next(token));
        permit.is_some()
    });
    let permit = permit.unwrap();
    let (writer, outputs) = edge(NEAR, None, Some(permit.wake.clone()));
    (Box::new(writer), permit.send(outputs))
}

fn frame(code: u32) -> Item {
    CodecFrame(Box::new([code])).into()
}

fn code(item: &Item) -> u32 {
    match item {
        Item::Frames(frames) => frames[0].0[0],
        other => panic!("{other:?}"),
    }
}

/// Waits for the next item.
fn taken(items: &mut EdgeReader) -> Recv<Item> {
    let mut taken = Recv::Empty;
    until("something comes", || {
        taken = items.take();
        taken != Recv::Empty
    });
    taken
}

fn told(mut ended: oneshot::Receiver<LinkEnd>) -> LinkEnd {
    let mut end = None;
    until("it is told", || {
        end = ended.try_recv().ok();
        end.is_some()
    });
    end.unwrap()
}

#[test]
fn items_arrive_in_order_and_then_their_end_whether_the_sequence_was_opened_before_or_after() {
    let far = Far::new();
    let peers = far.reached();
    assert!(peers.reserve(&next(0)).is_none(), "no sequence waits for a link");
    for opened_before in [true, false] {
        let token = u128::from(opened_before);
        let before = opened_before.then(|| far.expect(token));
        let (mut writer, ended) = send(&peers, token);
        for n in 0..10 {
            writer.put(frame(n), 1).unwrap();
        }
        writer.end(End::Length);
        assert!(matches!(told(ended), LinkEnd::Ended(End::Length)));
        let (mut items, _expected) = before.unwrap_or_else(|| far.expect(token));
        for n in 0..10 {
            let Recv::Item(item) = taken(&mut items) else {
                panic!("there are ten")
            };
            assert_eq!(code(&item), n);
        }
        assert_eq!(taken(&mut items), Recv::End(End::Length));
    }
    let counts = peers.counts();
    assert_eq!((counts.links, counts.linked), (1, 2));
    drop(peers);
    for (_, host) in far.served.lock().drain(..) {
        assert!(host.join().unwrap().is_ok(), "it was hung up on");
    }
}

#[test]
fn a_reader_that_takes_nothing_pauses_the_writer_when_both_edges_are_full() {
    let far = Far::new();
    let peers = far.reached();
    let (mut writer, _ended) = send(&peers, 1);
    let (mut items, _expected) = far.expect(1);
    let all = OPEN_CREDIT + NEAR;
    for n in 0..all {
        until("there is room", || writer.has_room());
        writer.put(frame(n), 1).unwrap();
    }
    // Items taken from the near edge used up all the credit.
    assert!(!writer.has_room());
    for n in 0..all {
        let Recv::Item(item) = taken(&mut items) else {
            panic!("all come")
        };
        assert_eq!(code(&item), n);
    }
    until("there is room again", || writer.has_room());
}

#[test]
fn what_either_stage_gives_up_ends_at_the_other() {
    let far = Far::new();
    let peers = far.reached();
    let (items, expected) = far.expect(1);
    let (_writer, ended) = send(&peers, 1);
    // Before its items were attached it would wait for them in vain.
    until("it is attached", || expected.is_attached());
    drop((items, expected));
    assert!(matches!(told(ended), LinkEnd::Severed(_)));

    let (mut items, _expected) = far.expect(2);
    let (writer, ended) = send(&peers, 2);
    drop(writer);
    assert_eq!(taken(&mut items), Recv::Gone);
    assert!(matches!(told(ended), LinkEnd::Severed(_)));
}

#[test]
fn a_loss_of_the_stage_itself_is_left_to_its_server() {
    let far = Far::new();
    let peers = far.reached();
    let (mut items, _expected) = far.expect(1);
    let (mut writer, ended) = send(&peers, 1);
    writer.put(frame(0), 1).unwrap();
    let lost = End::Lost {
        stage: "talker",
        message: "its model is being built anew".to_owned(),
    };
    writer.end(lost.clone());
    assert!(matches!(told(ended), LinkEnd::Ended(end) if end == lost));
    assert!(matches!(taken(&mut items), Recv::Item(_)));
    assert_eq!(
        items.take(),
        Recv::Empty,
        "the next stage hears of it from the server"
    );
}

#[test]
fn a_link_that_breaks_severs_what_it_carried_at_both_ends_and_nothing_that_is_over() {
    let far = Far::new();
    let peers = far.reached();
    let (mut over, _expected) = far.expect(1);
    let (writer, ended) = send(&peers, 1);
    writer.end(End::Stop);
    assert!(matches!(told(ended), LinkEnd::Ended(End::Stop)));
    assert_eq!(taken(&mut over), Recv::End(End::Stop));
    let (mut items, _expected) = far.expect(2);
    let (mut writer, ended) = send(&peers, 2);
    writer.put(frame(0), 1).unwrap();
    assert!(matches!(taken(&mut items), Recv::Item(_)));
    far.cut();
    assert!(matches!(told(ended), LinkEnd::Severed(_)));
    assert!(matches!(
        taken(&mut items),
        Recv::End(End::Severed { stage: "talker", .. })
    ));
    assert!(peers.reserve(&next(3)).is_none());
    assert_eq!(peers.counts().links, 0);
}

#[test]
fn an_end_that_does_not_arrive_is_not_told_and_new_sequences_do_not_go_by_that_link() {
    let far = Far {
        swallows: Some(Arc::default()),
        ..Far::new()
    };
    let swallowed = far.swallows.clone().unwrap();
    let peers = far.reached();
    let (mut items, expected) = far.expect(1);
    until("there is a link", || {
        peers.counts().links == 1 || peers.reserve(&next(0)).is_some()
    });
    swallowed.begin();
    let (mut writer, ended) = send(&peers, 1);
    writer.put(frame(0), 1).unwrap();
    writer.end(End::Stop);
    until("some of it was sent", || swallowed.bytes() > 0);
    assert!(!expected.is_attached() && items.take() == Recv::Empty);
    until("its silence is noticed", || peers.reserve(&next(2)).is_none());
    assert_eq!(peers.counts().links, 1, "what it has may still arrive");
    swallowed.end();
    far.cut();
    assert!(matches!(told(ended), LinkEnd::Severed(_)));
    until("there is another link", || peers.reserve(&next(3)).is_some());
}

#[test]
fn a_link_that_no_sequence_uses_ends_at_both_stages_and_one_that_is_used_does_not() {
    let far = Far {
        idle: Duration::from_millis(50),
        ..Far::new()
    };
    let peers = far.reached();
    let (mut items, _expected) = far.expect(1);
    let (mut writer, ended) = send(&peers, 1);
    std::thread::sleep(4 * far.idle);
    assert_eq!(peers.counts().links, 1, "a sequence has it, which says nothing");
    writer.put(frame(0), 1).unwrap();
    writer.end(End::Stop);
    assert!(matches!(told(ended), LinkEnd::Ended(End::Stop)));
    assert!(matches!(taken(&mut items), Recv::Item(_)));
    until("it has ended", || peers.counts().links == 0);
    let (_, host) = far.served.lock().pop().unwrap();
    assert!(host.join().unwrap().is_ok(), "it was hung up on");
}

#[test]
fn no_more_stages_are_reached_than_there_may_be_links() {
    let far = Far {
        refuses: true,
        ..Far::new()
    };
    let peers = far.reached();
    for n in 0..MOST_LINKS + 8 {
        let next = NextStage {
            address: format!("there, {n}").into_bytes().into(),
            ..next(n as u128)
        };
        assert!(peers.reserve(&next).is_none());
    }
    assert_eq!(peers.0.links.lock().len(), MOST_LINKS);
}

#[test]
fn while_a_stage_cannot_be_reached_or_refuses_there_is_no_link_and_none_is_made_at_once() {
    let far = Far {
        refuses: true,
        ..Far::new()
    };
    let peers = far.reached();
    assert!(peers.reserve(&next(1)).is_none());
    until("it has failed", || {
        peers.0.links.lock().values().all(Held::is_failed)
    });
    for token in 2..4 {
        assert!(peers.reserve(&next(token)).is_none());
    }
    assert_eq!(peers.counts(), LinkCounts::default());
    assert_eq!(far.served.lock().len(), 1, "it is not tried again at once");
}
