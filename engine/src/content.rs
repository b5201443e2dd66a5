//! Content keys of positions, and the chained hashes over them, for sharing KV rows.
//!
//! Two sequences may share a block exactly if everything up to its end is the same: token ids, prompt embeddings,
//! audio, and the tenant. Keys say that per position, [`Chain`] folds them into one hash per full block that depends on
//! every position before it. SHA-256, because a collision would put one caller's words into another caller's context.

use std::hash::{BuildHasherDefault, Hasher};

use sha2::{Digest, Sha256};

/// Content of one position of a sequence, for the prefix cache.
///
/// Equal keys after equal prefixes must mean equal KV rows: whatever the model computes a position from besides the
/// positions before it (token id, embedding row, audio, rotary position) belongs in its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ContentKey(u128);

impl ContentKey {
    /// A token of the model's vocabulary.
    pub const fn token(id: u32) -> Self {
        Self(id as u128)
    }

    /// Key of anything but a token, by its bytes. Never equal to a token's key.
    pub fn digest(bytes: &[u8]) -> Self {
        Self::finish(Sha256::new().chain_update(b"bytes").chain_update(bytes))
    }

    /// An embedding row, by its numbers.
    pub fn row(row: &[f32]) -> Self {
        let mut hash = Sha256::new().chain_update(b"row");
        for number in row {
            hash.update(number.to_le_bytes());
        }
        Self::finish(hash)
    }

    /// Key of position `index` of an object that takes several positions and has this key as a whole (an audio clip).
    #[must_use]
    pub fn nth(self, index: u32) -> Self {
        let hash = Sha256::new()
            .chain_update(b"nth")
            .chain_update(self.0.to_le_bytes());
        Self::finish(hash.chain_update(index.to_le_bytes()))
    }

    /// Appends the bytes of the key; no key's bytes begin another's.
    fn write(self, bytes: &mut Vec<u8>) {
        match u32::try_from(self.0) {
            Ok(token) => {
                bytes.push(0);
                bytes.extend(token.to_le_bytes());
            }
            Err(_) => {
                bytes.push(1);
                bytes.extend(self.0.to_le_bytes());
            }
        }
    }

    fn finish(hash: Sha256) -> Self {
        let digest: [u8; 32] = hash.finalize().into();
        let (low, _) = digest.split_at(16);
        let low = low.try_into().map_or(0, u128::from_le_bytes);
        // The top bit keeps digests apart from token ids.
        Self(low | 1 << 127)
    }
}

/// Sequences with different salts share nothing. Callers number their tenants; they do not hash them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct CacheSalt(pub u64);

/// Identifies the content of one full block and of everything before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockHash([u8; 32]);

impl std::hash::Hash for BlockHash {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let (word, _) = self.0.split_at(8);
        state.write_u64(word.try_into().map_or(0, u64::from_le_bytes));
    }
}

/// Hasher that passes a [`BlockHash`] on: it is evenly distributed already.
#[derive(Debug, Default)]
pub(crate) struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = word;
    }
}

/// A map from block hashes.
pub(crate) type ByHash<T> = std::collections::HashMap<BlockHash, T, BuildHasherDefault<Spread>>;

/// The hashes of a sequence's full blocks, first to last.
#[derive(Debug)]
pub(crate) struct Chain {
    salt: CacheSalt,
    hashes: Vec<BlockHash>,
}

impl Chain {
    pub(crate) fn new(salt: CacheSalt) -> Self {
        let hashes = Vec::new();
        Self { salt, hashes }
    }

    pub(crate) fn hashes(&self) -> &[BlockHash] {
        &self.hashes
    }

    pub(crate) fn len(&self) -> u32 {
        self.hashes.len() as u32
    }

    /// Appends the blocks that `keys` fill, `block_size` keys each.
    pub(crate) fn extend(&mut self, keys: &[ContentKey], block_size: u32) {
        let mut bytes = Vec::with_capacity(64 + 17 * block_size as usize);
        for block in keys.chunks_exact(block_size as usize) {
            bytes.clear();
            match self.hashes.last() {
                Some(parent) => bytes.extend(parent.0),
                None => bytes.extend(self.salt.0.to_le_bytes()),
            }
            for key in block {
                key.write(&mut bytes);
            }
            self.hashes.push(BlockHash(Sha256::digest(&bytes).into()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(salt: u64, tokens: &[u32]) -> Chain {
        let mut chain = Chain::new(CacheSalt(salt));
        let keys: Vec<_> = tokens.iter().map(|&id| ContentKey::token(id)).collect();
        chain.extend(&keys, 2);
        chain
    }

    #[test]
    fn a_blocks_hash_depends_on_everything_before_it_and_on_the_tenant() {
        let a = chain(1, &[1, 2, 3, 4]);
        let b = chain(1, &[9, 2, 3, 4]);
        let c = chain(2, &[1, 2, 3, 4]);
        assert_eq!(
            a.hashes()[0],
            chain(1, &[1, 2, 7]).hashes()[0],
            "only full blocks count"
        );
        assert_ne!(a.hashes()[1], b.hashes()[1], "another first token");
        assert_ne!(a.hashes()[0], c.hashes()[0], "another tenant");
    }

    #[test]
    fn extending_in_pieces_gives_the_same_hashes() {
        let mut pieces = chain(1, &[1, 2]);
        pieces.extend(&[ContentKey::token(3), ContentKey::token(4)], 2);
        assert_eq!(pieces.hashes(), chain(1, &[1, 2, 3, 4]).hashes());
    }

    #[test]
    fn rows_bytes_and_tokens_never_look_alike() {
        let row = [0.5f32, -1.0];
        let bytes: Vec<u8> = row.iter().flat_map(|x| x.to_le_bytes()).collect();
        assert_ne!(ContentKey::row(&row), ContentKey::digest(&bytes));
        assert_ne!(ContentKey::row(&row), ContentKey::row(&[0.5, 1.0]));
        assert_ne!(ContentKey::digest(&[]).nth(0), ContentKey::digest(&[]).nth(1));
        assert!(ContentKey::digest(&7u32.to_le_bytes()).0 > u128::from(u32::MAX));
    }
}
