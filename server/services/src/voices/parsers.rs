//! The reader of voices' files by itself, for tests that feed it arbitrary bytes.

use super::file;

/// Reads a file of a voice, and writes what it holds.
pub fn file(bytes: &[u8]) {
    let Ok(voice) = file::decode(bytes) else { return };
    // Fields of a file that a voice does not hold are not written, so that it can be read again.
    let again = file::encode(&voice).ok().map(|bytes| file::decode(&bytes));
    if let Some(Ok(again)) = again {
        assert_eq!(again, voice, "what is written says the same");
    }
}
