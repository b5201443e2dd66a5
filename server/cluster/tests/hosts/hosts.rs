//! Hosts: threads with a network namespace of their own, and the processes on them.
//!
//! No namespace has a name, so each disappears with the last thread and process in it. Processes on a host are killed
//! with its thread. So nothing is left behind, even by a killed test.

use std::fs::File;
use std::io;
use std::net::Ipv4Addr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc;
use std::thread::JoinHandle;

use tempfile::TempDir;

use crate::certificates::Authority;
use crate::part::{PROGRAM, Part, lacks};
use crate::relay::Relay;

/// The host that a test is on: its callers, and the front end.
pub(crate) const HERE: &str = "front";
/// The port of a stage's probes.
const PROBES: u16 = 9_090;

type Job = Box<dyn FnOnce() + Send>;

struct Host {
    name: &'static str,
    address: Ipv4Addr,
    /// Queue of its thread; none for the test's own thread.
    jobs: Option<mpsc::SyncSender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Host {
    fn drop(&mut self) {
        drop(self.jobs.take());
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking(), "a host panicked");
        }
    }
}

impl Host {
    fn new(name: &'static str, address: Ipv4Addr) -> io::Result<(Self, File)> {
        let mut host = Self {
            name,
            address,
            jobs: None,
            thread: None,
        };
        if name == HERE {
            return Ok((host, become_host(address)?));
        }
        let (jobs, todo) = mpsc::sync_channel::<Job>(1);
        let (done, device) = mpsc::sync_channel(1);
        host.thread = Some(std::thread::spawn(move || {
            let made = become_host(address);
            let is_host = made.is_ok();
            let told = done.send(made).is_ok();
            if is_host && told {
                todo.iter().for_each(|job| job());
            }
        }));
        host.jobs = Some(jobs);
        let device = device.recv().map_err(io::Error::other)??;
        Ok((host, device))
    }

    /// Does something on the host.
    fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        let Some(jobs) = &self.jobs else {
            return work();
        };
        let (done, came) = mpsc::sync_channel(1);
        let job = move || drop(done.send(work()));
        jobs.send(Box::new(job)).expect("the host is there");
        came.recv().expect("it does not panic")
    }
}

/// Makes this thread a host with that address, and gives the other end of its device.
fn become_host(address: Ipv4Addr) -> io::Result<File> {
    // SAFETY: it changes which network this thread and those that it starts see, and shares no memory.
    #[expect(unsafe_code, reason = "a namespace is made by the system alone")]
    let made = unsafe { libc::unshare(libc::CLONE_NEWNET) };
    if made != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut options = File::options();
    let device = options
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open("/dev/net/tun")?;
    let mut request = libc::ifreq {
        ifr_name: [0; libc::IFNAMSIZ],
        ifr_ifru: libc::__c_anonymous_ifr_ifru {
            ifru_flags: (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short,
        },
    };
    for (to, from) in request.ifr_name.iter_mut().zip(b"omni0") {
        *to = *from as libc::c_char;
    }
    // SAFETY: the request is of the right type, and outlives the call.
    #[expect(unsafe_code, reason = "a device is made by the system alone")]
    let made = unsafe {
        libc::ioctl(
            std::os::fd::AsRawFd::as_raw_fd(&device),
            libc::TUNSETIFF,
            &mut request,
        )
    };
    if made != 0 {
        return Err(io::Error::last_os_error());
    }
    let address = format!("{address}/24");
    ip(&["address", "add", &address, "dev", "omni0"])?;
    ip(&["link", "set", "omni0", "up"])?;
    ip(&["link", "set", "lo", "up"])?;
    Ok(device)
}

fn ip(args: &[&str]) -> io::Result<()> {
    let done = Command::new("ip").args(args).output()?;
    if done.status.success() {
        Ok(())
    } else {
        Err(io::Error::other(
            String::from_utf8_lossy(&done.stderr).into_owned(),
        ))
    }
}

/// A command that is killed with the thread that starts it.
pub(crate) fn bound_to_its_host(program: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--", program]);
    command
}

/// Hosts, and the network between them.
pub(crate) struct Network {
    pub(crate) relay: Relay,
    hosts: Vec<Host>,
    authority: Authority,
    folder: TempDir,
}

impl Network {
    /// Hosts with these names beside [`HERE`], which this thread becomes. None where the system allows a test no
    /// namespaces.
    pub(crate) fn with(names: &[&'static str]) -> Option<Self> {
        match Self::made(names) {
            Ok(network) => Some(network),
            Err(error) => {
                lacks(&format!("permission to make network namespaces ({error})"));
                None
            }
        }
    }

    fn made(names: &[&'static str]) -> io::Result<Self> {
        let mut hosts = Vec::new();
        let mut devices = Vec::new();
        for (name, number) in [HERE].iter().chain(names).zip(1..) {
            let (host, device) = Host::new(name, Ipv4Addr::new(10, 0, 0, number))?;
            devices.push((host.address, device));
            hosts.push(host);
        }
        Ok(Self {
            relay: Relay::new(devices),
            hosts,
            authority: Authority::new(),
            folder: tempfile::tempdir()?,
        })
    }

    fn host(&self, name: &str) -> &Host {
        let mut hosts = self.hosts.iter();
        hosts
            .find(|host| host.name == name)
            .expect("there is such a host")
    }

    /// A folder that all hosts have.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn address(&self, host: &str) -> Ipv4Addr {
        self.host(host).address
    }

    /// Drops all packets between a host and all others, without errors.
    pub(crate) fn cut_off(&self, host: &str) {
        let address = self.address(host);
        for other in self.hosts.iter().filter(|other| other.name != host) {
            self.relay.cut(address, other.address);
        }
    }

    /// Does something on a host.
    pub(crate) fn on<T: Send + 'static>(&self, host: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
        self.host(host).run(work)
    }

    /// Arguments of parts that find each other by a folder that all hosts have.
    pub(crate) fn by_files(&self) -> Vec<String> {
        let folder = self.folder.path().join("found").display().to_string();
        ["--cluster-discovery", "file", "--cluster-dir", &folder]
            .map(str::to_owned)
            .to_vec()
    }

    fn start(&self, host: &str, args: Vec<String>) -> Part {
        self.on(host, move || {
            Part::start_by(bound_to_its_host(PROGRAM), &[], &args)
        })
    }

    /// Network arguments of a part on that host; it presents a certificate of its own.
    fn part(&self, host: &str, found: &[String]) -> Vec<String> {
        let folder = self.folder.path().join(host);
        std::fs::create_dir_all(&folder).expect("a folder");
        let mut args = self.authority.part(&folder);
        args.extend(["--cluster-host".to_owned(), self.address(host).to_string()]);
        args.extend(found.iter().cloned());
        args
    }

    /// A stage on a host of its own, which is registered.
    pub(crate) fn stage(&self, host: &str, name: &str, found: &[String], args: &[&str]) -> Part {
        let mut all = ["--role", "stage", "--stage", name].map(str::to_owned).to_vec();
        all.extend(self.part(host, found));
        all.extend(["--cluster-probes".to_owned(), self.probes(host)]);
        all.extend(args.iter().map(|arg| (*arg).to_owned()));
        let part = self.start(host, all);
        part.says("registered");
        part
    }

    /// The probes of the stage on that host.
    pub(crate) fn probes(&self, host: &str) -> String {
        format!("{}:{PROBES}", self.address(host))
    }

    /// A front end beside the test, which serves when its stages are there.
    pub(crate) fn frontend(&self, found: &[String], args: &[&str]) -> Part {
        let own = ["--role", "frontend"];
        let mut all = [&own[..], &SERVES].concat();
        all.extend(args);
        let mut all: Vec<_> = all.into_iter().map(str::to_owned).collect();
        all.extend(self.part(HERE, found));
        let part = self.start(HERE, all);
        part.says("listening");
        part
    }

    /// A server that is one process, beside the test.
    pub(crate) fn alone(&self) -> Part {
        let part = self.start(HERE, SERVES.map(str::to_owned).to_vec());
        part.serves();
        part
    }
}

const SERVES: [&str; 5] = [
    "--speech-only",
    "--listen",
    "127.0.0.1:0",
    "--metrics-listen",
    "127.0.0.1:0",
];
