//! Studio in a browser: Chromium, driven by the scripts in `server/studio/page/test`; `scripts/setup test` installs
//! them.

use std::env;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Set where a browser and its driver are: then a test that cannot find them fails.
const REQUIRED: &str = "OMNI_REQUIRE_BROWSER";
/// The browser, if it is another one than Debian's.
const CHROMIUM: &str = "OMNI_TEST_CHROMIUM";
/// A folder for pictures of every view that is judged; without it there are none.
const PICTURES: &str = "OMNI_TEST_SCREENSHOTS";

/// Runs `scenario` (a function in the folder `test` of the page) in a browser on the page of the server at `url`, with
/// `values` (JSON). Without a browser it prints a note and returns `false`.
///
/// # Panics
/// If the scenario fails, or if there is no browser and `OMNI_REQUIRE_BROWSER` is 1.
pub async fn browse(scenario: &str, url: &str, values: &str) -> bool {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../server/studio/page");
    let chromium = env::var_os(CHROMIUM).map_or_else(|| found("chromium"), |path| Some(path.into()));
    let driver = folder.join("node_modules/puppeteer-core");
    let (Some(node), Some(chromium), true) = (found("node"), chromium, driver.exists()) else {
        let required = env::var_os(REQUIRED).is_some_and(|value| value == "1");
        assert!(
            !required,
            "node, chromium or the packages of server/studio/page/package.json are not there"
        );
        let word = "skipped: node, chromium or its driver is not installed (scripts/setup test fetches them)";
        let _ = writeln!(std::io::stderr(), "{word}");
        return false;
    };
    let home = tempfile::tempdir().expect("a directory");
    let mut call = Command::new(node);
    // Nothing of the tester's: no settings of Node or of the browser, no proxies.
    call.env_clear()
        .envs([("HOME", home.path()), ("TMPDIR", home.path())])
        .env("PATH", env::var_os("PATH").unwrap_or_default())
        .env(CHROMIUM, chromium)
        .envs(env::var_os(PICTURES).map(|folder| (PICTURES, folder)))
        .current_dir(home.path());
    call.arg(folder.join("test/run.mjs"))
        .args([scenario, url, values]);
    let output = tokio::task::spawn_blocking(move || call.output()).await;
    let output = output.expect("a thread").expect("Node runs");
    let problems = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{scenario}: {problems}");
    true
}

/// A program on the path.
fn found(name: &str) -> Option<PathBuf> {
    let paths = env::var_os("PATH")?;
    env::split_paths(&paths)
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
}
