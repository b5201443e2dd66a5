//! `voices add`, `design`, `show`, `remove`, `export` and `import`: voices that a server keeps.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use omni_client::{Client, ClientError, Endpoint, KeptVoice, VoiceKind, VoiceOrigin, VoiceRecording};
use serde_json::{Value, json};

use super::args::{Add, Consent, Design, Export, Import, Show, VoicesCommand};
use super::deadline::Deadline;
use super::failure::Failure;
use super::print;
use super::ui::Ui;

/// Consent stated where the user gives none.
const CONSENT: &str = "The caller states that the speaker agreed to this voice.";
/// Largest recording that is read, in bytes: what servers take.
const LARGEST: u64 = 10 << 20;

pub(crate) async fn run(command: &VoicesCommand, ui: &Ui) -> Result<(), Failure> {
    match command {
        VoicesCommand::Add(add) => self::add(add, ui).await,
        VoicesCommand::Design(design) => self::design(design, ui).await,
        VoicesCommand::Show(show) => self::show(show, ui).await,
        VoicesCommand::Remove(remove) => {
            let ask = async |client: Client| client.delete_voice(&remove.name).await;
            asked(&remove.server.endpoint, remove.timeout, ui, ask).await?;
            ui.note(&format!("removed voice {}", remove.name));
            Ok(())
        }
        VoicesCommand::Export(export) => self::export(export, ui).await,
        VoicesCommand::Import(import) => self::import(import, ui).await,
    }
}

async fn add(add: &Add, ui: &Ui) -> Result<(), Failure> {
    let recording = VoiceRecording {
        audio: read(&add.recording)?,
        transcript: add.transcript.clone().unwrap_or_default(),
        x_vector_only: add.x_vector_only,
        consent: stated(&add.consent),
    };
    let ask = async |client: Client| {
        let origin = VoiceOrigin::Recording(recording);
        client.create_voice(&add.name, origin, &add.description).await
    };
    let voice = asked(&add.server.endpoint, add.timeout, ui, ask).await?;
    kept(&voice, ui);
    Ok(())
}

async fn design(design: &Design, ui: &Ui) -> Result<(), Failure> {
    let ask = async |client: Client| {
        let origin = VoiceOrigin::Design(design.words.clone());
        client
            .create_voice(&design.name, origin, &design.description)
            .await
    };
    let voice = asked(&design.server.endpoint, design.timeout, ui, ask).await?;
    kept(&voice, ui);
    Ok(())
}

async fn show(show: &Show, ui: &Ui) -> Result<(), Failure> {
    let ask = async |client: Client| client.kept_voice(&show.name).await;
    let voice = asked(&show.server.endpoint, show.timeout, ui, ask).await?;
    if show.json {
        print(format!("{:#}\n", voice_json(&voice)).as_bytes())
    } else {
        print(lines(&voice).as_bytes())
    }
}

async fn export(export: &Export, ui: &Ui) -> Result<(), Failure> {
    let path = export.output.clone();
    let path = path.unwrap_or_else(|| PathBuf::from(format!("{}.safetensors", export.name)));
    let name = path.display().to_string();
    // Before the server is asked: what is there is not lost.
    let file = OpenOptions::new().write(true).create_new(true).open(&path);
    let mut file = file.map_err(|error| Failure::write(&name, error))?;
    let ask = async |client: Client| client.export_voice(&export.name).await;
    let written = match asked(&export.server.endpoint, export.timeout, ui, ask).await {
        Ok(data) => file
            .write_all(&data)
            .map_err(|error| Failure::write(&name, error)),
        Err(failure) => Err(failure),
    };
    if written.is_err() {
        let _ = fs::remove_file(&path);
    } else {
        ui.note(&format!("wrote voice {} to {name}", export.name));
    }
    written
}

async fn import(import: &Import, ui: &Ui) -> Result<(), Failure> {
    let data = read(&import.file)?;
    let ask = async |client: Client| client.import_voice(data, &import.name).await;
    let voice = asked(&import.server.endpoint, import.timeout, ui, ask).await?;
    kept(&voice, ui);
    Ok(())
}

/// Answer of the server within the timeout.
async fn asked<T>(
    endpoint: &Endpoint,
    timeout: Duration,
    ui: &Ui,
    ask: impl AsyncFnOnce(Client) -> Result<T, ClientError>,
) -> Result<T, Failure> {
    let answer = async { ask(Client::connect(endpoint).await?).await };
    let answer = Deadline::after(Some(timeout)).within(answer);
    ui.patiently(|| format!("waiting for {endpoint}"), answer).await
}

fn stated(consent: &Consent) -> String {
    consent.consent.clone().unwrap_or_else(|| CONSENT.to_owned())
}

/// A file that is not too large to be sent.
fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let unreadable = |error| Failure::io(format!("cannot read {}", path.display()), error);
    let bytes = fs::metadata(path).map_err(unreadable)?.len();
    if bytes > LARGEST {
        let name = path.display();
        return Err(Failure::Usage(format!(
            "{name} has {bytes} bytes, expected at most {LARGEST}\n  60 s of speech do: cut it, or make FLAC of it"
        )));
    }
    fs::read(path).map_err(unreadable)
}

fn kept(voice: &KeptVoice, ui: &Ui) {
    let until = if voice.durable {
        ""
    } else {
        " until the server ends (it was started without --voices)"
    };
    ui.note(&format!("voice {} is kept{until}", voice.name));
}

fn kind(voice: &KeptVoice) -> &'static str {
    match voice.kind {
        VoiceKind::XVector => "x_vector",
        VoiceKind::InContext => "in_context",
        VoiceKind::Description => "description",
        VoiceKind::Unknown => "unknown",
    }
}

/// One line per fact that there is.
fn lines(voice: &KeptVoice) -> String {
    let seconds = voice.duration.as_secs_f64();
    let recording = if seconds > 0.0 {
        format!("{seconds:.1} s")
    } else {
        String::new()
    };
    let facts = [
        ("name", voice.name.clone()),
        ("kind", kind(voice).to_owned()),
        ("description", voice.description.clone()),
        ("design", voice.design.clone()),
        ("model", voice.model.clone()),
        ("recording", recording),
        ("transcript", voice.transcript.clone()),
        ("consent", voice.consent.clone()),
        (
            "created",
            omni_bench::day(u64::try_from(voice.created).unwrap_or_default()),
        ),
        (
            "owner",
            if voice.shared {
                "all callers"
            } else {
                "this API key"
            }
            .to_owned(),
        ),
        (
            "kept",
            if voice.durable {
                "on disk"
            } else {
                "until the server ends"
            }
            .to_owned(),
        ),
        ("problem", voice.problem.clone()),
    ];
    let facts = facts.iter().filter(|(_, value)| !value.is_empty());
    facts
        .map(|(name, value)| format!("{name:<12} {value}\n"))
        .collect()
}

fn voice_json(voice: &KeptVoice) -> Value {
    json!({
        "name": voice.name,
        "kind": kind(voice),
        "description": voice.description,
        "design": voice.design,
        "model": voice.model,
        "duration_s": voice.duration.as_secs_f64(),
        "transcript": voice.transcript,
        "consent": voice.consent,
        "created": voice.created,
        "shared": voice.shared,
        "durable": voice.durable,
        "problem": voice.problem,
    })
}
