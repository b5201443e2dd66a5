//! Cost of open sessions in which nothing happens.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use omni_proto::v1;
use omni_proto::v1::chat_service_client::ChatServiceClient;
use omni_proto::v1::speech_service_client::SpeechServiceClient;
use omni_tests::{Call, ChatCall, chat_config, config, finish, seeded, text};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::{server, warm};
use crate::line::Line;
use crate::soak::resident;

/// Longest time for memory to settle after something was opened.
const SETTLING: Duration = Duration::from_secs(2);

/// Kind of the sessions.
#[derive(Debug, Clone, Copy)]
enum Manner {
    Speak,
    Spoken,
    Converse,
}

/// Opens `sessions` of each kind on as many connections, and on a tenth of them; reports the memory of each.
///
/// # Errors
/// If a server cannot be started or reached.
pub async fn idle(program: &Path, sessions: usize) -> anyhow::Result<String> {
    // Every connection is a file, here and in the server, which gets this from us.
    let limit = getrlimit(Resource::Nofile);
    setrlimit(
        Resource::Nofile,
        Rlimit {
            current: limit.maximum,
            ..limit
        },
    )?;
    let mut out = format!("{sessions} sessions in which nothing happens, resident KB for each:\n\n");
    out.push_str("| | a connection each | ten on a connection |\n|---|--:|--:|\n");
    let kinds = [
        ("`Speak`, configured", Manner::Speak),
        ("`Speak`, after one utterance", Manner::Spoken),
        ("`Converse`, configured", Manner::Converse),
    ];
    for (name, manner) in kinds {
        let mut cells = Vec::new();
        for per_line in [1, 10] {
            cells.push(cost(program, sessions, per_line, manner).await?);
        }
        let _ = writeln!(out, "| {name} | {:.1} | {:.1} |", cells[0], cells[1]);
    }
    Ok(out)
}

/// Resident kilobytes for each session.
async fn cost(program: &Path, sessions: usize, per_line: usize, manner: Manner) -> anyhow::Result<f64> {
    let most = (sessions + 8).to_string();
    let server = server(
        program,
        &[
            "--max-sessions",
            &most,
            "--max-connections",
            &most,
            "--max-connections-per-peer",
            &most,
            "--idle-timeout",
            "1h",
        ],
    )?;
    let target = server.target();
    let first = Line::open(target.address).await?;
    warm(&first.channel).await?;
    tokio::time::sleep(SETTLING).await;
    let before = resident(target.process)?;
    let mut lines = Vec::new();
    let mut calls = Vec::new();
    let mut chats = Vec::new();
    for number in 0..sessions {
        if number % per_line == 0 {
            lines.push(Line::open(target.address).await?);
        }
        let channel = lines.last().unwrap_or(&first).channel.clone();
        match manner {
            Manner::Converse => {
                let mut chat = ChatCall::try_open(&mut ChatServiceClient::new(channel), None).await?;
                chat.configure(chat_config(true)).await;
                chats.push(chat);
            }
            Manner::Speak | Manner::Spoken => {
                let mut call = Call::try_open(&mut SpeechServiceClient::new(channel), None).await?;
                call.send(config(seeded(1))).await;
                call.ready().await;
                if matches!(manner, Manner::Spoken) {
                    call.send(text("Yes.")).await;
                    call.send(finish()).await;
                    let spoken = call.utterance().await;
                    anyhow::ensure!(spoken.finish() == v1::FinishReason::Stop, "{spoken:?}");
                }
                calls.push(call);
            }
        }
    }
    tokio::time::sleep(SETTLING).await;
    let after = resident(target.process)?;
    Ok(after.saturating_sub(before) as f64 / sessions as f64 / 1024.0)
}
