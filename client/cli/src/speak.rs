//! `speak`: text in, audio into a file or a pipe, one summary at the end.

mod cues;
mod feed;
mod session;
mod subtitles;

use std::fs;
use std::io;

use omni_client::{Client, SampleRate, SpeechSettings};

use super::args::Speak;
use super::deadline::Deadline;
use super::diagnosis::diagnosed;
use super::failure::Failure;
use super::format::Format;
use super::interrupt::Interrupts;
use super::output::Output;
use super::sink::Sink;
use super::summary::{Destination, Summary};
use super::text::Text;
use super::ui::Ui;
use session::{Session, Stop};
use subtitles::{Place, Subtitles};

pub(crate) async fn run(args: &Speak, ui: &Ui) -> Result<(), Failure> {
    let asked = Destination {
        name: args.output.display().to_string(),
        format: args.format.map_or_else(String::new, Format::name),
        replaced: false,
    };
    let mut summary = Summary::new(args.server.endpoint.clone(), asked);
    match attempt(args, ui, &mut summary).await {
        Ok(signal) => {
            let failure = signal.map(Failure::Interrupted);
            if !args.json {
                summary.lines().iter().for_each(|line| ui.note(line));
            }
            report(args, ui, &summary, failure.as_ref())?;
            failure.map_or(Ok(()), Err)
        }
        // No reader is left for a summary.
        Err(Failure::ReaderGone) => Err(Failure::ReaderGone),
        Err(failure) => {
            let failure = diagnosed(failure).await;
            // Before the JSON, which programs expect on the last line.
            failure.tell(ui);
            if let Err(unwritten) = report(args, ui, &summary, Some(&failure)) {
                unwritten.tell(ui);
            }
            Err(Failure::Told(Box::new(failure)))
        }
    }
}

/// Speaks. `Ok` carries the signal that cut it short, if one did.
async fn attempt(args: &Speak, ui: &Ui, summary: &mut Summary) -> Result<Option<u8>, Failure> {
    // Usage errors come before any request to a server.
    let text = Text::open(&args.text, args.file.as_deref(), args.repeat > 1)?;
    let subtitles = args.subtitles.as_deref();
    let subtitles = subtitles.map(|path| Place::new(path, &args.output)).transpose()?;
    let output = Output::open(&args.output, args.format)?;
    let (rate, mut subtitles) = match prepare(args, &output, subtitles) {
        Ok(prepared) => prepared,
        Err(failure) => {
            // A file without audio is removed; the cause is reported elsewhere.
            let _: io::Result<()> = output.finish();
            return Err(failure);
        }
    };
    let settings = SpeechSettings {
        sample_rate: rate,
        ..args.settings()
    };
    summary.destination(Destination {
        name: output.name(),
        format: output.format().name(),
        replaced: output.replaces(),
    });
    let mut interrupts = Interrupts::catch()?;
    let sink = Sink::to(output);
    let stop = converse(
        args,
        &settings,
        ui,
        text,
        (&sink, subtitles.as_mut()),
        &mut interrupts,
        summary,
    )
    .await;
    let written = finish(sink, subtitles, &mut interrupts, &stop).await;
    ui.clear();
    match (stop, written) {
        (_, Err(Failure::ReaderGone)) => Err(Failure::ReaderGone),
        (Err(Stop::Aborted(signal)), _) => Err(Failure::Interrupted(signal)),
        (Err(Stop::Failed(failure)), _) => {
            summary.tell_what_is_left(ui);
            Err(failure)
        }
        (Err(Stop::WriterGone) | Ok(_), Err(failure)) => Err(failure),
        (Err(Stop::WriterGone), Ok(())) => Err(Failure::ReaderGone),
        (Ok(signal), Ok(())) => Ok(signal),
    }
}

/// The required sample rate, if any, and an open file for subtitles. That is opened last, because opening truncates
/// it.
fn prepare(
    args: &Speak,
    output: &Output,
    subtitles: Option<Place<'_>>,
) -> Result<(Option<SampleRate>, Option<Subtitles>), Failure> {
    let rate = output.format().rate(args.rate);
    let rate = rate.map_err(|error| Failure::Usage(error.to_string()))?;
    Ok((rate, subtitles.map(Place::open).transpose()?))
}

/// Everything between an open destination and its closing. `Ok` carries the signal that cut it short, if one did.
async fn converse(
    args: &Speak,
    settings: &SpeechSettings,
    ui: &Ui,
    mut text: Text,
    (sink, subtitles): (&Sink, Option<&mut Subtitles>),
    interrupts: &mut Interrupts,
    summary: &mut Summary,
) -> Result<Option<u8>, Stop> {
    let deadline = Deadline::after(args.timeout);
    ui.progress(|| format!("connecting to {}", args.server.endpoint));
    let client = tokio::select! {
        client = deadline.within(Client::connect(&args.server.endpoint)) => client.map_err(Stop::Failed)?,
        signal = interrupts.next() => return Err(Stop::Aborted(signal)),
    };
    let mut session =
        Session::open(&client, settings, sink, ui, interrupts, deadline).with_subtitles(subtitles);
    session.speak(&mut text, args.repeat, summary).await
}

/// Closes the files.
async fn finish(
    sink: Sink,
    subtitles: Option<Subtitles>,
    interrupts: &mut Interrupts,
    stop: &Result<Option<u8>, Stop>,
) -> Result<(), Failure> {
    let signals = match stop {
        Err(Stop::Aborted(_)) => 2,
        Ok(Some(_)) => 1,
        _ => 0,
    };
    let closing = async {
        let audio = sink.finish().await;
        match subtitles {
            Some(subtitles) => subtitles.finish().await.and(audio),
            None => audio,
        }
    };
    interrupts.while_closing(signals, closing).await
}

/// Writes the machine-readable summary, if requested.
fn report(args: &Speak, ui: &Ui, summary: &Summary, failure: Option<&Failure>) -> Result<(), Failure> {
    let json = summary.json(failure);
    if let Some(path) = &args.summary {
        fs::write(path, format!("{json:#}\n"))
            .map_err(|error| Failure::write(&path.display().to_string(), error))?;
    }
    if args.json {
        ui.note(&json.to_string());
    }
    Ok(())
}
