//! A server in a process of its own, as people run it.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context as _, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::soak::Target;

/// Longest time until it serves.
const START: Duration = Duration::from_secs(120);
/// Log lines kept for error messages.
const LINES: usize = 40;

/// A server that runs. It is killed when this is dropped.
#[derive(Debug)]
pub struct ServerProcess {
    child: Child,
    target: Target,
    log: Option<JoinHandle<Log>>,
}

/// Log of the process.
#[derive(Debug, Default)]
struct Log {
    last: VecDeque<String>,
    errors: Vec<String>,
}

impl ServerProcess {
    /// Starts `program`, and waits until it serves. No setting is taken from the environment.
    ///
    /// # Errors
    /// If it cannot be started, or does not serve in time.
    pub fn start<'a>(program: &Path, args: impl IntoIterator<Item = &'a str>) -> anyhow::Result<Self> {
        let args: Vec<_> = args.into_iter().collect();
        let mut command = Command::new(program);
        command
            .args(&args)
            .args(["--log-format", "text"])
            .stdin(Stdio::null())
            .stderr(Stdio::piped());
        let settings = |name: &str| name.starts_with("OMNI_") || name.starts_with("OTEL_");
        for (name, _) in std::env::vars_os().filter(|(name, _)| settings(&name.to_string_lossy())) {
            command.env_remove(name);
        }
        let mut child = command
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        let said = BufReader::new(child.stderr.take().context("its log")?);
        let (lines, heard) = channel();
        let log = std::thread::spawn(move || {
            let mut log = Log::default();
            for line in said.lines().map_while(Result::ok) {
                // The receiver is gone once the server serves.
                let _ = lines.send(line.clone());
                log.add(line);
            }
            log
        });
        let process = child.id();
        // From here on it is ended with this.
        let mut server = Self {
            child,
            target: Target {
                address: ([0; 4], 0).into(),
                admin: None,
                wyoming: None,
                metrics: ([0; 4], 0).into(),
                process,
            },
            log: Some(log),
        };
        server.serves(&heard, args.contains(&"--wyoming"))?;
        Ok(server)
    }

    /// Waits until it is ready, and Wyoming's port is open if it `speaks_wyoming`: that one opens when the model is loaded.
    fn serves(&mut self, heard: &Receiver<String>, speaks_wyoming: bool) -> anyhow::Result<()> {
        let mut said = Vec::new();
        let mut ready = false;
        while !ready || (speaks_wyoming && self.target.wyoming.is_none()) {
            match heard.recv_timeout(START) {
                Ok(line) => {
                    if line.contains("metrics and probes") {
                        self.target.metrics = address(&line)?;
                    } else if line.contains("admin API listening") {
                        self.target.admin = Some(address(&line)?);
                    } else if line.contains("Wyoming listening") {
                        self.target.wyoming = Some(address(&line)?);
                    } else if line.contains("listening") {
                        self.target.address = address(&line)?;
                    }
                    ready |= line.contains("ready in");
                    said.push(line);
                }
                Err(RecvTimeoutError::Timeout) => {
                    bail!("it does not serve after {START:?}:\n{}", said.join("\n"))
                }
                Err(RecvTimeoutError::Disconnected) => bail!("it ended:\n{}", said.join("\n")),
            }
        }
        Ok(())
    }

    /// Addresses of the server.
    pub fn target(&self) -> Target {
        self.target
    }

    /// Asks it to stop after its current work.
    pub fn terminate(&self) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid {
            // Only this process waits for it: after its end the id is still its own.
            let _ = kill_process(pid, Signal::TERM);
        }
    }

    /// Waits for its end. Gives its status, and the lines of its log that must not be there.
    ///
    /// # Errors
    /// If it cannot be waited for.
    pub fn wait(mut self) -> anyhow::Result<(ExitStatus, Vec<String>)> {
        let status = self.child.wait().context("cannot wait for the server")?;
        let log = self
            .log
            .take()
            .and_then(|log| log.join().ok())
            .unwrap_or_default();
        let mut errors = log.errors;
        if !status.success() {
            errors.push(format!("the server ended with {status}, and said last:"));
            errors.extend(log.last);
        }
        Ok((status, errors))
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

impl Log {
    fn add(&mut self, line: String) {
        if line.contains("ERROR") || line.contains("panicked") {
            self.errors.push(line.clone());
            self.errors.truncate(LINES);
        }
        if self.last.len() == LINES {
            self.last.pop_front();
        }
        self.last.push_back(line);
    }
}

/// The address in a line of the log.
fn address(line: &str) -> anyhow::Result<SocketAddr> {
    let (_, rest) = line
        .split_once("address=")
        .with_context(|| format!("no address in {line:?}"))?;
    let word = rest.split_whitespace().next().unwrap_or_default();
    word.parse().with_context(|| format!("no address in {line:?}"))
}
