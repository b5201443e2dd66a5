//! The models that are compared, each loaded once.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use omni_family::embedded_checkpoint;
use omni_models::testing::tiny;
use omni_models::{CheckpointSource, DType, Kernels, LoadOptions, SpeechModel};

/// Place of the computation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// An NVIDIA device, by number.
    Device(usize),
    /// A GPU's kernels on the processor.
    #[cfg(feature = "emulator")]
    Emulated,
}

impl Place {
    /// Checks that the place can compute; returns its description.
    ///
    /// # Errors
    /// The reason why nothing can be computed there.
    pub fn probe(self) -> Result<String, String> {
        match self {
            Self::Device(number) => device(number),
            #[cfg(feature = "emulator")]
            Self::Emulated => Ok("none: the kernels run on the processor".to_owned()),
        }
    }

    /// The kernels that compute there.
    pub fn kernels(self, graphs: bool) -> Kernels {
        match self {
            Self::Device(device) => Kernels::Cuda { device, graphs },
            #[cfg(feature = "emulator")]
            Self::Emulated => Kernels::Emulated { graphs },
        }
    }
}

#[cfg(feature = "cuda")]
fn device(number: usize) -> Result<String, String> {
    // One that is there and does not open is no missing device, but one on which nothing holds.
    omni_gpu::Cuda::probe(number).map_err(|error| error.to_string())
}

#[cfg(not(feature = "cuda"))]
fn device(number: usize) -> Result<String, String> {
    Err(format!(
        "device {number} cannot be used: this build has no kernels for NVIDIA devices"
    ))
}

/// Location of the embedded checkpoint: a folder, or this program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Embedded(Option<PathBuf>);

impl Embedded {
    /// Opens the embedded model in a folder.
    pub fn at(folder: PathBuf) -> Self {
        Self(Some(folder))
    }

    pub(super) fn source(&self) -> anyhow::Result<CheckpointSource> {
        self.or(embedded_checkpoint())
    }

    fn or(&self, compiled_in: anyhow::Result<CheckpointSource>) -> anyhow::Result<CheckpointSource> {
        match &self.0 {
            Some(folder) => Ok(CheckpointSource::Dir(folder.clone())),
            None => compiled_in.map_err(|_| {
                anyhow::anyhow!(
                    "no embedded checkpoint is compiled in: give its folder with --embedded (models/embedded/checkpoint in a checkout)"
                )
            }),
        }
    }

    /// Value of a server's `--model`.
    pub(super) fn server_model(&self) -> String {
        // A folder named `embedded` is not the compiled-in model that this name means to a server.
        let whole = |folder: &PathBuf| {
            folder
                .canonicalize()
                .unwrap_or_else(|_| Path::new(".").join(folder))
        };
        let folder = self.0.as_ref().map(|folder| whole(folder).display().to_string());
        folder.unwrap_or_else(|| "embedded".to_owned())
    }
}

/// A checkpoint that is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Which {
    /// Random weights with reference outputs.
    Tiny,
    /// The embedded voice.
    Embedded,
    /// Published shapes of what speaks, with random weights.
    Published(&'static str),
}

/// Implementation that computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum By {
    /// The processor, in f32.
    Cpu,
    /// The device in f32, launch by launch.
    Launches,
    /// The device in f32, in graphs.
    Graphs,
    /// The device in bf16, in graphs.
    Halves,
    /// The device in bf16, launch by launch.
    LaunchedHalves,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Models {
    place: Place,
    embedded: Embedded,
    loaded: RefCell<BTreeMap<(Which, By), Rc<SpeechModel>>>,
    /// Graph counters of models dropped since.
    dropped: RefCell<Vec<Graphs>>,
}

/// Statistics of a model's graphs.
#[derive(Debug)]
pub(super) struct Graphs {
    pub(super) recorded: u64,
    pub(super) replays: u64,
    pub(super) fallbacks: u64,
    /// Reasons why steps were not run as graphs.
    pub(super) reasons: Vec<String>,
}

impl Graphs {
    fn of(model: &SpeechModel) -> Self {
        let figures = model.gpu_figures().unwrap_or_default();
        Self {
            recorded: figures.graphs,
            replays: figures.replays,
            fallbacks: figures.fallbacks,
            reasons: model.take_gpu_fallbacks(),
        }
    }
}

impl By {
    fn has_graphs(self) -> bool {
        matches!(self, Self::Graphs | Self::Halves)
    }
}

impl Models {
    pub(super) fn at(place: Place, embedded: Embedded) -> Self {
        Self {
            place,
            embedded,
            loaded: RefCell::default(),
            dropped: RefCell::default(),
        }
    }

    pub(super) fn get(&self, which: Which, by: By) -> anyhow::Result<Rc<SpeechModel>> {
        if let Some(model) = self.loaded.borrow().get(&(which, by)) {
            return Ok(Rc::clone(model));
        }
        let source = match which {
            Which::Tiny => tiny(),
            Which::Embedded => self.embedded.source()?,
            Which::Published(name) => CheckpointSource::Random(name.parse()?),
        };
        self.load(which, by, source)
    }

    /// Loads a checkpoint as that one.
    pub(super) fn load(
        &self,
        which: Which,
        by: By,
        source: CheckpointSource,
    ) -> anyhow::Result<Rc<SpeechModel>> {
        let model = Rc::new(load(source, self.place, by)?);
        self.loaded.borrow_mut().insert((which, by), Rc::clone(&model));
        Ok(model)
    }

    /// Drops models of published shapes, which leave no room for others on the device; what became of their graphs is
    /// kept.
    pub(super) fn drop_published(&self) {
        self.loaded.borrow_mut().retain(|(which, by), model| {
            let kept = !matches!(which, Which::Published(_));
            if !kept && by.has_graphs() {
                self.dropped.borrow_mut().push(Graphs::of(model));
            }
            kept
        });
    }

    /// Takes the statistics of the graphs of each model that computes in graphs.
    pub(super) fn take_graphs(&self) -> Vec<Graphs> {
        let loaded = self.loaded.borrow();
        let with_graphs = loaded.iter().filter(|((_, by), _)| by.has_graphs());
        let mut graphs = self.dropped.take();
        graphs.extend(with_graphs.map(|(_, model)| Graphs::of(model)));
        graphs
    }
}

fn load(source: CheckpointSource, place: Place, by: By) -> anyhow::Result<SpeechModel> {
    let (kernels, dtype) = match by {
        By::Cpu => (Kernels::Auto, DType::F32),
        By::Launches => (place.kernels(false), DType::F32),
        By::Graphs => (place.kernels(true), DType::F32),
        By::Halves => (place.kernels(true), DType::Bf16),
        By::LaunchedHalves => (place.kernels(false), DType::Bf16),
    };
    let options = LoadOptions {
        dtype,
        kernels,
        ..LoadOptions::default()
    };
    Ok(SpeechModel::load(source, options)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_that_is_given_goes_before_what_is_compiled_in_and_without_both_the_option_is_named() {
        let folder = Embedded::at("models/embedded/checkpoint".into());
        let none = || Err(anyhow::anyhow!("this build has none"));
        let compiled_in = || Ok(CheckpointSource::Memory(&[]));
        for from in [none(), compiled_in()] {
            let source = folder.or(from).expect("a folder");
            assert!(matches!(source, CheckpointSource::Dir(path) if path.ends_with("checkpoint")));
        }
        for name in ["no-such-folder/embedded", "embedded"] {
            assert_eq!(Embedded::at(name.into()).server_model(), format!("./{name}"));
        }
        let own = Path::new(env!("CARGO_MANIFEST_DIR"));
        let found = Embedded::at(own.join("src/..")).server_model();
        assert_eq!(Path::new(&found), own.canonicalize().expect("it is there"));
        let own = Embedded::default();
        assert!(matches!(own.or(compiled_in()), Ok(CheckpointSource::Memory(_))));
        assert_eq!(own.server_model(), "embedded");
        let refused = own.or(none()).expect_err("there is none").to_string();
        assert!(refused.contains("--embedded"), "{refused}");
    }

    /// A name of published shapes.
    #[cfg(feature = "emulator")]
    const PUBLISHED: Which = Which::Published("random:qwen3-tts-0.6b");

    #[cfg(feature = "emulator")]
    fn emulated() -> Models {
        Models::at(Place::Emulated, Embedded::default())
    }

    /// The tiny checkpoint in the place of published shapes, which are too large for the emulator.
    #[cfg(feature = "emulator")]
    fn published(models: &Models, by: By) -> Rc<SpeechModel> {
        models.load(PUBLISHED, by, tiny()).expect("it is loaded")
    }

    #[cfg(feature = "emulator")]
    fn speak(model: &SpeechModel) {
        use omni_models::testing::{kv, sampled};
        let text = model.tokenizer().encode("hello").expect("text");
        let mut talker = model.talker(kv()).expect("a talker");
        let spoken = omni_models::testing::speak(&mut talker, 0, sampled(1, 3), &text);
        assert!(!spoken.expect("it speaks").is_empty());
    }

    #[test]
    #[cfg(feature = "emulator")]
    fn models_of_published_shapes_are_freed_and_all_others_stay_loaded() {
        let models = emulated();
        let kept = models.get(Which::Tiny, By::Launches).expect("it is loaded");
        let freed = [By::Launches, By::Graphs].map(|by| Rc::downgrade(&published(&models, by)));
        assert!(
            freed.iter().all(|model| model.upgrade().is_some()),
            "they stay loaded until they are dropped"
        );
        models.drop_published();
        assert!(freed.iter().all(|model| model.upgrade().is_none()));
        let again = models.get(Which::Tiny, By::Launches).expect("it is loaded");
        assert!(Rc::ptr_eq(&kept, &again), "it is not loaded a second time");
    }

    #[test]
    #[cfg(feature = "emulator")]
    fn graphs_of_a_dropped_model_are_counted_once_beside_those_of_loaded_ones() {
        let models = emulated();
        let counts = |graphs: Vec<Graphs>| -> Vec<_> {
            graphs
                .iter()
                .map(|graphs| (graphs.recorded, graphs.replays))
                .collect()
        };
        let kept = models.get(Which::Tiny, By::Graphs).expect("it is loaded");
        let dropped = published(&models, By::Graphs);
        speak(&dropped);
        speak(&published(&models, By::Launches));
        let figures = dropped.gpu_figures().expect("a GPU");
        assert!(figures.graphs > 0 && figures.replays > 0, "{figures:?}");
        drop(dropped);
        models.drop_published();
        assert_eq!(
            counts(models.take_graphs()),
            [(figures.graphs, figures.replays), (0, 0)]
        );
        speak(&kept);
        let figures = kept.gpu_figures().expect("a GPU");
        assert_eq!(counts(models.take_graphs()), [(figures.graphs, figures.replays)]);
    }
}
