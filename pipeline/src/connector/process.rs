//! A process at the other end of a connection: its standard input is the socket, so that no other process can reach
//! it, and nothing is left behind in the file system.
//!
//! It does not outlive the process that started it: it ends when the connection does, and where the system can, it is
//! killed when the thread that started it ends.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use super::replica::{Connected, Peer, StageTransport};

/// Connects to a running process that was started apart from this program, and that [serves](super::called) every
/// connection to a socket in the file system.
#[derive(Debug, Clone)]
pub struct Attach(pub PathBuf);

impl StageTransport for Attach {
    fn connect(&mut self) -> io::Result<Connected> {
        Ok((UnixStream::connect(&self.0)?, Box::new(Attached)))
    }
}

/// A process that continues without a connection.
struct Attached;

impl Peer for Attached {
    fn end(self: Box<Self>, _patience: Duration) -> String {
        "the process was left to itself".to_owned()
    }
}

/// Starts a process that finds the connection with [`inherited`]. It has a process group of its own, so that signals
/// of a terminal to the server's group do not reach it: the server lets the work in progress end first.
///
/// # Errors
/// The error of the system.
pub fn spawn_peer(command: &mut Command) -> io::Result<Connected> {
    let (here, there) = UnixStream::pair()?;
    let child = command
        .stdin(Stdio::from(OwnedFd::from(there)))
        .stdout(Stdio::null())
        .process_group(0)
        .spawn();
    // The command keeps what it gives to the child: the end of the child would not be noticed.
    command.stdin(Stdio::null());
    Ok((here, Box::new(Process(child?))))
}

/// Returns the connection of this process with the one that started it.
///
/// # Errors
/// If its standard input is not a socket.
pub fn inherited() -> io::Result<UnixStream> {
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    // Fails for anything but a socket.
    socket.local_addr()?;
    Ok(socket)
}

struct Process(Child);

/// Kills a process that was not waited for.
impl Drop for Process {
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(None)) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}

impl Peer for Process {
    fn id(&self) -> Option<u32> {
        Some(self.0.id())
    }

    fn end(mut self: Box<Self>, patience: Duration) -> String {
        let ended = ends_within(&mut self.0, patience);
        if !ended {
            // A process that has ended meanwhile cannot be killed, and need not be.
            let _ = self.0.kill();
        }
        match self.0.wait() {
            Ok(status) if ended => format!("the process ended with {}", outcome(status)),
            Ok(_) => "the process was killed".to_owned(),
            Err(error) => format!("it is not known how the process ended: {error}"),
        }
    }
}

fn outcome(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => status.to_string(),
    }
}

/// Waits for the end of a process.
#[cfg(target_os = "linux")]
#[allow(clippy::needless_pass_by_ref_mut, reason = "other systems need it")]
fn ends_within(child: &mut Child, patience: Duration) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::process::{Pid, PidfdFlags, pidfd_open};

    let process = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let Some(process) = process.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()) else {
        return false;
    };
    let mut watched = [PollFd::new(&process, PollFlags::IN)];
    let timeout = Timespec::try_from(patience).ok();
    loop {
        match poll(&mut watched, timeout.as_ref()) {
            Ok(ready) => return ready > 0,
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}

/// Waits for the end of a process, on a system without process descriptors.
///
/// It looks again and again, because waiting for an event would be worse: the one way without a time limit is a thread
/// in `wait`, which takes the process's number back from the system, so that a kill after `patience` might hit
/// another. It lasts as long as a farewell, once per process.
#[cfg(not(target_os = "linux"))]
fn ends_within(child: &mut Child, patience: Duration) -> bool {
    let step = Duration::from_millis(10);
    for _ in 0..=patience.as_millis() / step.as_millis() {
        if matches!(child.try_wait(), Ok(Some(_))) {
            return true;
        }
        std::thread::sleep(step);
    }
    false
}
