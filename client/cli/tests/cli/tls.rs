//! Encrypted connections, and what is said when there is none.

use std::fs;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use rcgen::{CertificateParams, DnType, KeyPair, date_time_ymd};
use serde_json::Value;

use crate::fake::{Fake, Identity, Script};
use crate::program::{Outcome, Place};

pub(crate) const LOCAL: [&str; 2] = ["localhost", "127.0.0.1"];

fn identity(certificate: &[u8], key: &KeyPair) -> Identity {
    let pem = |label: &str, der: &[u8]| {
        let text = BASE64.encode(der);
        let lines: Vec<_> = text.as_bytes().chunks(64).map(String::from_utf8_lossy).collect();
        format!(
            "-----BEGIN {label}-----\n{}\n-----END {label}-----\n",
            lines.join("\n")
        )
    };
    Identity {
        certificate: pem("CERTIFICATE", certificate),
        key: pem("PRIVATE KEY", &key.serialize_der()),
    }
}

/// A certificate that is its own authority.
pub(crate) fn certificate(names: &[&str]) -> Identity {
    signed(names, |_| {})
}

fn expired() -> Identity {
    signed(&LOCAL, |params| {
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2021, 1, 1);
    })
}

fn signed(names: &[&str], adjust: impl FnOnce(&mut CertificateParams)) -> Identity {
    let owned: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(owned).unwrap();
    params.distinguished_name.push(DnType::CommonName, names[0]);
    adjust(&mut params);
    let key = KeyPair::generate().unwrap();
    identity(params.self_signed(&key).unwrap().der(), &key)
}

/// Check of the encryption by `doctor`: verdict, finding and advice.
fn encryption(outcome: &Outcome) -> (String, String, String) {
    let report: Value = serde_json::from_slice(&outcome.stdout).unwrap_or_else(|_| panic!("{outcome:?}"));
    let checks = report["checks"].as_array().unwrap();
    let check = checks.iter().find(|check| check["name"] == "encryption").unwrap();
    let text = |name: &str| check[name].as_str().unwrap_or_default().to_owned();
    (text("verdict"), text("finding"), text("advice"))
}

#[test]
fn speech_comes_encrypted_from_a_server_that_is_trusted() {
    let identity = certificate(&LOCAL);
    let fake = Fake::encrypted(Script::default(), &identity, None);
    let place = Place::with(&fake);
    fs::write(place.path("ca.pem"), &identity.certificate).unwrap();
    let outcome = place.run(&["speak", "--tls-ca", "ca.pem", "Hello."]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let mut doctor = place.command(&["doctor", "--json"]);
    doctor.env("OMNI_TLS_CA", "ca.pem");
    let outcome = crate::program::finish(doctor.spawn().unwrap());
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let (verdict, finding, _) = encryption(&outcome);
    assert!(verdict == "ok" && finding.contains("TLSv1_3"), "{finding}");
}

#[test]
fn a_call_without_encryption_to_a_server_with_it_is_told_so() {
    let fake = Fake::encrypted(Script::default(), &certificate(&LOCAL), None);
    let encrypted = fake.endpoint();
    let place = Place::at(&encrypted.replacen("https", "http", 1));
    for args in [
        &["speak", "Hello."][..],
        &["voices"],
        &["chat", "Hello."],
        &["health"],
    ] {
        let outcome = place.run(args);
        assert_eq!(outcome.code, Some(64 + 14), "{args:?}: {outcome:?}");
        for text in ["speaks TLS, and the address asks for none", &encrypted] {
            assert!(outcome.stderr.contains(text), "{args:?}: {}", outcome.stderr);
        }
    }
}

#[test]
fn a_server_that_asks_for_a_certificate_is_shown_one() {
    let identity = certificate(&LOCAL);
    let own = certificate(&["backend"]);
    let fake = Fake::encrypted(Script::default(), &identity, Some(&own.certificate));
    let place = Place::with(&fake);
    fs::write(place.path("ca.pem"), &identity.certificate).unwrap();
    fs::write(place.path("own.pem"), &own.certificate).unwrap();
    fs::write(place.path("own.key"), &own.key).unwrap();
    let shown = [
        "--tls-ca",
        "ca.pem",
        "--tls-cert",
        "own.pem",
        "--tls-key",
        "own.key",
    ];
    let outcome = place.run(&[&["speak"], &shown[..], &["Hello."]].concat());
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let outcome = place.run(&["doctor", "--json", "--tls-ca", "ca.pem"]);
    let (verdict, finding, advice) = encryption(&outcome);
    assert!(
        verdict == "wrong" && finding.contains("asks for a certificate"),
        "{finding}"
    );
    assert!(advice.contains("--tls-cert"), "{advice}");
}

#[test]
fn what_is_wrong_with_tls_is_said_in_words() {
    let ours = certificate(&LOCAL);
    let elsewhere = certificate(&["elsewhere.example"]);
    for (identity, trusted, finds, advises) in [
        (&ours, &elsewhere, "no authority that is trusted", "--tls-ca"),
        (&elsewhere, &elsewhere, "for another name", "--tls-server-name"),
        (&expired(), &ours, "has expired", "new certificate"),
    ] {
        let trusted = if finds == "has expired" { identity } else { trusted };
        let fake = Fake::encrypted(Script::default(), identity, None);
        let place = Place::with(&fake);
        fs::write(place.path("ca.pem"), &trusted.certificate).unwrap();
        let outcome = place.run(&["doctor", "--json", "--tls-ca", "ca.pem"]);
        assert_eq!(outcome.code, Some(1));
        let (verdict, finding, advice) = encryption(&outcome);
        assert!(verdict == "wrong" && finding.contains(finds), "{finding}");
        assert!(advice.contains(advises), "{advice}");
        let outcome = place.run(&["voices", "--tls-ca", "ca.pem"]);
        assert_eq!(outcome.code, Some(64 + 14), "{outcome:?}");
        assert!(
            outcome.stderr.contains(finds) && outcome.stderr.contains(advises),
            "{outcome:?}"
        );
    }
}

#[test]
fn a_name_can_be_expected_that_is_not_in_the_address() {
    let identity = certificate(&["elsewhere.example"]);
    let fake = Fake::encrypted(Script::default(), &identity, None);
    let place = Place::with(&fake);
    fs::write(place.path("ca.pem"), &identity.certificate).unwrap();
    let name = ["--tls-server-name", "elsewhere.example"];
    let outcome = place.run(&[&["voices", "--tls-ca", "ca.pem"], &name[..]].concat());
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
}

#[test]
fn encryption_on_one_side_only_is_noticed_on_either() {
    let plain = Fake::start(Script::default());
    let place = Place::at(&plain.endpoint().replace("http://", "https://"));
    fs::write(place.path("ca.pem"), certificate(&LOCAL).certificate).unwrap();
    let outcome = place.run(&["doctor", "--json", "--tls-ca", "ca.pem"]);
    let (verdict, finding, advice) = encryption(&outcome);
    assert!(
        verdict == "wrong" && finding.contains("does not speak TLS"),
        "{finding}"
    );
    assert!(advice.contains("http://"), "{advice}");

    let encrypted = Fake::encrypted(Script::default(), &certificate(&LOCAL), None);
    let place = Place::at(&encrypted.endpoint().replace("https://", "http://"));
    let outcome = place.run(&["doctor", "--json"]);
    let (verdict, finding, advice) = encryption(&outcome);
    assert!(verdict == "wrong" && finding.contains("speaks TLS"), "{finding}");
    assert!(advice.contains("https://"), "{advice}");
}

#[test]
fn settings_that_cannot_be_used_are_wrong_usage() {
    let place = Place::at("https://127.0.0.1:1");
    fs::write(place.path("empty"), "").unwrap();
    for (args, code, says) in [
        (&["--tls-ca", "missing"][..], 4, "missing"),
        (&["--tls-ca", "empty"], 2, "holds no certificate"),
        (&["--tls-cert", "empty"], 2, "--tls-key"),
        (&["--tls-key", "empty"], 2, "--tls-cert"),
    ] {
        let outcome = place.run(&[&["voices"], args].concat());
        assert_eq!(outcome.code, Some(code), "{outcome:?}");
        assert!(outcome.stderr.contains(says), "{outcome:?}");
    }
    let plain = Place::at("http://127.0.0.1:1");
    fs::write(plain.path("ca.pem"), certificate(&LOCAL).certificate).unwrap();
    let outcome = plain.run(&["voices", "--tls-ca", "ca.pem"]);
    assert_eq!(outcome.code, Some(2), "{outcome:?}");
    assert!(outcome.stderr.contains("https://"), "{outcome:?}");
}

#[test]
fn variables_about_tls_are_for_encrypted_servers_only() {
    let fake = Fake::start(Script::default());
    let place = Place::with(&fake);
    for command in ["voices", "stats"] {
        let mut command = place.command(&[command]);
        command
            .env("OMNI_TLS_CA", "missing")
            .env("OMNI_TLS_SERVER_NAME", "elsewhere.example");
        let outcome = crate::program::finish(command.spawn().unwrap());
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
    }
}
