//! The Python package in `client/python`: its wheel, its own tests, and calls with keys and TLS.

use std::fs;
use std::path::Path;

use omni_config::{Quotas, Scope, new_key};
use omni_tests::{Authority, FakeScript, TestServer, python};

const PACKAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../client/python");

/// Builds the wheel offline, installs it into a folder, and runs the package's tests with the available tools.
const WHEEL: &str = r#"
import os, subprocess, sys
from pathlib import Path

package, address, folder = sys.argv[1:]
pip = [sys.executable, "-I", "-m", "pip", "--quiet", "--disable-pip-version-check"]
build = ["wheel", "--no-deps", "--no-index", "--no-build-isolation", "--wheel-dir", folder, package]
subprocess.run(pip + build, check=True)
(wheel,) = Path(folder).glob("*.whl")
site = Path(folder, "site")
subprocess.run(pip + ["install", "--no-deps", "--no-index", "--no-compile", "--target", str(site), str(wheel)], check=True)
print(wheel.name, (site / "omni_speech/py.typed").exists())
environment = dict(os.environ, PYTHONPATH=str(site), PYTHONDONTWRITEBYTECODE="1", OMNI_TEST_ADDRESS=address)
tests = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", folder, "-c", os.devnull, os.path.join(package, "tests")]
ran = subprocess.run([sys.executable, *tests], env=environment, stdout=subprocess.PIPE, text=True)
print(ran.stdout)
sys.exit(ran.returncode and ran.stdout)
"#;

#[tokio::test]
async fn the_wheel_is_built_and_its_tests_pass_against_a_server() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    let folder = tempfile::tempdir().unwrap();
    let address = server.app.address().to_string();
    let arguments = [PACKAGE, &address, folder.path().to_str().expect("text")];
    let Some(said) = python("omni", "omni-speech", WHEEL, &arguments).await else {
        return;
    };
    assert!(
        said.starts_with("omni_speech-0.1.0-py3-none-any.whl True\n"),
        "{said}"
    );
    assert!(said.contains(" passed") && !said.contains("skipped"), "{said}");
    server
        .until("every session has ended", || server.app.sessions() == 0)
        .await;
    server.stop().await;
}

/// Runs another program as it stands there.
const RUN: &str = r#"
import runpy, sys
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"#;

#[tokio::test]
async fn its_generated_files_are_current() {
    let generate = format!("{PACKAGE}/generate.py");
    let _ = python("omni", "grpcio-tools", RUN, &[&generate, "--check"]).await;
}

/// Script of users with no key, a wrong one, and the right one.
const KEYS: &str = r#"
import sys

package, address, key, authority = sys.argv[1:]
sys.path.insert(0, package + "/src")
from pathlib import Path
from omni_speech import AuthenticationError, Client, UnavailableError

roots = Path(authority).read_bytes()
for api_key in (None, "wrong", key):
    with Client("https://" + address, api_key=api_key, root_certificates=roots, timeout=60) as omni:
        try:
            print(len(omni.speak("Hello.").read()) > 0)
        except AuthenticationError as error:
            print(error.code.name, error.reason)
with Client(address, tls=True, api_key=key, timeout=60) as omni:
    try:
        print(omni.speak("Hello.").read())
    except UnavailableError as error:
        print("not trusted")
"#;

#[tokio::test]
async fn keys_and_certificates_are_those_of_the_client() {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| {
        let path = folder.path().join(name);
        path.to_str().expect("text").to_owned()
    };
    let (key, line) = new_key("somebody", &[Scope::Speech], &Quotas::default()).expect("random bytes");
    fs::write(place("keys"), format!("{line}\n")).unwrap();
    let authority = Authority::new("ours");
    fs::write(place("authority"), &authority.certificate).unwrap();
    let (certificate, private) = authority.server().write(folder.path(), "server");
    let text = |path: &Path| path.to_str().expect("text").to_owned();
    let keys = place("keys");
    let certificate = text(&certificate);
    let private = text(&private);
    let arguments = [
        "--api-keys",
        &keys,
        "--tls-cert",
        &certificate,
        "--tls-key",
        &private,
    ];
    let server = TestServer::fake(FakeScript::default(), &arguments).await;
    let address = server.app.address().to_string();
    let arguments = [PACKAGE, &address, &key, &place("authority")];
    let Some(said) = python("omni", "omni-speech", KEYS, &arguments).await else {
        return;
    };
    let expected = [
        "UNAUTHENTICATED API_KEY_MISSING",
        "UNAUTHENTICATED API_KEY_INVALID",
        "True",
        "not trusted",
    ];
    assert_eq!(said.lines().collect::<Vec<_>>(), expected);
    server.stop().await;
}
