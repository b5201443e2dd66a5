//! `/v1/audio/voices`, and recordings in `/v1/audio/speech`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use omni_tests::http;
use serde_json::{Value, json};

use crate::support::{CONSENT, TEXT, babble, base, wav};

const VOICES: &str = "/v1/audio/voices";
const FORM: (&str, &str) = ("content-type", "multipart/form-data; boundary=edge");
const JSON: (&str, &str) = ("content-type", "application/json");

/// A form as curl sends it.
fn form(fields: &[(&str, &[u8])]) -> Vec<u8> {
    let mut body = Vec::new();
    for (name, data) in fields {
        body.extend(format!("--edge\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n").as_bytes());
        body.extend_from_slice(data);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(b"--edge--\r\n");
    body
}

fn read(body: &[u8]) -> Value {
    serde_json::from_slice(body).expect("JSON")
}

#[tokio::test]
async fn voices_are_uploaded_listed_spoken_with_and_deleted() {
    let server = base(&[]).await;
    let recording = wav(&babble(2.0, 120.0));
    let fields: [(&str, &[u8]); 5] = [
        ("name", b"Anna Lena"),
        ("consent", CONSENT.as_bytes()),
        ("ref_text", b"Short ref."),
        ("speaker_description", b"calm"),
        ("audio_sample", &recording),
    ];
    let made = http(&server, "POST", VOICES, &[FORM], form(&fields)).await;
    assert_eq!(made.status, 200, "{}", String::from_utf8_lossy(&made.body));
    let voice = read(&made.body)["voice"].clone();
    assert_eq!(
        (&voice["name"], &voice["kind"]),
        (&json!("Anna Lena"), &json!("in_context"))
    );
    assert_eq!(voice["durable"], json!(false));

    let listed = read(&http(&server, "GET", VOICES, &[], "").await.body);
    assert_eq!(listed["voices"][0]["id"], json!("Anna Lena"));
    assert_eq!(listed["names"], json!(["Anna Lena"]));
    assert_eq!(listed["uploaded_voices"][0]["consent"], json!(CONSENT));

    let speak = |voice: Value| {
        json!({"input": TEXT, "voice": voice, "response_format": "pcm", "seed": 1}).to_string()
    };
    let spoken = http(
        &server,
        "POST",
        "/v1/audio/speech",
        &[JSON],
        speak(json!("anna lena")),
    )
    .await;
    assert_eq!(spoken.status, 200, "{}", String::from_utf8_lossy(&spoken.body));
    assert!(!spoken.body.is_empty());

    let gone = http(&server, "DELETE", "/v1/audio/voices/Anna%20Lena", &[], "").await;
    assert_eq!(gone.status, 200);
    assert_eq!(
        http(&server, "DELETE", "/v1/audio/voices/Anna%20Lena", &[], "")
            .await
            .status,
        404
    );
    let refused = http(
        &server,
        "POST",
        "/v1/audio/speech",
        &[JSON],
        speak(json!("anna lena")),
    )
    .await;
    assert_eq!(
        (
            refused.status.as_u16(),
            read(&refused.body)["error"]["code"].clone()
        ),
        (400, json!("voice_not_found"))
    );
    server.stop().await;
}

#[tokio::test]
async fn forms_that_make_no_voice_say_why() {
    let server = base(&[]).await;
    let recording = wav(&babble(2.0, 120.0));
    let hush = wav(&vec![0.0; 48_000]);
    let with = |fields: &[(&str, &[u8])]| form(fields);
    for (body, code, param) in [
        (
            with(&[("name", b"a"), ("audio_sample", &recording)]),
            "consent_missing",
            "consent",
        ),
        (
            with(&[("name", b"a"), ("consent", b"yes"), ("audio_sample", &hush)]),
            "recording_silent",
            "audio_sample",
        ),
        (
            with(&[
                ("name", b"a/b"),
                ("consent", b"yes"),
                ("audio_sample", &recording),
            ]),
            "voice_name_invalid",
            "name",
        ),
        (
            with(&[("name", b"a"), ("consent", b"yes")]),
            "invalid_field",
            "audio_sample",
        ),
        (
            with(&[
                ("name", b"a"),
                ("consent", b"yes"),
                ("x_vector_only_mode", b"false"),
                ("audio_sample", &recording),
            ]),
            "transcript_missing",
            "ref_text",
        ),
    ] {
        let answer = http(&server, "POST", VOICES, &[FORM], body).await;
        let error = read(&answer.body)["error"].clone();
        assert_eq!(
            (answer.status.as_u16(), &error["code"], &error["param"]),
            (400, &json!(code), &json!(param))
        );
    }
    let unknown = http(&server, "POST", VOICES, &[FORM], form(&[("nmae", b"a")])).await;
    assert!(
        read(&unknown.body)["error"]["message"]
            .to_string()
            .contains("nmae")
    );
    let page = [FORM, ("origin", "https://evil.example")];
    let fields: [(&str, &[u8]); 3] = [("name", b"a"), ("consent", b"yes"), ("audio_sample", &recording)];
    let foreign = http(&server, "POST", VOICES, &page, form(&fields)).await;
    assert_eq!(foreign.status, 403, "a page of another origin");
    let kind = http(&server, "POST", VOICES, &[JSON], "{}").await;
    assert_eq!(kind.status, 415);
    let large = http(&server, "POST", VOICES, &[FORM], vec![b'x'; 11 << 20]).await;
    assert_eq!(large.status, 413);
    server.stop().await;
}

#[tokio::test]
async fn a_recording_comes_with_a_request_and_is_never_fetched() {
    let server = base(&[]).await;
    let recording = BASE64.encode(wav(&babble(2.0, 120.0)));
    let ask = |ref_audio: String, ref_text: &str| {
        let body = json!({
            "input": TEXT, "response_format": "pcm", "seed": 1, "ref_audio": ref_audio, "ref_text": ref_text,
        });
        body.to_string()
    };
    let mut heard = Vec::new();
    for (audio, text) in [
        (format!("data:audio/wav;base64,{recording}"), "Short ref."),
        (recording.clone(), "Short ref."),
        (recording.clone(), ""),
    ] {
        let answer = http(&server, "POST", "/v1/audio/speech", &[JSON], ask(audio, text)).await;
        assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
        heard.push(answer.body);
    }
    assert!(heard[0] == heard[1] && heard[0] != heard[2]);
    for (audio, says) in [
        ("https://example.org/a.wav".to_owned(), "does not fetch"),
        ("file:///etc/passwd".to_owned(), "does not fetch"),
        (BASE64.encode(wav(&vec![0.0; 48_000])), "silent"),
    ] {
        let answer = http(&server, "POST", "/v1/audio/speech", &[JSON], ask(audio, "x")).await;
        let error = read(&answer.body)["error"].clone();
        assert_eq!(
            (answer.status.as_u16(), &error["param"]),
            (400, &json!("ref_audio")),
            "{error}"
        );
        assert!(error["message"].to_string().contains(says), "{error}");
    }
    server.stop().await;
}
