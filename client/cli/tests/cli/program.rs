//! Runs `omni-client` in a directory of its own and waits for it without waiting for ever.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::fake::{Fake, PATIENCE};

/// Directory and server of a test's program.
pub(crate) struct Place {
    dir: TempDir,
    endpoint: String,
}

/// Exit code and output of the program.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

impl Place {
    pub(crate) fn with(fake: &Fake) -> Self {
        Self::at(&fake.endpoint())
    }

    pub(crate) fn at(endpoint: &str) -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
            endpoint: endpoint.to_owned(),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The program, its environment free of whatever the tester's has.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_omni-client"));
        command
            .args(args)
            .current_dir(self.dir.path())
            .env_clear()
            .env("HOME", self.dir.path())
            .env("OMNI_CHAT_HISTORY", "")
            .env("OMNI_ENDPOINT", &self.endpoint)
            .env("OMNI_ADMIN_ENDPOINT", &self.endpoint);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs to the end.
    pub(crate) fn run(&self, args: &[&str]) -> Outcome {
        finish(self.command(args).spawn().unwrap())
    }

    /// Runs to the end with `input` on standard input.
    pub(crate) fn run_with(&self, args: &[&str], input: &[u8]) -> Outcome {
        let mut child = self.command(args).stdin(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = input.to_vec();
        let writer = thread::spawn(move || {
            // The program may refuse before it has read everything.
            let _ = stdin.write_all(&input);
        });
        let outcome = finish(child);
        writer.join().unwrap();
        outcome
    }

    /// Waits until there is audio in a file that a program is writing.
    pub(crate) fn until_written(&self, name: &str) {
        let started = std::time::Instant::now();
        while fs::metadata(self.path(name)).map_or(0, |meta| meta.len()) <= 44 {
            assert!(started.elapsed() < PATIENCE, "nothing is written to {name}");
            thread::sleep(std::time::Duration::from_millis(5));
        }
    }

    /// The samples of a WAV file, as an independent reader understands it.
    pub(crate) fn wav(&self, name: &str) -> Vec<i16> {
        let reader = hound::WavReader::open(self.path(name)).expect("a valid WAV file");
        assert_eq!(reader.spec().sample_rate, crate::fake::RATE);
        reader.into_samples().map(Result::unwrap).collect()
    }
}

/// Waits for the end of `child`.
pub(crate) fn finish(child: Child) -> Outcome {
    let pid = Pid::from_child(&child);
    let (sender, receiver) = mpsc::sync_channel(1);
    thread::spawn(move || sender.send(child.wait_with_output()));
    let Ok(output) = receiver.recv_timeout(PATIENCE) else {
        let _ = kill_process(pid, Signal::KILL);
        panic!("the program did not end");
    };
    let output = output.unwrap();
    Outcome {
        code: output.status.code(),
        stdout: output.stdout,
        stderr: String::from_utf8(output.stderr).expect("standard error is text"),
    }
}

pub(crate) fn interrupt(child: &Child) {
    kill_process(Pid::from_child(child), Signal::INT).unwrap();
}

pub(crate) fn terminate(child: &Child) {
    kill_process(Pid::from_child(child), Signal::TERM).unwrap();
}

/// A terminal: the end that a program holds and the end that its user sees.
pub(crate) struct Terminal {
    pub(crate) programs: File,
    users: File,
}

impl Terminal {
    pub(crate) fn open() -> Self {
        use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
        let users = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&users).unwrap();
        unlockpt(&users).unwrap();
        let name = ptsname(&users, Vec::new()).unwrap().into_string().unwrap();
        let programs = File::options().read(true).write(true).open(name).unwrap();
        Self {
            programs,
            users: users.into(),
        }
    }

    /// Has the program's child with this terminal for everything, and watches it.
    pub(crate) fn watch(self, mut command: Command) -> (Child, Screen) {
        let end = || Stdio::from(self.programs.try_clone().unwrap());
        command.stdin(end()).stdout(end()).stderr(end());
        let child = command.spawn().unwrap();
        drop(command);
        (child, Screen::of(self))
    }

    /// Everything the program showed. Call it when the program has ended.
    pub(crate) fn shown(self) -> String {
        drop(self.programs);
        let mut shown = Vec::new();
        let mut buffer = [0; 4_096];
        let mut users = self.users;
        // Without a program on the other end, reading fails once everything is read.
        while let Ok(read @ 1..) = users.read(&mut buffer) {
            shown.extend_from_slice(&buffer[..read]);
        }
        String::from_utf8_lossy(&shown).into_owned()
    }
}

/// Terminal of a running program: its output, and a keyboard.
pub(crate) struct Screen {
    keyboard: File,
    pieces: mpsc::Receiver<String>,
    /// Shown and not looked at yet.
    shown: String,
}

impl Screen {
    pub(crate) fn of(terminal: Terminal) -> Self {
        let (sender, pieces) = mpsc::sync_channel(10_000);
        let keyboard = terminal.users.try_clone().unwrap();
        let mut users = terminal.users;
        thread::spawn(move || {
            let mut buffer = [0; 4_096];
            // Without a program on the other end, reading fails once everything is read.
            while let Ok(read @ 1..) = users.read(&mut buffer) {
                // The test may have seen enough.
                let _ = sender.send(String::from_utf8_lossy(&buffer[..read]).into_owned());
            }
        });
        Self {
            keyboard,
            pieces,
            shown: String::new(),
        }
    }

    /// Types keys as they are; Enter is `\r`.
    pub(crate) fn types(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until `text` is shown; gives what was shown before it.
    pub(crate) fn until(&mut self, text: &str) -> String {
        loop {
            if let Some(at) = self.shown.find(text) {
                let rest = self.shown.split_off(at + text.len());
                let mut before = std::mem::replace(&mut self.shown, rest);
                before.truncate(at);
                return before;
            }
            match self.pieces.recv_timeout(PATIENCE) {
                Ok(piece) => self.shown.push_str(&piece),
                Err(_) => panic!("{text:?} is not shown: {:?}", self.shown),
            }
        }
    }
}
