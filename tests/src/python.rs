//! Clients in Python that others wrote, each in an environment of its own (`scripts/setup test` makes them).

use std::io::Write as _;
use std::path::Path;
use std::process::Command;

/// Set where the clients were installed: then a test that cannot find one fails.
const REQUIRED: &str = "OMNI_REQUIRE_CLIENTS";

/// Output of `script` where `package` is installed, in the environment called `client`. Without it prints a note and
/// returns nothing.
///
/// # Panics
/// If the script fails, or if `package` is not there and `OMNI_REQUIRE_CLIENTS` is 1.
pub async fn python(client: &str, package: &str, script: &str, arguments: &[&str]) -> Option<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.tools/clients");
    let program = folder.join(client).join("bin/python");
    if !program.exists() {
        let required = std::env::var_os(REQUIRED).is_some_and(|value| value == "1");
        assert!(
            !required,
            "{package} is not installed: {} is not there",
            program.display()
        );
        let word = format!("skipped: {package} is not installed (scripts/setup test fetches it)");
        let _ = writeln!(std::io::stderr(), "{word}");
        return None;
    }
    let home = tempfile::tempdir().expect("a directory");
    let mut call = Command::new(program);
    // Nothing of the tester's: no settings of Python or of the client, no proxies, no ~/.netrc, no packages of the
    // user.
    call.env_clear()
        .envs([("HOME", home.path()), ("TMPDIR", home.path())])
        .current_dir(home.path());
    call.args(["-I", "-c", script]).args(arguments);
    let output = tokio::task::spawn_blocking(move || call.output()).await;
    let output = output.expect("a thread").expect("Python runs");
    let problems = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{problems}");
    Some(String::from_utf8(output.stdout).expect("text"))
}
