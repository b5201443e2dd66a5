//! Clients in Python that others wrote, each in an environment of its own (`scripts/setup test` makes them).

use std::io::Write as _;
use std::path::Path;
use std::process::Command;

/// What `script` prints where `package` is installed, in the environment called `client`. Without it says so, and gives nothing.
///
/// # Panics
/// If the script fails.
pub async fn python(client: &str, package: &str, script: &str, arguments: &[&str]) -> Option<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.tools/clients");
    let program = folder.join(client).join("bin/python");
    if !program.exists() {
        let word = format!("skipped: {package} is not installed (scripts/setup test fetches it)");
        let _ = writeln!(std::io::stderr(), "{word}");
        return None;
    }
    let mut call = Command::new(program);
    call.args(["-c", script]).args(arguments);
    let output = tokio::task::spawn_blocking(move || call.output()).await;
    let output = output.expect("a thread").expect("Python runs");
    let problems = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{problems}");
    Some(String::from_utf8(output.stdout).expect("text"))
}
