//! Clients in JavaScript that others wrote, in one folder of modules (`scripts/setup test` makes it).

use std::io::Write as _;
use std::path::Path;
use std::process::Command;

/// Set where the clients were installed: then a test that cannot find one fails.
const REQUIRED: &str = "OMNI_REQUIRE_CLIENTS";

/// Output of `script`, a module, where `package` is installed; `authority` is the file of a certificate authority
/// that it trusts. Without Node.js or the package prints a note and returns nothing.
///
/// # Panics
/// If the script fails, or if `package` is not there though Node.js is and `OMNI_REQUIRE_CLIENTS` is 1.
pub async fn node(
    package: &str,
    script: &str,
    authority: Option<&Path>,
    arguments: &[&str],
) -> Option<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.tools/clients/node");
    let runs = |program: &str| Command::new(program).arg("--version").output().is_ok();
    let has_package = folder.join("node_modules").join(package).exists();
    if !has_package || !runs("node") {
        let wanted = std::env::var_os(REQUIRED).is_some_and(|value| value == "1");
        let required = wanted && runs("node") && runs("npm");
        assert!(!required, "{package} is not installed in {}", folder.display());
        let word =
            format!("skipped: {package} or Node.js is not installed (scripts/setup test fetches the former)");
        let _ = writeln!(std::io::stderr(), "{word}");
        return None;
    }
    let home = tempfile::tempdir().expect("a directory");
    let modules = home.path().join("node_modules");
    let own = folder.join("node_modules").canonicalize().expect("a folder");
    std::os::unix::fs::symlink(own, modules).expect("a link");
    let file = home.path().join("script.mjs");
    std::fs::write(&file, script).expect("a file");
    let mut call = Command::new("node");
    // Nothing of the tester's but where programs are.
    call.env_clear()
        .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
        .envs([("HOME", home.path()), ("TMPDIR", home.path())])
        .envs(authority.map(|authority| ("NODE_EXTRA_CA_CERTS", authority)))
        .current_dir(home.path());
    call.arg("--preserve-symlinks").arg(&file).args(arguments);
    let output = tokio::task::spawn_blocking(move || call.output()).await;
    let output = output.expect("a thread").expect("Node.js runs");
    let problems = String::from_utf8_lossy(&output.stderr);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{problems}\n{said}");
    Some(said.into_owned())
}
