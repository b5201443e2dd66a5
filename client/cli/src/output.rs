//! Destination of the audio, checked before any request, so that no speech is wasted.

use std::fs::{self, File, OpenOptions};
use std::io::{self, IsTerminal as _, Seek as _, Write as _};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

use omni_audio::{Chunk, Encoder, SampleRate, Samples, WAV_HEADER_LEN, WavHeader, from_i16, i16_from_s16le};
use rustix::fs::{OFlags, fcntl_getfl};

use super::failure::Failure;
use super::format::Format;

/// Offset of the low 32 bits of the number of samples in a FLAC stream (RFC 9639, 8.2): behind the mark, the head of
/// the first block, and 14 bytes of STREAMINFO.
const FLAC_TOTAL: u64 = 4 + 4 + 14;

/// An opened destination. An old file is kept until the first sample.
#[derive(Debug)]
pub(crate) struct Output {
    file: File,
    path: Option<PathBuf>,
    format: Format,
    /// `true` for a regular file of our own, which can be emptied.
    regular: bool,
    /// Offset of the header, if it can be corrected.
    header_at: Option<u64>,
    /// `true` if the file did not exist before.
    created: bool,
    /// `true` if the file had content.
    replaces: bool,
    header: Option<WavHeader>,
    /// Encoder of formats other than plain samples.
    encoder: Option<Encoder>,
    written: Samples,
}

impl Output {
    /// Opens `path` (`-` is standard output) for audio of the format that its ending or `format` names.
    pub(crate) fn open(path: &Path, format: Option<Format>) -> Result<Self, Failure> {
        if path == Path::new("-") {
            Self::stdout(format)
        } else {
            Self::named(path, format)
        }
    }

    fn stdout(format: Option<Format>) -> Result<Self, Failure> {
        let stdout = io::stdout();
        if stdout.is_terminal() {
            return Err(Failure::Usage(
                "refusing to write audio to a terminal\n  \
                 pipe it (`| aplay -q`), redirect it (`> speech.wav`) or name a file instead of -"
                    .into(),
            ));
        }
        let file = stdout.as_fd().try_clone_to_owned().map(File::from);
        let file = file.map_err(|error| Failure::write("standard output", error))?;
        let header_at = rewritable(&file);
        let mut output = Self::new(file, None, format.unwrap_or(Format::Wav), false, false);
        output.header_at = header_at;
        Ok(output)
    }

    fn named(path: &Path, format: Option<Format>) -> Result<Self, Failure> {
        let existing = fs::metadata(path).ok();
        let special = existing
            .as_ref()
            .is_some_and(|meta| !meta.is_file() && !meta.is_dir());
        let format = format
            .or_else(|| Format::of(path))
            .or(special.then_some(Format::Wav));
        let format = format.ok_or_else(|| unknown_ending(path))?;
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(path);
        let file = file.map_err(|error| Failure::write(&path.display().to_string(), error))?;
        let replaces = !special && existing.as_ref().is_some_and(|meta| meta.len() > 0);
        let created = existing.is_none();
        Ok(Self {
            replaces,
            ..Self::new(file, Some(path.to_owned()), format, !special, created)
        })
    }

    fn new(file: File, path: Option<PathBuf>, format: Format, regular: bool, created: bool) -> Self {
        Self {
            file,
            path,
            format,
            regular,
            header_at: regular.then_some(0),
            created,
            replaces: false,
            header: None,
            encoder: None,
            written: Samples::ZERO,
        }
    }

    /// Name for messages.
    pub(crate) fn name(&self) -> String {
        self.path
            .as_ref()
            .map_or_else(|| "standard output".to_owned(), |path| path.display().to_string())
    }

    /// Returns true if the audio replaces the content of a file.
    pub(crate) fn replaces(&self) -> bool {
        self.replaces
    }

    pub(crate) fn format(&self) -> Format {
        self.format
    }

    /// Writes samples; the header goes before the first.
    pub(crate) fn write(&mut self, rate: SampleRate, pcm: &[u8]) -> io::Result<()> {
        if self.header.is_none() {
            self.begin(WavHeader::mono(rate))?;
        }
        self.written += Samples(pcm.len() as u64 / 2);
        let Some(encoder) = &mut self.encoder else {
            return self.file.write_all(pcm);
        };
        let samples: Vec<f32> = i16_from_s16le(pcm).map(from_i16).collect();
        let mut chunks = Vec::new();
        encoder.push(&samples, &mut chunks);
        self.write_chunks(&chunks)
    }

    fn write_chunks(&mut self, chunks: &[Chunk]) -> io::Result<()> {
        chunks
            .iter()
            .try_for_each(|chunk| self.file.write_all(&chunk.data))
    }

    fn begin(&mut self, header: WavHeader) -> io::Result<()> {
        if self.regular {
            self.file.set_len(0)?;
        }
        self.header = Some(header);
        match self.format {
            Format::Wav => self.file.write_all(&header.streaming()),
            Format::Pcm => Ok(()),
            format => {
                let format = omni_audio::Format::new(format.encoding(), header.rate.hz());
                let format = format.map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
                // One stream is all that is in the file.
                self.encoder = Some(Encoder::new(format, 1));
                Ok(())
            }
        }
    }

    /// Completes the file: writes the final sizes into the header and the rest of an encoder, or removes a file that
    /// got no audio.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        if let Some(encoder) = self.encoder.take() {
            let mut rest = Vec::new();
            encoder.finish(&mut rest);
            self.write_chunks(&rest)?;
            return match (self.format, self.header_at) {
                (Format::Flac, Some(at)) => self.count_flac(at),
                _ => Ok(()),
            };
        }
        match (self.header, self.format, self.header_at) {
            (None, ..) if self.created => self.path.as_ref().map_or(Ok(()), fs::remove_file),
            (Some(header), Format::Wav, Some(at)) => self.correct(header, at),
            _ => Ok(()),
        }
    }

    /// Writes the number of samples into the header of a FLAC stream, which was not known when it was written.
    fn count_flac(&mut self, at: u64) -> io::Result<()> {
        // More than 32 of the 36 bits are two days of audio; such a stream stays one of unknown length.
        let Ok(total) = u32::try_from(self.written.0) else {
            return Ok(());
        };
        let end = self.file.stream_position()?;
        self.file.seek(io::SeekFrom::Start(at + FLAC_TOTAL))?;
        self.file.write_all(&total.to_be_bytes())?;
        // Other writers to a shared standard output go on behind the audio.
        self.file.seek(io::SeekFrom::Start(end))?;
        Ok(())
    }

    fn correct(&mut self, header: WavHeader, at: u64) -> io::Result<()> {
        let end = at + WAV_HEADER_LEN as u64 + self.written.0 * 2;
        if self.regular {
            // Part of a sample may be there if writing failed half way.
            let length = self.file.seek(io::SeekFrom::End(0))?;
            self.file.set_len(length.min(end))?;
        }
        self.file.seek(io::SeekFrom::Start(at))?;
        self.file.write_all(&header.finished(self.written))?;
        // Another program that shares standard output goes on behind the audio.
        self.file.seek(io::SeekFrom::Start(end))?;
        Ok(())
    }
}

/// Position in `file`, if it can be rewritten from there: a regular file that not every write appends to.
fn rewritable(file: &File) -> Option<u64> {
    let regular = file.metadata().is_ok_and(|meta| meta.is_file());
    let appends = fcntl_getfl(file).map_or(true, |flags| flags.contains(OFlags::APPEND));
    let mut file = file;
    (regular && !appends)
        .then(|| file.stream_position().ok())
        .flatten()
}

fn unknown_ending(path: &Path) -> Failure {
    let what = match path.extension() {
        Some(ending) => format!("no audio format is known for .{}", ending.to_string_lossy()),
        None => format!("{} has no ending that names a format", path.display()),
    };
    Failure::Usage(format!(
        "{what}\n  use {}, or name the format with --format",
        Format::ENDINGS
    ))
}
