//! `chat`: a conversation at a terminal or of a script; answers are shown and spoken while they are being made.

mod audio_out;
mod command;
mod conversation;
mod editing;
mod history;
mod input;
mod latency;
mod said;
mod session;
mod transcript;
mod turn;
mod voice;
mod words;

use std::path::PathBuf;

use super::args::Chat;
use super::failure::Failure;
use super::interrupt::Interrupts;
use super::ui::Ui;
use audio_out::AudioOut;
use conversation::Conversation;
use input::Input;
use said::{Said, Speech};
use words::Words;

pub(crate) async fn run(args: &Chat, ui: &Ui) -> Result<(), Failure> {
    // Usage errors come before any request to a server.
    let first = first(args)?;
    let mut settings = args.settings();
    settings.input = first
        .as_ref()
        .and_then(|said| said.speech.as_ref())
        .map(|speech| speech.format);
    let audio = AudioOut::open(args.audio_out.as_deref())?;
    let interrupts = Interrupts::catch()?;
    let words = Words::start(audio.is_stdout());
    let input = Input::open(|| history(args, ui))?;
    let mut conversation = Conversation::new(args, ui, settings, input, words, audio, interrupts);
    let result = conversation.hold(first).await;
    let (mut audio, mut interrupts) = conversation.leave(result.is_ok()).await;
    let signals = u32::from(matches!(result, Err(Failure::Interrupted(_))));
    let written = interrupts.while_closing(signals, audio.finish()).await;
    match (result, written) {
        // No reader is left to tell.
        (_, Err(Failure::ReaderGone)) => Err(Failure::ReaderGone),
        (Err(failure), _) => Err(failure),
        (Ok(()), written) => written,
    }
}

/// File of the prompt's lines; the prompt works without one, too.
fn history(args: &Chat, ui: &Ui) -> Option<PathBuf> {
    let path = history::path().filter(|_| !args.no_history)?;
    match history::create(&path) {
        Ok(()) => Some(path),
        Err(error) => {
            ui.warning(&format!("lines are not kept in {}: {error}", path.display()));
            None
        }
    }
}

/// The first message that the arguments give.
fn first(args: &Chat) -> Result<Option<Said>, Failure> {
    let speech = args.audio_in.as_deref().map(Speech::read).transpose()?;
    let text = args.text.join(" ");
    if !args.text.is_empty() && text.trim().is_empty() {
        return Err(Failure::Usage("the text is empty".into()));
    }
    let text = (!text.is_empty()).then_some(text);
    Ok((speech.is_some() || text.is_some()).then_some(Said { speech, text }))
}
