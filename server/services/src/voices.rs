//! Voices that callers keep: made from recordings or descriptions, stored once, selected by name.
//!
//! In: recordings, descriptions and files of voices, each with its caller. Out: voices, and the prompts that speech
//! needs of them. A voice belongs to the API key that made it, and no other key sees it. Voices made without a key,
//! or put into the directory by hand without an owner, are shared by all callers.

mod encoding;
mod error;
mod figures;
mod file;
mod judge;
mod kept;
pub mod parsers;
mod recent;
mod recording;
mod store;
mod voice;

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use omni_audio::Loudness;
use omni_core::caller::{Caller, Tenant};
use omni_core::error::ServeError;
use omni_core::orchestrator::Orchestrator;
use omni_family::{KeptVoices, SpeechInfo, VoiceShape, VoiceSource};
use omni_pipeline::request::{VoicePrompt, VoiceReference};
use omni_telemetry::{VoiceInstruments, VoiceMaterial};

use self::encoding::{Encoded, Encoders};
pub use self::error::VoiceError;
use self::figures::Figures;
use self::kept::Seen;
use self::recent::Recent;
pub use self::recording::{RECORDING_BYTES, Recording, RecordingFormat};
pub use self::store::{Held, StoreLimits, VoiceStore};
use self::voice::check_text;
pub use self::voice::{Content, Owner, StoredVoice, VoiceName};
use super::gate::CallGate;

/// Source of a voice.
#[derive(Debug, Clone)]
pub enum VoiceOrigin {
    /// A recording of a speaker who agreed to it.
    Recording {
        recording: Recording,
        /// Words of the recording. With them the recording is continued in context; empty: the speaker's vector alone
        /// decides.
        transcript: String,
        /// Leaves the recording itself out although there is a transcript.
        x_vector_only: bool,
        /// The caller's statement that the speaker agrees.
        consent: String,
    },
    /// Description in words.
    Description(String),
}

/// A voice to make.
#[derive(Debug, Clone)]
pub struct NewVoice {
    pub name: String,
    pub origin: VoiceOrigin,
    /// For people.
    pub description: String,
}

/// A recording to imitate once, without keeping it.
#[derive(Debug, Clone, PartialEq)]
pub struct Imitation {
    pub recording: Recording,
    pub transcript: String,
    pub x_vector_only: bool,
}

/// A voice as its owner sees it.
#[derive(Debug, Clone)]
pub struct VoiceView {
    pub voice: Arc<StoredVoice>,
    /// Reason why the model that is served cannot speak with it, if it cannot.
    pub problem: Option<String>,
    /// `true` if it outlasts the server.
    pub durable: bool,
}

/// Service of kept voices. Clones share it.
#[derive(Debug, Clone)]
pub struct Voices {
    store: Arc<VoiceStore>,
    orchestrator: Orchestrator,
    gate: CallGate,
    encoders: Encoders,
    recent: Arc<Recent>,
    figures: Figures,
}

impl Voices {
    /// Creates the service over `store`; recordings are normalised to `loudness` before they become voices.
    pub fn new(
        store: VoiceStore,
        orchestrator: Orchestrator,
        gate: CallGate,
        loudness: Option<Loudness>,
        instruments: Arc<VoiceInstruments>,
    ) -> Self {
        let figures = Figures::new(instruments);
        figures.held(&store);
        Self {
            store: Arc::new(store),
            encoders: Encoders::new(gate.deps.clock, loudness, figures.clone()),
            recent: Arc::default(),
            gate,
            orchestrator,
            figures,
        }
    }

    /// Number of voices, and their bounds.
    pub fn held(&self) -> Held {
        self.store.held()
    }

    /// Logs the voices there are, if the model speaks with kept voices.
    pub fn tell(&self) {
        let Ok(pipeline) = self.orchestrator.model() else {
            return;
        };
        let Held { voices, bytes } = self.store.held();
        match pipeline.info.voice_support.source {
            VoiceSource::Recordings if voices == 0 => tracing::warn!(
                "no voices yet: this model speaks with the voices of recordings; add one with `omni-client voices add NAME \
                 --recording FILE --transcript TEXT --i-have-consent`"
            ),
            VoiceSource::Names if voices == 0 => {}
            _ => tracing::info!(voices, bytes, durable = self.store.is_durable(), "voices loaded"),
        }
    }

    /// Makes a voice and keeps it. Nothing is kept if the future is dropped while the voice is computed; a voice
    /// whose file is being written then is kept.
    ///
    /// # Errors
    /// The problem with it, or that there is no room.
    pub async fn create(&self, caller: &Caller, new: NewVoice) -> Result<VoiceView, ServeError> {
        let counted = self.figures.creation(figures::material(&new.origin));
        let made = self.make(caller, new).await;
        counted.ended(&made);
        made
    }

    async fn make(&self, caller: &Caller, new: NewVoice) -> Result<VoiceView, ServeError> {
        let name = VoiceName::new(&new.name)?;
        check_text("description", &new.description)?;
        let owner = Owner::of(caller);
        self.store.check_room(&owner, &name)?;
        let info = Arc::clone(&self.orchestrator.available()?.info);
        own_name(&name, &info)?;
        let _place = self.gate.enter("VoiceService/CreateVoice", caller.clone())?;
        let voice = match new.origin {
            VoiceOrigin::Description(words) => described(&info, &words, new.description)?,
            VoiceOrigin::Recording {
                recording,
                transcript,
                x_vector_only,
                consent,
            } => {
                let shape = shape(&info)?;
                check_text("consent", &consent)?;
                if consent.trim().is_empty() {
                    return Err(VoiceError::ConsentMissing.into());
                }
                let imitation = Imitation {
                    recording,
                    transcript,
                    x_vector_only,
                };
                let (encoded, transcript) = self.encoded(caller.tenant(), imitation).await?;
                Draft {
                    content: Content::Prompt(encoded.prompt),
                    fingerprint: shape.fingerprint.clone(),
                    transcript,
                    consent: consent.trim().to_owned(),
                    description: new.description,
                    duration: encoded.duration,
                }
            }
        };
        let voice = StoredVoice {
            name,
            owner,
            model: info.id.clone(),
            fingerprint: voice.fingerprint,
            content: voice.content,
            transcript: voice.transcript,
            consent: voice.consent,
            description: voice.description,
            duration: voice.duration,
            created: now(),
        };
        self.keep(voice, &info).await
    }

    async fn keep(&self, voice: StoredVoice, info: &SpeechInfo) -> Result<VoiceView, ServeError> {
        voice.check()?;
        if let Some(problem) = voice.misfit(info) {
            let name = voice.name.to_string();
            return Err(VoiceError::Misfit { name, problem }.into());
        }
        let store = Arc::clone(&self.store);
        let figures = self.figures.clone();
        // Reported on that thread, so that a caller that goes away now does not lose its voice.
        let put = on_disk(move || store.put(voice).inspect(|_| figures.held(&store)));
        let voice = put.await?;
        tracing::info!(
            voice = voice.name.as_str(),
            durable = self.store.is_durable(),
            "voice stored"
        );
        Ok(self.view(voice))
    }

    /// The voices of a caller, in the order of their names.
    pub fn list(&self, caller: &Caller) -> Vec<VoiceView> {
        let voices = self.store.list(&Owner::of(caller));
        voices.into_iter().map(|voice| self.view(voice)).collect()
    }

    /// Returns one of them.
    ///
    /// # Errors
    /// If there is none of that name.
    pub fn get(&self, caller: &Caller, name: &str) -> Result<VoiceView, ServeError> {
        let found = self.store.find(&Owner::of(caller), name);
        Ok(self.view(found.ok_or_else(|| VoiceError::not_found(name))?))
    }

    /// Deletes one of them.
    ///
    /// # Errors
    /// If there is none of that name, if it is shared and the caller has a key, or if the file cannot be removed.
    pub async fn delete(&self, caller: &Caller, name: &str) -> Result<(), ServeError> {
        let store = Arc::clone(&self.store);
        let owner = Owner::of(caller);
        let name = name.to_owned();
        let figures = self.figures.clone();
        let removed = on_disk(move || {
            let removed = store.remove(&owner, &name);
            figures.deleted(&removed);
            figures.held(&store);
            removed
        });
        Ok(removed.await?)
    }

    /// The file of a voice, without its owner.
    ///
    /// # Errors
    /// If there is none of that name.
    pub fn export(&self, caller: &Caller, name: &str) -> Result<Vec<u8>, ServeError> {
        let voice = self.get(caller, name)?.voice;
        let anonymous = StoredVoice {
            owner: Owner::shared(),
            ..(*voice).clone()
        };
        Ok(file::encode(&anonymous)?)
    }

    /// Keeps the voice of a file as the caller's, under `name` if that is not empty.
    ///
    /// # Errors
    /// If it is not a file of a voice, if it is of another model, or if there is no room.
    pub async fn import(&self, caller: &Caller, name: &str, data: &[u8]) -> Result<VoiceView, ServeError> {
        let counted = self.figures.creation(VoiceMaterial::File);
        let brought = self.bring(caller, name, data).await;
        counted.ended(&brought);
        brought
    }

    async fn bring(&self, caller: &Caller, name: &str, data: &[u8]) -> Result<VoiceView, ServeError> {
        let _place = self.gate.enter("VoiceService/ImportVoice", caller.clone())?;
        let mut voice = file::decode(data).map_err(|error| VoiceError::File(error.to_string()))?;
        if !name.is_empty() {
            voice.name = VoiceName::new(name)?;
        }
        voice.owner = Owner::of(caller);
        let info = Arc::clone(&self.orchestrator.model()?.info);
        own_name(&voice.name, &info)?;
        self.keep(voice, &info).await
    }

    /// Voice made from a recording that is not kept. Recent ones are cached: callers send the same one with every
    /// request.
    ///
    /// # Errors
    /// The problem with the recording.
    pub async fn imitate(
        &self,
        tenant: Tenant,
        imitation: Imitation,
    ) -> Result<Arc<VoicePrompt>, ServeError> {
        shape(&self.orchestrator.model()?.info)?;
        let prompt = self.encoded(tenant, imitation).await?.0.prompt;
        self.figures.imitated(&prompt);
        Ok(prompt)
    }

    /// The recording as a voice, and its transcript.
    async fn encoded(&self, tenant: Tenant, imitation: Imitation) -> Result<(Encoded, String), ServeError> {
        let Imitation {
            recording,
            transcript,
            x_vector_only,
        } = imitation;
        let transcript = transcript.trim().to_owned();
        check_text("transcript", &transcript)?;
        let in_context = !x_vector_only;
        if in_context && transcript.is_empty() {
            return Err(VoiceError::TranscriptMissing.into());
        }
        let pipeline = self.orchestrator.model()?;
        let hashed = (recording.clone(), in_context.then(|| transcript.clone()));
        let key = pipeline
            .compute
            .run(move || recent::key(&hashed.0, hashed.1.as_deref()));
        let key = key.await;
        let known = self.recent.get(&key);
        self.figures.looked_up(known.is_some());
        if let Some(known) = known {
            return Ok((known, transcript));
        }
        let tokens = if in_context {
            Some((pipeline.encode)(&transcript).map_err(|error| VoiceError::Transcript(error.to_string()))?)
        } else {
            None
        };
        let source = Arc::clone(&pipeline.voice_encoder);
        let encoded = self.encoders.encode(tenant, source, recording, tokens).await?;
        if self.recent.put(key, encoded.clone()) {
            self.figures.evicted();
        }
        Ok((encoded, transcript))
    }

    /// Voices that `caller` may use, for the model's description.
    pub fn seen_by(&self, caller: &Caller, info: &Arc<SpeechInfo>) -> Arc<dyn KeptVoices> {
        Arc::new(Seen {
            store: Arc::clone(&self.store),
            owner: Owner::of(caller),
            info: Arc::clone(info),
            figures: self.figures.clone(),
        })
    }

    /// Description of a model with the voices that `caller` may use.
    pub fn describe(&self, caller: &Caller, info: &Arc<SpeechInfo>) -> Arc<SpeechInfo> {
        if info.voice_support.source == VoiceSource::Names {
            return Arc::clone(info);
        }
        let mut own = SpeechInfo::clone(info);
        own.voice_support.kept = Some(self.seen_by(caller, info));
        Arc::new(own)
    }

    fn view(&self, voice: Arc<StoredVoice>) -> VoiceView {
        let info = self.orchestrator.model().ok().map(|pipeline| &pipeline.info);
        VoiceView {
            problem: info.and_then(|info| voice.misfit(info)),
            durable: self.store.is_durable(),
            voice,
        }
    }
}

/// Runs `work` on the store's disk, on a thread that may block.
async fn on_disk<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, VoiceError> + Send + 'static,
) -> Result<T, VoiceError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| VoiceError::Store("its thread ended early".to_owned()))?
}

/// Properties of a voice besides its name.
struct Draft {
    content: Content,
    fingerprint: String,
    transcript: String,
    consent: String,
    description: String,
    duration: std::time::Duration,
}

fn described(info: &SpeechInfo, words: &str, description: String) -> Result<Draft, ServeError> {
    check_text("design", words)?;
    let words = words.trim();
    match info.voice_support.source {
        VoiceSource::Descriptions if !words.is_empty() => Ok(Draft {
            content: Content::Description(words.into()),
            fingerprint: String::new(),
            transcript: String::new(),
            consent: String::new(),
            description,
            duration: std::time::Duration::ZERO,
        }),
        VoiceSource::Descriptions => Err(VoiceError::DescriptionMissing.into()),
        source => Err(VoiceError::not_possible("a description", source).into()),
    }
}

/// Dimensions of the model's voices from recordings.
fn shape(info: &SpeechInfo) -> Result<&VoiceShape, VoiceError> {
    let shape = info.voice_support.shape.as_ref();
    shape.ok_or_else(|| VoiceError::not_possible("a recording", info.voice_support.source))
}

/// Refuses a name that stands for one of the model's own voices.
fn own_name(name: &VoiceName, info: &SpeechInfo) -> Result<(), VoiceError> {
    let taken = info
        .voices
        .iter()
        .any(|voice| VoiceName::key(&voice.id) == VoiceName::key(name.as_str()));
    if taken {
        Err(VoiceError::Exists {
            name: name.to_string(),
        })
    } else {
        Ok(())
    }
}

fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |time| time.as_secs())
}
