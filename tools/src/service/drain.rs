//! Cost of a shutdown for calls that are receiving audio.

use std::path::Path;
use std::time::Instant;

use omni_proto::v1;
use omni_proto::v1::speech_service_client::SpeechServiceClient;
use omni_tests::{Call, audio_of, config, finish, seeded, text};

use super::{LONG, server, warm};
use crate::line::Line;

/// Tells a server to end while `streams` utterances are being heard.
///
/// # Errors
/// If a server cannot be started or reached.
pub async fn drain(program: &Path, streams: usize) -> anyhow::Result<String> {
    // All of them are active at once, beyond the default limit.
    let server = server(program, &["--max-active", &streams.to_string()])?;
    let line = Line::open(server.target().address).await?;
    warm(&line.channel).await?;
    let mut client = SpeechServiceClient::new(line.channel.clone());
    let (expected, _) = audio_of(&mut client, seeded(1), LONG).await?;
    let mut calls = Vec::new();
    for _ in 0..streams {
        let mut call = Call::try_open(&mut client, None).await?;
        call.send(config(seeded(1))).await;
        call.ready().await;
        call.send(text(LONG)).await;
        call.send(finish()).await;
        calls.push(call);
    }
    for call in &mut calls {
        call.first_audio().await;
    }
    let told = Instant::now();
    server.terminate();
    let ends = futures::future::join_all(calls.iter_mut().map(Call::utterance)).await;
    let whole = ends
        .iter()
        .filter(|end| end.finish() == v1::FinishReason::Stop && end.audio == expected)
        .count();
    drop((calls, client, line));
    let (status, errors) = tokio::task::spawn_blocking(|| server.wait()).await??;
    let took = told.elapsed().as_secs_f64();
    let lost = streams - whole;
    anyhow::ensure!(errors.is_empty(), "{}", errors.join("\n"));
    anyhow::ensure!(
        lost == 0,
        "{lost} of {streams} utterances did not end with the audio of an undisturbed one"
    );
    Ok(format!(
        "| | |\n|---|--:|\n| utterances being heard when SIGTERM came | {streams} |\n| of them ended with the very audio of an undisturbed \
         one | {whole} |\n| lost | {lost} |\n| SIGTERM to the end of the process | {took:.2} s, {status} |\n"
    ))
}
