//! Programs that tests are run against: found, started, asked over HTTP, and ended with their test.

use std::io::Write;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Longest time for a program to do its work.
const PATIENCE: Duration = Duration::from_secs(60);

/// Path of `program`, if it is there: installed, or unpacked by `scripts/setup`. Prints a note if not.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let unpacked = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.tools/debian/usr/bin");
    let runs = |path: &PathBuf| {
        Command::new(path)
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    };
    let installed = std::env::var_os("PATH").unwrap_or_default();
    let installed = std::env::split_paths(&installed).map(|folder| folder.join(program));
    let found = installed.chain([unpacked.join(program)]).find(runs);
    if found.is_none() {
        let _ = writeln!(
            std::io::stderr(),
            "skipped: {program} is not installed (scripts/setup fetches it)"
        );
    }
    found
}

/// A program that ends with its test.
pub(crate) struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A call of `program` that finds and leaves everything in `directory`: what else is installed or was run on the
/// machine, and what the tester's variables say (proxies, settings of other programs), does not matter.
pub(crate) fn call(program: &Path, directory: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(directory).env_clear();
    for name in [
        "HOME",
        "TMPDIR",
        "XDG_CONFIG_HOME",
        "XDG_CACHE_HOME",
        "XDG_DATA_HOME",
        "XDG_STATE_HOME",
    ] {
        command.env(name, directory);
    }
    command
}

pub(crate) fn start(program: &Path, arguments: &[String], directory: &Path) -> Running {
    let log = std::fs::File::create(directory.join("log")).expect("a file");
    let child = call(program, directory)
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .expect("the program starts");
    Running(child)
}

/// A Pushgateway of this test's own, once it answers. Debian's keeps its state in a place of the machine's unless told
/// otherwise.
pub(crate) async fn gateway(program: &Path, directory: &Path) -> (Running, SocketAddr) {
    let web = free_address();
    let state = directory.join("state");
    let arguments = [
        format!("--web.listen-address={web}"),
        format!("--persistence.file={}", state.display()),
    ];
    let running = start(program, &arguments, directory);
    let ready = until(web, "/-/ready", |answer| !answer.is_empty()).await;
    assert!(ready.is_ok(), "the gateway never answered");
    (running, web)
}

/// An address that is free now.
pub(crate) fn free_address() -> SocketAddr {
    let listener = StdListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address")
}

async fn get(address: SocketAddr, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).await.ok()?;
    let request = format!("GET {path} HTTP/1.0\r\nhost: x\r\n\r\n");
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    head.contains(" 200 ").then(|| body.to_owned())
}

/// Asks until the answer is as wanted. Gives the last answer if it never is.
pub(crate) async fn until(
    address: SocketAddr,
    path: &str,
    wanted: impl Fn(&str) -> bool,
) -> Result<String, String> {
    let begun = Instant::now();
    loop {
        let answer = get(address, path).await.unwrap_or_default();
        if wanted(&answer) {
            return Ok(answer);
        }
        if begun.elapsed() > PATIENCE {
            return Err(answer);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
